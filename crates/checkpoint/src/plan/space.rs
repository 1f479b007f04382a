//! Whether checkpoints fit on the file systems of their directories.

use super::facts::CheckpointFacts;
use super::layout::Layout;
use crate::plan::checkpoint_plan::CheckpointPlan;
use stormlp_core::failure::Problems;
use stormlp_core::units::ByteSize;

/// Bytes reserved for the file system itself.
const RESERVE_BYTES: u64 = 16 << 20;

/// Total free bytes of all file systems; `None` if storage was not scanned.
pub(super) fn free(facts: &CheckpointFacts) -> Option<u64> {
    (!facts.folders.is_empty()).then(|| facts.file_systems().iter().map(|(free, _)| free).sum())
}

/// Room for checkpoints on one file system, and the directories on it.
struct FileSystemRoom {
    usable_bytes: u64,
    folders: Vec<usize>,
}

/// Room on the file systems of the directories for checkpoints 1 to the last one saved: free space
/// plus what they replace. Later checkpoints of an earlier run are kept.
pub(super) struct Room {
    file_systems: Vec<FileSystemRoom>,
    folders: u64,
}

impl Room {
    /// The room for checkpoints 1 to `writes`; unlimited if storage was not scanned.
    pub(super) fn of(facts: &CheckpointFacts, writes: u32) -> Self {
        let room = |(free, folders): (u64, Vec<usize>)| FileSystemRoom {
            usable_bytes: free
                .saturating_add(replaced(facts, &folders, writes))
                .saturating_sub(RESERVE_BYTES),
            folders,
        };
        Self {
            file_systems: facts.file_systems().into_iter().map(room).collect(),
            folders: facts.folders.len().max(1) as u64,
        }
    }

    /// Half of the room.
    pub(super) fn half(mut self) -> Self {
        for file_system in &mut self.file_systems {
            file_system.usable_bytes /= 2;
        }
        self
    }

    /// Whether every file system has room for `copies` of what the first `ranks` ranks of `layout`
    /// write to it. Directories are assigned round-robin.
    pub(super) fn fits(&self, layout: &Layout, ranks: u64, copies: u64) -> bool {
        let shares = match self.file_systems.len() {
            0 => return true,
            1 => vec![layout.first_ranks_bytes(ranks)],
            _ => {
                let by_folder = layout.first_ranks_bytes_by_folder(ranks, self.folders);
                let share = |f: &FileSystemRoom| f.folders.iter().map(|i| by_folder[*i]).sum();
                self.file_systems.iter().map(share).collect()
            }
        };
        let holds = |(file_system, share): (&FileSystemRoom, u64)| {
            share.saturating_mul(copies) <= file_system.usable_bytes
        };
        self.file_systems.iter().zip(shares).all(holds)
    }
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

/// Reports insufficient space, with the numbers, for each file system.
pub(super) fn problems(plan: &CheckpointPlan, facts: &CheckpointFacts, problems: &mut Problems) {
    if plan.writes == 0 || plan.total_bytes == 0 {
        return;
    }
    let copies = plan.peak_bytes / plan.total_bytes;
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
            problems.capacity(
                format!(
                    "{copies} checkpoints of {} ({share} bytes) need {} ({needed} bytes) on the \
                     file system of {}; it has {} ({free} bytes) free",
                    ByteSize(share),
                    ByteSize(needed),
                    first,
                    ByteSize(free),
                ),
                remedy(plan, facts),
            );
        }
    }
}

/// How to make the checkpoints fit: only measures that help and are not taken yet, and under closed
/// rules only permitted ones.
fn remedy(plan: &CheckpointPlan, facts: &CheckpointFacts) -> String {
    if plan.request.closed {
        return "use another --dir, or free some space: --closed writes all of it".to_string();
    }
    let scaling = &plan.scaling;
    let mut ways = vec!["another --dir".to_string()];
    let room = Room::of(facts, plan.writes);
    let fit = |copies: u64| room.fits(&plan.layout, scaling.ranks, copies);
    if plan.writes > 1 && fit(1) {
        ways.push("fewer --writes".to_string());
    }
    if plan.writes > 2 && plan.request.keep != Some(1) && fit(2) {
        ways.push("--keep 1".to_string());
    }
    let smallest = (scaling.layers, scaling.ranks) == (1, 1);
    match plan.request.scale {
        _ if smallest => {}
        // Unless a scale is given, the requested ranks are kept.
        None if plan.request.ranks.is_some() && !plan.request.dry_run => {
            ways.push("fewer --ranks".to_string());
            ways.push("--scale auto, which may leave some of them out".to_string());
        }
        _ => ways.push("--scale auto for the largest part that fits".to_string()),
    }
    let last = ways.pop().unwrap_or_default();
    let listed = if ways.is_empty() { last } else { format!("{}, or {last}", ways.join(", ")) };
    if smallest {
        format!("use {listed}: this is the smallest possible scale")
    } else {
        format!("use {listed}")
    }
}
