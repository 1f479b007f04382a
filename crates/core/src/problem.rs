//! The problems of a request: all of them, not only the first, each with its remedy.

use std::fmt;

use derive_more::Deref;
use serde::{Deserialize, Serialize};

use crate::printable::printable;

/// The cause of a problem; determines the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// The workload and options do not form a valid plan.
    Plan,
    /// The request is fine, but this machine is not: no device, no permission, no data.
    Machine,
    /// The request is fine, but this machine is too small for it: too little space or memory. The
    /// plan can still be shown.
    Capacity,
}

/// A problem and its remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The cause.
    pub kind: ProblemKind,
    /// What is wrong and where, with the figures.
    pub message: String,
    /// The remedy; empty if the message is sufficient.
    pub help: String,
}

/// Everything wrong with a request; never empty when it is an error.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Deref)]
#[serde(transparent)]
#[deref(forward)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Adds a contradiction of the request.
    pub fn plan(&mut self, message: impl Into<String>, help: impl Into<String>) {
        self.push(ProblemKind::Plan, message.into(), help.into());
    }

    /// Adds something this machine does not have.
    pub fn machine(&mut self, message: impl Into<String>, help: impl Into<String>) {
        self.push(ProblemKind::Machine, message.into(), help.into());
    }

    /// Adds a capacity this machine has too little of.
    pub fn capacity(&mut self, message: impl Into<String>, help: impl Into<String>) {
        self.push(ProblemKind::Capacity, message.into(), help.into());
    }

    fn push(&mut self, kind: ProblemKind, message: String, help: String) {
        let problem = Problem { kind, message, help };
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

    /// The kind that determines the exit code. Problems of the request take precedence over those
    /// of the machine: no machine would help then.
    pub fn kind(&self) -> ProblemKind {
        let is_there = |kind: &ProblemKind| self.0.iter().any(|p| p.kind == *kind);
        let kinds = [ProblemKind::Plan, ProblemKind::Machine];
        kinds.into_iter().find(is_there).unwrap_or(ProblemKind::Capacity)
    }

    /// The common remedy of all problems; `None` if each has its own, which is then shown next to
    /// it.
    pub fn help(&self) -> Option<&str> {
        let help = self.0.first()?.help.as_str();
        let shared = !help.is_empty() && self.0.iter().all(|problem| problem.help == help);
        shared.then_some(help)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return write!(f, "{}", printable(&only.message));
        }
        write!(f, "{} things are wrong:", self.0.len())?;
        for problem in &self.0 {
            write!(f, "\n  - {}", printable(&problem.message))?;
            if self.help().is_none() && !problem.help.is_empty() {
                write!(f, "\n    help: {}", printable(&problem.help))?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_listed_with_its_remedy() {
        let mut problems = Problems::default();
        problems.machine("there is no cuda:9", "`stormlp doctor` lists them");
        assert_eq!(problems.kind(), ProblemKind::Machine);
        assert_eq!(problems.to_string(), "there is no cuda:9");
        assert_eq!(problems.help(), Some("`stormlp doctor` lists them"));
        problems.plan("--steps is 0", "it must be 1 or more");
        problems.plan("--steps is 0", "it must be 1 or more");
        assert_eq!(problems.kind(), ProblemKind::Plan);
        assert_eq!(problems.help(), None);
        assert_eq!(
            problems.to_string(),
            "2 things are wrong:\n  - there is no cuda:9\n    help: `stormlp doctor` lists them\n  \
             - --steps is 0\n    help: it must be 1 or more"
        );
    }
}
