//! `stormlp submission`: checks and system descriptions.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::{stderr, stdout, stormlp};

/// A results folder of mlpstorage v3.0 with six runs of unet3d, ten minutes each.
fn results(folder: &Path) {
    for number in 0..6 {
        let at = |minute: usize| format!("{:02}:{:02}:00", 10 + minute / 60, minute % 60);
        let (start, end) = (at(number * 11), at(number * 11 + 10));
        let name = format!("20260601_{}", start.replace(':', ""));
        let leaf = folder.join("training/unet3d/run").join(name);
        fs::create_dir_all(leaf.join("dlio_config")).unwrap();
        let write = |name: &str, text: &str| fs::write(leaf.join(name), text).unwrap();
        for name in ["training_run.stdout.log", "training_run.stderr.log", "dlio.log"] {
            write(name, "");
        }
        write("dlio_config/config.yaml", "workload: {}\n");
        write("dlio_config/hydra.yaml", "hydra: {}\n");
        write(
            "dlio_config/overrides.yaml",
            "- workload=unet3d_b200\n- ++workload.dataset.num_files_train=28000\n",
        );
        write(
            "0_output.json",
            r#"{"1": {"au": {"block1": 95.0}, "throughput": {"block1": 40.0}}}"#,
        );
        let stats = json!({"1": {"start": format!("2026-06-01T{start}"),
            "end": format!("2026-06-01T{end}"), "duration": "600.00"}});
        write("0_per_epoch_stats.json", &stats.to_string());
        let summary = json!({
            "start": format!("2026-06-01T{start}"), "end": format!("2026-06-01T{end}"),
            "num_accelerators": 1, "num_hosts": 1, "num_files_train": 28000, "num_files_eval": 0,
            "host_memory_GB": [64.0],
            "metric": {"train_au_percentage": [95.0], "train_au_mean_percentage": 95.0,
                "train_au_meet_expectation": "success",
                "train_throughput_samples_per_second": [40.0],
                "train_throughput_mean_samples_per_second": 40.0,
                "train_io_mean_MB_per_second": 5592.37},
        });
        // As Python writes it.
        write(
            "summary.json",
            &summary.to_string().replace("\"num_files_eval\":0", "\"num_files_eval\":NaN"),
        );
        let metadata = json!({
            "verification": "CLOSED", "override_parameters": {},
            "args": {"model": "unet3d", "accelerator_type": "b200", "num_accelerators": 1,
                "hosts": ["n1"], "data_dir": "/data", "results_dir": "/results"},
        });
        write("fs_separation.json", r#"{"same_filesystem": false}"#);
        write("training_x_metadata.json", &metadata.to_string());
    }
}

fn check(folder: &Path, code: i32) -> Value {
    let mut command = stormlp();
    command.args(["submission", "check", "--format", "json"]).arg(folder);
    serde_json::from_str(&stdout(command.assert().code(code))).unwrap()
}

#[test]
fn a_valid_tree_exits_0_and_an_invalid_one_6() {
    let folder = tempfile::tempdir().unwrap();
    results(folder.path());
    let report = check(folder.path(), 0);
    assert_eq!(report["verdict"], "closed", "{report:#}");
    assert_eq!(report["edition"], "3.0");
    for rule in report["rules"].as_array().unwrap() {
        for key in ["id", "result", "path", "evidence", "remedy", "official"] {
            assert!(rule[key].is_string(), "{key}: {rule}");
        }
    }
    let last = folder.path().join("training/unet3d/run/20260601_105500");
    fs::rename(last.join("summary.json"), last.join("sumary.json")).unwrap();
    let report = check(folder.path(), 6);
    assert_eq!(report["verdict"], "invalid");
    let rules = report["rules"].as_array().unwrap();
    let failed: Vec<&Value> = rules.iter().filter(|rule| rule["result"] == "failed").collect();
    assert!(
        failed.iter().any(|rule| {
            rule["path"].as_str().unwrap().ends_with("20260601_105500/summary.json")
                && rule["evidence"].as_str().unwrap().contains("sumary.json")
        }),
        "{failed:#?}"
    );
}

#[test]
fn unknown_rules_prevent_a_verdict_and_missing_keys_are_named() {
    let folder = tempfile::tempdir().unwrap();
    results(folder.path());
    let leaf = folder.path().join("training/unet3d/run/20260601_105500");
    let edit = |name: &str, from: &str, to: &str| {
        let text = fs::read_to_string(leaf.join(name)).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(leaf.join(name), text.replace(from, to)).unwrap();
    };
    edit("training_x_metadata.json", "CLOSED", "MAYBE");
    let report = check(folder.path(), 6);
    assert_eq!(report["verdict"], "incomplete", "{report:#}");
    assert_eq!(report["blocked_by"], json!(["stormlp.verification"]));
    let mut command = stormlp();
    let assert = command.args(["submission", "check"]).arg(folder.path()).assert().code(6);
    let text = stdout(assert);
    assert!(text.contains("INCOMPLETE: cannot check stormlp.verification"), "{text}");
    edit("training_x_metadata.json", "MAYBE", "CLOSED");
    assert_eq!(check(folder.path(), 0)["verdict"], "closed");
    edit("summary.json", "train_au_meet_expectation", "x");
    edit("summary.json", "host_memory_GB", "y");
    let report = check(folder.path(), 6);
    let mut scored =
        report["rules"].as_array().unwrap().iter().filter(|rule| rule["result"] == "failed");
    let scored = scored.find(|rule| rule["id"] == "stormlp.scored").unwrap();
    assert_eq!(scored["path"], "training/unet3d/run/20260601_105500/summary.json");
    assert_eq!(scored["evidence"], "it has no host_memory_GB, no metric.train_au_meet_expectation");
}

#[test]
fn a_system_may_be_called_code() {
    let folder = tempfile::tempdir().unwrap();
    results(&folder.path().join("code-fast"));
    let report = check(folder.path(), 0);
    assert_eq!(report["results"], json!(["training unet3d"]), "{report:#}");
}

#[test]
fn the_text_names_rule_place_remedy_and_what_the_official_checker_does() {
    let folder = tempfile::tempdir().unwrap();
    results(folder.path());
    fs::remove_dir_all(folder.path().join("training/unet3d/run/20260601_105500")).unwrap();
    let mut command = stormlp();
    command.current_dir(folder.path());
    let assert = command.args(["submission", "check", "."]).assert().code(6);
    let text = stdout(assert);
    assert!(text.contains("INVALID by the rules of v3.0: 2.1.17"), "{text}");
    assert!(text.contains("[2.1.17 runTimestamps] training/unet3d/run: 5 runs"), "{text}");
    assert!(text.contains("run 1 more, one after the other (official checker: fails)"), "{text}");
    assert!(text.contains("Only MLCommons' tool, mlpstorage, makes submissions"), "{text}");
}

#[test]
fn a_run_on_its_own_has_the_name_of_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    results(folder.path());
    let leaf = folder.path().join("training/unet3d/run/20260601_105500");
    for place in [leaf.as_path(), Path::new(".")] {
        let mut command = stormlp();
        command.current_dir(&leaf).args(["submission", "check", "--format", "json"]).arg(place);
        let report: Value = serde_json::from_str(&stdout(command.assert().code(6))).unwrap();
        assert_eq!(report["edition_from"], "20260601_105500: it has v3.0's files");
        assert_eq!(report["verdict"], "incomplete", "{report:#}");
        let text = report.to_string();
        assert!(text.contains("a single run"), "{text}");
        assert!(!text.contains("``") && !text.contains("()"), "{text}");
    }
}

#[test]
fn a_folder_without_results_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("nowhere");
    let mut command = stormlp();
    let text = stderr(command.args(["submission", "check"]).arg(&missing).assert().code(4));
    assert!(text.contains("cannot read") && text.contains("help: "), "{text}");
    // An empty folder, and one of other files.
    for name in ["", "notes.txt"] {
        if !name.is_empty() {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let mut command = stormlp();
        let text =
            stderr(command.args(["submission", "check"]).arg(folder.path()).assert().code(4));
        assert!(text.contains(&format!("no run found in {}", folder.path().display())), "{text}");
        assert!(text.contains("name a package") && text.contains("summary.json"), "{text}");
    }
    // Files with contents that do not fit their names.
    let leaf = folder.path().join("closed/a/results/s/training/unet3d/run/20260101_000000");
    fs::create_dir_all(&leaf).unwrap();
    fs::write(leaf.join("summary.json"), [0xff, 0xfe, 0x00]).unwrap();
    fs::create_dir(leaf.join("x_metadata.json")).unwrap();
    fs::write(leaf.join("0_output.json"), "[").unwrap();
    std::os::unix::fs::symlink("/dev/zero", leaf.join("provenance.json")).unwrap();
    let report = check(folder.path(), 6);
    let rules = report["rules"].as_array().unwrap();
    let unusable = rules.iter().filter(|rule| rule["id"] == "stormlp.files");
    let paths: Vec<&str> = unusable.map(|rule| rule["path"].as_str().unwrap()).collect();
    for name in ["summary.json", "0_output.json", "provenance.json"] {
        assert!(paths.iter().any(|path| path.ends_with(name)), "{name}: {paths:?}");
    }
}

#[test]
fn a_draft_has_blanks_that_are_reported_by_field_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fast.yaml");
    let draft = |code| {
        let mut command = stormlp();
        command.args(["submission", "describe", "--output"]).arg(&file);
        stderr(command.assert().code(code))
    };
    assert!(draft(0).contains("FILL_IN"));
    assert!(draft(4).contains("does not exist yet"));
    let mut command = stormlp();
    command.args(["submission", "describe", "--check"]).arg(&file);
    let text = stdout(command.assert().code(6));
    let wanted = "system_under_test.solution.submission_name: not filled in: expected a text";
    assert!(
        text.lines().any(|line| line.contains("fast.yaml:") && line.contains(wanted)),
        "{text}"
    );
    assert!(!text.contains("clients[0].chassis.memory_capacity"), "{text}");
    for field in ["solution.usable_capacity_tib", "product_nodes[0].chassis.memory_capacity"] {
        assert!(text.contains(field), "{field}: {text}");
    }
    let mut command = stormlp();
    command.args(["submission", "describe", "--format", "json", "--check"]).arg(&file);
    let faults: Value = serde_json::from_str(&stdout(command.assert().code(6))).unwrap();
    assert!(faults.as_array().unwrap().iter().all(|fault| fault["line"].is_u64()), "{faults}");
    fs::write(&file, "5").unwrap();
    let mut command = stormlp();
    command.args(["submission", "describe", "--check"]).arg(&file);
    let text = stdout(command.assert().code(6));
    assert!(text.contains("fast.yaml:1: expected a section, found 5"), "{text}");
    fs::write(&file, "system_under_test: [").unwrap();
    let mut command = stormlp();
    command.args(["submission", "describe", "--check"]).arg(&file);
    command.assert().code(6);
}

#[test]
fn trees_of_another_edition_are_not_checked() {
    let folder = tempfile::tempdir().unwrap();
    let leaf = folder.path().join("training/unet3d/run/20260601_100000");
    fs::create_dir_all(leaf.join("dlio_config")).unwrap();
    fs::write(leaf.join("dlio_config/overrides.yaml"), "- workload=unet3d_h100\n").unwrap();
    let report = check(folder.path(), 6);
    assert_eq!((&report["verdict"], &report["edition"]), (&json!("incomplete"), &json!("2.0")));
    assert_eq!(report["blocked_by"], json!(["stormlp.edition"]));
    assert!(report["rules"][0]["evidence"].as_str().unwrap().starts_with("not checked"));
}
