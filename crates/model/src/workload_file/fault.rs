//! What is wrong with a workload file.

use std::fmt;

/// One thing wrong with a workload file or a `--params`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Line and column, from 1; `None` for what has no place in a text.
    pub place: Option<(usize, usize)>,
    /// What is wrong and what to write instead.
    pub message: String,
}

/// A workload that cannot be read: everything that is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadError {
    /// The file's name, or `--params`.
    pub source_name: String,
    /// What is wrong, in the file's order; never empty.
    pub faults: Vec<Fault>,
}

impl WorkloadError {
    /// Faults of `source_name` that have no place in a text.
    pub(crate) fn new(source_name: &str, messages: Vec<String>) -> Self {
        let fault = |message| Fault {
            place: None,
            message,
        };
        Self {
            source_name: source_name.to_string(),
            faults: messages.into_iter().map(fault).collect(),
        }
    }
}

impl std::error::Error for WorkloadError {}

impl fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{}", self.source_name)?;
            if let Some((line, column)) = fault.place {
                write!(f, ":{line}:{column}")?;
            }
            write!(f, ": {}", fault.message)?;
        }
        Ok(())
    }
}
