//! The folder of a run: created before the first byte moves; results are saved after every unit.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;
use stormlp_core::failure::Failure;
use stormlp_core::json;
use stormlp_core::note::Cause;
use stormlp_core::report::ReportKind;
use stormlp_transfer::storage::{self, Disk, Storage as _};
use stormlp_transfer::{TransferError, is_full};

use crate::journal::Journal;
use crate::session::Session;

/// Advice if the folder for reports cannot be written.
const RESULTS_HELP: &str =
    "name a folder that you may write to: --results-dir DIR or STORMLP_RESULTS_DIR";
/// The default folder for reports.
const DEFAULT_RESULTS: &str = "stormlp-results";

/// Saves the report of one run. A run that ends before anything was measured leaves no files.
#[derive(Debug)]
pub(crate) struct Saver {
    path: PathBuf,
    /// The units that are not in the report yet.
    journal: Journal,
    /// The folders created for it, innermost first.
    made: Vec<PathBuf>,
    keep: bool,
    unsaved: Option<anyhow::Error>,
    /// When the last save of a unit ended, and how long it took.
    last: Option<(Instant, Duration)>,
    /// The units so far, and how many of them are in the saved report.
    units: Units,
}

/// Counts units, to save the whole report when there are twice as many as in the last one: all
/// reports together then write about twice what the last one does.
#[derive(Debug, Default)]
struct Units {
    done: u64,
    saved: u64,
}

impl Units {
    fn has_doubled(&self) -> bool {
        self.done >= 2 * self.saved
    }
}

impl Saver {
    /// Creates a new folder for the run, named after command, run and time.
    pub(crate) fn create(
        results: Option<&Path>,
        (kind, name): (ReportKind, &str),
        session: &Session,
    ) -> Result<Self, Failure> {
        let results = results.map_or_else(results_folder, Path::to_path_buf);
        let stem = format!("{}-{}-{}", kind.name(), safe(name), session.file_stamp());
        Self::below(&results, &stem, kind)
    }

    /// Creates a new folder in `results`, called `stem` or with a number appended.
    fn below(results: &Path, stem: &str, kind: ReportKind) -> Result<Self, Failure> {
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
                return Ok(Self::at(&folder.join("report.json"), kind, made));
            }
        }
        Err(Failure::machine(anyhow::anyhow!(
            "{} already has too many reports of this second",
            results.display()
        )))
    }

    /// Continues an existing report of `kind`.
    pub(crate) fn resume(path: &Path, kind: ReportKind) -> Self {
        let mut saver = Self::at(path, kind, Vec::new());
        saver.keep = true;
        saver
    }

    fn at(path: &Path, kind: ReportKind, made: Vec<PathBuf>) -> Self {
        Self {
            path: path.to_path_buf(),
            journal: Journal::of(path, kind),
            made,
            keep: false,
            unsaved: None,
            last: None,
            units: Units::default(),
        }
    }

    /// The folder of the report.
    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// Saves the report of a starting run, so that it can be resumed; it is removed again unless
    /// something is measured.
    ///
    /// # Errors
    /// With exit code 4 if it cannot be written.
    pub(crate) fn begin(&mut self, report: &impl Serialize) -> Result<(), Failure> {
        let written = self.written(report);
        // The report has the units of an earlier run's journal, which must not be taken for new
        // ones.
        let begun = written.and_then(|()| Ok(self.journal.remove()?));
        begun.map_err(|error| self.not_saved(error))
    }

    /// Saves a completed cell of a matrix. An error is reported at the end: the run continues.
    pub(crate) fn cell(&mut self, cell: &impl Serialize) {
        self.keep = true;
        self.unsaved = self.journal.add(cell).err();
    }

    /// Saves a completed epoch: with the whole report when the epochs have doubled since that was
    /// last saved, or as a line of the journal. An error is reported at the end: the run continues.
    pub(crate) fn epoch<R: Serialize>(
        &mut self,
        epoch: &impl Serialize,
        report: impl FnOnce() -> R,
    ) {
        self.units.done += 1;
        if self.units.has_doubled() && self.unit(report) {
            self.units.saved = self.units.done;
        } else {
            self.keep = true;
            self.unsaved = self.journal.add(epoch).err();
        }
    }

    /// Saves the results so far after a checkpoint or a trial, unless that would take more than a
    /// twentieth of the run. Returns whether they were saved.
    pub(crate) fn unit<R: Serialize>(&mut self, report: impl FnOnce() -> R) -> bool {
        let due = |(since, took): (Instant, Duration)| since.elapsed() >= took * 19;
        let is_due = self.last.is_none_or(due);
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
            // The report has all units now, so a remaining journal adds nothing.
            let _ = self.journal.remove();
        }
    }

    /// Saves the finished report, and returns its path.
    pub(crate) fn finish(mut self, report: &impl Serialize) -> Result<PathBuf, Failure> {
        self.save(report);
        match self.unsaved.take() {
            Some(error) => Err(self.not_saved(error)),
            None => Ok(self.path.clone()),
        }
    }

    fn written(&self, report: &impl Serialize) -> anyhow::Result<()> {
        let json = json::sealed(report).context("a report is plain data")?;
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
        // Files that remain if this fails, or if the folder is used by others, do no harm.
        let _ = Disk.remove(&self.path);
        for folder in &self.made {
            let _ = Disk.remove_folder(folder);
        }
    }
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
