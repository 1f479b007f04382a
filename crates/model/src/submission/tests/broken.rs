//! Each rule broken once.

use serde_json::json;

use super::fixtures::{Builder, SYSTEM, began, checkpoint_leaf, run_name};
use crate::submission::tree::join;

/// A way to break a package, and the rule that must tell it.
pub(super) type Case = (&'static str, fn(&mut Builder));

pub(super) const TRAINING: &[Case] = &[
    ("2.1.1", |b| {
        b.put(
            "closed/a b/results/x/training/unet3d/run/results.json",
            "[]",
        );
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
    ("2.1.6", |b| {
        b.remove("code-images/code-01234567/.code-hash.json");
    }),
    ("2.1.6", |b| {
        b.edit("code-images/code-01234567/.code-hash.json", |hash| {
            hash["hash"] = json!("ff")
        });
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
        b.edit(&join(&run_name(3), "summary.json"), |s| {
            s["host_memory_GB"] = json!([32.0])
        });
    }),
    ("2.1.10", |b| {
        b.put("closed/acme/results/fast/Training/x", "");
    }),
    ("2.1.11", |b| {
        b.put(
            "closed/acme/results/fast/training/resnet50/run/20260601_100000/summary.json",
            "{}",
        );
    }),
    ("2.1.12", |b| {
        b.remove(&format!("{SYSTEM}/training/unet3d/datasize"));
    }),
    ("2.1.13", |b| {
        b.remove(&format!("{SYSTEM}/training/unet3d/datagen"));
    }),
    ("2.1.14", |b| {
        b.remove(&format!(
            "{SYSTEM}/training/unet3d/datagen/20260601_090000/dlio.log"
        ));
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
        b.edit(&join(&run_name(5), "summary.json"), |s| {
            s["start"] = json!("2026-06-01T11:30:00");
            s["end"] = json!("2026-06-01T11:40:00");
        });
    }),
    ("2.1.18", |b| {
        b.edit(&join(&run_name(4), "summary.json"), |s| {
            s["end"] = json!("2026-06-01T10:00:00")
        });
    }),
    ("2.1.19", |b| {
        b.remove(&join(&run_name(2), "training_run.stdout.log"));
    }),
    ("2.1.20", |b| {
        b.put(&join(&run_name(2), "dlio_config/other.yaml"), "");
    }),
    ("3.1.2", |b| {
        b.edit(&join(&run_name(1), "summary.json"), |s| {
            s["host_memory_GB"] = json!([1006.0])
        });
    }),
    ("3.2.1", |b| {
        let leaf = format!("{SYSTEM}/training/unet3d/datagen/20260601_090000");
        b.put(
            &join(&leaf, "dlio_config/overrides.yaml"),
            "- ++workload.dataset.num_files_train=900\n",
        );
    }),
    ("3.3.1", |b| {
        b.edit(&join(&run_name(1), "summary.json"), |s| {
            s["num_files_train"] = json!(27_000)
        });
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
        b.edit(&join(&run_name(1), "summary.json"), |s| {
            s["num_hosts"] = json!(3)
        });
    }),
    ("3.4.1", |b| {
        b.edit(&join(&run_name(1), "training_x_metadata.json"), |m| {
            m["args"]["results_dir"] = json!("/data/")
        });
    }),
    ("3.4.2", |b| {
        b.edit(&join(&run_name(1), "fs_separation.json"), |s| {
            s["same_filesystem"] = json!(true)
        });
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
    ("PROV-01", |b| {
        b.edit(&join(&run_name(1), "training_x_metadata.json"), |m| {
            m["provenance_file"] = json!("provenance.json");
        });
    }),
    ("stormlp.files", |b| {
        b.put(&join(&run_name(1), "summary.json"), "{\"start\": ");
    }),
    ("stormlp.agreement", |b| {
        b.edit(&join(&run_name(1), "training_x_metadata.json"), |m| {
            m["args"]["num_accelerators"] = json!(7)
        });
    }),
    ("stormlp.agreement", |b| {
        let first = b.files[&join(&run_name(1), "summary.json")].clone();
        b.put(&join(&run_name(2), "summary.json"), first);
    }),
    ("stormlp.sums", |b| {
        b.edit(&join(&run_name(1), "summary.json"), |s| {
            s["metric"]["train_au_mean_percentage"] = json!(99.0);
        });
    }),
    ("stormlp.sums", |b| {
        b.edit(&join(&run_name(1), "0_output.json"), |o| {
            o["1"]["au"]["block1"] = json!(20.0)
        });
    }),
    ("stormlp.sums", |b| {
        b.edit(&join(&run_name(1), "summary.json"), |s| {
            s["metric"]["train_io_mean_MB_per_second"] = json!(99_999.0);
        });
    }),
    ("stormlp.report", |b| {
        let entry = json!([{"run_id": began(1).0, "metrics": {"train_au_mean_percentage": 99.0}}]);
        b.json(
            &format!("{SYSTEM}/training/unet3d/run/results.json"),
            &entry,
        );
    }),
];

pub(super) const CHECKPOINTING: &[Case] = &[
    ("2.1.22", |b| {
        b.remove(&format!("{SYSTEM}/checkpointing/llama3-8b/results.json"));
    }),
    ("2.1.24", |b| {
        b.edit(&join(&checkpoint_leaf(1), "summary.json"), |s| {
            s["start"] = json!("2026-06-01T10:40:00");
            s["end"] = json!("2026-06-01T10:50:00");
        });
    }),
    ("2.1.25", |b| {
        b.remove(&join(&checkpoint_leaf(1), "dlio.log"));
    }),
    ("2.1.26", |b| {
        b.remove(&join(&checkpoint_leaf(1), "dlio_config/config.yaml"));
    }),
    ("4.3.2", |b| {
        b.edit(
            &join(&checkpoint_leaf(0), "checkpointing_x_metadata.json"),
            |m| {
                m["parameters"]["checkpoint"]["fsync"] = json!(false);
            },
        );
    }),
    ("4.3.4", |b| {
        b.edit(&join(&checkpoint_leaf(0), "summary.json"), |s| {
            s["metric"]["checkpoint_size_GB"] = json!(9000.0);
        });
    }),
    ("4.3.5", |b| {
        b.edit(
            &join(&checkpoint_leaf(0), "checkpointing_x_metadata.json"),
            |m| {
                m["override_parameters"]["checkpoint.mode"] = json!("subset");
                m["args"]["num_processes"] = json!(4);
            },
        );
        b.edit(&join(&checkpoint_leaf(0), "summary.json"), |s| {
            s["num_accelerators"] = json!(4)
        });
    }),
    ("4.6.1", |b| {
        b.edit(&join(&checkpoint_leaf(0), "summary.json"), |s| {
            s["num_accelerators"] = json!(16)
        });
    }),
    ("4.6.2", |b| {
        b.edit(&join(&checkpoint_leaf(0), "summary.json"), |s| {
            s["num_hosts"] = json!(2)
        });
    }),
    ("4.6.3", |b| {
        b.edit(
            &join(&checkpoint_leaf(0), "checkpointing_x_metadata.json"),
            |m| {
                m["override_parameters"]["model.num_layers"] = json!(3);
            },
        );
    }),
    ("4.7.1", |b| {
        b.edit(
            &join(&checkpoint_leaf(1), "checkpointing_x_metadata.json"),
            |m| {
                m["invocation_start_time"] = json!("2026-06-01T10:10:50Z");
            },
        );
    }),
    ("4.7.1", |b| {
        b.edit(
            &join(&checkpoint_leaf(1), "checkpointing_x_metadata.json"),
            |m| {
                m["args"]["num_checkpoints_read"] = json!(5);
            },
        );
    }),
];
