//! The run: folders, threads, progress, and the manifest at the end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use stormlp_core::event::{Event, Observer, Unit};
use stormlp_core::stop::StopToken;
use stormlp_core::warning::{Warning, WarningKind};
use stormlp_transfer::limits::largest_file_bytes;
use stormlp_transfer::probe::usable_memory_bytes;
use stormlp_transfer::storage::FolderLock;
use stormlp_transfer::telemetry::CpuTimes;
use stormlp_transfer::{Driver, DriverSet, PathBuffers};

use super::GeneratePlan;
use super::crew;
use super::error::GenerateError;
use super::file::{self, Context, Trouble};
use super::lanes::{self, Way};
use super::survey::{self, Survey};
use crate::dataset::FormatKind;
use crate::manifest::{
    JOURNAL_NAME, Journal, Manifest, ManifestError, ManifestFile, ManifestHead, Record, finish,
};
use crate::names::Split;
use crate::report::GenerateReport;

/// Names of remade files that a report lists.
const MAX_REMADE_NAMES: usize = 100;

/// Which files of a dataset a process makes: of N, each makes every Nth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The number of this process, from 0.
    pub rank: u32,
    /// How many there are.
    pub of: u32,
}

impl Share {
    /// All of them.
    pub const WHOLE: Self = Self { rank: 0, of: 1 };

    fn has(self, index: u64) -> bool {
        index % u64::from(self.of.max(1)) == u64::from(self.rank)
    }
}

/// Makes the dataset of `plan`. Files that are whole stay whole whatever happens: an error or a
/// stop leaves a folder that [`Existing::Resume`](super::Existing::Resume) continues.
///
/// # Errors
/// When the folder is occupied, locked or too small, when storage fails, or the user stops.
pub fn run(
    plan: &GeneratePlan,
    observer: &dyn Observer,
    stop: &StopToken,
) -> Result<GenerateReport, GenerateError> {
    let generation = Generation::begin(plan, Share::WHOLE)?;
    let made = generation.make(observer, stop)?;
    generation.finish(made)
}

/// A dataset that is being made, by one process or several. The first one begins before the others,
/// and finishes when all have made their files.
pub struct Generation<'a> {
    plan: &'a GeneratePlan,
    share: Share,
    head: ManifestHead,
    survey: Survey,
    way: Way,
    journal: Journal<'a>,
    _lock: Option<FolderLock>,
}

/// What a process has made.
pub struct Made {
    files: HashMap<u64, ManifestFile>,
    seconds: f64,
    cpu: CpuTimes,
}

impl<'a> Generation<'a> {
    /// Looks at the folder and begins a journal; from then on it counts as unfinished.
    ///
    /// # Errors
    /// When the folder is occupied, locked or too small, or storage fails.
    pub fn begin(plan: &'a GeneratePlan, share: Share) -> Result<Self, GenerateError> {
        let storage = &*plan.storage;
        lanes::check_engine(plan.engine)?;
        lanes::check_memory(plan.thread_count(), usable_memory_bytes())?;
        lanes::check_file_sizes(plan, largest_file_bytes())?;
        storage.hold(&plan.folder);
        let head = plan.manifest_head();
        if share.rank > 0 {
            let survey = survey::of_journal(plan)?;
            let journal = Journal::beside(storage, &plan.folder, &head, share.rank)?;
            return Self::of(plan, share, head, (survey, journal, None));
        }
        if !storage.is_folder(&plan.folder) {
            // A dataset that cannot fit leaves no trace, not even its folder.
            survey::check_space(plan, &Survey::of_nothing(plan))?;
        }
        let made = storage.make_folder(&plan.folder);
        made.map_err(GenerateError::setup)?;
        let lock = storage.lock(&plan.folder)?;
        let survey = survey::survey(plan, &head)?;
        survey::check_space(plan, &survey)?;
        make_folders(plan)?;
        let whole: Vec<ManifestFile> = survey.kept.values().cloned().collect();
        let journal = Journal::begin(storage, &plan.folder, &head, &whole)?;
        Self::of(plan, share, head, (survey, journal, Some(lock)))
    }

    fn of(
        plan: &'a GeneratePlan,
        share: Share,
        head: ManifestHead,
        (mut survey, journal, lock): (Survey, Journal<'a>, Option<FolderLock>),
    ) -> Result<Self, GenerateError> {
        survey.to_make.retain(|index| share.has(*index));
        Ok(Self { plan, share, head, survey, way: Way::choose(plan)?, journal, _lock: lock })
    }

    /// Makes this process's files.
    ///
    /// # Errors
    /// When storage fails, or the user stops.
    pub fn make(&self, observer: &dyn Observer, stop: &StopToken) -> Result<Made, GenerateError> {
        let crew = Crew::new(self.plan, &self.survey, &self.journal, self.way, stop);
        let cpu = CpuTimes::of_process();
        let started = Instant::now();
        crew.work(observer)?;
        if self.way.small {
            self.plan.storage.sync_all(&self.plan.folder)?;
        }
        let seconds = started.elapsed().as_secs_f64();
        let cpu = CpuTimes::of_process().since(cpu);
        let Outcome { made, failure } = crew.outcome();
        if let Some(failure) = failure {
            // What went wrong first is what counts.
            let _ = self.journal.flush();
            return Err(failure);
        }
        if self.share.of > 1 {
            // The first process reads there what this one has made.
            self.journal.flush()?;
        }
        Ok(Made { files: made, seconds, cpu })
    }

    /// Writes the manifest, in the first process, once all have made their files.
    ///
    /// # Errors
    /// When it cannot be written, or a file of another process is not listed.
    pub fn finish(self, made: Made) -> Result<GenerateReport, GenerateError> {
        let (plan, way) = (self.plan, self.way);
        let storage = &*plan.storage;
        let kept: u64 = self.survey.kept.len() as u64;
        let bytes_kept: u64 = self.survey.kept.values().map(|file| file.bytes).sum();
        let files = match self.share.of {
            0 | 1 => in_order(self.survey.kept, made.files),
            _ => of_all(plan)?,
        };
        let bytes: u64 = files.iter().map(|file| file.bytes).sum();
        let files_made = files.len() as u64 - kept;
        let head = self.head;
        finish(storage, &plan.folder, &Manifest { head, files })?;
        let mut remade = self.survey.damaged;
        remade.truncate(MAX_REMADE_NAMES);
        Ok(GenerateReport {
            folder: plan.folder.clone(),
            workload: plan.workload.clone(),
            profile: plan.profile.clone(),
            format: plan.dataset.recipe().format.name().to_string(),
            files: plan.dataset.files(),
            files_made,
            files_kept: kept,
            remade,
            bytes,
            bytes_written: bytes - bytes_kept,
            seconds: made.seconds,
            cpu_user_seconds: made.cpu.user_seconds,
            cpu_system_seconds: made.cpu.system_seconds,
            threads: plan.thread_count(),
            engine: way.engine,
            direct: way.direct,
            warnings: warnings(plan, way),
        })
    }
}

/// The files of all processes, from their journals.
fn of_all(plan: &GeneratePlan) -> Result<Vec<ManifestFile>, GenerateError> {
    let record = Record::load(&*plan.storage, &plan.folder)?;
    let mut listed = record.map(|record| record.files).unwrap_or_default();
    let mut of_index = |index: u64| {
        let name = plan.dataset.path(index);
        listed.remove(&name).ok_or_else(|| ManifestError::Malformed {
            path: plan.folder.join(JOURNAL_NAME).display().to_string(),
            reason: format!("neither it nor another host's beside it lists {name}"),
        })
    };
    let files = (0..plan.dataset.files()).map(&mut of_index);
    Ok(files.collect::<Result<Vec<_>, _>>()?)
}

/// All files in the order of their indices.
fn in_order(
    kept: HashMap<u64, ManifestFile>,
    made: HashMap<u64, ManifestFile>,
) -> Vec<ManifestFile> {
    let mut files: Vec<(u64, ManifestFile)> = kept.into_iter().chain(made).collect();
    files.sort_unstable_by_key(|(index, _)| *index);
    files.into_iter().map(|(_, file)| file).collect()
}

fn warnings(plan: &GeneratePlan, way: Way) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if !way.direct && !way.small {
        warnings.push(Warning::new(
            WarningKind::NotDirect,
            format!("{} does not take O_DIRECT", plan.folder.display()),
            "files were written through the page cache and may still be in memory",
        ));
    }
    warnings
}

fn make_folders(plan: &GeneratePlan) -> Result<(), GenerateError> {
    let mut folders = Vec::new();
    for split in [Split::Train, Split::Valid] {
        folders.extend(plan.dataset.naming(split).folders());
        if plan.dataset.recipe().format == FormatKind::Tfrecord {
            folders.push(format!("index/{}", split.folder()));
        }
    }
    for folder in folders {
        plan.storage.make_folder(&plan.folder.join(folder))?;
    }
    Ok(())
}

/// What the threads came to.
struct Outcome {
    made: HashMap<u64, ManifestFile>,
    failure: Option<GenerateError>,
}

/// The threads and what they share: a counter of files, a journal, the first failure.
struct Crew<'a> {
    plan: &'a GeneratePlan,
    survey: &'a Survey,
    journal: &'a Journal<'a>,
    way: Way,
    stop: &'a StopToken,
    next: AtomicUsize,
    drivers: DriverSet,
    /// Bytes that were written with plain calls.
    plain_bytes: AtomicU64,
    failed: StopToken,
    outcome: Mutex<Outcome>,
}

impl<'a> Crew<'a> {
    fn new(
        plan: &'a GeneratePlan,
        survey: &'a Survey,
        journal: &'a Journal<'a>,
        way: Way,
        stop: &'a StopToken,
    ) -> Self {
        Self {
            plan,
            survey,
            journal,
            way,
            stop,
            next: AtomicUsize::new(0),
            drivers: DriverSet::new(plan.thread_count()),
            plain_bytes: AtomicU64::new(0),
            failed: StopToken::new(),
            outcome: Mutex::new(Outcome { made: HashMap::new(), failure: None }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Outcome> {
        // A thread that panicked ends the run; what it left here is still whole.
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn outcome(self) -> Outcome {
        self.outcome.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes all files; tells progress from the calling thread.
    fn work(&self, observer: &dyn Observer) -> Result<(), GenerateError> {
        let files = self.survey.to_make.len();
        if files == 0 {
            return Ok(());
        }
        let threads = self.plan.thread_count().min(files);
        let buffers = lanes::buffers(threads)?;
        let total = self.total_bytes();
        observer.event(&Event::PhaseStarted {
            label: format!("writing {files} {} files", self.plan.dataset.recipe().format.name()),
            total: Some(total),
            unit: Unit::Bytes,
        });
        // Files are written in whole blocks, and some begin with one that is written twice.
        let plain = || self.plain_bytes.load(Ordering::Relaxed);
        let done = || (self.drivers.total().bytes + plain()).min(total);
        let thread = |(index, buffers)| self.thread(index, buffers);
        let buffers = buffers.into_iter().enumerate();
        let worked = crew::work("writer", buffers, observer, done, &self.failed, thread);
        observer.event(&Event::PhaseFinished);
        Ok(worked?)
    }

    fn total_bytes(&self) -> u64 {
        let bytes = |index: &u64| self.plan.dataset.expected_bytes(*index);
        self.survey.to_make.iter().map(bytes).sum()
    }

    /// One thread: file after file, until there are none, one failed or the user stops.
    fn thread(&self, index: usize, buffers: PathBuffers) {
        let path = self.way.path(&*self.plan.storage, buffers);
        let mut driver = match path {
            Ok(path) => Driver::new(path, &self.drivers, index),
            Err(error) => return self.fail(error),
        };
        let context = Context {
            plan: self.plan,
            way: self.way,
            journal: self.journal,
            plain_bytes: &self.plain_bytes,
            stop: self.stop,
        };
        while !self.failed.is_stopped() {
            let place = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(&index) = self.survey.to_make.get(place) else {
                return;
            };
            if self.stop.is_stopped() {
                return self.stopped();
            }
            match file::make(&context, &mut driver, index) {
                Ok(file) => {
                    self.journal.amend(&file);
                    self.lock().made.insert(index, file);
                }
                Err(Trouble::Stopped) => return self.stopped(),
                Err(Trouble::Failed(error)) => return self.fail(error),
            }
        }
    }

    /// Keeps the first failure; the other threads end after the file they are at.
    fn fail(&self, error: GenerateError) {
        self.failed.stop();
        self.lock().failure.get_or_insert(error);
    }

    /// The last thread to stop counts what is whole.
    fn stopped(&self) {
        self.failed.stop();
        let mut outcome = self.lock();
        let made = (outcome.made.len() + self.survey.kept.len()) as u64;
        let files = self.plan.dataset.files();
        match &mut outcome.failure {
            None | Some(GenerateError::Stopped { .. }) => {
                outcome.failure = Some(GenerateError::Stopped { made, files });
            }
            Some(_) => {}
        }
    }
}
