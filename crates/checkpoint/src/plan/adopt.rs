//! Checkpoints made by other software: restored by file names and sizes, as DLIO writes them.
//!
//! Their expected content is unknown, so content is not checked. Sizes are: a file must hold its
//! tensors' bytes, plus at most the overhead of a container.

use super::choice::Container;
use super::facts::{CheckpointFacts, SavedPart, named};
use super::layout::{CheckpointFile, Layout};
use super::marker::{ContentFacts, FORMAT_VERSION, MarkedFile, Marker, MarkerError};
use super::request::CheckpointRequest;
use super::torch::most_overhead;
use crate::plan::checkpoint_plan::CheckpointPlan;
use stormlp_core::failure::Problems;
use stormlp_core::warning::{Warning, WarningKind};

/// Smallest valid content source; it is neither written nor compared.
const NO_SOURCE_BYTES: u64 = 4096;
/// The maker of an adopted checkpoint, in the marker that is derived from its files.
const OTHERS: &str = "others";

/// Facts in which existing checkpoints made by other software count as checkpoints of `layout` on
/// `ranks` ranks, if their files match. `None` if the run saves, or if stormlp made any of them.
pub(super) fn unmarked(
    request: &CheckpointRequest,
    facts: &CheckpointFacts,
    layout: &Layout,
    ranks: u64,
) -> Option<CheckpointFacts> {
    let marked = facts.saved.iter().any(|part| part.marker != Err(MarkerError::Absent));
    if request.is_saving() || marked || facts.saved.is_empty() {
        return None;
    }
    let mut adopted = facts.clone();
    let folders = facts.folders.len().max(1) as u64;
    let mut first_of_folder: Vec<Option<Vec<MarkedFile>>> = vec![None; folders as usize];
    for part in &mut adopted.saved {
        let first = &mut first_of_folder[part.folder];
        // All checkpoints must have the sizes of the first.
        part.marker = adopt(request, part, layout, ranks, folders).and_then(|marker| {
            if first.get_or_insert_with(|| marker.files.clone()) == &marker.files {
                Ok(marker)
            } else {
                let why = "its files differ in size from the first one's";
                Err(MarkerError::Unlike(why.to_string()))
            }
        });
    }
    Some(adopted)
}

/// The marker that stormlp would have written for the files of `part`.
fn adopt(
    request: &CheckpointRequest,
    part: &SavedPart,
    layout: &Layout,
    ranks: u64,
    folders: u64,
) -> Result<Marker, MarkerError> {
    let mut files = Vec::new();
    let mut container = Container::Raw;
    for rank in (0..ranks).filter(|rank| rank % folders == part.folder as u64) {
        for CheckpointFile { name, bytes, tensors } in layout.rank_files(rank) {
            let found = part
                .files
                .iter()
                .find(|found| found.name == name)
                .ok_or_else(|| MarkerError::Unlike(format!("{name} is missing")))?
                .bytes;
            let most = bytes.saturating_add(most_overhead(tensors));
            if !(bytes..=most).contains(&found) {
                return Err(MarkerError::Unlike(format!(
                    "{name} has {found} bytes, its tensors take {bytes}, {most} at most in a container"
                )));
            }
            if found > bytes {
                container = Container::Torch;
            }
            files.push(MarkedFile { rank, name, bytes: found, identity: None });
        }
    }
    Ok(Marker {
        format_version: FORMAT_VERSION,
        made_by: OTHERS.to_string(),
        complete: true,
        // Whether it was synced is unknown; assume it was.
        crash_safe: true,
        model: request.workload.name.clone(),
        layout: *layout,
        full_layers: layout.architecture.num_layers,
        ranks,
        full_ranks: ranks,
        content: ContentFacts { seed: 0, source_bytes: NO_SOURCE_BYTES, stamped: false, container },
        files,
    })
}

fn adopted(facts: &CheckpointFacts) -> impl Iterator<Item = &SavedPart> {
    let is_adopted = |marker: &Marker| marker.made_by == OTHERS;
    facts.saved.iter().filter(move |part| part.marker.as_ref().is_ok_and(is_adopted))
}

/// Sets the plan's file sizes to those found: containers differ between versions of torch.
pub(super) fn take_sizes(plan: &mut CheckpointPlan, facts: &CheckpointFacts) {
    if adopted(facts).next().is_none() {
        return;
    }
    for rank in &mut plan.ranks {
        let part = adopted(facts).find(|part| part.folder == rank.folder);
        for file in &mut rank.files {
            let found = part.and_then(|part| part.files.iter().find(|f| f.name == file.name));
            file.bytes = found.map_or(file.bytes, |found| found.bytes);
        }
        rank.bytes = rank.files.iter().map(|file| file.bytes).sum();
    }
    plan.total_bytes = plan.ranks.iter().map(|rank| rank.bytes).sum();
}

/// Options that such checkpoints do not support.
pub(super) fn problems(
    request: &CheckpointRequest,
    facts: &CheckpointFacts,
    problems: &mut Problems,
) {
    if request.verify && adopted(facts).next().is_some() {
        problems.plan(
            "--verify: these checkpoints were not written by stormlp, so their expected content is unknown",
            "leave --verify out: file sizes are checked anyway",
        );
    }
}

/// Warns that content is not checked.
pub(super) fn warning(plan: &CheckpointPlan, facts: &CheckpointFacts) -> Option<Warning> {
    let mut steps: Vec<u32> = adopted(facts).map(|part| part.step).collect();
    steps.retain(|step| plan.restores.contains(step));
    steps.sort_unstable();
    steps.dedup();
    (!steps.is_empty()).then(|| {
        Warning::new(
            WarningKind::EarlierCheckpoints,
            format!(
                "{} in {} {} made by another program: file names and sizes match {}, content is not \
                 checked",
                named(&steps),
                plan.folder_names(),
                if steps.len() == 1 { "was" } else { "were" },
                plan.model
            ),
            "",
        )
    })
}
