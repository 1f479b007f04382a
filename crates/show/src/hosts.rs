//! The hosts of a multi-host run: how they found each other, and the cost of barriers.

use stormlp_core::group::GroupFacts;
use stormlp_core::report::HostShare;
use stormlp_core::stats::median;
use stormlp_core::units::{ByteSize, counted};

use crate::document::{Cell, Column, Document, Facts, Table};
use crate::numbers::percent;

/// Below this share of the time at once, the rates of hosts are not added up.
pub const SUMMED_AT_ONCE: f64 = 0.9;

/// A host below this share of the median of the rest is slow.
const SLOW_SHARE: f64 = 0.5;

/// The slowest of several hosts.
#[derive(Debug, Clone, PartialEq)]
pub struct SlowestHost<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its rate.
    pub rate: f64,
    /// The median rate of all other hosts.
    pub median: f64,
}

impl<'a> SlowestHost<'a> {
    /// The slowest of hosts with these rates; `None` for a single host.
    pub fn of(rates: &[(&'a str, f64)]) -> Option<Self> {
        let (name, rate) = *rates.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
        let rest = rates.iter().filter(|one| one.0 != name).map(|one| one.1);
        let rest: Vec<f64> = rest.collect();
        (!rest.is_empty()).then(|| Self { name, rate, median: median(&rest) })
    }

    /// Whether it is so slow that it, not the storage, may be the limit.
    pub fn is_slow(&self) -> bool {
        self.rate < SLOW_SHARE * self.median
    }
}

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

/// Suffix for a value of this process if several participate.
pub fn for_each(group: Option<&GroupFacts>, count: usize) -> String {
    match count {
        0 | 1 => String::new(),
        count => format!(", and as many for each of {}", processes(group, count)),
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
    let all: u64 = shares.iter().map(|share| share.slowest).sum();
    for share in shares {
        let slowest = percent(share.slowest as f64 / all.max(1) as f64);
        let cells = [
            share.name.clone(),
            ByteSize(share.bytes).to_string(),
            format!("{:.2}", share.cpu_seconds),
            format!("{} ({slowest})", share.slowest),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_slow_below_half_of_the_median_of_the_rest() {
        let of = |rates: &[(&'static str, f64)]| SlowestHost::of(rates).unwrap();
        let four = of(&[("n1", 500.0), ("n2", 520.0), ("n3", 30.0), ("n4", 510.0)]);
        assert_eq!((four.name, four.rate, four.median), ("n3", 30.0, 510.0));
        assert!(four.is_slow());
        assert!(!of(&[("n1", 60.0), ("n2", 100.0)]).is_slow());
        assert!(of(&[("n1", 40.0), ("n2", 100.0)]).is_slow());
        assert_eq!(SlowestHost::of(&[("n1", 1.0)]), None);
    }
}
