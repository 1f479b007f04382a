//! How many checkpoints are saved and restored, and whether those that are there can be.

use super::choice::ScaleChoice;
use super::facts::CheckpointFacts;
use super::layout::Layout;
use super::marker::{ContentFacts, Marker, step_folder};
use super::plan::{CheckpointPlan, RestorePlan};
use super::problem::Problem;
use super::request::CheckpointRequest;
use super::scale::Scaling;

/// Saves and restores that MLPerf asks for.
const MLPERF_COUNT: u32 = 10;
/// Saves and restores of a run that was scaled by itself.
const SCALED_COUNT: u32 = 2;

/// How many checkpoints are saved and restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    /// Saves.
    pub(super) writes: u32,
    /// Restores.
    pub(super) reads: u32,
    asked_writes: Option<u32>,
    asked_reads: Option<u32>,
    keep: Option<u32>,
    there: u32,
}

impl Counts {
    /// How many checkpoints are on storage at the fullest moment of the run.
    pub(super) fn peak(&self) -> u64 {
        let kept = self.keep.map_or(u32::MAX, |keep| keep.saturating_add(1));
        u64::from(self.writes.min(kept))
    }

    /// The counts of a run that was scaled, or not.
    pub(super) fn for_scaled(self, scaled: bool) -> Self {
        let default = |asked: Option<u32>, plain: u32| match (asked, scaled) {
            (Some(asked), _) => asked,
            (None, true) => plain.min(SCALED_COUNT),
            (None, false) => plain,
        };
        let writes = default(self.asked_writes, self.writes);
        let reads = default(self.asked_reads, self.reads);
        let there = if writes > 0 {
            self.keep.unwrap_or(writes).min(writes)
        } else {
            self.there
        };
        Self {
            writes,
            reads: self.asked_reads.unwrap_or(reads.min(there)),
            ..self
        }
    }
}

/// What was asked, else what the workload says, else MLPerf's ten.
pub(super) fn counts(request: &CheckpointRequest, facts: &CheckpointFacts) -> Counts {
    let whole = |step: &u32| facts.parts(*step).all(|part| part.defects().is_empty());
    let steps = facts.steps();
    // Where none is whole they are still tried, so that what each lacks is named.
    let there = match steps.iter().filter(|step| whole(step)).count() {
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
        there,
    }
}

/// The checkpoints to restore: the oldest that are there once the saves are done.
pub(super) fn restores(
    request: &CheckpointRequest,
    facts: &CheckpointFacts,
    counts: &Counts,
    content: ContentFacts,
) -> Vec<RestorePlan> {
    let kept = request.keep.unwrap_or(counts.writes).min(counts.writes);
    let mut plans: Vec<RestorePlan> = (counts.writes - kept + 1..=counts.writes)
        .map(|step| RestorePlan { step, content })
        .collect();
    if request.keep.is_none() || counts.writes == 0 {
        for step in facts
            .steps()
            .into_iter()
            .filter(|step| *step > counts.writes)
        {
            let marker = facts.parts(step).find_map(|part| part.readable_marker());
            let content = marker.map_or(content, |marker| marker.content);
            plans.push(RestorePlan { step, content });
        }
    }
    plans.truncate(counts.reads as usize);
    plans
}

/// How the checkpoints that are there were scaled, when they are of this model.
pub(super) fn scaling_of(
    request: &CheckpointRequest,
    facts: &CheckpointFacts,
    layout: &Layout,
    ranks: u64,
) -> Option<Scaling> {
    let markers = facts.saved.iter().filter_map(|part| part.readable_marker());
    let marker = markers
        .filter(|marker| marker.model == request.workload.name)
        .find(|marker| {
            super::scale::cut(layout, marker.layout.architecture.num_layers) == marker.layout
        })?;
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

/// What is wrong with the checkpoints to be read, and with what is in the way of those to be
/// written.
pub(super) fn problems(
    request: &CheckpointRequest,
    plan: &CheckpointPlan,
    facts: &CheckpointFacts,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    let asked = request.reads.unwrap_or(plan.restores.len() as u32) as usize;
    if asked > plan.restores.len() || (plan.writes == 0 && plan.restores.is_empty()) {
        let there = plan.restores.len();
        let what = format!(
            "{} restores were asked for; {there} {} there{}{}",
            asked.max(1),
            if there == 1 {
                "checkpoint is"
            } else {
                "checkpoints are"
            },
            where_looked(plan),
            unmarked(plan, facts),
        );
        problems.push(if plan.writes > 0 {
            Problem::plan(
                what,
                match plan.closed {
                    true => "use 10 of both, as the closed rules want".to_string(),
                    false => format!("use --reads {there}, or more --writes or --keep"),
                },
            )
        } else {
            let size = match (request.closed, request.scale) {
                (true, _) => "--closed".to_string(),
                (false, Some(ScaleChoice::Factor(factor))) => format!("--scale {factor}"),
                (false, _) => "--scale auto".to_string(),
            };
            let command = request.command(&size);
            let writes = asked.max(1);
            Problem::machine(
                what,
                format!("save some first: `{command} --writes {writes} --reads 0`"),
            )
        });
    }
    for restore in plan
        .restores
        .iter()
        .filter(|restore| restore.step > plan.writes)
    {
        problems.extend(restore_problems(request, plan, facts, restore.step));
    }
    for step in 1..=plan.writes {
        for part in facts
            .parts(step)
            .filter(|part| part.readable_marker().is_none())
        {
            let folder = facts.folders[part.folder].path.join(step_folder(step));
            problems.push(Problem::machine(
                format!(
                    "{} is in the way and was not made by stormlp",
                    folder.display()
                ),
                "use another --dir, or move it away",
            ));
        }
    }
    problems
}

/// Where checkpoints were looked for.
fn where_looked(plan: &CheckpointPlan) -> String {
    let folders: Vec<String> = plan
        .folders
        .iter()
        .map(|folder| folder.display().to_string())
        .collect();
    if plan.writes > 0 {
        String::new()
    } else {
        format!(" in {}", folders.join(", "))
    }
}

/// The command that saves checkpoints 1 to `last` at the plan's size.
fn saving(request: &CheckpointRequest, plan: &CheckpointPlan, last: u32) -> String {
    let scaling = &plan.scaling;
    let full = Layout {
        architecture: plan.layout.architecture.with_layers(scaling.full_layers),
        ..plan.layout
    };
    let (size, writes) = match scaling.typed_factor(&full) {
        // The rules know only ten.
        _ if plan.closed => ("--closed".to_string(), MLPERF_COUNT),
        Some(factor) => (format!("--scale {factor}"), last),
        None => ("--scale auto".to_string(), last),
    };
    format!("{} --writes {writes} --reads 0", request.command(&size))
}

/// Folders that look like checkpoints and have no marker, as a run leaves one that was killed
/// before its first byte.
fn unmarked(plan: &CheckpointPlan, facts: &CheckpointFacts) -> String {
    if plan.writes > 0 {
        return String::new();
    }
    let parts = facts.saved.iter().filter(|part| part.marker.is_none());
    parts
        .flat_map(|part| part.defects())
        .map(|defect| format!("; {defect}"))
        .collect()
}

/// Why checkpoint `step`, which is there, cannot be restored by this plan.
fn restore_problems(
    request: &CheckpointRequest,
    plan: &CheckpointPlan,
    facts: &CheckpointFacts,
    step: u32,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    let again = format!(
        "checkpoint {step} is not whole and cannot be mended; `{}` saves it again",
        saving(request, plan, step)
    );
    for (index, folder) in facts.folders.iter().enumerate() {
        let name = folder.path.join(step_folder(step));
        let needed = plan
            .ranks
            .iter()
            .any(|rank| rank.folder == index && rank.bytes > 0);
        let Some(part) = facts.parts(step).find(|part| part.folder == index) else {
            if needed {
                problems.push(Problem::machine(
                    format!("checkpoint {} is missing", name.display()),
                    again.clone(),
                ));
            }
            continue;
        };
        if let Some(difference) = part.readable_marker().and_then(|m| difference(plan, m)) {
            problems.push(Problem::plan(
                format!("checkpoint {} is of {difference}", name.display()),
                match plan.closed {
                    true => "use another --dir: one that a run with --closed saved into",
                    false => {
                        "use the model, --ranks and --scale it was saved with, or another --dir"
                    }
                },
            ));
            continue;
        }
        for defect in part.defects() {
            problems.push(Problem::machine(
                format!("cannot restore from {}: {defect}", folder.path.display()),
                again.clone(),
            ));
        }
    }
    problems
}

/// In what a checkpoint differs from the plan's; `None` when it is the same.
fn difference(plan: &CheckpointPlan, marker: &Marker) -> Option<String> {
    if marker.model != plan.model {
        return Some(format!(
            "another model: {}, not {}",
            marker.model, plan.model
        ));
    }
    let (there, wanted) = (
        marker.layout.parallelism.ranks(),
        plan.layout.parallelism.ranks(),
    );
    if marker.ranks != plan.scaling.ranks || there != wanted {
        return Some(format!(
            "another number of ranks: {} of {there}, not {} of {wanted}",
            marker.ranks, plan.scaling.ranks
        ));
    }
    (marker.layout != plan.layout).then(|| {
        format!(
            "another shape: {} layers of {} parameters in all, not {} of {}",
            marker.layout.architecture.num_layers,
            marker.layout.architecture.parameters(),
            plan.layout.architecture.num_layers,
            plan.parameters
        )
    })
}
