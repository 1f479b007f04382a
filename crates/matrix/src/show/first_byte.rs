//! Time to first byte: from a GET of an object to the head of its reply.

use stormlp_core::histogram::NamedHistogram;
use stormlp_show::document::{Cell, Column, Quantity, Table};

use super::group::CellGroup;
use crate::plan::CellReport;

/// The times to first byte of a cell's transfers, if they were GETs of objects.
pub(super) fn of(cell: &CellReport) -> Option<&NamedHistogram> {
    cell.evidence.as_ref()?.first_byte()
}

/// A row for each setting whose transfers were GETs of objects; `None` without any.
pub(super) fn table(groups: &[CellGroup<'_>]) -> Option<Table> {
    let words = ["op", "I/O", "threads", "depth"].map(|name| Column::words(name, 0));
    let numbers = ["mean µs", "p50 µs", "p99 µs", "max µs"].map(|name| Column::numbers(name, 0));
    let mut table = Table::new(words.into_iter().chain(numbers));
    for group in groups {
        let known = |number: fn(&NamedHistogram) -> Option<f64>| {
            let measured = group.cells.iter().filter(|cell| cell.result().is_some());
            let values = measured.map(|cell| number(of(cell)?));
            let values: Option<Vec<f64>> = values.collect();
            let values = values.filter(|values| !values.is_empty())?;
            Some(values.iter().sum::<f64>() / values.len() as f64)
        };
        let Some(mean) = known(|one| Some(one.summary_us.mean)) else { continue };
        let us = |value: Option<f64>| {
            value.map_or(Cell::from("-"), |us| Quantity::lower(us, "µs").into())
        };
        let combination = &group.key.combination;
        let row = vec![
            combination.operation().into(),
            combination.io_size().into(),
            combination.threads.to_string().into(),
            combination.queue_depth.to_string().into(),
            us(Some(mean)),
            us(known(|one| one.summary_us.p50)),
            us(known(|one| one.summary_us.p99)),
            us(known(|one| Some(one.summary_us.max))),
        ];
        table.row(group.key.name(), row);
    }
    (!table.rows.is_empty()).then_some(table)
}
