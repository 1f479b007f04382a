//! Throughput, IOPS, latency and CPU time of an operation over I/O sizes; with a single size, by path.

use crate::plan::{IoSize, Transfers};
use stormlp_core::path::PathKind;
use stormlp_core::units::GIB;

use super::super::mix;
use super::{CellGroup, Operation};
use stormlp_show::chart::{Axis, Bar, Chart, Group, Line, Scale};

/// A quantity of a cell: its name, its unit and where it is.
pub(super) type Quantity = (&'static str, &'static str, fn(&CellGroup<'_>) -> Option<f64>);

const THROUGHPUT: Quantity =
    ("Throughput", "GiB/s", |group| group.throughput().map(|rate| rate.value));
const IOPS: Quantity = ("IOPS", "IOPS", |group| group.known(|m| Some(m.iops)));
const CPU: Quantity =
    ("CPU time", "CPU seconds per GiB", |group| group.known(|m| Some(m.cpu_seconds_per_gib)));
const P99: Quantity = ("p99 latency", "µs", |group| group.known(|m| m.latency_us.p99));
const MEAN: Quantity = ("Mean latency", "µs", |group| group.known(|m| Some(m.latency_us.mean)));

/// The latency that charts of these cells show: p99 of those that have one. One chart does not mix
/// percentiles with means.
pub(super) fn latency(groups: &[&CellGroup<'_>]) -> Quantity {
    if groups.iter().any(|group| (P99.2)(group).is_some()) { P99 } else { MEAN }
}

/// Which of these cells have no p99, and the figures shown of them.
pub(super) fn without_p99(groups: &[&CellGroup<'_>]) -> Option<String> {
    let lacking = groups.iter().filter(|group| (P99.2)(group).is_none()).count();
    let all = groups.len();
    match lacking {
        0 => None,
        lacking if lacking == all => {
            Some("Mean latency, since every cell has too few transfers for a p99.".to_string())
        }
        lacking => Some(format!(
            "No p99 of {lacking} of {all} cells, which have too few transfers for one."
        )),
    }
}

/// The figures of each direction of a mix of reads and writes, and the cost of both.
const MIXED: [Quantity; 5] = [
    ("Read throughput", "GiB/s", |group| mix::known(group, mix::reads, gib_per_second)),
    ("Write throughput", "GiB/s", |group| mix::known(group, mix::writes, gib_per_second)),
    ("p99 latency of reads", "µs", |group| mix::known(group, mix::reads, p99)),
    ("p99 latency of writes", "µs", |group| mix::known(group, mix::writes, p99)),
    CPU,
];

fn p99(part: &Transfers) -> Option<f64> {
    part.latency_us?.p99
}

fn gib_per_second(part: &Transfers) -> Option<f64> {
    Some(part.throughput_bytes_per_second / GIB as f64)
}

fn is_mixed(operation: &Operation<'_>) -> bool {
    let mut results = operation.groups.iter().flat_map(|group| group.results());
    results.any(|numbers| numbers.mix.is_some())
}

/// The contents of an operation's charts.
fn quantities(operation: &Operation<'_>) -> Vec<Quantity> {
    if is_mixed(operation) {
        return MIXED.into();
    }
    vec![THROUGHPUT, IOPS, latency(&operation.groups), CPU]
}

/// The charts that answer how fast each path is.
pub(super) fn charts(operation: &Operation<'_>) -> Group {
    let sizes: Vec<IoSize> = operation.sizes().into_iter().filter(|size| size.is_fixed()).collect();
    let mut drawn = Group::new("");
    let quantities = quantities(operation);
    if sizes.len() > 1 {
        drawn.title = format!("{} over I/O size", operation.name);
        let charts = quantities.iter().map(|one| over_sizes(operation, &sizes, one));
        drawn.charts.extend(charts.flatten());
    } else if let Some(size) = operation.sizes().first() {
        let groups = operation.side_by_side(*size);
        drawn.title = match groups.first() {
            Some(group) => group.key.title(),
            None => operation.name.clone(),
        };
        let charts = quantities.iter().map(|one| by_path(operation, &groups, one));
        drawn.charts.extend(charts.flatten());
    }
    if drawn.charts.is_empty() {
        return drawn;
    }
    if operation.settings() > 1 {
        drawn.absent.push(
            "The fastest settings of threads and depth, of those that moved bytes of storage if any \
             did."
                .to_string(),
        );
    }
    if !is_mixed(operation) {
        drawn.absent.extend(without_p99(&operation.groups));
    }
    drawn
}

/// A line for each path, on logarithmic axes. Where memory served cells, they have a separate line,
/// which interrupts the storage's.
fn over_sizes(operation: &Operation<'_>, sizes: &[IoSize], quantity: &Quantity) -> Option<Chart> {
    let fastest = |path: PathKind, size: &IoSize| {
        operation.of_size(*size).into_iter().find(|group| group.key.path == path)
    };
    let line = |name: String, cells: &[&CellGroup<'_>]| {
        let point = |group: &&CellGroup<'_>| {
            let value = (quantity.2)(group).filter(|_| operation.name_of(group) == name);
            (group.key.io_size.max_bytes as f64, value.unwrap_or(f64::NAN))
        };
        let points: Vec<(f64, f64)> = cells.iter().map(point).collect();
        Line::new(name, points)
    };
    let mut lines = Vec::new();
    for path in operation.paths() {
        let cells: Vec<&CellGroup<'_>> =
            sizes.iter().filter_map(|size| fastest(path, size)).collect();
        lines.extend(operation.names(&cells).into_iter().map(|name| line(name, &cells)));
    }
    let (x, y) = (Axis::new("I/O size", Scale::Sizes), Axis::new(quantity.1, Scale::Log));
    Chart::lines(format!("{} over I/O size", quantity.0), x, y, lines)
}

/// A bar for each path at one setting.
fn by_path(
    operation: &Operation<'_>,
    groups: &[&CellGroup<'_>],
    quantity: &Quantity,
) -> Option<Chart> {
    let bar =
        |group: &&CellGroup<'_>| Some(Bar::one(operation.name_of(group), (quantity.2)(group)?));
    let bars = groups.iter().filter_map(bar).collect();
    Chart::bars(quantity.0, quantity.1, bars)
}
