//! Drives a search (`--find-knee`, `--find-max`): runs what its algorithm asks for, says and saves
//! what each run brought, until the answer is known or somebody stops it.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use stormlp_core::failure::Failure;
use stormlp_core::report::{Ending, Report};
use stormlp_hosts::party::Party;

use super::deliver::Savers;
use crate::output;
use stormlp_hosts::session::Session;

/// A search that chooses each run from what the earlier ones brought.
pub(crate) trait Finder {
    /// What a run tries.
    type Trial: Serialize + DeserializeOwned;
    /// The plan of its report.
    type Plan: Serialize + Clone;
    /// The results of its report.
    type Results: Serialize + Clone;

    /// What to try next; `None` once the answer is known.
    fn next(&self) -> Option<Self::Trial>;

    /// Tries it.
    ///
    /// # Errors
    /// If it cannot run.
    fn run(&mut self, trial: Self::Trial) -> Result<Ran, Failure>;

    /// What the last run brought, for the user.
    fn line(&self) -> String;

    /// The report of the search so far.
    fn report(&self, ending: Ending) -> Report<Self::Plan, Self::Results>;
}

/// What became of a run.
pub(crate) enum Ran {
    /// It was measured.
    Measured,
    /// It is impossible, which limits the search.
    Impossible,
    /// It ended in another way, and so does the search.
    Ended(Ending),
}

/// What all processes do next.
#[derive(Serialize, Deserialize)]
enum NextStep<T> {
    Try(T),
    Complete,
    Stop,
}

/// Searches until the answer is known or the user stops it; `party` are the processes that search
/// together, if there may be several.
///
/// # Errors
/// Those of a run.
pub(crate) fn find<F: Finder>(
    finder: &mut F,
    savers: &mut Savers,
    party: Option<&Party>,
    session: &Session,
) -> Result<Ending, Failure> {
    loop {
        let trial = match next_step(finder, party, session)? {
            NextStep::Try(trial) => trial,
            NextStep::Complete => return Ok(Ending::Complete),
            NextStep::Stop => return Ok(Ending::Stopped),
        };
        match finder.run(trial)? {
            Ran::Measured => {
                if !session.quiet {
                    output::say(finder.line());
                }
                savers.unit(|| finder.report(Ending::Unfinished));
            }
            Ran::Impossible => {}
            Ran::Ended(ending) => return Ok(ending),
        }
    }
}

/// The next step, on which all processes agree: the first one chooses it, and a stop of any of them
/// stops all.
fn next_step<F: Finder>(
    finder: &F,
    party: Option<&Party>,
    session: &Session,
) -> Result<NextStep<F::Trial>, Failure> {
    let own = if session.stop.is_stopped() {
        NextStep::Stop
    } else {
        finder.next().map_or(NextStep::Complete, NextStep::Try)
    };
    let Some(party) = party.filter(|party| !party.is_alone()) else {
        return Ok(own);
    };
    let all = party.exchange(&own)?;
    if all.iter().any(|step| matches!(step, NextStep::Stop)) {
        return Ok(NextStep::Stop);
    }
    Ok(all.into_iter().next().unwrap_or(own))
}
