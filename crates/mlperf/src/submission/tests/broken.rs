//! Every rule, broken once.

use serde_json::{Value, json};

use super::fixtures::{Builder, SYSTEM, checkpoint_leaf, on_two_hosts, run_name};
use crate::submission::tree::join;

/// A rule, and a way to break it in a package.
pub(super) type Case = (&'static str, fn(&mut Builder));

/// Changes the row of the report.
fn table(b: &mut Builder, change: impl FnOnce(&mut Value)) {
    let place = format!("{SYSTEM}/training/unet3d/run/results.json");
    b.edit(&place, |rows| change(&mut rows[0]));
}

/// Removes a key from a summary.
fn lacks(b: &mut Builder, key: &str) {
    b.edit(&join(&run_name(1), "summary.json"), |s| {
        s.as_object_mut().unwrap().remove(key);
    });
}

/// One that does not let hosts write at the same time, and needs so long before it can be read.
pub(super) fn remapping(b: &mut Builder, seconds: u32) {
    b.describe("simultaneous_write: true", "simultaneous_write: false");
    b.describe("remap_time_in_seconds: 0", &format!("remap_time_in_seconds: {seconds}"));
}

fn verdict(b: &mut Builder, verification: &str) {
    b.edit(&join(&run_name(1), "training_x_metadata.json"), |m| {
        m["verification"] = json!(verification);
    });
}

pub(super) const TRAINING: &[Case] = &[
    ("2.1.1", |b| {
        b.put("closed/a b/results/x/training/unet3d/run/results.json", "[]");
    }),
    ("2.1.2", |b| {
        b.put("Closed/x", "");
    }),
    ("2.1.2", |b| {
        b.put("notes/x", "");
    }),
    ("2.1.5", |b| {
        b.remove("closed/acme/systems");
    }),
    ("2.1.5", |b| {
        b.put("closed/acme/extra/x", "");
    }),
    ("2.1.5", |b| {
        b.put("closed/acme/code/mlpstorage.py", "");
    }),
    ("2.1.5", |b| {
        b.put("closed/acme/generation_logs/x", "");
    }),
    ("4.7.3", |b| {
        b.describe("remap_time_in_seconds: 0", "remap_time_in_seconds: 9");
    }),
    ("4.7.3", |b| {
        b.describe("remap_time_in_seconds: 0", "remap_time_in_seconds: soon");
    }),
    ("4.7.4", |b| {
        b.describe("simultaneous_write: true", "simultaneous_write: maybe");
    }),
    ("2.1.8", |b| {
        b.describe("submission_name: fast", "submission_name: slow");
    }),
    ("2.1.9", |b| {
        b.describe("quantity: 1", "quantity: 2");
    }),
    ("2.1.9", |b| {
        b.describe("memory_capacity: 64", "memory_capacity: 256");
    }),
    ("2.1.9", |b| {
        on_two_hosts(b);
        b.describe("multi_host: true", "multi_host: false");
    }),
    ("2.1.7", |b| {
        b.remove("closed/acme/systems/fast.pdf");
    }),
    ("2.1.7", |b| {
        b.put("closed/acme/systems/slow.pdf", "");
    }),
    ("2.1.7", |b| {
        b.put("closed/acme/systems/fast.yaml", "system_under_test: {}\n");
    }),
    ("2.1.9", |b| {
        b.edit(&join(&run_name(3), "summary.json"), |s| s["host_memory_GB"] = json!([32.0]));
    }),
    ("2.1.10", |b| {
        b.put("closed/acme/results/fast/Training/x", "");
    }),
    ("2.1.11", |b| {
        b.put("closed/acme/results/fast/training/resnet50/run/20260601_100000/summary.json", "{}");
    }),
    ("2.1.13", |b| {
        b.remove(&format!("{SYSTEM}/training/unet3d/datagen"));
    }),
    ("2.1.14", |b| {
        b.remove(&format!("{SYSTEM}/training/unet3d/datagen/20260601_090000/dlio.log"));
    }),
    ("2.1.15", |b| {
        b.remove(&format!(
            "{SYSTEM}/training/unet3d/datagen/20260601_090000/dlio_config/hydra.yaml"
        ));
    }),
    ("2.1.16", |b| {
        b.remove(&format!("{SYSTEM}/training/unet3d/run/results.json"));
    }),
    ("2.1.17", |b| {
        b.remove(&run_name(5));
    }),
    ("2.1.18", |b| {
        // Names are eleven minutes apart, more than twice the shortest run.
        b.edit(&join(&run_name(5), "summary.json"), |s| s["end"] = json!("2026-06-01T11:00:00"));
    }),
    ("2.1.18", |b| {
        b.edit(&join(&run_name(4), "summary.json"), |s| s["end"] = json!("2026-06-01T10:00:00"));
    }),
    ("2.1.19", |b| {
        b.remove(&join(&run_name(2), "training_run.stdout.log"));
    }),
    ("2.1.20", |b| {
        b.put(&join(&run_name(2), "dlio_config/other.yaml"), "");
    }),
    ("3.1.2", |b| {
        b.edit(&join(&run_name(1), "summary.json"), |s| s["host_memory_GB"] = json!([1006.0]));
    }),
    ("3.2.1", |b| {
        let leaf = format!("{SYSTEM}/training/unet3d/datagen/20260601_090000");
        b.put(
            &join(&leaf, "dlio_config/overrides.yaml"),
            "- ++workload.dataset.num_files_train=900\n",
        );
    }),
    ("3.3.2", |b| {
        b.edit(&join(&run_name(1), "summary.json"), |s| {
            s["metric"]["train_au_meet_expectation"] = json!("fail");
        });
    }),
    ("3.3.4", |b| {
        b.edit(&join(&run_name(1), "training_x_metadata.json"), |m| {
            m["args"]["hosts"] = json!(["a", "b"])
        });
    }),
    ("3.3.6", |b| {
        b.edit(&join(&run_name(1), "summary.json"), |s| s["num_hosts"] = json!(3));
    }),
    ("3.4.1", |b| {
        b.edit(&join(&run_name(1), "training_x_metadata.json"), |m| {
            m["args"]["results_dir"] = json!("/data/")
        });
    }),
    ("3.4.2", |b| {
        b.edit(&join(&run_name(1), "fs_separation.json"), |s| s["same_filesystem"] = json!(true));
    }),
    ("3.6.2", |b| {
        let lines = "- workload=unet3d_b200\n- ++workload.train.computation_time=0.5\n";
        b.put(&join(&run_name(1), "dlio_config/overrides.yaml"), lines);
    }),
    ("3.6.2", |b| {
        let lines = "- workload=unet3d_b200\n- ++workload.reader.prefetch_size=3\n";
        b.put(&join(&run_name(1), "dlio_config/overrides.yaml"), lines);
    }),
    ("3.6.2", |b| {
        let lines = "- workload=unet3d_b200\n- ++workload.framework=tensorflow\n";
        b.put(&join(&run_name(1), "dlio_config/overrides.yaml"), lines);
    }),
    ("stormlp.files", |b| {
        b.put(&join(&run_name(1), "summary.json"), "{\"start\": ");
    }),
    ("stormlp.sums", |b| {
        b.edit(&join(&run_name(1), "summary.json"), |s| {
            s["metric"]["train_au_mean_percentage"] = json!(96.02);
        });
    }),
    ("stormlp.sums", |b| {
        b.edit(&join(&run_name(1), "0_output.json"), |o| o["1"]["au"]["block1"] = json!(20.0));
    }),
    ("stormlp.sums", |b| {
        b.edit(&join(&run_name(1), "summary.json"), |s| {
            s["metric"]["train_io_mean_MB_per_second"] = json!(99_999.0);
        });
    }),
    // Renamed, and still ending with the same words.
    ("2.1.19", |b| {
        let summary = b.files[&join(&run_name(2), "summary.json")].clone();
        b.remove(&join(&run_name(2), "summary.json"));
        b.put(&join(&run_name(2), "old_summary.json"), summary);
    }),
    ("stormlp.scored", |b| {
        b.remove(&join(&run_name(2), "summary.json"));
    }),
    ("stormlp.scored", |b| lacks(b, "start")),
    ("stormlp.scored", |b| lacks(b, "end")),
    ("stormlp.scored", |b| lacks(b, "host_memory_GB")),
    ("stormlp.scored", |b| lacks(b, "num_hosts")),
    ("stormlp.scored", |b| lacks(b, "num_accelerators")),
    ("stormlp.scored", |b| lacks(b, "num_files_train")),
    ("stormlp.scored", |b| lacks(b, "metric")),
    ("stormlp.scored", |b| {
        b.edit(&join(&run_name(1), "summary.json"), |s| {
            s["metric"]["train_au_meet_expectation"] = json!(null);
        });
    }),
    ("stormlp.scored", |b| {
        b.edit(&join(&run_name(1), "summary.json"), |s| {
            s["metric"]["train_io_mean_MB_per_second"] = json!(null);
        });
    }),
    ("3.4.1", |b| {
        b.edit(&join(&run_name(1), "training_x_metadata.json"), |m| {
            m["args"]["results_dir"] = json!(null);
        });
    }),
    ("3.4.2", |b| {
        b.remove(&join(&run_name(1), "fs_separation.json"));
        let df = "Filesystem 1K-blocks Used Available Use% Mounted on\n/dev/a 9 1 8 10% /\n\n";
        b.put(&join(&run_name(1), "training_run.stdout.log"), df);
    }),
    // It differs from the workload without an override.
    ("3.6.2", |b| {
        let config = "workload: {train: {computation_time: 0.5}}\n";
        b.put(&join(&run_name(1), "dlio_config/config.yaml"), config);
    }),
    ("3.6.2", |b| {
        b.edit(&join(&run_name(1), "training_x_metadata.json"), |m| {
            m["parameters"]["reader"]["batch_size"] = json!(3);
        });
    }),
    ("stormlp.verification", |b| verdict(b, "INVALID")),
    ("stormlp.verification", |b| verdict(b, "OPEN")),
    ("stormlp.edition", |b| {
        b.edit(&join(&run_name(1), "training_x_metadata.json"), |m| {
            m["args"]["accelerator_type"] = json!("h100");
        });
    }),
    ("stormlp.files", |b| {
        b.put(&join(&run_name(1), "dlio_config/hydra.yaml"), "a: [");
    }),
    ("stormlp.files", |b| {
        b.put(&join(&run_name(1), "3_per_epoch_stats.json"), "{}");
    }),
    ("3.3.8", |b| table(b, |row| row["Training - Read B/W (GiB/s)"] = json!(99.0))),
    ("3.3.8", |b| table(b, |row| row["Training - Read B/W (GiB/s)"] = json!(null))),
    ("3.3.8", |b| table(b, |row| row["train_mean_of_au_percentage"] = json!(96.5))),
    ("3.3.8", |b| table(b, |row| row["Model"] = json!("RetinaNet"))),
    ("3.3.8", |b| table(b, |row| row["Training - Accelerator Type"] = json!("mi355"))),
    ("3.3.8", |b| {
        b.put(&format!("{SYSTEM}/training/unet3d/run/results.json"), "{");
    }),
    ("1.1", |b| {
        b.edit(&join(&run_name(3), "training_x_metadata.json"), |m| {
            m["generator"] = json!("stormlp");
        });
    }),
];

fn checkpoint_metadata(b: &mut Builder, change: impl FnOnce(&mut Value)) {
    b.edit(&join(&checkpoint_leaf(0), "checkpointing_x_metadata.json"), change);
}

fn checkpoint_summary(b: &mut Builder, change: impl FnOnce(&mut Value)) {
    b.edit(&join(&checkpoint_leaf(0), "summary.json"), change);
}

pub(super) const CHECKPOINTING: &[Case] = &[
    // A minute lies between the two runs.
    ("4.7.3", |b| remapping(b, 121)),
    ("stormlp.scored", |b| {
        checkpoint_metadata(b, |m| m["parameters"] = json!({}));
    }),
    ("stormlp.scored", |b| {
        checkpoint_metadata(b, |m| m["args"]["num_checkpoints_write"] = json!(null));
    }),
    ("stormlp.scored", |b| {
        checkpoint_summary(b, |s| s["metric"]["checkpoint_size_GB"] = json!(null));
    }),
    ("stormlp.scored", |b| {
        let key = "save_checkpoint_duration_mean_seconds";
        checkpoint_summary(b, |s| s["metric"][key] = json!(null));
    }),
    ("stormlp.sums", |b| {
        let key = "save_checkpoint_io_mean_GB_per_second";
        checkpoint_summary(b, |s| s["metric"][key] = json!(9.0));
    }),
    ("stormlp.sums", |b| {
        checkpoint_summary(b, |s| {
            s["metric"]["save_checkpoint_io_mean_GB_per_second"] = json!(10.0);
            s["metric"]["save_checkpoint_duration_mean_seconds"] = json!(10.47);
        });
    }),
    ("stormlp.sums", |b| {
        let leaf = join(&checkpoint_leaf(0), "4_per_epoch_stats.json");
        b.edit(&leaf, |s| {
            s["1"].as_object_mut().unwrap().remove("save_ckpt7");
        });
    }),
    ("4.6.3", |b| {
        let config = "workload: {checkpoint: {time_between_checkpoints: 60}}\n";
        b.put(&join(&checkpoint_leaf(0), "dlio_config/config.yaml"), config);
    }),
    ("4.6.3", |b| {
        checkpoint_metadata(b, |m| m["parameters"]["model"] = json!({"num_layers": 4}));
    }),
    ("4.3.6", |b| {
        let place = format!("{SYSTEM}/checkpointing/llama3-8b/results.json");
        let row = r#"[{"Benchmark Type": "checkpointing", "Model": "8B"}]"#;
        b.put(&place, row);
    }),
    ("2.1.22", |b| {
        b.remove(&format!("{SYSTEM}/checkpointing/llama3-8b/results.json"));
    }),
    ("2.1.25", |b| {
        b.remove(&join(&checkpoint_leaf(1), "dlio.log"));
    }),
    ("2.1.26", |b| {
        b.remove(&join(&checkpoint_leaf(1), "dlio_config/config.yaml"));
    }),
    ("4.3.2", |b| {
        b.edit(&join(&checkpoint_leaf(0), "checkpointing_x_metadata.json"), |m| {
            m["parameters"]["checkpoint"]["fsync"] = json!(false);
        });
    }),
    ("4.3.4", |b| {
        b.edit(&join(&checkpoint_leaf(0), "summary.json"), |s| {
            s["metric"]["checkpoint_size_GB"] = json!(9000.0);
        });
    }),
    ("4.3.5", |b| {
        b.edit(&join(&checkpoint_leaf(0), "checkpointing_x_metadata.json"), |m| {
            m["override_parameters"]["checkpoint.mode"] = json!("subset");
            m["args"]["num_processes"] = json!(4);
        });
        b.edit(&join(&checkpoint_leaf(0), "summary.json"), |s| s["num_accelerators"] = json!(4));
    }),
    ("4.6.1", |b| {
        b.edit(&join(&checkpoint_leaf(0), "summary.json"), |s| s["num_accelerators"] = json!(16));
    }),
    ("4.6.2", |b| {
        b.edit(&join(&checkpoint_leaf(0), "summary.json"), |s| s["num_hosts"] = json!(4));
    }),
    ("4.6.3", |b| {
        b.edit(&join(&checkpoint_leaf(0), "checkpointing_x_metadata.json"), |m| {
            m["override_parameters"]["model.num_layers"] = json!(3);
        });
    }),
    ("4.7.1", |b| {
        b.edit(&join(&checkpoint_leaf(1), "checkpointing_x_metadata.json"), |m| {
            m["invocation_start_time"] = json!("2026-06-01T10:10:50Z");
        });
    }),
    ("4.7.1", |b| {
        b.edit(&join(&checkpoint_leaf(1), "checkpointing_x_metadata.json"), |m| {
            m["args"]["num_checkpoints_read"] = json!(5);
        });
    }),
];
