//! The context of every command, apart from its arguments: stop token, storage, start time, the
//! other processes, and where messages go.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use chrono::{DateTime, SecondsFormat, Utc};
use stormlp_core::event::Observer;
use stormlp_core::facts::HostFacts;
use stormlp_core::impairment::{Fault, Throttle};
use stormlp_core::location::Location;
use stormlp_core::path::PathKind;
use stormlp_core::shell::CommandLine;
use stormlp_core::stop::StopToken;
use stormlp_core::transport::Devices;
use stormlp_core::verify::Verify;
use stormlp_transfer::cufile::probe::TIME_LIMIT;
use stormlp_transfer::probe;
use stormlp_transfer::run_context;
use stormlp_transfer::storage::{self, Storage};

use crate::group::Group;
use crate::peers::Peers;
use stormlp_core::failure::Failure;

/// When users begin to wonder whether the program hangs.
const SLOW_PROBE: Duration = Duration::from_secs(5);

/// How messages and progress reach the user.
#[derive(Debug, Clone, Copy)]
pub struct Screen {
    /// Prints a line.
    pub say: fn(&str),
    /// Makes an observer that draws progress, unless it is `quiet`.
    pub progress: fn(quiet: bool) -> Box<dyn Observer>,
}

/// The context of one run of the program.
pub struct Session {
    /// Pulled by SIGINT, SIGTERM and SIGHUP.
    pub stop: StopToken,
    /// Whether progress output is disabled.
    pub quiet: bool,
    /// The storage on which runs access their files.
    pub storage: Arc<dyn Storage>,
    /// The same without injected faults, which belong to the run: for trials before it.
    pub trial_storage: Arc<dyn Storage>,
    /// The command: `gds`, `train`.
    pub command: &'static str,
    /// The processes of this run, on all hosts.
    pub group: Arc<Group>,
    screen: Screen,
    started_at: DateTime<Utc>,
}

impl Session {
    /// The context of a program that starts now and runs a command with `group`, which verifies
    /// objects as `verify_objects` says.
    pub fn new(
        stop: StopToken,
        quiet: bool,
        (throttle, faults): (Option<Throttle>, &[Fault]),
        verify_objects: Verify,
        (command, group): (&'static str, Arc<Group>),
        screen: Screen,
    ) -> Self {
        Self {
            stop,
            // Only one process prints progress.
            quiet: quiet || !group.leads(),
            storage: storage::of_run(throttle, faults, verify_objects),
            trial_storage: storage::of_run(throttle, &[], verify_objects),
            command,
            group,
            screen,
            started_at: run_context::utc(),
        }
    }

    /// An observer that draws progress.
    pub fn progress(&self) -> Box<dyn Observer> {
        (self.screen.progress)(self.quiet)
    }

    /// Shows a line to the user.
    pub fn say(&self, message: impl AsRef<str>) {
        (self.screen.say)(message.as_ref());
    }

    /// The facts of this machine and its GPU libraries, which are tried in `directory` if given.
    ///
    /// # Errors
    /// If the path of this executable cannot be determined, or the user stops the probe.
    pub fn host_facts(&self, directory: Option<&Path>) -> Result<HostFacts, Failure> {
        let patience = self.patience();
        let facts = probe::host_facts_with_libraries(&self.executable()?, directory, &patience);
        if self.stop.is_stopped() {
            Err(Failure::stopped("stopped by the user while probing GPU libraries"))
        } else {
            Ok(facts)
        }
    }

    /// The facts for a run with files at `places`. GPU libraries are tried, in `directory` if
    /// given, only if it `uses_gpu`.
    ///
    /// # Errors
    /// As [`Self::host_facts`].
    pub fn facts_of_run<'a>(
        &self,
        (uses_gpu, directory): (bool, Option<&Path>),
        places: impl IntoIterator<Item = &'a Path>,
    ) -> Result<HostFacts, Failure> {
        let mut facts = if uses_gpu { self.host_facts(directory)? } else { probe::host_facts() };
        facts.storage = probe::storage_of_run(places);
        Ok(facts)
    }

    /// The facts for a run with transfers over `path` to `device`, with data in `folders`.
    ///
    /// # Errors
    /// As [`Self::host_facts`].
    pub fn facts_of_path(
        &self,
        path: PathKind,
        device: Option<&Devices>,
        folders: &[Location],
    ) -> Result<HostFacts, Failure> {
        let uses_gpu = match device {
            Some(devices) => devices.any_gpu() || path.needs_cufile(),
            None => path.ends_in_accelerator(),
        };
        let folders = || folders.iter().map(Location::folder);
        self.facts_of_run((uses_gpu, folders().next()), folders())
    }

    /// The processes of this run; with `local_storage`, each host has its data in a folder of its own.
    ///
    /// # Errors
    /// If they cannot work together; all of them fail alike then.
    pub fn peers(&self, local_storage: bool) -> Result<Peers, Failure> {
        Peers::introduce(&self.group, self.command, local_storage, probe::host_facts)
    }

    /// Waits for GPU libraries until the user stops it, with one message that it waits.
    pub fn patience(&self) -> impl Fn(Duration) -> bool + use<'_> {
        let announced = Cell::new(self.quiet);
        move |taken| {
            if taken >= SLOW_PROBE && !announced.replace(true) {
                self.say(format!(
                    "GPU libraries have not responded for {} s; the timeout is {} s",
                    SLOW_PROBE.as_secs(),
                    TIME_LIMIT.as_secs()
                ));
            }
            !self.stop.is_stopped()
        }
    }

    /// The path of this executable, which is started again as the child that loads libraries.
    ///
    /// # Errors
    /// If the kernel does not return it.
    pub fn executable(&self) -> Result<PathBuf, Failure> {
        std::env::current_exe()
            .context(
                "cannot determine the path of this executable, which is needed to probe libraries",
            )
            .map_err(Failure::machine)
    }

    /// The command line as it was typed.
    pub fn command_line() -> CommandLine {
        // Not every path is UTF-8; other bytes are replaced.
        CommandLine::new(std::env::args_os().map(|word| word.to_string_lossy().into_owned()))
    }

    /// Start time of the program, RFC 3339 in UTC: `2026-11-21T07:25:00Z`.
    pub fn started_at(&self) -> String {
        self.started_at.to_rfc3339_opts(SecondsFormat::Secs, true)
    }

    /// The start time for names of folders: `20261121-072500`.
    pub fn file_stamp(&self) -> String {
        self.started_at.format("%Y%m%d-%H%M%S").to_string()
    }
}
