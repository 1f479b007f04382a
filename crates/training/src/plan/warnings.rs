//! Warnings that affect the trust in a plan's result.

use super::client::ClientCost;
use super::datasize::{MEMORY_MULTIPLE, MIN_STEPS};
use super::request::TrainRequest;
use super::transport::BLOCKING_THREADS;
use super::workload::Workload;
use crate::plan::train_plan::TrainPlan;
use stormlp_core::facts::HostFacts;
use stormlp_core::path::EngineKind;
use stormlp_core::placement;
use stormlp_core::profile::Profile;
use stormlp_core::transport::{self, EngineChoice};
use stormlp_core::units::{ByteSize, counted};
use stormlp_core::warning::{Warning, WarningKind};

/// Collects the warnings of `plan`.
pub(super) fn of(
    plan: &TrainPlan,
    workload: &Workload,
    request: &TrainRequest,
    host: &HostFacts,
) -> Vec<Warning> {
    let mut warnings = Vec::from_iter(no_effect(workload));
    if !plan.is_null() {
        warnings.extend(memory(plan, host));
    }
    if plan.transport.path.has_engine() {
        warnings.extend(transport::engine_warning(request.engine, host));
    }
    warnings.extend(ring_instead(plan));
    warnings.extend(plan.transport.emulated.then(transport::emulated_warning));
    let waits = plan.transport.waits_for_gpu();
    warnings.extend(transport::wait_warning(request.tune.wait, waits));
    let cufile = plan.transport.path.needs_cufile();
    warnings.extend(transport::statistics_warning(request.tune.cufile_stats, cufile, host));
    for (device, placement) in plan.transport.each_device() {
        warnings.extend(placement::warnings(placement, device, host));
    }
    let idle = transport::idle_warning(request.device.as_ref(), &plan.transport, "accelerators");
    warnings.extend(idle);
    warnings.extend(edition(workload, request.profile));
    let calibration = request.calibration.iter();
    warnings.extend(calibration.flat_map(|origin| origin.warnings(&host.hostname)));
    warnings.extend(few_steps(plan, request));
    warnings.extend(short_last_block(plan, workload));
    warnings
}

/// Warns when there are too many readers for a thread each, so that a ring reads in place of them.
fn ring_instead(plan: &TrainPlan) -> Option<Warning> {
    let transport = &plan.transport;
    let is_other = plan.profile != Profile::Native
        && transport.path.uses_page_cache()
        && transport.requested_engine == EngineChoice::Auto
        && transport.engine != EngineKind::Psync;
    is_other.then(|| {
        Warning::new(
            WarningKind::NotComparable,
            format!(
                "more than {BLOCKING_THREADS} readers: a ring reads in place of blocking threads, \
                 and has the device serve more and smaller requests of read-ahead than the \
                 official client's"
            ),
            "use fewer accelerators for each host, or --engine psync",
        )
    })
}

fn memory(plan: &TrainPlan, host: &HostFacts) -> Option<Warning> {
    let memory = host.usable_memory_bytes();
    let fits = plan.data.bytes <= memory;
    let (kind, how) = if fits {
        (WarningKind::FitsInMemory, "fits in this host's memory".to_string())
    } else {
        let how = format!("is less than {MEMORY_MULTIPLE} times this host's memory");
        (WarningKind::NotComparable, how)
    };
    let cold = if fits && plan.request.is_cold() {
        "; its files are dropped from the page cache before each epoch"
    } else {
        ""
    };
    (fits || plan.data.bytes / MEMORY_MULTIPLE < memory).then(|| {
        Warning::new(
            kind,
            format!(
                "the dataset ({}) {how} ({}): not comparable with published results{cold}",
                ByteSize(plan.data.bytes),
                ByteSize(memory)
            ),
            "use --generate=full for a comparable dataset; `stormlp datasize` shows its size",
        )
    })
}

/// Warns when the edition cannot be determined from the file or `--edition` (`asked`).
pub fn edition(workload: &Workload, asked: Option<Profile>) -> Option<Warning> {
    let is_chosen = asked.is_some() || workload.edition_is_known;
    (!is_chosen).then(|| {
        Warning::new(
            WarningKind::NotComparable,
            format!(
                "no edition is given: {} is assumed, {}",
                workload.edition,
                workload.edition.describe()
            ),
            "choose one with --edition, or name it in the file (stormlp.profile)",
        )
    })
}

/// Warns that the AU of `plan`, `au_percent`, is an upper bound: it passes without DLIO's overhead,
/// and may not with it. `known` is the cost that is known for the format, and the AU in percent
/// that DLIO would reach with it; one that is not known may turn the verdict.
pub fn upper_bound_warning(
    plan: &TrainPlan,
    au_percent: f64,
    known: Option<(ClientCost, f64)>,
) -> Option<Warning> {
    let threshold_percent = plan.metric.threshold_percent;
    let is_without = plan.client.is_none() && plan.profile != Profile::Native;
    if !is_without || au_percent < threshold_percent {
        return None;
    }
    let Some((cost, official_percent)) = known else {
        return Some(Warning::new(
            WarningKind::UpperBound,
            format!(
                "AU is an upper bound: it does not include DLIO's own cost, which is not known for {}",
                plan.data.format
            ),
            "`stormlp calibrate-dlio` cannot measure this format: compare with a run of DLIO itself",
        ));
    };
    (official_percent < threshold_percent).then(|| {
        Warning::new(
            WarningKind::UpperBound,
            format!(
                "AU is an upper bound: it does not include DLIO's own cost; with {cost} the official \
                 tool would reach about {official_percent:.1} %, below {threshold_percent} %"
            ),
            "measure DLIO's cost on this host with `stormlp calibrate-dlio`, and repeat with \
             --client-overhead FILE",
        )
    })
}

fn few_steps(plan: &TrainPlan, request: &TrainRequest) -> Option<Warning> {
    let advice = match request.length.steps {
        Some(_) => "raise --steps",
        None if plan.is_null() => "set --steps",
        None => "use more files",
    };
    (plan.steps_per_epoch < MIN_STEPS - 1).then(|| {
        Warning::new(
            WarningKind::NotComparable,
            format!(
                "an epoch has {}, MLPerf requires {MIN_STEPS}",
                counted(plan.steps_per_epoch, "step")
            ),
            advice,
        )
    })
}

/// The steps after the last checkpoint of an epoch may be too few for AU, and then count as 0 % in
/// the average, as in every edition.
fn short_last_block(plan: &TrainPlan, workload: &Workload) -> Option<Warning> {
    let between = plan.checkpoint.as_ref()?.steps_between?;
    let last = plan.steps_per_epoch % between;
    (last > 0 && last < workload.metric.steps_needed(plan.profile)).then(|| {
        Warning::new(
            WarningKind::TooShort,
            format!(
                "the last block of an epoch, after its last checkpoint, has {}: too few for AU, \
                 which counts them as 0 %",
                counted(last, "step")
            ),
            "choose --steps or checkpoint.steps_between_checkpoints so that the one is a multiple \
             of the other",
        )
    })
}

fn no_effect(workload: &Workload) -> Option<Warning> {
    // Every workload file names a framework and what to generate, so do not warn about that.
    let is_usual = |key| {
        let usual = ["framework", "model.type", "workflow.generate_data", "hydra", "defaults"];
        usual.contains(&key)
    };
    let ignored = workload.without_effect.iter().filter(|note| note.value != "false");
    let keys: Vec<String> = ignored
        .filter(|note| !is_usual(&*note.key))
        .map(|note| format!("{} ({})", note.key, note.reason))
        .collect();
    (!keys.is_empty()).then(|| {
        Warning::new(WarningKind::NoEffect, format!("keys without effect: {}", keys.join(", ")), "")
    })
}
