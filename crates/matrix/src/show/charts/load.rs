//! An operation under growing load: throughput against latency with the knee.

use stormlp_core::knee;

use super::sizes::{latency, without_p99};
use super::{CellGroup, Operation, in_flight};
use stormlp_show::chart::{Axis, Chart, Group, Line, Prominence, Scale, Setting};

/// A chart for each size: a line for each path from setting to setting, with its knee. Cells that
/// memory served have a line of their own.
pub(super) fn against_latency(operation: &Operation<'_>) -> Group {
    let title = format!("{}: latency against throughput", operation.name);
    let mut drawn = Group::of_multiples(title, Prominence::Answer);
    let latency = latency(&operation.groups);
    let settings = operation.settings();
    for size in operation.sizes() {
        let groups: Vec<&CellGroup<'_>> = operation.of_size(size).collect();
        let line = |name: String| {
            let is = |group: &&CellGroup<'_>| operation.name_of(group) == name;
            let mut own: Vec<&CellGroup<'_>> = groups.iter().copied().filter(is).collect();
            keep_fastest_of_equal_load(&mut own);
            let rate =
                |group: &CellGroup<'_>| group.throughput().map_or(f64::NAN, |rate| rate.value);
            let setting = |group: &&CellGroup<'_>| Setting {
                name: setting_name(&settings, group.key.load()),
                // A line leaves out the settings whose latency is not known.
                at: (rate(group), (latency.of)(group).unwrap_or(f64::NAN)),
            };
            let points: Vec<Setting> = own.iter().map(setting).collect();
            Line::through(name, points, knee(&own))
        };
        let lines = operation.names(&groups).into_iter().map(line).collect();
        let (x, y) = (Axis::new("GiB/s", Scale::Log), Axis::new("µs", Scale::Log));
        let title = format!("{} against throughput, {}", latency.name, size.words());
        drawn.charts.extend(Chart::lines(title, x, y, lines));
    }
    if !drawn.charts.is_empty() {
        drawn.absent.push(note(&settings));
        drawn.absent.extend(without_p99(&operation.groups));
    }
    drawn
}

/// What the numbers beside the points are, and what the knee is.
fn note(settings: &[(u32, u32)]) -> String {
    let one = |of: fn(&(u32, u32)) -> u32| settings.iter().all(|one| of(one) == of(&settings[0]));
    let words = match (settings.first(), one(|load| load.0), one(|load| load.1)) {
        (Some((threads, _)), true, _) => {
            let threads = stormlp_core::units::counted((*threads).into(), "thread");
            format!("Beside the points: the queue depth of each of {threads}")
        }
        (Some((_, depth)), false, true) => {
            format!("Beside the points: threads, at depth {depth}")
        }
        _ => "Beside the points: threads × depth; the fastest of those in flight alike".to_string(),
    };
    format!(
        "{words}. The knee is the fewest in flight within {} % of the most, or within noise of \
         that.",
        knee::WITHIN * 100.0
    )
}

/// The setting beside its point: the part of it that varies.
fn setting_name(settings: &[(u32, u32)], (threads, depth): (u32, u32)) -> String {
    let one_of_threads = settings.iter().all(|one| one.0 == threads);
    let one_depth = settings.iter().all(|one| one.1 == depth);
    match (one_of_threads, one_depth) {
        (true, _) => depth.to_string(),
        (false, true) => threads.to_string(),
        (false, false) => format!("{threads}×{depth}"),
    }
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
