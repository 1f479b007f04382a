//! Errors of process groups.

use std::time::Duration;

use stormlp_core::failure::Failure;
use stormlp_core::note::{Cause, Note};

/// Why processes cannot work together, or no longer can.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// A launcher started several processes, but no library on this host lets them find each other,
    /// or the chosen one sees another number of processes.
    #[error("{}", .0.fact)]
    NotJoined(Note<Cause>),
    /// A stop was requested while other processes did not respond.
    #[error("stopped {during}; the other hosts had not responded yet")]
    Stopped {
        /// The operation in progress.
        during: &'static str,
    },
    /// Other processes did not arrive.
    #[error("{} did not respond for {} s, {during}", silent(.who), .waited.as_secs())]
    Silent {
        /// Which ones, if known.
        who: Vec<String>,
        /// The operation in progress, such as `at a barrier`.
        during: &'static str,
        /// The waiting time.
        waited: Duration,
    },
    /// This process itself was suspended.
    #[error("this process was suspended for {} s, and the other hosts went on without it", .for_time.as_secs())]
    StoodStill {
        /// The duration.
        for_time: Duration,
    },
    /// The library failed.
    #[error("the connection to the other hosts failed {during}: {why}")]
    Lost {
        /// The operation in progress.
        during: &'static str,
        /// The library's error message.
        why: String,
    },
}

/// The silent processes as text.
fn silent(who: &[String]) -> String {
    if who.is_empty() { "the other hosts".to_string() } else { who.join(", ") }
}

impl GroupError {
    /// Adds the names of the processes that did not arrive.
    #[must_use]
    pub fn of(self, who: Vec<String>) -> Self {
        match self {
            Self::Silent { during, waited, .. } => Self::Silent { who, during, waited },
            other => other,
        }
    }

    /// Adds the operation that was in progress.
    #[must_use]
    pub fn during(self, what: &'static str) -> Self {
        match self {
            Self::Silent { who, waited, .. } => Self::Silent { who, during: what, waited },
            other => other,
        }
    }

    /// The next step for the user.
    pub fn remedy(&self) -> &str {
        match self {
            Self::NotJoined(note) => &note.remedy,
            Self::Stopped { .. } => "",
            Self::Silent { .. } => {
                "check that stormlp still runs on every host and that its storage responds; \
                 STORMLP_BARRIER_TIMEOUT=30s gives slow hosts more time"
            }
            Self::StoodStill { .. } => {
                "find out what suspended it or took its CPUs, and start again"
            }
            Self::Lost { .. } => "look for the first error on the other hosts, and start again",
        }
    }
}

impl From<GroupError> for Failure {
    fn from(error: GroupError) -> Self {
        let cause = match &error {
            GroupError::NotJoined(note) => note.kind,
            GroupError::Stopped { .. } => Cause::Stopped,
            GroupError::Silent { .. } | GroupError::StoodStill { .. } | GroupError::Lost { .. } => {
                Cause::Hosts
            }
        };
        let remedy = error.remedy().to_string();
        Self::new(cause, error).with_help(remedy)
    }
}
