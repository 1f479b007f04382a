//! Why a plan cannot be made: all reasons at once, each with what to do about it.

use std::fmt;

/// Whose fault a problem is, which decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemKind {
    /// Workload and options do not go together.
    Plan,
    /// This machine lacks what the plan needs: data, memory.
    Machine,
}

/// One reason why a plan cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Whose fault it is.
    pub kind: ProblemKind,
    /// What is wrong, with both numbers where two disagree.
    pub message: String,
    /// What to type instead.
    pub help: String,
}

impl Problem {
    /// Workload and options do not go together.
    pub(super) fn plan(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            kind: ProblemKind::Plan,
            message: message.into(),
            help: help.into(),
        }
    }

    /// This machine lacks something.
    pub(super) fn machine(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            kind: ProblemKind::Machine,
            message: message.into(),
            help: help.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        if !self.help.is_empty() {
            write!(f, "; {}", self.help)?;
        }
        Ok(())
    }
}

/// Every reason why a plan cannot be made; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// [`ProblemKind::Plan`] if any problem is of that kind: no machine would help then.
    pub fn kind(&self) -> ProblemKind {
        if self
            .0
            .iter()
            .any(|problem| problem.kind == ProblemKind::Plan)
        {
            ProblemKind::Plan
        } else {
            ProblemKind::Machine
        }
    }
}

impl std::error::Error for Problems {}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}
