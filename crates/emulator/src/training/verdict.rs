//! Why AU is what it is, in one sentence with the figures it rests on.

use stormlp_model::training::plan::TrainPlan;
use stormlp_model::training::report::{
    AuPercent, Bound, EpochReport, Measures, Verdict, WaitingSeconds,
};
use stormlp_model::training::request::StorageKind;

/// From this AU on there is nothing worth explaining.
const COMPUTE_BOUND_PERCENT: f64 = 97.0;
/// A run that comes within so many points of the ceiling that null storage showed is held back
/// by the host.
const NEAR_CEILING_POINTS: f64 = 3.0;

/// The verdict over `epochs`; `ceiling` is AU on storage that takes no time, if that is known.
pub(super) fn verdict(
    plan: &TrainPlan,
    epochs: &[EpochReport],
    mean: &Measures,
    ceiling: Option<&AuPercent>,
) -> Verdict {
    if epochs.iter().all(|epoch| epoch.accelerators.is_empty()) {
        return Verdict {
            bound: Bound::Unknown,
            sentence: "nothing was measured".to_string(),
        };
    }
    let au = mean.au_percent.profile;
    let waiting = sum(epochs);
    let bound = bound(au, &waiting);
    if plan.storage == StorageKind::Null {
        return Verdict {
            bound: if bound == Bound::Compute {
                bound
            } else {
                Bound::Client
            },
            sentence: format!(
                "the ceiling of this host for {} {} of this workload: AU {au:.1} % on storage \
                 that takes no time",
                plan.accelerators,
                plural(plan.accelerators, "accelerator")
            ),
        };
    }
    if let Some(ceiling) = ceiling
        && bound != Bound::Compute
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
    Verdict {
        bound,
        sentence: sentence(bound, plan, epochs, mean, &waiting),
    }
}

fn sum(epochs: &[EpochReport]) -> WaitingSeconds {
    let mut sum = WaitingSeconds::default();
    for epoch in epochs {
        let waiting = &epoch.measures.waiting_seconds;
        sum.storage += waiting.storage;
        sum.cpu += waiting.cpu;
        sum.barrier += waiting.barrier;
        sum.startup += waiting.startup;
    }
    sum
}

/// What most of the waiting that AU counts was for. Waiting at a barrier is a symptom: the slow
/// peer waits for something itself, so it decides only when nothing else is there.
fn bound(au: f64, waiting: &WaitingSeconds) -> Bound {
    if au >= COMPUTE_BOUND_PERCENT {
        return Bound::Compute;
    }
    let causes = [
        (waiting.storage, Bound::Storage),
        (waiting.cpu, Bound::Client),
    ];
    let (most, bound) = causes
        .into_iter()
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .unwrap_or((0.0, Bound::Unknown));
    if most > 0.02 * waiting.total() {
        return bound;
    }
    if waiting.barrier >= waiting.startup {
        Bound::Barrier
    } else {
        Bound::Startup
    }
}

fn sentence(
    bound: Bound,
    plan: &TrainPlan,
    epochs: &[EpochReport],
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
        Bound::Storage => format!(
            "storage-bound: {:.0} % of the waiting for data was storage at work{}",
            of_counted(waiting.storage),
            slowest_epoch(plan, epochs)
        ),
        Bound::Client => format!(
            "client-bound: in {:.0} % of the waiting for data storage was idle while this host \
             copied or had no CPU to spare; try fewer accelerators, or more CPUs",
            of_counted(waiting.cpu)
        ),
        Bound::Barrier => match epochs
            .iter()
            .filter_map(|epoch| epoch.slowest)
            .max_by(|a, b| a.kept_others_seconds.total_cmp(&b.kept_others_seconds))
        {
            Some(slowest) => format!(
                "barrier-bound: accelerators waited for slower peers, most for accelerator {} \
                 ({:.2} s)",
                slowest.accelerator, slowest.kept_others_seconds
            ),
            None => "barrier-bound: accelerators waited for slower peers".to_string(),
        },
        Bound::Startup => format!(
            "AU {au:.1} %; {:.2} s of waiting were the first batches of epochs",
            waiting.startup
        ),
        Bound::Unknown => "the waiting has no cause that was measured".to_string(),
    }
}

/// The epoch with the lowest AU, and what the accelerators asked for against what came.
fn slowest_epoch(plan: &TrainPlan, epochs: &[EpochReport]) -> String {
    let worst = epochs.iter().min_by(|a, b| {
        let au = |epoch: &EpochReport| epoch.measures.au_percent.profile;
        au(a).total_cmp(&au(b))
    });
    let Some(worst) = worst else {
        return String::new();
    };
    let demand = plan.demand_bytes_per_second() / 1e9;
    let asks = format!(
        "{} {} {demand:.2}",
        if plan.accelerators == 1 {
            "one".to_string()
        } else {
            plan.accelerators.to_string()
        },
        if plan.accelerators == 1 {
            format!("{} asks for", plan.accelerator.to_uppercase())
        } else {
            format!("{}s ask for", plan.accelerator.to_uppercase())
        }
    );
    match worst.device {
        Some(device) if device.bytes_per_second > 0.0 => format!(
            ", device busy {:.0} %: epoch {} came from it at {:.2} GB/s, {asks}",
            device.busy_percent,
            worst.epoch,
            device.bytes_per_second / 1e9
        ),
        _ => format!(
            ": epoch {} came at {:.2} GB/s, {asks}",
            worst.epoch,
            worst.measures.read_mib_per_second * f64::from(1u32 << 20) / 1e9
        ),
    }
}

fn plural(count: u32, word: &str) -> String {
    if count == 1 {
        word.to_string()
    } else {
        format!("{word}s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(storage: f64, cpu: f64, barrier: f64, startup: f64) -> WaitingSeconds {
        WaitingSeconds {
            storage,
            cpu,
            barrier,
            startup,
        }
    }

    #[test]
    fn the_largest_cause_gives_its_name() {
        assert_eq!(bound(99.0, &waiting(9.0, 0.0, 0.0, 0.0)), Bound::Compute);
        assert_eq!(bound(50.0, &waiting(9.0, 1.0, 50.0, 0.0)), Bound::Storage);
        assert_eq!(bound(50.0, &waiting(1.0, 9.0, 50.0, 0.0)), Bound::Client);
        assert_eq!(bound(50.0, &waiting(0.0, 0.0, 50.0, 1.0)), Bound::Barrier);
        assert_eq!(bound(50.0, &waiting(0.0, 0.0, 1.0, 9.0)), Bound::Startup);
    }
}
