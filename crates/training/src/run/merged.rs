//! Merges the reports of hosts that proceeded independently, from what each saved before they could
//! merge the results themselves.

use crate::plan::metrics;
use crate::plan::metrics::Rule;
use crate::plan::train_plan::TrainPlan;
use crate::report::{
    AcceleratorEpoch, BlockSums, Cost, EpochReport, StepLatency, TrainReport, TrainResults,
    WaitingSeconds, scored,
};
use stormlp_core::report::Ending;
use stormlp_core::warning::{Warning, WarningKind};

use super::verdict;

/// Whether `report` covers only some of the hosts of its plan.
pub fn is_of_some_hosts(report: &TrainReport) -> bool {
    report.results.hosts.len() < report.plan.hosts.len()
}

/// Merges the measurements of the hosts of `parts`, ordered by rank: the epochs that all of them
/// completed. `None` if there is no such epoch.
pub fn merged(parts: &[TrainReport]) -> Option<TrainReport> {
    let first = parts.first()?;
    let hosts = || parts.iter().flat_map(|part| &part.results.hosts);
    let plan = TrainPlan {
        accelerators: hosts().map(|host| host.accelerators).sum(),
        ..first.plan.clone()
    };
    let whole = |part: &TrainReport| {
        let epochs = part.results.epochs.iter();
        epochs.take_while(|one| one.came_to_its_end(&part.plan)).count()
    };
    let count = parts.iter().map(whole).min().filter(|count| *count > 0)?;
    let of_all = |nth: usize| {
        let each: Vec<&EpochReport> = parts.iter().map(|part| &part.results.epochs[nth]).collect();
        epoch(&plan, &each)
    };
    let epochs: Vec<EpochReport> = (0..count).map(of_all).collect();
    let mut report = TrainReport {
        ending: ending(parts),
        histograms: Vec::new(),
        warnings: warnings(parts, count),
        results: results(&plan, parts, epochs),
        plan,
        ..first.clone()
    };
    report.head.part = None;
    Some(report)
}

fn results(plan: &TrainPlan, parts: &[TrainReport], epochs: Vec<EpochReport>) -> TrainResults {
    let first = &parts[0].results;
    let measures = scored(plan, &epochs);
    let mean = metrics::mean(&measures);
    let hosts = parts.iter().map(|part| {
        let own = &part.results.epochs[..epochs.len()];
        let mut hosts = part.results.hosts.clone();
        for host in &mut hosts {
            host.au_percent = metrics::mean(&scored(&part.plan, own)).au_percent.profile;
            host.bytes_read = own.iter().map(|epoch| epoch.cost.bytes_read).sum();
        }
        hosts
    });
    let checkpoints = parts.iter().flat_map(|part| &part.results.checkpoints);
    let ends = epochs.iter().map(|epoch| epoch.started_seconds + epoch.duration_seconds);
    TrainResults {
        stdev: metrics::spread(&measures),
        meets_threshold: false,
        cost: Cost::total(epochs.iter().map(|epoch| &epoch.cost)),
        duration_seconds: ends.fold(0.0, f64::max),
        latency: StepLatency::default(),
        checkpoints: checkpoints.copied().collect(),
        verdict: verdict::verdict(plan, &epochs.iter().collect::<Vec<_>>(), &mean, None),
        hosts: hosts.flatten().collect(),
        steps: Vec::new(),
        mean,
        epochs,
        ..first.clone()
    }
}

/// Merges one epoch from each host's part: sums over the longest of their durations.
fn epoch(plan: &TrainPlan, each: &[&EpochReport]) -> EpochReport {
    let accelerators: Vec<AcceleratorEpoch> =
        each.iter().flat_map(|one| one.accelerators.clone()).collect();
    let blocks: Vec<&[BlockSums]> = accelerators.iter().map(|one| &*one.blocks).collect();
    let cost = Cost {
        // Processes on one host see the same devices.
        device_bytes_read: None,
        ..Cost::total(each.iter().map(|one| &one.cost))
    };
    let longest =
        |get: fn(&EpochReport) -> f64| each.iter().map(|one| get(one)).fold(0.0, f64::max);
    let duration_seconds = longest(|one| one.duration_seconds);
    let mut measures = metrics::epoch_measures(&Rule::of(plan), &blocks);
    measures.waiting_seconds = WaitingSeconds::default();
    for one in each {
        measures.waiting_seconds += one.measures.waiting_seconds;
    }
    let mib = cost.bytes_read as f64 / f64::from(1u32 << 20);
    measures.read_mib_per_second = mib / duration_seconds.max(f64::MIN_POSITIVE);
    EpochReport {
        measures,
        cost,
        started_seconds: longest(|one| one.started_seconds),
        duration_seconds,
        cached_share: each.iter().filter_map(|one| one.cached_share).reduce(f64::max),
        device: None,
        slowest: None,
        latency: StepLatency::default(),
        accelerators,
        // Not all hosts may have reached it.
        evaluation: None,
        ..each[0].clone()
    }
}

/// Why the run ended, according to the host with the most information.
fn ending(parts: &[TrainReport]) -> Ending {
    let failed = |ending: &&Ending| matches!(ending, Ending::Failed(_));
    let endings = || parts.iter().map(|part| &part.ending);
    let worst =
        endings().find(failed).or_else(|| endings().find(|ending| **ending != Ending::Complete));
    worst.cloned().unwrap_or(Ending::Unfinished)
}

/// The warnings of all hosts, and a note on what this report lacks.
fn warnings(parts: &[TrainReport], epochs: usize) -> Vec<Warning> {
    let by_all = |warning: &&Warning| parts.iter().all(|part| part.warnings.contains(warning));
    let mut warnings: Vec<Warning> = parts[0].warnings.iter().filter(by_all).cloned().collect();
    warnings.push(Warning::new(
        WarningKind::Hosts,
        format!(
            "merged from what each host saved: the {epochs} epochs that all of them completed, \
             without distributions, evaluations and devices"
        ),
        "",
    ));
    warnings
}
