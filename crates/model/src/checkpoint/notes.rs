//! What the reader should know of a plan before it runs: what it is not, and what has no effect.

use super::choice::{CheckpointProfile, FsyncPolicy, ScaleChoice};
use super::facts::CheckpointFacts;
use super::plan::CheckpointPlan;
use super::request::CheckpointRequest;
use crate::matrix::DeviceId;
use crate::units::ByteSize;
use crate::warning::{Warning, WarningKind};

/// Everything worth saying about a plan.
pub(super) fn of(
    request: &CheckpointRequest,
    plan: &CheckpointPlan,
    facts: &CheckpointFacts,
) -> Vec<Warning> {
    let mut notes = on_scale(request, plan, facts);
    notes.extend(on_saves(plan));
    notes.extend(on_restores(plan));
    notes.extend(on_the_workload(request, plan));
    notes
}

/// What was cut, and by what it was judged.
fn on_scale(
    request: &CheckpointRequest,
    plan: &CheckpointPlan,
    facts: &CheckpointFacts,
) -> Vec<Warning> {
    if !plan.is_scaled() {
        return Vec::new();
    }
    let full = &plan.scaling;
    let mut notes = vec![Warning::new(
        WarningKind::Scaled,
        format!(
            "SCALED to {:.4} of the checkpoint: {} of {} layers, {} of {} ranks, {} of {}",
            plan.scale,
            full.layers,
            full.full_layers,
            full.ranks,
            full.full_ranks,
            ByteSize(plan.total_bytes),
            ByteSize(full.full_bytes),
        ),
        format!("the full run is `{}`", plan.full_run),
    )];
    match request.scale {
        Some(ScaleChoice::Factor(factor)) if plan.scale > factor => notes.push(Warning::new(
            WarningKind::Scaled,
            format!(
                "scale {factor} cannot be reached: one layer on one rank is {:.4}",
                plan.scale
            ),
            "describe a smaller model in a workload file for less",
        )),
        None | Some(ScaleChoice::Auto)
            if facts.trial_bytes_per_second.is_none() && !request.dry_run && plan.writes > 0 =>
        {
            notes.push(Warning::new(
                WarningKind::Scaled,
                "storage was taken to move 1 GB/s when the scale was chosen",
                "use --scale to set it by hand",
            ));
        }
        _ => {}
    }
    notes
}

/// What saves do not promise.
fn on_saves(plan: &CheckpointPlan) -> Vec<Warning> {
    let mut notes = Vec::new();
    if plan.fsync == FsyncPolicy::None && plan.writes > 0 {
        notes.push(Warning::new(
            WarningKind::NotDurable,
            "nothing is synced: not crash-safe",
            "use --fsync per-file for checkpoints that survive a crash",
        ));
    }
    if !plan.content.stamped && plan.writes > 0 {
        notes.push(Warning::new(
            WarningKind::NotComparable,
            format!(
                "content in device memory repeats every {}: it is not stamped with its position",
                ByteSize(plan.content.source_bytes)
            ),
            "storage that removes duplicates may look faster than it is; --verify stamps it",
        ));
    }
    if plan.profile != CheckpointProfile::Native && plan.dlio_counted_bytes != plan.total_bytes {
        notes.push(Warning::new(
            WarningKind::NotComparable,
            format!(
                "under ZeRO 2 DLIO counts {} for the {} that are written",
                ByteSize(plan.dlio_counted_bytes),
                ByteSize(plan.total_bytes)
            ),
            "rates here are of bytes written; only MLPerf's files follow DLIO's count",
        ));
    }
    notes
}

/// Where restored bytes come from and end.
fn on_restores(plan: &CheckpointPlan) -> Vec<Warning> {
    let mut notes = Vec::new();
    if plan.device == Some(DeviceId::Host) {
        notes.push(Warning::new(
            WarningKind::Emulated,
            "accelerator memory is host memory (emulated)",
            "the CPU makes the copies that a GPU makes where there is one",
        ));
    }
    if !plan.restores.is_empty() && !plan.cold && plan.path.uses_page_cache() {
        notes.push(Warning::new(
            WarningKind::CacheState,
            "restores read what the page cache still holds of the saves",
            "use --cold to measure storage",
        ));
    }
    notes
}

/// Keys of the workload file that are not followed.
fn on_the_workload(request: &CheckpointRequest, plan: &CheckpointPlan) -> Vec<Warning> {
    let workload = &request.workload;
    let mut keys = workload.without_effect.clone();
    // Every file of DLIO's has these two; to name them would be noise.
    keys.retain(|key| key != "workflow" && key != "framework");
    if workload.fsync == Some(false) && plan.fsync != FsyncPolicy::None {
        keys.push("checkpoint.fsync (--fsync none does that)".to_string());
    }
    if workload.folder.is_some() {
        keys.push("checkpoint.checkpoint_folder (--dir does that)".to_string());
    }
    if workload.rank_shift && request.rank_shift.is_none() {
        keys.push("checkpoint.recovery_rank_shift (--rank-shift does that)".to_string());
    }
    if keys.is_empty() {
        return Vec::new();
    }
    vec![Warning::new(
        WarningKind::NoEffect,
        format!(
            "keys of the workload file without effect: {}",
            keys.join(", ")
        ),
        "",
    )]
}
