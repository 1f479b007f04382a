//! The driver of searches for the largest count that passes: `train --find-max`, `kvcache --find-max`.
//!
//! [`Search`] chooses the next count and a lane runs it; this module holds the code that both
//! share.

use std::time::Instant;

use serde::Serialize;
use stormlp_core::failure::Failure;
use stormlp_core::largest::{Largest, RunKind, Search, Trial, Tried};
use stormlp_core::report::{Ending, Report};
use stormlp_core::units::{counted, format_duration};
use stormlp_transfer::run_context::now;

use crate::saver::Saver;
use crate::session::Session;

/// A search: the results so far.
pub struct Trials<T: Tried, R> {
    /// Decides what is tried next.
    pub search: Search,
    /// The answer so far.
    pub find: Largest<T, T::Limit>,
    /// The reports of full runs, each with its count.
    pub full: Vec<(u32, R)>,
    /// When the search began.
    pub begun: Instant,
    /// Seconds spent on it before it was resumed.
    pub before_seconds: f64,
}

impl<T: Tried, R> Trials<T, R> {
    /// A search from 1 to `most` that starts at `first`.
    pub fn new(first: u32, most: u32, confirm_runs: u32) -> Self {
        Self {
            search: Search::new(first, most, confirm_runs),
            find: Largest::begun(confirm_runs),
            full: Vec::new(),
            begun: Instant::now(),
            before_seconds: 0.0,
        }
    }

    fn conclude(&mut self) {
        self.find.conclude(&self.search);
        self.find.search_seconds = self.before_seconds + self.begun.elapsed().as_secs_f64();
    }
}

/// The outcome of trying a count.
#[derive(Debug)]
pub enum Attempt<T> {
    /// It ran.
    Ran(T, Trial),
    /// There is no plan for so many, which has limited the search.
    Impossible,
    /// The run did not complete, which ends the search.
    Ended(Ending),
}

/// A lane's search: its run for a count, and its report.
pub trait CountTrials {
    /// The plan of a run.
    type Plan: Serialize + Clone;
    /// Its results, with the search.
    type Results: Serialize + Clone;
    /// A run in the results.
    type Tried: Tried;

    /// The search.
    fn trials(&mut self) -> &mut Trials<Self::Tried, Report<Self::Plan, Self::Results>>;

    /// Runs so many, and keeps the measurements.
    ///
    /// # Errors
    /// If no count can be run, or storage failed.
    fn attempt(&mut self, count: u32, kind: RunKind) -> Result<Attempt<Self::Tried>, Failure>;

    /// The expected time of a run, before one has run.
    fn expected_seconds(&self, kind: RunKind) -> f64;

    /// Ends the search, and whether it does so otherwise than it `ended`.
    fn close(&mut self, ended: Ending) -> Ending;

    /// The report with the search and its ending: of a `full` run, or of no run of so many.
    fn report(
        &self,
        count: u32,
        full: Option<Report<Self::Plan, Self::Results>>,
        ending: Ending,
    ) -> Report<Self::Plan, Self::Results>;
}

/// Tries counts until the answer is known or the user stops it, and saves the report after each:
/// the report of the full run at the answer, or of no run. Measurements before a failure are kept:
/// the failure is then the end of the search.
///
/// # Errors
/// If it fails before any count was tried.
pub fn find_largest<F: CountTrials>(
    lane: &mut F,
    session: &Session,
    saver: &mut Saver,
) -> Result<Report<F::Plan, F::Results>, Failure> {
    let ended = match go_on(lane, session, saver) {
        Err(failure) if !lane.trials().find.tried.is_empty() => Ok(Ending::Failed(failure.note)),
        ended => ended,
    };
    lane.trials().conclude();
    let ending = lane.close(ended.as_ref().map_or(Ending::Stopped, Ending::clone));
    ended?;
    let mut report = report(lane, ending);
    report.head.ended_at = Some(now());
    Ok(report)
}

fn go_on<F: CountTrials>(
    lane: &mut F,
    session: &Session,
    saver: &mut Saver,
) -> Result<Ending, Failure> {
    while !session.stop.is_stopped() {
        let Some((count, kind)) = lane.trials().search.next() else {
            return Ok(Ending::Complete);
        };
        let (tried, trial) = match lane.attempt(count, kind)? {
            Attempt::Ran(tried, trial) => (tried, trial),
            Attempt::Impossible => continue,
            Attempt::Ended(ending) => return Ok(ending),
        };
        let line = format!("{}: {}", kind.name(), to_text(&tried));
        let trials = lane.trials();
        trials.find.tried.push(tried);
        trials.search.tell(trial);
        trials.conclude();
        say(session, format_args!("{line}; {}", lane.trials().find.known()));
        saver.unit(|| report(lane, Ending::Unfinished));
    }
    Ok(Ending::Stopped)
}

fn to_text<T: Tried>(tried: &T) -> String {
    let count = counted(tried.count().into(), T::WHAT);
    format!("{count}: {} ({})", tried.to_text(), format_duration(tried.seconds()))
}

/// The report of the search so far.
pub fn report<F: CountTrials>(lane: &mut F, ending: Ending) -> Report<F::Plan, F::Results> {
    let trials = lane.trials();
    let count = trials.find.largest.max(1);
    let full = trials.full.iter().rfind(|(tried, _)| *tried == count).map(|(_, full)| full.clone());
    lane.report(count, full, ending)
}

/// Shows a line of a search, unless progress is off.
pub fn say(session: &Session, line: impl std::fmt::Display) {
    if !session.quiet {
        session.say(line.to_string());
    }
}
