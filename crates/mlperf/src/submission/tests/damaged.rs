//! Unusable files, and impossible figures.

use serde_json::{Value, json};

use super::broken::Case;
use super::fixtures::{Builder, RATE, SYSTEM, checkpoint_leaf, run_name};
use crate::submission::tree::{Entry, join};

const YAML: &str = "closed/acme/systems/fast.yaml";
const PDF: &str = "closed/acme/systems/fast.pdf";

fn unreadable() -> Entry {
    Entry::Unreadable("invalid utf-8".to_string())
}

/// Replaces a file of a run by a link.
fn link(b: &mut Builder, name: &str) {
    b.lay(&join(&run_name(2), name), Entry::Other);
}

/// Changes a rank's file of one run.
fn output(b: &mut Builder, rank: u32, change: impl FnOnce(&mut Value)) {
    b.edit(&join(&run_name(2), &format!("{rank}_output.json")), change);
}

/// Changes the metrics of every summary.
fn metrics(b: &mut Builder, change: impl Fn(&mut Value)) {
    for number in 0..6 {
        let place = join(&run_name(number), "summary.json");
        b.edit(&place, |summary| change(&mut summary["metric"]));
    }
}

/// Changes a figure of both epochs of every rank.
fn of_ranks(b: &mut Builder, key: &str, values: [f64; 2]) {
    for number in 0..6 {
        for rank in 0..8 {
            let place = join(&run_name(number), &format!("{rank}_output.json"));
            b.edit(&place, |output| {
                output["1"][key]["block1"] = json!(values[0]);
                output["2"][key]["block1"] = json!(values[1]);
            });
        }
    }
}

/// Sets AU in all files.
fn utilisation(b: &mut Builder, epochs: [f64; 2]) {
    metrics(b, |metric| {
        metric["train_au_percentage"] = json!(epochs);
        metric["train_au_mean_percentage"] = json!(f64::midpoint(epochs[0], epochs[1]));
    });
    of_ranks(b, "au", epochs);
}

/// Multiplies rates in all files.
fn rates(b: &mut Builder, factor: f64) {
    metrics(b, |metric| {
        let rate = RATE * factor;
        metric["train_throughput_samples_per_second"] = json!([rate, rate]);
        metric["train_throughput_mean_samples_per_second"] = json!(rate);
        let mib = super::fixtures::MIB_PER_SECOND * factor;
        metric["train_io_mean_MB_per_second"] = json!(mib);
    });
    of_ranks(b, "throughput", [RATE / 8.0 * factor; 2]);
}

fn overrides(b: &mut Builder, text: &str) {
    b.put(&join(&run_name(2), "dlio_config/overrides.yaml"), text);
}

fn memory(b: &mut Builder, list: &Value) {
    for number in 0..6 {
        let place = join(&run_name(number), "summary.json");
        b.edit(&place, |summary| summary["host_memory_GB"] = list.clone());
    }
}

pub(super) const TRAINING: &[Case] = &[
    ("stormlp.scored", |b| {
        metrics(b, |m| {
            let metric = m.as_object_mut().unwrap();
            metric.remove("train_au_percentage");
            metric.remove("train_throughput_samples_per_second");
            m["train_au_mean_percentage"] = json!(99.9);
        });
    }),
    ("stormlp.scored", |b| {
        metrics(b, |m| m["train_au_percentage"] = json!(["x", "y"]));
    }),
    ("stormlp.scored", |b| {
        metrics(b, |m| m["train_au_percentage"] = json!([96.0]));
    }),
    ("stormlp.scored", |b| utilisation(b, [150.0, 150.0])),
    ("stormlp.scored", |b| utilisation(b, [1e308, 1e308])),
    ("stormlp.scored", |b| utilisation(b, [12.0, 180.0])),
    ("stormlp.scored", |b| rates(b, -1.0)),
    ("stormlp.sums", |b| output(b, 3, |o| *o = json!({}))),
    ("stormlp.sums", |b| {
        for rank in 0..8 {
            output(b, rank, |o| {
                o.as_object_mut().unwrap().remove("2");
            });
        }
    }),
    ("stormlp.sums", |b| output(b, 3, |o| o["1"]["au"] = json!({}))),
    // One rank above all it can be makes up for one below.
    ("stormlp.sums", |b| {
        output(b, 3, |o| o["1"]["au"]["block1"] = json!(105.0));
        output(b, 4, |o| o["1"]["au"]["block1"] = json!(85.0));
    }),
    // Without the metadata, the workload has the record length.
    ("stormlp.sums", |b| {
        for number in 0..6 {
            b.edit(&join(&run_name(number), "training_x_metadata.json"), |m| {
                m["parameters"]["dataset"]["record_length_bytes"] = json!(null);
            });
        }
        metrics(b, |m| m["train_io_mean_MB_per_second"] = json!(1e9));
    }),
    ("stormlp.files", |b| link(b, "3_output.json")),
    ("stormlp.files", |b| link(b, "3_per_epoch_stats.json")),
    ("stormlp.files", |b| link(b, "dlio.log")),
    ("stormlp.files", |b| link(b, "training_run.stdout.log")),
    ("stormlp.files", |b| link(b, "dlio_config/config.yaml")),
    ("stormlp.files", |b| {
        b.lay(YAML, unreadable());
    }),
    ("2.1.7", |b| {
        b.lay(YAML, unreadable());
    }),
    ("2.1.7", |b| {
        b.lay(YAML, Entry::Folder);
    }),
    ("2.1.7", |b| {
        b.lay(YAML, Entry::Other);
    }),
    ("2.1.7", |b| {
        b.lay(PDF, Entry::Folder);
    }),
    ("2.1.7", |b| {
        b.lay(PDF, Entry::Other);
    }),
    ("2.1.7", |b| {
        b.put(PDF, "");
    }),
    ("stormlp.files", |b| overrides(b, "workload: x\n")),
    ("stormlp.files", |b| {
        overrides(b, "- workload=unet3d_b200\n- reader.read_threads: 500\n");
    }),
    ("stormlp.files", |b| {
        overrides(b, "- workload=unet3d_b200\n- ++workload.d\n");
    }),
    ("stormlp.scored", |b| memory(b, &json!([32, 32]))),
    ("stormlp.scored", |b| memory(b, &json!([1, 1, 1]))),
    ("stormlp.scored", |b| memory(b, &json!(["x"]))),
    ("stormlp.scored", |b| memory(b, &json!([-64]))),
    ("2.1.17", |b| {
        let folder = format!("{SYSTEM}/training/unet3d/run/foo");
        b.lay(&folder, Entry::Folder);
    }),
    ("2.1.13", |b| {
        let folder = format!("{SYSTEM}/training/unet3d/datagen/foo");
        b.lay(&folder, Entry::Folder);
    }),
];

/// Changes the saves of every rank.
fn saves(b: &mut Builder, change: impl Fn(&mut Value)) {
    for rank in 0..8 {
        let name = format!("{rank}_per_epoch_stats.json");
        b.edit(&join(&checkpoint_leaf(0), &name), |stats| {
            for number in 1..=10 {
                change(&mut stats["1"][format!("save_ckpt{number}")]);
            }
        });
    }
}

fn summary(b: &mut Builder, change: impl FnOnce(&mut Value)) {
    b.edit(&join(&checkpoint_leaf(0), "summary.json"), change);
}

pub(super) const CHECKPOINTING: &[Case] = &[
    ("stormlp.scored", |b| {
        summary(b, |s| {
            s["metric"]["save_checkpoint_duration_mean_seconds"] = json!(0);
            s["metric"]["save_checkpoint_io_mean_GB_per_second"] = json!(500);
        });
        saves(b, |save| {
            save["duration"] = json!(0);
            save["throughput"] = json!(500);
        });
    }),
    ("stormlp.files", |b| {
        saves(b, |save| save["throughput"] = json!("x"));
    }),
    ("stormlp.sums", |b| {
        saves(b, |save| save["throughput"] = json!(null));
    }),
];
