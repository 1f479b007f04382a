//! Saved reports: stopping and resuming, showing again, comparing, cleaning up.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::gds::{QUICK, folder, gds, read_json, saved};
use crate::{stderr, stdout, stormlp};

fn in_folder(folder: &Path, words: &str) -> assert_cmd::Command {
    let mut command = stormlp();
    command.current_dir(folder).args(words.split_whitespace());
    command
}

/// Starts a matrix and waits until it has measured its first cell.
fn start_and_wait_for_a_cell(folder: &Path, words: &str) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_stormlp"))
        .current_dir(folder)
        .arg("gds")
        .args(words.split_whitespace())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    loop {
        let journals = fs::read_dir(folder.join("stormlp-results")).into_iter().flatten().flatten();
        let lines = journals
            .filter_map(|run| fs::read_to_string(run.path().join("report.journal.jsonl")).ok());
        if lines.map(|text| text.lines().count()).sum::<usize>() > 0 {
            return child;
        }
        let patience = begun.elapsed() < Duration::from_secs(60);
        assert!(patience && child.try_wait().unwrap().is_none(), "no cell was measured");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn interrupt(child: Child) -> (Option<i32>, String) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn ctrl_c_saves_results_and_resume_measures_the_rest() {
    let folder = folder();
    let words = "--path null --threads 1,2,3,4 --file-size 1M --duration 700ms";
    let child = start_and_wait_for_a_cell(folder.path(), words);
    let (code, told) = interrupt(child);
    assert_eq!(code, Some(130), "{told}");
    assert!(told.contains("stopped by the user") && told.contains("--resume"), "{told}");
    let path = saved(folder.path());
    let before = read_json(&path);
    assert_eq!(before["ending"]["status"], "stopped");
    let cut_short =
        (before["cells"].as_array().unwrap().iter()).any(|cell| cell["interrupted"] == true);
    assert_eq!(told.contains("the last cut short"), cut_short, "{told}");
    let measured = before["cells"].as_array().unwrap().len();
    assert!((1..4).contains(&measured), "{measured}");

    gds(folder.path(), &format!("{words} --resume {}", path.display())).assert().success();
    let after = read_json(&path);
    assert_eq!(after["ending"]["status"], "complete");
    let cells = after["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 4);
    // A complete cell is kept as it was measured.
    assert_eq!(cells[0], before["cells"][0]);
    assert!(cells.iter().all(|cell| cell["interrupted"] == false), "{after}");
}

#[test]
fn a_killed_matrix_keeps_every_finished_cell() {
    let folder = folder();
    let words = "--path null --threads 1,2,3,4 --file-size 1M --duration 700ms";
    let mut child = start_and_wait_for_a_cell(folder.path(), words);
    child.kill().unwrap();
    child.wait().unwrap();
    let path = saved(folder.path());
    assert_eq!(read_json(&path)["cells"], serde_json::json!([]));
    let shown = |code| {
        let words = format!("report show {} --format json", path.display());
        let assert = in_folder(folder.path(), &words).assert().code(code);
        serde_json::from_str::<serde_json::Value>(&stdout(assert)).unwrap_or_default()
    };
    let before = shown(0)["cells"].as_array().unwrap().clone();
    assert!(!before.is_empty() && before.len() < 4, "{before:?}");

    // A kill may come in the middle of a line.
    let journal = path.with_extension("journal.jsonl");
    let lines = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, format!("{lines}{{\"cell\": 3, \"rep")).unwrap();
    assert_eq!(shown(0)["cells"], serde_json::json!(before));
    fs::write(&journal, format!("{{\"cell\": 3}}\n{lines}")).unwrap();
    shown(3);
    fs::write(&journal, lines).unwrap();

    let resume = format!("{words} --resume {}", path.display());
    gds(folder.path(), &resume).assert().success();
    let after = read_json(&path);
    assert_eq!(after["cells"].as_array().unwrap().len(), 4);
    assert_eq!(after["cells"].as_array().unwrap()[..before.len()], before);
    assert!(!journal.exists(), "the report has its cells");
}

#[test]
fn a_complete_matrix_is_resumed_without_writing_anything() {
    let folder = folder();
    let words = "--path buffered --threads 1 --file-size 1M --duration 1x --clean";
    gds(folder.path(), words).assert().success();
    let path = saved(folder.path());
    let before = read_json(&path);
    let words = format!("{words} --resume {}", path.display());
    let message = stderr(gds(folder.path(), &words).assert().success());
    assert!(message.contains("no cell is left to measure"), "{message}");
    assert!(!message.contains("writing"), "{message}");
    assert_eq!(read_json(&path)["cells"], before["cells"]);
}

#[test]
fn a_matrix_resumed_under_another_kernel_or_version_is_reported() {
    let folder = folder();
    let words = "--path null --threads 1 --file-size 1M --duration 10ms";
    gds(folder.path(), words).assert().success();
    let path = saved(folder.path());
    let mut report = read_json(&path);
    report["host"]["kernel"] = "1.2.3".into();
    report["host"]["stormlp_version"] = "0.0.0".into();
    report["cells"] = serde_json::json!([]);
    fs::write(&path, report.to_string()).unwrap();
    let words = format!("{words} --resume {}", path.display());
    let message = stderr(gds(folder.path(), &words).assert().success());
    assert!(message.contains("Linux 1.2.3"), "{message}");
    assert!(message.contains("stormlp 0.0.0"), "{message}");
    let warnings = read_json(&path)["warnings"].to_string();
    assert!(warnings.contains("Linux 1.2.3"), "{warnings}");
}

#[test]
fn a_data_folder_belongs_to_one_run_at_a_time() {
    let folder = folder();
    let words = "--path null --threads 1 --file-size 1M --duration 200ms --runs 200";
    let child = start_and_wait_for_a_cell(folder.path(), words);
    let second = "--path null --threads 1 --file-size 1M --duration 10ms --results-dir other";
    let text = stderr(gds(folder.path(), second).assert().code(4));
    assert!(text.contains("in use by another stormlp run"), "{text}");
    assert!(!text.contains("to measure"), "announced, then refused: {text}");
    let other = folder.path().join("other");
    assert!(!other.exists(), "a run that was refused leaves nothing");
    assert_eq!(interrupt(child).0, Some(130));
    gds(folder.path(), second).assert().success();
}

#[test]
fn a_saved_report_can_be_shown_listed_and_compared() {
    let folder = folder();
    let printed =
        stdout(gds(folder.path(), &format!("{QUICK} --path buffered")).assert().success());
    let path = saved(folder.path());
    let again = format!("report show {}", path.display());
    assert_eq!(stdout(in_folder(folder.path(), &again).assert().success()), printed);
    let of_folder = format!("report show {}", path.parent().unwrap().display());
    assert_eq!(stdout(in_folder(folder.path(), &of_folder).assert().success()), printed);
    let list = stdout(in_folder(folder.path(), "report").assert().success());
    assert!(list.contains(" gds ") && list.contains(" complete "), "{list}");
    assert!(list.contains(" GiB/s"), "{list}");
    let line =
        stdout(in_folder(folder.path(), &format!("{again} --format gdsio")).assert().success());
    assert!(line.starts_with("IoType: READ XferType: CPUONLY Threads: 2 "), "{line}");
    let words = format!("{QUICK} --path buffered --baseline {}", path.display());
    let table = stdout(gds(folder.path(), &words).assert().success());
    assert!(
        table.contains("Against the baseline: buffered") && table.contains("\nbaseline "),
        "{table}"
    );
}

#[test]
fn reports_of_newer_versions_and_other_files_are_refused() {
    let folder = folder();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("newer.json", r#"{"format_version": 999, "kind": "gds"}"#);
    write("no.json", "{}");
    write("text.json", "hello");
    let train = "train unet3d --path null --steps 3 --epochs 1 --format json";
    let train = in_folder(folder.path(), train).output().unwrap().stdout;
    write("train.json", &String::from_utf8(train).unwrap());
    write("cut.json", r#"{"format_version": 1, "kind": "gds", "cells": []}"#);
    for (file, said) in [
        ("newer.json", "format version 999"),
        ("no.json", "format_version"),
        ("text.json", "not valid JSON"),
        ("train.json", "stormlp train"),
        ("cut.json", "damaged"),
    ] {
        for words in [format!("gds --baseline {file}"), format!("gds --resume {file}")] {
            let text = stderr(in_folder(folder.path(), &words).assert().code(3));
            assert!(text.contains(said) && text.contains(file), "{words}: {text}");
        }
    }
    let text = stderr(in_folder(folder.path(), "report show newer.json").assert().code(3));
    assert!(text.contains("use a newer stormlp"), "{text}");
    let mut json = in_folder(folder.path(), "report show train.json --format json");
    let json = stdout(json.assert().success());
    assert!(json.contains("\"kind\": \"train\""), "{json}");
    let text = stdout(in_folder(folder.path(), "report show train.json").assert().success());
    assert!(text.contains("unet3d"), "{text}");
    in_folder(folder.path(), "report show cut.json").assert().code(3);
    in_folder(folder.path(), "report show missing.json").assert().code(4);
    in_folder(folder.path(), "gds --resume newer.json --results-dir d").assert().code(2);
}

#[test]
fn clean_removes_only_files_of_stormlp() {
    let folder = folder();
    gds(folder.path(), &format!("{QUICK} --path buffered")).assert().success();
    let data = folder.path().join("stormlp-data/gds");
    fs::write(data.join("mine.txt"), "precious").unwrap();
    let would = stdout(in_folder(folder.path(), "clean --dry-run").assert().success());
    assert!(would.contains("would remove 2 files, 16 MiB"), "{would}");
    assert!(data.join("stormlp.0").exists());
    let did = stdout(in_folder(folder.path(), "clean").assert().success());
    assert!(did.contains("removed 2 files"), "{did}");
    let left: Vec<_> = fs::read_dir(&data).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["mine.txt"]);
    in_folder(folder.path(), "clean").assert().code(4);
}

#[test]
fn clean_leaves_a_folder_that_the_user_made() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("mine")).unwrap();
    for name in ["mine", "made"] {
        gds(folder.path(), &format!("{QUICK} --path buffered --dir {name}")).assert().success();
        in_folder(folder.path(), &format!("clean {name}")).assert().success();
    }
    assert!(!path("made").exists());
    assert_eq!(fs::read_dir(path("mine")).unwrap().count(), 0);
}

#[test]
fn clean_recognises_datasets_and_checkpoints_by_their_contents() {
    let folder = folder();
    let make = |path: &str, text: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    // A file counts as the listed one by its identity.
    let list = |by: &str, place: &str, name: &str| {
        make(&format!("{place}/{name}"), "xx");
        let made = fs::metadata(folder.path().join(place).join(name)).unwrap();
        let identity = json!({"inode": made.ino(), "born_ns": null});
        let file = json!({"name": name, "bytes": 2, "identity": identity});
        json!({"format_version": 1, "made_by": by, "files": [file]}).to_string()
    };
    let set = list("datagen", "stormlp-data/set", "train/a.npz");
    make("stormlp-data/set/.stormlp-manifest.json", &set);
    make("stormlp-data/ck/.stormlp-lock", "");
    let step = list("checkpoint", "stormlp-data/ck/step_1", "m.pt");
    make("stormlp-data/ck/step_1/.stormlp-checkpoint.json", &step);
    make("stormlp-data/ck/step_1/mine.pt", "not listed");
    let did = stdout(in_folder(folder.path(), "clean").assert().success());
    assert_eq!(did.lines().count(), 2, "{did}");
    assert!(!folder.path().join("stormlp-data/set").exists());
    assert!(!folder.path().join("stormlp-data/ck/step_1/m.pt").exists());
    assert!(folder.path().join("stormlp-data/ck/step_1/mine.pt").exists());
}

#[test]
fn clean_does_not_follow_a_manifest_out_of_its_folder() {
    let folder = folder();
    fs::create_dir(folder.path().join("d")).unwrap();
    fs::write(folder.path().join("precious"), "x").unwrap();
    let manifest =
        r#"{"format_version":1,"made_by":"gds","files":[{"name":"../precious","bytes":1}]}"#;
    fs::write(folder.path().join("d/.stormlp-manifest.json"), manifest).unwrap();
    let text = stderr(in_folder(folder.path(), "clean d").assert().code(3));
    assert!(text.contains("is outside the folder"), "{text}");
    assert!(folder.path().join("precious").exists());
}

/// Every name of a field in `value`, at any depth.
fn keys(value: &serde_json::Value, found: &mut std::collections::BTreeSet<String>) {
    match value {
        serde_json::Value::Object(map) => {
            for (key, value) in map {
                found.insert(key.clone());
                keys(value, found);
            }
        }
        serde_json::Value::Array(list) => list.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

#[test]
fn every_field_of_a_report_is_described() {
    let folder = folder();
    let words = "--job dir=a,threads=1 --job dir=b,threads=1 --path cpu-gpu,gds --verify --fsync end \
                 --file-size 1M --duration 10ms";
    gds(folder.path(), words).assert().code(4);
    let report = read_json(&saved(folder.path()));
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/schema/results.schema.json");
    let mut described = std::collections::BTreeSet::new();
    keys(&read_json(Path::new(schema)), &mut described);
    let mut found = std::collections::BTreeSet::new();
    for part in ["plan", "cells", "host"] {
        keys(&report[part], &mut found);
    }
    found.extend(report.as_object().unwrap().keys().cloned());
    let missing: Vec<_> = found.difference(&described).collect();
    assert!(missing.is_empty(), "docs/schema/results.schema.json has no {missing:?}");
}
