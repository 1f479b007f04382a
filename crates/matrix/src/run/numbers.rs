//! Computes the results of a cell from its threads' recordings.

use crate::plan::{CellPlan, JobReport, JobRequest, MatrixPlan, Measurement};
use stormlp_core::evidence::DirectIo;
use stormlp_core::path::MemoryKind;
use stormlp_transfer::Backing;
use stormlp_transfer::telemetry::peak_rss_bytes;

use super::cell::{CellMeasurement, WatchedCell};
use super::merge::per_gib;
use super::recorder::Recorder;
use super::worker::WorkerOutcome;

/// The results of a cell; `None` if no transfer completed.
pub(super) fn numbers(
    plan: &MatrixPlan,
    cell: &CellPlan,
    measured: CellMeasurement,
) -> Option<Measurement> {
    let CellMeasurement { outcomes, watched, device_names, .. } = measured;
    let WatchedCell { cpu, device, series, started_unix_seconds, steady } = watched;
    let started = outcomes.iter().map(|outcome| outcome.started).min()?;
    let elapsed = |outcome: &WorkerOutcome| (outcome.ended - started).as_secs_f64();
    let last_done_seconds = outcomes.iter().map(elapsed).max_by(f64::total_cmp)?;
    let first_done_seconds = outcomes.iter().map(elapsed).min_by(f64::total_cmp)?;
    let syncs = outcomes.iter().filter_map(|outcome| outcome.sync);
    let fsync_seconds = syncs.max().map(|sync| sync.as_secs_f64());
    let evidence = &outcomes.first()?.evidence;
    let engine = evidence.engine.as_ref().map(|facts| facts.engine);
    let duration_seconds = last_done_seconds.max(1e-9);
    let jobs = jobs(plan, cell, &outcomes);
    let mut both = Recorder::new(plan.request.read_percent.is_some());
    outcomes.iter().for_each(|outcome| both.merge(&outcome.recorder));
    let all = both.total();
    // Counters that stand still while direct transfers pass do not count them.
    let is_direct = cell.direct && evidence.direct_io == DirectIo::Honoured;
    let device = device.filter(|count| !is_direct || count.reads + count.writes > 0);
    let latency_us = all.latency.summary()?;
    let in_accelerator = cell.transport.path.ends_in_accelerator();
    Some(Measurement {
        throughput_bytes_per_second: all.bytes as f64 / duration_seconds,
        iops: all.operations as f64 / duration_seconds,
        latency_us,
        latency_histogram: all.latency.to_base64(),
        operations: all.operations,
        bytes: all.bytes,
        duration_seconds,
        first_done_seconds,
        last_done_seconds,
        cpu_user_seconds: cpu.user_seconds,
        cpu_system_seconds: cpu.system_seconds,
        cpu_seconds_per_gib: per_gib(cpu.total_seconds(), all.bytes),
        series,
        device_names,
        device_read_bytes: device.map(|counters| counters.read_bytes),
        device_written_bytes: device.map(|counters| counters.written_bytes),
        page_cache_share: None,
        page_cache_share_after: None,
        fsync_seconds,
        engine,
        memory: match cell.transport.host_memory().and_then(MemoryKind::host_words) {
            Some(kind) => format!("{kind} for {}", measured.accelerator),
            None if in_accelerator => measured.accelerator,
            None => "host memory".to_string(),
        },
        memory_emulated: cell.transport.emulated,
        buffers_backing: Backing::Unknown,
        peak_rss_bytes: peak_rss_bytes(),
        jobs,
        mix: both.apart(duration_seconds),
        interrupted: measured.interrupted,
        started_unix_seconds,
        levels: Vec::new(),
        steady,
    })
}

/// Results of each job, if there are several.
fn jobs(plan: &MatrixPlan, cell: &CellPlan, outcomes: &[WorkerOutcome]) -> Vec<JobReport> {
    if plan.request.jobs.len() < 2 {
        return Vec::new();
    }
    let workers = &plan.thread_groups[cell.thread_group].workers;
    let of_job = |(index, job): (usize, &JobRequest)| {
        let of_workers = workers.iter().zip(outcomes);
        let own: Vec<&WorkerOutcome> = of_workers
            .filter(|(worker, _)| worker.job == index)
            .map(|(_, outcome)| outcome)
            .collect();
        job_report(&job.name, &own)
    };
    let jobs = plan.request.jobs.iter().enumerate();
    jobs.filter_map(of_job).collect()
}

/// Results of one job over its duration: a finished job does not become slower while it waits for
/// the rest. `None` for a job without workers.
fn job_report(name: &str, outcomes: &[&WorkerOutcome]) -> Option<JobReport> {
    let started = outcomes.iter().map(|outcome| outcome.started).min()?;
    let ended = outcomes.iter().map(|outcome| outcome.ended).max()?;
    let seconds = (ended - started).as_secs_f64().max(1e-9);
    let mut both = Recorder::new(true);
    outcomes.iter().for_each(|outcome| both.merge(&outcome.recorder));
    Some(JobReport {
        name: name.to_string(),
        threads: outcomes.len() as u32,
        duration_seconds: seconds,
        transfers: both.total().within(seconds),
    })
}
