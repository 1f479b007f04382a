//! The folder of a run: made before the first byte moves, what is measured saved after every unit.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;
use stormlp_core::report::PartOf;
use stormlp_core::report::ReportKind;
use stormlp_matrix::plan::CellReport;
use stormlp_transfer::TransferError;
use stormlp_transfer::cufile;
use stormlp_transfer::storage::{self, Disk, Storage as _};

use super::journal::Journal;
use crate::exit::Failure;
use crate::session::Session;

/// What to do when a report has no place.
const RESULTS_HELP: &str =
    "name a folder that you may write to: --results-dir DIR or STORMLP_RESULTS_DIR";
/// Where reports are saved when nothing is said.
const DEFAULT_RESULTS: &str = "stormlp-results";
/// The folder of a run in which each of several processes keeps its part.
pub(crate) const PARTS: &str = "parts";

/// Saves the report of one run. A run that ends before anything was measured leaves nothing.
#[derive(Debug)]
pub(crate) struct Saver {
    path: PathBuf,
    /// The cells of a matrix, until the report has them.
    journal: Journal,
    /// The folders that were made for it, the innermost first.
    made: Vec<PathBuf>,
    keep: bool,
    unsaved: Option<anyhow::Error>,
    /// When the last save of a unit was over, and how long it took.
    last: Option<(Instant, Duration)>,
}

impl Saver {
    /// Makes a new folder under the results, named after command, run and time.
    pub(super) fn create(
        results: Option<&Path>,
        kind: ReportKind,
        name: &str,
        session: &Session,
    ) -> Result<Self, Failure> {
        let results = results.map_or_else(results_folder, Path::to_path_buf);
        let stem = format!("{}-{}-{}", kind.name(), safe(name), session.file_stamp());
        Self::below(&results, &stem)
    }

    /// Makes a folder for the part that one of several processes has in a run.
    pub(super) fn of_part(results: Option<&Path>, part: &PartOf) -> Result<Self, Failure> {
        let results = results.map_or_else(results_folder, Path::to_path_buf);
        let place = Self::place_of_part(&results.join(&part.run_id), part);
        let stem = place.file_name().unwrap_or_default().to_string_lossy();
        Self::below(place.parent().unwrap_or(&results), &stem)
    }

    /// Where a part lies in the folder of its run.
    pub(super) fn place_of_part(run: &Path, part: &PartOf) -> PathBuf {
        let rank = part.rank.unwrap_or_default();
        let host = part.host.split(' ').next().unwrap_or_default();
        run.join(PARTS).join(format!("{rank}-{}", safe(host)))
    }

    /// Makes a new folder in `results`, called `stem` or with a number after it.
    fn below(results: &Path, stem: &str) -> Result<Self, Failure> {
        let missing = results.ancestors().take_while(|part| !part.exists());
        let mut made: Vec<PathBuf> = missing.map(Path::to_path_buf).collect();
        let cannot = |folder: &Path, error| {
            let what = format!("cannot make the folder {}", folder.display());
            Failure::machine(anyhow::Error::new(error).context(what)).with_help(RESULTS_HELP)
        };
        fs::create_dir_all(results).map_err(|error| cannot(results, error))?;
        for attempt in 1..1000 {
            let folder = match attempt {
                1 => results.join(stem),
                again => results.join(format!("{stem}-{again}")),
            };
            match fs::create_dir(&folder) {
                Ok(()) => {
                    Disk.hold(&folder);
                    made.insert(0, folder.clone());
                    return Ok(Self::at(&folder.join("report.json"), made));
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(cannot(&folder, error)),
            }
        }
        Err(Failure::machine(anyhow::anyhow!(
            "{} is full of reports of this second",
            results.display()
        )))
    }

    /// Goes on with a report that is there.
    pub(crate) fn resume(path: &Path) -> Self {
        let mut saver = Self::at(path, Vec::new());
        saver.keep = true;
        saver
    }

    fn at(path: &Path, made: Vec<PathBuf>) -> Self {
        Self {
            path: path.to_path_buf(),
            journal: Journal::of(path),
            made,
            keep: false,
            unsaved: None,
            last: None,
        }
    }

    /// Where the report is saved.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Tells cuFile by the environment what it must know before it is opened: to write its log
    /// beside the report, and not to fall back where that is an error. To be called before the
    /// first thread. Where the log goes elsewhere, the user chose so, or cuFile takes the current
    /// directory.
    pub(crate) fn prepare_cufile(&self, require_gds: bool) {
        let _ = cufile::send_log_to(&self.path.with_file_name("cufile.log"));
        if require_gds {
            cufile::forbid_compat_mode();
        }
    }

    /// Saves the report of a run that begins, so that it can be gone on with; it is removed again
    /// unless something is measured.
    ///
    /// # Errors
    /// With exit code 4 when it cannot be written.
    pub(crate) fn begin(&mut self, report: &impl Serialize) -> Result<(), Failure> {
        let written = self.written(report);
        // The report has the cells of an earlier run's journal, which must not be taken for ours.
        let begun = written.and_then(|()| Ok(self.journal.remove()?));
        begun.map_err(|error| self.not_saved(error))
    }

    /// Saves a cell of a matrix as it is over. That it cannot be saved is told in the end: the run
    /// goes on.
    pub(crate) fn cell(&mut self, cell: &CellReport) {
        self.keep = true;
        self.unsaved = self.journal.add(cell).err();
    }

    /// Saves what was measured so far after an epoch or a checkpoint; not when that would take
    /// more than a twentieth of the run.
    pub(crate) fn unit<R: Serialize>(&mut self, report: impl FnOnce() -> R) {
        let due = |(since, took): (Instant, Duration)| since.elapsed() >= took * 19;
        if self.last.is_none_or(due) {
            let begun = Instant::now();
            self.save(&report());
            self.last = Some((Instant::now(), begun.elapsed()));
        }
    }

    /// Saves the report, whole at any moment. That it cannot be saved is told in the end: the run
    /// goes on.
    pub(crate) fn save(&mut self, report: &impl Serialize) {
        self.keep = true;
        self.unsaved = self.written(report).err();
        if self.unsaved.is_none() {
            // The report has its cells now; a journal that stays says nothing else.
            let _ = self.journal.remove();
        }
    }

    /// Where the last report lies.
    pub(super) fn finish(mut self) -> Result<PathBuf, Failure> {
        match self.unsaved.take() {
            Some(error) => Err(self.not_saved(error)),
            None => Ok(self.path.clone()),
        }
    }

    fn written(&self, report: &impl Serialize) -> anyhow::Result<()> {
        let json = serde_json::to_vec_pretty(report).context("a report is plain data")?;
        Ok(storage::write_atomically(&self.path, &json)?)
    }

    fn not_saved(&self, error: anyhow::Error) -> Failure {
        let path = self.path.display();
        let what = format!("the report could not be saved as {path}");
        let help = room_help(&error, "a folder elsewhere: --results-dir DIR")
            .unwrap_or_else(|| RESULTS_HELP.to_string());
        Failure::machine(error.context(what)).with_help(help)
    }
}

/// What mends it where a file could not be written for want of room.
pub(super) fn room_help(error: &anyhow::Error, elsewhere: &str) -> Option<String> {
    const EFBIG: i32 = 27;
    const ENOSPC: i32 = 28;
    const EDQUOT: i32 = 122;
    let errno = error.chain().find_map(|cause| {
        let transfer = cause.downcast_ref::<TransferError>();
        let io = || cause.downcast_ref::<std::io::Error>()?.raw_os_error();
        transfer.and_then(TransferError::errno).or_else(io)
    });
    match errno? {
        EFBIG => Some("raise the limit on the size of files: ulimit -f unlimited".to_string()),
        ENOSPC | EDQUOT => Some(format!("free some space there, or name {elsewhere}")),
        _ => None,
    }
}

impl Drop for Saver {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        // What stays when this fails, or when somebody else began to use a folder, harms nobody.
        let _ = Disk.remove(&self.path);
        for folder in &self.made {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Where reports are saved unless an option says otherwise; a variable set to nothing says nothing.
pub(crate) fn results_folder() -> PathBuf {
    let from_environment =
        std::env::var_os("STORMLP_RESULTS_DIR").filter(|folder| !folder.is_empty());
    from_environment.map_or_else(|| PathBuf::from(DEFAULT_RESULTS), PathBuf::from)
}

/// A name that is one folder's name everywhere.
fn safe(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    name.chars().map(safe).collect()
}
