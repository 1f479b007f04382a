//! `stormlp checkpoint --find-knee`: the search chooses the next number of streams, the usual
//! resolver makes the plan, the emulator runs it, and the search is updated.

use std::path::Path;
use std::time::Instant;

use stormlp_checkpoint::plan::{
    CheckpointFacts, CheckpointPlan, CheckpointRequest, FindStreams, KNEE_STREAMS, ScaleChoice,
    StreamKnee,
};
use stormlp_checkpoint::report::verdict::verdict;
use stormlp_checkpoint::report::{CheckpointReport, CheckpointResults, tried_streams};
use stormlp_checkpoint::run::CheckpointError;
use stormlp_checkpoint::run::agreement::{self, planned};
use stormlp_checkpoint::run::{Look, run_in_company, scan};
use stormlp_checkpoint::show::{mark, opening};
use stormlp_core::event::Silent;
use stormlp_core::facts::HostFacts;
use stormlp_core::report::{Ending, ReportKind};
use stormlp_core::stats::mean;
use stormlp_core::units::{counted, format_duration};
use stormlp_core::warning::WarningKind;
use stormlp_hosts::company::{Company, Hosts};
use stormlp_matrix::show::Columns;
use stormlp_show::text;
use stormlp_transfer::surroundings::Surroundings;

use super::args::Args;
use crate::commands::deliver::Delivery;
use crate::output;
use stormlp_core::failure::Failure;
use stormlp_hosts::fate::{blame_launcher, shared_fate};
use stormlp_hosts::party::Party;
use stormlp_hosts::savers::{Savers, copy_of};
use stormlp_hosts::session::Session;

/// Default number of saves, and of restores, per run.
const UNITS: u32 = 2;

/// A search for the fewest streams.
struct StreamFinder<'a> {
    request: CheckpointRequest,
    host: HostFacts,
    /// Measured write rate of the storage before the first run: all runs have the same size.
    trial_bytes_per_second: Option<f64>,
    party: &'a Party,
    /// The other hosts, if any.
    others: Option<Hosts>,
    session: &'a Session,
    delivery: &'a Delivery,
    /// The plan of the first run.
    first: CheckpointPlan,
    find: FindStreams,
    /// The last report for each number of streams.
    reports: Vec<(u32, CheckpointReport)>,
}

/// Prepares the first run of a search, with the saves and restores of every run.
pub(super) fn first_run(request: &mut CheckpointRequest) {
    request.writes = request.writes.or(Some(UNITS));
    request.reads = request.reads.or(Some(UNITS));
    request.pause_seconds = request.pause_seconds.or(Some(0.0));
    // Data cached by the previous run would hide the speed of storage.
    request.cold |= request.reads != Some(0);
    request.streams = Some(1);
}

/// Runs the search.
///
/// # Errors
/// Those of a run.
pub(super) fn run(
    args: Args,
    mut request: CheckpointRequest,
    host: HostFacts,
    party: &Party,
    session: &Session,
) -> Result<(), Failure> {
    first_run(&mut request);
    let delivery = args.output.open(ReportKind::Checkpoint, Columns::Standard);
    let delivery = party.agree(delivery)?;
    if !party.is_alone() {
        agreement::look(&request, &host, party, session)?;
    }
    let facts = agreement::tried(&request, party, session)?;
    let first = agreement::plan(&request, &host, &facts, (party, session))?;
    request.scale = Some(ScaleChoice::Factor(first.scaling.factor));
    let streams = possible(&request, &host, &facts, (party, session), &first)?;
    let mut savers = delivery.savers(&format!("{}-find-knee", first.model), party, session)?;
    let others = party.hosts(savers.parts_folder())?;
    let mut finder = StreamFinder {
        request,
        host,
        trial_bytes_per_second: facts.trial_bytes_per_second,
        party,
        others,
        session,
        delivery: &delivery,
        first,
        find: FindStreams::begun(streams),
        reports: Vec::new(),
    };
    if !session.quiet {
        output::say_page(&text::render(&opening(&finder.first), output::width()));
    }
    let begun = finder.report(Ending::Unfinished);
    savers.begin(&begun, |of| copy_of(&begun, of))?;
    let ended = finder.search(&mut savers)?;
    finder.deliver(ended, savers)
}

/// The numbers of streams that keep the size of a run; one host computes them for all.
fn possible(
    request: &CheckpointRequest,
    host: &HostFacts,
    facts: &CheckpointFacts,
    (party, session): (&Party, &Session),
    first: &CheckpointPlan,
) -> Result<Vec<u32>, Failure> {
    let possible = |streams: &u32| {
        let request = CheckpointRequest { streams: Some(*streams), ..request.clone() };
        planned(&request, host, facts).is_ok_and(|plan| plan.total_bytes == first.total_bytes)
    };
    let find = || -> Vec<u32> { KNEE_STREAMS.into_iter().filter(possible).collect() };
    if party.is_alone() { Ok(find()) } else { party.from_first(&session.group.leads().then(find)) }
}

impl StreamFinder<'_> {
    /// Searches until the answer is known or the user stops it.
    ///
    /// # Errors
    /// Those of a run.
    fn search(&mut self, savers: &mut Savers) -> Result<Ending, Failure> {
        loop {
            let streams = match self.next()? {
                Ok(streams) => streams,
                Err(ending) => return Ok(ending),
            };
            let plan = self.plan(streams)?;
            let begun = Instant::now();
            let report = self.one(&plan)?;
            if report.ending != Ending::Complete {
                return Ok(report.ending);
            }
            self.find.take(tried_streams(&report, streams, begun.elapsed().as_secs_f64()));
            self.reports.retain(|(known, _)| *known != streams);
            self.reports.push((streams, report));
            if !self.session.quiet {
                self.session.say(self.line());
            }
            savers.unit(|| self.report(Ending::Unfinished));
        }
    }

    /// The next number of streams, or how the search ends. All processes agree on it: the first one
    /// chooses, and a stop of any of them stops all.
    fn next(&self) -> Result<Result<u32, Ending>, Failure> {
        let own = if self.session.stop.is_stopped() {
            Err(Ending::Stopped)
        } else {
            self.find.next().ok_or(Ending::Complete)
        };
        if self.party.is_alone() {
            return Ok(own);
        }
        let all = self.party.exchange(&own)?;
        let stopped = all.iter().position(|next| *next == Err(Ending::Stopped));
        Ok(all.into_iter().nth(stopped.unwrap_or(0)).unwrap_or(own))
    }

    /// The rates of the last run, what is known so far, and the estimated time left.
    fn line(&self) -> String {
        let Some(run) = self.find.tried.last() else {
            return String::new();
        };
        let rates =
            [("saved", &run.save_gib_per_second), ("restored", &run.restore_gib_per_second)];
        let rates = rates.into_iter().filter(|(_, rates)| !rates.is_empty());
        let rates: Vec<String> =
            rates.map(|(done, rates)| format!("{done} at {:.3} GiB/s", mean(rates))).collect();
        let left = match self.find.likely_left() {
            0 => String::new(),
            runs => {
                let each: Vec<f64> = self.find.tried.iter().map(|run| run.seconds).collect();
                format!("; about {} left", format_duration(runs as f64 * mean(&each)))
            }
        };
        format!(
            "{} per rank: {} ({}); enough so far: {}{left}",
            counted(u64::from(run.streams), "stream"),
            rates.join(", "),
            format_duration(run.seconds),
            known(&self.find)
        )
    }

    /// The report of the run at the knee of saves, or of restores if nothing is saved, including
    /// the search.
    fn report(&self, ending: Ending) -> CheckpointReport {
        let knee = self.find.save.as_ref().or(self.find.restore.as_ref());
        let of_knee =
            knee.and_then(|knee| self.reports.iter().find(|(streams, _)| *streams == knee.streams));
        let mut report = match of_knee {
            Some((_, report)) => report.clone(),
            None => {
                let head = self.delivery.head(self.host.clone(), self.session);
                CheckpointReport::new(head, self.first.clone(), CheckpointResults::default())
            }
        };
        report.results.find_knee = Some(self.find.clone());
        report.ending = ending;
        report
    }

    /// The plan for a number of streams, on storage as it is now.
    fn plan(&mut self, streams: u32) -> Result<CheckpointPlan, Failure> {
        self.request.streams = Some(streams);
        let folders = &self.request.folders;
        let look = || scan(&*self.session.storage, folders, Look::Only).map_err(Failure::from);
        let facts = CheckpointFacts {
            trial_bytes_per_second: self.trial_bytes_per_second,
            ..agreement::seen_by_all(look, self.party)?
        };
        let how = (self.party, self.session);
        let mut plan = agreement::plan(&self.request, &self.host, &facts, how)?;
        if !self.find.tried.is_empty() {
            // These are from this search.
            plan.warnings.retain(|warning| warning.kind != WarningKind::EarlierCheckpoints);
        }
        Ok(plan)
    }

    fn one(&self, plan: &CheckpointPlan) -> Result<CheckpointReport, Failure> {
        let head = self.delivery.head(self.host.clone(), self.session);
        let surroundings = Surroundings {
            storage: &self.session.storage,
            observer: &Silent,
            stop: &self.session.stop,
        };
        let others = self.others.as_ref();
        let company = others.map_or(Company::Alone, Company::Hosts);
        let mut report = run_in_company(head, plan, company, &surroundings, &mut |_| {})
            .map_err(CheckpointError::not_started)?;
        blame_launcher(&mut report.ending, others, &self.session.stop);
        Ok(report)
    }

    fn deliver(self, ended: Ending, savers: Savers) -> Result<(), Failure> {
        let report = self.report(ended);
        let how = |saved: Option<&Path>| verdict(&report, saved);
        let own = |of| copy_of(&report, of);
        let delivered = self.delivery.finish(savers, (&report, own), self.session, how);
        let others = self.others.as_ref();
        let delivered = delivered.map_err(|failure| shared_fate(failure, &report.ending, others));
        delivered.map_err(|failure| match mark(&self.first) {
            Some(mark) => failure.marked(&mark),
            None => failure,
        })
    }
}

/// The sufficient number of streams, as far as known.
fn known(find: &FindStreams) -> String {
    let of = |what: &str, knee: &Option<StreamKnee>| {
        knee.as_ref().map(|knee| format!("{} to {what}", knee.streams))
    };
    let known: Vec<String> =
        [of("save", &find.save), of("restore", &find.restore)].into_iter().flatten().collect();
    if known.is_empty() { "nothing".to_string() } else { known.join(", ") }
}
