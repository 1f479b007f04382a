//! The number of saves and restores, and whether existing checkpoints can be restored.

use super::adopt;
use super::facts::{CheckpointFacts, SavedPart, named};
use super::layout::Layout;
use super::marker::{Marker, run_folder, run_number, step_folder};
use super::request::CheckpointRequest;
use super::scale::{Scaling, cut};
use crate::plan::checkpoint_plan::CheckpointPlan;
use stormlp_core::facts::keeps_files_in_memory;
use stormlp_core::failure::Problems;
use stormlp_core::units::{ByteSize, counted};
use stormlp_core::warning::{Warning, WarningKind};

/// Saves and restores required by MLPerf.
const MLPERF_COUNT: u32 = 10;
/// Saves and restores of an automatically scaled run.
pub(super) const SCALED_COUNT: u32 = 2;

/// The number of checkpoints to save and restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    /// Number of saves.
    pub(super) writes: u32,
    /// Number of restores.
    pub(super) reads: u32,
    /// How many of the saved checkpoints stay.
    keep: u32,
}

impl Counts {
    /// The most of its checkpoints that are on storage at the same time.
    pub(super) fn peak(self) -> u64 {
        u64::from(self.writes.min(self.keep.saturating_add(1)))
    }
}

/// The counts from the request; otherwise those of the workload or MLPerf's ten, up to `most`. A run
/// without saves restores from `run`.
pub(super) fn counts(
    request: &CheckpointRequest,
    facts: &CheckpointFacts,
    run: &str,
    most: u32,
) -> Counts {
    let usual = |of_file: Option<u32>| of_file.unwrap_or(MLPERF_COUNT).min(most);
    let writes = request.saves.unwrap_or_else(|| usual(request.workload.writes));
    let keep = request.keep.unwrap_or(u32::MAX);
    let there = match request.is_saving() {
        true => writes.min(keep),
        false => restorable(facts, run).len() as u32,
    };
    let reads = request.restores.unwrap_or_else(|| usual(request.workload.reads).min(there));
    Counts { writes, reads, keep }
}

/// The oldest checkpoints of a run, as many as are whole: a kill leaves the newest unfinished. If none is
/// whole, all are tried, so that the problems of each are named.
fn restorable(facts: &CheckpointFacts, run: &str) -> Vec<u32> {
    let mut steps = facts.steps(run);
    let whole = facts.whole_steps(run).len();
    steps.truncate(if whole == 0 { steps.len() } else { whole });
    steps
}

/// The name of the run: a new one if it saves, otherwise the run that it restores from. That is the
/// requested one, or the newest with a whole checkpoint of this model.
pub(super) fn run_name(request: &CheckpointRequest, facts: &CheckpointFacts) -> String {
    if request.is_saving() {
        return run_folder(facts.last_run.saturating_add(1));
    }
    let runs = facts.runs();
    let is_of_model =
        |run: &str| facts.marker(run).is_some_and(|marker| marker.model == request.workload.name);
    let is_whole = |run: &&&str| is_of_model(run) && !facts.whole_steps(run).is_empty();
    let found = runs.iter().rev().find(is_whole).or(runs.last());
    request.run.clone().or_else(|| found.map(|run| (*run).to_string())).unwrap_or_default()
}

/// The earlier runs of this model that are removed as soon as this run has a whole one.
pub(super) fn removed_runs(request: &CheckpointRequest, facts: &CheckpointFacts) -> Vec<String> {
    if !request.is_saving() {
        return Vec::new();
    }
    let mut kept = request.keep_last.unwrap_or(1).saturating_sub(1);
    let mut removed = facts.runs();
    removed.retain(|run| {
        let marker = facts.marker(run);
        run_number(run).is_some() && marker.is_some_and(|m| m.model == request.workload.name)
    });
    removed.reverse();
    removed.retain(|run| {
        let stays = kept > 0 && !facts.whole_steps(run).is_empty();
        kept -= u32::from(stays);
        !stays
    });
    removed.into_iter().rev().map(String::from).collect()
}

/// The checkpoints to restore: the newest of those that this run saves, or, if it saves none, the
/// oldest of the existing run.
pub(super) fn restores(
    facts: &CheckpointFacts,
    run: &str,
    counts: &Counts,
    asked: bool,
) -> Vec<u32> {
    let mut steps = match counts.writes {
        0 if asked => facts.steps(run),
        0 => restorable(facts, run),
        writes => (writes - writes.min(counts.keep) + 1..=writes).collect(),
    };
    steps.truncate(counts.reads as usize);
    steps
}

/// The scaling of an existing run, if it is of this model.
pub(super) fn scaling_of(
    request: &CheckpointRequest,
    marker: &Marker,
    layout: &Layout,
    ranks: u64,
) -> Option<Scaling> {
    let layers = marker.layout.architecture.num_layers;
    let is_alike = marker.model == request.workload.name
        && marker.full_layers == layout.architecture.num_layers
        && cut(layout, layers) == marker.layout
        && marker.ranks <= ranks
        && marker.full_ranks == ranks;
    is_alike.then(|| Scaling::part(layout, ranks, layers, marker.ranks))
}

/// Problems with the checkpoints to be read.
pub(super) fn problems(plan: &CheckpointPlan, facts: &CheckpointFacts, problems: &mut Problems) {
    if plan.writes == 0 && plan.request.run.is_some() && facts.steps(&plan.run).is_empty() {
        let runs = facts.runs();
        let there = match runs[..] {
            [] => "no run saved anything there".to_string(),
            _ => format!("there are {}", runs.join(", ")),
        };
        problems.machine(
            format!("--run {}: {} has no such run; {there}", plan.run, plan.folder_names()),
            "use one of them, or leave --run out for the newest",
        );
        return;
    }
    too_few(plan, facts, problems);
    if plan.writes == 0 {
        for step in &plan.restores {
            restore_problems(plan, facts, *step, problems);
        }
    }
    never_cold(plan, facts, problems);
}

/// Cold restores from directories on memory-backed file systems: no page can be dropped from the
/// cache, whichever path reads them.
fn never_cold(plan: &CheckpointPlan, facts: &CheckpointFacts, problems: &mut Problems) {
    if !plan.request.is_cold() || plan.restores.is_empty() {
        return;
    }
    for folder in &facts.folders {
        let kind = folder.file_system.as_deref();
        let Some(kind) = kind.filter(|kind| keeps_files_in_memory(kind)) else {
            continue;
        };
        problems.machine(
            format!(
                "{} is on {kind}, which keeps its files in memory: restores cannot come from \
                 storage",
                folder.path
            ),
            "use a --dir on the storage in question, or --cache as-is",
        );
    }
}

/// More restores than checkpoints.
fn too_few(plan: &CheckpointPlan, facts: &CheckpointFacts, problems: &mut Problems) {
    let there = plan.restores.len();
    let asked = plan.request.restores.map_or(there, |reads| reads as usize);
    let enough = asked <= there && (plan.writes > 0 || there > 0);
    if enough {
        return;
    }
    let asked = asked.max(1);
    let are = match there {
        1 => "checkpoint is",
        _ => "checkpoints are",
    };
    let asked = counted(asked as u64, "restore");
    let what = format!("{asked} requested; {there} {are} available");
    if plan.writes > 0 {
        problems.plan(
            format!("{what}: a run that saves can only restore the checkpoints that it saved"),
            format!("use --restores {there}, or more --saves or --keep"),
        );
        return;
    }
    let parts = facts.saved.iter().filter(|part| part.run == plan.run && part.marker.is_err());
    let unmarked = parts.flat_map(SavedPart::defects).map(|defect| format!("; {defect}"));
    problems.machine(
        format!("{what} in {}{}", plan.folder_names(), unmarked.collect::<String>()),
        "leave out --saves 0 to save some first",
    );
}

/// Warnings about existing checkpoints.
pub(super) fn warnings(plan: &CheckpointPlan, facts: &CheckpointFacts) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if !plan.removed_runs.is_empty() {
        warnings.push(Warning::new(
            WarningKind::EarlierCheckpoints,
            format!(
                "once this run has a whole checkpoint, the checkpoints of {} in {} are removed",
                plan.removed_runs.join(", "),
                plan.folder_names(),
            ),
            format!("use --keep-last {} to keep them", plan.removed_runs.len() + 1),
        ));
    }
    warnings.extend(on_unfinished(plan, facts));
    if plan.writes == 0 {
        warnings.extend(on_left_out(plan, facts));
        warnings.extend(adopt::warning(plan, facts));
        warnings.extend(on_unsynced(plan, facts));
        warnings.extend(on_holes(plan, facts));
    }
    warnings
}

/// Saves that a kill interrupted.
fn on_unfinished(plan: &CheckpointPlan, facts: &CheckpointFacts) -> Option<Warning> {
    let parts = || facts.saved.iter().filter(|part| part.is_unfinished());
    let mut names: Vec<String> = parts().map(SavedPart::name).collect();
    names.dedup();
    let bytes: u64 = parts().map(SavedPart::bytes).sum();
    let (fate, remedy) = match plan.writes {
        0 => ("not restored", "`stormlp clean DIR` removes it, and so does the next save"),
        _ => ("removed first", ""),
    };
    (!names.is_empty()).then(|| {
        Warning::new(
            WarningKind::EarlierCheckpoints,
            format!(
                "an earlier save did not finish: {} ({}) in {}, {fate}",
                names.join(", "),
                ByteSize(bytes),
                plan.folder_names(),
            ),
            remedy,
        )
    })
}

/// Damaged checkpoints that are not restored although the number of restores was not given.
fn on_left_out(plan: &CheckpointPlan, facts: &CheckpointFacts) -> Option<Warning> {
    let mut left = facts.steps(&plan.run);
    left.retain(|step| {
        let mut parts = facts.parts(&plan.run, *step);
        !plan.restores.contains(step) && !parts.any(SavedPart::is_unfinished)
    });
    let first = *left.first().filter(|_| plan.request.restores.is_none())?;
    let why = facts.parts(&plan.run, first).flat_map(SavedPart::defects).next();
    Some(Warning::new(
        WarningKind::EarlierCheckpoints,
        format!(
            "not restored: {} in {}{}",
            named(&left),
            plan.folder_names(),
            why.map_or(String::new(), |why| format!(" ({why})")),
        ),
        "use --restores to set the number of restores",
    ))
}

/// Checkpoints to be restored that were saved without syncing.
fn on_unsynced(plan: &CheckpointPlan, facts: &CheckpointFacts) -> Option<Warning> {
    let unsynced = facts.marker(&plan.run).is_some_and(|marker| !marker.crash_safe);
    (unsynced && !plan.restores.is_empty()).then(|| {
        Warning::new(
            WarningKind::NotDurable,
            format!(
                "{} {} saved with --fsync none: not crash-safe, so if the machine went down \
                 since, data may be lost without a change in file sizes",
                named(&plan.restores),
                if plan.restores.len() == 1 { "was" } else { "were" },
            ),
            "use --verify to check every byte",
        )
    })
}

/// Checkpoints to be restored that have files with holes.
fn on_holes(plan: &CheckpointPlan, facts: &CheckpointFacts) -> Option<Warning> {
    let parts = || plan.restores.iter().flat_map(|step| facts.parts(&plan.run, *step));
    let holes: u64 = parts().map(|part| part.hole_bytes).sum();
    let share = 100.0 * holes as f64 / parts().map(SavedPart::bytes).sum::<u64>().max(1) as f64;
    (share >= 1.0).then(|| {
        Warning::new(
            WarningKind::Holes,
            format!(
                "{share:.0} % of what is restored is holes: these are not read from any device, \
                 so restores appear faster than storage"
            ),
            "save the checkpoints again",
        )
    })
}

/// Why existing checkpoint `step` cannot be restored by this plan.
fn restore_problems(
    plan: &CheckpointPlan,
    facts: &CheckpointFacts,
    step: u32,
    problems: &mut Problems,
) {
    let again = "leave out --saves 0 to save again: an incomplete checkpoint cannot be repaired";
    for (index, folder) in facts.folders.iter().enumerate() {
        let name = folder.path.join(&plan.run).join(step_folder(step));
        let needed = plan.ranks.iter().any(|rank| rank.folder == index && rank.bytes > 0);
        let Some(part) = facts.parts(&plan.run, step).find(|part| part.folder == index) else {
            if needed {
                problems.machine(format!("checkpoint {} is missing", name.display()), again);
            }
            continue;
        };
        let marker = part.marker.as_ref().ok();
        if let Some(difference) = marker.and_then(|marker| difference(plan, marker)) {
            problems.plan(
                format!("checkpoint {} is of {difference}", name.display()),
                "use the model, --ranks and --scale it was saved with, or another --dir or --run",
            );
            continue;
        }
        if marker.is_some_and(|marker| !holds_files_of(plan, index, marker)) {
            problems.plan(
                format!("checkpoint {} contains the files of other ranks", name.display()),
                "name the directories it was saved to, all of them and in the same order",
            );
            continue;
        }
        for defect in part.defects() {
            problems.machine(format!("cannot restore from {}: {defect}", folder.path), again);
        }
    }
}

/// Whether a checkpoint's part in directory `folder` has the files that the plan's ranks have
/// there. Files of a different distribution over directories belong to a different save.
fn holds_files_of(plan: &CheckpointPlan, folder: usize, marker: &Marker) -> bool {
    let ranks = plan.ranks.iter().filter(|rank| rank.folder == folder);
    let planned = ranks.flat_map(|rank| rank.files.iter().map(|file| (rank.rank, &file.name)));
    planned.eq(marker.files.iter().map(|file| (file.rank, &file.name)))
}

/// How a checkpoint differs from the plan's; `None` if it is the same.
fn difference(plan: &CheckpointPlan, marker: &Marker) -> Option<String> {
    let (there, wanted) = (&marker.layout.parallelism, &plan.layout.parallelism);
    let [packed, container] = [marker.content.container, plan.content.container];
    let layers = plan.layout.architecture.num_layers;
    let same_shape = cut(&marker.layout, layers) == plan.layout
        && marker.full_layers == plan.scaling.full_layers;
    let must_be_equal = [
        (
            marker.model == plan.model,
            format!("another model: {}, not {}", marker.model, plan.model),
        ),
        (
            there.ranks() == wanted.ranks(),
            format!(
                "another number of ranks: {} of {}, not {} of {}",
                marker.ranks,
                there.ranks(),
                plan.scaling.ranks,
                wanted.ranks()
            ),
        ),
        (same_shape, format!("another shape of {}", plan.model)),
        (
            packed == container,
            format!("another container: {packed}, not {container} (--container)"),
        ),
        (
            marker.layout == plan.layout && marker.ranks == plan.scaling.ranks,
            format!(
                "another scale: {} layers on {} ranks, not {layers} on {}",
                marker.layout.architecture.num_layers, marker.ranks, plan.scaling.ranks
            ),
        ),
        (
            marker.files.is_empty() || marker.content == plan.content,
            "another save than that in the first directory".to_string(),
        ),
    ];
    must_be_equal.into_iter().find(|(same, _)| !same).map(|(_, difference)| difference)
}
