//! Determines which path was faster.

use crate::plan::{CacheState, CellReport, MatrixPlan, Measurement, Reach};
use stormlp_core::operation::Direction;
use stormlp_core::path::PathKind;

use super::group::{CellGroup, Combination};
use stormlp_show::document::Estimate;
use stormlp_show::numbers::percent;

/// Maximum number of paths compared with the winner in the sentence; the table lists all.
const MOST_OTHERS: usize = 2;

/// The route of a path: the question is which of these is faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PathRoute {
    Gds,
    Bounce,
    PageCache,
    Host,
    Nothing,
}

impl PathRoute {
    fn of(path: PathKind) -> Self {
        match path {
            PathKind::CpuGpu | PathKind::CpuAsyncGpu => Self::Bounce,
            PathKind::PageCache | PathKind::Buffered => Self::PageCache,
            PathKind::Cpu => Self::Host,
            PathKind::Null => Self::Nothing,
            PathKind::Gds
            | PathKind::GdsAsync
            | PathKind::GdsBatch
            | PathKind::GdsBatchStream
            | PathKind::GdsCompat => Self::Gds,
        }
    }
}

/// `A ran 1.24 ± 0.01 times faster than B`, if two or more paths ran the same combinations: the
/// fastest path whose bytes came from or went to storage, against the fastest of each other route.
/// Results served by memory follow.
///
/// With `--verify` there is no verdict: the rates include checking the pattern. Unsynced writes to
/// the page cache are not compared with writes that reached storage either.
pub(super) fn verdict(plan: &MatrixPlan, all: &[CellGroup<'_>]) -> Option<String> {
    if plan.request.verify {
        return None;
    }
    let groups = &fair(plan, all);
    let (paths, combinations) = ran_by_all(groups)?;
    let ratio = |a, b| mean_ratio(groups, a, b, &combinations);
    let fastest = |paths: &[PathKind]| {
        let by_speed = |a: &&PathKind, b: &&PathKind| ratio(**a, **b).value.total_cmp(&1.0);
        paths.iter().max_by(by_speed).copied()
    };
    let (memory, storage): (Vec<PathKind>, Vec<PathKind>) =
        paths.iter().partition(|path| is_from_memory(plan, groups, **path));
    let winner = fastest(&storage).or_else(|| fastest(&memory))?;
    let name = |path| words(plan, groups, path);
    let is_ahead = |path: &PathKind| memory.contains(path) && ratio(*path, winner).value > 1.0;
    let (ahead, behind): (Vec<PathKind>, Vec<PathKind>) =
        others(&paths, winner, fastest).into_iter().partition(is_ahead);
    let slower: Vec<String> = behind
        .iter()
        .map(|path| {
            let ratio = ratio(winner, *path).text();
            format!("{ratio} times faster than {}", name(*path))
        })
        .collect();
    let mut sentence = if slower.is_empty() {
        let rate = rate(groups, winner, &combinations).text();
        format!("{} moved {rate} GiB/s", name(winner))
    } else {
        format!("{} ran {}", name(winner), slower.join(" and "))
    };
    for path in ahead {
        let (ratio, than) = (ratio(path, winner).text(), winner);
        sentence.push_str(&format!("; {} ran {ratio} times faster than {than}", name(path)));
    }
    let over = match combinations.as_slice() {
        [only] => only.words(),
        several => format!("geometric mean of {} combinations", several.len()),
    };
    Some(format!("{sentence} ({over}){}", left_out(plan, all, groups)))
}

/// The comparable paths, at least two, and the combinations that all of them ran.
fn ran_by_all(groups: &[&CellGroup<'_>]) -> Option<(Vec<PathKind>, Vec<Combination>)> {
    let mut combinations: Vec<Combination> = Vec::new();
    let mut paths: Vec<PathKind> = Vec::new();
    for group in comparable(groups.iter().copied()) {
        if !combinations.contains(&group.key.combination) {
            combinations.push(group.key.combination);
        }
        if !paths.contains(&group.key.path) {
            paths.push(group.key.path);
        }
    }
    // Only combinations that all of these paths ran are comparable.
    combinations
        .retain(|combination| paths.iter().all(|path| find(groups, *path, combination).is_some()));
    (paths.len() > 1 && !combinations.is_empty()).then_some((paths, combinations))
}

/// The paths compared with the winner: the fastest of each other route or, if all use the same
/// route, the fastest of the rest.
fn others(
    paths: &[PathKind],
    winner: PathKind,
    fastest: impl Fn(&[PathKind]) -> Option<PathKind>,
) -> Vec<PathKind> {
    let mut ways: Vec<PathRoute> = paths.iter().map(|path| PathRoute::of(*path)).collect();
    ways.sort_unstable();
    ways.dedup();
    let of_way = |way: &PathRoute| -> Vec<PathKind> {
        let of_way = paths.iter().filter(|path| PathRoute::of(**path) == *way);
        of_way.copied().filter(|path| *path != winner).collect()
    };
    let alone = ways.len() == 1;
    let others = ways
        .iter()
        .filter(|way| alone || **way != PathRoute::of(winner))
        .filter_map(|way| fastest(&of_way(way)));
    others.take(MOST_OTHERS).collect()
}

/// The comparable groups: no writes that stayed in memory beside ones that did not, and no sparse
/// files, since holes are read at memory speed.
pub(super) fn fair<'a, 'b>(plan: &MatrixPlan, all: &'a [CellGroup<'b>]) -> Vec<&'a CellGroup<'b>> {
    let mut groups = without_unsynced(plan, all);
    groups.retain(|group| !reads_holes(plan, group));
    groups
}

/// Whether the cells of a group read files with holes.
pub(super) fn reads_holes(plan: &MatrixPlan, group: &CellGroup<'_>) -> bool {
    let reads = group.key.combination.op.direction() == Direction::Read;
    (reads || plan.request.read_percent.is_some())
        && group.key.path != PathKind::Null
        && plan.hole_share().is_some()
}

/// Groups that moved bytes and have results.
fn comparable<'a, 'b: 'a>(
    groups: impl IntoIterator<Item = &'a CellGroup<'b>>,
) -> impl Iterator<Item = &'a CellGroup<'b>> {
    (groups.into_iter())
        .filter(|group| group.key.path != PathKind::Null && group.throughput().is_some())
}

/// All groups except writes that mostly or finally stayed in the page cache, if others of the same
/// combination reached storage.
fn without_unsynced<'a, 'b>(
    plan: &MatrixPlan,
    groups: &'a [CellGroup<'b>],
) -> Vec<&'a CellGroup<'b>> {
    let unsynced = |group: &CellGroup<'_>| {
        let mut reaches = reaches(plan, group);
        reaches.any(|(_, _, reach)| reach.is_memorys_write())
    };
    let beside_storage = |group: &CellGroup<'_>| {
        let mut others = comparable(groups);
        others.any(|other| other.key.combination == group.key.combination && !unsynced(other))
    };
    let fair = |group: &&CellGroup<'_>| !(unsynced(group) && beside_storage(group));
    groups.iter().filter(fair).collect()
}

/// The paths in none of the compared groups, with the reason.
fn left_out(plan: &MatrixPlan, all: &[CellGroup<'_>], compared: &[&CellGroup<'_>]) -> String {
    let mut paths: Vec<String> = Vec::new();
    for group in comparable(all).filter(|group| !reads_holes(plan, group)) {
        let path = group.key.path;
        if !compared.iter().any(|other| other.key == group.key)
            && !paths.contains(&path.to_string())
        {
            paths.push(path.to_string());
        }
    }
    if paths.is_empty() {
        String::new()
    } else {
        format!("; writes by {} are omitted: they stayed in memory", paths.join(", "))
    }
}

/// The valid cells of a group with their storage traffic.
pub(super) fn reaches<'a>(
    plan: &'a MatrixPlan,
    group: &'a CellGroup<'_>,
) -> impl Iterator<Item = (&'a CellReport, &'a Measurement, Reach)> {
    group.cells.iter().filter_map(|cell| {
        let numbers = cell.result()?;
        let reach = plan.reach(plan.cells.get(cell.cell)?, numbers, cell.hosts.len())?;
        Some((*cell, numbers, reach))
    })
}

/// A path as the table names it, with the effective path, and whether the page cache rather than
/// storage served or absorbed most of its bytes.
fn words(plan: &MatrixPlan, groups: &[&CellGroup<'_>], path: PathKind) -> String {
    let mut of_path = of_path(groups, path);
    let name = of_path.next().map_or_else(|| path.to_string(), CellGroup::path_words);
    if reads_any_holes(plan, groups, path) {
        let share = percent(plan.hole_share().unwrap_or_default());
        return format!("{name} (reading a file that is {share} holes)");
    }
    let is = |writes| is_mostly_memory(plan, groups, path, writes);
    match (is(false), is(true)) {
        (false, false) => name,
        (true, false) => format!("{name} (mostly read from memory)"),
        (false, true) => format!("{name} (mostly written to memory)"),
        (true, true) => format!("{name} (mostly read from and written to memory)"),
    }
}

fn of_path<'a, 'b>(
    groups: &[&'a CellGroup<'b>],
    path: PathKind,
) -> impl Iterator<Item = &'a CellGroup<'b>> {
    comparable(groups.iter().copied()).filter(move |group| group.key.path == path)
}

fn reads_any_holes(plan: &MatrixPlan, groups: &[&CellGroup<'_>], path: PathKind) -> bool {
    of_path(groups, path).any(|group| reads_holes(plan, group))
}

/// Whether the page cache served most of the bytes of some reads of a path, or kept most of those
/// of some of its writes.
fn is_mostly_memory(
    plan: &MatrixPlan,
    groups: &[&CellGroup<'_>],
    path: PathKind,
    writes: bool,
) -> bool {
    let mut cells = of_path(groups, path).flat_map(|group| reaches(plan, group));
    cells.any(|(_, numbers, reach)| {
        reach.is_write == writes && in_memory(plan, path, numbers, reach)
    })
}

/// Whether the figures of a path are known to be those of memory.
fn is_from_memory(plan: &MatrixPlan, groups: &[&CellGroup<'_>], path: PathKind) -> bool {
    reads_any_holes(plan, groups, path)
        || [false, true].into_iter().any(|writes| is_mostly_memory(plan, groups, path, writes))
}

/// The group as described by [`words`].
pub(super) fn group_words(plan: &MatrixPlan, group: &CellGroup<'_>) -> String {
    words(plan, &[group], group.key.path)
}

/// Whether most of a cell's bytes came from memory or stayed there: judged by the block device
/// counters. Without a block device (tmpfs, network file systems) judged by page cache residency
/// before a read, or by a missing sync after a write. A path that bypasses the cache only counts if
/// dropping the files left them there, as on a file system in memory.
fn in_memory(plan: &MatrixPlan, path: PathKind, numbers: &Measurement, reach: Reach) -> bool {
    match (reach.device_share, numbers.page_cache_share) {
        (Some(_), _) if reach.is_write => reach.through_cache && reach.is_mostly_memory(),
        (None, _) if reach.is_write => reach.is_unsynced_write(),
        (Some(_), _) => reach.is_mostly_memory(),
        (None, Some(share)) => {
            share > 0.5 && (path.uses_page_cache() || plan.request.cache == CacheState::Cold)
        }
        (None, None) => false,
    }
}

fn find<'a, 'b>(
    groups: &[&'a CellGroup<'b>],
    path: PathKind,
    combination: &Combination,
) -> Option<&'a CellGroup<'b>> {
    let mut groups = comparable(groups.iter().copied());
    groups.find(|g| g.key.path == path && g.key.combination == *combination)
}

/// Geometric mean of the ratios of two paths; its spread is known only for a single combination.
fn mean_ratio(
    groups: &[&CellGroup<'_>],
    a: PathKind,
    b: PathKind,
    combinations: &[Combination],
) -> Estimate {
    let ratios: Vec<Estimate> = (combinations.iter())
        .filter_map(|combination| {
            let a = find(groups, a, combination)?.throughput()?;
            let b = find(groups, b, combination)?.throughput()?;
            Some(a.ratio(b))
        })
        .collect();
    geometric_mean(&ratios)
}

/// Geometric mean of a path's throughput in GiB/s.
fn rate(groups: &[&CellGroup<'_>], path: PathKind, combinations: &[Combination]) -> Estimate {
    let rates =
        combinations.iter().filter_map(|combination| find(groups, path, combination)?.throughput());
    geometric_mean(&rates.collect::<Vec<_>>())
}

fn geometric_mean(of: &[Estimate]) -> Estimate {
    match of {
        [only] => *only,
        several => {
            let logarithms: f64 = several.iter().map(|one| one.value.ln()).sum();
            Estimate { value: (logarithms / several.len() as f64).exp(), spread: None }
        }
    }
}
