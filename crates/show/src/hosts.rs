//! The hosts of a multi-host run: how they found each other, and the cost of barriers.

use stormlp_core::group::GroupFacts;
use stormlp_core::report::HostShare;
use stormlp_core::units::{ByteSize, counted};

use crate::document::{Cell, Column, Document, Facts, Table};

/// Below this share of the time at once, the rates of hosts are not added up.
pub const SUMMED_AT_ONCE: f64 = 0.9;

/// `3 hosts`, or `6 processes on 3 hosts`.
pub fn processes(group: Option<&GroupFacts>, processes: usize) -> String {
    match group.map_or(0, |group| group.machines.len()) {
        0 => format!("{processes} processes"),
        hosts if hosts == processes => counted(hosts as u64, "host"),
        hosts => {
            format!("{processes} processes on {}", counted(hosts as u64, "host"))
        }
    }
}

/// How the hosts found each other and the cost of their barriers.
pub fn describe(group: &GroupFacts, facts: &mut Facts) {
    facts.add("found by", format!("{} ({})", group.backend, group.library));
    let barriers = [
        ("empty barrier", group.empty_barrier_us),
        ("barrier of a step itself", group.own_barrier_us),
    ];
    for (name, barrier) in barriers {
        if let Some(barrier) = barrier {
            let text = format!("p50 {:.0} µs, p99 {:.0} µs", barrier.p50, barrier.p99);
            facts.add(name, text);
        }
    }
}

/// Suffix for a value of this host if several hosts participate.
pub fn on_each(hosts: usize) -> String {
    match hosts {
        0 | 1 => String::new(),
        hosts => format!(", and as many on each of the {hosts} hosts"),
    }
}

/// One row for the share of each host; `units` are the units it was last to complete. Adds no
/// section for a single host.
pub fn section(
    shares: &[HostShare],
    group: Option<&GroupFacts>,
    units: &str,
    document: &mut Document,
) {
    if shares.is_empty() {
        return;
    }
    let mut table = Table::new([
        Column::words("host", 0),
        Column::numbers("moved", 0),
        Column::numbers("CPU s", 1),
        Column::numbers(format!("slowest of {units}"), 0),
    ]);
    for share in shares {
        let cells = [
            share.name.clone(),
            ByteSize(share.bytes).to_string(),
            format!("{:.2}", share.cpu_seconds),
            share.slowest.to_string(),
        ]
        .into_iter()
        .map(Cell::Text)
        .collect();
        table.row(share.name.clone(), cells);
    }
    let section = document.details("Hosts", Some(table));
    if let Some(group) = group {
        describe(group, &mut section.facts);
    }
}
