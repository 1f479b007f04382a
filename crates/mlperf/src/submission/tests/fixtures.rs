//! Valid packages, for tests that break them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::submission::check::CheckReport;
use crate::submission::survey::Submission;
use crate::submission::tree::{Entry, Tree, join};
use crate::submission::{check, system_yaml};

/// A tree, built file by file.
#[derive(Default)]
pub(super) struct Builder {
    pub(super) files: BTreeMap<String, String>,
    /// Entries in addition to text files.
    pub(super) others: BTreeMap<String, Entry>,
}

/// The folder of a system in a package of v3.0.
pub(super) const SYSTEM: &str = "closed/acme/results/fast";

impl Builder {
    pub(super) fn put(&mut self, path: &str, text: impl Into<String>) -> &mut Self {
        self.files.insert(path.to_string(), text.into());
        self
    }

    pub(super) fn json(&mut self, path: &str, value: &Value) -> &mut Self {
        self.put(path, value.to_string())
    }

    /// Changes a JSON file.
    pub(super) fn edit(&mut self, path: &str, change: impl FnOnce(&mut Value)) -> &mut Self {
        let mut value = serde_json::from_str(&self.files[path]).unwrap();
        change(&mut value);
        self.json(path, &value)
    }

    /// Replaces a file by another entry.
    pub(super) fn lay(&mut self, path: &str, entry: Entry) -> &mut Self {
        self.remove(path);
        self.others.insert(path.to_string(), entry);
        self
    }

    pub(super) fn remove(&mut self, path: &str) -> &mut Self {
        let below = format!("{path}/");
        self.files.retain(|name, _| name != path && !name.starts_with(&below));
        self
    }

    /// Changes the description of its system.
    pub(super) fn describe(&mut self, from: &str, to: &str) -> &mut Self {
        let is_description = |path: &&String| path.contains("/systems/") && path.ends_with(".yaml");
        let path = self.files.keys().find(is_description).cloned().unwrap();
        let text = self.files[&path].replace(from, to);
        assert_ne!(text, self.files[&path], "{from}");
        self.put(&path, text)
    }

    fn tree(&self) -> Tree {
        let mut tree = Tree::default();
        for (path, text) in &self.files {
            let mut folder = crate::submission::tree::parent(path);
            while !folder.is_empty() {
                tree.add(folder, Entry::Folder);
                folder = crate::submission::tree::parent(folder);
            }
            tree.add(path.clone(), Entry::of(path, text.clone()));
        }
        for (path, entry) in &self.others {
            tree.add(path.clone(), entry.clone());
        }
        tree
    }

    pub(super) fn check(&self) -> CheckReport {
        check(&Submission::survey(self.tree()))
    }
}

/// Samples/s of all eight ranks: 28000 in five minutes.
pub(super) const RATE: f64 = 28_000.0 / 300.0;
/// The rate in MiB/s.
pub(super) const MIB_PER_SECOND: f64 = RATE * 146_600_628.0 / 1_048_576.0;

/// The time so many minutes after ten.
fn clock(minute: usize) -> String {
    format!("{:02}:{:02}:00", 10 + minute / 60, minute % 60)
}

/// Name, start and end of a run: ten minutes each, with one minute in between.
pub(super) fn began(number: usize) -> (String, String, String) {
    let (start, end) = (clock(number * 11), clock(number * 11 + 10));
    let name = format!("20260601_{}", start.replace(':', ""));
    (name, format!("2026-06-01T{start}"), format!("2026-06-01T{end}"))
}

pub(super) fn run_name(number: usize) -> String {
    format!("{SYSTEM}/training/unet3d/run/{}", began(number).0)
}

fn leaf_files(builder: &mut Builder, leaf: &str, stem: &str) {
    for name in [format!("{stem}.stdout.log"), format!("{stem}.stderr.log"), "dlio.log".to_string()]
    {
        builder.put(&join(leaf, &name), "");
    }
    builder.put(&join(leaf, "dlio_config/config.yaml"), "workload: {}\n");
    builder.put(&join(leaf, "dlio_config/hydra.yaml"), "hydra: {}\n");
}

fn training_metadata(command: &str) -> Value {
    json!({
        "benchmark_type": "training", "verification": "CLOSED",
        "args": {
            "model": "unet3d", "accelerator_type": "b200", "num_accelerators": 8,
            "hosts": ["n1"], "data_dir": "/data", "results_dir": "/results", "command": command,
        },
        "override_parameters": {"dataset.num_files_train": "28000"},
        "parameters": {
            "dataset": {"num_files_train": 28000, "num_samples_per_file": 1,
                        "record_length_bytes": 146_600_628},
            "reader": {"batch_size": 7},
        },
    })
}

pub(super) fn summary(number: usize) -> Value {
    let (_, start, end) = began(number);
    json!({
        "start": start, "end": end, "num_accelerators": 8, "num_hosts": 1, "hostname": "n1",
        "num_files_train": 28000, "num_files_eval": 0, "num_samples_per_file": 1,
        "host_memory_GB": [64.0], "host_cpu_count": [32], "host_processor_name": ["cpu"],
        "metric": {
            "train_au_percentage": [95.0, 97.0], "train_au_mean_percentage": 96.0,
            "train_au_meet_expectation": "success",
            "train_throughput_samples_per_second": [RATE, RATE],
            "train_throughput_mean_samples_per_second": RATE,
            "train_io_mean_MB_per_second": MIB_PER_SECOND,
        },
    })
}

/// The row of the package in the report.
pub(super) fn row() -> Value {
    json!({"Benchmark Type": "training", "Model": "Unet3D", "Name": "fast",
        "Training - Read B/W (GiB/s)": MIB_PER_SECOND / 1024.0,
        "Training - # Simulated Accelerators": 8, "Training - Accelerator Type": "b200"})
}

/// Two epochs of five minutes.
pub(super) fn epochs_of(number: usize) -> Value {
    let (_, start, end) = began(number);
    let half = format!("2026-06-01T{}", clock(number * 11 + 5));
    json!({
        "1": {"start": start, "end": half, "duration": "300.00"},
        "2": {"start": half, "end": end, "duration": "300.00"},
    })
}

/// A valid package with a result of unet3d.
pub(super) fn package() -> Builder {
    let mut builder = Builder::default();
    let overrides = "- workload=unet3d_b200\n- ++workload.dataset.num_files_train=28000\n";
    for number in 0..6 {
        let leaf = run_name(number);
        leaf_files(&mut builder, &leaf, "training_run");
        builder.put(&join(&leaf, "dlio_config/overrides.yaml"), overrides);
        builder.json(&join(&leaf, "summary.json"), &summary(number));
        builder.json(&join(&leaf, "training_x_metadata.json"), &training_metadata("run"));
        for rank in 0..8 {
            let block = |value: f64| json!({ "block1": value });
            let epoch = |au: f64| json!({"au": block(au), "throughput": block(RATE / 8.0)});
            let output = json!({"1": epoch(95.0), "2": epoch(97.0)});
            builder.json(&join(&leaf, &format!("{rank}_output.json")), &output);
            let stats = epochs_of(number);
            builder.json(&join(&leaf, &format!("{rank}_per_epoch_stats.json")), &stats);
        }
        let separation = json!({"version": 1, "same_filesystem": false});
        builder.json(&join(&leaf, "fs_separation.json"), &separation);
    }
    builder.json(&format!("{SYSTEM}/training/unet3d/run/results.json"), &json!([row()]));
    for phase in ["datasize", "datagen"] {
        let leaf = format!("{SYSTEM}/training/unet3d/{phase}/20260601_090000");
        if phase == "datagen" {
            leaf_files(&mut builder, &leaf, "training_datagen");
            builder.put(&join(&leaf, "dlio_config/overrides.yaml"), overrides);
        }
        builder.json(&join(&leaf, "training_x_metadata.json"), &training_metadata(phase));
    }
    builder.put("closed/acme/systems/fast.yaml", system_yaml::tests::VALID);
    builder.describe("memory_capacity: 256", "memory_capacity: 64");
    builder.put("closed/acme/systems/fast.pdf", "%PDF");
    builder.put("code-images/.mlps-image-pool", "");
    builder
}

/// Makes the runs of a package, and the description of its system, of two hosts.
pub(super) fn on_two_hosts(builder: &mut Builder) {
    for number in 0..6 {
        builder.edit(&join(&run_name(number), "summary.json"), |summary| {
            summary["num_hosts"] = json!(2);
            summary["host_memory_GB"] = json!([64.0, 64.0]);
            summary["host_cpu_count"] = json!([32, 32]);
            summary["host_processor_name"] = json!(["cpu", "cpu"]);
        });
        builder.edit(&join(&run_name(number), "training_x_metadata.json"), |metadata| {
            metadata["args"]["hosts"] = json!(["n1", "n2"]);
        });
    }
    for phase in ["datasize", "datagen"] {
        let leaf = format!("{SYSTEM}/training/unet3d/{phase}/20260601_090000");
        builder.edit(&join(&leaf, "training_x_metadata.json"), |metadata| {
            metadata["args"]["hosts"] = json!(["n1", "n2"]);
        });
    }
    builder.describe("quantity: 1", "quantity: 2");
}

/// A package with a result of llama3-8b, written and read in two invocations.
pub(super) fn checkpoints() -> Builder {
    let mut builder = package();
    builder.remove(&format!("{SYSTEM}/training"));
    builder.describe("memory_capacity: 64", "memory_capacity: 32");
    for (number, writes) in [(0, 10), (1, 0)] {
        let leaf = format!("{SYSTEM}/checkpointing/llama3-8b/{}", began(number).0);
        leaf_files(&mut builder, &leaf, "checkpointing_run");
        let overrides = "- workload=llama3_8b\n- ++workload.checkpoint.checkpoint_folder=/c\n";
        builder.put(&join(&leaf, "dlio_config/overrides.yaml"), overrides);
        let (_, start, end) = began(number);
        let phase = if writes > 0 { "save" } else { "load" };
        let mut stats = json!({"1": {"start": start, "end": end, "duration": "600.00"}});
        for checkpoint in 1..=10 {
            // Two a minute.
            let minute = clock(number * 11 + (checkpoint - 1) / 2);
            let second = 30 * ((checkpoint - 1) % 2);
            let at = |second: f64| format!("2026-06-01T{}:{second:05.2}", &minute[..5]);
            let (start, end) = (at(second as f64), at(second as f64 + 20.94));
            stats["1"][format!("{phase}_ckpt{checkpoint}")] =
                json!({"start": start, "end": end, "duration": 20.94, "throughput": 5.0});
        }
        for rank in 0..8 {
            builder.put(&join(&leaf, &format!("{rank}_output.json")), "{}");
            builder.json(&join(&leaf, &format!("{rank}_per_epoch_stats.json")), &stats);
        }
        let mut metric = json!({"checkpoint_size_GB": 104.7});
        for (what, value) in [("io_mean_GB_per_second", 5.0), ("duration_mean_seconds", 20.94)] {
            metric[format!("{phase}_checkpoint_{what}")] = json!(value);
        }
        builder.json(
            &join(&leaf, "summary.json"),
            &json!({"start": start, "end": end, "num_accelerators": 8, "num_hosts": 1,
                    "host_memory_GB": [32.0], "metric": metric}),
        );
        builder.json(
            &join(&leaf, "checkpointing_x_metadata.json"),
            &json!({
                "verification": "CLOSED", "override_parameters": {},
                "args": {"model": "llama3-8b", "accelerator_type": "b200", "num_processes": 8,
                    "num_checkpoints_write": writes, "num_checkpoints_read": 10 - writes,
                    "checkpoint_folder": "/c", "results_dir": "/r"},
                "parameters": {"checkpoint": {"fsync": true}},
                "invocation_start_time": if writes > 0 { "2026-06-01T09:59:50Z" } else { "2026-06-01T10:10:20Z" },
                "invocation_end_time": if writes > 0 { "2026-06-01T10:10:05Z" } else { "2026-06-01T10:21:20Z" },
            }),
        );
        builder.json(&join(&leaf, "fs_separation.json"), &json!({"same_filesystem": false}));
    }
    let place = format!("{SYSTEM}/checkpointing/llama3-8b/results.json");
    builder.json(
        &place,
        &json!([{"Benchmark Type": "checkpointing", "Model": "8B",
            "Checkpointing - Write B/W (GiB/s)": 5.0, "Checkpointing - Write Duration (secs)": 20.94,
            "Checkpointing - Read B/W (GiB/s)": 5.0, "Checkpointing - Read Duration (secs)": 20.94}]),
    );
    builder
}

pub(super) fn checkpoint_leaf(number: usize) -> String {
    format!("{SYSTEM}/checkpointing/llama3-8b/{}", began(number).0)
}
