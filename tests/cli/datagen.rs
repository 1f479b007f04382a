//! `stormlp datagen`: generating, refusing, resuming and verifying datasets, as a user sees them.

use std::fs;
use std::path::Path;
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{last_line, stderr, stdout, stormlp};

/// unet3d with small samples: 4 files of some 100 kB.
const SMALL: [&str; 8] = [
    "datagen",
    "unet3d",
    "--files",
    "4",
    "--params",
    "dataset.record_length_bytes=100000",
    "--params",
    "dataset.record_length_bytes_stdev=30000",
];

fn datagen(folder: &Path, more: &[&str]) -> assert_cmd::assert::Assert {
    let mut command = stormlp();
    command.args(SMALL).arg("--dir").arg(folder).args(more);
    command.assert()
}

fn json(assert: assert_cmd::assert::Assert) -> Value {
    serde_json::from_str(&stdout(assert)).unwrap()
}

#[test]
fn a_dataset_is_generated_refused_verified_and_repaired() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("data");
    let made = json(datagen(&folder, &["--format", "json"]).success());
    assert_eq!(made["files_made"], 4);
    assert_eq!(fs::read_dir(folder.join("train")).unwrap().count(), 4);

    let refused = stderr(datagen(&folder, &[]).code(4));
    assert!(refused.contains("holds this dataset already"), "{refused}");
    assert!(refused.contains("--resume"), "{refused}");

    let good = stdout(datagen(&folder, &["--check"]).success());
    assert!(
        last_line(&good, 0).starts_with("4 of 4 files are good, checked against the checksums"),
        "{good}"
    );

    fs::write(folder.join("train/img_2_of_4.npz"), b"PK").unwrap();
    let bad = datagen(&folder, &["--check"]).code(5);
    let text = String::from_utf8_lossy(&bad.get_output().stdout).into_owned();
    assert!(
        text.contains("bad: train/img_2_of_4.npz: it has 2 bytes, but was made with"),
        "{text}"
    );
    assert!(stderr(bad).contains(": 1 bad"));

    let mended = json(datagen(&folder, &["--resume", "--format", "json"]).success());
    assert_eq!(mended["remade"], serde_json::json!(["train/img_2_of_4.npz"]));
    assert_eq!(mended["files_kept"], 3);
    datagen(&folder, &["--check"]).success();

    // Altered with care, so that it does not show.
    let file = folder.join("train/img_1_of_4.npz");
    let when = fs::metadata(&file).unwrap().modified().unwrap();
    let mut bytes = fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&file, bytes).unwrap();
    let touched = fs::File::options().write(true).open(&file).unwrap();
    touched.set_modified(when).unwrap();
    let mended = json(datagen(&folder, &["--resume", "--format", "json"]).success());
    assert_eq!(mended["remade"], serde_json::json!(["train/img_1_of_4.npz"]));

    let other = stderr(datagen(&folder, &["--resume", "--tune", "seed=7"]).code(3));
    assert!(other.contains("made with seed 42, but this run requests seed 7"), "{other}");
    datagen(&folder, &["--overwrite", "--tune", "seed=7"]).success();
}

#[test]
fn a_dry_run_reports_what_would_be_created_and_writes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("data");
    let outline = json(datagen(&folder, &["--dry-run", "--format", "json"]).success());
    assert_eq!(outline["files"], 4);
    assert_eq!(outline["profile"], "2.0");
    assert_eq!(outline["fits"], true);
    assert!(!folder.exists());
    let made = json(datagen(&folder, &["--format", "json"]).success());
    assert_eq!(made["bytes"], outline["bytes"]);
}

#[test]
fn a_dry_run_of_files_that_do_not_fit_ends_as_the_run_would() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("data");
    let mut command = stormlp();
    command.args(["datagen", "unet3d", "--files", "90000", "--dry-run", "--dir"]).arg(&folder);
    let ended = command.assert().code(4);
    let said = String::from_utf8_lossy(&ended.get_output().stderr).into_owned();
    assert!(said.contains(" free, but the dataset needs about "), "{said}");
    assert!(stdout(ended).contains("it does not fit"));
    assert!(!folder.exists());
}

#[test]
fn a_refused_dataset_leaves_no_trace() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("data");
    for (options, code, message) in [
        (vec!["datagen", "unet3d", "--files", "1000000"], 4, "the dataset needs"),
        (vec!["datagen", "unet3d", "--files", "0"], 2, "invalid value '0' for '--files"),
        (
            vec!["datagen", "unet3d", "--params", "dataset.num_files_train=0"],
            3,
            "num_files_train must be 1 or more",
        ),
        (vec!["datagen", "unet4d"], 3, "did you mean `unet3d`"),
        (vec!["datagen", "nothing.yaml"], 4, "cannot read workload file nothing.yaml"),
        (vec!["datagen", "unet3d", "--params", "dataset.formt=npz"], 3, "dataset.format"),
        (vec!["datagen", "unet3d", "--resume", "--overwrite"], 2, "cannot be used with"),
        (vec!["datagen", "unet3d", "--files", "3", "--check"], 4, "does not exist"),
    ] {
        let mut command = stormlp();
        command.current_dir(root.path()).args(&options);
        let errors = stderr(command.arg("--dir").arg(&folder).assert().code(code));
        assert!(errors.contains(message), "{options:?}: {errors}");
        assert!(!folder.exists(), "{options:?}");
    }
}

#[test]
fn the_default_folder_bears_the_workloads_name() {
    let root = tempfile::tempdir().unwrap();
    stormlp().current_dir(root.path()).args(SMALL).assert().success();
    assert!(root.path().join("stormlp-data/unet3d/train/img_0_of_4.npz").is_file());
}

/// A run that would last long, once it has made its first file.
fn long_run(folder: &Path) -> Child {
    let child = Process::new(env!("CARGO_BIN_EXE_stormlp"))
        .args(["datagen", "unet3d", "--files", "600", "--threads", "1", "--dir"])
        .arg(folder)
        .args(["--params", "dataset.record_length_bytes=700000"])
        .args(["--params", "dataset.record_length_bytes_stdev=0"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let patience = Instant::now() + Duration::from_secs(30);
    while !folder.join("train/img_003_of_600.npz").exists() {
        assert!(Instant::now() < patience, "no file was made");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

/// Continues the run with fewer options than files to go, and looks at the files that were kept.
fn is_resumable(folder: &Path) {
    let mut command = stormlp();
    command
        .args(["datagen", "unet3d", "--files", "600", "--dir"])
        .arg(folder)
        .args(["--params", "dataset.record_length_bytes=700000"])
        .args(["--params", "dataset.record_length_bytes_stdev=0", "--format", "json", "--resume"]);
    let resumed = json(command.assert().success());
    assert!(resumed["files_kept"].as_u64().unwrap() >= 4, "{resumed}");
    assert_eq!(resumed["remade"], serde_json::json!([]));
    let made = fs::read_dir(folder.join("train")).unwrap().count();
    assert_eq!(made, 600, "no leftovers");
}

#[test]
fn ctrl_c_ends_with_130_and_can_be_continued() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("data");
    let child = long_run(&folder);
    let pid = child.id().to_string();
    assert!(Process::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{errors}");
    assert!(errors.contains("of 600 files made"), "{errors}");
    assert!(errors.contains("--resume"), "{errors}");
    is_resumable(&folder);
}

#[test]
fn a_killed_run_can_be_continued() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("data");
    let mut child = long_run(&folder);
    child.kill().unwrap();
    child.wait().unwrap();
    is_resumable(&folder);
}

#[test]
fn a_far_too_large_dataset_is_refused_without_drawing_its_sizes() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("data");
    for mode in [&[][..], &["--resume"], &["--overwrite"], &["--dry-run"]] {
        let mut command = stormlp();
        command
            .args(["datagen", "unet3d", "--files", "90000000", "--dir"])
            .arg(&folder)
            .args(mode)
            // Drawing the sizes of so many files lasts longer than this even on an idle machine.
            .timeout(Duration::from_secs(5));
        let said = stderr(command.assert().code(4));
        assert!(said.contains(" free, but the dataset needs about 11999.92 TiB"), "{said}");
        assert!(said.contains("fewer --files"), "{said}");
    }
    assert!(!folder.exists());
}

#[test]
fn files_that_storage_rejects_leave_the_others_complete_and_can_be_made_later() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("data");
    let more = "--files 24 --params dataset.record_length_bytes=400000 \
                --params dataset.record_length_bytes_stdev=200000";
    let datagen = |mode: &str| {
        let script = format!(
            "exec {} datagen unet3d --dir {} {more} {mode}",
            env!("CARGO_BIN_EXE_stormlp"),
            folder.display()
        );
        Process::new("sh").args(["-c", &script]).output().unwrap()
    };
    // A folder in the place of the twelfth stands in for a disk that refuses it.
    let in_the_way = folder.join("train/img_11_of_24.npz");
    fs::create_dir_all(&in_the_way).unwrap();
    let limited = datagen("--threads 1");
    let errors = String::from_utf8_lossy(&limited.stderr);
    assert_eq!(limited.status.code(), Some(5), "{errors}");
    assert!(errors.contains("the files made so far are complete"), "{errors}");
    fs::remove_dir(in_the_way).unwrap();
    let whole = fs::read_dir(folder.join("train")).unwrap().count();
    assert_eq!(whole, 11, "and no part of one");

    let resumed = datagen("--resume --format json");
    let report: Value = serde_json::from_slice(&resumed.stdout).unwrap();
    assert_eq!(report["files_kept"], whole);
    assert_eq!(report["remade"], serde_json::json!([]));
    assert_eq!(datagen("--check").status.code(), Some(0));
}
