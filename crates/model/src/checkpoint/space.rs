//! Whether checkpoints fit on the file systems of their directories.

use super::facts::CheckpointFacts;
use super::plan::CheckpointPlan;
use super::problem::Problem;
use super::scale::Scaling;
use crate::units::ByteSize;

/// What is left untouched for the file system's own needs, in bytes.
const RESERVE_BYTES: u64 = 16 << 20;

/// Free bytes of all file systems together; `None` when storage was not looked at.
pub(super) fn free(facts: &CheckpointFacts) -> Option<u64> {
    (!facts.folders.is_empty()).then(|| facts.file_systems().iter().map(|(free, _)| free).sum())
}

/// Bytes that checkpoints spread over the directories can have in all, counting what is free and
/// (when the run `replaces` them) the checkpoints that stormlp has there. The tightest file
/// system decides, since ranks are spread evenly.
pub(super) fn room(facts: &CheckpointFacts, replaces: bool) -> u64 {
    let folders = facts.folders.len().max(1) as u64;
    facts
        .file_systems()
        .iter()
        .map(|(free, members)| {
            let usable = free.saturating_sub(RESERVE_BYTES)
                + if replaces {
                    replaced(facts, members, u32::MAX)
                } else {
                    0
                };
            (u128::from(usable) * u128::from(folders) / members.len() as u128)
                .min(u128::from(u64::MAX)) as u64
        })
        .min()
        .unwrap_or(u64::MAX)
}

/// Bytes of stormlp's own checkpoints up to step `last` in the given directories.
fn replaced(facts: &CheckpointFacts, folders: &[usize], last: u32) -> u64 {
    facts
        .saved
        .iter()
        .filter(|part| part.step <= last && folders.contains(&part.folder))
        .filter(|part| part.readable_marker().is_some())
        .map(super::facts::SavedPart::bytes)
        .sum()
}

/// Too little space, with the numbers, for each file system.
pub(super) fn problems(
    plan: &CheckpointPlan,
    facts: &CheckpointFacts,
    scaling: &Scaling,
) -> Vec<Problem> {
    if plan.writes == 0 || plan.total_bytes == 0 {
        return Vec::new();
    }
    let copies = plan.peak_bytes / plan.total_bytes;
    let mut problems = Vec::new();
    for (free, members) in facts.file_systems() {
        let share: u64 = plan
            .ranks
            .iter()
            .filter(|rank| members.contains(&rank.folder))
            .map(|rank| rank.bytes)
            .sum();
        let needed = share.saturating_mul(copies).saturating_add(RESERVE_BYTES);
        let own = replaced(facts, &members, plan.writes);
        if needed > free.saturating_add(own) {
            let first = &facts.folders[members[0]].path;
            problems.push(Problem::machine(
                format!(
                    "{copies} checkpoints of {} ({share} bytes) need {} ({needed} bytes) on the \
                     file system of {}; it has {} ({free} bytes) free",
                    ByteSize(share),
                    ByteSize(needed),
                    first.display(),
                    ByteSize(free),
                ),
                remedy(scaling),
            ));
        }
    }
    problems
}

/// What makes a checkpoint fit.
fn remedy(scaling: &Scaling) -> String {
    let other = "another --dir, fewer --writes, or --keep 1";
    if (scaling.layers, scaling.ranks) == (1, 1) {
        format!("use {other}: this is the smallest scale there is")
    } else {
        format!("use {other}, or --scale auto for the largest part that fits")
    }
}
