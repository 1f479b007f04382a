//! What was asked of an object store, and what passed over the wire.

use stormlp_core::evidence::ObjectStore;
use stormlp_core::units::ByteSize;
use stormlp_show::document::{Cell, Column, Table};

use super::group::CellGroup;

/// A row for each setting that moved objects: the counts of all its cells, warm-up included; `None`
/// without any.
pub(super) fn table(groups: &[CellGroup<'_>]) -> Option<Table> {
    let words = ["op", "I/O", "threads", "depth"].map(|name| Column::words(name, 0));
    let counts = ["connections", "requests", "retries", "of them after losses", "sent", "received"];
    let numbers = counts.map(|name| Column::numbers(name, 0));
    let mut table = Table::new(words.into_iter().chain(numbers));
    for group in groups {
        let stores = group.cells.iter().filter_map(|cell| cell.evidence.as_ref());
        let stores = stores.filter_map(|evidence| evidence.object_store.clone());
        let Some(store) = stores.reduce(|sum, one| sum.plus(&one)) else { continue };
        table.row(group.key.name(), row(group, &store));
    }
    (!table.rows.is_empty()).then_some(table)
}

fn row(group: &CellGroup<'_>, store: &ObjectStore) -> Vec<Cell> {
    let combination = &group.key.combination;
    let connections = match &store.client {
        Some(_) => "-".to_string(),
        None => store.connections.to_string(),
    };
    vec![
        combination.operation().into(),
        combination.io_size().into(),
        combination.threads.to_string().into(),
        combination.queue_depth.to_string().into(),
        connections.into(),
        store.requests.to_string().into(),
        store.retries.to_string().into(),
        store.retries_after_loss.to_string().into(),
        ByteSize(store.sent_bytes).to_string().into(),
        ByteSize(store.received_bytes).to_string().into(),
    ]
}
