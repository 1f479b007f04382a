//! Warnings about a plan before it runs: its limitations, and options without effect.

use super::choice::{CheckpointProfile, FsyncPolicy, ScaleChoice};
use super::facts::CheckpointFacts;
use super::parallelism::ZeroStage;
use super::saved;
use crate::plan::checkpoint_plan::CheckpointPlan;
use stormlp_core::transport::DeviceId;
use stormlp_core::units::ByteSize;
use stormlp_core::warning::{Warning, WarningKind};

/// All warnings about a plan.
pub(super) fn of(plan: &CheckpointPlan, facts: &CheckpointFacts) -> Vec<Warning> {
    let mut warnings = on_scale(plan, facts);
    warnings.extend(on_client(plan));
    warnings.extend(on_saves(plan));
    warnings.extend(on_restores(plan));
    warnings.extend(saved::warnings(plan, facts));
    warnings.extend(on_the_workload(plan));
    warnings.extend(on_options(plan));
    warnings.extend(on_what_is_left_out(plan, facts));
    warnings
}

/// What was reduced, and on what basis.
fn on_scale(plan: &CheckpointPlan, facts: &CheckpointFacts) -> Vec<Warning> {
    if !plan.is_scaled() {
        return Vec::new();
    }
    let full = &plan.scaling;
    let mut warnings = vec![Warning::new(
        WarningKind::Scaled,
        format!(
            "SCALED to {} of the checkpoint: {} of {} layers, {} of {} ranks, {} of {}",
            full.shown(),
            full.layers,
            full.full_layers,
            full.ranks,
            full.full_ranks,
            ByteSize(plan.total_bytes),
            ByteSize(full.full_bytes),
        ),
        format!("the full run is `{}`", plan.full_run),
    )];
    match plan.request.scale {
        None | Some(ScaleChoice::Auto)
            if facts.trial_bytes_per_second.is_none() && plan.writes > 0 =>
        {
            warnings.push(Warning::new(
                WarningKind::Scaled,
                "the scale was chosen for storage that moves 1 GB/s",
                "use --scale to set it by hand",
            ));
        }
        _ => {}
    }
    warnings
}

/// A client of another edition than the profile's.
fn on_client(plan: &CheckpointPlan) -> Option<Warning> {
    let is_other = plan.client.is_some() && plan.profile == CheckpointProfile::V3;
    is_other.then(|| {
        Warning::new(
            WarningKind::NotComparable,
            "--client adds the time of v2.0's DLIO, and profile v3 is of v3.0, whose own is not known",
            "use --profile v2, or leave --client out",
        )
    })
}

/// What saves do not guarantee.
fn on_saves(plan: &CheckpointPlan) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if plan.fsync == FsyncPolicy::None && plan.writes > 0 {
        let as_v2 = plan.request.saves_as_v2() && plan.request.fsync.is_none();
        warnings.push(Warning::new(
            WarningKind::NotDurable,
            if as_v2 {
                "nothing is synced, as in v2.0's client: a save ends when the page cache has it, not \
                 the storage"
            } else {
                "nothing is synced: not crash-safe"
            },
            "use --fsync per-file for checkpoints that survive a crash",
        ));
    }
    if !plan.content.stamped && plan.writes > 0 {
        warnings.push(Warning::new(
            WarningKind::NotComparable,
            format!(
                "content in device memory repeats every {}: it is not stamped with its position",
                ByteSize(plan.content.source_bytes)
            ),
            "deduplicating storage may appear faster than it is; --verify stamps it",
        ));
    }
    if plan.request.verify.is_of_content()
        && plan.writes > 0
        && matches!(plan.device(), Some(DeviceId::Gpu { .. }))
    {
        warnings.push(Warning::new(
            WarningKind::HarnessBound,
            "saves include stamping content and copying it to device memory, which --verify \
             requires",
            "measure saves without --verify; restores are compared after the measurement",
        ));
    }
    let counted_twice = plan.layout.parallelism.zero_stage == ZeroStage::Two
        && plan.dlio_counted_bytes > plan.total_bytes;
    if plan.profile != CheckpointProfile::Native && counted_twice {
        warnings.push(Warning::new(
            WarningKind::NotComparable,
            format!(
                "under ZeRO 2 DLIO counts {} for the {} that are written",
                ByteSize(plan.dlio_counted_bytes),
                ByteSize(plan.total_bytes)
            ),
            "rates here are based on bytes written; only MLPerf's files use DLIO's count",
        ));
    }
    warnings
}

/// Where restored data comes from and where it ends up.
fn on_restores(plan: &CheckpointPlan) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if plan.device() == Some(DeviceId::Host) {
        warnings.push(Warning::new(
            WarningKind::Emulated,
            "accelerator memory is host memory (emulated)",
            "the CPU makes the copies that a GPU would make",
        ));
    }
    if !plan.restores.is_empty() && !plan.request.cold && plan.path().uses_page_cache() {
        warnings.push(Warning::new(
            WarningKind::CacheState,
            "restores may come from the page cache",
            "use --cold to measure storage",
        ));
    }
    warnings
}

/// Options without effect on this run.
fn on_options(plan: &CheckpointPlan) -> Vec<Warning> {
    let (saves, restores) = (plan.writes > 0, !plan.restores.is_empty());
    let shifts = plan.request.rank_shift.is_some_and(|ranks| ranks > 0);
    let idle: Vec<String> = [
        ("--rank-shift 0", plan.request.rank_shift == Some(0), "it shifts nothing"),
        ("--rank-shift", shifts && !restores, "no restores"),
        ("--cold", plan.request.cold && !restores, "no restores"),
        ("--keep", plan.request.keep.is_some() && !saves, "no saves"),
        ("--fsync", plan.request.fsync.is_some() && !saves, "no saves"),
        ("--overlap", plan.request.overlap_step_seconds.is_some() && !saves, "no saves"),
        (
            "--device",
            plan.request.device.is_some() && plan.device().is_none(),
            "no accelerator on this path",
        ),
    ]
    .into_iter()
    .filter(|(_, given, _)| *given)
    .map(|(option, _, why)| format!("{option} ({why})"))
    .collect();
    if idle.is_empty() {
        Vec::new()
    } else {
        vec![Warning::new(
            WarningKind::NoEffect,
            format!("options without effect: {}", idle.join(", ")),
            "",
        )]
    }
}

/// Incomplete checkpoints that a restore-only run skips.
fn on_what_is_left_out(plan: &CheckpointPlan, facts: &CheckpointFacts) -> Vec<Warning> {
    if plan.writes > 0 || plan.request.reads.is_some() {
        return Vec::new();
    }
    let restored = |step: u32| plan.restores.iter().any(|restore| restore.step == step);
    let defects: Vec<String> = facts
        .steps()
        .into_iter()
        .filter(|step| !restored(*step))
        .flat_map(|step| facts.parts(step).flat_map(|part| part.defects()))
        .collect();
    match defects.first() {
        None => Vec::new(),
        Some(first) => vec![Warning::new(
            WarningKind::Dataset,
            format!("an incomplete checkpoint is not restored: {first}"),
            "`stormlp clean DIR` removes what stormlp saved",
        )],
    }
}

/// Ignored keys of the workload file.
fn on_the_workload(plan: &CheckpointPlan) -> Vec<Warning> {
    let workload = &plan.request.workload;
    // Every file of DLIO's has these two keys; naming them would be noise.
    let warnings = workload
        .without_effect
        .iter()
        .filter(|note| note.key != "workflow" && note.key != "framework");
    let mut keys: Vec<String> =
        warnings.map(|note| format!("{} ({})", note.key, note.reason)).collect();
    if workload.fsync == Some(false) && plan.fsync != FsyncPolicy::None {
        keys.push("checkpoint.fsync (--fsync none does that)".to_string());
    }
    if workload.folder.is_some() {
        keys.push("checkpoint.checkpoint_folder (--dir does that)".to_string());
    }
    if workload.rank_shift && plan.request.rank_shift.is_none() {
        keys.push("checkpoint.recovery_rank_shift (--rank-shift does that)".to_string());
    }
    if keys.is_empty() {
        return Vec::new();
    }
    vec![Warning::new(
        WarningKind::NoEffect,
        format!("keys of the workload file without effect: {}", keys.join(", ")),
        "",
    )]
}
