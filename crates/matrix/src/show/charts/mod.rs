//! The charts of a matrix: each operation over sizes and under load; then distributions, progress
//! over time and telemetry.

mod load;
mod sizes;

use crate::plan::{IoSize, MatrixPlan, MatrixReport};
use stormlp_core::distinct::distinct;
use stormlp_core::path::PathKind;
use stormlp_core::report::Series;
use stormlp_core::units::GIB;

use super::compare;
use super::group::{CellGroup, groups};
use super::objects;
use stormlp_show::chart;
use stormlp_show::chart::{Axis, Chart, Group, Line, Scale};
use stormlp_show::series::over_time;
use stormlp_show::telemetry;

/// Maximum number of cells with system charts, so that the page can still be mailed.
const MOST_SURROUNDINGS: usize = 6;

/// All charts of a matrix.
pub(crate) fn charts(report: &MatrixReport) -> Vec<Group> {
    let groups = groups(report);
    let mut operations: Vec<Operation<'_>> = Vec::new();
    for group in groups.iter().filter(|group| group.throughput().is_some()) {
        let name = group.key.operation();
        match operations.iter_mut().find(|one| one.name == name) {
            Some(one) => one.groups.push(group),
            None => operations.push(Operation { plan: &report.plan, name, groups: vec![group] }),
        }
    }
    let mut drawn = Vec::new();
    for operation in &operations {
        drawn.push(sizes::charts(operation));
        drawn.push(load::against_latency(operation));
    }
    drawn.push(distributions(&operations));
    drawn.push(courses(&operations));
    drawn.extend(surroundings(&groups));
    drawn
}

/// The measured cells of one operation.
struct Operation<'a> {
    plan: &'a MatrixPlan,
    /// `randread`, or the mix.
    name: String,
    groups: Vec<&'a CellGroup<'a>>,
}

impl<'a> Operation<'a> {
    /// The paths in the order of the matrix.
    fn paths(&self) -> Vec<PathKind> {
        distinct(self.groups.iter().map(|group| group.key.path))
    }

    /// The name of a cell in charts: the path that ran, and whether its bytes came from memory.
    fn name_of(&self, group: &CellGroup<'_>) -> String {
        compare::group_words(self.plan, group)
    }

    /// The names of these cells.
    fn names(&self, groups: &[&CellGroup<'_>]) -> Vec<String> {
        distinct(groups.iter().map(|group| self.name_of(group)))
    }

    /// The sizes of a transfer: fixed ones by size, then mixes.
    fn sizes(&self) -> Vec<IoSize> {
        let mut sizes = distinct(self.groups.iter().map(|group| group.key.io_size));
        sizes.sort_by_key(|size| (!size.is_fixed(), size.max_bytes));
        sizes
    }

    /// Number of settings of threads and depth.
    fn settings(&self) -> usize {
        distinct(self.groups.iter().map(|group| group.key.load())).len()
    }

    /// The cells of a size, fastest first, storage before memory.
    fn of_size(&self, size: IoSize) -> Vec<&'a CellGroup<'a>> {
        let is = |group: &&CellGroup<'_>| group.key.io_size == size;
        let mut groups: Vec<&CellGroup<'_>> = self.groups.iter().copied().filter(is).collect();
        groups.sort_by(|a, b| compare::rank(self.plan, a, b));
        groups
    }

    /// The cells of a size at the setting of its fastest one.
    fn side_by_side(&self, size: IoSize) -> Vec<&'a CellGroup<'a>> {
        let mut groups = self.of_size(size);
        if let Some(best) = groups.first().map(|group| group.key.load()) {
            groups.retain(|group| group.key.load() == best);
        }
        groups
    }
}

/// Transfers in flight at a setting of threads and depth.
fn in_flight((threads, depth): (u32, u32)) -> u64 {
    u64::from(threads) * u64::from(depth)
}

/// A chart for each size of each operation, with the paths side by side at one setting.
fn of_each_size(
    operations: &[Operation<'_>],
    drawn: &mut Group,
    chart: impl Fn(&Operation<'_>, &str, &[&CellGroup<'_>]) -> Option<Chart>,
    why: &str,
) {
    for operation in operations {
        for size in operation.sizes() {
            let groups = operation.side_by_side(size);
            let Some(first) = groups.first() else { continue };
            let title = first.key.title();
            drawn.add(&title, chart(operation, &title, &groups), why);
        }
        if operation.settings() > 1 {
            let note =
                "At the fastest setting of storage for each size; the report (JSON) has all.";
            drawn.absent.push(format!("{}: {note}", operation.name));
        }
    }
}

/// Latency distribution of each size, with the paths side by side.
fn distributions(operations: &[Operation<'_>]) -> Group {
    let mut drawn = Group::new("Latency distributions");
    let chart = |operation: &Operation<'_>, title: &str, groups: &[&CellGroup<'_>]| {
        let repeated = groups.iter().any(|group| group.results().len() > 1);
        let measured = groups.iter().flat_map(|group| {
            let path = operation.name_of(group);
            let Some(first) = group.results().into_iter().next() else {
                return Vec::new();
            };
            match &first.mix {
                Some(mix) => vec![
                    (format!("{path}, reads"), mix.reads.latency_histogram.as_str()),
                    (format!("{path}, writes"), mix.writes.latency_histogram.as_str()),
                ],
                None => {
                    let whole = (path.clone(), first.latency_histogram.as_str());
                    let first_byte = group.cells.iter().find_map(|cell| objects::first_byte(cell));
                    let first_byte =
                        first_byte.map(|it| (format!("{path}, first byte"), it.data.as_str()));
                    [whole].into_iter().chain(first_byte).collect()
                }
            }
        });
        let chart = chart::percentiles(title, measured)?;
        Some(if repeated { chart.note("First repetition.") } else { chart })
    };
    let why = "it has no readable histogram with more than one latency";
    of_each_size(operations, &mut drawn, chart, why);
    drawn
}

/// Throughput of each size over time.
fn courses(operations: &[Operation<'_>]) -> Group {
    let mut drawn = Group::new("Throughput over time");
    let chart = |operation: &Operation<'_>, title: &str, groups: &[&CellGroup<'_>]| {
        let lines = groups.iter().filter_map(|group| {
            let series = &group.results().first()?.series;
            Some(Line::new(
                operation.name_of(group),
                over_time(series, &series.interval_bytes, GIB),
            ))
        });
        let axes = ["seconds", "GiB/s"].map(|name| Axis::new(name, Scale::Linear));
        let [x, y] = axes;
        Chart::lines(title, x, y, lines.collect())
    };
    of_each_size(operations, &mut drawn, chart, telemetry::charts::NO_COURSE);
    drawn
}

/// The fastest measured cells of each path and operation, fastest first.
fn fastest<'a, 'b>(all: &'a [CellGroup<'b>]) -> Vec<&'a CellGroup<'b>> {
    let measured = |group: &&CellGroup<'_>| group.throughput().is_some();
    let mut groups: Vec<&CellGroup<'_>> = all.iter().filter(measured).collect();
    groups.sort_by(|a, b| b.rate().total_cmp(&a.rate()));
    let of = |group: &CellGroup<'_>| (group.key.path, group.key.operation());
    let kinds = distinct(groups.iter().map(|group| of(group)));
    kinds.iter().filter_map(|kind| groups.iter().copied().find(|one| of(one) == *kind)).collect()
}

/// The first repetition of a cell over time.
fn series<'a>(group: &&CellGroup<'a>) -> Option<&'a Series> {
    group.results().into_iter().next().map(|numbers| &numbers.series)
}

/// Series of devices, ranks and host in the fastest cells.
fn surroundings(all: &[CellGroup<'_>]) -> Vec<Group> {
    let fastest = fastest(all);
    let around = |group: &&CellGroup<'_>| {
        let series = series(group)?;
        let title = format!("Telemetry of {}, {}", group.path_words(), group.key.title());
        let mut drawn = telemetry::charts::over_time(title, series, &[]);
        drawn.charts.extend(telemetry::charts::in_flight(series));
        drawn.charts.extend(telemetry::charts::ranks(series, ("GiB/s", GIB)));
        drawn.is_folded = true;
        (!drawn.charts.is_empty()).then_some(drawn)
    };
    let room = telemetry::charts::room_for(fastest.iter().filter_map(series), MOST_SURROUNDINGS);
    let cells: Vec<Group> = fastest.iter().take(room).filter_map(around).collect();
    let mut rest = Group::new("Telemetry of the fastest cells of each path and operation");
    if cells.is_empty() {
        let off = "No telemetry: it was off (`--tune telemetry`), or the cells were too short.";
        rest.absent.push(off.to_string());
    }
    [rest].into_iter().chain(cells).collect()
}
