//! `checkpoint --find-knee`: the search chooses the next number of streams, the usual resolver makes
//! the plan, the emulator runs it, and the search is updated.

use std::path::Path;
use std::time::Instant;

use stormlp_core::event::Silent;
use stormlp_core::facts::HostFacts;
use stormlp_core::failure::Failure;
use stormlp_core::report::{Ending, Head};
use stormlp_core::stats::mean;
use stormlp_core::units::{counted, format_duration};
use stormlp_core::warning::WarningKind;
use stormlp_hosts::fate::{blame_launcher, shared_fate};
use stormlp_hosts::multi_host::Hosts;
use stormlp_hosts::peers::Peers;
use stormlp_hosts::saver::Saver;
use stormlp_hosts::session::Session;
use stormlp_transfer::surroundings::Surroundings;

use super::agreement::{self, planned};
use super::{CheckpointError, Look, run_on_hosts, scan};
use crate::plan::{
    CheckpointFacts, CheckpointPlan, CheckpointRequest, FindStreams, KNEE_STREAMS, ScaleChoice,
    StreamKnee,
};
use crate::report::{CheckpointReport, CheckpointResults, tried_streams};

/// Default number of saves, and of restores, per run.
const UNITS: u32 = 2;

/// A search for the fewest streams.
pub struct StreamFinder<'a> {
    request: CheckpointRequest,
    host: HostFacts,
    /// Measured write rate of the storage before the first run: all runs have the same size.
    trial_bytes_per_second: Option<f64>,
    peers: &'a Peers,
    /// The other hosts, if any.
    others: Option<Hosts>,
    session: &'a Session,
    head: Head,
    /// The plan of the first run.
    first: CheckpointPlan,
    find: FindStreams,
    /// The last report for each number of streams.
    reports: Vec<(u32, CheckpointReport)>,
}

/// Prepares the first run of a search, with the saves and restores of every run.
pub fn first_run(request: &mut CheckpointRequest) {
    request.writes = request.writes.or(Some(UNITS));
    request.reads = request.reads.or(Some(UNITS));
    request.pause_seconds = request.pause_seconds.or(Some(0.0));
    // Data cached by the previous run would hide the speed of storage.
    request.cold |= request.reads != Some(0);
    request.streams = Some(1);
}

impl<'a> StreamFinder<'a> {
    /// A search whose runs all have the size of the first one.
    ///
    /// # Errors
    /// If the first run has no valid plan, or storage or another host fails.
    pub fn new(
        mut request: CheckpointRequest,
        head: Head,
        peers: &'a Peers,
        session: &'a Session,
    ) -> Result<Self, Failure> {
        let host = head.host.clone();
        if !peers.is_alone() {
            agreement::look(&request, &host, peers, session)?;
        }
        let facts = agreement::tried(&request, peers, session)?;
        let first = agreement::plan(&request, &host, &facts, (peers, session))?;
        request.scale = Some(ScaleChoice::Factor(first.scaling.factor));
        let streams = possible(&request, &host, &facts, (peers, session), &first)?;
        Ok(Self {
            request,
            host,
            trial_bytes_per_second: facts.trial_bytes_per_second,
            peers,
            others: None,
            session,
            head,
            first,
            find: FindStreams::begun(streams),
            reports: Vec::new(),
        })
    }

    /// The plan of the first run.
    pub fn first(&self) -> &CheckpointPlan {
        &self.first
    }

    /// Searches until the answer is known or the user stops it, and returns the report of the run at
    /// the knee, including the search.
    ///
    /// # Errors
    /// Those of a run.
    pub fn search(&mut self, saver: &mut Saver) -> Result<CheckpointReport, Failure> {
        self.others = self.peers.with_waiting_notes(self.peers.hosts()?, saver.folder())?;
        let begun = self.report(Ending::Unfinished);
        saver.begin(&begun)?;
        let ended = self.try_streams(saver)?;
        Ok(self.report(ended))
    }

    /// The outcome of a search that ended with `report`, which is at `saved`.
    ///
    /// # Errors
    /// Why the search ended early.
    pub fn ended(&self, report: &CheckpointReport, saved: Option<&Path>) -> Result<(), Failure> {
        report
            .ending
            .outcome(saved)
            .map_err(|failure| shared_fate(failure, &report.ending, self.others.as_ref()))
    }

    fn try_streams(&mut self, saver: &mut Saver) -> Result<Ending, Failure> {
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
            saver.unit(|| self.report(Ending::Unfinished));
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
        if self.peers.is_alone() {
            return Ok(own);
        }
        let all = self.peers.exchange(&own)?;
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
                let (head, plan) = (self.head.clone(), self.first.clone());
                CheckpointReport::new(head, plan, CheckpointResults::default())
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
            ..agreement::seen_by_all(look, self.peers)?
        };
        let how = (self.peers, self.session);
        let mut plan = agreement::plan(&self.request, &self.host, &facts, how)?;
        if !self.find.tried.is_empty() {
            // These are from this search.
            plan.warnings.retain(|warning| warning.kind != WarningKind::EarlierCheckpoints);
        }
        Ok(plan)
    }

    fn one(&self, plan: &CheckpointPlan) -> Result<CheckpointReport, Failure> {
        let head = self.head.clone();
        let surroundings = Surroundings {
            storage: &self.session.storage,
            observer: &Silent,
            stop: &self.session.stop,
        };
        let others = self.others.as_ref();
        let mut report = run_on_hosts(head, plan, others, &surroundings, &mut |_| {})
            .map_err(CheckpointError::not_started)?;
        blame_launcher(&mut report.ending, others, &self.session.stop);
        Ok(report)
    }
}

/// The numbers of streams that keep the size of a run; one host computes them for all.
fn possible(
    request: &CheckpointRequest,
    host: &HostFacts,
    facts: &CheckpointFacts,
    (peers, session): (&Peers, &Session),
    first: &CheckpointPlan,
) -> Result<Vec<u32>, Failure> {
    let possible = |streams: &u32| {
        let request = CheckpointRequest { streams: Some(*streams), ..request.clone() };
        planned(&request, host, facts).is_ok_and(|plan| plan.total_bytes == first.total_bytes)
    };
    let find = || -> Vec<u32> { KNEE_STREAMS.into_iter().filter(possible).collect() };
    if peers.is_alone() { Ok(find()) } else { peers.from_first(&session.group.leads().then(find)) }
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
