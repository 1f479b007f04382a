//! `stormlp checkpoint`: plans of the four models, and whole runs of a small one.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::{last_line, stderr, stdout, stormlp};

/// A model of 60 MB on 8 ranks.
pub(crate) const TINY: &str = include_str!("../html/tiny.yaml");

/// A folder with the small model's file in it.
pub(crate) fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tiny.yaml"), TINY).unwrap();
    folder
}

/// `stormlp checkpoint tiny.yaml --ranks 8` with more arguments, in `folder`.
pub(crate) fn tiny(folder: &Path, arguments: &[&str]) -> assert_cmd::Command {
    let mut command = stormlp();
    command.current_dir(folder);
    command.args(["checkpoint", "tiny.yaml", "--ranks", "8", "--pause", "0"]);
    command.args(arguments);
    command
}

/// `stormlp clean` of a folder in `folder`.
pub(crate) fn clean(folder: &Path, name: &str) -> assert_cmd::Command {
    let mut command = stormlp();
    command.current_dir(folder).args(["clean", name]);
    command
}

fn json(command: &mut assert_cmd::Command) -> Value {
    let text = stdout(command.args(["--format", "json"]).assert().success());
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_dry_run_has_every_byte_of_the_four_models_and_touches_nothing() {
    let table = [
        ("llama3-8b", 8, 112_425_623_552u64),
        ("llama3-70b", 64, 978_406_572_032),
        ("llama3-405b", 512, 5_682_508_791_808),
        ("llama3-1t", 1024, 16_564_174_094_592),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (model, ranks, total) in table {
        let mut command = stormlp();
        command.current_dir(folder.path());
        // It does not fit here, so it ends as the run would, after the plan.
        command.args(["checkpoint", model, "--scale", "1", "--dry-run", "--format", "json"]);
        let plan: Value = serde_json::from_str(&stdout(command.assert().code(4))).unwrap();
        assert_eq!(plan["total_bytes"], total, "{model}");
        assert_eq!(plan["scaling"]["factor"], 1.0);
        let all = plan["ranks"].as_array().unwrap();
        assert_eq!(all.len(), ranks, "{model}");
        let mut sum = 0;
        for (number, rank) in all.iter().enumerate() {
            assert_eq!(rank["rank"], number);
            let files = rank["files"].as_array().unwrap();
            let bytes: u64 = files.iter().map(|file| file["bytes"].as_u64().unwrap()).sum();
            assert_eq!(rank["bytes"], bytes);
            assert!(files.iter().all(|file| file["name"].is_string()));
            sum += bytes;
        }
        assert_eq!(sum, total, "{model}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_dry_run_reports_what_does_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = stormlp();
    command.current_dir(folder.path());
    command.args(["checkpoint", "llama3-1t", "--scale", "1", "--dry-run"]);
    let text = stdout(command.assert().code(4));
    assert!(text.contains("ranks 512 to 1023: 13865244924 bytes"), "{text}");
    assert!(text.contains("This cannot run here"), "{text}");
}

#[test]
fn a_dry_run_has_the_scale_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = stormlp();
    command.current_dir(folder.path()).args(["checkpoint", "llama3-8b", "--dry-run"]);
    // A full run writes over a terabyte.
    let text = stdout(command.assert().success());
    assert!(last_line(&text, 0).starts_with("SCALED to "), "{text}");
    assert!(text.contains("stormlp checkpoint llama3-8b --scale 1"), "{text}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_scaled_run_is_marked_in_its_first_and_last_line() {
    let folder = folder();
    let mut command = tiny(folder.path(), &["--scale", "0.3", "--saves", "1", "--restores", "1"]);
    let assert = command.assert().success();
    let text = stdout(assert);
    assert!(text.lines().count() > 10, "{text}");
    for line in [text.lines().next(), text.lines().find(|line| line.contains("saves at"))] {
        assert!(line.is_some_and(|line| line.contains("SCALED to 26.53 %")), "{text}");
    }
    assert!(
        text.contains(
            "stormlp checkpoint tiny.yaml --ranks 8 --pause 0 --scale 1 --saves 1 --restores 1"
        ),
        "{text}"
    );
}

#[test]
fn a_run_has_the_keys_that_scripts_rely_on() {
    let folder = folder();
    let arguments = ["--saves", "2", "--restores", "2", "--verify", "--path", "cpu"];
    let report = json(&mut tiny(folder.path(), &arguments));
    assert_eq!(
        (&report["kind"], &report["plan"]["scaling"]["factor"]),
        (&"checkpoint".into(), &1.0.into())
    );
    assert_eq!(report["plan"]["total_bytes"], 62_377_984);
    let names = |list: &str| -> Vec<String> {
        let parts = report[list].as_array().unwrap().iter();
        parts.map(|part| part["name"].as_str().unwrap().into()).collect()
    };
    assert_eq!(names("series"), ["save 1", "save 2", "restore 1", "restore 2"]);
    assert_eq!(names("histograms"), ["save_transfer", "restore_transfer"]);
    assert_eq!(names("evidence"), ["saves", "restores"]);
    assert_eq!(report["verified_bytes"], 2 * 62_377_984u64);
    for phase in ["saves", "restores"] {
        let results = report[phase].as_array().unwrap();
        assert_eq!(results.len(), 2, "{phase}");
        for result in results {
            assert_eq!(result["bytes"], 62_377_984);
            for key in ["max", "mean", "rank0"] {
                assert!(result["duration_seconds"][key].as_f64().unwrap() > 0.0, "{phase} {key}");
            }
            for key in ["min_rank", "total", "rank0"] {
                assert!(result["gib_per_second"][key].as_f64().unwrap() > 0.0, "{phase} {key}");
            }
        }
    }
    for key in ["cpu_user_seconds", "cpu_system_seconds", "peak_rss_bytes"] {
        assert!(report[key].is_number(), "{key}");
    }
    assert!(report["summary"]["save"]["dlio"]["duration_seconds"]["mean"].is_number());
    let saved: Vec<_> = fs::read_dir(folder.path().join("stormlp-results")).unwrap().collect();
    assert_eq!(saved.len(), 1);
}

#[test]
fn saving_and_restoring_can_be_two_runs() {
    let folder = folder();
    let scaled = ["--scale", "0.3"];
    let write = [&scaled[..], &["--saves", "1", "--restores", "0"]].concat();
    tiny(folder.path(), &write).assert().success();
    // The scale follows from the existing checkpoints.
    let report = json(&mut tiny(folder.path(), &["--saves", "0", "--verify"]));
    assert_eq!(report["restores"].as_array().unwrap().len(), 1);
    assert_eq!(report["verified_bytes"], report["plan"]["total_bytes"]);
    assert!(report["plan"]["scaling"]["factor"].as_f64().unwrap() < 0.3);
}

#[test]
fn mlperfs_files_have_dlios_keys() {
    let folder = folder();
    let arguments = ["--saves", "1", "--restores", "1", "--mlperf-output", "mlperf"];
    tiny(folder.path(), &arguments).assert().success();
    let runs = folder.path().join("mlperf/checkpointing/tiny");
    let mut runs = fs::read_dir(runs).unwrap().map(|run| run.unwrap().path());
    let run = runs.next().unwrap();
    let read = |name: &str| -> Value {
        let text = fs::read_to_string(run.join(name)).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let summary = read("summary.json");
    let moment = run.file_name().unwrap().to_str().unwrap();
    let metadata = read(&format!("checkpointing_{moment}_metadata.json"));
    assert_eq!(metadata["generator"], "stormlp");
    assert_eq!(metadata["verification"], "REHEARSAL");
    // The files describe the same checkpoints.
    let config = run.join("dlio_config/config.yaml");
    let mut again = stormlp();
    again.arg("checkpoint").arg(&config).args(["--dry-run", "--format", "json"]);
    let plan: Value = serde_json::from_str(&stdout(again.assert().success())).unwrap();
    assert_eq!(plan["total_bytes"], 62_377_984);
    assert_eq!(summary["num_accelerators"], 8);
    for name in ["save", "load"] {
        for key in [
            "io_mean_GB_per_second",
            "io_stdev_GB_per_second",
            "duration_mean_seconds",
            "duration_stdev_seconds",
        ] {
            let key = format!("{name}_checkpoint_{key}");
            assert!(summary["metric"][&key].is_number(), "{key}");
        }
    }
    let size = summary["metric"]["checkpoint_size_GB"].as_f64().unwrap();
    assert!((size - 62_377_984.0 / f64::from(1 << 30)).abs() < 1e-9, "{size}");
    let stats = read("0_per_epoch_stats.json");
    assert!(stats["1"]["save_ckpt1"]["throughput"].is_number());
    assert!(stats["1"]["load_ckpt1"]["start"].is_string());
}

#[test]
fn every_rank_leaves_mlperfs_files_and_every_checkpoint_is_a_row() {
    let folder = folder();
    let arguments = ["--saves", "1", "--restores", "1", "--mlperf-output", "mlperf"];
    tiny(folder.path(), &arguments).assert().success();
    let runs = folder.path().join("mlperf/checkpointing/tiny");
    let mut runs = fs::read_dir(runs).unwrap().map(|run| run.unwrap().path());
    let run = runs.next().unwrap();
    let read = |name: &str| -> Value {
        let text = fs::read_to_string(run.join(name)).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    for rank in 0..8 {
        let stats = read(&format!("{rank}_per_epoch_stats.json"));
        let seconds = stats["1"]["save_ckpt1"]["duration"].as_f64();
        assert!(seconds.is_some_and(|seconds| seconds > 0.0), "{stats}");
        let output = read(&format!("{rank}_output.json"));
        assert!(output["1"]["load"].is_object() && output["host_memory_GB"].is_array());
    }
    let left = fs::read_dir(&run).unwrap().count();
    assert_eq!(left, 2 + 2 * 8 + 1, "summary, metadata, two of each rank, the configuration");
    // They are shown with a row for each checkpoint.
    let shown = |format: &str| {
        let mut command = stormlp();
        command.args(["report", "show"]).arg(&run).args(["--format", format]);
        stdout(command.assert().success())
    };
    let rows: Vec<String> = shown("csv").lines().map(ToString::to_string).collect();
    assert_eq!(rows.len(), 3, "{rows:?}");
    assert!(rows[0].ends_with(",checkpoint,gib_per_second,slowest_rank_seconds"), "{}", rows[0]);
    assert!(rows[1].contains(",save 1,") && rows[2].contains(",load 1,"), "{rows:?}");
    assert!(shown("text").contains("save 1"));
}

#[test]
fn ranks_are_spread_over_directories_and_cleaned_from_all_of_them() {
    let folder = folder();
    let folders = ["--dir", "a", "--dir", "b"];
    let run = [&folders[..], &["--saves", "1", "--restores", "1", "--verify"]].concat();
    tiny(folder.path(), &run).assert().success();
    let files = |name: &str| {
        let step = folder.path().join(name).join("run1/global_epoch1_step1");
        fs::read_dir(step).unwrap().count()
    };
    assert!(files("a") > 1 && files("b") > 1);
    for name in ["a", "b"] {
        let text = stdout(clean(folder.path(), name).assert().success());
        assert!(text.contains(&format!("from {name}/run1/global_epoch1_step1")), "{text}");
        assert!(!folder.path().join(name).exists());
    }
}

#[test]
fn overlapped_saves_report_how_long_training_waited() {
    let folder = folder();
    let arguments = ["--saves", "1", "--restores", "0", "--overlap-step", "5ms"];
    let text = stdout(tiny(folder.path(), &arguments).assert().success());
    assert!(text.contains("training waits s"), "{text}");
}

#[test]
fn nothing_synced_is_marked_not_crash_safe() {
    let folder = folder();
    let arguments = ["--saves", "1", "--restores", "0", "--fsync", "none"];
    let text = stdout(tiny(folder.path(), &arguments).assert().success());
    assert!(text.contains("(not synced"), "{text}");
}

#[test]
fn accelerator_memory_without_a_gpu_is_called_emulated() {
    let folder = folder();
    let arguments =
        ["--saves", "1", "--restores", "1", "--verify", "--path", "page-cache", "--device", "host"];
    let text = stdout(tiny(folder.path(), &arguments).assert().success());
    assert!(text.contains("(emulated)"), "{text}");
}

#[test]
fn a_second_run_removes_the_first_at_any_scale_with_a_note() {
    let folder = folder();
    let counts = ["--saves", "1", "--restores", "1", "--verify"];
    tiny(folder.path(), &counts).assert().success();
    let smaller = [&counts[..], &["--scale", "0.3"]].concat();
    let assert = tiny(folder.path(), &smaller).assert().success();
    let said = "once this run has a whole checkpoint, the checkpoints of run1 in stormlp-data/checkpoint/tiny are removed";
    let output = assert.get_output();
    for stream in [&output.stderr, &output.stdout] {
        let text = String::from_utf8_lossy(stream);
        let text: Vec<&str> = text.split_whitespace().collect();
        assert!(text.join(" ").contains(said), "{text:?}");
    }
    let runs = fs::read_dir(folder.path().join("stormlp-data/checkpoint/tiny")).unwrap();
    let runs: Vec<_> = runs.map(|run| run.unwrap().file_name()).collect();
    assert!(runs.contains(&"run2".into()) && !runs.contains(&"run1".into()), "{runs:?}");
}

#[test]
fn the_newest_run_is_restored_or_the_one_that_is_named() {
    let folder = folder();
    let save = ["--saves", "1", "--restores", "0", "--keep-last", "2"];
    for _ in 0..3 {
        tiny(folder.path(), &save).assert().success();
    }
    let restored = |more: &[&str]| {
        let restore = [&["--saves", "0", "--verify"][..], more].concat();
        json(&mut tiny(folder.path(), &restore))["plan"]["run"].clone()
    };
    assert_eq!(restored(&[]), "run3");
    assert_eq!(restored(&["--run", "run2"]), "run2");
    let unknown = tiny(folder.path(), &["--saves", "0", "--run", "run1"]).assert().code(4);
    assert!(stderr(unknown).contains("no such run; there are run2, run3"));
}

#[test]
fn a_save_leaves_checkpoints_of_another_model_alone() {
    let folder = folder();
    let counts = ["--saves", "1", "--restores", "0", "--dir", "d"];
    tiny(folder.path(), &counts).assert().success();
    let marker = folder.path().join("d/run1/global_epoch1_step1/.stormlp-checkpoint.json");
    let before = fs::read(&marker).unwrap();
    let other = TINY.replace("name: tiny", "name: other");
    fs::write(folder.path().join("tiny.yaml"), other).unwrap();
    tiny(folder.path(), &counts).assert().success();
    assert_eq!(fs::read(&marker).unwrap(), before);
    let restore = ["--saves", "0", "--dir", "d", "--run", "run1"];
    let message = stderr(tiny(folder.path(), &restore).assert().code(3));
    assert!(message.contains("is of another model: tiny, not other"), "{message}");
}

#[test]
fn an_unsynced_checkpoint_is_restored_with_a_warning() {
    let folder = folder();
    let save = ["--saves", "1", "--restores", "0", "--fsync", "none"];
    tiny(folder.path(), &save).assert().success();
    let restore = ["--saves", "0", "--verify"];
    let text = stdout(tiny(folder.path(), &restore).assert().success());
    assert!(text.contains("saved with --fsync none: not crash-safe"), "{text}");
}

#[test]
fn the_help_ends_with_worked_examples() {
    let assert = stormlp().args(["checkpoint", "--help"]).assert().success();
    assert!(stderr(assert).is_empty());
    let text = stdout(stormlp().args(["checkpoint", "--help"]).assert());
    assert!(text.matches("\n  stormlp checkpoint ").count() >= 3, "{text}");
}

/// Whether `python` (`STORMLP_PYTHON`) ran `script` with `arguments`; not where it has no torch.
fn torch(script: &str, arguments: &[&Path]) -> bool {
    let python = std::env::var("STORMLP_PYTHON").unwrap_or_else(|_| "python3".to_string());
    let run = |script: &str| {
        std::process::Command::new(&python).args(["-c", script]).args(arguments).output()
    };
    if !run("import torch").is_ok_and(|output| output.status.success()) {
        return false;
    }
    let output = run(script).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    true
}

#[test]
fn torch_loads_packed_files_and_every_byte_is_checked() {
    let folder = folder();
    for path in ["buffered", "cpu", "cpu-gpu"] {
        let dir = folder.path().join(path);
        let words = ["--container", "torch", "--saves", "2", "--restores", "2", "--verify"];
        let mut save = tiny(folder.path(), &words);
        let save = save.args(["--path", path, "--io-size", "64K", "--dir"]).arg(&dir);
        let report = json(save);
        assert_eq!(report["plan"]["content"]["container"], "torch");
        // As it was saved, without being asked.
        let words = ["--saves", "0", "--restores", "2", "--verify", "--dir"];
        let again = json(tiny(folder.path(), &words).arg(&dir));
        assert_eq!(again["verified_bytes"], report["verified_bytes"]);
        let script = "
import sys, torch
model = torch.load(sys.argv[1] + '/layer_1-model_0_model_states.pt')
assert all(t.dtype == torch.float16 and t.dim() == 1 for t in model.values())
assert sum(t.numel() for t in model.values()) * 2 == 984064
optimizer = torch.load(sys.argv[1] + '/zero_pp_rank_0_mp_rank_0_optim_states.pt', mmap=True)
assert sorted(optimizer) == ['0', '1', '2', '3', '4', '5']
assert sum(t.numel() for t in optimizer.values()) * 4 == 6685056
";
        // Starting Python with it lasts seconds.
        if path == "buffered" {
            torch(script, &[&dir.join("run1/global_epoch1_step1")]);
        }
    }
}

#[test]
fn checkpoints_of_others_are_restored_by_names_and_sizes() {
    let folder = folder();
    let save = ["--container", "torch", "--saves", "2", "--restores", "0", "--dir", "theirs"];
    tiny(folder.path(), &save).assert().success();
    let step = |step: u32| folder.path().join(format!("theirs/global_epoch1_step{step}"));
    for number in [1, 2] {
        let saved = folder.path().join(format!("theirs/run1/global_epoch1_step{number}"));
        fs::rename(saved, step(number)).unwrap();
        fs::remove_file(step(number).join(".stormlp-checkpoint.json")).unwrap();
    }
    let restore = ["--saves", "0", "--dir", "theirs"];
    let report = json(&mut tiny(folder.path(), &restore));
    assert_eq!(report["restores"].as_array().unwrap().len(), 2);
    let warnings = report["warnings"].as_array().unwrap();
    let said =
        |warning: &Value| warning["fact"].as_str().unwrap().contains("made by another program");
    assert!(warnings.iter().any(said), "{warnings:?}");

    let mut verify = tiny(folder.path(), &restore);
    let text = stderr(verify.arg("--verify").assert().code(3));
    assert!(text.contains("their expected content is unknown"), "{text}");
    // Foreign files are neither removed nor overwritten.
    tiny(folder.path(), &["--saves", "1", "--dir", "theirs"]).assert().success();
    clean(folder.path(), "theirs").assert().success();

    let file = "layer_1-model_0_model_states.pt";
    for number in [1, 2] {
        fs::write(step(number).join(file), "too short").unwrap();
    }
    let text = stderr(tiny(folder.path(), &restore).assert().code(4));
    assert!(text.contains("has 9 bytes, its tensors take 984064"), "{text}");
}
