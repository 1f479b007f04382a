//! Runs on real files.

use std::path::Path;
use std::sync::Arc;

use stormlp_core::event::Silent;
use stormlp_core::location::Location;
use stormlp_core::report::{Ending, Head, ReportKind};
use stormlp_core::stop::StopToken;
use stormlp_core::telemetry::Telemetry;
use stormlp_transfer::run_context::RunContext;
use stormlp_transfer::storage::{Disk, Storage};
use tempfile::TempDir;

use super::*;
use crate::plan::{
    Content, KvcachePlan, KvcacheRequest, KvcacheWorkload, MlperfRequest, Model, Noise, RunRequest,
    resolve,
};
use crate::report::{KvcacheReport, Timed};

/// A request for a short run of small objects in `folder`.
fn request(folder: &Path, change: fn(&mut MlperfRequest, &mut RunRequest)) -> KvcacheRequest {
    let mut options = MlperfRequest { users: Some(3), ..MlperfRequest::default() };
    options.tune.run.telemetry = Telemetry::off();
    let mut run = RunRequest { model: Some("tiny-1b".to_string()), ..RunRequest::default() };
    (run.duration_seconds, run.folder) = (Some(0.8), Some(Location::from(folder)));
    change(&mut options, &mut run);
    KvcacheRequest { workload: KvcacheWorkload::Mlperf(options), run, ..KvcacheRequest::default() }
}

fn plan(request: &KvcacheRequest) -> KvcachePlan {
    let folder = request.own_folder();
    let facts = scan(&Disk, &folder, ScanDepth::AndTry).unwrap();
    let resolution = resolve(request, &stormlp_fixtures::host(), Some(&facts), &[]);
    assert!(resolution.problems.is_empty(), "{}", resolution.problems);
    resolution.plan.unwrap()
}

fn run_of(request: &KvcacheRequest) -> KvcacheReport {
    let storage: Arc<dyn Storage> = Arc::new(Disk);
    let stop = StopToken::new();
    let surroundings = RunContext { storage: &storage, observer: &Silent, stop: &stop };
    let started = "2026-01-31T23:59:55Z".to_string();
    let head =
        Head::new(ReportKind::Kvcache, "kvcache".to_string(), started, stormlp_fixtures::host());
    let mut units = 0;
    let report = run(None, (head, &plan(request)), &surroundings, &mut |_| units += 1).unwrap();
    assert_eq!(report.ending, Ending::Complete);
    assert_eq!(units, report.results.trials.len());
    report
}

fn objects(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let names = Disk.list(folder).unwrap().into_iter();
    let names = names.filter_map(|entry| entry.text().map(str::to_string));
    let objects = names.filter(|name| name.ends_with(".npy"));
    objects.map(|name| (name.clone(), std::fs::read(folder.join(name)).unwrap())).collect()
}

#[test]
fn objects_are_those_of_the_original_and_are_counted() {
    let dir = TempDir::new_in(".").unwrap();
    let report = run_of(&request(dir.path(), |_, run| run.no_cleanup = true));
    let trial = &report.results.trials[0];
    let (model, noise) = (Model::named("tiny-1b").unwrap(), Noise::new(42));
    let kept = objects(dir.path());
    assert_eq!(kept.len() as u64, trial.written.objects + trial.written.late_objects);
    let bytes: usize = kept.iter().map(|(_, bytes)| bytes.len()).sum();
    assert_eq!(bytes as u64, trial.written.all_bytes());
    for (name, bytes) in &kept {
        let tokens = (bytes.len() as u64 - 128) / model.bytes_per_token();
        let content = Content::new(&model, name.strip_suffix(".npy").unwrap(), tokens, 42);
        let mut expected = vec![0; bytes.len()];
        content.fill(&noise, 0, &mut expected);
        assert!(expected == *bytes, "{name}");
    }
    // Each object that is read was written, so all are of whole objects.
    let lookups = trial.lookups;
    assert!(
        lookups.own_hits > 0 && trial.read.all_bytes() > trial.written.all_bytes(),
        "{trial:?}"
    );
    assert_eq!(trial.times_ms[&Timed::Persist].count, kept.len() as u64);
}

#[test]
fn what_is_used_least_is_deleted_when_the_folder_is_full() {
    let dir = TempDir::new_in(".").unwrap();
    // Room for the largest object, and for few others.
    let report = run_of(&request(dir.path(), |options, run| {
        (options.users, run.capacity_bytes, run.no_cleanup) = (Some(8), Some(500 << 20), true);
    }));
    let trial = &report.results.trials[0];
    assert!(trial.evictions.deleted > 0, "{trial:?}");
    let bytes: usize = objects(dir.path()).iter().map(|(_, bytes)| bytes.len()).sum();
    assert!(bytes <= 500 << 20, "{bytes}");
}

#[test]
fn objects_in_memory_are_written_when_others_take_their_place() {
    let dir = TempDir::new_in(".").unwrap();
    let report = run_of(&request(dir.path(), |options, _| {
        (options.users, options.tune.cpu_cache_bytes) = (Some(6), Some(500 << 20));
    }));
    let trial = &report.results.trials[0];
    assert!(trial.lookups.memory_hits > 0 && trial.evictions.demoted > 0, "{trial:?}");
    let written = trial.written.objects + trial.written.late_objects;
    assert!(written >= trial.evictions.demoted, "{trial:?}");
}

#[test]
fn trials_begin_empty_and_leave_nothing() {
    let dir = TempDir::new_in(".").unwrap();
    let report = run_of(&request(dir.path(), |_, run| run.runs = Some(2)));
    let [first, second] = report.results.trials.as_slice() else { panic!("two trials") };
    assert!(second.started_at_seconds >= first.started_at_seconds + first.total_seconds);
    assert_eq!(report.results.passes[0].trials, 2);
    assert_eq!(objects(dir.path()), []);
}

#[test]
fn requests_are_finished_after_the_window_and_counted_apart() {
    let dir = TempDir::new_in(".").unwrap();
    let report = run_of(&request(dir.path(), |_, _| ()));
    let trial = &report.results.trials[0];
    assert_eq!(trial.window_seconds, 0.8);
    let (done, late) = (trial.requests.done(), trial.requests.served_late);
    // Three threads, each with at most one request.
    assert!(late <= 3 && done > 0, "{trial:?}");
    assert!(trial.read.late_bytes + trial.written.late_bytes > 0 || late == 0, "{trial:?}");
}

#[test]
fn a_stopped_run_keeps_what_it_measured() {
    let dir = TempDir::new_in(".").unwrap();
    let storage: Arc<dyn Storage> = Arc::new(Disk);
    let stop = StopToken::new();
    let surroundings = RunContext { storage: &storage, observer: &Silent, stop: &stop };
    let request = request(dir.path(), |_, run| run.runs = Some(1000));
    let plan = plan(&request);
    let started = "2026-01-31T23:59:55Z".to_string();
    let head =
        Head::new(ReportKind::Kvcache, "kvcache".to_string(), started, stormlp_fixtures::host());
    let report = run(None, (head, &plan), &surroundings, &mut |_| stop.stop()).unwrap();
    assert_eq!(report.ending, Ending::Stopped);
    assert_eq!(report.results.trials.len(), 1);
    assert_eq!(objects(dir.path()), []);
}
