//! The number of saves and restores, and whether existing checkpoints can be restored.

use super::adopt;
use super::choice::ScaleChoice;
use super::facts::{CheckpointFacts, OtherFile, SavedPart, named};
use super::layout::Layout;
use super::marker::{ContentFacts, Marker, step_folder};
use super::request::CheckpointRequest;
use super::scale::{Scaling, cut};
use super::space::Saves;
use crate::plan::checkpoint_plan::{CheckpointPlan, RestorePlan};
use stormlp_core::facts::keeps_files_in_memory;
use stormlp_core::failure::Problems;
use stormlp_core::shell::CommandLine;
use stormlp_core::units::ByteSize;
use stormlp_core::warning::{Warning, WarningKind};

/// Saves and restores required by MLPerf.
const MLPERF_COUNT: u32 = 10;
/// Saves and restores of an automatically scaled run.
const SCALED_COUNT: u32 = 2;

/// The number of checkpoints to save and restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    /// Number of saves.
    pub(super) writes: u32,
    /// Number of restores.
    pub(super) reads: u32,
    asked_writes: Option<u32>,
    asked_reads: Option<u32>,
    keep: Option<u32>,
    overwrite: bool,
    there: u32,
}

impl Counts {
    /// The saves, as far as they determine space.
    pub(super) fn saves(&self) -> Saves {
        Saves { writes: self.writes, keep: self.keep, overwrite: self.overwrite }
    }

    /// The counts for a run, scaled or not.
    pub(super) fn for_scaled(self, scaled: bool) -> Self {
        let default = |asked: Option<u32>, plain: u32| match (asked, scaled) {
            (Some(asked), _) => asked,
            (None, true) => plain.min(SCALED_COUNT),
            (None, false) => plain,
        };
        let writes = default(self.asked_writes, self.writes);
        let reads = default(self.asked_reads, self.reads);
        let there = if writes > 0 { self.keep.unwrap_or(writes).min(writes) } else { self.there };
        Self { writes, reads: self.asked_reads.unwrap_or(reads.min(there)), ..self }
    }
}

/// The counts from the request, else from the workload, else MLPerf's ten.
pub(super) fn counts(request: &CheckpointRequest, facts: &CheckpointFacts) -> Counts {
    let steps = facts.steps();
    // If none is complete they are still tried, so that the problems of each are named.
    let there = match whole_of(facts, &steps) {
        0 => steps.len(),
        whole => whole,
    } as u32;
    let workload = &request.workload;
    Counts {
        writes: request.writes.or(workload.writes).unwrap_or(MLPERF_COUNT),
        reads: request.reads.or(workload.reads).unwrap_or(MLPERF_COUNT),
        asked_writes: request.writes,
        asked_reads: request.reads,
        keep: request.keep,
        overwrite: request.overwrite,
        there,
    }
}

/// How many of `steps` are complete.
fn whole_of(facts: &CheckpointFacts, steps: &[u32]) -> usize {
    let whole = |step: &&u32| facts.parts(**step).all(|part| part.defects().is_empty());
    steps.iter().filter(whole).count()
}

/// The checkpoints to restore: the oldest of those that this run saves, or, if it saves none,
/// existing ones. A run that saves never restores an older run's.
pub(super) fn restores(
    request: &CheckpointRequest,
    facts: &CheckpointFacts,
    counts: &Counts,
    content: ContentFacts,
    layout: &Layout,
    scaling: &Scaling,
) -> Vec<RestorePlan> {
    let mut plans: Vec<RestorePlan> = if counts.writes > 0 {
        let kept = request.keep.unwrap_or(counts.writes).min(counts.writes);
        (counts.writes - kept + 1..=counts.writes)
            .map(|step| RestorePlan { step, content })
            .collect()
    } else {
        let alike = |marker: &Marker| {
            marker.model == request.workload.name
                && marker.layout == *layout
                && marker.ranks == scaling.ranks
        };
        let mut steps = facts.steps();
        let like_this = |step: &u32| {
            let mut markers = facts.parts(*step).filter_map(|part| part.readable_marker());
            markers.all(alike)
        };
        let of_this: Vec<u32> = steps.iter().copied().filter(like_this).collect();
        // If none matches the plan, the differences are reported for the plan.
        if !of_this.is_empty() {
            steps = of_this;
        }
        if request.reads.is_none() {
            let whole = whole_of(facts, &steps);
            steps.truncate(if whole == 0 { steps.len() } else { whole });
        }
        let saved = |step: u32| {
            let marker = facts.parts(step).find_map(|part| part.readable_marker());
            let content = marker.map_or(content, |marker| marker.content);
            RestorePlan { step, content }
        };
        steps.into_iter().map(saved).collect()
    };
    plans.truncate(counts.reads as usize);
    plans
}

/// The scaling of existing checkpoints, if they are of this model.
pub(super) fn scaling_of(
    request: &CheckpointRequest,
    facts: &CheckpointFacts,
    layout: &Layout,
    ranks: u64,
) -> Option<Scaling> {
    let markers = facts.saved.iter().filter_map(|part| part.readable_marker());
    let marker = markers
        .filter(|marker| marker.model == request.workload.name)
        .filter(|marker| marker.full_layers == layout.architecture.num_layers)
        .find(|marker| cut(layout, marker.layout.architecture.num_layers) == marker.layout)?;
    if marker.ranks > ranks || marker.full_ranks != ranks {
        return None;
    }
    let full = Scaling::none(layout, ranks);
    Some(Scaling {
        factor: marker.layout.first_ranks_bytes(marker.ranks) as f64
            / full.full_bytes.max(1) as f64,
        layers: marker.layout.architecture.num_layers,
        ranks: marker.ranks,
        ..full
    })
}

/// Problems with the checkpoints to be read, and with whatever is in the way of those to be
/// written.
pub(super) fn problems(plan: &CheckpointPlan, facts: &CheckpointFacts, problems: &mut Problems) {
    too_few(plan, facts, problems);
    if plan.writes == 0 {
        for restore in &plan.restores {
            restore_problems(plan, facts, restore.step, problems);
        }
    }
    in_the_way(plan, facts, problems);
    beside_in_the_way(plan, facts, problems);
    never_cold(plan, facts, problems);
}

/// Cold restores from directories on memory-backed file systems: there is nothing to drop from the
/// page cache, whichever path reads them.
fn never_cold(plan: &CheckpointPlan, facts: &CheckpointFacts, problems: &mut Problems) {
    if !plan.request.cold || plan.restores.is_empty() {
        return;
    }
    for folder in &facts.folders {
        let kind = folder.file_system.as_deref();
        let Some(kind) = kind.filter(|kind| keeps_files_in_memory(kind)) else {
            continue;
        };
        problems.machine(
            format!(
                "--cold: {} is on {kind}, which keeps its files in memory: restores from it \
                 cannot be cold",
                folder.path
            ),
            if plan.request.closed {
                "use a --dir on the storage in question"
            } else {
                "use a --dir on the storage in question, or leave --cold out"
            },
        );
    }
}

/// More restores than checkpoints.
fn too_few(plan: &CheckpointPlan, facts: &CheckpointFacts, problems: &mut Problems) {
    let there = plan.restores.len();
    let asked = plan.request.reads.map_or(there, |reads| reads as usize);
    let enough = asked <= there && (plan.writes > 0 || there > 0);
    if enough {
        return;
    }
    let asked = asked.max(1);
    let are = match there {
        1 => "checkpoint is",
        _ => "checkpoints are",
    };
    let what = format!("{asked} restores requested; {there} {are} available");
    if plan.writes > 0 {
        let help = if plan.request.closed {
            "use 10 of each, as the closed rules require".to_string()
        } else {
            format!("use --reads {there}, or more --writes or --keep")
        };
        problems
            .plan(format!("{what}: a run that saves can only restore its own checkpoints"), help);
        return;
    }
    let size = match plan.request.scale {
        Some(ScaleChoice::Factor(factor)) => factor.to_string(),
        None | Some(ScaleChoice::Auto) => "auto".to_string(),
    };
    let command = plan.request.command_of_saves(&size, asked as u32);
    problems.machine(
        format!("{what} in {}{}", plan.folder_names(|_| true), unmarked(facts)),
        format!("save some first: `{command}`"),
    );
}

/// Entries where checkpoints are to be saved that a save must not replace.
fn in_the_way(plan: &CheckpointPlan, facts: &CheckpointFacts, problems: &mut Problems) {
    for (index, folder) in facts.folders.iter().enumerate() {
        let mut others: Vec<(String, Vec<u32>)> = Vec::new();
        for part in replaced(plan, facts).filter(|part| part.folder == index) {
            let name = folder.path.join(step_folder(part.step));
            let name = name.display();
            let mut blocks = |what: String| {
                problems.machine(what, "use another --dir, or move it away");
            };
            match (&part.marker, &part.foreign) {
                (None, _) => blocks(format!("{name} is in the way and was not made by stormlp")),
                (Some(Err(error)), _) => blocks(format!("{name} is in the way: {error}")),
                (Some(Ok(_)), Some(OtherFile { name: other, what })) => blocks(match what {
                    None => format!("{name}/{other} is in the way and was not made by stormlp"),
                    Some(what) => {
                        format!("{name}/{other} is {what}, which stormlp did not create")
                    }
                }),
                (Some(Ok(marker)), None) => {
                    let Some(other) = plan.of_another_job(marker) else {
                        continue;
                    };
                    match others.iter_mut().find(|(known, _)| *known == other) {
                        Some((_, steps)) => steps.push(part.step),
                        None => others.push((other, vec![part.step])),
                    }
                }
            }
        }
        for (other, steps) in others {
            let verb = if steps.len() == 1 { "is" } else { "are" };
            problems.machine(
                format!(
                    "{} in {} {verb} of {other}; a save would replace {}",
                    named(&steps),
                    folder.path,
                    if steps.len() == 1 { "it" } else { "them" },
                ),
                format!(
                    "use another --dir, or remove what is there: `stormlp clean {}`",
                    folder.path
                ),
            );
        }
    }
}

/// What a killed run left beside the checkpoints, under a name that a save needs, if some of it was
/// not made by stormlp.
fn beside_in_the_way(plan: &CheckpointPlan, facts: &CheckpointFacts, problems: &mut Problems) {
    for left in facts.leftovers.iter().filter(|left| left.step <= plan.writes) {
        if let (Some(folder), Some(name)) = (facts.folders.get(left.folder), &left.foreign) {
            let name = folder.path.join(name);
            problems.machine(
                format!("{} is in the way and was not made by stormlp", name.display()),
                "use another --dir, or move it away",
            );
        }
    }
}

/// Entries under the names of the checkpoints to be saved.
fn replaced<'a>(
    plan: &CheckpointPlan,
    facts: &'a CheckpointFacts,
) -> impl Iterator<Item = &'a SavedPart> {
    let writes = plan.writes;
    facts.saved.iter().filter(move |part| part.step <= writes)
}

/// Warnings about existing checkpoints.
pub(super) fn warnings(plan: &CheckpointPlan, facts: &CheckpointFacts) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let of_earlier = || replaced(plan, facts).filter(|part| part.readable_marker().is_some());
    let mut old: Vec<u32> = of_earlier().map(|part| part.step).collect();
    old.sort_unstable();
    old.dedup();
    if !old.is_empty() {
        warnings.push(Warning::new(
            WarningKind::EarlierCheckpoints,
            format!(
                "{} of an earlier run in {} {} {}",
                named(&old),
                plan.folder_names(|index| of_earlier().any(|part| part.folder == index)),
                if old.len() == 1 { "is" } else { "are" },
                if plan.request.overwrite { "overwritten" } else { "replaced" },
            ),
            "use another --dir to keep what is there",
        ));
    }
    warnings.extend(on_leftovers(plan, facts));
    if plan.writes == 0 {
        warnings.extend(on_left_out(plan, facts));
        warnings.extend(adopt::warning(plan, facts));
        warnings.extend(on_unsynced(plan, facts));
        warnings.extend(on_holes(plan, facts));
    }
    warnings
}

/// What killed runs left beside the checkpoints.
fn on_leftovers(plan: &CheckpointPlan, facts: &CheckpointFacts) -> Option<Warning> {
    let own = || facts.leftovers.iter().filter(|left| left.foreign.is_none());
    let names: Vec<&str> = own().map(|left| left.name.as_str()).collect();
    let bytes = own().map(|left| left.bytes).sum();
    let removes = plan.writes > 0;
    (!names.is_empty()).then(|| {
        Warning::new(
            WarningKind::EarlierCheckpoints,
            format!(
                "an earlier run did not finish: {} ({}) in {} {}",
                names.join(", "),
                ByteSize(bytes),
                plan.folder_names(|index| own().any(|left| left.folder == index)),
                match (names.len(), removes) {
                    (1, true) => "is removed",
                    (_, true) => "are removed",
                    (1, false) => "is no checkpoint",
                    (_, false) => "are no checkpoints",
                },
            ),
            if removes { "" } else { "`stormlp clean DIR` removes it, and so does the next save" },
        )
    })
}

/// Existing checkpoints that are not restored although the number of restores was not given.
fn on_left_out(plan: &CheckpointPlan, facts: &CheckpointFacts) -> Option<Warning> {
    let is_restored = |step: &u32| plan.restores.iter().any(|restore| restore.step == *step);
    let mut left = facts.steps();
    left.retain(|step| !is_restored(step));
    let first = *left.first().filter(|_| plan.request.reads.is_none())?;
    let why = facts.parts(first).find_map(|part| {
        let differs = part.readable_marker().and_then(|m| difference(plan, m));
        differs
            .map(|difference| format!("checkpoint {first} is of {difference}"))
            .or_else(|| part.defects().into_iter().next())
    });
    Some(Warning::new(
        WarningKind::EarlierCheckpoints,
        format!(
            "not restored: {} in {}{}",
            named(&left),
            plan.folder_names(|_| true),
            why.map_or(String::new(), |why| format!(" ({why})")),
        ),
        "use --reads to set the number of restores",
    ))
}

/// Checkpoints to be restored that were saved without syncing.
fn on_unsynced(plan: &CheckpointPlan, facts: &CheckpointFacts) -> Option<Warning> {
    let unsynced = |step: &u32| {
        let mut markers = facts.parts(*step).filter_map(|part| part.readable_marker());
        markers.any(|marker| !marker.crash_safe)
    };
    let mut steps: Vec<u32> = plan.restores.iter().map(|restore| restore.step).collect();
    steps.retain(unsynced);
    (!steps.is_empty()).then(|| {
        Warning::new(
            WarningKind::NotDurable,
            format!(
                "{} {} saved with --fsync none: not crash-safe, so if the machine went down \
                 since, data may be lost without a change in file sizes",
                named(&steps),
                if steps.len() == 1 { "was" } else { "were" },
            ),
            "use --verify to check every byte",
        )
    })
}

/// Checkpoints to be restored whose files have holes.
fn on_holes(plan: &CheckpointPlan, facts: &CheckpointFacts) -> Option<Warning> {
    let parts = || plan.restores.iter().flat_map(|restore| facts.parts(restore.step));
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

/// The command that saves checkpoints 1 to `last` at the plan's size.
fn saving(plan: &CheckpointPlan, last: u32) -> CommandLine {
    let scaling = &plan.scaling;
    let full = Layout {
        architecture: plan.layout.architecture.with_layers(scaling.full_layers),
        ..plan.layout
    };
    let size = scaling.typed_factor(&full).map_or("auto".to_string(), |factor| factor.to_string());
    // The rules of a closed run allow only ten.
    let writes = if plan.request.closed { MLPERF_COUNT } else { last };
    plan.request.command_of_saves(&size, writes)
}

/// Folders that look like checkpoints but have no marker, so stormlp cannot have made them.
fn unmarked(facts: &CheckpointFacts) -> String {
    let parts = facts.saved.iter().filter(|part| part.marker.is_none());
    parts.flat_map(|part| part.defects()).map(|defect| format!("; {defect}")).collect()
}

/// Why existing checkpoint `step` cannot be restored by this plan.
fn restore_problems(
    plan: &CheckpointPlan,
    facts: &CheckpointFacts,
    step: u32,
    problems: &mut Problems,
) {
    if let Some(message) = mixed(facts, step) {
        let help = "name the directories that one run saved to, all of them and in the same \
                    order, or save it again";
        return problems.machine(message, help);
    }
    let again = format!(
        "checkpoint {step} is incomplete and cannot be repaired; `{}` saves it again",
        saving(plan, step)
    );
    for (index, folder) in facts.folders.iter().enumerate() {
        let name = folder.path.join(step_folder(step));
        let needed = plan.ranks.iter().any(|rank| rank.folder == index && rank.bytes > 0);
        let Some(part) = facts.parts(step).find(|part| part.folder == index) else {
            if needed {
                problems
                    .machine(format!("checkpoint {} is missing", name.display()), again.clone());
            }
            continue;
        };
        if let Some(difference) = part.readable_marker().and_then(|m| difference(plan, m)) {
            problems.plan(
                format!("checkpoint {} is of {difference}", name.display()),
                if plan.request.closed {
                    "use another --dir: one that a run with --closed saved into"
                } else {
                    "use the model, --ranks and --scale it was saved with, or another --dir"
                },
            );
            continue;
        }
        if part.readable_marker().is_some_and(|m| !holds_files_of(plan, index, m)) {
            problems.plan(
                format!("checkpoint {} contains the files of other ranks", name.display()),
                "name the directories it was saved to, all of them and in the same order",
            );
            continue;
        }
        for defect in part.defects() {
            problems
                .machine(format!("cannot restore from {}: {defect}", folder.path), again.clone());
        }
    }
}

/// Parts of checkpoint `step` that different runs saved. Each may be complete, but together they
/// are not a checkpoint. Every run has its own content, so the content identifies a run's parts.
fn mixed(facts: &CheckpointFacts, step: u32) -> Option<String> {
    let mut parts = facts
        .parts(step)
        .filter_map(|part| Some((part.folder, part.readable_marker()?)))
        .filter(|(_, marker)| !marker.files.is_empty());
    let (first, of_first) = parts.next()?;
    let (other, _) = parts.find(|(_, marker)| marker.content != of_first.content)?;
    let name = |folder: usize| {
        let folder = facts.folders.get(folder).map(|folder| &folder.path);
        folder.map_or(step_folder(step), |path| path.join(step_folder(step)).display().to_string())
    };
    Some(format!(
        "checkpoint {step} does not come from one save: {} and {} were saved by different runs",
        name(first),
        name(other)
    ))
}

/// Whether a checkpoint's part in directory `folder` has the files that the plan's ranks have
/// there. Files of a different distribution over directories belong to a different save.
fn holds_files_of(plan: &CheckpointPlan, folder: usize, marker: &Marker) -> bool {
    let ranks = plan.ranks.iter().filter(|rank| rank.folder == folder);
    let planned = ranks.flat_map(|rank| rank.files.iter().map(|file| (rank.rank, &file.name)));
    planned.eq(marker.files.iter().map(|file| (file.rank, &file.name)))
}

impl CheckpointPlan {
    /// How a checkpoint belongs to a different job than the plan's: a different model, or the same
    /// model under different parallelism. `None` if it differs at most in scale; a save replaces
    /// such a checkpoint.
    pub fn of_another_job(&self, marker: &Marker) -> Option<String> {
        if marker.model != self.model {
            return Some(format!("another model: {}, not {}", marker.model, self.model));
        }
        let (there, wanted) = (&marker.layout.parallelism, &self.layout.parallelism);
        if there.ranks() != wanted.ranks() {
            return Some(format!(
                "another number of ranks: {} of {}, not {} of {}",
                marker.ranks,
                there.ranks(),
                self.scaling.ranks,
                wanted.ranks()
            ));
        }
        let layers = self.layout.architecture.num_layers;
        let same = cut(&marker.layout, layers) == self.layout
            && marker.full_layers == self.scaling.full_layers;
        (!same).then(|| format!("another shape of {}", self.model))
    }
}

/// How a checkpoint differs from the plan's; `None` if it is the same.
fn difference(plan: &CheckpointPlan, marker: &Marker) -> Option<String> {
    let packed = marker.content.container;
    let wanted = plan.content.container;
    let other = (packed != wanted)
        .then(|| format!("another container: {packed}, not {wanted} (--container)"));
    plan.of_another_job(marker).or(other).or_else(|| {
        let same = marker.layout == plan.layout && marker.ranks == plan.scaling.ranks;
        (!same).then(|| {
            format!(
                "another scale: {} layers on {} ranks, not {} on {}",
                marker.layout.architecture.num_layers,
                marker.ranks,
                plan.layout.architecture.num_layers,
                plan.scaling.ranks
            )
        })
    })
}
