//! The requests to an object store, its traffic, and the time to the first byte.

use stormlp_core::evidence::ObjectStore;
use stormlp_core::histogram::NamedHistogram;
use stormlp_core::units::ByteSize;
use stormlp_show::document::{Quantity, Table, number, word};

use super::group::CellGroup;
use crate::plan::CellReport;

/// The times from a GET to the head of its reply, if a cell's transfers were GETs of objects.
pub(super) fn first_byte(cell: &CellReport) -> Option<&NamedHistogram> {
    cell.evidence.as_ref()?.first_byte()
}

/// A setting that moved objects, and the counts of all its cells, warm-up included.
type OfStore<'a> = (&'a CellGroup<'a>, ObjectStore);

/// A row for each setting that moved objects; `None` without any.
pub(super) fn table<'a>(groups: &'a [CellGroup<'a>]) -> Option<Table> {
    let rows = groups.iter().filter_map(|group| {
        let stores = group.cells.iter().filter_map(|cell| cell.evidence.as_ref());
        let stores = stores.filter_map(|evidence| evidence.object_store.clone());
        Some((group, stores.reduce(|sum, one| sum.plus(&one))?))
    });
    let us = |of: fn(&NamedHistogram) -> Option<f64>| {
        move |(group, _): &OfStore<'_>| {
            let measured = group.cells.iter().filter(|cell| cell.result().is_some());
            let values: Option<Vec<f64>> = measured.map(|cell| of(first_byte(cell)?)).collect();
            let values = values.filter(|values| !values.is_empty())?;
            Some(Quantity::lower(values.iter().sum::<f64>() / values.len() as f64, "µs"))
        }
    };
    let table = Table::of(
        rows,
        |(group, _)| group.key.name(),
        vec![
            word("op", 0, |(group, _): &OfStore<'_>| group.key.operation()),
            word("I/O", 0, |(group, _): &OfStore<'_>| group.key.io_size.words()),
            number("threads", 0, |(group, _): &OfStore<'_>| group.key.threads),
            number("depth", 0, |(group, _): &OfStore<'_>| group.key.queue_depth),
            number("connections", 0, |(_, store): &OfStore<'_>| store.connections.to_string()),
            number("requests", 0, |(_, store): &OfStore<'_>| store.requests),
            number("retries", 0, |(_, store): &OfStore<'_>| store.retries),
            number("of them after losses", 0, |(_, store): &OfStore<'_>| store.retries_after_loss),
            number("sent", 0, |(_, store): &OfStore<'_>| ByteSize(store.sent_bytes).to_string()),
            number("received", 0, |(_, store): &OfStore<'_>| {
                ByteSize(store.received_bytes).to_string()
            }),
            number("first byte mean µs", 0, us(|one| Some(one.summary_us.mean))),
            number("p50 µs", 1, us(|one| one.summary_us.p50)),
            number("p99 µs", 0, us(|one| one.summary_us.p99)),
            number("max µs", 1, us(|one| Some(one.summary_us.max))),
        ],
    );
    (!table.rows.is_empty()).then_some(table)
}
