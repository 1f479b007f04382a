//! What is wrong with a request: all of it, not only the first thing.

use std::fmt;

/// Whose fault a problem is; decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemKind {
    /// The request contradicts itself or asks for the absurd.
    Plan,
    /// The request is fine, this machine is not: no device, no space, no permission.
    Machine,
}

/// One thing that is wrong, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Whose fault it is.
    pub kind: ProblemKind,
    /// What is wrong, and where.
    pub message: String,
    /// What would mend it.
    pub help: String,
}

/// Everything that is wrong with a request; never empty when it is an error.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Adds a contradiction of the request.
    pub fn plan(&mut self, message: impl Into<String>, help: impl Into<String>) {
        self.push(ProblemKind::Plan, message.into(), help.into());
    }

    /// Adds something this machine lacks.
    pub fn machine(&mut self, message: impl Into<String>, help: impl Into<String>) {
        self.push(ProblemKind::Machine, message.into(), help.into());
    }

    fn push(&mut self, kind: ProblemKind, message: String, help: String) {
        let problem = Problem {
            kind,
            message,
            help,
        };
        // A matrix runs into the same problem once for each of its cells.
        if !self.0.contains(&problem) {
            self.0.push(problem);
        }
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The problems in the order they were found.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter()
    }

    /// What the exit code is to say: the request's own faults come before the machine's.
    pub fn kind(&self) -> ProblemKind {
        if self.0.iter().any(|p| p.kind == ProblemKind::Plan) {
            ProblemKind::Plan
        } else {
            ProblemKind::Machine
        }
    }

    /// What would mend them, one after the other.
    pub fn help(&self) -> String {
        let mut lines: Vec<&str> = Vec::new();
        for problem in &self.0 {
            if !problem.help.is_empty() && !lines.contains(&problem.help.as_str()) {
                lines.push(&problem.help);
            }
        }
        lines.join("; ")
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [only] => write!(f, "{}", only.message),
            several => {
                write!(f, "{} things are wrong:", several.len())?;
                several
                    .iter()
                    .try_for_each(|problem| write!(f, "\n  - {}", problem.message))
            }
        }
    }
}

impl std::error::Error for Problems {}
