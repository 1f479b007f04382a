//! Why AU is what it is, in one sentence with the figures it rests on.

use std::ops::Add;

use crate::plan::catalog;
use crate::plan::request::StorageKind;
use crate::plan::train_plan::TrainPlan;
use crate::report::{AuPercent, Bound, EpochReport, Measures, Verdict, WaitingSeconds};
use stormlp_core::units::counted;

/// From this AU on there is nothing worth explaining.
const COMPUTE_BOUND_PERCENT: f64 = 97.0;
/// A run that comes within so many points of the ceiling that null storage showed is held back
/// by the host.
const NEAR_CEILING_POINTS: f64 = 3.0;
/// With a larger share of the waiting than this, storage or host is what a run is bound by; with
/// less for either, it is both.
const DECISIVE_SHARE: f64 = 0.6;
/// Less is told as 0.00 s.
const LEAST_SECONDS: f64 = 0.005;
/// With more than this share of the counted samples read before AU's window began, AU says little
/// of what storage can sustain.
pub(super) const READ_AHEAD_SHARE: f64 = 0.3;

/// The verdict over `epochs`; `ceiling` is AU on storage that takes no time, if that is known.
pub fn verdict(
    plan: &TrainPlan,
    epochs: &[&EpochReport],
    mean: &Measures,
    ceiling: Option<&AuPercent>,
) -> Verdict {
    if epochs.iter().all(|epoch| epoch.accelerators.is_empty()) {
        return Verdict { bound: Bound::Unknown, sentence: "nothing was measured".to_string() };
    }
    if plan.compute.mean_seconds() < 1e-9 {
        return Verdict {
            bound: Bound::Unknown,
            sentence: "no compute is emulated, so AU says nothing; samples/s is what the loaders \
                       reach"
                .to_string(),
        };
    }
    let au = mean.au_percent.profile;
    let waiting = sum(epochs);
    let ahead = read_ahead_share(plan, mean).filter(|share| *share > READ_AHEAD_SHARE);
    if plan.storage == StorageKind::Null {
        return ceiling_of_host(plan, au);
    }
    let bound = bound(au, ahead.is_some(), &waiting);
    if let Some(ceiling) = ceiling
        && au < COMPUTE_BOUND_PERCENT
        && ceiling.profile - au < NEAR_CEILING_POINTS
    {
        return Verdict {
            bound: Bound::Client,
            sentence: format!(
                "client-bound: AU {au:.1} % is within {NEAR_CEILING_POINTS:.0} points of the \
                 {:.1} % that this host reaches on storage that takes no time",
                ceiling.profile
            ),
        };
    }
    Verdict { bound, sentence: sentence(bound, plan, epochs, mean, &waiting) }
}

/// The verdict of a run that read nothing.
fn ceiling_of_host(plan: &TrainPlan, au: f64) -> Verdict {
    Verdict {
        bound: if au >= COMPUTE_BOUND_PERCENT { Bound::Compute } else { Bound::Client },
        sentence: format!(
            "the ceiling of this host for {} of this workload: AU {au:.1} % on storage that takes \
             no time",
            counted(u64::from(plan.accelerators), "accelerator")
        ),
    }
}

/// Samples that had been read before the first step that AU counts, as a share of those it
/// counts, by the means `mean` of epochs of `plan`; `None` when that was not measured.
pub(super) fn read_ahead_share(plan: &TrainPlan, mean: &Measures) -> Option<f64> {
    let steps = plan.steps_per_epoch as f64;
    let start = plan.metric.exclude_start_steps as f64;
    let counted = steps - start - plan.metric.exclude_end_steps as f64;
    // The samples of the steps left out were there as well, but they do not count.
    let ahead = mean.preread_share? * steps - start;
    (counted > 0.0).then(|| (ahead / counted).clamp(0.0, 1.0))
}

fn sum(epochs: &[&EpochReport]) -> WaitingSeconds {
    let waiting = epochs.iter().map(|epoch| epoch.measures.waiting_seconds);
    waiting.fold(WaitingSeconds::default(), Add::add)
}

/// What most of the waiting that AU counts was for; `ahead` when much had been read beforehand.
/// Waiting at a barrier is a symptom: the slow peer waits for something itself, so it decides
/// only when nothing else is there.
fn bound(au: f64, ahead: bool, waiting: &WaitingSeconds) -> Bound {
    if au >= COMPUTE_BOUND_PERCENT {
        return if ahead { Bound::ReadAhead } else { Bound::Compute };
    }
    let counted = waiting.storage + waiting.cpu;
    let most = waiting.storage.max(waiting.cpu);
    if most > 0.02 * waiting.total() {
        return if waiting.storage >= DECISIVE_SHARE * counted {
            Bound::Storage
        } else if waiting.cpu >= DECISIVE_SHARE * counted {
            Bound::Client
        } else {
            Bound::StorageAndClient
        };
    }
    if waiting.barrier >= waiting.startup { Bound::Barrier } else { Bound::Startup }
}

fn sentence(
    bound: Bound,
    plan: &TrainPlan,
    epochs: &[&EpochReport],
    mean: &Measures,
    waiting: &WaitingSeconds,
) -> String {
    let au = mean.au_percent.profile;
    let counted = waiting.storage + waiting.cpu;
    let of_counted = |part: f64| 100.0 * part / counted.max(f64::MIN_POSITIVE);
    match bound {
        Bound::Compute => {
            format!("compute-bound: AU {au:.1} %, data was there when it was asked for")
        }
        Bound::ReadAhead => format!("AU {au:.1} % rests largely on what had been read ahead"),
        Bound::Storage => format!(
            "storage-bound: {:.0} % of the waiting for data was storage at work{}",
            of_counted(waiting.storage),
            slowest_epoch(plan, epochs)
        ),
        Bound::Client => format!(
            "client-bound: in {:.0} % of the waiting for data storage was idle while {}; {}",
            of_counted(waiting.cpu),
            clients_work(plan),
            spare_the_host(plan, epochs, waiting)
        ),
        Bound::StorageAndClient => format!(
            "bound by storage and client alike: {:.0} % of the waiting for data was storage at \
             work, in {:.0} % {}{}; {}",
            of_counted(waiting.storage),
            of_counted(waiting.cpu),
            clients_work(plan),
            slowest_epoch(plan, epochs),
            spare_the_host(plan, epochs, waiting)
        ),
        Bound::Barrier => at_barriers(au, epochs, waiting.barrier),
        Bound::Startup => format!(
            "AU {au:.1} %; {:.2} s of waiting were the first batches of epochs",
            waiting.startup
        ),
        Bound::Unknown => "the waiting has no cause that was measured".to_string(),
    }
}

/// What is left where nothing waited for data: `seconds` of waiting at barriers. What would be told as
/// 0.00 s explains nothing.
fn at_barriers(au: f64, epochs: &[&EpochReport], seconds: f64) -> String {
    let slowest = epochs
        .iter()
        .filter_map(|epoch| epoch.slowest)
        .max_by(|a, b| a.kept_others_seconds.total_cmp(&b.kept_others_seconds));
    match slowest {
        _ if seconds < LEAST_SECONDS => {
            format!("AU {au:.1} %; accelerators waited neither for data nor for each other")
        }
        Some(slowest) if slowest.kept_others_seconds >= LEAST_SECONDS => format!(
            "barrier-bound: accelerators waited for slower peers, most for accelerator {} ({:.2} s)",
            slowest.accelerator, slowest.kept_others_seconds
        ),
        Some(_) => format!(
            "barrier-bound: accelerators waited {seconds:.2} s at barriers, for none of them in \
             particular"
        ),
        None => "barrier-bound: accelerators waited for slower peers".to_string(),
    }
}

/// What a client does while nothing is read. Preprocessing and DLIO's own work are emulated: they
/// take time, no CPU.
fn clients_work(plan: &TrainPlan) -> String {
    if let Some(client) = &plan.client {
        return format!("samples waited for DLIO's own work ({client}) or were copied");
    }
    if plan.preprocess.is_zero() {
        return "this host copied or had no CPU to spare".to_string();
    }
    format!(
        "samples were preprocessed ({} each by reader.preprocess_time) or copied",
        plan.preprocess
    )
}

/// What a run that this host holds back can do.
fn spare_the_host(
    plan: &TrainPlan,
    epochs: &[&EpochReport],
    waiting: &WaitingSeconds,
) -> &'static str {
    let steps = plan.steps_per_epoch as f64 * epochs.len() as f64 * f64::from(plan.accelerators);
    let of_steps = plan.client.map(|client| client.step_seconds * steps);
    if of_steps.is_some_and(|of_steps| of_steps > 0.5 * waiting.cpu) {
        "it takes most of it in each step, whatever the storage: only longer steps change that"
    } else if plan.client.is_some() {
        "the official tool would be held back as well: try more --read-threads or fewer accelerators"
    } else if !plan.preprocess.is_zero() {
        "try more --read-threads, which preprocess at the same time"
    } else if plan.accelerators > 1 {
        "try fewer accelerators, or more CPUs"
    } else {
        "try more or faster CPUs"
    }
}

/// The epoch with the lowest AU: what came in AU's own window against what was asked for there.
fn slowest_epoch(plan: &TrainPlan, epochs: &[&EpochReport]) -> String {
    let worst = epochs.iter().copied().min_by(|a, b| {
        let au = |epoch: &EpochReport| epoch.measures.au_percent.profile;
        au(a).total_cmp(&au(b))
    });
    let Some(worst) = worst else {
        return String::new();
    };
    let busy = match worst.device {
        Some(device) if device.bytes_per_second > 0.0 => {
            format!(", the device was busy {:.0} % of epoch {}", device.busy_percent, worst.epoch)
        }
        _ => String::new(),
    };
    let came = worst.measures.window_samples_per_second * plan.data.read_sample_bytes / 1e9;
    let demand = plan.demand_bytes_per_second() / 1e9;
    if came <= 0.0 || !demand.is_finite() {
        return busy;
    }
    format!(
        "{busy}: while AU counted, epoch {} got {came:.2} GB/s, {} {demand:.2}",
        worst.epoch,
        askers(plan)
    )
}

/// Who asks for data: by the accelerator's name only if its compute time and batch are its own.
fn askers(plan: &TrainPlan) -> String {
    let asking = |word: &str| match plan.accelerators {
        1 => format!("one {word}"),
        many => counted(u64::from(many), word),
    };
    let asks = if plan.accelerators == 1 { "asks for" } else { "ask for" };
    if as_published(plan) {
        return format!("{} {asks}", asking(&plan.accelerator.to_uppercase()));
    }
    let accelerators = asking("accelerator");
    format!("{accelerators} of this compute time and batch {asks}")
}

/// Whether compute time and batch are those that the workload has with this accelerator.
fn as_published(plan: &TrainPlan) -> bool {
    let Ok(entry) = catalog::find(&plan.workload, Some(&plan.accelerator)) else {
        return false;
    };
    entry.workload(&[]).is_ok_and(|workload| {
        workload.train.computation_time == plan.compute
            && workload.reader.batch_size == plan.batch_size
    })
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
#[allow(clippy::unwrap_used)]
mod tests;
