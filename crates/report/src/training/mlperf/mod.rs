//! The files that MLPerf Storage's own tools read: DLIO's `summary.json`, the statistics of each
//! epoch and step, and the configuration folder, in the layout of v2.0 or v3.0.
//!
//! One run is one folder. "MB" and "GB" in DLIO's key names are MiB and GiB.

use serde_json::{Map, Value, json};
use stormlp_model::training::catalog;
use stormlp_model::training::metrics::{self, Rule};
use stormlp_model::training::plan::{LoaderPlan, TrainPlan};
use stormlp_model::training::profile::Profile;
use stormlp_model::training::report::{
    BlockSums, CheckpointReport, EpochReport, Measures, StepLists, TrainReport,
};
use stormlp_model::training::workload::Workload;

use super::stamp;

/// One file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputFile {
    /// Where, below the folder that was asked for.
    pub path: String,
    /// What.
    pub content: String,
}

/// One run of a report.
struct Run<'a> {
    report: &'a TrainReport,
    epochs: &'a [EpochReport],
    /// Whether it ran to its end and reached the threshold.
    meets_threshold: bool,
    started: f64,
    duration: f64,
    steps: &'a [StepLists],
    checkpoints: &'a [CheckpointReport],
}

/// The files of every run of `report`. `steps` are the times of every step, run by run; where a
/// run has none, its `load`, `proc` and `compute` lists are left out. A run's folder is named for
/// the second in which it began; where `taken` says that a folder of this name is there already,
/// and for several runs of one second, a number follows.
#[must_use]
pub fn files(
    report: &TrainReport,
    workload: &Workload,
    steps: &[Vec<StepLists>],
    taken: &dyn Fn(&str) -> bool,
) -> Vec<OutputFile> {
    let mut files = Vec::new();
    let mut folders: Vec<String> = Vec::new();
    for (index, run) in runs(report, steps).iter().enumerate() {
        let base = folder(run);
        let numbered = (2u32..).map(|number| format!("{base}-{number}"));
        let free = std::iter::once(base.clone())
            .chain(numbered)
            .find(|name| !folders.contains(name) && !taken(name));
        // The numbers do not end before a free one.
        folders.push(free.unwrap_or(base));
        run_files(run, workload, &folders[index], &mut files);
    }
    files
}

fn runs<'a>(report: &'a TrainReport, steps: &'a [Vec<StepLists>]) -> Vec<Run<'a>> {
    let steps_of = |index: usize| steps.get(index).map_or(&[][..], Vec::as_slice);
    if report.runs.is_empty() {
        return vec![Run {
            report,
            epochs: &report.epochs,
            meets_threshold: report.meets_threshold,
            started: report.started_unix_seconds,
            duration: report.duration_seconds,
            steps: steps_of(0),
            checkpoints: &report.checkpoints,
        }];
    }
    let several = report.runs.iter().enumerate().map(|(index, one)| Run {
        report,
        epochs: &one.epochs,
        meets_threshold: one.meets_threshold,
        started: one.started_unix_seconds,
        duration: one.duration_seconds,
        steps: steps_of(index),
        checkpoints: &one.checkpoints,
    });
    several.collect()
}

impl<'a> Run<'a> {
    /// The epochs that count: all but one that was cut short.
    fn scored(&self) -> impl Iterator<Item = &'a EpochReport> {
        let plan = &self.report.plan;
        self.epochs.iter().filter(|epoch| epoch.is_whole(plan))
    }
}

/// The folder of a run, as its edition lays them out.
fn folder(run: &Run) -> String {
    let workload = &run.report.plan.workload;
    let leaf = format!("training/{workload}/run/{}", stamp::folder(run.started));
    match run.report.profile {
        Profile::V3 => {
            let host = &run.report.head.host.hostname;
            format!("whatif/stormlp/results/{host}/{leaf}")
        }
        Profile::V1 | Profile::V2 | Profile::Native => leaf,
    }
}

fn run_files(run: &Run, workload: &Workload, folder: &str, files: &mut Vec<OutputFile>) {
    let plan = &run.report.plan;
    let mut push = |name: &str, content: String| {
        files.push(OutputFile {
            path: format!("{folder}/{name}"),
            content,
        });
    };
    push("summary.json", pretty(&summary(run)));
    for rank in 0..run.report.accelerators {
        let name = format!("{rank}_per_epoch_stats.json");
        push(&name, pretty(&per_epoch(run, rank as usize)));
        push(
            &format!("{rank}_output.json"),
            pretty(&output(run, rank as usize)),
        );
    }
    push("dlio_config/config.yaml", config(plan, workload));
    push("dlio_config/overrides.yaml", overrides(plan, workload));
    push("dlio_config/hydra.yaml", hydra(plan, folder));
}

/// JSON as DLIO indents it.
fn pretty(value: &Value) -> String {
    // Maps with text keys and finite numbers: nothing that JSON cannot hold.
    let mut text = serde_json::to_string_pretty(value).expect("plain values are JSON");
    text.push('\n');
    text
}

fn summary(run: &Run) -> Value {
    let report = run.report;
    let plan = &report.plan;
    let host = &report.head.host;
    let gib = |bytes: f64| bytes / f64::from(1u32 << 30);
    let data_gib = gib(f64::from(report.accelerators)
        * plan.data.samples_per_file as f64
        * (plan.data.files / u64::from(report.accelerators)) as f64
        * plan.data.sample_bytes);
    let memory_gib = gib(host.memory_bytes as f64);
    json!({
        "start": stamp::iso(run.started),
        "num_accelerators": report.accelerators,
        "num_hosts": 1,
        "hostname": host.hostname,
        "metric": metric(run),
        "num_files_train": plan.data.files,
        "num_files_eval": plan.data.eval_files,
        "num_samples_per_file": plan.data.samples_per_file,
        "host_cpu_count": [host.cpus],
        "host_processor_name": [host.cpu_model],
        "potential_caching": [i32::from(data_gib <= memory_gib)],
        "host_cpuinfo": {"model name": host.cpu_model},
        "host_meminfo": {"MemTotal": format!("{} kB", host.memory_bytes / 1024)},
        "host_memory_GB": [memory_gib],
        "data_size_per_host_GB": data_gib,
        "epochs": run.scored().count(),
        "end": stamp::iso(run.started + run.duration),
    })
}

fn metric(run: &Run) -> Value {
    let measures: Vec<Measures> = run.scored().map(|epoch| epoch.measures).collect();
    let mean = metrics::mean(&measures);
    let spread = metrics::spread(&measures);
    let verdict = |meets: bool| if meets { "success" } else { "fail" };
    let au: Vec<f64> = measures.iter().map(|m| m.au_percent.profile).collect();
    let throughput: Vec<f64> = measures.iter().map(|m| m.samples_per_second).collect();
    let mut metric = json!({
        "train_au_percentage": au,
        "train_au_mean_percentage": mean.au_percent.profile,
        "train_au_meet_expectation": verdict(run.meets_threshold),
        "train_au_stdev_percentage": spread.au_percent,
        "train_throughput_samples_per_second": throughput,
        "train_throughput_mean_samples_per_second": mean.samples_per_second,
        "train_throughput_stdev_samples_per_second": spread.samples_per_second,
        "train_io_mean_MB_per_second": mean.mib_per_second,
        "train_io_stdev_MB_per_second": spread.mib_per_second,
    });
    let evaluations: Vec<_> = run
        .epochs
        .iter()
        .filter_map(|epoch| epoch.evaluation)
        .collect();
    if let (Some(map), false) = (metric.as_object_mut(), evaluations.is_empty()) {
        let au: Vec<f64> = evaluations.iter().map(|e| e.au_percent).collect();
        let throughput: Vec<f64> = evaluations.iter().map(|e| e.samples_per_second).collect();
        let mean = |values: &[f64]| stormlp_model::stats::mean(values);
        map.insert("eval_au_mean_percentage".to_string(), mean(&au).into());
        map.insert("eval_au_percentage".to_string(), json!(au));
        map.insert(
            "eval_throughput_mean_samples_per_second".to_string(),
            mean(&throughput).into(),
        );
        map.insert(
            "eval_throughput_samples_per_second".to_string(),
            json!(throughput),
        );
    }
    metric
}

/// The blocks of accelerator `rank` in `epoch`.
fn blocks(epoch: &EpochReport, rank: usize) -> &[BlockSums] {
    epoch
        .accelerators
        .get(rank)
        .map_or(&[], |accelerator| &accelerator.blocks)
}

fn span(run: &Run, started: f64, seconds: f64) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert(
        "start".to_string(),
        stamp::iso(run.started + started).into(),
    );
    map.insert(
        "end".to_string(),
        stamp::iso(run.started + started + seconds).into(),
    );
    // DLIO writes durations of blocks and epochs as text.
    map.insert("duration".to_string(), format!("{seconds:.2}").into());
    map
}

fn per_epoch(run: &Run, rank: usize) -> Value {
    let mut all = Map::new();
    for epoch in run.epochs {
        let mut entry = span(run, epoch.started_seconds, epoch.duration_seconds);
        for (index, block) in blocks(epoch, rank).iter().enumerate() {
            let block = span(run, block.started_seconds, block.seconds);
            entry.insert(format!("block{}", index + 1), Value::Object(block));
        }
        let written = run.checkpoints.iter().filter(|c| c.epoch == epoch.epoch);
        for (index, checkpoint) in written.enumerate() {
            entry.insert(format!("save_ckpt{}", index + 1), saved(run, checkpoint));
        }
        if let Some(evaluation) = &epoch.evaluation {
            let eval = span(run, evaluation.started_seconds, evaluation.duration_seconds);
            entry.insert("eval".to_string(), Value::Object(eval));
        }
        all.insert(epoch.epoch.to_string(), Value::Object(entry));
    }
    Value::Object(all)
}

fn saved(run: &Run, checkpoint: &CheckpointReport) -> Value {
    let gib = checkpoint.bytes as f64 / f64::from(1u32 << 30);
    let start = run.started + checkpoint.started_seconds;
    json!({
        "start": stamp::iso(start),
        "end": stamp::iso(start + checkpoint.duration_seconds),
        "duration": checkpoint.duration_seconds,
        "throughput": if checkpoint.duration_seconds > 0.0 {
            gib / checkpoint.duration_seconds
        } else {
            0.0
        },
    })
}

fn output(run: &Run, rank: usize) -> Value {
    let report = run.report;
    let rule = Rule {
        profile: report.profile,
        batch_size: report.plan.batch_size,
        nominal_seconds: report.plan.compute.mean_seconds(),
        sample_bytes: report.plan.data.sample_bytes,
    };
    let mut all = Map::new();
    all.insert(
        "hostname".to_string(),
        report.head.host.hostname.clone().into(),
    );
    for epoch in run.epochs {
        let lists = run.steps.iter().find(|lists| lists.epoch == epoch.epoch);
        let steps = lists.and_then(|lists| lists.steps.get(rank));
        let mut entry = json!({"load": {}, "proc": {}, "compute": {}, "throughput": {}, "au": {}});
        let mut from = 0;
        for (index, block) in blocks(epoch, rank).iter().enumerate() {
            let name = format!("block{}", index + 1);
            entry["throughput"][&name] = metrics::block_throughput(&rule, block).into();
            entry["au"][&name] = metrics::block_au(&rule, block).profile.into();
            if let Some(steps) = steps {
                let to = (from + block.steps as usize).min(steps.len());
                let list = |get: &dyn Fn(&(f32, f32)) -> f32| -> Value {
                    steps[from..to].iter().map(get).collect::<Vec<f32>>().into()
                };
                entry["load"][&name] = list(&|step| step.0);
                entry["compute"][&name] = list(&|step| step.1);
                entry["proc"][&name] = list(&|step| step.0 + step.1);
                from = to;
            }
        }
        let start = run.started + epoch.started_seconds;
        entry["start"] = stamp::iso(start).into();
        entry["end"] = stamp::iso(start + epoch.duration_seconds).into();
        all.insert(epoch.epoch.to_string(), entry);
    }
    Value::Object(all)
}

/// Where the data lies, and each number that is not the workload's own, as Hydra's overrides:
/// checkers of submissions take what is listed here for changed.
fn overrides(plan: &TrainPlan, workload: &Workload) -> String {
    let mut text = format!("- workload={}_{}\n", plan.workload, plan.accelerator);
    let built_in = catalog::find(&plan.workload, Some(&plan.accelerator)).ok();
    let own = built_in.and_then(|entry| entry.workload(&[]).ok());
    let own = own.as_ref().unwrap_or(workload);
    let mut push = |key: &str, value: String| {
        text.push_str(&format!("- ++workload.{key}={value}\n"));
    };
    push("dataset.num_files_train", plan.data.files.to_string());
    if let Some(folder) = &plan.data.folder {
        push("dataset.data_folder", folder.display().to_string());
    }
    let read_threads = match plan.loader {
        LoaderPlan::Workers { read_threads, .. } | LoaderPlan::Interleave { read_threads, .. } => {
            u64::from(read_threads)
        }
    };
    let numbers: [(&str, u64, u64); 4] = [
        (
            "dataset.num_samples_per_file",
            plan.data.samples_per_file,
            own.dataset.num_samples_per_file,
        ),
        (
            "reader.batch_size",
            plan.batch_size.into(),
            own.reader.batch_size.into(),
        ),
        (
            "reader.read_threads",
            read_threads,
            own.reader.read_threads.into(),
        ),
        ("train.epochs", plan.epochs.into(), own.train.epochs.into()),
    ];
    for (key, value, _) in numbers.iter().filter(|(_, value, own)| value != own) {
        push(key, value.to_string());
    }
    if plan.compute != own.train.computation_time {
        let seconds = plan.compute.mean_seconds();
        push("train.computation_time", seconds.to_string());
    }
    text
}

/// The configuration in Hydra's form, with the keys that say how much is read and computed; how the
/// loader shuffles, evaluation, checkpoints and drawn compute times are not among them.
fn config(plan: &TrainPlan, workload: &Workload) -> String {
    let dataset = &workload.dataset;
    let folder = plan
        .data
        .folder
        .as_ref()
        .map(|folder| folder.display().to_string());
    let (read_threads, prefetch) = match plan.loader {
        LoaderPlan::Workers {
            read_threads,
            prefetch_size,
            ..
        } => (read_threads, prefetch_size),
        LoaderPlan::Interleave {
            read_threads,
            prefetch_batches,
            ..
        } => (read_threads, prefetch_batches),
    };
    // JSON is YAML, and quotes what needs quoting.
    let value = json!({"workload": {
        "model": {"name": plan.workload},
        "workflow": {
            "generate_data": false,
            "train": true,
            "evaluation": plan.evaluation.is_some(),
            "checkpoint": plan.checkpoint.is_some(),
        },
        "dataset": {
            "data_folder": folder,
            "format": plan.data.format.name(),
            "num_files_train": plan.data.files,
            "num_files_eval": plan.data.eval_files,
            "num_samples_per_file": plan.data.samples_per_file,
            "record_length_bytes": dataset.record_length_bytes,
            "record_length_bytes_stdev": dataset.record_length_bytes_stdev,
            "record_length_bytes_resize": dataset.record_length_bytes_resize,
        },
        "reader": {
            "batch_size": plan.batch_size,
            "read_threads": read_threads,
            "prefetch_size": prefetch,
        },
        "train": {
            "epochs": plan.epochs,
            "computation_time": plan.compute.mean_seconds(),
            "seed": plan.shuffle.seed,
        },
        "metric": {"au": plan.metric.threshold_percent / 100.0},
        "stormlp": {
            "accelerator": plan.accelerator,
            "profile": plan.profile.name(),
        },
    }});
    pretty(&value)
}

fn hydra(plan: &TrainPlan, folder: &str) -> String {
    pretty(&json!({"hydra": {
        "job": {"name": "stormlp"},
        "runtime": {
            "output_dir": folder,
            "choices": {"workload": format!("{}_{}", plan.workload, plan.accelerator)},
        },
    }}))
}
