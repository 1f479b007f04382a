//! The run: folders, threads, progress, and the manifest at the end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use stormlp_model::event::{Event, Observer, Unit};
use stormlp_model::stop::StopToken;
use stormlp_model::warning::{Warning, WarningKind};
use stormlp_transfer::limits::largest_file_bytes;
use stormlp_transfer::probe::usable_memory_bytes;
use stormlp_transfer::telemetry::CpuTimes;
use stormlp_transfer::{Driver, DriverSet, PathBuffers};

use super::crew;
use super::error::GenerateError;
use super::file::{self, Context, Trouble};
use super::lanes::{self, Way};
use super::survey::{self, Survey};
use super::{GeneratePlan, GenerateReport};
use crate::dataset::FormatKind;
use crate::manifest::{Journal, Manifest, ManifestFile, finish};
use crate::names::Split;

/// Names of remade files that a report lists.
const MAX_REMADE_NAMES: usize = 100;

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
    let storage = &*plan.storage;
    lanes::check_engine(plan.engine)?;
    lanes::check_memory(plan.thread_count(), usable_memory_bytes())?;
    lanes::check_file_sizes(plan, largest_file_bytes())?;
    storage.hold(&plan.folder);
    if !storage.is_folder(&plan.folder) {
        // A dataset that cannot fit leaves no trace, not even its folder.
        survey::check_space(plan, &Survey::of_nothing(plan))?;
    }
    let made = storage.make_folder(&plan.folder);
    made.map_err(GenerateError::setup)?;
    let _lock = storage.lock(&plan.folder)?;
    let head = plan.manifest_head();
    let survey = survey::survey(plan, &head)?;
    survey::check_space(plan, &survey)?;
    make_folders(plan)?;
    let way = Way::choose(plan)?;
    let whole: Vec<ManifestFile> = survey.kept.values().cloned().collect();
    let journal = Journal::begin(storage, &plan.folder, &head, &whole)?;
    let crew = Crew::new(plan, &survey, &journal, way, stop);
    let cpu = CpuTimes::of_process();
    let started = Instant::now();
    crew.work(observer)?;
    if way.small {
        storage.sync_all(&plan.folder)?;
    }
    let seconds = started.elapsed().as_secs_f64();
    let cpu = CpuTimes::of_process().since(cpu);
    let Outcome { made, failure } = crew.outcome();
    if let Some(failure) = failure {
        // What went wrong first is what counts.
        let _ = journal.flush();
        return Err(failure);
    }
    let bytes_written = made.values().map(|file| file.bytes).sum();
    let (files_made, files_kept) = (made.len() as u64, survey.kept.len() as u64);
    let files = in_order(survey.kept, made);
    let bytes = files.iter().map(|file| file.bytes).sum();
    finish(storage, &plan.folder, &Manifest { head, files })?;
    let mut remade = survey.damaged;
    remade.truncate(MAX_REMADE_NAMES);
    Ok(GenerateReport {
        folder: plan.folder.clone(),
        workload: plan.workload.clone(),
        profile: plan.profile.clone(),
        format: plan.dataset.recipe().format.name().to_string(),
        files: plan.dataset.files(),
        files_made,
        files_kept,
        remade,
        bytes,
        bytes_written,
        seconds,
        cpu_user_seconds: cpu.user_seconds,
        cpu_system_seconds: cpu.system_seconds,
        threads: plan.thread_count(),
        engine: way.engine,
        direct: way.direct,
        warnings: warnings(plan, way),
    })
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
            outcome: Mutex::new(Outcome {
                made: HashMap::new(),
                failure: None,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Outcome> {
        // A thread that panicked ends the run; what it left here is still whole.
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn outcome(self) -> Outcome {
        self.outcome
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
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
            label: format!(
                "writing {files} {} files",
                self.plan.dataset.recipe().format.name()
            ),
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
