//! Whether checkpoints fit on the file systems of their directories.

use super::facts::CheckpointFacts;
use super::layout::Layout;
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

/// The saves of a run, as far as they determine the space that it needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Saves {
    /// Number of saves.
    pub(super) writes: u32,
    /// How many of its checkpoints are kept; all if not given.
    pub(super) keep: Option<u32>,
    /// Whether earlier checkpoints are removed before their replacement is saved, not afterwards.
    pub(super) overwrite: bool,
}

impl Saves {
    fn of(plan: &CheckpointPlan) -> Self {
        let request = &plan.request;
        Self { writes: plan.writes, keep: request.keep, overwrite: request.overwrite }
    }

    /// How many of the run's checkpoints are on storage while it saves checkpoint `step`, that one
    /// included.
    fn copies_at(self, step: u32) -> u64 {
        let kept = self.keep.map_or(u32::MAX, |keep| keep.saturating_add(1));
        u64::from(step.min(kept))
    }

    /// The most of its checkpoints that are on storage at the same time.
    pub(super) fn peak(self) -> u64 {
        self.copies_at(self.writes)
    }
}

/// Room for checkpoints on one file system.
struct FileSystemRoom {
    free_bytes: u64,
    /// The directories on it.
    folders: Vec<usize>,
    /// stormlp's own checkpoints on it, with their bytes.
    earlier: Vec<(u32, u64)>,
    /// Bytes that killed runs left, which are removed before the first save.
    left_bytes: u64,
}

impl FileSystemRoom {
    /// Bytes that must be free before a run whose checkpoints have `share` bytes each here.
    fn needed(&self, share: u64, saves: Saves) -> u64 {
        let need = |step: u32| {
            let is_gone = |earlier: u32| earlier < step || (saves.overwrite && earlier == step);
            let gone = self.earlier.iter().filter(|(step, _)| is_gone(*step));
            let gone = gone.fold(self.left_bytes, |sum, (_, bytes)| sum.saturating_add(*bytes));
            let written = share.saturating_mul(saves.copies_at(step));
            written.saturating_add(RESERVE_BYTES).saturating_sub(gone)
        };
        // It grows up to the save before which the next earlier checkpoint is gone.
        let last = |earlier: u32| if saves.overwrite { earlier.saturating_sub(1) } else { earlier };
        let steps = self.earlier.iter().map(|(earlier, _)| last(*earlier));
        let steps = steps.filter(|step| (1..saves.writes).contains(step));
        steps.chain([saves.writes]).map(need).max().unwrap_or(0)
    }
}

/// Room on the file systems of the directories: free space and what saves replace. Later checkpoints
/// of an earlier run are kept.
pub(super) struct Room {
    file_systems: Vec<FileSystemRoom>,
    folders: u64,
}

impl Room {
    /// The room in the directories; unlimited if storage was not scanned.
    pub(super) fn of(facts: &CheckpointFacts) -> Self {
        let room = |(free_bytes, folders): (Option<u64>, Vec<usize>)| {
            let own = facts.saved.iter().filter(|part| folders.contains(&part.folder));
            let own = own.filter(|part| part.readable_marker().is_some());
            let left = facts.leftovers.iter().filter(|left| folders.contains(&left.folder));
            let left = left.filter(|left| left.foreign.is_none());
            FileSystemRoom {
                // What does not tell its space has none to run out of.
                free_bytes: free_bytes.unwrap_or(u64::MAX),
                earlier: own.map(|part| (part.step, part.bytes())).collect(),
                left_bytes: left.fold(0, |sum, left| sum.saturating_add(left.bytes)),
                folders,
            }
        };
        Self {
            file_systems: facts.file_systems().into_iter().map(room).collect(),
            folders: facts.folders.len().max(1) as u64,
        }
    }

    /// Whether every file system has room for `saves` of what the first `ranks` ranks of `layout`
    /// write to it. Directories are assigned round-robin.
    pub(super) fn fits(&self, layout: &Layout, ranks: u64, saves: Saves) -> bool {
        self.fits_times(1, layout, ranks, saves)
    }

    /// Whether half of the room is enough.
    pub(super) fn fits_in_half(&self, layout: &Layout, ranks: u64, saves: Saves) -> bool {
        self.fits_times(2, layout, ranks, saves)
    }

    fn fits_times(&self, times: u64, layout: &Layout, ranks: u64, saves: Saves) -> bool {
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
            file_system.needed(share.saturating_mul(times), saves) <= file_system.free_bytes
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
    let saves = Saves::of(plan);
    for room in Room::of(facts).file_systems {
        let ranks = plan.ranks.iter().filter(|rank| room.folders.contains(&rank.folder));
        let share: u64 = ranks.map(|rank| rank.bytes).sum();
        let (needed, free) = (room.needed(share, saves), room.free_bytes);
        if needed <= free {
            continue;
        }
        let first = &facts.folders[room.folders[0]].path;
        let what = match saves.peak() {
            1 => format!("1 checkpoint of {} needs", gib(share)),
            copies => format!("{copies} checkpoints of {} need", gib(share)),
        };
        let replaced = room.earlier.iter().any(|(step, _)| *step <= plan.writes);
        let beside = match (replaced, saves.overwrite) {
            (false, _) => "",
            (true, true) => " on top of what they overwrite",
            (true, false) => {
                " on top of the earlier ones, each of which stays until its replacement is whole"
            }
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
            remedy(plan, facts),
        );
    }
}

/// How to make the checkpoints fit: only measures that help and are not taken yet, and under closed
/// rules only permitted ones.
fn remedy(plan: &CheckpointPlan, facts: &CheckpointFacts) -> String {
    let (scaling, saves, room) = (&plan.scaling, Saves::of(plan), Room::of(facts));
    let fit = |saves: Saves| room.fits(&plan.layout, scaling.ranks, saves);
    let overwrites = !saves.overwrite && fit(Saves { overwrite: true, ..saves });
    if plan.request.closed {
        let overwrite = "use --overwrite, which removes each earlier checkpoint before it is saved \
                         again, or another --dir";
        let other = "use another --dir, or free some space: --closed writes all of it";
        return if overwrites { overwrite } else { other }.to_string();
    }
    let mut ways = vec!["another --dir".to_string()];
    if overwrites {
        ways.insert(
            0,
            "--overwrite to remove each earlier one before it is saved again".to_string(),
        );
    }
    if plan.writes > 1 && fit(Saves { writes: 1, ..saves }) {
        ways.push("fewer --writes".to_string());
    }
    if plan.writes > 2 && plan.request.keep != Some(1) && fit(Saves { keep: Some(1), ..saves }) {
        ways.push("--keep 1".to_string());
    }
    let smallest = (scaling.layers, scaling.ranks) == (1, 1);
    match plan.request.scale {
        _ if smallest => {}
        // Unless a scale is given, the requested ranks are kept.
        None if plan.request.ranks.is_some() => {
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
