//! Trees of campaigns that followed our own plan to the letter.

use serde_json::json;

use super::fixtures::{Builder, SYSTEM, checkpoint_leaf, checkpoints, on_two_hosts, package};
use super::{failed, of_v2};
use crate::submission::plan::tests::request;
use crate::submission::plan::{Planned, plan};
use crate::submission::tree::join;
use crate::submission::{Edition, TreeShape, TreeVerdict};
use stormlp_checkpoint::plan::builtin;
use stormlp_core::units::GIB;
use stormlp_training::plan::catalog;

/// The commands of a campaign of unet3d and llama3-8b on `hosts` of 64 GiB.
fn commands_on(hosts: &[&str], edition: Edition, accelerator: &str) -> Vec<String> {
    let entry = catalog::find("unet3d", Some(accelerator)).unwrap();
    let workload = Planned::Training(Box::new(entry.workload(&[]).unwrap()));
    let model = Planned::Checkpointing(Box::new(builtin::load("llama3-8b").unwrap()));
    let mut request = request(edition);
    request.hosts = hosts.iter().map(ToString::to_string).collect();
    request.host_memory_bytes = 64 * GIB;
    let campaign = plan(&[workload, model], &request).unwrap();
    campaign.steps.into_iter().map(|step| format!("# {}\n{}", step.what, step.command)).collect()
}

fn commands(edition: Edition, accelerator: &str) -> Vec<String> {
    commands_on(&["n1"], edition, accelerator)
}

/// The tools' files beside the runs.
fn of_the_tools(builder: &mut Builder) {
    for (name, text) in [
        ("mlperf-results.yaml", "version: 2\norgname: acme\n"),
        ("results.json", "[]"),
        ("results.csv", ""),
        (".mlps/runs.jsonl", ""),
    ] {
        builder.put(name, text);
    }
}

#[test]
fn a_campaign_of_v3_ends_closed() {
    let commands = commands(Edition::V3, "b200").join("\n");
    for part in [
        "mlpstorage init acme",
        "closed training unet3d run file --systemname fast --accelerator-type b200",
        "dataset.num_files_train=28000",
        "closed checkpointing llama3-8b run file --accelerator-type b200 --systemname fast",
        "--num-checkpoints-write 10 --num-checkpoints-read 10",
    ] {
        assert!(commands.contains(part), "{part}: {commands}");
    }
    // Its runs: the sizes of the plan, and one run that writes and reads.
    let mut builder = package();
    let leaf = checkpoint_leaf(0);
    let second = checkpoint_leaf(1);
    let both = checkpoints();
    for (path, text) in &both.files {
        if path.starts_with(&leaf) {
            builder.put(path, text.clone());
        }
    }
    for rank in 0..8 {
        let name = format!("{rank}_per_epoch_stats.json");
        let reads: serde_json::Value =
            serde_json::from_str(&both.files[&join(&second, &name)]).unwrap();
        builder.edit(&join(&leaf, &name), |stats| {
            for number in 1..=10 {
                let key = format!("load_ckpt{number}");
                stats["1"][&key] = reads["1"][&key].clone();
            }
            stats["1"]["end"] = json!("2026-06-01T10:21:00");
        });
    }
    builder.edit(&join(&leaf, "summary.json"), |summary| {
        summary["end"] = json!("2026-06-01T10:21:00");
        summary["host_memory_GB"] = json!([64.0]);
        summary["metric"]["load_checkpoint_io_mean_GB_per_second"] = json!(5.0);
        summary["metric"]["load_checkpoint_duration_mean_seconds"] = json!(20.94);
    });
    builder.edit(&join(&leaf, "checkpointing_x_metadata.json"), |metadata| {
        metadata["args"]["num_checkpoints_read"] = json!(10);
    });
    let row = json!([{"Benchmark Type": "checkpointing", "Model": "8B",
        "Checkpointing - Write B/W (GiB/s)": 5.0, "Checkpointing - Write Duration (secs)": 20.94,
        "Checkpointing - Read B/W (GiB/s)": 5.0, "Checkpointing - Read Duration (secs)": 20.94}]);
    builder.json(&format!("{SYSTEM}/checkpointing/llama3-8b/results.json"), &row);
    of_the_tools(&mut builder);
    let report = builder.check();
    assert_eq!((report.edition, report.shape), (Edition::V3, TreeShape::Package));
    assert_eq!((report.verdict, failed(&report)), (TreeVerdict::Closed, vec![]));
}

#[test]
fn a_campaign_whose_checkpoints_are_on_fewer_hosts_ends_closed_as_two_systems() {
    let commands = commands_on(&["n1", "n2"], Edition::V3, "b200").join("\n");
    for part in [
        "closed training unet3d run file --systemname fast --accelerator-type b200",
        "llama3-8b run file --accelerator-type b200 --systemname fast-1-host --hosts n1",
        "as the system fast-1-host: one description has one number of clients (rule 2.1.9)",
        "of 2 clients: closed/acme/systems/fast.yaml",
        "of 1 client: closed/acme/systems/fast-1-host.yaml",
    ] {
        assert!(commands.contains(part), "{part}: {commands}");
    }
    // Its runs, with the checkpoints as those of this system.
    let tree = |system: &str| {
        let mut builder = package();
        on_two_hosts(&mut builder);
        let folders = |path: &str| {
            let path = path.replace("results/fast/", &format!("results/{system}/"));
            path.replace("systems/fast.", &format!("systems/{system}."))
        };
        for (path, text) in checkpoints().files {
            if !builder.files.contains_key(&folders(&path)) {
                let own = format!("submission_name: {system}");
                builder.put(&folders(&path), text.replace("submission_name: fast", &own));
            }
        }
        builder
    };
    let report = tree("fast-1-host").check();
    assert_eq!((report.verdict, failed(&report)), (TreeVerdict::Closed, vec![]));
    let report = tree("fast").check();
    assert!(failed(&report).iter().any(|(id, _)| *id == "2.1.9"), "{:?}", failed(&report));
}

#[test]
fn a_campaign_of_v2_ends_closed() {
    let commands = commands(Edition::V2, "h100").join("\n");
    for part in ["training run --model unet3d --accelerator-type h100", "num_files_train=28000"] {
        assert!(commands.contains(part), "{part}: {commands}");
    }
    let mut builder = of_v2("");
    // The tool's report lies at the top, and its verdicts are in lower case.
    builder.remove("training/unet3d/run/results.json");
    builder.put("results.json", "[]").put("results.csv", "");
    let leaf = "training/unet3d/datasize/20260601_085900";
    let metadata = json!({"verification": null, "params_dict": {},
        "combined_params": {"dataset": {"num_files_train": 168}},
        "args": {"model": "unet3d", "accelerator_type": "h100", "max_accelerators": 8}});
    builder.json(&join(leaf, "training_20260601_085900_metadata.json"), &metadata);
    let leaves: Vec<String> =
        builder.files.keys().filter(|path| path.contains("/run/")).cloned().collect();
    for path in leaves.iter().filter(|path| path.ends_with("metadata.json")) {
        builder.edit(path, |metadata| metadata["verification"] = json!("closed"));
    }
    let report = builder.check();
    assert_eq!((report.edition, report.shape), (Edition::V2, TreeShape::Results));
    assert_eq!((report.verdict, failed(&report)), (TreeVerdict::Closed, vec![]));
}
