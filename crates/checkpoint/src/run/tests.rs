//! Whole runs in a temporary folder: on real storage, and on storage with injected faults.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::plan::{
    CheckpointClient, CheckpointPlan, CheckpointProfile, CheckpointRequest, FsyncPolicy,
    MARKER_NAME, Marker, parse, resolve, step_folder,
};
use crate::report::{CheckpointReport, CheckpointResult};
use stormlp_core::event::Silent;
use stormlp_core::impairment::StorageOperation;
use stormlp_core::path::PathKind;
use stormlp_core::report::{Ending, Head, ReportKind};
use stormlp_core::stop::StopToken;
use stormlp_core::transport::{DeviceId, EngineChoice};
use stormlp_core::units::GIB;
use stormlp_hosts::fault::Fault;
use stormlp_transfer::storage::{
    Disk, FolderLock, Gate, Gated, Grant, LOCK_NAME, Request, Storage,
};
use stormlp_transfer::{Accelerator, HostStandIn, TransferError, probe};

use super::*;
use crate::run::checkpoint::run_over;
use stormlp_test_support::{Builder, SEAMS};
use stormlp_transfer::run_context::RunContext;

#[path = "device_tests.rs"]
mod device;
#[path = "folders_tests.rs"]
mod folders;

/// 4 layers on 2 × 2 × 2 ranks; file sizes are not multiples of 4 KiB.
const TINY: &str = "
model:
  name: tiny
  type: transformer
  num_layers: 5
  parallelism: {tensor: 2, pipeline: 2, zero_stage: 1}
  transformer: {vocab_size: 301, hidden_size: 50, ffn_hidden_size: 130, num_attention_heads: 8,
    num_kv_heads: 4}
";

/// A folder on a real file system, with real O_DIRECT and page cache behaviour.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(".").unwrap()
}

fn request(folder: &Path) -> CheckpointRequest {
    let mut request =
        CheckpointRequest::plain(parse(TINY, "tiny.yaml").unwrap(), folder.join("ckpt").into());
    request.ranks = Some(8.into());
    request.saves = Some(2);
    request.restores = Some(2);
    request.pause_seconds = Some(0.0);
    request.verify = true;
    request
}

fn plan(request: &CheckpointRequest) -> CheckpointPlan {
    let facts = scan(&Disk, &request.folders, ScanDepth::AndTry).unwrap();
    let resolution = resolve(request, &probe::host_facts(), &facts);
    assert!(resolution.problems.is_empty(), "{}", resolution.problems);
    resolution.plan.unwrap()
}

fn run_on(plan: CheckpointPlan, storage: Arc<dyn Storage>, stop: &StopToken) -> CheckpointReport {
    run_with(plan, storage, Arc::new(HostStandIn), stop)
}

fn run_with(
    plan: CheckpointPlan,
    storage: Arc<dyn Storage>,
    accelerator: Arc<dyn Accelerator>,
    stop: &StopToken,
) -> CheckpointReport {
    let head = Head::new(
        ReportKind::Checkpoint,
        "stormlp checkpoint".to_string(),
        "2026-01-01T00:00:00Z".to_string(),
        probe::host_facts(),
    );
    let surroundings = RunContext { storage: &storage, observer: &Silent, stop };
    let mut told = 0;
    let mut on_unit = |report: &CheckpointReport| {
        assert_eq!(report.ending, Ending::Unfinished);
        told += 1;
    };
    let report =
        run_over((head, &plan, None), &surroundings, &mut on_unit, accelerator.into()).unwrap();
    let results = &report.results;
    assert_eq!(told, results.saves.len() + results.restores.len());
    report
}

#[test]
fn the_clients_own_time_counts_for_every_rank() {
    let folder = folder();
    let mut request = request(folder.path());
    request.verify = false;
    let mut plan = plan(&request);
    // The smallest rank's data costs its client 50 ms to save, and twice as long to restore.
    let least = plan.ranks.iter().map(|rank| rank.bytes).min().unwrap();
    let save_seconds_per_gib = 0.05 * GIB as f64 / least as f64;
    plan.client = Some(CheckpointClient {
        save_seconds_per_gib,
        restore_seconds_per_gib: 2.0 * save_seconds_per_gib,
        // No rank waits for a CPU.
        cpus: 8,
        ..CheckpointClient::default()
    });
    let report = run_on(plan, Arc::new(Disk), &StopToken::new());
    assert_eq!(report.ending, Ending::Complete);
    let least = |results: &[CheckpointResult]| {
        results.iter().map(|one| one.duration_seconds.min).fold(f64::INFINITY, f64::min)
    };
    let results = &report.results;
    assert_eq!((results.saves.len(), results.restores.len()), (2, 2));
    assert!(least(&results.saves) >= 0.05, "{:?}", results.saves);
    assert!(least(&results.restores) >= 0.1, "{:?}", results.restores);
}

/// The folder of checkpoint `step` of the newest run.
fn step_path(folder: &Path, step: u32) -> PathBuf {
    let facts = scan(&Disk, &[folder.join("ckpt").into()], ScanDepth::Only).unwrap();
    let run = facts.runs().last().map_or("run1", |run| run).to_string();
    folder.join("ckpt").join(run).join(step_folder(step))
}

fn marker(folder: &Path, step: u32) -> Marker {
    let path = step_path(folder, step).join(MARKER_NAME);
    Marker::parse(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Names of everything in a checkpoint's folder except the marker.
fn files(folder: &Path, step: u32) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(step_path(folder, step))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != MARKER_NAME)
        .collect();
    names.sort();
    names
}

fn error(report: &CheckpointReport) -> &str {
    match &report.ending {
        Ending::Failed(note) => &note.fact,
        other => panic!("the run ended with {other:?}"),
    }
}

/// Counts the bytes that transfers read.
struct Reads(Arc<AtomicUsize>);

impl Gate for Reads {
    fn admit(&self, request: &Request<'_>, now: Duration) -> std::io::Result<Grant> {
        if request.operation == StorageOperation::Read && request.path.is_none() {
            self.0.fetch_add(request.bytes as usize, Ordering::Relaxed);
        }
        Ok(Grant { bytes: request.bytes, not_before: now })
    }
}

#[test]
fn comparing_has_a_read_of_its_own_that_is_not_measured() {
    let run = |verify| {
        let folder = folder();
        let mut request = request(folder.path());
        request.path = PathKind::Buffered;
        request.verify = verify;
        let reads = Arc::new(AtomicUsize::new(0));
        let storage = Arc::new(Gated::new(Arc::new(Disk), Reads(Arc::clone(&reads))));
        let plan = plan(&request);
        let total = plan.total_bytes as usize;
        let report = run_on(plan, storage, &StopToken::new());
        assert_eq!(report.ending, Ending::Complete);
        let restores = report.results.restores.iter();
        let measured: usize = restores.map(|restore| restore.bytes as usize).sum();
        assert_eq!(measured, 2 * total);
        (reads.load(Ordering::Relaxed) / total, report.series.len())
    };
    // Two saves and two restores are measured, with or without verification.
    assert_eq!(run(false), (2, 4));
    assert_eq!(run(true), (4, 4));
}

#[test]
fn what_is_saved_is_restored_on_every_path_and_engine() {
    let engines = [EngineChoice::Auto, EngineChoice::Psync];
    let paths = [PathKind::Buffered, PathKind::Cpu, PathKind::PageCache, PathKind::CpuGpu];
    for (path, engine) in paths.into_iter().flat_map(|path| engines.map(|e| (path, e))) {
        let folder = folder();
        let mut request = request(folder.path());
        request.path = path;
        request.engine = engine;
        request.device = path.ends_in_accelerator().then_some(DeviceId::Host.into());
        request.io_size = Some(8192);
        request.queue_depth = Some(3);
        let facts = scan(&Disk, &request.folders, ScanDepth::AndTry).unwrap();
        if path.wants_direct() && !facts.folders[0].direct.is_available() {
            let why = format!("{path}: the file system has no O_DIRECT");
            stormlp_fixtures::skipped(why, "put the temporary folder on a disk");
            continue;
        }
        let plan = plan(&request);
        let total = plan.total_bytes;
        let report = run_on(plan, Arc::new(Disk), &StopToken::new());
        assert_eq!(report.ending, Ending::Complete, "{path}");
        assert_eq!(report.results.verified_bytes, 2 * total, "{path}");
        assert_eq!((report.results.saves.len(), report.results.restores.len()), (2, 2));
        for result in report.results.saves.iter().chain(&report.results.restores) {
            assert_eq!(result.bytes, total);
            assert_eq!(result.ranks.len(), 8);
            assert!(result.duration_seconds.max >= result.duration_seconds.rank0);
        }
        let marker = marker(folder.path(), 2);
        assert!(marker.complete && marker.crash_safe);
        for file in &marker.files {
            let path = step_path(folder.path(), 2).join(&file.name);
            assert_eq!(fs::metadata(path).unwrap().len(), file.bytes);
        }
        assert_eq!(files(folder.path(), 2).len(), marker.files.len());
        let evidence = report.evidence_of("saves").unwrap().clone();
        assert_eq!(evidence.effective_path, Some(path));
    }
}

#[test]
fn quarters_and_shifted_ranks_read_the_same_bytes() {
    let folder = folder();
    let mut request = request(folder.path());
    request.io_size = Some(4096);
    request.edition = Some(CheckpointProfile::V3);
    let mut plan = plan(&request);
    plan.rank_shift = 3;
    assert!(plan.splits_restores() && plan.restore.window == 4);
    let (total, third) = (plan.total_bytes, plan.ranks[3].bytes);
    let report = run_on(plan, Arc::new(Disk), &StopToken::new());
    assert_eq!(report.ending, Ending::Complete);
    assert_eq!(report.results.verified_bytes, 2 * total);
    assert_eq!(report.results.restores[0].ranks[0].bytes, third);
    let before = report.results.restores[0].page_cache_before.unwrap();
    assert!(before.dropped && before.share <= 0.01, "{before:?}");
}

#[test]
fn a_changed_byte_is_found_on_restore() {
    let folder = folder();
    let mut request = request(folder.path());
    request.restores = Some(0);
    run_on(plan(&request), Arc::new(Disk), &StopToken::new());
    let name = "zero_pp_rank_1_mp_rank_2_optim_states.pt";
    let path = step_path(folder.path(), 1).join(name);
    let mut bytes = fs::read(&path).unwrap();
    bytes[4321] ^= 1;
    fs::write(&path, bytes).unwrap();
    request.saves = Some(0);
    request.restores = Some(1);
    let report = run_on(plan(&request), Arc::new(Disk), &StopToken::new());
    let error = error(&report);
    assert!(error.contains(name) && error.contains(" at offset 4321: read 0x"), "{error}");
    assert!(report.results.restores.is_empty());
    // Without a measurement the sum must be 0.0, since JSON and text would show -0.0.
    assert!(report.results.cpu_user_seconds.is_sign_positive());
    assert!(report.results.cpu_system_seconds.is_sign_positive());
}

#[test]
fn only_the_newest_checkpoints_are_kept() {
    let folder = folder();
    let mut request = request(folder.path());
    request.saves = Some(3);
    request.restores = None;
    request.keep = Some(1);
    let report = run_on(plan(&request), Arc::new(Disk), &StopToken::new());
    assert_eq!(report.ending, Ending::Complete);
    assert_eq!((report.results.saves.len(), report.results.restores.len()), (3, 1));
    let facts = scan(&Disk, &request.folders, ScanDepth::Only).unwrap();
    assert_eq!(facts.steps("run1"), [3]);
}

#[test]
fn saves_overlap_with_training() {
    let folder = folder();
    let mut request = request(folder.path());
    request.overlap_step_seconds = Some(0.002);
    let report = run_on(plan(&request), Arc::new(Disk), &StopToken::new());
    let overlap = report.results.saves[0].overlap.unwrap();
    assert_eq!(overlap.steps, 1);
    assert_eq!(overlap.blocking_seconds, report.results.saves[0].duration_seconds.max);
}

/// Faults triggered by count, and a record of synced files. Only checkpoint files are counted, not
/// markers.
#[derive(Default)]
struct Faulty {
    creates: AtomicUsize,
    /// From this file on, storage is full.
    full_from: Option<usize>,
    /// From this file on, a stop is requested.
    stop_from: Option<(usize, StopToken)>,
    /// Syncing a file with this in its name fails with EIO.
    sync_fails_for: Option<&'static str>,
    synced: Mutex<Vec<PathBuf>>,
    writes: AtomicUsize,
    /// After this many writes, storage is full.
    full_after_writes: Option<usize>,
    /// The operation that panics.
    panic_at: Option<StorageOperation>,
}

impl Gate for Faulty {
    fn admit(&self, request: &Request<'_>, now: Duration) -> std::io::Result<Grant> {
        let operation = request.operation;
        let name = request.path.map_or_else(String::new, |p| p.display().to_string());
        let breaks = self.panic_at == Some(operation);
        let counts = match operation {
            StorageOperation::Create if name.contains(".pt") => {
                let count = self.creates.fetch_add(1, Ordering::Relaxed);
                let from = self.stop_from.as_ref();
                from.filter(|(from, _)| count >= *from).inspect(|(_, stop)| stop.stop());
                // In the second checkpoint of eight ranks with at least two files each.
                assert!(!breaks || count < 40, "broken {operation}");
                self.full_from.is_none_or(|from| count < from)
            }
            StorageOperation::Sync if name.contains(".pt") => {
                self.synced.lock().unwrap().extend(request.path.map(Path::to_path_buf));
                assert!(!breaks, "broken {operation}");
                if self.sync_fails_for.is_some_and(|part| name.contains(part)) {
                    return Err(std::io::Error::from_raw_os_error(5));
                }
                true
            }
            StorageOperation::Write if request.path.is_none() => {
                let count = self.writes.fetch_add(1, Ordering::Relaxed);
                self.full_after_writes.is_none_or(|after| count < after)
            }
            _ => true,
        };
        if counts {
            Ok(Grant { bytes: request.bytes, not_before: now })
        } else {
            Err(std::io::Error::from_raw_os_error(28))
        }
    }
}

/// The disk with these faults.
fn faulty(faults: Faulty) -> Arc<Gated<Faulty>> {
    Arc::new(Gated::new(Arc::new(Disk), faults))
}

#[test]
fn a_failed_fsync_is_data_loss_and_is_not_tried_again() {
    let folder = folder();
    let storage = faulty(Faulty { sync_fails_for: Some("mp_rank_1_optim"), ..Faulty::default() });
    let report = run_on(plan(&request(folder.path())), storage.clone(), &StopToken::new());
    let error = error(&report);
    assert!(error.starts_with("data loss: fsync of") && error.contains("not retried"), "{error}");
    let synced = storage.gate().synced.lock().unwrap();
    let failed = "zero_pp_rank_0_mp_rank_1_optim_states";
    let tries = synced.iter().filter(|path| path.to_string_lossy().contains(failed)).count();
    assert!(tries <= 1, "{synced:?}");
    assert_steps(folder.path(), 0);
}

/// Checks that a directory holds checkpoints 1 to `whole` of one run, and no other file.
fn assert_steps(folder: &Path, whole: u32) {
    let names = |folder: &Path| {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut left: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        left.retain(|name| name != LOCK_NAME);
        left.sort();
        left
    };
    let runs = names(&folder.join("ckpt"));
    assert_eq!(runs.len(), usize::from(whole > 0), "{runs:?}");
    for run in runs {
        let expected: Vec<String> = (1..=whole).map(step_folder).collect();
        assert_eq!(names(&folder.join("ckpt").join(run)), expected);
    }
    assert!((1..=whole).all(|step| marker(folder, step).complete));
}

/// Checks a disk that fills up in the second of two checkpoints: the first stays complete.
fn check_full(faults: Faulty) {
    let storage = faulty(faults);
    let folder = folder();
    let mut request = request(folder.path());
    request.io_size = Some(4096);
    let report = run_on(plan(&request), storage.clone(), &StopToken::new());
    let error = error(&report);
    assert!(error.contains("no space left while writing"), "{error}");
    assert!(
        error.ends_with(".pt: No space left on device (os error 28)")
            || error.ends_with(".partial: No space left on device (os error 28)"),
        "{error}"
    );
    assert_eq!(error.matches(".pt").count(), 1, "{error}");
    assert_steps(folder.path(), report.results.saves.len() as u32);
}

#[test]
fn a_thread_that_panics_ends_the_run_with_an_error_and_keeps_what_was_measured() {
    let blocking = [
        (StorageOperation::Create, "thread blocking_pool", 1),
        (StorageOperation::Sync, "thread blocking_pool", 0),
    ]
    .map(|(seam, who, whole)| (Some(seam), None, who, whole));
    let movers = SEAMS.map(|(_, build)| (None, Some(build), "thread mover-", 0));
    for (panic_at, build_path, who, whole) in blocking.into_iter().chain(movers) {
        let folder = folder();
        let mut request = request(folder.path());
        request.io_size = Some(4096);
        let builder = Builder(Mutex::new(build_path));
        let faults = Faulty { panic_at, ..Faulty::default() };
        let storage = Arc::new(Gated::new(Arc::new(builder), faults));
        let report = run_on(plan(&request), storage.clone(), &StopToken::new());
        let error = error(&report);
        assert!(error.contains(who) && error.contains("panicked: broken"), "{error}");
        let Ending::Failed(note) = &report.ending else { panic!("{:?}", report.ending) };
        assert!(note.remedy.contains("that was being saved"), "{note}");
        assert_eq!(report.results.saves.len(), whole, "{error}");
        assert_steps(folder.path(), whole as u32);
    }
}

#[test]
fn a_disk_that_fills_up_leaves_earlier_checkpoints_untouched() {
    check_full(Faulty { full_from: Some(30), ..Faulty::default() });
}

#[test]
fn a_write_that_finds_no_space_leaves_no_checkpoint() {
    check_full(Faulty { full_after_writes: Some(20), ..Faulty::default() });
}

#[test]
fn a_stop_keeps_measurements_and_leaves_no_checkpoint_that_looks_complete() {
    let folder = folder();
    let stop = StopToken::new();
    let storage = faulty(Faulty { stop_from: Some((30, stop.clone())), ..Faulty::default() });
    let request = request(folder.path());
    let report = run_on(plan(&request), storage.clone(), &stop);
    assert_eq!(report.ending, Ending::Stopped);
    assert_eq!((report.results.saves.len(), report.results.restores.len()), (1, 0));
    assert_steps(folder.path(), 1);
    let report = run_on(plan(&request), Arc::new(Disk), &StopToken::new());
    assert_eq!(report.ending, Ending::Complete);
    assert_steps(folder.path(), 2);
}

#[test]
fn files_are_synced_as_the_policy_requires() {
    let expected = [
        (FsyncPolicy::PerFile, 1, true),
        (FsyncPolicy::PerCheckpoint, 1, true),
        (FsyncPolicy::None, 0, false),
    ];
    for (policy, times, crash_safe) in expected {
        let folder = folder();
        let mut request = request(folder.path());
        request.fsync = Some(policy);
        request.saves = Some(1);
        request.restores = Some(1);
        let storage = faulty(Faulty::default());
        let report = run_on(plan(&request), storage.clone(), &StopToken::new());
        assert_eq!(report.ending, Ending::Complete, "{policy}");
        let marker = marker(folder.path(), 1);
        let synced = storage.gate().synced.lock().unwrap();
        assert_eq!(synced.len(), times * marker.files.len(), "{policy}");
        assert_eq!(marker.crash_safe, crash_safe);
    }
}

#[test]
fn a_directory_in_use_is_left_alone() {
    let folder = folder();
    let request = request(folder.path());
    let plan = plan(&request);
    fs::create_dir(&request.folders[0]).unwrap();
    let _other = FolderLock::take(request.folders[0].folder()).unwrap();
    let head = Head::new(ReportKind::Checkpoint, String::new(), String::new(), probe::host_facts());
    let surroundings = RunContext {
        storage: &(Arc::new(Disk) as Arc<dyn Storage>),
        observer: &Silent,
        stop: &StopToken::new(),
    };
    let error = run(head, &plan, None, &surroundings, &mut |_| {}).unwrap_err();
    assert!(matches!(error, CheckpointError::Fault(Fault::Lock(_))), "{error}");
}
