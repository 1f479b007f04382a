//! Whether checkpoints fit on the file systems of their directories.

use super::choice::ScaleChoice;
use super::facts::{CheckpointFacts, SavedPart};
use super::layout::Layout;
use super::request::CheckpointRequest;
use super::saved::removed_runs;
use crate::plan::checkpoint_plan::CheckpointPlan;
use stormlp_core::failure::Problems;
use stormlp_core::units::{ByteSize, GIB};

/// Bytes reserved for the file system itself.
const RESERVE_BYTES: u64 = 16 << 20;

/// Total free bytes of all file systems; `None` if storage was not scanned, or does not tell, as object
/// stores do not.
pub(super) fn free(facts: &CheckpointFacts) -> Option<u64> {
    let known: Option<u64> = facts.file_systems().iter().map(|(free, _)| *free).sum();
    known.filter(|_| !facts.folders.is_empty())
}

/// Room for checkpoints on one file system.
struct FileSystemRoom {
    free_bytes: u64,
    /// The directories on it.
    folders: Vec<usize>,
    /// Bytes that killed runs left, which are removed before the first save.
    unfinished_bytes: u64,
    /// Bytes of the runs that are removed after the first save.
    removed_bytes: u64,
    /// Bytes of all checkpoints that stormlp saved on it.
    saved_bytes: u64,
}

impl FileSystemRoom {
    /// Bytes that must be free before a run with checkpoints of `share` bytes each here, of which it has
    /// at most `copies` at the same time.
    fn needed(&self, share: u64, copies: u64) -> u64 {
        let later = share.saturating_mul(copies).saturating_sub(self.removed_bytes);
        later.max(share).saturating_add(RESERVE_BYTES).saturating_sub(self.unfinished_bytes)
    }
}

/// Room on the file systems of the directories.
pub(super) struct Room {
    file_systems: Vec<FileSystemRoom>,
    folders: u64,
}

impl Room {
    /// The room in the directories for a run that removes `removed` runs; unlimited if storage was not
    /// scanned.
    pub(super) fn of(facts: &CheckpointFacts, removed: &[String]) -> Self {
        let room = |(free_bytes, folders): (Option<u64>, Vec<usize>)| {
            let bytes = |counts: &dyn Fn(&SavedPart) -> bool| {
                let saved = facts.saved.iter().filter(|part| folders.contains(&part.folder));
                saved.filter(|part| counts(part)).map(SavedPart::bytes).sum()
            };
            FileSystemRoom {
                // A file system that does not report its space cannot run out.
                free_bytes: free_bytes.unwrap_or(u64::MAX),
                unfinished_bytes: bytes(&SavedPart::is_unfinished),
                removed_bytes: bytes(&|p| removed.contains(&p.run) && !p.is_unfinished()),
                saved_bytes: bytes(&|part| part.marker.is_ok()),
                folders,
            }
        };
        Self {
            file_systems: facts.file_systems().into_iter().map(room).collect(),
            folders: facts.folders.len().max(1) as u64,
        }
    }

    /// Whether every file system has room for `copies` of the files that the first `ranks` ranks of
    /// `layout` write to it. Directories are assigned round-robin.
    pub(super) fn fits(&self, layout: &Layout, ranks: u64, copies: u64) -> bool {
        self.fits_times(1, layout, ranks, copies)
    }

    /// Whether half of the room is enough.
    pub(super) fn fits_in_half(&self, layout: &Layout, ranks: u64, copies: u64) -> bool {
        self.fits_times(2, layout, ranks, copies)
    }

    fn fits_times(&self, times: u64, layout: &Layout, ranks: u64, copies: u64) -> bool {
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
            file_system.needed(share.saturating_mul(times), copies) <= file_system.free_bytes
        };
        self.file_systems.iter().zip(shares).all(holds)
    }
}

/// Bytes in GiB, as all sizes of checkpoints on a screen; small values in a suitable unit.
pub fn gib(bytes: u64) -> String {
    if bytes < GIB {
        return ByteSize(bytes).to_string();
    }
    format!("{:.2} GiB", bytes as f64 / GIB as f64)
}

/// Reports insufficient space, with the numbers, for each file system.
pub(super) fn problems(plan: &CheckpointPlan, facts: &CheckpointFacts, problems: &mut Problems) {
    if plan.writes == 0 || plan.total_bytes == 0 {
        return;
    }
    for room in Room::of(facts, &plan.removed_runs).file_systems {
        let ranks = plan.ranks.iter().filter(|rank| room.folders.contains(&rank.folder));
        let share: u64 = ranks.map(|rank| rank.bytes).sum();
        let (needed, free) = (room.needed(share, plan.copies()), room.free_bytes);
        if needed <= free {
            continue;
        }
        let first = &facts.folders[room.folders[0]].path;
        let what = match plan.copies() {
            1 => format!("1 checkpoint of {} needs", gib(share)),
            copies => format!("{copies} checkpoints of {} need", gib(share)),
        };
        let beside = match room.saved_bytes {
            0 => String::new(),
            bytes => format!(" beside the {} of earlier runs", gib(bytes)),
        };
        // Where the texts would be the same, the bytes show what is missing.
        let [needed, free] = match [gib(needed), gib(free)] {
            [one, other] if one == other => [needed, free].map(|bytes| format!("{bytes} bytes")),
            texts => texts,
        };
        problems.capacity(
            format!(
                "{what} {needed} on the file system of {first}{beside}, {} of it for the file \
                 system itself; it has {free} free",
                ByteSize(RESERVE_BYTES)
            ),
            remedy(plan, facts, &room),
        );
    }
}

/// How to make the checkpoints fit on `tight`: only measures that help and are not taken yet, and under
/// closed rules only permitted ones.
fn remedy(plan: &CheckpointPlan, facts: &CheckpointFacts, tight: &FileSystemRoom) -> String {
    let fits = |removed: &[String], copies: u64| {
        Room::of(facts, removed).fits(&plan.layout, plan.scaling.ranks, copies)
    };
    let mut ways = vec!["another --dir".to_string()];
    let fewest = CheckpointRequest { keep_last: Some(1), ..plan.request.clone() };
    let oldest = removed_runs(&fewest, facts);
    if plan.request.keep_last > Some(1) && fits(&oldest, plan.copies()) {
        let freed = Room::of(facts, &oldest).file_systems;
        let freed = freed.iter().map(|room| room.removed_bytes).sum::<u64>();
        ways.push(format!("--keep-last 1, which removes {} of earlier runs", gib(freed)));
    }
    if tight.saved_bytes > 0 {
        let dir = &facts.folders[tight.folders[0]].path;
        let freed = gib(tight.saved_bytes);
        ways.push(format!("`stormlp clean {dir}`, which frees {freed}"));
    }
    if plan.request.closed {
        return format!("use {}; --closed writes all of it", ways.join(", or "));
    }
    if plan.writes > 1 && fits(&plan.removed_runs, 1) {
        ways.push("fewer --saves".to_string());
    }
    if plan.writes > 2 && plan.request.keep != Some(1) && fits(&plan.removed_runs, 2) {
        ways.push("--keep 1".to_string());
    }
    let (scale, ranks) = (plan.request.scale, plan.request.ranks);
    if scale != Some(ScaleChoice::Auto) && (scale.is_some() || ranks.is_some()) {
        ways.push("--scale auto for the largest part that fits".to_string());
    }
    format!("use {}", ways.join(", or "))
}
