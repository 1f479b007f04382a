//! The charts of a matrix: paths compared with each other, then over sizes, threads and depths, and
//! latency distributions.

use crate::plan::{MatrixPlan, MatrixReport};
use stormlp_core::units::{GIB, counted, short_size};

use super::compare;
use super::group::{CellGroup, Combination, groups};
use stormlp_show::around;
use stormlp_show::chart;
use stormlp_show::chart::{Axis, Bar, Chart, Group, Line, Scale};
use stormlp_show::series::over_time;

/// Maximum number of cells shown over time.
const MOST_OVER_TIME: usize = 24;

/// Maximum number of cells with system charts, so that the page can still be mailed.
const MOST_SURROUNDINGS: usize = 6;

/// All charts of a matrix.
pub(crate) fn charts(report: &MatrixReport) -> Vec<Group> {
    let groups = groups(report);
    let mut drawn = Vec::new();
    // A search measures different cells for each path, so means over them are not comparable.
    if report.results.find_knee.is_none() {
        drawn.push(against_each_other(&report.plan, &groups));
    }
    let mut operations: Vec<String> = Vec::new();
    for group in &groups {
        let operation = group.key.combination.operation();
        if !operations.contains(&operation) {
            operations.push(operation);
        }
    }
    for operation in &operations {
        let of_operation = |group: &&CellGroup<'_>| group.key.combination.operation() == *operation;
        let groups: Vec<&CellGroup<'_>> = groups.iter().filter(of_operation).collect();
        drawn.push(along(operation, &groups));
    }
    drawn.push(distributions(&groups));
    drawn.push(courses(&groups));
    drawn.extend(surroundings(&groups));
    drawn
}

/// Compares the paths of each operation over the combinations that all of them ran.
fn against_each_other(plan: &MatrixPlan, all: &[CellGroup<'_>]) -> Group {
    let mut drawn = Group::new("Comparison of paths");
    let fair = compare::fair(plan, all);
    let measured: Vec<&CellGroup<'_>> =
        fair.into_iter().filter(|g| g.throughput().is_some()).collect();
    let mut operations: Vec<String> = Vec::new();
    for group in &measured {
        let operation = group.key.combination.operation();
        if !operations.contains(&operation) {
            operations.push(operation);
        }
    }
    for operation in operations {
        let of_operation = |group: &&&CellGroup<'_>| group.key.combination.operation() == operation;
        let groups: Vec<&CellGroup<'_>> = measured.iter().filter(of_operation).copied().collect();
        let Some(beside) = Beside::of(plan, &groups) else {
            let why = "no combination was run on all of its paths";
            drawn.absent.push(format!("{operation}: {why}"));
            continue;
        };
        let (over, several) = match beside.combinations.as_slice() {
            [only] => (only.words(), false),
            several => (format!("{operation}, mean of {} combinations", several.len()), true),
        };
        let charts = [
            ("throughput", "GiB/s", beside.rates, "Geometric"),
            ("CPU cost", "CPU seconds per GiB", beside.costs, "Arithmetic"),
        ];
        for (what, unit, bars, mean) in charts {
            let chart = Chart::bars(format!("{over}: {what}"), unit, bars).map(|mut chart| {
                if several {
                    let note = "mean over the combinations run on all of these paths.";
                    chart = chart.note(format!("{mean} {note}"));
                }
                if plan.request.verify {
                    chart = chart.note("With --verify, this includes the checks.");
                }
                chart
            });
            drawn.charts.extend(chart);
        }
    }
    if drawn.charts.is_empty() && drawn.absent.is_empty() {
        drawn.absent.push("No cell has comparable numbers.".to_string());
    }
    drawn
}

/// Comparison of the paths of an operation.
struct Beside {
    /// The combinations that all paths ran.
    combinations: Vec<Combination>,
    rates: Vec<Bar>,
    costs: Vec<Bar>,
}

impl Beside {
    /// `None` if no combination was run by all paths.
    fn of(plan: &MatrixPlan, groups: &[&CellGroup<'_>]) -> Option<Self> {
        let mut paths = Vec::new();
        for group in groups {
            if !paths.contains(&group.key.path) {
                paths.push(group.key.path);
            }
        }
        let of = |path, combination: &Combination| {
            let is = |group: &&&CellGroup<'_>| {
                group.key.path == path && group.key.combination == *combination
            };
            groups.iter().find(is)
        };
        let of_first = groups.iter().filter(|group| group.key.path == paths[0]);
        let by_all = |one: &Combination| paths.iter().all(|path| of(*path, one).is_some());
        let combinations: Vec<Combination> =
            of_first.map(|group| group.key.combination).filter(by_all).collect();
        let (mut rates, mut costs) = (Vec::new(), Vec::new());
        for path in paths {
            let cells: Vec<_> = combinations.iter().filter_map(|one| of(path, one)).collect();
            let name = compare::group_words(plan, cells.first()?);
            let count = cells.len() as f64;
            let logarithms: f64 = cells.iter().map(|group| group.rate().ln()).sum();
            rates.push(Bar::one(name.clone(), (logarithms / count).exp()));
            let cells = cells.iter();
            let cost = cells.filter_map(|group| group.estimate(|m| m.cpu_seconds_per_gib));
            costs.push(Bar::one(name, cost.map(|cost| cost.value).sum::<f64>() / count));
        }
        Some(Self { combinations, rates, costs })
    }
}

/// The swept parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sweep {
    Sizes,
    Threads,
    Depths,
}

impl Sweep {
    const ALL: [Self; 3] = [Self::Sizes, Self::Threads, Self::Depths];

    fn name(self) -> &'static str {
        match self {
            Self::Sizes => "I/O size",
            Self::Threads => "threads",
            Self::Depths => "queue depth",
        }
    }

    fn scale(self) -> Scale {
        match self {
            Self::Sizes => Scale::Sizes,
            Self::Threads | Self::Depths => Scale::Counts,
        }
    }

    fn value(self, of: &Combination) -> u64 {
        match self {
            Self::Sizes => of.io_size_bytes,
            Self::Threads => of.threads.into(),
            Self::Depths => of.queue_depth.into(),
        }
    }

    /// The fixed settings of a chart. A mix of sizes is not swept.
    fn rest(self, mut of: Combination) -> Option<Combination> {
        match self {
            Self::Sizes if of.mix.is_some() => return None,
            Self::Sizes => of.io_size_bytes = 0,
            Self::Threads => of.threads = 0,
            Self::Depths => of.queue_depth = 0,
        }
        Some(of)
    }

    /// The fixed settings as text.
    fn rest_words(self, rest: &Combination) -> String {
        let size = match rest.mix {
            Some(mix) => mix.to_string(),
            None => short_size(rest.io_size_bytes),
        };
        let threads = counted(rest.threads.into(), "thread");
        let depth = format!("depth {}", rest.queue_depth);
        match self {
            Self::Sizes => [threads, depth],
            Self::Threads => [size, depth],
            Self::Depths => [size, threads],
        }
        .join(", ")
    }
}

/// Throughput and latency of an operation over sizes, threads and depths.
fn along(operation: &str, groups: &[&CellGroup<'_>]) -> Group {
    let mut drawn = Group::new(format!("{operation}: throughput and latency"));
    for sweep in Sweep::ALL {
        let mut values: Vec<u64> = groups.iter().map(|g| sweep.value(&g.key.combination)).collect();
        values.sort_unstable();
        values.dedup();
        if let [only] = values.as_slice() {
            let only = match sweep {
                Sweep::Sizes => short_size(*only),
                Sweep::Threads | Sweep::Depths => only.to_string(),
            };
            let name = sweep.name();
            drawn.absent.push(format!("Over {name}: the matrix has only one, {only}."));
            continue;
        }
        let mut rests: Vec<Combination> = Vec::new();
        for rest in groups.iter().filter_map(|group| sweep.rest(group.key.combination)) {
            if !rests.contains(&rest) {
                rests.push(rest);
            }
        }
        for rest in rests {
            let same = |group: &&&CellGroup<'_>| sweep.rest(group.key.combination) == Some(rest);
            let groups: Vec<&CellGroup<'_>> = groups.iter().filter(same).copied().collect();
            over(sweep, &rest, &groups, &mut drawn);
        }
    }
    drawn
}

/// The two charts over the swept parameter with all else fixed.
fn over(sweep: Sweep, rest: &Combination, groups: &[&CellGroup<'_>], drawn: &mut Group) {
    let axis = || Axis::new(sweep.name(), sweep.scale());
    let (name, words) = (sweep.name(), sweep.rest_words(rest));
    let lines = |number: &dyn Fn(&CellGroup<'_>) -> Option<f64>| {
        let mut lines: Vec<(_, Vec<(f64, f64)>)> = Vec::new();
        for group in groups {
            let Some(value) = number(group) else { continue };
            let point = (sweep.value(&group.key.combination) as f64, value);
            match lines.iter_mut().find(|(path, _)| *path == group.key.path) {
                Some((_, points)) => points.push(point),
                None => lines.push((group.key.path, vec![point])),
            }
        }
        let in_order = lines.into_iter().map(|(path, mut points)| {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            Line::new(path.name(), points)
        });
        in_order.collect::<Vec<Line>>()
    };
    let rates = lines(&|group| group.throughput().map(|rate| rate.value));
    let title = format!("Throughput over {name}, {words}");
    let chart = Chart::lines(title.clone(), axis(), Axis::new("GiB/s", Scale::Linear), rates);
    drawn.add(&title, chart, "fewer than two of them were measured");
    // The same number of cells in each group, else they are not comparable.
    let measured = || groups.iter().filter(|group| group.throughput().is_some());
    let has_p99 = measured().all(|group| group.known(|m| m.latency_us.p99).is_some());
    let (which, times) = if has_p99 {
        ("p99", lines(&|group| group.known(|m| m.latency_us.p99)))
    } else {
        ("Mean", lines(&|group| group.known(|m| Some(m.latency_us.mean))))
    };
    let title = format!("{which} latency over {name}, {words}");
    let chart = Chart::lines(title.clone(), axis(), Axis::new("µs", Scale::Log), times);
    drawn.add(&title, chart, "fewer than two of them were measured");
}

/// The distinct combinations of all groups.
fn combinations(groups: &[CellGroup<'_>]) -> Vec<Combination> {
    let mut found = Vec::new();
    for group in groups {
        if !found.contains(&group.key.combination) {
            found.push(group.key.combination);
        }
    }
    found
}

fn title(combination: &Combination) -> String {
    format!("{}, depth {}", combination.words(), combination.queue_depth)
}

/// Latency distribution of each cell, with the paths side by side.
fn distributions(groups: &[CellGroup<'_>]) -> Group {
    let mut drawn = Group::new("Latency distributions");
    for combination in combinations(groups) {
        let same = groups.iter().filter(|group| group.key.combination == combination);
        let mut repeated = false;
        let mut measured = Vec::new();
        for group in same {
            let results = group.results();
            repeated |= results.len() > 1;
            if let Some(first) = results.first() {
                measured.push((group.path_words(), first.latency_histogram.as_str()));
            }
        }
        if measured.is_empty() {
            continue;
        }
        let title = title(&combination);
        let chart = chart::percentiles(title.clone(), measured)
            .map(|chart| if repeated { chart.note("First repetition.") } else { chart });
        drawn.add(&title, chart, "it has no readable histogram with more than one latency");
    }
    drawn
}

/// Throughput of each cell over time.
fn courses(groups: &[CellGroup<'_>]) -> Group {
    let mut drawn = Group::new("Throughput over time");
    let combinations = combinations(groups);
    if combinations.len() > MOST_OVER_TIME {
        drawn.absent.push(format!(
            "Shown for up to {MOST_OVER_TIME} combinations; the report contains the series of all \
             {}.",
            combinations.len()
        ));
        return drawn;
    }
    for combination in combinations {
        let same = groups.iter().filter(|group| group.key.combination == combination);
        let lines = same.filter_map(|group| {
            let series = &group.results().first()?.series;
            Some(Line::new(group.path_words(), over_time(series, &series.interval_bytes, GIB)))
        });
        let title = title(&combination);
        let axes = [Axis::new("seconds", Scale::Linear), Axis::new("GiB/s", Scale::Linear)];
        let [x, y] = axes;
        let chart = Chart::lines(title.clone(), x, y, lines.collect());
        drawn.add(&title, chart, around::charts::NO_COURSE);
    }
    drawn
}

/// System charts for the fastest cell of each path and operation.
fn surroundings(all: &[CellGroup<'_>]) -> Vec<Group> {
    let mut fastest: Vec<&CellGroup<'_>> = Vec::new();
    let measured = || all.iter().filter(|group| group.throughput().is_some());
    for group in measured() {
        let of = |group: &CellGroup<'_>| (group.key.path, group.key.combination.operation());
        match fastest.iter_mut().find(|known| of(known) == of(group)) {
            Some(known) if known.rate() < group.rate() => *known = group,
            Some(_) => {}
            None => fastest.push(group),
        }
    }
    fastest.sort_by(|a, b| b.rate().total_cmp(&a.rate()));
    let around = |group: &&CellGroup<'_>| {
        let series = &group.results().first()?.series;
        let name = format!("{}, {}", group.path_words(), title(&group.key.combination));
        let mut drawn = around::charts::over_time(format!("Telemetry of {name}"), series, &[]);
        drawn.charts.extend(around::charts::in_flight(series));
        drawn.folded = true;
        (!drawn.charts.is_empty()).then_some(drawn)
    };
    let results = fastest.iter().flat_map(|group| group.results().into_iter().next());
    let room = around::charts::room_for(results.map(|numbers| &numbers.series), MOST_SURROUNDINGS);
    let mut drawn: Vec<Group> = fastest.iter().take(room).filter_map(around).collect();
    let note = match drawn.len() {
        0 => "No telemetry: it was off (`--telemetry`), or the cells were too short.",
        several if several < measured().count() => {
            "Shown for the fastest cells of each path and operation; the report (JSON) has all."
        }
        _ => return drawn,
    };
    let mut rest = Group::new("Telemetry of the cells");
    rest.absent.push(note.to_string());
    drawn.insert(0, rest);
    drawn
}
