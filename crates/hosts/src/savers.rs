//! Saves the report of a run, in the leading process of several.

use std::path::{Path, PathBuf};

use serde::Serialize;
use stormlp_core::facts::HostFacts;
use stormlp_core::failure::Failure;
use stormlp_core::report::ReportKind;
use stormlp_core::transport::DeviceId;
use stormlp_transfer::{cuda, cufile};

use crate::party::Party;
use crate::saver::{Saver, results_folder};
use crate::session::Session;

/// See the [module's description](self).
#[derive(Debug)]
pub struct Savers {
    /// `None` unless this is the leading process.
    saver: Option<Saver>,
    /// The folder of the run, as all processes see it if it is shared.
    folder: PathBuf,
}

/// The path of a finished report, or why it could not be saved.
pub type Finished = Result<PathBuf, Failure>;

impl Savers {
    /// Creates the folder of the run called `name` in `results`, by default [`results_folder`].
    ///
    /// # Errors
    /// With exit code 4 if it cannot be created; all processes fail alike then.
    pub fn create(
        results: Option<&Path>,
        named: (ReportKind, &str),
        party: &Party,
        session: &Session,
    ) -> Result<Self, Failure> {
        let create = || Saver::create(results, named, session);
        let saver = party.agree(session.group.leads().then(create).transpose())?;
        let own = saver.as_ref().map(|saver| saver.folder().to_path_buf());
        if party.is_alone() {
            return Ok(Self { folder: own.unwrap_or_default(), saver });
        }
        let name = own.and_then(|own| own.file_name().map(PathBuf::from));
        let results = results.map_or_else(results_folder, Path::to_path_buf);
        Ok(Self { folder: results.join(party.from_first(&name)?), saver })
    }

    /// For a run that resumes the report of `kind` at `path`.
    pub fn resume(path: &Path, kind: ReportKind, session: &Session) -> Self {
        let saver = session.group.leads().then(|| Saver::resume(path, kind));
        Self { saver, folder: path.parent().unwrap_or(Path::new("")).to_path_buf() }
    }

    /// The path of the report.
    pub fn path(&self) -> PathBuf {
        self.folder.join("report.json")
    }

    /// The folder of the run.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Sets the environment variables that cuFile and CUDA read when they are opened: cuFile's log
    /// goes next to the report, a fallback is disabled if it is an error, and of the GPUs of `host`
    /// only `devices` are visible. Then has cuFile's calls watched: one
    /// that hangs ends the run. Must be called before the first thread starts. An error is ignored:
    /// the log then goes where the user chose, or to the current directory.
    pub fn prepare_cufile(
        &self,
        require_gds: bool,
        devices: impl IntoIterator<Item = DeviceId>,
        host: &HostFacts,
    ) {
        cuda::show_only(devices.into_iter().filter_map(DeviceId::gpu_index), host);
        if require_gds {
            cufile::forbid_compat_mode();
        }
        if self.saver.is_some() {
            let _ = cufile::send_log_to(&self.folder.join("cufile.log"));
            // Without another thread the run goes on unwatched.
            let _ = cufile::watch_calls(&self.path());
        }
    }

    /// Saves a completed cell of a matrix.
    pub fn cell(&mut self, cell: &impl Serialize) {
        if let Some(saver) = &mut self.saver {
            saver.cell(cell);
        }
    }

    /// Saves a completed epoch: as a line, or with the whole report so far.
    pub fn epoch<R: Serialize>(&mut self, epoch: &impl Serialize, report: impl FnOnce() -> R) {
        if let Some(saver) = &mut self.saver {
            saver.epoch(epoch, report);
        }
    }

    /// Saves the results so far, unless that takes too much of the run.
    pub fn unit<R: Serialize>(&mut self, report: impl FnOnce() -> R) {
        if let Some(saver) = &mut self.saver {
            saver.unit(report);
        }
    }

    /// Saves the report of a starting run.
    ///
    /// # Errors
    /// With exit code 4 if it cannot be written.
    pub fn begin(&mut self, report: &impl Serialize) -> Result<(), Failure> {
        self.saver.as_mut().map_or(Ok(()), |saver| saver.begin(report))
    }

    /// Saves the finished report; `None` unless this is the leading process.
    pub fn finish(self, report: &impl Serialize) -> Option<Finished> {
        self.saver.map(|saver| saver.finish(report))
    }
}
