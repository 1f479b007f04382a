//! `train --find-max`: the search chooses the next count, the usual resolver makes its plan, the
//! emulator runs it, and the search is updated.

mod dataset;
mod resume;

use std::path::Path;
use std::time::Instant;

use stormlp_core::event::{Observer, Silent};
use stormlp_core::facts::HostFacts;
use stormlp_core::failure::{Failure, Problems};
use stormlp_core::largest::{CONFIRM_RUNS, RunKind, Search, outlook};
use stormlp_core::report::{Ending, Head};
use stormlp_core::shell::shell_word;
use stormlp_core::units::counted;
use stormlp_core::warning::Warning;
use stormlp_dataset::inventory::facts::Inventory;
use stormlp_hosts::largest::{Attempt, CountTrials, Trials, find_largest, report, say};
use stormlp_hosts::saver::Saver;
use stormlp_hosts::session::Session;
use stormlp_transfer::run_context::RunContext;
use stormlp_transfer::storage::FolderLock;

use super::data::MissingDataset;
use super::start::{Prepared, lock};
use super::training::{self, RunInputs};
use crate::plan::distribution::Distribution;
use crate::plan::find_max::{FindMax, Limit, READ_SECONDS, Tried, expected_seconds};
use crate::plan::metrics;
use crate::plan::probe::{Judge, StopCondition};
use crate::plan::request::TrainRequest;
use crate::plan::resolve::Resolved;
use crate::plan::train_plan::TrainPlan;
use crate::plan::workload::Workload;
use crate::report::outcome::kept;
use crate::report::{TrainReport, TrainResults, meets_threshold};

pub use resume::SavedSearch;

/// Concurrent reads during it.
const READS: usize = 16;
/// Upper limit of the search.
const MOST_ACCELERATORS: u32 = 1_000_000;

/// A search for the largest number of accelerators, and everything its runs have in common.
pub struct AcceleratorFinder<'a> {
    session: &'a Session,
    /// As requested, regardless of the existing dataset.
    as_asked: Workload,
    workload: Workload,
    request: TrainRequest,
    facts: HostFacts,
    inventory: Inventory,
    /// The dataset to generate first.
    to_make: Option<MissingDataset>,
    warnings: Vec<Warning>,
    head: Head,
    threshold_percent: f64,
    trials: Trials<Tried, TrainReport>,
    /// The plan for one accelerator on the dataset that was there.
    first: TrainPlan,
    lock: Option<FolderLock>,
}

impl<'a> AcceleratorFinder<'a> {
    /// A search that begins with `one` accelerator; `as_asked` is its workload, whatever dataset
    /// there is.
    pub fn new(as_asked: Workload, one: Prepared, head: Head, session: &'a Session) -> Self {
        let Prepared { workload, facts, data, plan, .. } = one;
        let confirm = plan.request.confirm.unwrap_or(CONFIRM_RUNS);
        let mut warnings = data.warnings;
        warnings.extend(session.storage.impairments());
        Self {
            session,
            as_asked,
            workload,
            request: plan.request.clone(),
            facts,
            inventory: data.inventory,
            to_make: data.to_make,
            warnings,
            head,
            threshold_percent: plan.metric.threshold_percent,
            trials: Trials::new(1, MOST_ACCELERATORS, confirm),
            first: plan,
            lock: None,
        }
    }
}

impl AcceleratorFinder<'_> {
    /// Searches until the answer is known or the user stops it, reusing the runs of a `saved`
    /// search.
    ///
    /// # Errors
    /// If the saved search is of other work, and the errors of a run.
    pub fn search(
        &mut self,
        saved: Option<SavedSearch>,
        saver: &mut Saver,
    ) -> Result<TrainReport, Failure> {
        if let Some(saved) = saved {
            self.take(saved)?;
            saver.watch();
        } else {
            let begun = report(self, Ending::Unfinished);
            saver.begin(&begun)?;
        }
        if self.first.transport.path.needs_cufile() {
            // A later trial may have accelerators on more of the devices than the first.
            let devices = self.request.device.as_ref().map_or_else(
                || self.first.transport.accelerators().collect(),
                |devices| devices.on(&self.facts),
            );
            saver.prepare_cufile(self.request.require.is_some(), devices, &self.facts);
        }
        let is_new = self.trials.find.tried.is_empty();
        if is_new {
            let time = |kind| expected_seconds(&self.first, kind);
            let takes = outlook(self.trials.find.confirm_runs, time);
            self.say(format_args!("the search takes {takes}"));
        }
        if let Some(dataset) = &self.to_make {
            self.inventory = dataset.make(self.session)?;
            self.trials.begun = Instant::now();
        }
        self.lock = lock(&*self.session.storage, &self.first)?;
        if is_new {
            self.read_first()?;
        }
        let session = self.session;
        find_largest(self, session, saver)
    }

    /// The exit code of a search that ended with `report`, which is at `saved`.
    ///
    /// # Errors
    /// With exit code 6 if storage does not even feed one accelerator, 5 if storage failed, 130
    /// if the user stopped it.
    pub fn ended(&self, report: &TrainReport, saved: Option<&Path>) -> Result<(), Failure> {
        let find = &self.trials.find;
        match &report.ending {
            Ending::Stopped | Ending::Unfinished => {
                let known = find.known();
                let failure = Failure::stopped(format!(
                    "stopped by the user; accelerators: {known}; {}",
                    kept(saved)
                ));
                let Some(path) = saved else {
                    return Err(failure);
                };
                let command = Session::command_line().without_option("--resume");
                let path = shell_word(&path.to_string_lossy());
                Err(failure.with_help(format!("`{command} --resume {path}` continues")))
            }
            Ending::Failed(note) => Err(Failure::of_run(note, &kept(saved))),
            // A limit of this host is no verdict on storage.
            Ending::Complete if find.largest > 0 || find.is_lower_bound => Ok(()),
            Ending::Complete => {
                let au = find
                    .answer()
                    .map_or(String::new(), |one| format!(": AU {:.1} %", one.au_percent));
                Err(Failure::missed_target(format!(
                    "not even one accelerator reaches the {:.1} % that {} requires{au}",
                    report.plan.metric.threshold_percent, report.plan.workload
                )))
            }
        }
    }

    /// Reuses the runs of a saved search.
    fn take(&mut self, saved: SavedSearch) -> Result<(), Failure> {
        let now = self.plan_as_it_is(saved.report.plan.accelerators);
        saved.check(&self.facts, now.as_ref().unwrap_or(&self.first), &self.warnings)?;
        let SavedSearch { report, find, .. } = saved;
        self.head.started_at.clone_from(&report.head.started_at);
        self.trials.before_seconds = find.search_seconds;
        self.trials.find = FindMax {
            confirm_runs: self.trials.find.confirm_runs,
            // The limit of the search will be found again.
            limited_by: None,
            limit: None,
            ..find
        };
        for tried in &self.trials.find.tried {
            self.trials.search.tell(tried.trial(self.threshold_percent));
        }
        self.trials.find.conclude(&self.trials.search);
        if !report.results.epochs.is_empty() {
            self.trials.full.push((report.plan.accelerators, report));
        }
        Ok(())
    }

    fn say(&self, line: impl std::fmt::Display) {
        say(self.session, line);
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
        let what = if plan.is_null() { "loaders deliver" } else { "storage delivers" };
        self.say(format_args!("loading for {READ_SECONDS} s without compute, to see what {what}"));
        let (loaders, batch) = (plan.accelerators, f64::from(plan.batch_size));
        let mut judge = Judge::of(&plan, StopCondition::Seconds(READ_SECONDS));
        self.run_probe(plan, &mut judge)?;
        let Some(rate) = judge.samples_per_second() else {
            return Ok(());
        };
        let fed = rate * compute / batch * 100.0 / self.threshold_percent.max(1.0);
        let accelerators = (fed as u32).clamp(1, self.trials.search.most());
        self.say(format_args!(
            "it delivers {rate:.1} samples/s to {}, enough for about {}",
            counted(u64::from(loaders), "loader"),
            counted(u64::from(accelerators), "accelerator")
        ));
        let confirm = self.trials.find.confirm_runs;
        self.trials.search = Search::new(accelerators, MOST_ACCELERATORS, confirm);
        Ok(())
    }

    /// The first part of a run of `plan`; `None` if the user stopped it before any result.
    fn probe(&mut self, plan: TrainPlan) -> Result<Option<Tried>, Failure> {
        let threshold = self.threshold_percent / 100.0;
        let mut judge = Judge::of(&plan, StopCondition::Verdict { threshold });
        let plan = beginning(plan);
        let steps = plan.steps_per_epoch;
        let rule = metrics::Rule::of(&plan);
        let report = self.run_probe(plan, &mut judge)?;
        let forecast = judge.forecast();
        let lives_on_read_ahead =
            !self.request.is_null() && judge.may_live_on_read_ahead(threshold);
        if self.session.stop.is_stopped() && !forecast.is_some_and(|forecast| forecast.certain) {
            return Ok(None);
        }
        let mut tried = Tried {
            meets: report.results.mean.au_percent.profile >= self.threshold_percent,
            au_spread: None,
            steps,
            ..tried(&report, RunKind::Probe)
        };
        if let Some(forecast) = forecast.filter(|_| report.ending != Ending::Complete) {
            tried.au_percent = forecast.au_percent;
            tried.au_spread = forecast.au_error;
            tried.samples_per_second = forecast.samples_per_second;
            tried.mib_per_second = metrics::mib(&rule, forecast.samples_per_second);
            tried.meets = forecast.passes;
            tried.certain = forecast.certain;
            tried.steps = forecast.steps;
        }
        tried.prefetch_bound = tried.meets && lives_on_read_ahead;
        tried.certain &= !tried.prefetch_bound;
        Ok(Some(tried))
    }

    fn run_probe(&self, plan: TrainPlan, judge: &mut Judge) -> Result<TrainReport, Failure> {
        let course = self.course(plan);
        let surroundings = self.context(&Silent);
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
        let surroundings = self.context(&progress);
        let report = training::run(&course, &surroundings, &mut |_, _| {})
            .map_err(|error| error.not_started(&course.plan))?;
        if report.ending != Ending::Complete {
            return Ok(Err(report.ending));
        }
        let mut tried = tried(&report, RunKind::Full);
        // A full epoch is no more conclusive than a probe of it that depended on read-ahead.
        let mut probes = self.trials.find.tried.iter();
        tried.prefetch_bound =
            tried.meets && probes.any(|one| one.accelerators == accelerators && one.prefetch_bound);
        tried.certain = !tried.prefetch_bound;
        self.trials.full.push((accelerators, report));
        Ok(Ok(tried))
    }

    fn context<'s>(&'s self, observer: &'s dyn Observer) -> RunContext<'s> {
        RunContext { storage: &self.session.storage, observer, stop: &self.session.stop }
    }

    fn course(&self, mut plan: TrainPlan) -> RunInputs<'_> {
        plan.data.take_sizes(&self.inventory);
        RunInputs {
            head: self.head.clone(),
            plan,
            warnings: self.warnings.clone(),
            inventory: &self.inventory,
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
}

impl CountTrials for AcceleratorFinder<'_> {
    type Plan = TrainPlan;
    type Results = TrainResults;
    type Tried = Tried;

    fn trials(&mut self) -> &mut Trials<Tried, TrainReport> {
        &mut self.trials
    }

    fn attempt(&mut self, count: u32, kind: RunKind) -> Result<Attempt<Tried>, Failure> {
        // One without a plan limits the search.
        let Some(plan) = self.plan(count)? else {
            return Ok(Attempt::Impossible);
        };
        let begun = Instant::now();
        let tried = match kind {
            RunKind::Probe => self.probe(plan)?.ok_or(Ending::Stopped),
            RunKind::Full => self.full_run(plan)?,
        };
        Ok(match tried {
            Ok(tried) => {
                let tried = Tried { seconds: begun.elapsed().as_secs_f64(), ..tried };
                let trial = tried.trial(self.threshold_percent);
                Attempt::Ran(tried, trial)
            }
            Err(ending) => Attempt::Ended(ending),
        })
    }

    fn expected_seconds(&self, kind: RunKind) -> f64 {
        expected_seconds(&self.first, kind)
    }

    fn close(&mut self, ended: Ending) -> Ending {
        let find = &mut self.trials.find;
        if find.limited_by.is_none() && ended == Ending::Complete {
            find.limited_by = Some(Limit::Nothing);
        }
        self.tell_of_read_ahead();
        ended
    }

    fn report(&self, count: u32, full: Option<TrainReport>, ending: Ending) -> TrainReport {
        let mut report = full.unwrap_or_else(|| {
            let plan = self.plan_as_it_is(count).unwrap_or_else(|| self.first.clone());
            training::begun(&self.course(plan))
        });
        self.warnings.iter().cloned().for_each(|warning| report.warn(warning));
        report.ending = ending;
        report.results.find_max = Some(self.trials.find.clone());
        // The run was complete, but the search may not be.
        report.results.meets_threshold = meets_threshold(&report);
        report
    }
}

/// The first epoch of a run, without the work between epochs.
fn beginning(plan: TrainPlan) -> TrainPlan {
    TrainPlan { epochs: 1, runs: 1, checkpoint: None, ..plan }
}

/// The measurement of `report`, with a certain verdict.
fn tried(report: &TrainReport, kind: RunKind) -> Tried {
    let results = &report.results;
    let epochs = results.scored_epochs();
    Tried {
        accelerators: report.plan.accelerators,
        kind,
        au_percent: results.mean.au_percent.profile,
        au_spread: (epochs.len() > 1).then_some(results.stdev.au_percent),
        samples_per_second: results.mean.samples_per_second,
        mib_per_second: results.mean.mib_per_second,
        meets: results.meets_threshold,
        certain: true,
        prefetch_bound: false,
        steps: epochs.iter().map(|epoch| epoch.fewest_steps()).sum(),
        seconds: 0.0,
        limited_by: results.verdict.limited_by,
    }
}
