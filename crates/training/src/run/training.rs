//! Executes all runs of a plan and produces their report.

use std::sync::Arc;

use crate::plan::probe::Judge;
use crate::plan::train_plan::TrainPlan;
use crate::report::{AuPercent, RunReport, StepLatency, TrainReport, TrainResults};
use stormlp_core::group::{BarrierUs, GroupFacts};
use stormlp_core::histogram::LatencyHistogram;
use stormlp_core::note::Note;
use stormlp_core::others;
use stormlp_core::report::{Ending, Head, NamedEvidence, NamedSeries};
use stormlp_core::warning::{Warning, WarningKind};
use stormlp_dataset::inventory::facts::Inventory;
use stormlp_transfer::cufile::Driver;
use stormlp_transfer::telemetry::peak_rss_bytes;
use stormlp_transfer::{AcceleratorSet, Backing};

use super::error::TrainError;
use super::journal::SavedEpoch;
use super::measure::{self, Distributions, RunMeasured};
use super::together::Others;
use super::{calibrate, epochs, prepare, verdict, warnings};
use stormlp_hosts::multi_host::Hosts;
use stormlp_transfer::fallback::hold_cufile;
use stormlp_transfer::run_context::{RunContext, now};

/// Inputs that are known before a run begins.
pub struct RunInputs<'a> {
    /// The first fields of the report.
    pub head: Head,
    /// The plan to run.
    pub plan: TrainPlan,
    /// Warnings about the plan.
    pub warnings: Vec<Warning>,
    /// The files found; unused with null storage.
    pub inventory: &'a Inventory,
}

/// Creates the report of the measurements so far.
pub type PartialReport<'a> = &'a mut dyn FnMut() -> TrainReport;

/// Executes all runs of the plan from the first on. Calls `on_epoch` after each epoch; it may
/// request the report so far, which costs more time with every epoch. If AU was missed, this host's
/// ceiling is measured too.
///
/// # Errors
/// When the first run cannot begin: no such device, no threads, no buffers, or a path not available
/// on this machine. Later failures become the report's ending.
pub fn run(
    course: &RunInputs<'_>,
    surroundings: &RunContext<'_>,
    on_epoch: &mut dyn FnMut(SavedEpoch, PartialReport<'_>),
) -> Result<TrainReport, TrainError> {
    run_on_hosts(course, None, surroundings, on_epoch)
}

/// The same on several `hosts`, including this one: each ends with the report of all.
///
/// # Errors
/// As [`run`].
pub fn run_on_hosts(
    course: &RunInputs<'_>,
    hosts: Option<&Hosts>,
    surroundings: &RunContext<'_>,
    on_epoch: &mut dyn FnMut(SavedEpoch, PartialReport<'_>),
) -> Result<TrainReport, TrainError> {
    let plan = &course.plan;
    let (accelerators, _cufile) = devices(plan)?;
    let own = super::together::accelerators(hosts, plan);
    let order = prepare::order(surroundings.storage, plan, course.inventory, &own);
    let mut runs: Vec<RunMeasured> = Vec::new();
    let mut distributions = Distributions::default();
    let mut not_begun = None;
    for number in 1..=plan.runs {
        if plan.runs > 1 {
            let kind = if number == 1 { ", the warm-up" } else { "" };
            surroundings.note(format!("run {number} of {}{kind}", plan.runs));
        }
        let mut on_measured = |measured: &mut RunMeasured, so_far: &Distributions, now| {
            let Some(epoch) = SavedEpoch::last_of(number, measured, now) else {
                return;
            };
            on_epoch(epoch, &mut || {
                measure::sum_up(&mut measured.report, plan, false, measure::seconds(now));
                let all: Vec<&RunMeasured> = runs.iter().chain([&*measured]).collect();
                report(course, &all, so_far, hosts)
            });
        };
        // The first scored run starts from scratch: the warm-up does not count.
        let mut anew = (number == 2).then(Distributions::default);
        let into = anew.as_mut().unwrap_or(&mut distributions);
        match epochs::run(
            plan,
            &order,
            &accelerators,
            Others { hosts, judge: None },
            surroundings,
            into,
            &mut on_measured,
        ) {
            Ok(done) => {
                distributions = anew.unwrap_or(distributions);
                let complete = done.ending == Ending::Complete;
                runs.push(done);
                if !complete {
                    break;
                }
            }
            Err(error) if runs.is_empty() => return Err(error),
            Err(error) => {
                // Keep the measurements of the earlier runs.
                not_begun = Some(Ending::Failed(Note {
                    fact: format!("run {number} could not start: {error}"),
                    ..error.note(plan)
                }));
                break;
            }
        }
    }
    let mut report = report(course, &Vec::from_iter(&runs), &distributions, hosts);
    if let Some(ending) = not_begun {
        (report.ending, report.results.meets_threshold) = (ending, false);
    }
    for warning in surroundings.storage.warnings() {
        report.warn(warning);
    }
    report.results.steps = runs.into_iter().map(|run| run.steps).collect();
    find_ceiling(course, &accelerators, &mut report, surroundings);
    report.head.ended_at = Some(now());
    Ok(report)
}

/// Resources held for the duration of the runs of `plan`: the accelerators, and cuFile if required.
fn devices(plan: &TrainPlan) -> Result<(AcceleratorSet, Option<Arc<Driver>>), TrainError> {
    let accelerators = AcceleratorSet::open(&plan.transport)?;
    let (needed, required) = (plan.transport.path.needs_cufile(), plan.request.require.is_some());
    Ok((accelerators, hold_cufile(needed, required, plan.request.tune.cufile_stats)?))
}

/// The report of a run that has not begun, left behind by a run that is killed.
pub fn begun(course: &RunInputs<'_>) -> TrainReport {
    TrainReport {
        ending: Ending::Unfinished,
        ..report(course, &[], &Distributions::default(), None)
    }
}

/// Runs the beginning of the first epoch until `judge` has seen enough, and reports the
/// measurements so far. The report shows a stopped run, unless the epoch finished first.
///
/// # Errors
/// As [`run`].
pub fn probe(
    course: &RunInputs<'_>,
    judge: &mut Judge,
    surroundings: &RunContext<'_>,
) -> Result<TrainReport, TrainError> {
    let plan = &course.plan;
    let (accelerators, _cufile) = devices(plan)?;
    let own = 0..plan.accelerators;
    let order = prepare::order(surroundings.storage, plan, course.inventory, &own);
    let mut distributions = Distributions::default();
    let measured = epochs::run(
        plan,
        &order,
        &accelerators,
        Others { hosts: None, judge: Some(judge) },
        surroundings,
        &mut distributions,
        &mut |_, _, _| {},
    )?;
    Ok(report(course, &[&measured], &distributions, None))
}

/// The combined report of `runs`; the distributions cover the scored runs.
fn report(
    course: &RunInputs<'_>,
    runs: &[&RunMeasured],
    Distributions { steps, reads, registrations }: &Distributions,
    hosts: Option<&Hosts>,
) -> TrainReport {
    let plan = &course.plan;
    let reports: Vec<RunReport> = (1..)
        .zip(runs)
        .map(|(run, measured)| RunReport {
            run,
            warm_up: plan.runs > 1 && run == 1,
            ..measured.report.clone()
        })
        .collect();
    let last = runs.last();
    let ending = last.map_or(Ending::Stopped, |run| run.ending.clone());
    let mut results = TrainResults {
        peak_rss_bytes: peak_rss_bytes(),
        latency: StepLatency {
            read_us: reads.summary(),
            registration_us: registrations.summary(),
            ..measure::step_latency(steps)
        },
        devices: last.map_or_else(Vec::new, |run| run.devices.clone()),
        group: hosts.map(|hosts| group(hosts, &steps.between_hosts)),
        ..TrainResults::default()
    };
    measure::take_runs(&mut results, plan, reports, &ending);
    let mut report = TrainReport::new(course.head.clone(), plan.clone(), results);
    report.ending = ending;
    report.histograms = [
        steps.fetch.named("fetch_wait"),
        steps.barrier.named("barrier_wait"),
        steps.overshoot.named("compute_overshoot"),
        reads.named("read"),
    ]
    .into_iter()
    .flatten()
    .collect();
    report.series = series(runs);
    explain(&mut report, None);
    report.evidence = evidence(runs).into_iter().collect();
    report.warnings.clone_from(&course.warnings);
    let pages: Vec<Backing> = runs.iter().map(|run| run.backing).collect();
    let observed = warnings::of_run(&report, &pages);
    report.warnings.extend(observed);
    report
}

/// How the hosts found each other, and the cost of the barriers `between_hosts`.
fn group(hosts: &Hosts, between_hosts: &LatencyHistogram) -> GroupFacts {
    let us = |share: f64| between_hosts.quantile_ns(share) as f64 / 1e3;
    let own_barrier_us =
        (!between_hosts.is_empty()).then(|| BarrierUs { p50: us(0.50), p99: us(0.99) });
    GroupFacts { own_barrier_us, ..hosts.facts.clone() }
}

/// The evidence of the last run, with the requests of all.
fn evidence(runs: &[&RunMeasured]) -> Option<NamedEvidence> {
    let last = runs.last()?.evidence.clone()?;
    let first_byte = last.first_byte().cloned();
    let mut evidence = last.with_stores_of(runs.iter().filter_map(|run| run.evidence.as_ref()));
    if let Some(store) = &mut evidence.object_store {
        store.first_byte = first_byte;
    }
    Some(NamedEvidence { name: "reads".to_string(), evidence })
}

/// The verdict with the limits in force, and with this host's `ceiling` if it was measured.
fn explain(report: &mut TrainReport, ceiling: Option<&AuPercent>) {
    let limits = others::limits_in_force(report.series.iter().map(|part| &part.series));
    let results = &report.results;
    let epochs = results.scored_epochs();
    let found = verdict::verdict(&report.plan, &epochs, &results.mean, ceiling, limits.as_ref());
    report.results.verdict = found;
}

fn series(runs: &[&RunMeasured]) -> Vec<NamedSeries> {
    (1..)
        .zip(runs)
        .map(|(number, run)| NamedSeries {
            name: format!("run {number}"),
            series: run.series.clone(),
        })
        .collect()
}

/// Measures this host's ceiling if AU was missed.
fn find_ceiling(
    course: &RunInputs<'_>,
    accelerators: &AcceleratorSet,
    report: &mut TrainReport,
    surroundings: &RunContext<'_>,
) {
    let plan = &course.plan;
    let wanted = !plan.is_null()
        && report.ending == Ending::Complete
        // It would cover only one of several hosts.
        && plan.hosts.is_empty()
        && !report.results.epochs.is_empty()
        && !report.results.meets_threshold
        && !surroundings.stop.is_stopped();
    if !wanted {
        return;
    }
    surroundings.note("AU missed its target: measuring the upper limit of this host, about 3 s");
    match calibrate::ceiling(plan, &course.head.host, accelerators, surroundings) {
        Ok(Some(mean)) => {
            report.results.calibration = Some(mean);
            explain(report, Some(&mean.au_percent));
        }
        Ok(None) => {}
        Err(why) => report.warnings.push(Warning::new(
            WarningKind::HarnessBound,
            format!("the upper limit of this host was not measured: {why}"),
            "run the workload with --path null",
        )),
    }
}
