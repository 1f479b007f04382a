//! The answer of a matrix in a sentence: the best of a sweep, or how the paths compare.

use std::cmp::Ordering;

use crate::plan::{CellReport, MatrixPlan, Measurement, Reach};
use stormlp_core::path::PathKind;
use stormlp_core::stats::{Shift, UncertainMean};
use stormlp_core::warning::WarningKind;

use super::group::CellGroup;
use super::mix;
use stormlp_show::document::Quantity;

/// Maximum number of paths compared with the fastest in the sentence; the table lists all.
const MOST_OTHERS: usize = 2;
/// The probability that the interval of a ratio misses it.
const ERROR: f64 = 0.05;

/// The answer; `None` if no cell moved bytes. Groups with bytes from memory come after groups that
/// reached storage.
pub(super) fn answer(plan: &MatrixPlan, all: &[CellGroup<'_>], hosts: &str) -> Option<String> {
    let ranked = ranked(plan, all);
    let first = ranked.first()?;
    let is_sweep = ranked.iter().any(|group| !group.key.is_beside(&first.key));
    if !is_sweep {
        return Some(compared(plan, &ranked, hosts));
    }
    let of_storage = ranked.iter().filter(|group| !is_from_memory(plan, group)).count();
    Some(best(plan, if of_storage > 0 { &ranked[..of_storage] } else { &ranked }, hosts))
}

/// The groups that moved bytes, fastest first, storage before memory.
pub(super) fn ranked<'a, 'b: 'a>(
    plan: &MatrixPlan,
    all: impl IntoIterator<Item = &'a CellGroup<'b>>,
) -> Vec<&'a CellGroup<'b>> {
    let moved =
        |group: &&CellGroup<'_>| group.key.path != PathKind::Null && group.throughput().is_some();
    let mut groups: Vec<&CellGroup<'_>> = all.into_iter().filter(moved).collect();
    groups.sort_by(|a, b| rank(plan, a, b));
    groups
}

/// The order of groups: fastest first, storage before memory.
pub(super) fn rank(plan: &MatrixPlan, a: &CellGroup<'_>, b: &CellGroup<'_>) -> Ordering {
    let memory = is_from_memory(plan, a).cmp(&is_from_memory(plan, b));
    memory.then_with(|| b.rate().total_cmp(&a.rate()))
}

/// The highest throughput, the highest rate of operations and the lowest latency at depth 1, each
/// with its setting.
fn best(plan: &MatrixPlan, groups: &[&CellGroup<'_>], hosts: &str) -> String {
    // A cell that was cut short answers only where no other does.
    let is_whole =
        |group: &&CellGroup<'_>| group.results().into_iter().all(|numbers| !numbers.interrupted);
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
        let rate = format!("{} GiB/s{}{}", rate.text(), mix::rates(group), course(group));
        parts.push(format!("best {rate} ({})", at(group)));
    }
    if let Some((group, iops)) = most(|numbers| numbers.iops) {
        let iops = Quantity::higher(iops, "IOPS").text();
        parts.push(format!("maximum {iops} IOPS ({})", at(group)));
    }
    let is_latency =
        |group: &&&CellGroup<'_>| group.key.queue_depth == 1 && !is_read_ahead(plan, group);
    let one_at_a_time = groups.iter().filter(is_latency);
    let mixed = groups.iter().any(|group| !mix::rates(group).is_empty());
    let mean = |group: &CellGroup<'_>| match mixed {
        true => mix::known(group, mix::reads, |part| Some(part.latency_us?.mean)),
        false => Some(group.estimate(|one| one.latency_us.mean)?.value),
    };
    let of = if mixed { " of reads" } else { "" };
    let latencies = one_at_a_time.filter_map(|group| Some((group, mean(group)?)));
    if let Some((group, us)) = latencies.min_by(|a, b| a.1.total_cmp(&b.1)) {
        let us = Quantity::lower(us, "µs").text();
        parts.push(format!("lowest mean latency{of} {us} µs at depth 1 ({})", at(group)));
    }
    parts.join("; ")
}

/// Whether the kernel may have read ahead, so that a transfer found its bytes in memory: a sequential
/// one through the page cache.
fn is_read_ahead(plan: &MatrixPlan, group: &CellGroup<'_>) -> bool {
    let key = &group.key;
    let is_cached = |cell: &CellReport| plan.cells.get(cell.cell).is_some_and(|of| !of.direct);
    key.path != PathKind::S3
        && !key.op.is_random()
        && group.cells.iter().any(|cell| is_cached(cell))
}

/// The paths of one combination, fastest first, and the ratios that repetitions prove.
fn compared(plan: &MatrixPlan, ranked: &[&CellGroup<'_>], hosts: &str) -> String {
    let Some((first, others)) = ranked.split_first() else {
        return String::new();
    };
    let rate = |group: &CellGroup<'_>| {
        let rate = group.throughput().map_or(String::new(), |rate| rate.text());
        let iops = group.estimate(|one| one.iops).filter(|_| group.key.io_size.is_small());
        let iops = iops.map(|iops| Quantity::higher(iops.value, "IOPS").text() + " IOPS, ");
        let (name, iops) = (group_words(plan, group), iops.unwrap_or_default());
        format!("{name} {iops}{rate} GiB/s{}{}", mix::rates(group), course(group))
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

/// The rates of the first run of a group that changed speed, how many did, and whether all that were
/// to become steady did.
fn course(group: &CellGroup<'_>) -> String {
    let runs = group.results();
    let told: Vec<String> = runs.iter().filter_map(|run| run.levels_in_words()).collect();
    let levels = match told.first() {
        None => String::new(),
        Some(first) if runs.len() == 1 => format!(": {first}"),
        Some(first) => format!(": {first} ({} of {} runs changed)", told.len(), runs.len()),
    };
    let steady: Option<bool> = runs.iter().filter_map(|run| run.steady).reduce(|a, b| a && b);
    let steady =
        steady.map(|is| if is { ", steady at the end" } else { ", not steady at the end" });
    levels + steady.unwrap_or_default()
}

/// The ratio of two rates from storage between the ends of its interval. `None` unless both were
/// repeated without other programs' load, and the interval is clear of 1.
fn ratio(plan: &MatrixPlan, one: &CellGroup<'_>, other: &CellGroup<'_>) -> Option<[f64; 3]> {
    let disturbed = |group: &CellGroup<'_>| {
        let mut warnings = group.cells.iter().flat_map(|cell| &cell.warnings);
        warnings.any(|warning| warning.kind == WarningKind::OthersLoad)
    };
    let of_memory = |group: &CellGroup<'_>| is_from_memory(plan, group);
    if plan.request.verify
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

/// The valid cells of a group with their storage traffic.
pub(super) fn reaches<'a>(
    plan: &'a MatrixPlan,
    group: &'a CellGroup<'_>,
) -> impl Iterator<Item = Reach> + 'a {
    group
        .cells
        .iter()
        .filter_map(|cell| plan.reach(plan.cells.get(cell.cell)?, cell.result()?, cell.hosts.len()))
}

/// A group's path as the table names it, with the effective path, and in which way its figures show
/// memory.
pub(super) fn group_words(plan: &MatrixPlan, group: &CellGroup<'_>) -> String {
    let name = group.path_words();
    match reaches(plan, group).find_map(|reach| reach.of_memory) {
        Some(words) => format!("{name} ({words})"),
        None => name,
    }
}

/// Whether the figures of a group are known to show memory.
pub(super) fn is_from_memory(plan: &MatrixPlan, group: &CellGroup<'_>) -> bool {
    reaches(plan, group).any(|reach| reach.of_memory.is_some())
}
