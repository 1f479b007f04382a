//! What a run would take: ranks, files, bytes, space.

use std::fmt::Write as _;

use serde::Serialize;
use stormlp_model::checkpoint::{CheckpointPlan, RankPlan};
use stormlp_model::problem::Problem;
use stormlp_model::units::ByteSize;

use super::{gib, marked};

/// A plan that is not run, with what keeps it from running here.
#[derive(Debug, Serialize)]
pub struct DryRun<'a> {
    /// The plan.
    #[serde(flatten)]
    pub plan: &'a CheckpointPlan,
    /// What does not fit or is missing; empty when it could run.
    pub problems: &'a [Problem],
}

/// A plan as JSON.
///
/// # Errors
/// Never for a plan; serialising has no other way to fail than a bug.
pub fn dry_run_json(dry_run: &DryRun<'_>) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(dry_run)
}

/// What a run takes, in a few lines: printed before it starts.
pub fn opening(plan: &CheckpointPlan) -> String {
    let spread = &plan.layout.parallelism;
    let mut text = format!(
        "checkpoint {} ({} parameters), profile {}, mode {}: {} of {} ranks (TP {} × PP {} × DP {}), ZeRO {}\n",
        plan.model,
        plan.parameters,
        plan.profile,
        plan.mode.name(),
        plan.scaling.ranks,
        spread.ranks(),
        spread.tensor,
        spread.pipeline,
        spread.data,
        u8::from(spread.zero_stage),
    );
    let files: usize = plan.ranks.iter().map(|rank| rank.files.len()).sum();
    let bytes = plan.ranks.iter().map(|rank| rank.bytes);
    let (least, most) = (bytes.clone().min().unwrap_or(0), bytes.max().unwrap_or(0));
    let per_rank = match least == most {
        true => gib(most),
        false => format!("{} to {}", gib(least), gib(most)),
    };
    let _ = writeln!(
        text,
        "a checkpoint is {} ({} bytes) in {files} files, {per_rank} a rank",
        gib(plan.total_bytes),
        plan.total_bytes
    );
    let kept = plan.peak_bytes.checked_div(plan.total_bytes).unwrap_or(0);
    let free = plan.free_bytes.map_or("not looked at".to_string(), gib);
    let _ = writeln!(
        text,
        "{} saves and {} restores, {:.0} s apart; up to {kept} checkpoints kept at a time: {}; free space: {free}",
        plan.writes,
        plan.restores.len(),
        plan.pause_seconds,
        gib(plan.peak_bytes),
    );
    if plan.is_scaled() {
        let full = &plan.scaling;
        let _ = writeln!(
            text,
            "a full run is {} layers and {} ranks, {} ({} bytes) a checkpoint: {}",
            full.full_layers,
            full.full_ranks,
            gib(full.full_bytes),
            full.full_bytes,
            plan.full_run
        );
    }
    text
}

/// A plan for people: the opening, the ranks, and what does not fit.
pub fn dry_run_text(dry_run: &DryRun<'_>) -> String {
    let plan = dry_run.plan;
    let mut text = opening(plan);
    let _ = writeln!(
        text,
        "path {}: saves by {} ({} threads, {} in flight a rank), restores by {} ({} threads, {} in flight a rank), {} and {} a transfer; fsync {}",
        plan.path,
        plan.save.engine,
        plan.save.threads,
        plan.save.streams,
        plan.restore.engine,
        plan.restore.threads,
        plan.restore.streams,
        ByteSize(plan.save.chunk_bytes),
        ByteSize(plan.restore.chunk_bytes),
        plan.fsync,
    );
    text.push('\n');
    for group in groups(&plan.ranks) {
        rank_lines(&mut text, group);
    }
    if !dry_run.problems.is_empty() {
        text.push_str("\nThis cannot run here:\n");
        for problem in dry_run.problems {
            let _ = writeln!(text, "  {}; {}", problem.message, problem.help);
        }
    }
    marked(plan, &text)
}

/// Neighbouring ranks whose files have the same sizes.
fn groups(ranks: &[RankPlan]) -> Vec<&[RankPlan]> {
    ranks
        .chunk_by(|a, b| {
            let sizes =
                |rank: &RankPlan| rank.files.iter().map(|file| file.bytes).collect::<Vec<_>>();
            a.bytes == b.bytes && sizes(a) == sizes(b)
        })
        .collect()
}

/// A group of alike ranks: how many, how large, and the files of the first.
fn rank_lines(text: &mut String, group: &[RankPlan]) {
    let (Some(first), Some(last)) = (group.first(), group.last()) else {
        return;
    };
    let name = match group.len() {
        1 => format!("rank {}", first.rank),
        _ => format!("ranks {} to {}", first.rank, last.rank),
    };
    let each = if group.len() > 1 { " each" } else { "" };
    let _ = writeln!(
        text,
        "{name}: {} bytes ({}){each}, {} files",
        first.bytes,
        gib(first.bytes),
        first.files.len()
    );
    for file in &first.files {
        let _ = writeln!(text, "  {:>16}  {}", file.bytes, file.name);
    }
}
