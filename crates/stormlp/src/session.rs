//! What every command is given besides its arguments: the stop token, the clock's date and where
//! progress goes.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use chrono::{DateTime, SecondsFormat, Utc};
use stormlp_core::facts::HostFacts;
use stormlp_core::impairment::{Fault, Throttle};
use stormlp_core::shell::shell_word;
use stormlp_core::stop::StopToken;
use stormlp_hosts::Group;
use stormlp_transfer::cufile::probe::TIME_LIMIT;
use stormlp_transfer::probe;
use stormlp_transfer::storage::{self, Storage};

use crate::exit::Failure;
use crate::output;
use crate::progress::Progress;

/// When people begin to wonder whether anything goes on.
const SLOW_PROBE: Duration = Duration::from_secs(5);

/// The surroundings of one run of the program.
pub(crate) struct Session {
    /// Pulled by SIGINT, SIGTERM and SIGHUP.
    pub(crate) stop: StopToken,
    /// Whether progress is unwanted.
    pub(crate) quiet: bool,
    /// Where runs find their files.
    pub(crate) storage: Arc<dyn Storage>,
    /// The same without injected faults, which are the run's: for what is tried before it.
    pub(crate) trial_storage: Arc<dyn Storage>,
    /// What is run: `gds`, `train`.
    pub(crate) command: &'static str,
    /// The processes of this run, on this host and on others.
    pub(crate) group: Arc<Group>,
    started_at: DateTime<Utc>,
}

impl Session {
    /// The surroundings of a program that started now, to run a command with others.
    pub(crate) fn new(
        stop: StopToken,
        quiet: bool,
        throttle: Option<Throttle>,
        faults: &[Fault],
        (command, group): (&'static str, Arc<Group>),
    ) -> Self {
        Self {
            stop,
            // One process speaks for all.
            quiet: quiet || !group.leads(),
            storage: storage::impaired(throttle, faults),
            trial_storage: storage::impaired(throttle, &[]),
            command,
            group,
            started_at: Utc::now(),
        }
    }

    /// An observer that draws progress on stderr.
    pub(crate) fn progress(&self) -> Progress {
        Progress::new(self.quiet)
    }

    /// This machine with its GPU libraries, which are tried in `directory` where one is given.
    ///
    /// # Errors
    /// When the path of this executable cannot be told, or the user ends it.
    pub(crate) fn host_facts(&self, directory: Option<&Path>) -> Result<HostFacts, Failure> {
        let patience = self.patience();
        let facts = probe::host_facts_with_libraries(&self.executable()?, directory, &patience);
        if self.stop.is_stopped() {
            Err(Failure::stopped("stopped by the user while probing GPU libraries"))
        } else {
            Ok(facts)
        }
    }

    /// Waits for GPU libraries until the user ends it, and says once that it does.
    pub(crate) fn patience(&self) -> impl Fn(Duration) -> bool + use<'_> {
        let announced = Cell::new(self.quiet);
        move |taken| {
            if taken >= SLOW_PROBE && !announced.replace(true) {
                output::say(format!(
                    "GPU libraries have not responded for {} s; the timeout is {} s",
                    SLOW_PROBE.as_secs(),
                    TIME_LIMIT.as_secs()
                ));
            }
            !self.stop.is_stopped()
        }
    }

    /// This executable, for starting it again as the child that opens libraries.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub(crate) fn executable(&self) -> Result<PathBuf, Failure> {
        std::env::current_exe()
            .context(
                "cannot determine the path of this executable, which is needed to probe libraries",
            )
            .map_err(Failure::machine)
    }

    /// The command line as it was typed, quoted for a shell where that is needed.
    pub(crate) fn command_line(&self) -> String {
        // Not every path is text; what is not is shown as well as it can be.
        let words = std::env::args_os().map(|word| shell_word(&word.to_string_lossy()));
        words.collect::<Vec<String>>().join(" ")
    }

    /// The same without an option that takes a value.
    pub(crate) fn command_line_without(&self, option: &str) -> String {
        let mut words = Vec::new();
        let mut typed = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        while let Some(word) = typed.next() {
            match word.strip_prefix(option) {
                // Its value is the next word.
                Some("") => drop(typed.next()),
                Some(rest) if rest.starts_with('=') => {}
                _ => words.push(shell_word(&word)),
            }
        }
        words.join(" ")
    }

    /// When the program started, RFC 3339 in UTC: `2026-11-21T07:25:00Z`.
    pub(crate) fn started_at(&self) -> String {
        self.started_at.to_rfc3339_opts(SecondsFormat::Secs, true)
    }

    /// What time it is, as [`Self::started_at`].
    pub(crate) fn now() -> String {
        Utc::now().to_rfc3339_opts(SecondsFormat::Secs, true)
    }

    /// The same moment for names of folders: `20261121-072500`.
    pub(crate) fn file_stamp(&self) -> String {
        self.started_at.format("%Y%m%d-%H%M%S").to_string()
    }
}
