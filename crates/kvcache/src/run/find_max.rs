//! `kvcache --find-max`: the search chooses the next number of servers, the usual resolver makes its
//! plan, a trial runs it on the chunks that earlier ones have left, and the search is updated.

use std::time::Instant;

use stormlp_core::facts::HostFacts;
use stormlp_core::failure::{Failure, Problems};
use stormlp_core::largest::{RunKind, Search};
use stormlp_core::note::Cause;
use stormlp_core::report::{Ending, Head};
use stormlp_core::units::{counted, format_duration};
use stormlp_core::warning::Warning;
use stormlp_hosts::largest::{Attempt, CountTrials, say, try_counts};
use stormlp_hosts::saver::Saver;
use stormlp_hosts::session::Session;
use stormlp_transfer::surroundings::{Surroundings, now};

use super::error::KvcacheError;
use super::grounds::Grounds;
use super::kept::Kept;
use crate::plan::{
    CONFIRM_RUNS, FIRST_SERVERS, FindServers, KvcacheFacts, KvcachePlan, KvcacheRequest,
    MOST_WORKERS, probe_seconds, resolve,
};
use crate::report::{KvcacheReport, KvcacheResults, ended as ended_early, tried_servers};

/// What is asked for, and what is known of host and folder.
pub struct Asked<'a> {
    /// The request.
    pub request: &'a KvcacheRequest,
    /// The host.
    pub host: &'a HostFacts,
    /// The folder.
    pub facts: &'a KvcacheFacts,
}

impl Asked<'_> {
    /// The plan for so many servers.
    ///
    /// # Errors
    /// What prevents it.
    pub fn plan(&self, servers: u32) -> Result<KvcachePlan, Problems> {
        let request = KvcacheRequest { threads: Some(servers), ..self.request.clone() };
        let resolution = resolve(&request, self.host, Some(self.facts), &[]);
        match resolution.plan.filter(|_| resolution.problems.is_empty()) {
            Some(plan) => Ok(plan),
            None => Err(resolution.problems),
        }
    }

    /// The plan of the first number that is tried: fewer if this host cannot run so many.
    ///
    /// # Errors
    /// What prevents a single server.
    pub fn first(&self) -> Result<KvcachePlan, Problems> {
        self.plan(FIRST_SERVERS).or_else(|_| self.plan(1))
    }

    /// The most servers that can be tried, and why no more.
    fn most(&self) -> (u32, String) {
        let why = |has: u32| match self.plan(has + 1) {
            Err(problems) => problems.to_string(),
            Ok(_) => String::new(),
        };
        let (mut has, mut has_not) = (1, MOST_WORKERS + 1);
        while has_not - has > 1 {
            let middle = has + (has_not - has) / 2;
            *if self.plan(middle).is_ok() { &mut has } else { &mut has_not } = middle;
        }
        (has, format!("no more than {} can be tried: {}", counted(has.into(), "server"), why(has)))
    }
}

/// How long a search takes, before anything is measured.
pub fn outlook(plan: &KvcachePlan) -> String {
    let full = plan.duration_seconds;
    let confirm = plan.request.confirm.unwrap_or(CONFIRM_RUNS);
    format!(
        "probes of {} each and {} of {}; before each, missing chunks are written",
        format_duration(probe_seconds(full)),
        counted(u64::from(2 * confirm), "full run"),
        format_duration(full)
    )
}

/// Searches until the answer is known or the user stops it: the report of the full run at the answer,
/// with the search; without such a run what the last probe there warns of.
///
/// # Errors
/// If it cannot start.
pub fn find_max(
    asked: &Asked<'_>,
    (head, session): (Head, &Session),
    saver: &mut Saver,
) -> Result<KvcacheReport, Failure> {
    let first = asked.first()?;
    let storage = &*session.storage;
    let confirm = first.request.confirm.unwrap_or(CONFIRM_RUNS);
    let begun = KvcacheReport::new(head.clone(), first.clone(), KvcacheResults::default());
    saver.begin(&begun)?;
    let grounds = Grounds::enter(&first, storage).map_err(KvcacheError::not_started)?;
    let Some((pass, serving)) = first.passes.first().zip(first.serving.as_ref()) else {
        return Err(Failure::usage("--find-max counts servers: use --profile serving"));
    };
    let place = (storage, grounds.folder.folder(), &grounds.noise);
    let kept = Kept::new(place, (&first, pass, serving));
    let (most, limit) = asked.most();
    let mut finder = ServerFinder {
        asked,
        head,
        session,
        grounds: &grounds,
        kept: &kept,
        first: &first,
        search: Search::new(serving.loaders, most, confirm),
        find: FindServers::begun(confirm),
        full: Vec::new(),
        said: Vec::new(),
        begun: Instant::now(),
    };
    say(session, format_args!("the search takes {}", outlook(&first)));
    let ended = try_counts(&mut finder, saver);
    let cleared = kept.shelf.clear().map_err(KvcacheError::from);
    let ending = match (ended?, cleared) {
        (Ending::Complete | Ending::Stopped, Err(error)) => {
            Ending::failed(error.cause(), error.to_string(), error.remedy())
        }
        (ending, _) => ending,
    };
    finder.conclude();
    if finder.search.is_lower_bound() {
        finder.find.limit = Some(limit);
    }
    let mut report = finder.report(ending);
    report.head.ended_at = Some(now());
    Ok(report)
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
    let Some(find) = report.results.find_max.as_ref().filter(|find| find.largest_servers == 0)
    else {
        return Ok(());
    };
    let of_one = find.answer().map_or(String::new(), |one| {
        format!(
            ": it {}; a prefix of {} tokens is loaded in {} {:.1} ms and computed in {:.1} ms, {:.0} % of \
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
    asked: &'a Asked<'a>,
    head: Head,
    session: &'a Session,
    grounds: &'a Grounds,
    kept: &'a Kept<'a>,
    /// The plan of the number that is tried first.
    first: &'a KvcachePlan,
    search: Search,
    find: FindServers,
    /// The reports of full runs.
    full: Vec<KvcacheReport>,
    /// What each run warns of, with its number of servers.
    said: Vec<(u32, Vec<Warning>)>,
    begun: Instant,
}

impl ServerFinder<'_> {
    /// Runs a plan to its end.
    fn run(&self, plan: &KvcachePlan) -> KvcacheReport {
        let progress = self.session.progress();
        let surroundings = Surroundings {
            storage: &self.session.storage,
            observer: &progress,
            stop: &self.session.stop,
        };
        let kept = Some(self.kept);
        let head = self.head.clone();
        self.grounds.carry_out(None, (head, plan), kept, &surroundings, &mut |_| {})
    }

    /// Estimated time left in seconds.
    fn seconds_left(&self) -> f64 {
        let (left, full) = (self.search.left(), self.first.duration_seconds);
        probe_seconds(full) * f64::from(left.probes) + full * f64::from(left.full)
    }
}

impl CountTrials for ServerFinder<'_> {
    type Plan = KvcachePlan;
    type Results = KvcacheResults;

    fn session(&self) -> &Session {
        self.session
    }

    fn algorithm(&mut self) -> &mut Search {
        &mut self.search
    }

    fn attempt(&mut self, count: u32, kind: RunKind) -> Result<Attempt, Failure> {
        let mut plan = self.asked.plan(count)?;
        if kind == RunKind::Probe {
            plan.duration_seconds = probe_seconds(plan.duration_seconds);
        }
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
            self.full.push(report);
        }
        Ok(Attempt::Ran(self.find.take(tried)))
    }

    fn has_tried(&self) -> bool {
        !self.find.tried.is_empty()
    }

    fn conclude(&mut self) {
        self.find.conclude(&self.search);
        self.find.search_seconds = self.begun.elapsed().as_secs_f64();
    }

    fn line(&self) -> String {
        let Some(tried) = self.find.tried.last() else {
            return String::new();
        };
        let kind = match tried.run {
            RunKind::Probe => "probe",
            RunKind::Full => "full run",
        };
        let left = match self.search.next() {
            None => String::new(),
            Some(_) => format!("; about {} left", format_duration(self.seconds_left())),
        };
        format!(
            "{kind}: {}: {} tokens loaded in {} {:.1} ms, {:.0} % of the time to compute them, {} \
             ({}); {}{left}",
            counted(u64::from(tried.servers), "server"),
            tried.prefix_tokens,
            tried.which(),
            tried.load_ms,
            tried.load_percent(),
            tried.verdict(),
            format_duration(tried.seconds),
            self.find.known()
        )
    }

    /// That of the full run at the answer, or of no run yet, including the search.
    fn report(&self, ending: Ending) -> KvcacheReport {
        let servers = self.find.largest_servers.max(1);
        let loaders = |report: &KvcacheReport| report.plan.serving.as_ref().map(|one| one.loaders);
        let answer = self.full.iter().rfind(|report| loaders(report) == Some(servers)).cloned();
        let mut report = answer.unwrap_or_else(|| {
            let plan = self.asked.plan(servers).unwrap_or_else(|_| self.first.clone());
            let mut none = KvcacheReport::new(self.head.clone(), plan, KvcacheResults::default());
            let said = self.said.iter().rfind(|(tried, _)| *tried == servers);
            none.warnings = said.or(self.said.last()).map_or_else(Vec::new, |(_, all)| all.clone());
            none
        });
        report.ending = ending;
        report.results.find_max = Some(self.find.clone());
        report
    }
}
