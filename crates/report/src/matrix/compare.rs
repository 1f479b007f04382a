//! Which path was faster.

use stormlp_model::matrix::{CacheState, MatrixPlan, Measurement};
use stormlp_model::operation::Direction;
use stormlp_model::path::PathKind;

use super::group::{Combination, Group};
use crate::document::Estimate;

/// `A ran 1.24 ± 0.01 times faster than B`, when two or more paths were measured alike.
///
/// With `--verify` nothing is said: the rates are those of checking the pattern.
pub(super) fn verdict(plan: &MatrixPlan, groups: &[Group<'_>]) -> Option<String> {
    if plan.verify {
        return None;
    }
    let mut combinations: Vec<Combination> = Vec::new();
    let mut paths: Vec<PathKind> = Vec::new();
    for group in comparable(groups) {
        if !combinations.contains(&group.key.combination) {
            combinations.push(group.key.combination);
        }
        if !paths.contains(&group.key.path) {
            paths.push(group.key.path);
        }
    }
    if paths.len() < 2 {
        return None;
    }
    // Only combinations that all of these paths ran say anything about all of them.
    combinations.retain(|combination| {
        paths
            .iter()
            .all(|path| find(groups, *path, combination).is_some())
    });
    if combinations.is_empty() {
        return None;
    }
    let fastest = *paths.iter().max_by(|a, b| {
        mean_ratio(groups, **a, **b, &combinations)
            .value
            .total_cmp(&1.0)
    })?;
    let others: Vec<String> = (paths.iter())
        .filter(|path| **path != fastest)
        .map(|path| {
            let ratio = mean_ratio(groups, fastest, *path, &combinations);
            format!(
                "{} times faster than {}",
                ratio.text(),
                words(plan, groups, *path)
            )
        })
        .collect();
    let over = match combinations.as_slice() {
        [only] => only.words(),
        several => format!("geometric mean of {} combinations", several.len()),
    };
    Some(format!(
        "{} ran {} ({over})",
        words(plan, groups, fastest),
        others.join(" and ")
    ))
}

/// The groups that moved bytes and have numbers.
fn comparable<'a, 'b>(groups: &'a [Group<'b>]) -> impl Iterator<Item = &'a Group<'b>> {
    groups
        .iter()
        .filter(|group| group.key.path != PathKind::Null && group.throughput().is_some())
}

/// A path as the table names it, with what ran; and when the page cache, not the storage, gave
/// most of its bytes, that too.
fn words(plan: &MatrixPlan, groups: &[Group<'_>], path: PathKind) -> String {
    let of_path = || comparable(groups).filter(|group| group.key.path == path);
    let name = of_path()
        .next()
        .map_or_else(|| path.to_string(), Group::path_words);
    let mostly = of_path()
        .filter(|group| group.key.combination.op.direction() == Direction::Read)
        .flat_map(Group::results)
        .any(|numbers| from_memory(plan, path, numbers));
    match mostly {
        true => format!("{name} (mostly read from memory)"),
        false => name,
    }
}

/// Whether most of what a cell read came from memory: by what the block device did, and where
/// there is none (tmpfs, network file systems) by what lay in the page cache before the cell. A
/// path that goes around the cache counts only when dropping the files left them there, as on a
/// file system that lives in memory.
fn from_memory(plan: &MatrixPlan, path: PathKind, numbers: &Measurement) -> bool {
    match (numbers.device_read_bytes, numbers.page_cache_share) {
        (Some(device), _) => device < numbers.bytes / 2,
        (None, Some(share)) => {
            share > 0.5 && (path.uses_page_cache() || plan.cache == CacheState::Cold)
        }
        (None, None) => false,
    }
}

fn find<'a, 'b>(
    groups: &'a [Group<'b>],
    path: PathKind,
    combination: &Combination,
) -> Option<&'a Group<'b>> {
    comparable(groups).find(|g| g.key.path == path && g.key.combination == *combination)
}

/// Geometric mean of the ratios of two paths; its spread is known for a single combination.
fn mean_ratio(
    groups: &[Group<'_>],
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
    match ratios.as_slice() {
        [only] => *only,
        several => {
            let logarithms: f64 = several.iter().map(|ratio| ratio.value.ln()).sum();
            Estimate {
                value: (logarithms / several.len() as f64).exp(),
                spread: None,
            }
        }
    }
}
