//! How a command ends: an exit code that scripts can rely on, an error, and advice.
//!
//! The README documents the codes; this is the only place where errors are mapped to codes.

use std::fmt::{self, Display};
use std::process::ExitCode;

use stormlp_core::printable::printable;
use stormlp_core::problem::{ProblemKind, Problems};
use stormlp_core::report::FailureCause;
use stormlp_core::workload_file::WorkloadError;

use crate::output;

/// The documented exit codes other than 0. clap also exits with code 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// A bug in stormlp.
    Bug = 1,
    /// The command line is invalid.
    Usage = 2,
    /// Workload and options do not make a valid plan.
    NoPlan = 3,
    /// This machine lacks something the plan needs: device, path, space, permission, data.
    Machine = 4,
    /// Storage or a device failed during the run, or returned wrong data.
    Storage = 5,
    /// The run completed but missed its target.
    MissedTarget = 6,
    /// A comparison found a regression.
    Regressed = 7,
    /// Stopped by the user; partial results were saved.
    Stopped = 130,
}

impl Code {
    /// The code for the exit status of another process.
    pub(crate) fn of(code: u8) -> Self {
        let all = [
            Self::Usage,
            Self::NoPlan,
            Self::Machine,
            Self::Storage,
            Self::MissedTarget,
            Self::Regressed,
            Self::Stopped,
        ];
        let found = all.into_iter().find(|one| *one as u8 == code);
        found.unwrap_or(Self::Bug)
    }
}

/// Why a command failed. `?` on an `anyhow::Error` makes it a bug; every other code is chosen
/// explicitly.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) code: Code,
    /// What went wrong, outermost context first.
    pub(crate) error: anyhow::Error,
    /// What the user can do now: usually the command that fixes it.
    pub(crate) help: Option<String>,
    /// Whether every process of the run fails alike, so that only one reports it.
    pub(crate) of_all: bool,
}

impl Failure {
    /// Creates a failure with `code`.
    pub(crate) fn new(code: Code, error: impl Into<anyhow::Error>) -> Self {
        Self { code, error: error.into(), help: None, of_all: false }
    }

    /// A bug in stormlp (1).
    pub(crate) fn bug(error: impl Into<anyhow::Error>) -> Self {
        Self::new(Code::Bug, error)
    }

    /// Invalid arguments or combination of arguments (2).
    pub(crate) fn usage(message: impl Display) -> Self {
        Self::new(Code::Usage, anyhow::anyhow!("{message}"))
    }

    /// Workload and options do not make a valid plan (3).
    pub(crate) fn no_plan(error: impl Into<anyhow::Error>) -> Self {
        Self::new(Code::NoPlan, error)
    }

    /// This machine lacks something the plan needs (4).
    pub(crate) fn machine(error: impl Into<anyhow::Error>) -> Self {
        Self::new(Code::Machine, error)
    }

    /// Storage or a device failed during the run (5).
    pub(crate) fn storage(error: impl Into<anyhow::Error>) -> Self {
        Self::new(Code::Storage, error)
    }

    /// The run missed its target (6).
    pub(crate) fn missed_target(message: impl Display) -> Self {
        Self::new(Code::MissedTarget, anyhow::anyhow!("{message}"))
    }

    /// A comparison found a regression (7).
    pub(crate) fn regressed(message: impl Display) -> Self {
        Self::new(Code::Regressed, anyhow::anyhow!("{message}"))
    }

    /// The user stopped the run; `message` says what was saved and where (130).
    pub(crate) fn stopped(message: impl Display) -> Self {
        Self::new(Code::Stopped, anyhow::anyhow!("{message}"))
    }

    /// A run that failed because of `cause`; its report contains `remedy` (1, 4 or 5).
    pub(crate) fn of_run(cause: FailureCause, message: impl Display, remedy: &str) -> Self {
        let code = match cause {
            FailureCause::Internal => Code::Bug,
            FailureCause::Resources => Code::Machine,
            FailureCause::Dataset
            | FailureCause::Checkpoint
            | FailureCause::Storage
            | FailureCause::Machine
            | FailureCause::Hosts => Code::Storage,
        };
        Self::new(code, anyhow::anyhow!("{message}")).with_help(remedy)
    }

    /// Adds advice for the user.
    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Marks the failure as common to every process of the run.
    pub(crate) fn of_all(mut self) -> Self {
        self.of_all = true;
        self
    }

    /// Prefixes every line of the failure with `mark`, which identifies the failed run.
    pub(crate) fn marked(self, mark: &str) -> Self {
        self.reworded(|text| {
            let lines: Vec<String> = text.lines().map(|line| format!("{mark}  {line}")).collect();
            lines.join("\n")
        })
    }

    /// The same failure with its text mapped by `words`.
    pub(crate) fn reworded(mut self, words: impl Fn(&str) -> String) -> Self {
        self.error = Page(words(&error_text(&self.error))).into();
        self.help = self.help.map(|help| words(&help));
        self
    }

    /// Prints the failure on stderr and returns its exit code.
    pub(crate) fn report(&self) -> ExitCode {
        output::say_page(&format!("error: {}", error_text(&self.error)));
        if let Some(help) = &self.help {
            output::say(format!("help: {help}"));
        }
        ExitCode::from(self.code as u8)
    }
}

/// A multi-line message in which text from outside is already printable.
#[derive(Debug)]
pub(crate) struct Page(pub(crate) String);

impl Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Page {}

/// The error and its causes, outermost first. Most messages already contain their cause, which is
/// not repeated.
pub(crate) fn error_text(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let has_lines = cause.is::<Problems>() || cause.is::<Page>();
        let cause = match (cause.to_string(), has_lines) {
            (cause, true) => cause,
            (cause, false) => printable(&cause).into_owned(),
        };
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Workload and options do not make a plan, or this machine lacks something for it.
impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        let code = match problems.kind() {
            ProblemKind::Plan => Code::NoPlan,
            ProblemKind::Machine | ProblemKind::Capacity => Code::Machine,
        };
        Self {
            code,
            help: problems.help().map(ToString::to_string),
            error: problems.into(),
            of_all: false,
        }
    }
}

/// The workload file is invalid.
impl From<WorkloadError> for Failure {
    fn from(error: WorkloadError) -> Self {
        Problems::from(error).into()
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

    use super::error_text;

    #[test]
    fn a_cause_is_said_once() {
        let full = || anyhow!("no space left");
        let bare = Err::<(), _>(full()).context("cannot write a.json");
        let bare = bare.map_err(|error| error_text(&error));
        assert_eq!(bare, Err("cannot write a.json: no space left".to_string()));
        let named = Err::<(), _>(full()).context("write a.npz: no space left");
        let named = named.map_err(|error| error_text(&error));
        assert_eq!(named, Err("write a.npz: no space left".to_string()));
    }
}
