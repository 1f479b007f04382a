//! An operation under growing load: throughput against latency with the knee, and heat maps.

use stormlp_core::knee;
use stormlp_core::units::short_size;

use super::sizes::{latency, without_p99};
use super::{CellGroup, Operation, Size, Threads};
use stormlp_show::chart::{Axis, Chart, Group, Heat, Line, Place, Scale, Setting};

/// Maximum number of rows or columns of a readable heat map.
const MOST_HEAT: usize = 24;

/// A chart for each size: a line for each path from setting to setting, with its knee. Cells that
/// memory served have a line of their own.
pub(super) fn against_latency(operation: &Operation<'_>) -> Group {
    let title = format!("{}: latency against throughput", operation.name);
    let mut drawn = Group::of_multiples(title, Place::Answer);
    let (latency_name, latency) = latency(&operation.groups);
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
                name: setting_name(&settings, Threads::of(&group.key.combination)),
                // A line leaves out the settings whose latency is not known.
                at: (rate(group), latency(group).unwrap_or(f64::NAN)),
            };
            let points: Vec<Setting> = own.iter().map(setting).collect();
            Line::through(name, points, knee(&own))
        };
        let lines = operation.names(&groups).into_iter().map(line).collect();
        let (x, y) = (Axis::new("GiB/s", Scale::Log), Axis::new("µs", Scale::Log));
        let title = format!("{latency_name} against throughput, {}", size.words());
        drawn.charts.extend(Chart::lines(title, x, y, lines));
    }
    if !drawn.charts.is_empty() {
        drawn.absent.push(note(&settings));
        drawn.absent.extend(without_p99(&operation.groups));
    }
    drawn
}

/// What the numbers beside the points are, and what the knee is.
fn note(settings: &[Threads]) -> String {
    let first = settings.first();
    let one = |of: fn(&Threads) -> u32| settings.iter().all(|one| Some(of(one)) == first.map(of));
    let words = match (first, one(|s| s.threads), one(|s| s.depth)) {
        (Some(first), true, _) => {
            let threads = stormlp_core::units::counted(first.threads.into(), "thread");
            format!("Beside the points: the queue depth of each of {threads}")
        }
        (Some(first), false, true) => {
            format!("Beside the points: threads, at depth {}", first.depth)
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
fn setting_name(settings: &[Threads], of: Threads) -> String {
    let one_of_threads = settings.iter().all(|one| one.threads == of.threads);
    let one_depth = settings.iter().all(|one| one.depth == of.depth);
    match (one_of_threads, one_depth) {
        (true, _) => of.depth.to_string(),
        (false, true) => of.threads.to_string(),
        (false, false) => format!("{}×{}", of.threads, of.depth),
    }
}

/// Sorts by transfers in flight, and keeps the fastest of those with equally many.
fn keep_fastest_of_equal_load(groups: &mut Vec<&CellGroup<'_>>) {
    let in_flight = |group: &CellGroup<'_>| Threads::of(&group.key.combination).in_flight();
    groups.sort_by(|a, b| {
        in_flight(a).cmp(&in_flight(b)).then_with(|| b.rate().total_cmp(&a.rate()))
    });
    groups.dedup_by_key(|group| in_flight(group));
}

/// The place of the knee among settings by load, as a search would judge them; `None` while the
/// last one still gains.
fn knee(groups: &[&CellGroup<'_>]) -> Option<usize> {
    let setting = |group: &&CellGroup<'_>| knee::Setting {
        cost: Threads::of(&group.key.combination).in_flight(),
        runs: group.cells.len(),
        rates: group.results().iter().map(|m| m.throughput_bytes_per_second).collect(),
    };
    let lines = vec![groups.iter().map(setting).collect()];
    let found = knee::Search { lines, repeat: 1 }.found()?;
    (!found.is_lower_bound).then_some(found.knee.1)
}

/// A heat map of throughput for each path, if two of size, threads and depth vary. Marks tell the
/// cells of memory from those of storage.
pub(super) fn heat_maps(operation: &Operation<'_>) -> Group {
    let title = format!("{}: throughput of each setting", operation.name);
    let mut drawn = Group::of_multiples(title, Place::Answer);
    for path in operation.paths() {
        let own: Vec<&CellGroup<'_>> =
            operation.groups.iter().copied().filter(|group| group.key.path == path).collect();
        let names = operation.names(&own);
        let heat = Grid::of(operation).filled(operation, &own, &names);
        let Some((name, marked)) = names.split_first() else { continue };
        if heat.rows.len().max(heat.columns.len()) > MOST_HEAT {
            drawn.absent.push(format!("{name}: more than {MOST_HEAT} settings in a row."));
            continue;
        }
        let notes = marked.iter().zip(1..).map(|(name, nth)| format!("{} {name}", mark(nth)));
        let chart = Chart::heat(format!("{name}, GiB/s"), heat);
        drawn.charts.extend(chart.map(|chart| notes.fold(chart, Chart::note)));
    }
    drawn
}

/// The mark of the cells with the `nth` name; those with the first have none.
fn mark(nth: usize) -> String {
    "*".repeat(nth)
}

/// The settings of a heat map.
struct Grid {
    across: &'static str,
    down: &'static str,
    columns: Vec<String>,
    rows: Vec<(String, Vec<(Size, Threads)>)>,
}

impl Grid {
    /// Sizes over threads and depth; with one size, threads over depth.
    fn of(operation: &Operation<'_>) -> Self {
        let (sizes, settings) = (operation.sizes(), operation.settings());
        if let [size] = sizes.as_slice() {
            let mut threads = super::distinct(settings.iter().map(|one| one.threads));
            let mut depths = super::distinct(settings.iter().map(|one| one.depth));
            threads.sort_unstable();
            depths.sort_unstable();
            let row = |threads: &u32| {
                let at = |depth: &u32| (*size, Threads { threads: *threads, depth: *depth });
                (threads.to_string(), depths.iter().map(at).collect())
            };
            return Self {
                across: "queue depth",
                down: "threads",
                columns: depths.iter().map(ToString::to_string).collect(),
                rows: threads.iter().map(row).collect(),
            };
        }
        let varies =
            |of: fn(&Threads) -> u32| settings.iter().any(|one| of(one) != of(&settings[0]));
        let across = match (varies(|one| one.threads), varies(|one| one.depth)) {
            (true, true) => "threads × depth",
            (true, false) => "threads",
            (false, _) => "queue depth",
        };
        let row = |size: &Size| {
            let name = match size.mix {
                Some(mix) => mix.to_string(),
                None => short_size(size.bytes),
            };
            (name, settings.iter().map(|setting| (*size, *setting)).collect())
        };
        Self {
            across,
            down: "I/O size",
            columns: settings.iter().map(|one| setting_name(&settings, *one)).collect(),
            rows: sizes.iter().map(row).collect(),
        }
    }

    /// The throughput of these cells, marked by the place of their name in `names`.
    fn filled(
        self,
        operation: &Operation<'_>,
        groups: &[&CellGroup<'_>],
        names: &[String],
    ) -> Heat {
        let mut heat = Heat {
            across: self.across.to_string(),
            down: self.down.to_string(),
            unit: "GiB/s".to_string(),
            columns: self.columns,
            ..Heat::default()
        };
        for (row, (name, places)) in self.rows.into_iter().enumerate() {
            let mut values = Vec::new();
            for (column, (size, setting)) in places.into_iter().enumerate() {
                let cell = groups.iter().find(|group| {
                    let key = &group.key.combination;
                    Size::of(key) == size && Threads::of(key) == setting
                });
                values.push(cell.and_then(|group| Some(group.throughput()?.value)));
                let named = cell.map(|group| operation.name_of(group));
                let nth = names.iter().position(|name| Some(name) == named.as_ref());
                if let Some(nth @ 1..) = nth {
                    heat.marks.push(((row, column), mark(nth)));
                }
            }
            heat.rows.push((name, values));
        }
        heat
    }
}
