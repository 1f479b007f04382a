//! The driver of searches for the largest count that passes: `train --find-max`, `kvcache --find-max`.
//!
//! [`Search`] decides what is tried next and a lane runs it; here is what both have in common.

use serde::Serialize;
use stormlp_core::failure::Failure;
use stormlp_core::largest::{RunKind, Search, Trial};
use stormlp_core::report::{Ending, Report};

use crate::saver::Saver;
use crate::session::Session;

/// What came of trying a count.
#[derive(Debug)]
pub enum Attempt {
    /// It ran.
    Ran(Trial),
    /// There is no plan for so many, which has limited the search.
    Impossible,
    /// The run did not complete, which ends the search.
    Ended(Ending),
}

/// A lane's search: what it runs for a count, and what it reports.
pub trait CountTrials {
    /// The plan of a run.
    type Plan: Serialize + Clone;
    /// Its results, with the search.
    type Results: Serialize + Clone;

    /// The context of the command.
    fn session(&self) -> &Session;

    /// What decides what is tried next.
    fn algorithm(&mut self) -> &mut Search;

    /// Runs so many, and keeps what was measured.
    ///
    /// # Errors
    /// If nothing at all can be run, or storage failed.
    fn attempt(&mut self, count: u32, kind: RunKind) -> Result<Attempt, Failure>;

    /// Whether any count was tried.
    fn has_tried(&self) -> bool;

    /// Updates the answer from the trials so far.
    fn conclude(&mut self);

    /// The result of the last trial, what is known so far and the estimated time left.
    fn line(&self) -> String;

    /// The report so far.
    fn report(&self, ending: Ending) -> Report<Self::Plan, Self::Results>;
}

/// Tries counts until the answer is known or the user stops it, and saves the report after each.
/// What was measured before a failure is kept: then that is how the search ended.
///
/// # Errors
/// If it fails before any count was tried.
pub fn try_counts<T: CountTrials>(lane: &mut T, saver: &mut Saver) -> Result<Ending, Failure> {
    match go_on(lane, saver) {
        Err(failure) if lane.has_tried() => Ok(Ending::Failed(failure.note)),
        ended => ended,
    }
}

fn go_on<T: CountTrials>(lane: &mut T, saver: &mut Saver) -> Result<Ending, Failure> {
    while !lane.session().stop.is_stopped() {
        let Some((count, kind)) = lane.algorithm().next() else {
            return Ok(Ending::Complete);
        };
        match lane.attempt(count, kind)? {
            Attempt::Ran(trial) => lane.algorithm().tell(trial),
            Attempt::Impossible => continue,
            Attempt::Ended(ending) => return Ok(ending),
        }
        lane.conclude();
        say(lane.session(), lane.line());
        saver.unit(|| lane.report(Ending::Unfinished));
    }
    Ok(Ending::Stopped)
}

/// Shows a line of a search, unless progress is off.
pub fn say(session: &Session, line: impl std::fmt::Display) {
    if !session.quiet {
        session.say(line.to_string());
    }
}
