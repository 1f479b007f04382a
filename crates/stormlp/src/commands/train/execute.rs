//! Runs a plan as often as it says and puts the report together.

use std::time::{SystemTime, UNIX_EPOCH};

use stormlp_emulator::training::error::TrainError;
use stormlp_emulator::training::machine::BlockTally;
use stormlp_emulator::training::measured::{PhaseKind, PhaseMeasured, RunMeasured};
use stormlp_emulator::training::prepare::{Means, Prepared, prepare};
use stormlp_emulator::training::{assemble, run as emulate};
use stormlp_model::event::{Event, Observer as _};
use stormlp_model::evidence::DirectIo;
use stormlp_model::facts::HostFacts;
use stormlp_model::report::{Ending, FailureCause, Head, NamedEvidence, ReportKind};
use stormlp_model::training::inventory::Inventory;
use stormlp_model::training::metrics;
use stormlp_model::training::plan::TrainPlan;
use stormlp_model::training::report::{
    self, Calibration, Cost, EpochReport, Measures, RunReport, StepLists, TrainReport, TrainResults,
};
use stormlp_model::training::request::{StorageKind, TrainRequest};
use stormlp_model::training::workload::Workload;
use stormlp_model::warning::{Warning, WarningKind};
use stormlp_transfer::Backing;
use stormlp_transfer::telemetry::peak_rss_bytes;

use super::finish;
use crate::exit::Failure;
use crate::session::Session;

/// Compute may end so much later than its deadline, as a share of the step.
const PACING_SHARE: f64 = 0.01;
/// A cold epoch may find this share of the dataset in the page cache.
const COLD_SHARE: f64 = 0.01;
/// The ceiling of the host is looked for so long.
const CALIBRATION_SECONDS: f64 = 3.0;

/// Everything a run needs.
pub(crate) struct Run<'a> {
    pub(crate) plan: &'a TrainPlan,
    pub(crate) workload: &'a Workload,
    pub(crate) inventory: &'a Inventory,
    pub(crate) means: Means,
    pub(crate) facts: HostFacts,
    pub(crate) warnings: Vec<Warning>,
}

/// What came of it.
pub(crate) struct Done {
    pub(crate) report: TrainReport,
    /// Times of every step, run by run, when they were asked for.
    pub(crate) steps: Vec<Vec<StepLists>>,
}

/// Runs the plan, all its runs, and reports.
///
/// # Errors
/// When it cannot begin.
pub(crate) fn execute(run: Run<'_>, session: &Session) -> Result<Done, Failure> {
    let started = unix_seconds();
    let mut measured: Vec<RunMeasured> = Vec::new();
    let mut steps: Vec<Vec<StepLists>> = Vec::new();
    let mut starts = Vec::new();
    let mut not_begun = None;
    for number in 1..=run.plan.runs {
        if run.plan.runs > 1 && !session.quiet {
            let kind = if number == 1 { ", the warm-up" } else { "" };
            eprintln!("run {number} of {}{kind}", run.plan.runs);
        }
        let since = unix_seconds();
        match once(run.plan, &run, session) {
            Ok(done) => {
                starts.push(since);
                steps.push(assemble::step_lists(&done));
                let complete = matches!(done.ending, Ending::Complete);
                measured.push(done);
                if !complete {
                    break;
                }
            }
            Err(error) if measured.is_empty() => return Err(cannot_begin(run.plan, error)),
            Err(error) => {
                // What the runs before it measured is not lost.
                not_begun = Some(Ending::Failed {
                    cause: error.cause(),
                    message: format!("run {number} could not begin: {error}"),
                    remedy: String::new(),
                });
                break;
            }
        }
    }
    let mut report = report(&run, &measured, session);
    if let Some(ending) = not_begun {
        (report.ending, report.results.meets_threshold) = (ending, false);
    }
    report.results.started_unix_seconds = started;
    for (one, since) in report.results.runs.iter_mut().zip(starts) {
        one.started_unix_seconds = since;
    }
    calibrate(&run, &mut report, session);
    Ok(Done { report, steps })
}

fn cannot_begin(plan: &TrainPlan, error: TrainError) -> Failure {
    let help = match error.cause() {
        FailureCause::Checkpoint => finish::checkpoint_help(plan),
        _ => "`stormlp doctor` says what can run on this machine".to_string(),
    };
    Failure::machine(error).with_help(help)
}

/// Seconds since 1970 in UTC; 0 with a clock before that.
fn unix_seconds() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

/// One run, told epoch by epoch.
fn once(plan: &TrainPlan, run: &Run<'_>, session: &Session) -> Result<RunMeasured, TrainError> {
    let Prepared {
        spec,
        order,
        evaluation,
    } = prepare(plan, run.inventory, run.means.clone());
    let progress = session.progress();
    let tell = |phase: &PhaseMeasured| {
        if phase.kind == PhaseKind::Training {
            let message = epoch_line(plan, phase);
            progress.event(&Event::Note { message });
        }
    };
    emulate::run(
        &spec,
        order.as_ref(),
        evaluation.as_deref(),
        &progress,
        &tell,
        &session.stop,
    )
}

fn epoch_line(plan: &TrainPlan, phase: &PhaseMeasured) -> String {
    let epoch = assemble::epoch(plan, phase);
    let measures = &epoch.measures;
    let steps = |blocks: &Vec<BlockTally>| blocks.iter().map(|block| block.steps).sum();
    let steps: u64 = phase.blocks.iter().map(steps).min().unwrap_or(0);
    let cut_short = if steps < plan.steps_per_epoch {
        format!(
            ", cut short after {steps} of {} steps",
            plan.steps_per_epoch
        )
    } else {
        String::new()
    };
    format!(
        "epoch {} of {}{cut_short}: AU {:.1} %, {:.2} samples/s, {:.1} MiB/s",
        phase.epoch,
        plan.epochs,
        measures.au_percent.profile,
        measures.samples_per_second,
        measures.mib_per_second
    )
}

fn report(run: &Run<'_>, measured: &[RunMeasured], session: &Session) -> TrainReport {
    let plan = run.plan;
    let runs: Vec<RunReport> = (1..)
        .zip(measured)
        .map(|(number, run)| assemble::run_report(plan, number, plan.runs > 1 && number == 1, run))
        .collect();
    // A run that was cut short in its warm-up has nothing better to show.
    let scored: Vec<&RunReport> = match runs.iter().any(|run| !run.warm_up) {
        true => runs.iter().filter(|run| !run.warm_up).collect(),
        false => runs.iter().collect(),
    };
    let epochs = report::scored(plan, scored.iter().flat_map(|run| &run.epochs));
    let mean = metrics::mean(&epochs);
    let last = measured.last();
    let shown = scored
        .last()
        .map(|run| run.epochs.clone())
        .unwrap_or_default();
    let judged: Vec<&EpochReport> = scored.iter().flat_map(|run| &run.epochs).collect();
    let head = Head::new(
        ReportKind::Train,
        session.command_line(),
        session.started_at(),
        run.facts.clone(),
    );
    let results = TrainResults {
        workload: plan.workload.clone(),
        accelerator: plan.accelerator.clone(),
        accelerators: plan.accelerators,
        profile: plan.profile,
        steps_per_epoch: plan.steps_per_epoch,
        stdev: metrics::spread(&epochs),
        threshold_percent: plan.metric.threshold_percent,
        meets_threshold: last.is_some_and(|run| matches!(run.ending, Ending::Complete))
            && !epochs.is_empty()
            && mean.au_percent.profile >= plan.metric.threshold_percent,
        cost: Cost::total(scored.iter().map(|run| &run.cost)).shared_by(scored.len()),
        peak_rss_bytes: peak_rss_bytes(),
        duration_seconds: scored.iter().map(|run| run.duration_seconds).sum::<f64>()
            / scored.len().max(1) as f64,
        latency: assemble::latency(&measured[measured.len() - scored.len()..]),
        checkpoints: last.map(assemble::checkpoints).unwrap_or_default(),
        devices: last.map(|run| run.devices.clone()).unwrap_or_default(),
        layout: last.map(assemble::layout).unwrap_or_default(),
        verdict: assemble::verdict(plan, &judged, &mean, None),
        calibration: None,
        started_unix_seconds: 0.0,
        epochs: shown,
        mean,
        runs: if plan.runs > 1 { runs } else { Vec::new() },
    };
    let mut report = TrainReport::new(head, plan.clone(), results);
    report.ending = last.map_or(Ending::Stopped, |run| run.ending.clone());
    report.warnings.clone_from(&run.warnings);
    let evidence = last.and_then(|run| run.evidence.clone());
    report
        .evidence
        .extend(evidence.map(|evidence| NamedEvidence {
            name: "reads".to_string(),
            evidence,
        }));
    let observed = observed(&report, measured);
    report.warnings.extend(observed);
    report
}

/// Warnings that only the run itself can give.
fn observed(report: &TrainReport, measured: &[RunMeasured]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    warnings.extend(pacing(report));
    warnings.extend(over_full(report));
    warnings.extend(read_ahead(report));
    warnings.extend(cold(report));
    let evidence = report.evidence_of("reads");
    if evidence.is_some_and(|evidence| evidence.direct_io == DirectIo::Refused) {
        warnings.push(Warning::new(
            WarningKind::NotDirect,
            "the file system refused O_DIRECT: the bytes went through the page cache",
            "use a file system that has it, or --path buffered",
        ));
    }
    for fallback in evidence
        .and_then(|evidence| evidence.engine.as_ref())
        .map(|engine| engine.fallbacks.as_slice())
        .unwrap_or_default()
    {
        warnings.push(Warning::new(
            WarningKind::EngineFellBack,
            fallback.clone(),
            "",
        ));
    }
    if measured
        .iter()
        .any(|run| run.backing == Backing::SmallPages)
    {
        warnings.push(Warning::new(
            WarningKind::Buffers,
            "buffers lie on small pages: large direct reads are split and cost more CPU",
            "allow transparent huge pages, or reserve some with vm.nr_hugepages",
        ));
    }
    if !report.head.host.release_build {
        warnings.push(Warning::new(
            WarningKind::DebugBuild,
            "this is a debug build",
            "build with --release before trusting the figures",
        ));
    }
    warnings
}

fn pacing(report: &TrainReport) -> Option<Warning> {
    let overshoot = report.results.latency.compute_overshoot_us?;
    let step_us = report.plan.compute.mean_seconds() * 1e6;
    (step_us > 0.0 && overshoot.p99 > PACING_SHARE * step_us).then(|| {
        Warning::new(
            WarningKind::Pacing,
            format!(
                "compute ended up to {:.0} µs late (p99; {:.0} µs at p50), {:.1} % of a step",
                overshoot.p99,
                overshoot.p50,
                100.0 * overshoot.p99 / step_us
            ),
            "leave a CPU free, or emulate fewer accelerators on this host",
        )
    })
}

/// AU by nominal compute divides by the mean of a distribution, whatever was drawn from it.
fn over_full(report: &TrainReport) -> Option<Warning> {
    let au = report.results.mean.au_percent;
    let drawn = report.plan.compute.stdev_seconds() > 0.0;
    (drawn && au.nominal > 100.0).then(|| {
        Warning::new(
            WarningKind::TooShort,
            format!(
                "AU by nominal compute is over 100 % ({:.1} %) because the compute times drawn \
                 were shorter than their mean ({} s)",
                au.nominal,
                report.plan.compute.mean_seconds()
            ),
            format!(
                "AU by measured compute ({:.1} %) does not depend on it; with more steps the \
                 draws come closer to their mean",
                au.measured
            ),
        )
    })
}

/// Says when AU rests largely on what had been read before it began to count.
fn read_ahead(report: &TrainReport) -> Option<Warning> {
    let share = assemble::read_ahead_share(&report.plan, &report.results.mean)?;
    let real = report.plan.storage == StorageKind::Real;
    (real && share > assemble::READ_AHEAD_SHARE).then(|| {
        Warning::new(
            WarningKind::TooShort,
            format!(
                "{:.0} % of the samples that AU counts had been read before its first step: the \
                 storage was not asked to sustain this rate",
                100.0 * share
            ),
            "make epochs longer: more --files, and a higher --steps where that limits them",
        )
    })
}

fn cold(report: &TrainReport) -> Option<Warning> {
    if !report.plan.cold {
        return None;
    }
    let epochs = report.results.scored_epochs();
    if epochs.iter().any(|epoch| epoch.cached_share.is_none()) {
        return Some(Warning::new(
            WarningKind::CacheState,
            "whether the page cache was empty is not known: the kernel tells it only those who own \
             the files or may write to them",
            "run as the owner of the dataset; bytes read from the device tell it as well",
        ));
    }
    let shares = epochs.iter().filter_map(|epoch| epoch.cached_share);
    let most = shares.fold(0.0, f64::max);
    (most > COLD_SHARE).then(|| {
        Warning::new(
            WarningKind::CacheState,
            format!(
                "{:.1} % of the dataset was still in the page cache when an epoch began",
                100.0 * most
            ),
            "this run was not cold: another process holds these files, or they lie in memory (tmpfs)",
        )
    })
}

/// Looks for the ceiling of this host when AU was missed: the same workload on storage that takes
/// no time, for a few seconds. A ceiling that was not reached to the end is none.
fn calibrate(run: &Run<'_>, report: &mut TrainReport, session: &Session) {
    let plan = run.plan;
    let wanted = plan.storage == StorageKind::Real
        && report.ending == Ending::Complete
        && !report.results.epochs.is_empty()
        && !report.results.meets_threshold
        && !session.stop.is_stopped();
    if !wanted {
        return;
    }
    if !session.quiet {
        eprintln!("AU was missed: looking for the ceiling of this host, about 3 s");
    }
    match ceiling(run, session) {
        Ok(Some(mean)) => {
            report.results.calibration = Some(Calibration {
                au_percent: mean.au_percent,
                samples_per_second: mean.samples_per_second,
            });
            let epochs = report.results.scored_epochs();
            let verdict =
                assemble::verdict(plan, &epochs, &report.results.mean, Some(&mean.au_percent));
            report.results.verdict = verdict;
        }
        Ok(None) => {}
        Err(why) => report.warnings.push(Warning::new(
            WarningKind::HarnessBound,
            format!("the ceiling of this host was not measured: {why}"),
            "run the workload with --storage null",
        )),
    }
}

/// What this host reaches for the plan's workload on storage that takes no time; `None` when the
/// user stopped it.
fn ceiling(run: &Run<'_>, session: &Session) -> Result<Option<Measures>, String> {
    let plan = run.plan;
    let step = plan.compute.mean_seconds().max(1e-4);
    let most = (CALIBRATION_SECONDS / step).ceil() as u64;
    let request = TrainRequest {
        profile: Some(plan.profile),
        accelerators: Some(plan.accelerators),
        batch_size: Some(plan.batch_size),
        read_threads: Some(plan.loader.read_threads()),
        prefetch: Some(plan.loader.prefetch_size()),
        compute: Some(plan.compute),
        epochs: Some(1),
        steps: Some(plan.steps_per_epoch.min(most).max(4)),
        storage: StorageKind::Null,
        ..TrainRequest::default()
    };
    let nothing = Inventory::default();
    let resolved = TrainPlan::resolve(run.workload, &request, &run.facts, &nothing);
    let mut null = resolved.map_err(|problems| problems.to_string())?.plan;
    null.loader = plan.loader.clone();
    null.evaluation = None;
    null.checkpoint = None;
    let Prepared { spec, order, .. } = prepare(&null, &nothing, run.means.clone());
    let silent = stormlp_model::event::Silent;
    let measured = emulate::run(&spec, order.as_ref(), None, &silent, &|_| {}, &session.stop)
        .map_err(|error| error.to_string())?;
    match &measured.ending {
        Ending::Complete => {}
        Ending::Stopped | Ending::Unfinished => return Ok(None),
        Ending::Failed { message, .. } => return Err(message.clone()),
    }
    let epochs = assemble::epochs(&null, &measured);
    let whole = epochs.iter().find(|epoch| epoch.is_whole(&null));
    Ok(whole.map(|epoch| epoch.measures))
}
