//! Warnings about a plan before it runs: its limitations.

use super::choice::{CheckpointProfile, FsyncPolicy};
use super::facts::CheckpointFacts;
use super::saved;
use crate::plan::checkpoint_plan::CheckpointPlan;
use stormlp_core::transport::DeviceId;
use stormlp_core::units::ByteSize;
use stormlp_core::warning::{Warning, WarningKind};

/// All warnings about a plan.
pub(super) fn of(plan: &CheckpointPlan, facts: &CheckpointFacts) -> Vec<Warning> {
    let mut warnings = about_the_plan(plan, facts);
    warnings.extend(about_saves(plan));
    warnings.extend(saved::warnings(plan, facts));
    warnings.extend(on_the_workload(plan));
    warnings
}

/// The limitations of a plan: whether it has each, its kind, the fact and the remedy.
fn about_the_plan(plan: &CheckpointPlan, facts: &CheckpointFacts) -> Vec<Warning> {
    let total = ByteSize(plan.total_bytes);
    let cases: [(bool, WarningKind, String, &str); 5] = [
        (
            plan.is_scaled()
                && plan.request.has_open_scale()
                && facts.trial_bytes_per_second.is_none()
                && plan.writes > 0,
            WarningKind::Scaled,
            "the scale was chosen for storage that moves 1 GB/s".to_string(),
            "use --scale to set it by hand",
        ),
        (
            plan.client.is_some() && plan.profile == CheckpointProfile::V3,
            WarningKind::NotComparable,
            "--client-overhead adds the time of v2.0's DLIO: v3.0's is not known".to_string(),
            "use --edition 2.0, or leave --client-overhead out",
        ),
        (
            plan.profile != CheckpointProfile::Native && plan.dlio_counted_bytes > plan.total_bytes,
            WarningKind::NotComparable,
            format!(
                "under ZeRO 2 DLIO counts {} for the {total} that are written",
                ByteSize(plan.dlio_counted_bytes)
            ),
            "rates here are based on bytes written; only MLPerf's files use DLIO's count",
        ),
        (
            plan.device() == Some(DeviceId::Host),
            WarningKind::Emulated,
            "accelerator memory is host memory (emulated)".to_string(),
            "the CPU makes the copies that a GPU would make",
        ),
        (
            !plan.restores.is_empty() && !plan.request.is_cold() && plan.path().uses_page_cache(),
            WarningKind::CacheState,
            "restores may come from the page cache".to_string(),
            "leave out --cache as-is to measure storage",
        ),
    ];
    that_apply(cases)
}

/// The limitations of a plan's saves, in the same form.
fn about_saves(plan: &CheckpointPlan) -> Vec<Warning> {
    if plan.writes == 0 {
        return Vec::new();
    }
    let is_on_gpu = matches!(plan.device(), Some(DeviceId::Gpu { .. }));
    that_apply([
        (
            plan.fsync == FsyncPolicy::None,
            WarningKind::NotDurable,
            "files are not synced: a save ends when the page cache has it, not the storage".to_string(),
            "use --fsync per-file for checkpoints that survive a crash",
        ),
        (
            !plan.content.stamped,
            WarningKind::NotComparable,
            format!(
                "content in device memory repeats every {}: it is not stamped with its position",
                ByteSize(plan.content.source_bytes)
            ),
            "deduplicating storage may appear faster than it is; --verify stamps it",
        ),
        (
            is_on_gpu && plan.request.verify,
            WarningKind::HarnessBound,
            "saves include stamping content and copying it to device memory, which --verify requires"
                .to_string(),
            "measure saves without --verify; restores are compared after the measurement",
        ),
    ])
}

fn that_apply<const N: usize>(cases: [(bool, WarningKind, String, &str); N]) -> Vec<Warning> {
    let cases = cases.into_iter().filter(|(applies, ..)| *applies);
    cases.map(|(_, kind, fact, remedy)| Warning::new(kind, fact, remedy)).collect()
}

/// Ignored keys of the workload file.
fn on_the_workload(plan: &CheckpointPlan) -> Vec<Warning> {
    let workload = &plan.request.workload;
    // Every file of DLIO's has these two keys; naming them would be noise.
    let warnings = workload
        .without_effect
        .iter()
        .filter(|note| note.key != "workflow" && note.key != "framework");
    let keys: Vec<String> =
        warnings.map(|note| format!("{} ({})", note.key, note.reason)).collect();
    if keys.is_empty() {
        return Vec::new();
    }
    vec![Warning::new(
        WarningKind::NoEffect,
        format!("keys of the workload file without effect: {}", keys.join(", ")),
        "",
    )]
}
