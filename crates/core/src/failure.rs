//! Why a command cannot go on: all problems of a request, or the error that ended it.

use std::fmt::{self, Display};

use derive_more::Deref;
use serde::{Deserialize, Serialize};

use crate::note::{Cause, Note};
use crate::printable::printable;

/// Everything wrong with a request, each with its remedy; never empty when it is an error.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Deref)]
#[serde(transparent)]
#[deref(forward)]
pub struct Problems(Vec<Note<Cause>>);

impl Problems {
    /// Adds a contradiction of the request.
    pub fn plan(&mut self, fact: impl Into<String>, remedy: impl Into<String>) {
        self.push(Note::new(Cause::Plan, fact, remedy));
    }

    /// Adds something this machine does not have.
    pub fn machine(&mut self, fact: impl Into<String>, remedy: impl Into<String>) {
        self.push(Note::new(Cause::Machine, fact, remedy));
    }

    /// Adds a capacity this machine has too little of.
    pub fn capacity(&mut self, fact: impl Into<String>, remedy: impl Into<String>) {
        self.push(Note::new(Cause::Capacity, fact, remedy));
    }

    /// Adds a problem, once.
    pub fn push(&mut self, problem: Note<Cause>) {
        // A matrix hits the same problem once per cell.
        if !self.0.contains(&problem) {
            self.0.push(problem);
        }
    }

    /// Returns `value` if there are no problems.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn or<T>(self, value: T) -> Result<T, Self> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }

    /// The cause that determines the exit code. Problems of the request take precedence over the
    /// machine's: no machine would help then.
    pub fn cause(&self) -> Cause {
        let has = |cause: &Cause| self.0.iter().any(|problem| problem.kind == *cause);
        [Cause::Plan, Cause::Machine].into_iter().find(has).unwrap_or(Cause::Capacity)
    }

    /// The common remedy of all problems; empty if each has a different one, which is then shown
    /// next to it.
    pub fn remedy(&self) -> &str {
        let first = self.0.first().map_or("", |problem| &problem.remedy);
        if self.0.iter().all(|problem| problem.remedy == first) { first } else { "" }
    }
}

impl Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return write!(f, "{}", printable(&only.fact));
        }
        write!(f, "{} problems:", self.0.len())?;
        for problem in &self.0 {
            write!(f, "\n  - {}", printable(&problem.fact))?;
            if self.remedy().is_empty() && !problem.remedy.is_empty() {
                write!(f, "\n    help: {}", printable(&problem.remedy))?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// A plan as far as one can be made, and every problem.
#[derive(Debug, Clone)]
pub struct Resolution<P> {
    /// The plan; `None` if the request itself is invalid. With problems of the machine there may be
    /// one for a dry run to print.
    pub plan: Option<P>,
    /// Problems that prevent the run; empty if it can start.
    pub problems: Problems,
}

impl<P> Resolution<P> {
    /// The plan of a run.
    ///
    /// # Errors
    /// All problems.
    pub fn planned(self) -> Result<P, Problems> {
        self.plan.filter(|_| self.problems.is_empty()).ok_or(self.problems)
    }

    /// The plan that a dry run prints; `None` if the request itself is invalid.
    pub fn shown(&self) -> Option<&P> {
        self.plan.as_ref().filter(|_| self.problems.cause() != Cause::Plan)
    }
}

/// The error that ended a command. `?` on an `anyhow::Error` makes it a bug; every other cause is
/// chosen explicitly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Why, with printable text: outermost context first, one or several lines.
    pub note: Note<Cause>,
    /// Whether every process of the run fails alike, so that only one reports it.
    pub of_all: bool,
}

impl Failure {
    /// An error with its causes.
    pub fn new(cause: Cause, error: impl Into<anyhow::Error>) -> Self {
        Self::from(Note::new(cause, error_text(&error.into()), ""))
    }

    /// A bug in stormlp.
    pub fn bug(error: impl Into<anyhow::Error>) -> Self {
        Self::new(Cause::Internal, error)
    }

    /// Invalid arguments or combination of arguments.
    pub fn usage(fact: impl Display) -> Self {
        Self::saying(Cause::Usage, fact)
    }

    /// Workload and options do not make a valid plan.
    pub fn no_plan(error: impl Into<anyhow::Error>) -> Self {
        Self::new(Cause::Plan, error)
    }

    /// This machine lacks something the plan needs.
    pub fn machine(error: impl Into<anyhow::Error>) -> Self {
        Self::new(Cause::Machine, error)
    }

    /// Storage or a device failed during the run.
    pub fn storage(error: impl Into<anyhow::Error>) -> Self {
        Self::new(Cause::Storage, error)
    }

    /// The run missed its target.
    pub fn missed_target(fact: impl Display) -> Self {
        Self::saying(Cause::MissedTarget, fact)
    }

    /// A comparison found a regression.
    pub fn regressed(fact: impl Display) -> Self {
        Self::saying(Cause::Regressed, fact)
    }

    /// The user stopped the run; `fact` says which results were saved and where.
    pub fn stopped(fact: impl Display) -> Self {
        Self::saying(Cause::Stopped, fact)
    }

    /// A single line of text.
    pub fn saying(cause: Cause, fact: impl Display) -> Self {
        Self::from(Note::new(cause, printable(&fact.to_string()), ""))
    }

    /// A run that failed because of `note` in its report; `kept` names what was saved.
    pub fn of_run(note: &Note<Cause>, kept: &str) -> Self {
        let fact = [&*note.fact, kept].into_iter().filter(|part| !part.is_empty());
        let fact = fact.collect::<Vec<_>>().join("; ");
        Self::saying(note.kind, fact).with_help(&*note.remedy)
    }

    /// The cause.
    pub fn cause(&self) -> Cause {
        self.note.kind
    }

    /// Sets the remedy.
    pub fn with_help(mut self, remedy: impl Into<String>) -> Self {
        self.note.remedy = remedy.into();
        self
    }

    /// Marks the failure as common to every process of the run.
    pub fn of_all(mut self) -> Self {
        self.of_all = true;
        self
    }

    /// Prefixes every line of the failure with `mark`, which identifies the failed run.
    pub fn marked(self, mark: &str) -> Self {
        self.reworded(|text| {
            let lines: Vec<String> = text.lines().map(|line| format!("{mark}  {line}")).collect();
            lines.join("\n")
        })
    }

    /// The same failure with its text mapped by `words`.
    pub fn reworded(mut self, words: impl Fn(&str) -> String) -> Self {
        self.note.fact = words(&self.note.fact);
        self.note.remedy = words(&self.note.remedy);
        self
    }
}

/// The error and its causes, outermost first. Messages usually contain their cause, which is not
/// repeated.
fn error_text(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        // The problems of a request are several lines, and printable.
        let lines = cause.downcast_ref::<Problems>().map(ToString::to_string);
        let cause = lines.unwrap_or_else(|| printable(&cause.to_string()).into_owned());
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// One that has printable text.
impl From<Note<Cause>> for Failure {
    fn from(note: Note<Cause>) -> Self {
        Self { note, of_all: false }
    }
}

/// Workload and options do not make a plan, or this machine lacks something for it.
impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        Self::from(Note::new(problems.cause(), problems.to_string(), problems.remedy()))
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::bug(error)
    }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, anyhow};

    use super::*;

    #[test]
    fn every_problem_is_listed_with_its_remedy() {
        let mut problems = Problems::default();
        problems.machine("there is no cuda:9", "`stormlp doctor` lists them");
        assert_eq!(problems.cause(), Cause::Machine);
        assert_eq!(problems.to_string(), "there is no cuda:9");
        assert_eq!(problems.remedy(), "`stormlp doctor` lists them");
        problems.plan("--steps is 0", "it must be 1 or more");
        problems.plan("--steps is 0", "it must be 1 or more");
        assert_eq!(problems.cause(), Cause::Plan);
        assert_eq!(problems.remedy(), "");
        assert_eq!(
            problems.to_string(),
            "2 problems:\n  - there is no cuda:9\n    help: `stormlp doctor` lists them\n  \
             - --steps is 0\n    help: it must be 1 or more"
        );
        assert_eq!(Failure::from(problems).cause().exit_code(), 3);
    }

    #[test]
    fn a_cause_is_shown_once() {
        let full = || anyhow!("no space left");
        let bare = Err::<(), _>(full()).context("cannot write a.json");
        let bare = bare.map_err(|error| error_text(&error));
        assert_eq!(bare, Err("cannot write a.json: no space left".to_string()));
        let named = Err::<(), _>(full()).context("write a.npz: no space left");
        let named = named.map_err(|error| error_text(&error));
        assert_eq!(named, Err("write a.npz: no space left".to_string()));
    }
}
