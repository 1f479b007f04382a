//! The knee of each path, operation and size: which cells a search measures, and its results.

use std::collections::BTreeMap;

use super::choice::IoSize;
use crate::plan::matrix_plan::{CellPlan, MatrixPlan};
use crate::report::{
    CellReport, CellStatus, FindKnee, Knee, KneePoint, MatrixReport, MatrixResults, Measurement,
};
use stormlp_core::group::GroupFacts;
use stormlp_core::knee::{KneeAnswer, KneeLimit, Search, Setting, SettingIndex};
use stormlp_core::operation::Operation;
use stormlp_core::path::PathKind;
use stormlp_core::stats::mean;

/// Maximum number of transfers in flight: a search for the minimum needs no more.
const MOST_IN_FLIGHT: usize = 4096;
/// Maximum buffer size in bytes; a quarter of the memory is a limit as well.
const MOST_IN_FLIGHT_BYTES: u64 = 4 << 30;

/// The grid cells that a search may need. A path that cannot run has a single cell, which says why;
/// a blocking path has no depths. All other paths have doubling thread counts, as depths lie
/// between. Settings with uselessly many transfers in flight are left out.
pub(super) fn grid(mut cells: Vec<CellPlan>, usable_memory_bytes: u64) -> Vec<CellPlan> {
    let threads = |cell: &CellPlan| cell.transport.threads;
    let depth = |cell: &CellPlan| cell.transport.queue_depth;
    let least_threads = cells.iter().map(threads).min().unwrap_or(1);
    let least_depth = cells.iter().map(depth).min().unwrap_or(1);
    let one_depth = cells.iter().all(|cell| depth(cell) == least_depth);
    let mut counts: Vec<usize> = cells.iter().map(threads).collect();
    counts.sort_unstable();
    let doubled = doublings(&counts);
    let most_bytes = MOST_IN_FLIGHT_BYTES.min(usable_memory_bytes / 4);
    cells.retain(|cell| {
        if threads(cell) == least_threads && depth(cell) == least_depth {
            return cell.availability.is_available() || cell.repeat == 1;
        }
        let in_flight = threads(cell).saturating_mul(depth(cell));
        let bytes = (in_flight as u64).saturating_mul(cell.transport.chunk_bytes);
        let of_use = if !cell.blocks() {
            one_depth || doubled.contains(&threads(cell))
        } else {
            depth(cell) == least_depth
        };
        let fits = in_flight <= MOST_IN_FLIGHT && bytes <= most_bytes;
        cell.availability.is_available() && of_use && fits
    });
    cells
}

/// From ascending numbers: the first, each that is at least twice the previous one, and the last.
fn doublings(sorted: &[usize]) -> Vec<usize> {
    let mut kept: Vec<usize> = Vec::new();
    for count in sorted {
        if kept.last().is_none_or(|last| *count >= 2 * last) {
            kept.push(*count);
        }
    }
    kept.extend(sorted.last());
    kept
}

/// Threads, depth, and the cells of each repetition.
#[derive(Clone)]
struct Point {
    threads: usize,
    depth: usize,
    cells: Vec<usize>,
}

struct KneeGroup {
    path: PathKind,
    op: Operation,
    io_size: IoSize,
    /// Depths of each thread count; if there is only one depth, a single line over threads.
    lines: Vec<Vec<Point>>,
}

impl KneeGroup {
    /// All groups of a plan in the order of their first cells.
    fn all(plan: &MatrixPlan) -> Vec<Self> {
        type Points = BTreeMap<(usize, usize), Vec<usize>>;
        let mut kinds: Vec<((PathKind, Operation, IoSize), Points)> = Vec::new();
        for (index, cell) in plan.cells.iter().enumerate() {
            let kind = (cell.transport.path, cell.op, cell.io_size);
            let nth = kinds.iter().position(|(known, _)| *known == kind).unwrap_or_else(|| {
                kinds.push((kind, Points::new()));
                kinds.len() - 1
            });
            let setting = (cell.transport.threads, cell.transport.queue_depth);
            kinds[nth].1.entry(setting).or_default().push(index);
        }
        let group = |((path, op, io_size), points): ((PathKind, Operation, IoSize), Points)| {
            let points: Vec<Point> = (points.into_iter())
                .map(|((threads, depth), cells)| Point { threads, depth, cells })
                .collect();
            let one_depth = points.iter().all(|point| point.depth == points[0].depth);
            let same_line = |a: &Point, b: &Point| one_depth || a.threads == b.threads;
            let lines = points.chunk_by(same_line).map(<[Point]>::to_vec).collect();
            Self { path, op, io_size, lines }
        };
        kinds.into_iter().map(group).collect()
    }

    /// The current state of the search. A broken cell counts as tried only if it ran in this run
    /// (`tried`).
    fn search(
        &self,
        results: &MatrixResults,
        repeat: u32,
        tried: &dyn Fn(usize) -> bool,
    ) -> Search {
        let setting = |point: &Point| {
            let entries = point.cells.iter().map(|cell| (*cell, results.of(*cell)));
            let mut setting =
                Setting { cost: (point.threads * point.depth) as u64, ..Setting::default() };
            for (cell, entry) in entries {
                let rate = entry.and_then(counted).map(|m| m.throughput_bytes_per_second);
                setting.runs += usize::from(rate.is_some() || tried(cell));
                setting.rates.extend(rate);
            }
            setting
        };
        let lines = self.lines.iter();
        Search {
            lines: lines.map(|line| line.iter().map(setting).collect()).collect(),
            repeat: repeat as usize,
        }
    }

    fn point(&self, (line, index): SettingIndex) -> &Point {
        &self.lines[line][index]
    }
}

/// The figures of a completed cell.
fn counted(cell: &CellReport) -> Option<&Measurement> {
    let whole = |numbers: &&Measurement| !numbers.interrupted;
    cell.result().filter(whole)
}

/// The next cell to measure; `tried` marks the cells started in this run. `None` if all is done. A
/// search finishes one group after the other, so that compared cells run close together.
pub fn next_cell(plan: &MatrixPlan, results: &MatrixResults, tried: &[bool]) -> Option<usize> {
    let tried = |cell: usize| tried.get(cell).copied().unwrap_or_default();
    let open = |cell: &usize| !tried(*cell) && !results.has(*cell);
    if !plan.request.find_knee {
        return (0..plan.cells.len()).find(open);
    }
    KneeGroup::all(plan).iter().find_map(|group| {
        let next = group.search(results, plan.request.runs(), &tried).next()?;
        group.point(next).cells.iter().copied().find(open)
    })
}

/// Expected number of remaining cells and their duration in seconds: all unmeasured cells, or the
/// cells of a search without surprises.
pub fn likely_left(plan: &MatrixPlan, results: &MatrixResults, tried: &[bool]) -> (u64, f64) {
    let tried = |cell: usize| tried.get(cell).copied().unwrap_or_default();
    let open = |cell: &usize| {
        let planned = &plan.cells[*cell];
        planned.availability.is_available() && !tried(*cell) && !results.has(*cell)
    };
    if !plan.request.find_knee {
        let left = (0..plan.cells.len()).filter(open);
        let seconds = left.map(|cell| plan.cells[cell].estimated_seconds);
        return seconds.fold((0, 0.0), |(count, sum), seconds| (count + 1, sum + seconds));
    }
    let (mut count, mut sum) = (0, 0.0);
    for group in KneeGroup::all(plan) {
        let search = group.search(results, plan.request.runs(), &tried);
        let cells: Vec<usize> =
            (group.lines.iter().flatten()).flat_map(|point| point.cells.iter().copied()).collect();
        let left: Vec<f64> = (cells.iter().copied().filter(open))
            .map(|cell| plan.cells[cell].estimated_seconds)
            .collect();
        if left.is_empty() || search.next().is_none() {
            continue;
        }
        let done = cells.len() - left.len();
        let likely = search.likely_runs().saturating_sub(done).clamp(1, left.len());
        count += likely as u64;
        sum += mean(&left) * likely as f64;
    }
    (count, sum)
}

/// The known knees of a matrix that searches for them.
pub fn find_knees(report: &MatrixReport) -> Option<FindKnee> {
    let plan = &report.plan;
    if !plan.request.find_knee {
        return None;
    }
    let groups = KneeGroup::all(plan);
    let knees = groups.iter().filter_map(|group| {
        let broke = |cell: usize| {
            let entry = report.results.of(cell);
            entry.is_some_and(|entry| entry.status != CellStatus::Ok)
        };
        let search = group.search(&report.results, plan.request.runs(), &broke);
        Some(knee(report, group, &search, search.found()?))
    });
    Some(FindKnee { knees: knees.collect() })
}

fn knee(report: &MatrixReport, group: &KneeGroup, search: &Search, found: KneeAnswer) -> Knee {
    let results = &report.results;
    let point = |place: SettingIndex| KneePoint {
        threads: group.point(place).threads as u32,
        queue_depth: group.point(place).depth as u32,
        throughput_bytes_per_second: search.rate(place),
    };
    let numbers = |place: SettingIndex| -> Vec<&Measurement> {
        let cells = group.point(place).cells.iter();
        cells.filter_map(|cell| results.of(*cell).and_then(counted)).collect()
    };
    let there = numbers(found.knee);
    let p99: Option<Vec<f64>> = there.iter().map(|numbers| numbers.latency_us.p99).collect();
    let measured = search.lines.iter().flatten().map(|setting| setting.rates.len() as u64);
    Knee {
        requested_path: group.path,
        op: group.op,
        io_size: group.io_size,
        knee: point(found.knee),
        share_of_best_percent: search.rate(found.knee) / search.rate(found.best) * 100.0,
        latency_us_p99: p99.map(|each| mean(&each)),
        runs: there.len() as u64,
        best: point(found.best),
        noise_percent: found.noise_percent,
        ties: found.ties.iter().map(|place| point(*place)).collect(),
        is_lower_bound: found.is_lower_bound,
        limited_by: limit(report, group, found.best, &numbers(found.best), found.is_lower_bound),
        cells: measured.sum(),
        is_complete: search.next().is_none(),
    }
}

/// The bottleneck of a group's best setting.
fn limit(
    report: &MatrixReport,
    group: &KneeGroup,
    best: SettingIndex,
    numbers: &[&Measurement],
    still_gains: bool,
) -> Option<KneeLimit> {
    if group.path == PathKind::Null {
        return Some(KneeLimit::Client);
    }
    let sum = |of: fn(&Measurement) -> f64| numbers.iter().map(|m| of(m)).sum::<f64>();
    let seconds = sum(|m| m.duration_seconds).max(f64::MIN_POSITIVE);
    let at_work = sum(|m| m.cpu_user_seconds + m.cpu_system_seconds) / seconds;
    // CPU time, threads and CPUs are totals over all hosts.
    let hosts = report.results.group.as_ref();
    let processes = hosts.map_or(1, |hosts| hosts.size.max(1) as usize);
    let cpus = hosts.and_then(GroupFacts::cpus).unwrap_or(report.head.host.cpus).max(1) as usize;
    let threads = (group.point(best).threads * processes).min(cpus) as f64;
    let in_memory = report.plan.files.iter().any(|file| file.file_system_in_memory().is_some());
    let from_memory = |cell: &usize| {
        let cell = report.results.of(*cell)?;
        let reach = report.plan.reach(&report.plan.cells[cell.cell], counted(cell)?, processes)?;
        reach.of_memory
    };
    let by_memory = in_memory || group.point(best).cells.iter().find_map(from_memory).is_some();
    let limit = KneeLimit::of(at_work, threads, by_memory);
    limit.filter(|limit| *limit != KneeLimit::Storage || !still_gains)
}
