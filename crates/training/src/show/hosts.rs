//! The hosts of a training run with several: each host's share, and the cost of their barriers.

use crate::report::TrainReport;
use stormlp_core::units::ByteSize;

use stormlp_show::document::{Cell, Column, Document, Quantity, Table};
use stormlp_show::hosts::describe;

/// Number of steps at whose end a host came last, if steps had barriers.
fn slowest(steps: Option<u64>) -> Cell {
    steps.map_or_else(|| "-".into(), |steps| Cell::Text(steps.to_string()))
}

/// A row per host, and the barriers between hosts; nothing for a single host.
pub(super) fn section(report: &TrainReport, document: &mut Document) {
    let results = &report.results;
    let Some(group) = &results.group else {
        return;
    };
    let mut table = Table::new([
        Column::words("host", 0),
        Column::numbers("accelerators", 1),
        Column::numbers("AU %", 0),
        Column::numbers("read", 1),
        Column::numbers("slowest in steps", 0),
    ]);
    for host in &results.hosts {
        table.row(
            host.name.clone(),
            vec![
                host.name.clone().into(),
                Cell::Text(host.accelerators.to_string()),
                Quantity::higher(host.au_percent, "%").into(),
                Cell::Text(ByteSize(host.bytes_read).to_string()),
                slowest(host.slowest_steps),
            ],
        );
    }
    let facts = &mut document.details("Hosts", Some(table)).facts;
    describe(group, facts);
    if let Some(ideal) = group.ideal_au_percent {
        facts.add("AU without barrier cost", format!("{ideal:.1} %"));
    }
}
