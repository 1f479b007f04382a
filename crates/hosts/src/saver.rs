//! The folder of a run: created before the first byte moves; results are saved after every unit, by
//! the leading process of several.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;
use stormlp_core::facts::HostFacts;
use stormlp_core::failure::Failure;
use stormlp_core::json::{self, Integrity};
use stormlp_core::note::Cause;
use stormlp_core::transport::DeviceId;
use stormlp_transfer::storage::{self, Disk, Storage as _};
use stormlp_transfer::{TransferError, cuda, cufile, is_full, watchdog};

use crate::journal::Journal;
use crate::peers::Peers;
use crate::session::Session;

/// Advice if the folder for reports cannot be written.
const RESULTS_HELP: &str =
    "name a folder that you may write to: --results-dir DIR or STORMLP_RESULTS_DIR";
/// The default folder for reports.
const DEFAULT_RESULTS: &str = "stormlp-results";

/// Saves the report of one run. A run that ends before anything was measured leaves no files.
#[derive(Debug)]
pub struct Saver {
    path: PathBuf,
    /// Whether this process saves: it is the leading one.
    leads: bool,
    /// The units that are not in the report yet.
    journal: Journal,
    /// The folders created for it, innermost first.
    made: Vec<PathBuf>,
    keep: bool,
    unsaved: Option<anyhow::Error>,
    /// When the last save of a unit ended, and how long it took.
    last: Option<(Instant, Duration)>,
    /// The epochs so far, and how many of them are in the saved report. The whole report is saved
    /// when there are twice as many: all reports together then write about twice the bytes of the
    /// last one.
    epochs: u64,
    saved_epochs: u64,
}

impl Saver {
    /// Creates a new folder for the run in `results`, by default [`results_folder`], named after
    /// the run and the time.
    ///
    /// # Errors
    /// With exit code 4 if it cannot be created; all processes fail alike then.
    pub fn create(
        results: Option<&Path>,
        name: &str,
        peers: &Peers,
        session: &Session,
    ) -> Result<Self, Failure> {
        let results = results.map_or_else(results_folder, Path::to_path_buf);
        let stem = format!("{}-{}", safe(name), session.file_stamp());
        let create = || {
            let (folder, made) = new_folder(&results, &stem)?;
            Ok(Self::at(&folder.join("report.json"), true, made))
        };
        let saver = peers.agree(session.group.leads().then(create).transpose())?;
        // Other programs may create folders there, too: the number in the name is the first
        // process's.
        let name = saver.as_ref().and_then(|saver| saver.folder().file_name().map(PathBuf::from));
        let folder = results.join(peers.from_first(&name)?);
        Ok(saver.unwrap_or_else(|| Self::at(&folder.join("report.json"), false, Vec::new())))
    }

    /// Continues the report at `path`.
    pub fn resume(path: &Path, session: &Session) -> Self {
        let mut saver = Self::at(path, session.group.leads(), Vec::new());
        saver.keep = true;
        saver
    }

    fn at(path: &Path, leads: bool, made: Vec<PathBuf>) -> Self {
        Self {
            path: path.to_path_buf(),
            leads,
            journal: Journal::of(path),
            made,
            // Another process's folder is left alone.
            keep: !leads,
            unsaved: None,
            last: None,
            epochs: 0,
            saved_epochs: 0,
        }
    }

    /// The folder of the run, as all processes see it if it is shared.
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// Sets the environment variables that cuFile and CUDA read when they are opened: cuFile's log
    /// goes next to the report, a fallback is disabled if it is an error, and of the GPUs of `host`
    /// only `devices` are visible. Must be called before the first thread starts. An error is ignored:
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
        if self.leads {
            let _ = cufile::send_log_to(&self.folder().join("cufile.log"));
        }
    }

    /// Saves the report of a starting run, so that it can be resumed; it is removed again unless
    /// something is measured. From then on a call that hangs ends the run.
    ///
    /// # Errors
    /// With exit code 4 if it cannot be written.
    pub fn begin(&mut self, report: &impl Serialize) -> Result<(), Failure> {
        self.watch();
        if !self.leads {
            return Ok(());
        }
        let written = self.written(report);
        // The report contains the units of an earlier run's journal, which must not count as new
        // ones.
        let begun = written.and_then(|()| Ok(self.journal.remove()?));
        begun.map_err(|error| self.not_saved(error))
    }

    /// From now on a call that hangs ends the run; the leading process then saves its report.
    pub fn watch(&self) {
        let report = if self.leads { &*self.path } else { Path::new("") };
        // Without another thread the run goes on unwatched.
        let _ = watchdog::watch_calls(report);
    }

    /// Saves a completed cell of a matrix. An error is reported at the end: the run continues.
    pub fn cell(&mut self, cell: &impl Serialize) {
        if self.leads {
            self.keep = true;
            self.unsaved = self.journal.add(cell).err();
        }
    }

    /// Saves a completed epoch: with the whole report when the epochs have doubled since that was
    /// last saved, or as a line of the journal. An error is reported at the end: the run continues.
    pub fn epoch<R: Serialize>(&mut self, epoch: &impl Serialize, report: impl FnOnce() -> R) {
        self.epochs += 1;
        if self.epochs >= 2 * self.saved_epochs && self.saves_if_due(report) {
            self.saved_epochs = self.epochs;
        } else {
            self.cell(epoch);
        }
    }

    /// Saves the results so far after a checkpoint or a trial, unless saving would use more than a
    /// twentieth of the run's time.
    pub fn unit<R: Serialize>(&mut self, report: impl FnOnce() -> R) {
        self.saves_if_due(report);
    }

    fn saves_if_due<R: Serialize>(&mut self, report: impl FnOnce() -> R) -> bool {
        let due = |(since, took): (Instant, Duration)| since.elapsed() >= took * 19;
        let is_due = self.leads && self.last.is_none_or(due);
        if is_due {
            let begun = Instant::now();
            self.save(&report());
            self.last = Some((Instant::now(), begun.elapsed()));
        }
        is_due && self.unsaved.is_none()
    }

    /// Saves the report atomically. An error is reported at the end: the run continues.
    fn save(&mut self, report: &impl Serialize) {
        self.keep = true;
        self.unsaved = self.written(report).err();
        if self.unsaved.is_none() {
            // The report contains all units now, so a remaining journal is redundant.
            let _ = self.journal.remove();
        }
    }

    /// Saves the finished report, and returns its path; `None` unless this is the leading process.
    pub fn finish(mut self, report: &impl Serialize) -> Option<Result<PathBuf, Failure>> {
        if !self.leads {
            return None;
        }
        watchdog::leave_report();
        self.save(report);
        Some(match self.unsaved.take() {
            Some(error) => Err(self.not_saved(error)),
            None => Ok(self.path.clone()),
        })
    }

    fn written(&self, report: &impl Serialize) -> anyhow::Result<()> {
        let sealed = json::sealed(report, &Integrity::Intact).and_then(|one| json::indented(&one));
        let json = sealed.context("a report is plain data")?;
        Ok(storage::write_atomically(&self.path, json.as_bytes())?)
    }

    fn not_saved(&self, error: anyhow::Error) -> Failure {
        let path = self.path.display();
        let what = format!("the report could not be saved as {path}");
        let transfer = error.chain().find_map(|cause| cause.downcast_ref::<TransferError>());
        let cause = transfer.map_or(Cause::Machine, TransferError::cause);
        let help = room_help(&error, "a folder elsewhere: --results-dir DIR")
            .unwrap_or_else(|| RESULTS_HELP.to_string());
        Failure::new(cause, error.context(what)).with_help(help)
    }
}

/// Advice if a file could not be written for lack of space.
pub fn room_help(error: &anyhow::Error, elsewhere: &str) -> Option<String> {
    const EFBIG: i32 = 27;
    let errno = error.chain().find_map(|cause| {
        let transfer = cause.downcast_ref::<TransferError>();
        let io = || cause.downcast_ref::<std::io::Error>()?.raw_os_error();
        transfer.and_then(TransferError::errno).or_else(io)
    });
    match errno? {
        EFBIG => Some("raise the limit on the size of files: ulimit -f unlimited".to_string()),
        errno if is_full(errno) => Some(format!("free some space there, or name {elsewhere}")),
        _ => None,
    }
}

impl Drop for Saver {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        // Files that remain if this fails, or if the folder is used by other programs, do no harm.
        let _ = Disk.remove(&self.path);
        for folder in &self.made {
            let _ = Disk.remove_folder(folder);
        }
    }
}

/// Creates a new folder in `results`, called `stem` or with a number appended. Returns it, and the
/// folders created, innermost first.
///
/// # Errors
/// With exit code 4 if it cannot be created.
pub fn new_folder(results: &Path, stem: &str) -> Result<(PathBuf, Vec<PathBuf>), Failure> {
    let cannot = |error: TransferError| Failure::from(error).with_help(RESULTS_HELP);
    let mut made = Vec::new();
    for part in results.ancestors().take_while(|part| *part != Path::new("")) {
        if Disk.look(part).map_err(cannot)?.is_some() {
            break;
        }
        made.push(part.to_path_buf());
    }
    Disk.make_folder(results).map_err(cannot)?;
    for attempt in 1..1000 {
        let folder = match attempt {
            1 => results.join(stem),
            again => results.join(format!("{stem}-{again}")),
        };
        if Disk.make_new_folder(&folder).map_err(cannot)? {
            Disk.hold(&folder);
            made.insert(0, folder.clone());
            return Ok((folder, made));
        }
    }
    Err(Failure::machine(anyhow::anyhow!(
        "{} already has too many reports of this second",
        results.display()
    )))
}

/// The default folder for reports; an empty environment variable is ignored.
pub fn results_folder() -> PathBuf {
    let from_environment =
        std::env::var_os("STORMLP_RESULTS_DIR").filter(|folder| !folder.is_empty());
    from_environment.map_or_else(|| PathBuf::from(DEFAULT_RESULTS), PathBuf::from)
}

/// A name valid as a folder name everywhere.
fn safe(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    name.chars().map(safe).collect()
}
