//! `stormlp workloads` and `stormlp datasize`.

use serde_json::Value;

use crate::{stderr, stdout, stormlp};

fn json(arguments: &[&str]) -> Value {
    // The free space of the disk changes from one moment to the next.
    let mut json = with_free_bytes(arguments);
    if let Some(free) = json.get_mut("free_bytes") {
        *free = Value::Null;
    }
    json
}

fn with_free_bytes(arguments: &[&str]) -> Value {
    let assert = stormlp().args(arguments).args(["--format", "json"]).assert().success();
    serde_json::from_str(&stdout(assert)).unwrap()
}

#[test]
fn a_printed_workload_is_one_that_can_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = stdout(stormlp().args(["workloads", "show", "unet3d"]).assert().success());
    let file = folder.path().join("my.yaml");
    std::fs::write(&file, yaml).unwrap();
    let file = file.to_str().unwrap();
    let own = json(&["datasize", file, "-n", "8", "--host", "memory=64G"]);
    let built_in = json(&["datasize", "unet3d", "-n", "8", "--host", "memory=64G"]);
    assert_eq!(own, built_in);
    assert_eq!(own["profile"], "v2");
}

#[test]
fn every_workload_is_listed_in_both_forms() {
    let text = stdout(stormlp().arg("workloads").assert().success());
    let list = json(&["workloads", "list"]);
    assert_eq!(list, json(&["workloads"]));
    for (catalog, count) in [("training", 17), ("checkpoint", 4), ("kvcache", 9)] {
        let names = list[catalog].as_array().unwrap();
        assert_eq!(names.len(), count, "{catalog}");
        for name in names.iter().map(|one| one["name"].as_str().unwrap()) {
            assert!(text.contains(&format!(" {name} ")), "{name}: {text}");
            stormlp().args(["workloads", "show", name]).assert().success();
        }
    }
    for workload in list["training"].as_array().unwrap() {
        let (name, accelerator) =
            (workload["name"].as_str().unwrap(), workload["accelerator"].as_str().unwrap());
        assert!(
            text.lines().any(|line| line.contains(name) && line.contains(accelerator)),
            "{name} {accelerator}:\n{text}"
        );
    }
}

#[test]
fn datasize_has_the_keys_that_scripts_rely_on() {
    let size =
        json(&["datasize", "resnet50", "-n", "16", "--host", "memory=64G", "--edition", "1.0"]);
    assert_eq!(size["files"], 2557);
    assert_eq!(size["steps_per_epoch"], 499);
    assert_eq!(size["binding"], "steps");
    assert_eq!(size["subfolders"], 0);
    assert_eq!(size["bytes"], 366_775_434_536_u64);
    assert!(size["fits"].is_boolean());
}

#[test]
fn a_dataset_that_does_not_fit_is_an_answer_not_an_error() {
    let size = json(&["datasize", "unet3d", "-n", "100000", "--host", "memory=1T"]);
    assert_eq!(size["fits"], false);
}

#[test]
fn faults_of_a_file_have_their_place() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bad.yaml"), "reader:\n  batchsize: 7\n").unwrap();
    let assert =
        stormlp().current_dir(folder.path()).args(["datasize", "bad.yaml"]).assert().code(3);
    let text = stderr(assert);
    assert!(
        text.contains(
            "bad.yaml:2:3: unknown key `reader.batchsize`; did you mean `reader.batch_size`?"
        ),
        "{text}"
    );
}

#[test]
fn wrong_names_list_the_choices_and_the_nearest() {
    let assert = stormlp().args(["workloads", "show", "unet"]).assert().code(3);
    assert!(stderr(assert).contains("did you mean `unet3d`?"));
    let yaml = stdout(stormlp().args(["workloads", "show", "llama3-8b"]).assert().success());
    assert!(yaml.contains("name: llama3-8b"), "{yaml}");
    let sizes = stdout(stormlp().args(["workloads", "show", "llama3.1-8b"]).assert().success());
    assert!(sizes.contains("128 KiB"), "{sizes}");
    stormlp().args(["workloads", "--format", "json", "show", "unet3d"]).assert().code(2);
    stormlp().args(["datasize", "missing.yaml"]).assert().code(4);
    stormlp().args(["datasize", "unet3d", "--edition", "9.0"]).assert().code(2);
    let assert = stormlp().args(["datasize", "unet3d", "-n", "0"]).assert().code(2);
    assert!(stderr(assert).contains("--accelerators"));
}

#[test]
fn zero_and_negative_numbers_are_not_sizes() {
    for words in [
        ["-n", "0"],
        ["-n", "-1"],
        ["-n", "1000000000000"],
        ["--hosts", "0"],
        ["--host", "memory=0"],
        ["--host", "memory=-1"],
    ] {
        let text = stderr(stormlp().args(["datasize", "unet3d"]).args(words).assert().code(2));
        assert!(text.contains("invalid value"), "{words:?}: {text}");
    }
}

#[test]
fn an_unknown_edition_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("my.yaml");
    std::fs::write(&file, "dataset: {format: npz}\n").unwrap();
    let mut plain = stormlp();
    let plain = plain.args(["datasize", file.to_str().unwrap()]);
    let text = stderr(plain.assert().success());
    assert!(text.contains("no edition is given: native is assumed"), "{text}");
    // Up to v1.0 the model was its name alone.
    std::fs::write(&file, "model: mine\ndataset: {format: npz}\n").unwrap();
    let old = json(&["datasize", file.to_str().unwrap()]);
    assert_eq!(old["profile"], "v1");
}
