//! Errors in a workload file.

use std::fmt;

use crate::failure::{Failure, Problems};

/// An error in a workload file or a `--params` option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadFault {
    /// Line and column, from 1; `None` if it has no position in a text.
    pub place: Option<(usize, usize)>,
    /// The fault and its correction.
    pub message: String,
}

/// All errors of a workload that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadError {
    /// The file's name, or `--params`.
    pub source_name: String,
    /// The errors in file order; never empty.
    pub faults: Vec<WorkloadFault>,
}

impl WorkloadError {
    /// Errors of `source_name` without a position.
    pub fn new(source_name: &str, messages: Vec<String>) -> Self {
        let fault = |message| WorkloadFault { place: None, message };
        Self {
            source_name: source_name.to_string(),
            faults: messages.into_iter().map(fault).collect(),
        }
    }

    /// Each error with its position.
    fn lines(&self) -> impl Iterator<Item = String> {
        self.faults.iter().map(|fault| {
            let place = match fault.place {
                Some((line, column)) => format!(":{line}:{column}"),
                None => String::new(),
            };
            format!("{}{place}: {}", self.source_name, fault.message)
        })
    }
}

impl From<WorkloadError> for Problems {
    fn from(error: WorkloadError) -> Self {
        let mut problems = Self::default();
        for line in error.lines() {
            problems.plan(line, "");
        }
        problems
    }
}

impl From<WorkloadError> for Failure {
    fn from(error: WorkloadError) -> Self {
        Problems::from(error).into()
    }
}

impl std::error::Error for WorkloadError {}

impl fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.lines().collect();
        f.write_str(&lines.join("\n"))
    }
}
