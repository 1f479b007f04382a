//! What keeps a checkpoint run from starting: all of it, each with what would mend it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Whose fault a problem is; decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// Workload and options make no valid plan.
    Plan,
    /// This machine lacks something: space, a directory, a path, checkpoints to read.
    Machine,
}

/// One thing that keeps a run from starting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Whose fault it is.
    pub kind: ProblemKind,
    /// What is wrong, with its numbers.
    pub what: String,
    /// What to do now.
    pub remedy: String,
}

impl Problem {
    /// Workload and options make no valid plan.
    pub fn plan(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            kind: ProblemKind::Plan,
            what: what.into(),
            remedy: remedy.into(),
        }
    }

    /// This machine lacks something.
    pub fn machine(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            kind: ProblemKind::Machine,
            what: what.into(),
            remedy: remedy.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}
