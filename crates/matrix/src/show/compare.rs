//! The answer of a matrix in a sentence: the best of a sweep, or how the paths compare.

use crate::plan::{CacheState, CellReport, MatrixPlan, Measurement, Reach};
use stormlp_core::operation::Direction;
use stormlp_core::path::PathKind;
use stormlp_core::stats::{Shift, UncertainMean};
use stormlp_core::units::counted;
use stormlp_core::warning::WarningKind;

use super::group::{CellGroup, cut_short};
use super::mix;
use stormlp_show::document::Quantity;
use stormlp_show::numbers::percent;

/// Maximum number of paths compared with the fastest in the sentence; the table lists all.
const MOST_OTHERS: usize = 2;
/// The probability that the interval of a ratio misses it.
const ERROR: f64 = 0.05;

/// The answer; `None` if no cell moved bytes. Groups whose bytes came from memory come after those
/// of storage.
pub(super) fn answer(plan: &MatrixPlan, all: &[CellGroup<'_>], hosts: usize) -> Option<String> {
    let fair = fair(plan, all);
    let (ranked, from_storage) = ranked(plan, all, &fair);
    let first = ranked.first()?;
    let is_sweep = ranked.iter().any(|group| !group.key.is_beside(&first.key));
    Some(if is_sweep {
        let (of_kind, memory) = match from_storage {
            0 => (&ranked[..], &[][..]),
            _ => ranked.split_at(from_storage),
        };
        format!("{}{}", best(plan, of_kind, hosts), faster_in_memory(of_kind, memory))
    } else {
        format!("{}{}", compared(plan, &ranked, hosts), left_out(plan, all, &fair))
    })
}

/// The fastest of the groups that moved bytes, of those from storage if there are any.
pub(super) fn fastest<'a, 'b>(
    plan: &MatrixPlan,
    all: &'a [CellGroup<'b>],
) -> Option<&'a CellGroup<'b>> {
    ranked(plan, all, &fair(plan, all)).0.first().copied()
}

/// The groups to compare, fastest first, those of storage before those from memory, and how many are
/// of storage.
fn ranked<'a, 'b>(
    plan: &MatrixPlan,
    all: &'a [CellGroup<'b>],
    fair: &[&'a CellGroup<'b>],
) -> (Vec<&'a CellGroup<'b>>, usize) {
    let mut groups: Vec<&'a CellGroup<'b>> = comparable(fair.iter().copied()).collect();
    if groups.is_empty() {
        groups = comparable(all).collect();
    }
    let of_storage = |group: &&CellGroup<'_>| !is_from_memory(plan, group);
    let (mut ranked, memory): (Vec<_>, Vec<_>) = groups.into_iter().partition(of_storage);
    let by_rate = |a: &&CellGroup<'_>, b: &&CellGroup<'_>| b.rate().total_cmp(&a.rate());
    ranked.sort_by(by_rate);
    let from_storage = ranked.len();
    ranked.extend(memory);
    ranked[from_storage..].sort_by(by_rate);
    (ranked, from_storage)
}

/// How many settings that the answer leaves out are faster than it, because memory served them.
fn faster_in_memory(of_storage: &[&CellGroup<'_>], memory: &[&CellGroup<'_>]) -> String {
    let best = of_storage.iter().map(|group| group.rate()).fold(0.0, f64::max);
    match memory.iter().filter(|group| group.rate() > best).count() as u64 {
        0 => String::new(),
        faster => {
            let settings = counted(faster, "faster setting");
            format!("; {settings} came from memory")
        }
    }
}

/// The highest throughput, the most operations and the lowest latency at depth 1, each with its
/// setting.
fn best(plan: &MatrixPlan, groups: &[&CellGroup<'_>], hosts: usize) -> String {
    // A cell that was cut short answers only where no other does.
    let span = plan.request.span();
    let is_whole = |group: &&CellGroup<'_>| {
        group.results().into_iter().all(|numbers| cut_short(numbers, span).is_none())
    };
    let whole: Vec<&CellGroup<'_>> = groups.iter().copied().filter(is_whole).collect();
    let groups = if whole.is_empty() { groups } else { &whole };
    let at = |group: &CellGroup<'_>| {
        format!("{} {}", group_words(plan, group), group.key.setting(hosts))
    };
    let most = |number: fn(&Measurement) -> f64| {
        let known = groups.iter().filter_map(|group| Some((group, group.estimate(number)?.value)));
        known.max_by(|a, b| a.1.total_cmp(&b.1))
    };
    let mut parts = Vec::new();
    if let Some(group) = groups.iter().max_by(|a, b| a.rate().total_cmp(&b.rate()))
        && let Some(rate) = group.throughput()
    {
        parts.push(format!("best {} GiB/s{} ({})", rate.text(), mix::rates(group), at(group)));
    }
    if let Some((group, iops)) = most(|numbers| numbers.iops) {
        let iops = Quantity::higher(iops, "IOPS").text();
        parts.push(format!("most {iops} IOPS ({})", at(group)));
    }
    let one_at_a_time = groups.iter().filter(|group| group.key.queue_depth == 1);
    let mixed = groups.iter().any(|group| !mix::rates(group).is_empty());
    let mean = |group: &CellGroup<'_>| match mixed {
        true => mix::known(group, mix::reads, |part| Some(part.latency_us?.mean)),
        false => Some(group.estimate(|one| one.latency_us.mean)?.value),
    };
    let of = if mixed { " of reads" } else { "" };
    let latencies = one_at_a_time.filter_map(|group| Some((group, mean(group)?)));
    if let Some((group, us)) = latencies.min_by(|a, b| a.1.total_cmp(&b.1)) {
        let us = Quantity::lower(us, "µs").text();
        parts.push(format!("lowest mean latency{of} at depth 1 {us} µs ({})", at(group)));
    }
    parts.join("; ")
}

/// The paths of one combination, fastest first, and the ratios that repetitions prove.
fn compared(plan: &MatrixPlan, ranked: &[&CellGroup<'_>], hosts: usize) -> String {
    let Some((first, others)) = ranked.split_first() else {
        return String::new();
    };
    let rate = |group: &CellGroup<'_>| {
        let rate = group.throughput().map_or(String::new(), |rate| rate.text());
        format!("{} {rate} GiB/s{}", group_words(plan, group), mix::rates(group))
    };
    let mut parts = vec![rate(first)];
    for other in others.iter().take(MOST_OTHERS) {
        let ratio = ratio(plan, first, other);
        parts.push(match ratio {
            Some([low, ratio, high]) => format!(
                "{ratio:.2} × the throughput of {} ({low:.2} to {high:.2})",
                group_words(plan, other)
            ),
            None => rate(other),
        });
    }
    let setting = first.key.setting(hosts);
    format!("{} ({setting})", parts.join(", "))
}

/// The ratio of two rates from storage between the ends of its interval. `None` unless both were repeated without
/// others' load, and the interval is clear of 1.
fn ratio(plan: &MatrixPlan, one: &CellGroup<'_>, other: &CellGroup<'_>) -> Option<[f64; 3]> {
    let disturbed = |group: &CellGroup<'_>| {
        let mut warnings = group.cells.iter().flat_map(|cell| &cell.warnings);
        warnings.any(|warning| warning.kind == WarningKind::OthersLoad)
    };
    let of_memory = |group: &CellGroup<'_>| is_from_memory(plan, group);
    if plan.request.verify.is_of_content()
        || [one, other].into_iter().any(|group| disturbed(group) || of_memory(group))
    {
        return None;
    }
    let mean = |group: &CellGroup<'_>| {
        let rates = group.results().into_iter().map(|one| one.throughput_bytes_per_second.ln());
        UncertainMean::of_independent(&rates.collect::<Vec<f64>>())
    };
    let shift = Shift::between(mean(other)?, mean(one)?);
    let [low, high] = shift.interval(ERROR).map(f64::exp);
    (high.is_finite() && (low > 1.0 || high < 1.0)).then_some([low, shift.value.exp(), high])
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
    let reads = group.key.op.direction() == Direction::Read;
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
        reaches.any(|(_, _, reach)| reach.is_cached_write())
    };
    let beside_storage = |group: &CellGroup<'_>| {
        let mut others = comparable(groups);
        others.any(|other| other.key.is_beside(&group.key) && !unsynced(other))
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

/// A group's path as the table names it, with the effective path, and whether the page cache rather
/// than storage served or absorbed most of its bytes.
pub(super) fn group_words(plan: &MatrixPlan, group: &CellGroup<'_>) -> String {
    let name = group.path_words();
    if reads_holes(plan, group) {
        let share = percent(plan.hole_share().unwrap_or_default());
        return format!("{name} (reading a file that is {share} holes)");
    }
    let is = |writes| is_mostly_memory(plan, group, writes);
    match (is(false), is(true)) {
        (false, false) => name,
        (true, false) => format!("{name} (mostly read from memory)"),
        (false, true) => format!("{name} (mostly written to memory)"),
        (true, true) => format!("{name} (mostly read from and written to memory)"),
    }
}

/// Whether the page cache served most of the bytes of a group's reads, or kept most of those of its
/// writes.
fn is_mostly_memory(plan: &MatrixPlan, group: &CellGroup<'_>, writes: bool) -> bool {
    let path = group.key.path;
    path != PathKind::Null
        && reaches(plan, group).any(|(_, numbers, reach)| {
            reach.is_write == writes && in_memory(plan, path, numbers, reach)
        })
}

/// Whether the figures of a group are known to be those of memory.
pub(super) fn is_from_memory(plan: &MatrixPlan, group: &CellGroup<'_>) -> bool {
    reads_holes(plan, group)
        || [false, true].into_iter().any(|writes| is_mostly_memory(plan, group, writes))
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
