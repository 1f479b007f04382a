//! `kvcache --find-max`: the search chooses the next number of servers, the usual resolver makes its
//! plan, a trial runs it on the chunks that earlier ones have left, and the search is updated.

use std::time::Instant;

use stormlp_core::facts::HostFacts;
use stormlp_core::failure::{Failure, Problems};
use stormlp_core::largest::{CONFIRM_RUNS, RunKind, last_that, outlook};
use stormlp_core::note::Cause;
use stormlp_core::report::{Ending, Head};
use stormlp_core::units::{counted, format_duration};
use stormlp_core::warning::Warning;
use stormlp_hosts::largest::{Attempt, CountTrials, Trials, find_largest, say};
use stormlp_hosts::saver::Saver;
use stormlp_hosts::session::Session;
use stormlp_transfer::run_context::RunContext;

use super::chunk_files::ServingState;
use super::error::KvcacheError;
use super::trials::RunFolder;
use crate::plan::{
    FIRST_SERVERS, KvcacheFacts, KvcachePlan, KvcacheRequest, KvcacheWorkload, MOST_WORKERS,
    TriedServers, expected_seconds, resolve,
};
use crate::report::{KvcacheReport, KvcacheResults, ended as ended_early, tried_servers};

/// The request, and the facts known of host and folder.
pub struct SearchInput<'a> {
    /// The request.
    pub request: &'a KvcacheRequest,
    /// The host.
    pub host: &'a HostFacts,
    /// The folder.
    pub facts: &'a KvcacheFacts,
}

impl SearchInput<'_> {
    /// The plan for so many servers.
    ///
    /// # Errors
    /// Problems that prevent it.
    pub fn plan(&self, servers: u32) -> Result<KvcachePlan, Problems> {
        let mut request = self.request.clone();
        if let KvcacheWorkload::Serving(serving) = &mut request.workload {
            serving.chunks.concurrency = Some(servers);
        }
        resolve(&request, self.host, Some(self.facts), &[]).planned()
    }

    /// The plan of the first number that is tried: fewer if this host cannot run so many.
    ///
    /// # Errors
    /// Problems that prevent a single server.
    pub fn first(&self) -> Result<KvcachePlan, Problems> {
        self.plan(FIRST_SERVERS).or_else(|_| self.plan(1))
    }

    /// Maximum number of servers that can be tried, and why no more.
    fn most(&self) -> (u32, String) {
        let why = |has: u32| match self.plan(has + 1) {
            Err(problems) => problems.to_string(),
            Ok(_) => String::new(),
        };
        let runs = |servers: u64| self.plan(servers as u32).is_ok();
        let has = last_that(1, MOST_WORKERS.into(), runs) as u32;
        (has, format!("no more than {} can be tried: {}", counted(has.into(), "server"), why(has)))
    }
}

/// Searches until the answer is known or the user stops it: the report of the full run at the
/// answer, with the search; without such a run the warnings of the last probe there.
///
/// # Errors
/// If it cannot start.
pub fn find_max(
    asked: &SearchInput<'_>,
    (head, session): (Head, &Session),
    saver: &mut Saver,
) -> Result<KvcacheReport, Failure> {
    let first = asked.first()?;
    let storage = &*session.storage;
    let begun = KvcacheReport::new(head.clone(), first.clone(), KvcacheResults::default());
    saver.begin(&begun)?;
    let run_folder = RunFolder::enter(&first, storage).map_err(KvcacheError::not_started)?;
    let pass = first.passes.first().zip(first.serving.as_ref());
    let (pass, serving) = pass.expect("a search is of prompts");
    let place = (storage, run_folder.folder.folder());
    let state = ServingState::new(place, (&first, pass, serving));
    let (most, limit) = asked.most();
    let confirm = match &first.request.workload {
        KvcacheWorkload::Serving(serving) => serving.tune.confirm.unwrap_or(CONFIRM_RUNS),
        _ => CONFIRM_RUNS,
    };
    let mut finder = ServerFinder {
        asked,
        head,
        session,
        run_folder: &run_folder,
        serving: &state,
        first: &first,
        limit,
        trials: Trials::new(serving.loaders, most, confirm),
        said: Vec::new(),
    };
    let takes = outlook(confirm, |kind| finder.expected_seconds(kind));
    say(session, format_args!("the search takes {takes}"));
    find_largest(&mut finder, session, saver)
}

/// How a search ended that has this `report`.
///
/// # Errors
/// With exit code 6 if not even one server is fed, else why it ended early.
pub fn ended(report: &KvcacheReport, saved: Option<&std::path::Path>) -> Result<(), Failure> {
    match &report.results.find_max {
        Some(find) if !find.tried.is_empty() => report.ending.outcome(saved)?,
        _ => ended_early(report, saved)?,
    }
    let Some(find) = report.results.find_max.as_ref().filter(|find| find.largest == 0) else {
        return Ok(());
    };
    let of_one = find.answer().map_or(String::new(), |one| {
        format!(
            ": {}; a prefix of {} tokens is loaded in {} {:.1} ms and computed in {:.1} ms, {:.0} % of \
             new chunks are not written",
            one.verdict(),
            one.prefix_tokens,
            one.which(),
            one.load_ms,
            one.computing_ms,
            one.dropped_percent
        )
    });
    Err(Failure::missed_target(format!("storage does not feed even one server{of_one}")))
}

/// A search, and everything its runs have in common.
struct ServerFinder<'a> {
    asked: &'a SearchInput<'a>,
    head: Head,
    session: &'a Session,
    run_folder: &'a RunFolder,
    serving: &'a ServingState<'a>,
    /// The plan of the number that is tried first.
    first: &'a KvcachePlan,
    /// Why no more servers can be tried than the search does.
    limit: String,
    trials: Trials<TriedServers, KvcacheReport>,
    /// The warnings of each run, with its number of servers.
    said: Vec<(u32, Vec<Warning>)>,
}

impl ServerFinder<'_> {
    /// Runs a plan to its end.
    fn run(&self, plan: &KvcachePlan) -> KvcacheReport {
        let progress = self.session.progress();
        let surroundings = RunContext {
            storage: &self.session.storage,
            observer: &progress,
            stop: &self.session.stop,
        };
        let state = Some(self.serving);
        let head = self.head.clone();
        self.run_folder.carry_out(None, (head, plan), state, &surroundings, &mut |_| {})
    }
}

impl CountTrials for ServerFinder<'_> {
    type Plan = KvcachePlan;
    type Results = KvcacheResults;
    type Tried = TriedServers;

    fn trials(&mut self) -> &mut Trials<TriedServers, KvcacheReport> {
        &mut self.trials
    }

    fn attempt(&mut self, count: u32, kind: RunKind) -> Result<Attempt<TriedServers>, Failure> {
        let mut plan = self.asked.plan(count)?;
        plan.duration_seconds = expected_seconds(plan.duration_seconds, kind);
        let begun = Instant::now();
        let report = self.run(&plan);
        if report.ending != Ending::Complete {
            return Ok(Attempt::Ended(report.ending));
        }
        let Some(tried) = tried_servers(&report, kind, begun.elapsed().as_secs_f64()) else {
            let what =
                format!("no prompt found a prefix in {}", format_duration(plan.duration_seconds));
            let help = "use a longer --duration, or a larger --capacity";
            return Err(Failure::saying(Cause::Plan, what).with_help(help));
        };
        self.said.push((count, report.warnings.clone()));
        if kind == RunKind::Full {
            self.trials.full.push((count, report));
        }
        let trial = tried.trial();
        Ok(Attempt::Ran(tried, trial))
    }

    fn expected_seconds(&self, kind: RunKind) -> f64 {
        expected_seconds(self.first.duration_seconds, kind)
    }

    fn close(&mut self, ended: Ending) -> Ending {
        if self.trials.search.is_lower_bound() {
            self.trials.find.limit = Some(self.limit.clone());
        }
        match self.serving.files.clear().map_err(KvcacheError::from) {
            Err(error) if matches!(ended, Ending::Complete | Ending::Stopped) => {
                Ending::failed(error.cause(), error.to_string(), error.remedy())
            }
            _ => ended,
        }
    }

    fn report(&self, count: u32, full: Option<KvcacheReport>, ending: Ending) -> KvcacheReport {
        let mut report = full.unwrap_or_else(|| {
            let plan = self.asked.plan(count).unwrap_or_else(|_| self.first.clone());
            let mut none = KvcacheReport::new(self.head.clone(), plan, KvcacheResults::default());
            let said = self.said.iter().rfind(|(tried, _)| *tried == count).or(self.said.last());
            none.warnings = said.map_or_else(Vec::new, |(_, all)| all.clone());
            none
        });
        report.ending = ending;
        report.results.find_max = Some(self.trials.find.clone());
        report
    }
}
