//! `stormlp train --find-max`: the search chooses the next count, the usual resolver makes its
//! plan, the emulator runs it, and the search is updated.

mod dataset;
mod messages;
mod resume;

use std::path::Path;
use std::time::Instant;

use stormlp_core::event::Silent;
use stormlp_core::facts::HostFacts;
use stormlp_core::report::{Ending, Head, ReportKind};
use stormlp_core::units::counted;
use stormlp_core::warning::Warning;
use stormlp_dataset::inventory::facts::Inventory;
use stormlp_matrix::show::Columns;
use stormlp_training::plan::distribution::Distribution;
use stormlp_training::plan::find_max::{FindMax, Limit, StorageEstimate, Tried};
use stormlp_training::plan::metrics;
use stormlp_training::plan::probe::{Enough, Judge};
use stormlp_training::plan::request::TrainRequest;
use stormlp_training::plan::resolve::Resolved;
use stormlp_training::plan::search::{RunKind, Search};
use stormlp_training::plan::train_plan::TrainPlan;
use stormlp_training::plan::workload::Workload;
use stormlp_training::report::TrainReport;
use stormlp_training::run as training;
use stormlp_training::run::Course;
use stormlp_transfer::storage::FolderLock;
use stormlp_transfer::surroundings::Surroundings;

use super::{Args, check_phases, facts, head, lock};
use crate::commands::deliver::Delivery;
use crate::output;
use stormlp_core::failure::{Failure, Problems};
use stormlp_hosts::savers::{Savers, copy_of};
use stormlp_hosts::session::Session;
use stormlp_training::run::data::{self, Data};

/// Duration of the initial read that estimates the storage bandwidth.
const READ_SECONDS: f64 = 2.0;
/// Concurrent reads during it.
const READS: usize = 16;
/// Upper limit of the search.
const MOST_ACCELERATORS: u32 = 1_000_000;

/// A search for the largest number of accelerators, and everything its runs have in common.
struct AcceleratorFinder<'a> {
    session: &'a Session,
    /// As requested, regardless of the existing dataset.
    as_asked: Workload,
    workload: Workload,
    request: TrainRequest,
    facts: HostFacts,
    inventory: Inventory,
    warnings: Vec<Warning>,
    head: Head,
    threshold_percent: f64,
    search: Search,
    find: FindMax,
    /// The reports of full runs.
    full: Vec<TrainReport>,
    /// The plan for one accelerator on the dataset that was there.
    first: TrainPlan,
    lock: Option<FolderLock>,
    begun: Instant,
    /// Seconds spent on the search before it was resumed.
    before_seconds: f64,
}

/// Runs the search.
///
/// # Errors
/// Those of a run, and with exit code 6 if not even one accelerator meets the threshold.
pub(super) fn run(args: Args, session: &Session) -> Result<(), Failure> {
    let as_asked = super::args::workload(&args.request)?;
    check_phases(&as_asked, &args.request.workload)?;
    let mut request = super::args::request(&args, &as_asked)?;
    let facts = facts(&request, session)?;
    let data = if request.is_null() {
        Data::none(&as_asked)
    } else {
        data::find(&as_asked, &request, &facts, session)?
    };
    let mut workload = as_asked.clone();
    workload.dataset = data.spec;
    // A probe that reads data cached by the previous one would not measure the storage.
    request.cold |= !request.is_null();
    let plan = TrainPlan::resolve(&workload, &request, &facts, &data.inventory)?.plan;
    if plan.compute.mean_seconds() <= 0.0 {
        return Err(Failure::usage("--find-max has no AU to search by: no compute is emulated"));
    }
    let delivery = args.output.open(ReportKind::Train, Columns::Standard)?;
    let saved = request.resume.as_deref().map(resume::read).transpose()?;
    let mut savers = match &saved {
        Some(saved) => Savers::resume_alone(&saved.path),
        None => {
            let name = format!("{}-find-max", plan.workload);
            delivery.savers(&name, &session.party(false)?, session)?
        }
    };
    let confirm = request.confirm.unwrap_or(1);
    let mut warnings = data.warnings;
    warnings.extend(session.storage.warnings());
    let mut finder = AcceleratorFinder {
        session,
        head: head(&plan, facts.clone(), &delivery, session),
        threshold_percent: plan.metric.threshold_percent,
        as_asked,
        workload,
        request,
        facts,
        inventory: data.inventory,
        warnings,
        search: Search::new(1, MOST_ACCELERATORS, confirm),
        find: FindMax::begun(confirm),
        full: Vec::new(),
        first: plan,
        lock: None,
        begun: Instant::now(),
        before_seconds: 0.0,
    };
    if let Some(saved) = saved {
        finder.take(saved)?;
    } else {
        let begun = finder.report(Ending::Unfinished);
        savers.begin(&begun, |of| copy_of(&begun, of))?;
    }
    if finder.first.transport.path.needs_cufile() {
        savers.prepare_cufile(finder.first.request.require_gds);
    }
    if let Some(dataset) = &data.to_make {
        finder.inventory = dataset.make(&finder.inventory, session)?;
        finder.begun = Instant::now();
    }
    finder.lock = lock(&finder.first)?;
    if finder.find.estimate.is_none() && finder.search.trials().is_empty() {
        finder.read_first()?;
    }
    let ending = finder.search(&mut savers)?;
    finder.deliver(ending, savers, &delivery)
}

impl AcceleratorFinder<'_> {
    /// Searches until the answer is known or the user stops it.
    ///
    /// # Errors
    /// Those of a run.
    fn search(&mut self, savers: &mut Savers) -> Result<Ending, Failure> {
        while !self.session.stop.is_stopped() {
            let Some((count, kind)) = self.search.next() else {
                return Ok(Ending::Complete);
            };
            // One without a plan limits the search.
            let Some(plan) = self.plan(count)? else {
                continue;
            };
            let begun = Instant::now();
            let tried = match kind {
                RunKind::Probe => self.probe(plan)?.ok_or(Ending::Stopped),
                RunKind::Full => self.full_run(plan)?,
            };
            let mut tried = match tried {
                Ok(tried) => tried,
                Err(ending) => return Ok(ending),
            };
            tried.seconds = begun.elapsed().as_secs_f64();
            self.search.tell(tried.trial(self.threshold_percent));
            self.find.tried.push(tried.clone());
            self.conclude();
            self.say(self.line_of(&tried));
            savers.unit(|| self.report(Ending::Unfinished));
        }
        Ok(Ending::Stopped)
    }

    /// The report of the full run at the answer, or of no run yet, including the search.
    fn report(&self, ending: Ending) -> TrainReport {
        let shown = self.find.largest_accelerators.max(1);
        let of_answer = |report: &&TrainReport| report.plan.accelerators == shown;
        let answer = self.full.iter().rev().find(of_answer).cloned();
        let mut report = answer.unwrap_or_else(|| {
            let plan = self.plan_as_it_is(shown).unwrap_or_else(|| self.first.clone());
            training::begun(&self.course(plan))
        });
        self.warnings.iter().cloned().for_each(|warning| report.warn(warning));
        report.ending = ending;
        report.results.find_max = Some(self.find.clone());
        report
    }

    /// Updates the answer from the runs so far.
    fn conclude(&mut self) {
        self.find.conclude(&self.search);
        self.find.search_seconds = self.before_seconds + self.begun.elapsed().as_secs_f64();
    }

    fn say(&self, line: impl std::fmt::Display) {
        if !self.session.quiet {
            output::say(line);
        }
    }

    /// Reads briefly without compute; the bandwidth gives the starting point of the search.
    fn read_first(&mut self) -> Result<(), Failure> {
        let Some(one) = self.plan(1)? else {
            return Ok(());
        };
        let wanted = READS.div_ceil(one.loader.concurrent_reads().max(1)) as u32;
        let possible = (1..=wanted.max(1)).rev();
        let mut plans = possible.filter_map(|count| self.plan_as_it_is(count));
        let plan = beginning(plans.next().unwrap_or(one));
        let compute = plan.compute.mean_seconds();
        let plan = TrainPlan {
            compute: Distribution::ZERO,
            preprocess: Distribution::ZERO,
            client: None,
            ..plan
        };
        self.say(format_args!(
            "reading for {READ_SECONDS} s without compute, to see what storage delivers"
        ));
        let (loaders, batch) = (plan.accelerators, f64::from(plan.batch_size));
        let begun = Instant::now();
        let mut judge = Judge::of(&plan, Enough::Seconds(READ_SECONDS));
        self.run_probe(plan, &mut judge)?;
        let Some(rate) = judge.samples_per_second() else {
            return Ok(());
        };
        let fed = rate * compute / batch * 100.0 / self.threshold_percent.max(1.0);
        let accelerators = (fed as u32).clamp(1, self.search.most());
        self.say(format_args!(
            "it delivers {rate:.1} samples/s to {}, enough for about {}",
            counted(u64::from(loaders), "loader"),
            counted(u64::from(accelerators), "accelerator")
        ));
        self.find.estimate = Some(StorageEstimate {
            loaders,
            samples_per_second: rate,
            seconds: begun.elapsed().as_secs_f64(),
            accelerators,
        });
        self.begin_at(accelerators);
        Ok(())
    }

    /// Starts the search at the estimated capacity of the storage.
    fn begin_at(&mut self, accelerators: u32) {
        let most = self.search.most();
        self.search = Search::new(accelerators, most, self.find.confirm_runs);
    }

    /// The first part of a run of `plan`; `None` if the user stopped it before any result.
    fn probe(&mut self, plan: TrainPlan) -> Result<Option<Tried>, Failure> {
        let threshold = self.threshold_percent / 100.0;
        let mut judge = Judge::of(&plan, Enough::Verdict { threshold });
        let plan = beginning(plan);
        let (accelerators, steps) = (plan.accelerators, plan.steps_per_epoch);
        let rule = metrics::Rule::of(&plan);
        let report = self.run_probe(plan, &mut judge)?;
        let forecast = judge.forecast();
        let lives_on_read_ahead =
            !self.request.is_null() && judge.may_live_on_read_ahead(threshold);
        if self.session.stop.is_stopped() && !forecast.is_some_and(|forecast| forecast.certain) {
            return Ok(None);
        }
        let mean = &report.results.mean;
        let mut tried = Tried {
            accelerators,
            kind: RunKind::Probe,
            au_percent: 0.0,
            au_spread: None,
            samples_per_second: 0.0,
            mib_per_second: 0.0,
            meets: mean.au_percent.profile >= self.threshold_percent,
            certain: true,
            rests_on_read_ahead: false,
            steps,
            seconds: 0.0,
            bound: report.results.verdict.bound,
        };
        tried.measured(mean);
        if let Some(forecast) = forecast.filter(|_| report.ending != Ending::Complete) {
            tried.au_percent = forecast.au_percent;
            tried.au_spread = forecast.au_error;
            tried.samples_per_second = forecast.samples_per_second;
            tried.mib_per_second = metrics::mib(&rule, forecast.samples_per_second);
            tried.meets = forecast.passes;
            tried.certain = forecast.certain;
            tried.steps = forecast.steps;
        }
        tried.rests_on_read_ahead = tried.meets && lives_on_read_ahead;
        tried.certain &= !tried.rests_on_read_ahead;
        Ok(Some(tried))
    }

    fn run_probe(&self, plan: TrainPlan, judge: &mut Judge) -> Result<TrainReport, Failure> {
        let course = self.course(plan);
        let surroundings = Surroundings {
            storage: &self.session.storage,
            observer: &Silent,
            stop: &self.session.stop,
        };
        let report = training::probe(&course, judge, &surroundings)
            .map_err(|error| error.not_started(&course.plan))?;
        match &report.ending {
            Ending::Failed(note) => Err(Failure::of_run(note, "")),
            _ => Ok(report),
        }
    }

    /// A complete run of `plan`, or how it ended otherwise.
    fn full_run(&mut self, plan: TrainPlan) -> Result<Result<Tried, Ending>, Failure> {
        let accelerators = plan.accelerators;
        self.say(format_args!("a full run of {}", counted(u64::from(accelerators), "accelerator")));
        let course = self.course(plan);
        let progress = self.session.progress();
        let surroundings = Surroundings {
            storage: &self.session.storage,
            observer: &progress,
            stop: &self.session.stop,
        };
        let report = training::run(&course, &surroundings, &mut |_, _| {})
            .map_err(|error| error.not_started(&course.plan))?;
        if report.ending != Ending::Complete {
            return Ok(Err(report.ending));
        }
        let results = &report.results;
        let epochs = results.scored_epochs();
        // A full epoch is no more conclusive than a probe of it that depended on read-ahead.
        let mut probes = self.find.tried.iter();
        let rests_on_read_ahead = results.meets_threshold
            && probes.any(|tried| tried.accelerators == accelerators && tried.rests_on_read_ahead);
        let mut tried = Tried {
            accelerators,
            kind: RunKind::Full,
            au_percent: 0.0,
            au_spread: (epochs.len() > 1).then_some(results.stdev.au_percent),
            samples_per_second: 0.0,
            mib_per_second: 0.0,
            meets: results.meets_threshold,
            certain: !rests_on_read_ahead,
            rests_on_read_ahead,
            steps: epochs.iter().map(|epoch| epoch.fewest_steps()).sum(),
            seconds: 0.0,
            bound: results.verdict.bound,
        };
        tried.measured(&results.mean);
        self.full.push(report);
        Ok(Ok(tried))
    }

    fn course(&self, mut plan: TrainPlan) -> Course<'_> {
        plan.data.take_sizes(&self.inventory);
        Course {
            head: self.head.clone(),
            plan,
            warnings: self.warnings.clone(),
            inventory: &self.inventory,
            first_run: 1,
        }
    }

    fn resolve(&self, count: u32) -> Result<Resolved, Problems> {
        let request = TrainRequest { accelerators: Some(count), ..self.request.clone() };
        TrainPlan::resolve(&self.workload, &request, &self.facts, &self.inventory)
    }

    /// The plan for `count` accelerators on the existing dataset, if it is valid.
    fn plan_as_it_is(&self, count: u32) -> Option<TrainPlan> {
        self.resolve(count).ok().map(|resolved| resolved.plan)
    }

    /// Saves and prints the result of the search.
    fn deliver(
        mut self,
        ending: Ending,
        savers: Savers,
        delivery: &Delivery,
    ) -> Result<(), Failure> {
        self.conclude();
        if self.find.limited_by.is_none() && ending == Ending::Complete {
            self.find.limited_by = Some(Limit::Nothing);
        }
        self.tell_of_read_ahead();
        let mut report = self.report(ending);
        report.head.ended_at = Some(Session::now());
        let (session, find) = (self.session, &self.find);
        let outcome = |saved: Option<&Path>| messages::ended(&report, find, saved);
        delivery.finish(savers, (&report, |of| copy_of(&report, of)), session, outcome)
    }
}

/// The first epoch of a run, without the work between epochs.
fn beginning(plan: TrainPlan) -> TrainPlan {
    TrainPlan { epochs: 1, runs: 1, evaluation: None, checkpoint: None, ..plan }
}
