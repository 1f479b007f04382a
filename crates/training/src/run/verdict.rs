//! Explains AU in one sentence with the supporting figures.

use std::collections::BTreeMap;
use std::ops::Add;

use crate::plan::train_plan::TrainPlan;
use crate::report::verdict::{Bound, Verdict};
use crate::report::{AuPercent, EpochReport, Measures, Slowest, WaitingSeconds, much_read_ahead};
use stormlp_core::others::LimitsInForce;
use stormlp_core::units::counted;

/// Above this AU no explanation is needed.
const COMPUTE_BOUND_PERCENT: f64 = 97.0;
/// A run within this many points of the null storage ceiling is limited by the host.
const NEAR_CEILING_POINTS: f64 = 3.0;
/// If storage or host causes more than this share of the waiting, it is the bound; if neither does,
/// it is both.
const DECISIVE_SHARE: f64 = 0.6;
/// A host is late if it comes last at more of the steps than in turns, by this share of them.
const BEYOND_TURNS: f64 = 0.3;
/// Smaller values are displayed as 0.00 s.
const LEAST_SECONDS: f64 = 0.005;

/// The verdict over `epochs`; `ceiling` is the AU on infinitely fast storage, if known, and `limits`
/// are those that held the run back.
pub fn verdict(
    plan: &TrainPlan,
    epochs: &[&EpochReport],
    mean: &Measures,
    ceiling: Option<&AuPercent>,
    limits: Option<&LimitsInForce>,
) -> Verdict {
    let has_quota = limits.is_some_and(|limits| limits.of_cpus);
    let mut found = by_waiting(plan, epochs, mean, ceiling, has_quota);
    let explains = !matches!(found.limited_by, Bound::Compute | Bound::ReadAhead | Bound::Unknown);
    if let Some(limits) = limits.filter(|_| explains) {
        found.sentence.push_str(&format!("; limit in force: {}", limits.words));
    }
    found
}

fn by_waiting(
    plan: &TrainPlan,
    epochs: &[&EpochReport],
    mean: &Measures,
    ceiling: Option<&AuPercent>,
    has_quota: bool,
) -> Verdict {
    if epochs.iter().all(|epoch| epoch.accelerators.is_empty()) {
        return Verdict { limited_by: Bound::Unknown, sentence: "no measurement".to_string() };
    }
    if plan.compute.mean_seconds() < 1e-9 {
        return Verdict {
            limited_by: Bound::Unknown,
            sentence: "no compute is emulated, so AU is meaningless; samples/s is what the \
                       loaders reach"
                .to_string(),
        };
    }
    let au = mean.au_percent.profile;
    if plan.is_null() {
        return ceiling_of_host(plan, au);
    }
    let bound = main_cause(plan, epochs, mean);
    let ceiling = ceiling.map(|ceiling| ceiling.profile).filter(|_| au < COMPUTE_BOUND_PERCENT);
    if let Some(ceiling) = ceiling.filter(|ceiling| ceiling - au < NEAR_CEILING_POINTS) {
        let sentence = format!(
            "client-bound: AU {au:.1} % is within {NEAR_CEILING_POINTS:.0} points of this host's \
             upper limit, {ceiling:.1} % (no storage)"
        );
        return Verdict { limited_by: Bound::Client, sentence };
    }
    // Without a quota, a host that alone reaches the threshold is held up by the cost of its reads.
    let reached = ceiling.filter(|ceiling| *ceiling >= plan.metric.threshold_percent);
    if let Some(ceiling) = reached.filter(|_| bound == Bound::Client && !has_quota) {
        let WaitingSeconds { cpu, storage, .. } = sum(epochs);
        let sentence = format!(
            "client-bound: {:.0} % of the wait for data was this host; AU is {au:.1} % with reads, \
             {ceiling:.1} % without: their CPU cost is the limit",
            100.0 * cpu / (cpu + storage).max(f64::MIN_POSITIVE)
        );
        return Verdict { limited_by: Bound::Client, sentence };
    }
    let late = last_host(epochs).filter(|_| au < COMPUTE_BOUND_PERCENT).map(|(name, share)| {
        format!("; {name} was the last of the hosts at {:.0} % of the steps", 100.0 * share)
    });
    let sentence = sentence(bound, plan, epochs, mean, &sum(epochs));
    Verdict { limited_by: bound, sentence: format!("{sentence}{}", late.unwrap_or_default()) }
}

/// The host that came last at many more of the steps than its turn, and at which share of them.
fn last_host<'a>(epochs: &[&'a EpochReport]) -> Option<(&'a str, f64)> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for host in epochs.iter().flat_map(|epoch| &epoch.hosts) {
        *counts.entry(&host.name).or_default() += host.slowest;
    }
    let steps: u64 = counts.values().sum();
    let (name, last) = counts.iter().max_by_key(|(_, last)| **last)?;
    let share = *last as f64 / steps.max(1) as f64;
    let turn = (counts.len() as f64).recip();
    (counts.len() > 1 && share > turn + BEYOND_TURNS).then_some((*name, share))
}

/// The main cause of waiting over `epochs`, whatever storage they read from.
pub fn main_cause(plan: &TrainPlan, epochs: &[&EpochReport], mean: &Measures) -> Bound {
    let is_measured = epochs.iter().any(|epoch| !epoch.accelerators.is_empty());
    if !is_measured || plan.compute.mean_seconds() < 1e-9 {
        return Bound::Unknown;
    }
    let ahead = much_read_ahead(plan, mean).is_some();
    bound(mean.au_percent.profile, ahead, &sum(epochs))
}

/// The verdict for a run without reads.
fn ceiling_of_host(plan: &TrainPlan, au: f64) -> Verdict {
    Verdict {
        limited_by: if au >= COMPUTE_BOUND_PERCENT { Bound::Compute } else { Bound::Client },
        sentence: format!(
            "upper limit of this host: AU {au:.1} % with {} (no storage)",
            counted(u64::from(plan.accelerators), "accelerator")
        ),
    }
}

fn sum(epochs: &[&EpochReport]) -> WaitingSeconds {
    let waiting = epochs.iter().map(|epoch| epoch.measures.waiting_seconds);
    waiting.fold(WaitingSeconds::default(), Add::add)
}

/// The main cause of counted waiting; `ahead` if much was read ahead. Waiting at a barrier is a
/// symptom (the slow peer itself waits for something), so it decides only if there is no other
/// cause.
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
    limited_by: Bound,
    plan: &TrainPlan,
    epochs: &[&EpochReport],
    mean: &Measures,
    waiting: &WaitingSeconds,
) -> String {
    let au = mean.au_percent.profile;
    let counted = waiting.storage + waiting.cpu;
    let of_counted = |part: f64| 100.0 * part / counted.max(f64::MIN_POSITIVE);
    match limited_by {
        Bound::Compute => {
            format!("compute-bound: AU {au:.1} %, data was always ready")
        }
        Bound::ReadAhead => format!("AU {au:.1} % is largely due to prefetched samples"),
        Bound::Storage => format!(
            "storage-bound: {:.0} % of the wait for data was storage{}",
            of_counted(waiting.storage),
            slowest_epoch(plan, epochs)
        ),
        Bound::Client => format!(
            "client-bound: {:.0} % of the wait for data was this host; {}",
            of_counted(waiting.cpu),
            spare_the_host(plan, epochs, waiting)
        ),
        Bound::StorageAndClient => format!(
            "bound by storage and client: {:.0} % of the wait for data was storage, {:.0} % this \
             host{}; {}",
            of_counted(waiting.storage),
            of_counted(waiting.cpu),
            slowest_epoch(plan, epochs),
            spare_the_host(plan, epochs, waiting)
        ),
        Bound::Barrier => at_barriers(au, epochs, waiting.barrier),
        Bound::Startup => format!(
            "AU {au:.1} %; {:.2} s of the wait was for the first batches of epochs",
            waiting.startup
        ),
        Bound::Unknown => "the cause of the waiting was not measured".to_string(),
    }
}

/// The explanation when no accelerator waited for data: `seconds` of waiting at barriers. A value
/// displayed as 0.00 s is no explanation.
fn at_barriers(au: f64, epochs: &[&EpochReport], seconds: f64) -> String {
    if seconds < LEAST_SECONDS {
        return format!("AU {au:.1} %; accelerators waited neither for data nor for each other");
    }
    let most = Slowest::of(epochs.iter().filter_map(|epoch| epoch.slowest))
        .filter(|slowest| slowest.delayed_others_seconds >= LEAST_SECONDS)
        .map(|Slowest { accelerator, delayed_others_seconds }| {
            format!(", longest for accelerator {accelerator} ({delayed_others_seconds:.2} s)")
        });
    let most = most.unwrap_or_default();
    format!("barrier-bound: accelerators waited {seconds:.2} s for slower peers{most}")
}

/// Advice for a run limited by this host.
fn spare_the_host(
    plan: &TrainPlan,
    epochs: &[&EpochReport],
    waiting: &WaitingSeconds,
) -> &'static str {
    let steps = plan.steps_per_epoch as f64 * epochs.len() as f64 * f64::from(plan.accelerators);
    let of_steps = plan.client.map(|client| client.step_seconds_of(plan.batch_size) * steps);
    if of_steps.is_some_and(|of_steps| of_steps > 0.5 * waiting.cpu) {
        "its cost per step is most of it, regardless of storage: only longer steps help"
    } else if plan.client.is_some() {
        "the official tool would be slowed down as well: try more reader.read_threads or \
         fewer accelerators"
    } else if !plan.preprocess.is_zero() {
        "try more reader.read_threads, which preprocess at the same time"
    } else if plan.accelerators > 1 {
        "try fewer accelerators, or more CPUs"
    } else {
        "try more or faster CPUs"
    }
}

/// The epoch with the lowest AU: delivered versus demanded throughput in AU's window.
fn slowest_epoch(plan: &TrainPlan, epochs: &[&EpochReport]) -> String {
    let worst = epochs.iter().copied().min_by(|a, b| {
        let au = |epoch: &EpochReport| epoch.measures.au_percent.profile;
        au(a).total_cmp(&au(b))
    });
    let Some(worst) = worst else {
        return String::new();
    };
    let busy = match worst.device_busy_percent {
        Some(percent) if percent > 0.0 => {
            format!(", the device was busy {percent:.0} % of epoch {}", worst.epoch)
        }
        _ => String::new(),
    };
    let came = worst.measures.window_samples_per_second * plan.data.read_sample_bytes / 1e9;
    let demand = plan.demand_bytes_per_second() / 1e9;
    if came <= 0.0 || !demand.is_finite() {
        return busy;
    }
    format!(
        "{busy}: epoch {} got {came:.2} of the {demand:.2} GB/s that {} need",
        worst.epoch,
        counted(u64::from(plan.accelerators), "accelerator")
    )
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
#[allow(clippy::unwrap_used)]
mod tests;
