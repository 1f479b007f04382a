//! `stormlp checkpoint` with invalid input, and with interrupted runs.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::checkpoint::{TINY, clean, folder, tiny};
use crate::{stderr, stdout, stormlp};

/// Runs the small model and expects an exit code and a part of the error.
fn refuses(folder: &Path, arguments: &[&str], code: i32, part: &str) {
    let assert = tiny(folder, arguments).assert().code(code);
    let text = stderr(assert);
    assert!(text.contains("error: ") && text.contains(part), "{arguments:?}: {text}");
}

#[test]
fn invalid_numbers_are_refused() {
    let folder = folder();
    let no_plan = [
        (&["--io-size", "1000"][..], "transfers of 1000 B"),
        (&["--saves", "0", "--restores", "0"], "there is no work"),
        (&["--saves", "2", "--restores", "3"], "3 restores requested; 2 checkpoints are available"),
        (&["--closed"], "rule 2.2.1 of v2.0: "),
        (
            &["--closed", "--edition", "3.0", "--results-dir", "results"],
            "results go to results, which is on the file system of the checkpoints",
        ),
        (&["--scale", "0.0001"], "one layer on the 2 ranks that share its tensors is"),
        (&["--scale", "0.0001", "--dry-run"], "one layer on the 2 ranks that share its tensors is"),
    ];
    for (arguments, part) in no_plan {
        refuses(folder.path(), arguments, 3, part);
    }
    for arguments in [
        &["--scale", "0"][..],
        &["--scale", "2"],
        &["--queue-depth", "0"],
        &["--saves", "-1"],
        &["--keep", "0"],
        &["--keep-last", "0"],
        &["--pause", "soon"],
        &["--fsync", "perhaps"],
        &["--path", "gds-batch-stream"],
        &["--edition", "1.0"],
        &["--dir", "x", "--dir", "x"],
    ] {
        tiny(folder.path(), arguments).assert().code(2);
    }
    assert!(!folder.path().join("stormlp-data").exists());
}

#[test]
fn a_file_may_request_as_many_checkpoints_as_the_options() {
    let folder = folder();
    let path = folder.path().join("tiny.yaml");
    for (key, option) in [("write", "save"), ("read", "restore")] {
        let counts = format!("checkpoint: {{num_checkpoints_{key}: 300000000}}\n");
        fs::write(&path, format!("{TINY}{counts}")).unwrap();
        for more in [&[][..], &["--dry-run"]] {
            let what = format!("300000000 {option}s\nhelp: use --{option}s with 100000 at most");
            refuses(folder.path(), more, 3, &what);
        }
    }
    fs::write(&path, TINY).unwrap();
    let many = ["--saves", "100001"];
    refuses(folder.path(), &many, 3, "100001 saves");
}

#[test]
fn what_this_machine_lacks_is_4_before_anything_is_written_and_in_a_dry_run() {
    let folder = folder();
    for arguments in [&["--path", "gds"][..], &["--path", "cpu-gpu", "--device", "cuda:99"]] {
        for more in [&[][..], &["--dry-run"]] {
            let mut command = tiny(folder.path(), &[arguments, more].concat());
            command.env("STORMLP_LIBCUFILE", "/nonexistent/libcufile.so.0");
            let text = stderr(command.assert().code(4));
            assert!(text.contains("error: ") && text.contains("help: "), "{text}");
        }
    }
    assert!(!folder.path().join("stormlp-data").exists());
}

#[test]
fn nothing_is_written_before_a_refusal() {
    let folder = folder();
    fs::create_dir(folder.path().join("d")).unwrap();
    let inside = || {
        let mut names: Vec<_> = (fs::read_dir(folder.path()).unwrap())
            .chain(fs::read_dir(folder.path().join("d")).unwrap())
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    };
    // The folder's modification time reveals a file that is gone.
    let changed = || {
        let folder = fs::metadata(folder.path().join("d")).unwrap();
        folder.modified().unwrap()
    };
    let before = (inside(), changed());
    for arguments in [
        &["--path", "gds"][..],
        &["--path", "cpu-gpu", "--device", "cuda:9"],
        &["--baseline", "/dev/null"],
        &["--results-dir", "/dev/null/results"],
        &["--mlperf-output", "/dev/null/mlperf"],
        &["--output", "/nonexistent/a.csv"],
        &["--saves", "0", "--restores", "1"],
    ] {
        let mut command = tiny(folder.path(), &[&["--dir", "d"][..], arguments].concat());
        command.env("STORMLP_LIBCUFILE", "/nonexistent/libcufile.so.0");
        let said = stderr(command.assert().failure());
        assert_eq!((inside(), changed()), before, "{arguments:?}: {said}");
    }
}

#[test]
fn a_refusal_is_not_marked_as_scaled() {
    let mut command = stormlp();
    let folder = folder();
    command.current_dir(folder.path());
    let scaled = ["checkpoint", "tiny.yaml", "--scale", "0.3"];
    let command = (command.args(scaled)).args(["--path", "cpu-gpu", "--device", "cuda:9"]);
    let said = stderr(command.assert().code(4));
    assert!(!said.contains("SCALED"), "{said}");
}

#[test]
fn a_failed_trial_is_reported() {
    let folder = folder();
    let run = "trap '' XFSZ; ulimit -f 1024; exec \"$0\" checkpoint tiny.yaml --dir d";
    let mut shell = assert_cmd::Command::new("bash");
    shell.args(["-c", run, env!("CARGO_BIN_EXE_stormlp")]);
    let said = stderr(shell.current_dir(folder.path()).assert().code(4));
    assert!(said.contains("trial write to d failed"), "{said}");
    assert!(said.contains("File too large"), "{said}");
    assert!(!folder.path().join("d").exists());
}

#[test]
fn a_dry_run_ends_as_the_run_would() {
    let folder = folder();
    let restore = ["--saves", "0", "--restores", "1"];
    let missing = "1 restore requested; 0 checkpoints are available";
    refuses(folder.path(), &restore, 4, missing);
    let dry = [&restore[..], &["--dry-run"]].concat();
    let assert = tiny(folder.path(), &dry).assert().code(4);
    let plan = stdout(assert);
    assert!(plan.contains("This cannot run here"), "{plan}");
    refuses(folder.path(), &dry, 4, missing);
    refuses(folder.path(), &["--dir", "tiny.yaml", "--dry-run"], 4, "is not a folder");
}

#[test]
fn invalid_models_are_refused_with_all_their_faults() {
    let folder = folder();
    let bad = TINY.replace("pipeline: 2", "pipeline: 5").replace("tensor: 2", "tensor: 9");
    let unknown = TINY.replace("zero_stage", "zero_stge");
    let cases = [
        (bad.as_str(), &["5 pipeline stages for 4 layers", "9 tensor-parallel ranks"][..]),
        (unknown.as_str(), &["bad.yaml:8:5", "did you mean `model.parallelism.zero_stage`?"]),
        ("model: [", &["bad.yaml:2:1: did not find expected"]),
    ];
    for (text, parts) in cases {
        fs::write(folder.path().join("bad.yaml"), text).unwrap();
        let mut command = stormlp();
        command.current_dir(folder.path());
        let message =
            stderr(command.args(["checkpoint", "bad.yaml", "--dry-run"]).assert().code(3));
        for part in parts {
            assert!(message.contains(part), "{part}: {message}");
        }
    }
    let mut command = stormlp();
    let message = stderr(command.args(["checkpoint", "llama4"]).assert().code(3));
    assert!(message.contains("llama3-8b"), "{message}");
    let mut command = stormlp();
    let arguments = ["checkpoint", "llama3-70b", "--ranks", "12", "--dry-run"];
    let message = stderr(command.args(arguments).assert().code(3));
    assert!(message.contains("not a multiple of tensor × pipeline"), "{message}");
}

#[test]
fn too_little_space_is_reported_with_numbers_before_the_first_byte() {
    let folder = folder();
    let mut command = stormlp();
    command.current_dir(folder.path());
    let arguments = ["checkpoint", "llama3-1t", "--scale", "1", "--saves", "100"];
    let message = stderr(command.args(arguments).assert().code(4));
    assert!(message.contains("100 checkpoints of 15426.59 GiB need"), "{message}");
    assert!(message.contains("free"), "{message}");
    assert!(!folder.path().join("stormlp-data").exists());
}

#[test]
fn missing_files_and_wrong_sizes_are_reported() {
    let folder = folder();
    refuses(folder.path(), &["--saves", "0"], 4, "0 checkpoints are available");
    tiny(folder.path(), &["--saves", "2", "--restores", "0"]).assert().success();
    refuses(folder.path(), &["--saves", "0", "--restores", "3"], 4, "2 checkpoints are available");
    let step = folder.path().join("stormlp-data/checkpoint/tiny/run1/global_epoch1_step1");
    let name = "layer_2-model_1_model_states.pt";
    let file = fs::File::options().write(true).open(step.join(name)).unwrap();
    file.set_len(100).unwrap();
    fs::remove_file(step.join("layer_6-model_3_model_states.pt")).unwrap();
    let all = ["--saves", "0", "--restores", "2"];
    refuses(folder.path(), &all, 4, &format!("{name} has 100 bytes; it must have 984064"));
    refuses(folder.path(), &all, 4, "layer_6-model_3_model_states.pt is missing");
    let mut command = stormlp();
    command.current_dir(folder.path());
    let other = ["checkpoint", "tiny.yaml", "--ranks", "4", "--saves", "0", "--restores", "2"];
    let message = stderr(command.args(other).assert().code(3));
    assert!(message.contains("another number of ranks"), "{message}");
}

#[test]
fn a_single_incomplete_checkpoint_is_reported_with_what_to_do() {
    let folder = folder();
    let scaled = ["--scale", "0.3", "--saves", "1", "--restores", "0"];
    tiny(folder.path(), &scaled).assert().success();
    let step = folder.path().join("stormlp-data/checkpoint/tiny/run1/global_epoch1_step1");
    let name = "zero_pp_rank_0_mp_rank_0_optim_states.pt";
    fs::remove_file(step.join(name)).unwrap();
    let message = stderr(tiny(folder.path(), &["--saves", "0"]).assert().code(4));
    assert!(message.contains(&format!("{name} is missing")), "{message}");
    assert!(message.contains("leave out --saves 0 to save again"), "{message}");
    tiny(folder.path(), &[]).assert().success();
    tiny(folder.path(), &["--saves", "0", "--verify"]).assert().success();
}

#[test]
fn requested_ranks_are_not_changed() {
    let folder = folder();
    let mut command = stormlp();
    command.current_dir(folder.path());
    let arguments = ["checkpoint", "tiny.yaml", "--ranks", "1000000"];
    let message = stderr(command.args(arguments).assert().failure());
    assert!(message.contains("1000000 ranks need"), "{message}");
    assert!(!folder.path().join("stormlp-data").exists());
}

#[test]
fn all_faults_of_a_workload_file_are_listed() {
    let folder = folder();
    let text = TINY.replace("  name: tiny", "  name: tiny\n  colour: red\n  taste: sour");
    fs::write(folder.path().join("tiny.yaml"), text).unwrap();
    refuses(
        folder.path(),
        &["--dir", "d"],
        3,
        "2 problems:\n  - tiny.yaml:3:3: unknown key `model.colour`",
    );
}

#[test]
fn an_impossible_directory_is_refused() {
    let folder = folder();
    refuses(folder.path(), &["--dir", "tiny.yaml"], 4, "is not a folder");
    fs::create_dir_all(folder.path().join("d/run1")).unwrap();
    fs::write(folder.path().join("d/run1/mine"), "x").unwrap();
    // Whatever has the name of a run stays.
    tiny(folder.path(), &["--dir", "d", "--saves", "1"]).assert().success();
    assert!(folder.path().join("d/run1/mine").exists());
    assert!(folder.path().join("d/run2/global_epoch1_step1").exists());
}

/// Starts a run in the background.
fn start(folder: &Path, arguments: &[&str]) -> Child {
    start_with(folder, arguments, Stdio::null())
}

/// Starts a run in the background, with its errors in `errors`.
fn start_with(folder: &Path, arguments: &[&str], errors: Stdio) -> Child {
    Command::new(env!("CARGO_BIN_EXE_stormlp"))
        .current_dir(folder)
        .args(["checkpoint", "tiny.yaml", "--ranks", "8"])
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(errors)
        .spawn()
        .unwrap()
}

/// Waits until `path` is there, for at most a minute.
pub(crate) fn wait_for(path: &Path) {
    let start = Instant::now();
    while !path.exists() {
        assert!(start.elapsed() < Duration::from_secs(60), "{} did not come", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn signal(child: &Child, signal: &str) {
    let status = Command::new("kill").arg(signal).arg(child.id().to_string()).status();
    assert!(status.unwrap().success());
}

#[test]
fn a_stopped_run_saves_its_measurements() {
    let folder = folder();
    // Long enough before the second checkpoint to be stopped in.
    let mut child = start(folder.path(), &["--saves", "2", "--pause", "3s"]);
    wait_for(&folder.path().join("stormlp-data/checkpoint/tiny/run1/global_epoch1_step1"));
    signal(&child, "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let saved = fs::read_dir(folder.path().join("stormlp-results")).unwrap().next();
    let report = saved.unwrap().unwrap().path().join("report.json");
    let report: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
    assert_eq!(report["ending"]["status"], "stopped");
}

#[test]
fn a_stopped_scaled_run_is_marked() {
    let folder = folder();
    let errors = folder.path().join("errors");
    let mut child = start_with(
        folder.path(),
        &["--scale", "0.3", "--saves", "2", "--pause", "3s"],
        fs::File::create(&errors).unwrap().into(),
    );
    wait_for(&folder.path().join("stormlp-data/checkpoint/tiny/run1/global_epoch1_step1"));
    signal(&child, "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let text = fs::read_to_string(errors).unwrap();
    let stop = text.lines().last().unwrap();
    assert!(stop.contains("SCALED to 26.53 %") && stop.contains("stopped"), "{text}");
}

#[test]
fn a_killed_run_leaves_nothing_that_looks_complete() {
    let folder = folder();
    let mut child = start(folder.path(), &["--saves", "30", "--restores", "0", "--pause", "0"]);
    let directory = folder.path().join("stormlp-data/checkpoint/tiny");
    wait_for(&directory.join("run1/global_epoch1_step4"));
    signal(&child, "-KILL");
    child.wait().unwrap();
    let list = stormlp().current_dir(folder.path()).arg("report").assert();
    let list = stdout(list.success());
    assert!(list.contains(" unfinished ") && list.contains("tiny saves at"), "{list}");
    let steps = fs::read_dir(directory.join("run1"))
        .unwrap()
        .filter(|entry| {
            let name = entry.as_ref().unwrap().file_name();
            name.to_string_lossy().starts_with("global_")
        })
        .count()
        .to_string();
    // Whole checkpoints restore and verify; the last one is either whole or refused by name.
    tiny(folder.path(), &["--saves", "0", "--restores", "2", "--verify"]).assert().success();
    let last =
        tiny(folder.path(), &["--saves", "0", "--restores", &steps, "--verify"]).output().unwrap();
    let message = String::from_utf8(last.stderr).unwrap();
    let whole = last.status.code() == Some(0);
    assert!(whole || message.contains(&format!("global_epoch1_step{steps}")), "{message}");
    clean(folder.path(), "stormlp-data").assert().success();
    assert!(!directory.exists());
}

#[test]
fn a_stop_does_not_wait_for_training_during_a_save() {
    let folder = folder();
    // A day of training: whoever waits for it does not end.
    let mut child = start(folder.path(), &["--saves", "2", "--overlap-step", "24h"]);
    let step = folder
        .path()
        .join("stormlp-data/checkpoint/tiny/run1/global_epoch1_step1/.stormlp-checkpoint.json");
    wait_for(&step);
    signal(&child, "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn a_damaged_marker_is_refused_with_the_reason() {
    let folder = folder();
    tiny(folder.path(), &["--saves", "1", "--restores", "0"]).assert().success();
    let marker = folder
        .path()
        .join("stormlp-data/checkpoint/tiny/run1/global_epoch1_step1/.stormlp-checkpoint.json");
    let text = fs::read_to_string(&marker).unwrap();
    let numbers = [
        ("source_bytes", "9000000000000000000"),
        ("source_bytes", "0"),
        ("source_bytes", "1000"),
        ("num_layers", "18446744073709551615"),
    ];
    for (key, value) in numbers {
        let (before, after) = text.split_once(&format!("\"{key}\":")).unwrap();
        let rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
        fs::write(&marker, format!("{before}\"{key}\":{value}{rest}")).unwrap();
        refuses(
            folder.path(),
            &["--saves", "0", "--restores", "1", "--verify"],
            4,
            "its marker cannot be used: ",
        );
    }
}

#[test]
fn parts_of_two_saves_are_not_restored_as_one() {
    let folder = folder();
    let save = ["--saves", "1", "--restores", "0"];
    for other in ["b", "c"] {
        let run = [&["--dir", "a", "--dir", other][..], &save].concat();
        tiny(folder.path(), &run).assert().success();
    }
    let restore = |other| ["--dir", "a", "--dir", other, "--saves", "0", "--verify"];
    refuses(folder.path(), &restore("b"), 4, "checkpoint b/run2/global_epoch1_step1 is missing");
    tiny(folder.path(), &restore("c")).assert().success();
}

#[test]
fn clean_removes_only_what_the_marker_lists() {
    let folder = folder();
    let text = stdout(
        tiny(folder.path(), &["--dir", "d", "--saves", "1", "--restores", "0"]).assert().success(),
    );
    assert!(text.contains("Saves"), "{text}");
    let step = folder.path().join("d/run1/global_epoch1_step1");
    // All but the marker.
    let files = fs::read_dir(&step).unwrap().count() - 1;
    fs::write(step.join("notes.txt"), "mine").unwrap();
    // Names that an interrupted save has used: the first was killed before it could mark its file.
    let [empty, other] = ["layer_0-model_0", "layer_0-model_1"]
        .map(|name| step.join(format!(".{name}_model_states.pt.partial")));
    fs::write(&empty, "").unwrap();
    fs::write(&other, "mine").unwrap();
    let text = stdout(clean(folder.path(), "d").assert().success());
    let files = files + 1;
    assert!(text.starts_with(&format!("removed {files} files, 59.49 MiB, from d/run1")), "{text}");
    assert!(step.join("notes.txt").exists() && other.exists() && !empty.exists());
}

#[test]
fn a_cold_restore_from_memory_is_refused_before_the_first_byte() {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let in_memory = mounts.contains(" /dev/shm tmpfs ");
    let Some(memory) = in_memory.then(|| tempfile::tempdir_in("/dev/shm").unwrap()) else {
        stormlp_fixtures::skipped("/dev/shm is not a tmpfs", "mount a tmpfs there");
        return;
    };
    let folder = folder();
    let directory = memory.path().join("d");
    let directory = directory.to_str().unwrap();
    for path in ["buffered", "cpu"] {
        let run = ["--dir", directory, "--saves", "1", "--path", path];
        refuses(folder.path(), &run, 4, "keeps its files in memory");
    }
    assert!(!memory.path().join("d").exists());
}
