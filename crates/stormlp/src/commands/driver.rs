//! The driver of the commands that measure: `gds`, `gdsio`, `train`, `checkpoint` and `kvcache` each
//! make a plan with the other hosts; from there to the report that is saved and shown, all of them
//! go the same way.

use std::path::Path;

use serde::Serialize;
use stormlp_core::failure::Failure;
use stormlp_core::note::Cause;
use stormlp_core::report::{Ending, Report};
use stormlp_core::transport::DeviceId;
use stormlp_hosts::fate::{blame_launcher, shared_fate};
use stormlp_hosts::multi_host::Hosts;
use stormlp_hosts::peers::Peers;
use stormlp_hosts::saver::Saver;
use stormlp_hosts::session::Session;
use stormlp_mlperf::official::OutputFile;
use stormlp_transfer::run_context::{self, RunContext};
use stormlp_transfer::signals::gave_up;
use stormlp_transfer::storage;

use super::deliver::{self, Delivery};
use crate::any_report::AnyReport;
use crate::output;
use crate::progress::Progress;

/// A planned run.
pub(crate) struct Start<P, R> {
    /// Its report, without results.
    pub(crate) report: Report<P, R>,
    /// The message at its start; none if empty.
    pub(crate) opening: String,
    /// If it opens cuFile: whether it requires GPUDirect Storage, and the devices of its transfers.
    pub(crate) cufile: Option<(bool, Vec<DeviceId>)>,
    /// Its hosts, if there are several.
    pub(crate) hosts: Option<Hosts>,
}

/// The part of a run that differs from command to command.
pub(crate) trait Lane<P, R> {
    /// Runs the plan of the `begun` report, and saves results after every unit of work.
    ///
    /// # Errors
    /// If there is no measurement. A run that ends early says so in its report.
    fn run(&mut self, begun: Report<P, R>, running: Running<'_>) -> Result<Report<P, R>, Failure>;

    /// The files of MLPerf's tools for `folder`, from the names already `taken` there.
    fn mlperf_files(
        &self,
        _report: &Report<P, R>,
        _folder: &Path,
        _taken: &dyn Fn(&str) -> bool,
    ) -> Vec<OutputFile> {
        Vec::new()
    }

    /// The end of the command with its report `saved` there.
    ///
    /// # Errors
    /// Why the run ended early, or the target that it missed.
    fn outcome(&self, report: &Report<P, R>, saved: Option<&Path>) -> Result<(), Failure>;
}

/// The context of a running lane.
pub(crate) struct Running<'a> {
    /// The hosts of the run, if there are several.
    pub(crate) hosts: Option<&'a Hosts>,
    /// Saves the results so far.
    pub(crate) saver: &'a mut Saver,
    /// Draws the progress, also as the observer of `surroundings`.
    pub(crate) progress: &'a Progress,
    /// The storage, the observer and the stop token.
    pub(crate) surroundings: RunContext<'a>,
}

/// The folders that a run writes in addition to its data.
pub(crate) struct Outputs<'a> {
    delivery: &'a Delivery,
    /// The folder of files for MLPerf's tools, in the process that writes them.
    mlperf: Option<&'a Path>,
    saver: Saver,
}

impl<'a> Outputs<'a> {
    /// Creates the folder of the report of a run called `name`, and the one for MLPerf's tools, if
    /// it is given.
    ///
    /// # Errors
    /// If one of them cannot be created.
    pub(crate) fn create(
        name: &str,
        (delivery, mlperf): (&'a Delivery, Option<&'a Path>),
        (peers, session): (&Peers, &Session),
    ) -> Result<Self, Failure> {
        let mlperf = mlperf.filter(|_| session.group.leads());
        peers.agree(deliver::make_mlperf_folder(mlperf))?;
        let saver = delivery.saver(name, peers, session)?;
        Ok(Self { delivery, mlperf, saver })
    }
}

/// Runs `lane`, saves and delivers its report, and writes the files for MLPerf's tools.
///
/// # Errors
/// With an exit code of docs/troubleshooting.md.
pub(crate) fn drive<P: Serialize + Clone, R: Serialize + Clone>(
    start: Start<P, R>,
    mut lane: impl Lane<P, R>,
    outputs: Outputs<'_>,
    (peers, session): (&Peers, &Session),
) -> Result<(), Failure>
where
    AnyReport: From<Report<P, R>>,
{
    let Outputs { delivery, mlperf: mlperf_output, mut saver } = outputs;
    let hosts = peers.with_waiting_notes(start.hosts, saver.folder())?;
    let hosts = hosts.as_ref();
    if !session.quiet && !start.opening.is_empty() {
        output::say_page(&start.opening);
    }
    if let Some((require_gds, devices)) = start.cufile {
        saver.prepare_cufile(require_gds, devices, &start.report.head.host);
    }
    saver.begin(&start.report)?;
    let progress = &Progress::new(session.quiet);
    let surroundings =
        RunContext { storage: &session.storage, observer: progress, stop: &session.stop };
    let running = Running { hosts, saver: &mut saver, progress, surroundings };
    let mut report = lane.run(start.report, running)?;
    report.warnings.extend(storage::refusals().chain(run_context::clock_step()));
    // Requests that failed for it are its consequence.
    if gave_up() && matches!(&report.ending, Ending::Failed(note) if note.kind == Cause::Storage) {
        report.ending = Ending::Stopped;
    }
    blame_launcher(&mut report.ending, hosts, &session.stop);
    let for_mlperf = mlperf_output.map_or(Ok(()), |folder| {
        deliver::write_mlperf(folder, |taken| lane.mlperf_files(&report, folder, taken))
    });
    let ended = |saved: Option<&Path>| lane.outcome(&report, saved).and(for_mlperf);
    let went = delivery.finish(saver, &report, session, ended);
    went.map_err(|failure| shared_fate(failure, &report.ending, hosts))
}
