//! What each accelerator did, epoch by epoch and step by step.

use serde_json::{Value, json};
use stormlp_core::profile::Profile;
use stormlp_training::plan::metrics;
use stormlp_training::plan::metrics::Rule;
use stormlp_training::report::{AcceleratorEpoch, BlockSums, WrittenCheckpoint};

use super::{Run, summary};
use crate::official as mlperf;
use stormlp_show::stamp;

/// The blocks of accelerator `rank`; in a phase that was cut short some may have none.
fn blocks(accelerators: &[AcceleratorEpoch], rank: u32) -> &[BlockSums] {
    let own = accelerators.iter().find(|one| one.accelerator == rank);
    own.map_or(&[], |accelerator| &accelerator.blocks)
}

fn span(run: &Run, started: f64, seconds: f64) -> Value {
    json!({
        "start": stamp::iso(run.started + started),
        "end": stamp::iso(run.started + started + seconds),
        // DLIO writes durations of blocks and epochs as text.
        "duration": format!("{seconds:.2}"),
    })
}

/// `N_per_epoch_stats.json`: when each epoch, block, checkpoint and evaluation began and ended.
pub(super) fn per_epoch(run: &Run, rank: u32) -> Value {
    let mut all = json!({});
    for epoch in run.epochs {
        let mut entry = span(run, epoch.started_seconds, epoch.duration_seconds);
        for (index, block) in blocks(&epoch.accelerators, rank).iter().enumerate() {
            entry[format!("block{}", index + 1)] = span(run, block.started_seconds, block.seconds);
        }
        let written = run.checkpoints.iter().filter(|c| c.epoch == epoch.epoch);
        for (index, checkpoint) in written.enumerate() {
            let (name, saved) = saved(run, checkpoint);
            entry[format!("{name}{}", index + 1)] = saved;
        }
        if let Some(evaluation) = &epoch.evaluation {
            entry["eval"] = span(run, evaluation.started_seconds, evaluation.duration_seconds);
        }
        all[epoch.epoch.to_string()] = entry;
    }
    all
}

/// A checkpoint and what it is called: v1.0 times it as it times a block.
fn saved(run: &Run, checkpoint: &WrittenCheckpoint) -> (&'static str, Value) {
    let seconds = checkpoint.duration_seconds;
    let mut entry = span(run, checkpoint.started_seconds, seconds);
    if run.report.results.profile == Profile::V1 {
        return ("ckpt", entry);
    }
    entry["duration"] = seconds.into();
    entry["throughput"] = summary::gib_per_second(checkpoint).into();
    ("save_ckpt", entry)
}

/// `N_output.json`: the times of every step, and AU and throughput block by block.
pub(super) fn output(run: &Run, rank: u32) -> Value {
    let report = run.report;
    let rule = Rule::of(&report.plan);
    let is_v3 = report.results.profile == Profile::V3;
    let process = (0..)
        .take(report.plan.hosts.len())
        .find(|process| report.plan.accelerators_of(*process).contains(&rank));
    let group = report.results.group.as_ref();
    let host = mlperf::host_of(process.unwrap_or(0), &report.head.host, group, is_v3);
    let mut all = Value::Object(host);
    for epoch in run.epochs {
        let lists = run.steps.iter().find(|lists| lists.epoch == epoch.epoch);
        let mut steps = lists.and_then(|lists| lists.steps.get(rank as usize)).map(Vec::as_slice);
        let mut entry = json!({"load": {}, "proc": {}, "compute": {}, "throughput": {}, "au": {}});
        for (index, block) in blocks(&epoch.accelerators, rank).iter().enumerate() {
            let of_block = steps.map(|all| all.split_at((block.steps as usize).min(all.len())));
            steps = of_block.map(|(_, rest)| rest);
            let au = metrics::block_au(&rule, block).profile;
            let throughput = metrics::block_throughput(&rule, block);
            let times = of_block.map(|(own, _)| own);
            put(&mut entry, &format!("block{}", index + 1), au, throughput, times);
        }
        if let (Some(evaluation), Some(rules)) = (&epoch.evaluation, &report.plan.evaluation) {
            for block in blocks(&evaluation.accelerators, rank) {
                let (au, throughput) = metrics::evaluation(rules.batch_size, block);
                let times = lists.and_then(|lists| lists.evaluation.get(rank as usize));
                put(&mut entry, "eval", au, throughput, times.map(Vec::as_slice));
            }
        }
        let start = run.started + epoch.started_seconds;
        entry["start"] = stamp::iso(start).into();
        entry["end"] = stamp::iso(start + epoch.duration_seconds).into();
        all[epoch.epoch.to_string()] = entry;
    }
    all
}

/// One block, or the evaluation, of an epoch; without `times` its lists are left out.
fn put(entry: &mut Value, name: &str, au: f64, throughput: f64, times: Option<&[(f32, f32)]>) {
    entry["au"][name] = au.into();
    entry["throughput"][name] = throughput.into();
    let Some(times) = times else { return };
    let list = |get: fn(&(f32, f32)) -> f32| -> Value {
        times.iter().map(get).collect::<Vec<f32>>().into()
    };
    entry["load"][name] = list(|step| step.0);
    entry["compute"][name] = list(|step| step.1);
    entry["proc"][name] = list(|step| step.0 + step.1);
}
