//! An operation under growing load: throughput against latency with the knee.

use stormlp_core::knee;

use super::sizes::{latency, without_p99};
use super::{CellGroup, Operation, in_flight};
use stormlp_show::chart::{Axis, Chart, Group, Line, Scale, Setting};

/// A chart for each size: a line for each path from setting to setting, with its knee. Cells that
/// memory served have a separate line.
pub(super) fn against_latency(operation: &Operation<'_>) -> Group {
    let title = format!("{}: latency against throughput", operation.name);
    let mut drawn = Group::new(title);
    let latency = latency(&operation.groups);
    for size in operation.sizes() {
        let groups = operation.of_size(size);
        let line = |name: String| {
            let is = |group: &&CellGroup<'_>| operation.name_of(group) == name;
            let mut own: Vec<&CellGroup<'_>> = groups.iter().copied().filter(is).collect();
            keep_fastest_of_equal_load(&mut own);
            let rate =
                |group: &CellGroup<'_>| group.throughput().map_or(f64::NAN, |rate| rate.value);
            let setting = |group: &&CellGroup<'_>| Setting {
                name: format!("{}×{}", group.key.threads, group.key.queue_depth),
                // A line leaves out settings without a known latency.
                at: (rate(group), (latency.2)(group).unwrap_or(f64::NAN)),
            };
            let points: Vec<Setting> = own.iter().map(setting).collect();
            Line::through(name, points, knee(&own))
        };
        let lines = operation.names(&groups).into_iter().map(line).collect();
        let (x, y) = (Axis::new("GiB/s", Scale::Log), Axis::new("µs", Scale::Log));
        let title = format!("{} against throughput, {}", latency.0, size.words());
        drawn.charts.extend(Chart::lines(title, x, y, lines));
    }
    if !drawn.charts.is_empty() {
        drawn.absent.push(format!(
            "Settings are threads × depth; the fastest of those in flight alike. The knee is \
             the smallest number in flight within {} % of the maximum, or within noise of that.",
            knee::WITHIN * 100.0
        ));
        drawn.absent.extend(without_p99(&operation.groups));
    }
    drawn
}

/// Sorts by transfers in flight, and keeps the fastest of those with equally many.
fn keep_fastest_of_equal_load(groups: &mut Vec<&CellGroup<'_>>) {
    let cost = |group: &CellGroup<'_>| in_flight(group.key.load());
    groups.sort_by(|a, b| cost(a).cmp(&cost(b)).then_with(|| b.rate().total_cmp(&a.rate())));
    groups.dedup_by_key(|group| cost(group));
}

/// The place of the knee among settings by load, as a search would judge them; `None` while the
/// last one still gains.
fn knee(groups: &[&CellGroup<'_>]) -> Option<usize> {
    let setting = |group: &&CellGroup<'_>| knee::Setting {
        cost: in_flight(group.key.load()),
        runs: group.cells.len(),
        rates: group.results().iter().map(|m| m.throughput_bytes_per_second).collect(),
    };
    let lines = vec![groups.iter().map(setting).collect()];
    let found = knee::Search { lines, repeat: 1 }.found()?;
    (!found.is_lower_bound).then_some(found.knee.1)
}
