//! `stormlp train` when something is wrong: exit code, message, and saved files.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::train::{SMALL, folder, train};
use crate::{stderr, stdout, stormlp};

/// Runs `words` in `folder`, expects `code` and all of `said` on stderr.
pub(crate) fn check(folder: &Path, words: &str, code: i32, said: &[&str]) {
    let text = stderr(train(folder, words).assert().code(code));
    assert!(text.contains("error: "), "{words}: {text}");
    for part in said {
        assert!(text.contains(part), "{words}: `{part}` is not in: {text}");
    }
    assert!(!text.contains("panicked"), "{words}: {text}");
}

/// A dataset of `workload` with `files` files, in `data` of `folder`, made by a run of one epoch,
/// without its report.
pub(crate) fn dataset(folder: &Path, workload: &str, files: u32, more: &str) -> PathBuf {
    let words = format!(
        "{workload} --dir data --generate --files {files} {more} --epochs 1 \
         --compute-time 1ms --results-dir making {SMALL}"
    );
    train(folder, &words).assert().success();
    folder.join("data")
}

/// The data files of a dataset in order.
pub(crate) fn files_of(data: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        fs::read_dir(data.join("train")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// The file of the only report that was saved.
fn report_file(folder: &Path) -> PathBuf {
    let results = fs::read_dir(folder.join("stormlp-results")).unwrap();
    let folders: Vec<_> = results.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(folders.len(), 1);
    folders[0].join("report.json")
}

fn saved(folder: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(report_file(folder)).unwrap()).unwrap()
}

#[test]
fn what_this_machine_lacks_is_4_before_a_byte_is_written_and_in_a_dry_run() {
    for (words, said) in [
        ("--path gds", "path gds cannot run here: "),
        ("--path cpu-gpu --device cuda:99", "there is no cuda:99"),
    ] {
        let folder = folder();
        for dry in ["", " --dry-run"] {
            check(
                folder.path(),
                &format!("unet3d --generate --files 28 {words}{dry} {SMALL}"),
                4,
                &[said, "help: "],
            );
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{words}{dry}");
        }
    }
}

#[test]
fn a_dry_run_of_a_dataset_that_does_not_fit_prints_its_plan_and_ends_as_the_run_would() {
    let folder = folder();
    for (dry, plans) in [("", false), (" --dry-run", true)] {
        let words = format!("unet3d --generate=full -n 20{dry}");
        let ended = train(folder.path(), &words).assert().code(4);
        let said = String::from_utf8_lossy(&ended.get_output().stderr).into_owned();
        assert!(said.contains(" free, but the dataset needs about 9."), "{said}");
        assert_eq!(stdout(ended).contains("plan of unet3d"), plans);
    }
    assert!(!folder.path().join("stormlp-data").exists());
}

#[test]
fn wrong_words_are_2() {
    let folder = folder();
    for (words, said) in [
        ("unet3d --path gdz", "gdz"),
        ("unet3d -n 0", "accelerators"),
        ("unet3d --epochs=-1", "epochs"),
        ("unet3d --compute-time=-5", "compute-time"),
        ("unet3d --edition 9.0", "use 1.0, 2.0, 3.0 or native"),
        ("unet3d --params reader.read_threads=1000000000", "1024"),
        ("unet3d --params reader.prefetch_size=1000000000", "65536"),
        ("unet3d --epochs 1000000000000", "from 1 to 1000000:"),
        ("unet3d -n -1", "`-1` is not a whole number of 1 or more"),
        ("unet3d --path null --dir /data", "--dir has no effect"),
        ("unet3d --path null --generate", "--generate has no effect"),
        ("unet3d --compute-time {type:zipf}", "compute-time"),
        ("unet3d --path null --cache cold", "--cache has no effect"),
    ] {
        let text = stderr(train(folder.path(), words).assert().failure());
        assert!(text.contains(said), "{words}: {text}");
        assert!(!text.contains("panicked"), "{words}: {text}");
    }
}

#[test]
fn invalid_workloads_are_3() {
    let folder = folder();
    check(folder.path(), "unet4d", 3, &["unet4d", "stormlp workloads"]);
    let unknown = "unet3d --path null --params reader.read_thread=3";
    check(folder.path(), unknown, 3, &["read_thread", "read_threads"]);
    let words = "unet3d --path null --files 3 --accelerators 9";
    check(folder.path(), words, 3, &["3 samples", "--files"]);
    let datagen = "model: {name: mine}\nworkflow: {generate_data: True, train: False}\n";
    fs::write(folder.path().join("make.yaml"), datagen).unwrap();
    check(folder.path(), "make.yaml", 3, &["no training", "stormlp datagen make.yaml"]);
    fs::write(folder.path().join("empty.yaml"), "model: {name: x}\n").unwrap();
    check(folder.path(), "empty.yaml", 3, &["empty.yaml has no `dataset`"]);
    let other = "my.yaml --accelerator b200 --path null";
    fs::write(folder.path().join("my.yaml"), "dataset: {format: npz}\n").unwrap();
    check(folder.path(), other, 3, &["accelerator custom", "--params stormlp.accelerator=b200"]);
    fs::write(folder.path().join("bad.yaml"), "reader: [1").unwrap();
    check(folder.path(), "bad.yaml", 3, &["bad.yaml"]);
}

#[test]
fn what_this_machine_lacks_is_4() {
    let folder = folder();
    let words = "unet3d --dir elsewhere";
    check(
        folder.path(),
        words,
        4,
        &["elsewhere contains no npz", "stormlp datagen unet3d", "--generate"],
    );
    check(folder.path(), "no-such.yaml", 4, &["no-such.yaml"]);
    let words = format!("retinanet --files 48 {SMALL} --path cpu-gpu --device cuda:7");
    check(folder.path(), &words, 4, &["no cuda:7", "stormlp doctor"]);
    assert!(!folder.path().join("stormlp-results").exists());
}

#[test]
fn too_few_files_and_wrong_sample_counts_name_both_numbers() {
    let folder = folder();
    dataset(folder.path(), "unet3d", 21, "");
    let words = format!("unet3d --dir data --files 30 {SMALL}");
    check(folder.path(), &words, 4, &["21 files", "30", "--files"]);
    let words =
        format!("unet3d --dir data --files 21 {SMALL} --params dataset.num_samples_per_file=2");
    check(folder.path(), &words, 3, &["contains 1 sample,", "dataset.num_samples_per_file"]);
}

#[test]
fn a_file_missing_from_our_dataset_is_4_and_fewer_may_be_requested() {
    let folder = folder();
    let data = dataset(folder.path(), "unet3d", 24, "");
    let gone = files_of(&data)[5].clone();
    fs::remove_file(&gone).unwrap();
    let name = gone.file_name().unwrap().to_str().unwrap();
    let words = format!("unet3d --dir data --epochs 1 --compute-time 1ms {SMALL}");
    let again = "stormlp datagen unet3d --dir data --files 24 --tune seed=42 --edition 2.0 \
                 --params dataset.record_length_bytes=150000 --params dataset.record_length_bytes_stdev=20000 \
                 --params dataset.num_samples_per_file=1 --params dataset.num_files_eval=0 --resume";
    let said = ["23 files", name, &format!("`{again}`")];
    check(folder.path(), &words, 4, &said);
    let fewer = train(folder.path(), &format!("{words} --files 21")).assert();
    let said = String::from_utf8(fewer.success().get_output().stdout.clone()).unwrap();
    assert!(said.contains(name), "others take its place: {said}");
    // The command it names mends it.
    let mut mend = stormlp();
    mend.current_dir(folder.path()).args(again.split(' ').skip(1)).assert().success();
    train(folder.path(), &words).assert().success();
}

#[test]
fn unwritable_result_folders_are_4_before_the_run() {
    let folder = folder();
    fs::write(folder.path().join("file"), "").unwrap();
    for option in ["--results-dir", "--mlperf-output"] {
        let words = format!("unet3d --path null --steps 4 {option} file/x");
        check(folder.path(), &words, 4, &["file/x", option]);
    }
    assert!(!folder.path().join("stormlp-results").exists());
}

#[test]
fn no_dataset_is_generated_for_a_refused_plan() {
    let folder = folder();
    let words = format!("unet3d --dir new --files 14 --generate --epochs 1 {SMALL}");
    check(folder.path(), &words, 3, &["2 steps"]);
    assert!(!folder.path().join("new").exists());
}

#[test]
fn a_file_cut_off_since_it_was_made_is_5_before_the_run() {
    let folder = folder();
    let data = dataset(folder.path(), "unet3d", 21, "");
    let bad = &files_of(&data)[5];
    fs::File::options().write(true).open(bad).unwrap().set_len(99).unwrap();
    let words = format!("unet3d --dir data --files 21 {SMALL}");
    let name = bad.file_name().unwrap().to_str().unwrap();
    check(folder.path(), &words, 5, &[name, "99 bytes"]);
}

#[test]
fn a_file_cut_off_in_the_middle_ends_the_run_and_saves_it() {
    let folder = folder();
    let data = dataset(folder.path(), "unet3d", 28, "");
    fs::remove_file(data.join(".stormlp-manifest.json")).unwrap();
    let bad = &files_of(&data)[23];
    fs::File::options().write(true).open(bad).unwrap().set_len(70_000).unwrap();
    let words = format!("unet3d --dir data --files 28 --epochs 3 --compute-time 1ms {SMALL}");
    let name = bad.file_name().unwrap().to_str().unwrap();
    let expected = [name, "expected member `x.npy`", "what was measured is saved"];
    check(folder.path(), &words, 5, &expected);
    let report = saved(folder.path());
    assert_eq!(report["ending"]["status"], "failed");
    assert_eq!(report["epochs"].as_array().unwrap().len(), 1);
    assert_eq!(report["meets_threshold"], false);
}

#[test]
fn a_corrupt_header_ends_the_run_in_every_profile() {
    let folder = folder();
    for format in ["npz", "npy"] {
        let made = folder.path().join("data");
        let mut make = crate::stormlp();
        make.current_dir(folder.path());
        make.args("datagen unet3d --dir data --files 21".split(' '));
        make.args(SMALL.split_whitespace());
        make.args(["--params", &format!("dataset.format={format}")]).assert().success();
        fs::remove_file(made.join(".stormlp-manifest.json")).unwrap();
        // Neither the first, the middle nor the last, with framing that is checked before the run.
        let bad = &files_of(&made)[4];
        let mut bytes = fs::read(bad).unwrap();
        bytes[20..32].fill(0xff);
        fs::write(bad, bytes).unwrap();
        let name = bad.file_name().unwrap().to_str().unwrap();
        for edition in ["1.0", "2.0", "3.0"] {
            let words = format!(
                "unet3d --dir data --files 21 --epochs 1 --compute-time 1ms --edition \
                 {edition} {SMALL} --params dataset.format={format}"
            );
            check(folder.path(), &words, 5, &[name, "at byte ", "expected "]);
        }
        fs::remove_dir_all(&made).unwrap();
    }
}

#[test]
fn a_zip_without_its_directory_ends_the_run_as_it_would_numpy() {
    let folder = folder();
    let data = dataset(folder.path(), "unet3d", 21, "");
    fs::remove_file(data.join(".stormlp-manifest.json")).unwrap();
    let bad = &files_of(&data)[4];
    let mut bytes = fs::read(bad).unwrap();
    let end = bytes.len() - 22;
    bytes[end - 200..end].fill(0);
    fs::write(bad, bytes).unwrap();
    let name = bad.file_name().unwrap().to_str().unwrap();
    for options in ["--edition 1.0", "--edition 3.0", "--edition 2.0 --path cpu"] {
        let words =
            format!("unet3d --dir data --files 21 --epochs 1 --compute-time 1ms {options} {SMALL}");
        check(folder.path(), &words, 5, &[name, "a zip directory entry"]);
    }
}

#[test]
fn a_corrupt_record_ends_the_run_with_file_and_offset() {
    let folder = folder();
    let data = dataset(
        folder.path(),
        "resnet50",
        8,
        "--params dataset.num_samples_per_file=20 --params reader.batch_size=10",
    );
    let bad = &files_of(&data)[1];
    let mut bytes = fs::read(bad).unwrap();
    // The second record's length: the first one says where it is.
    let first = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    let second = (first + 16) as usize;
    bytes[second] ^= 1;
    fs::write(bad, bytes).unwrap();
    let words = format!(
        "resnet50 --dir data --files 8 --params dataset.num_samples_per_file=20 --params reader.batch_size=10 --epochs 1 \
         --compute-time 1ms {SMALL}"
    );
    let name = bad.file_name().unwrap().to_str().unwrap();
    let offset = format!("at byte {}", second + 8);
    check(folder.path(), &words, 5, &[name, &offset, "expected CRC"]);
    assert_eq!(saved(folder.path())["ending"]["status"], "failed");
}

#[test]
fn a_checkpoint_that_does_not_fit_ends_the_run_saves_it_and_names_its_folder() {
    let folder = folder();
    let data = dataset(folder.path(), "unet3d", 28, "");
    let words = format!(
        "unet3d --dir {} --files 28 --epochs 3 --compute-time 1ms --edition 1.0 \
         {SMALL} --params checkpoint.checkpoint_folder=ckpt --params workflow.checkpoint=True --params checkpoint.steps_between_checkpoints=2 \
         --params model.model_size_bytes=30000000",
        data.display()
    );
    // A limit on the size of files stands in for a full disk: a write in the middle fails.
    let script = format!(
        "trap '' XFSZ; ulimit -f 1000; exec {} train {words}",
        env!("CARGO_BIN_EXE_stormlp")
    );
    let run = Command::new("sh").args(["-c", &script]).current_dir(folder.path()).output().unwrap();
    let said = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(5), "{said}");
    for part in [
        "write the checkpoint",
        "what was measured is saved",
        "help: checkpoints go to",
        "28.61 MiB free",
        "checkpoint.checkpoint_folder",
    ] {
        assert!(said.contains(part), "`{part}` is not in: {said}");
    }
    assert!(!said.contains("datagen"), "the dataset is sound: {said}");
    let report = saved(folder.path());
    assert_eq!(report["ending"]["kind"], "checkpoint");
    let blocks = &report["epochs"][0]["accelerators"][0]["blocks"];
    assert_eq!(blocks.as_array().unwrap().len(), 1, "{blocks}");
    assert_eq!(blocks[0]["steps"], 2, "what was measured before it");
    let left = fs::read_dir(folder.path().join("ckpt")).unwrap().count();
    assert_eq!(left, 0, "half a checkpoint takes no space");
}

#[test]
fn evaluations_that_a_workload_asks_for_are_named_with_why_there_are_none() {
    let folder = folder();
    let words = "unet3d --path null --steps 4 --epochs 1 --compute-time 1ms --params \
        metric.au=0.001 --params workflow.evaluation=";
    let told = "keys without effect: workflow.evaluation (stormlp only trains: AU does not include evaluations)";
    for (asked, is_told) in [("True", true), ("False", false)] {
        let run = train(folder.path(), &format!("{words}{asked}")).assert().success();
        let run = stdout(run).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(run.contains(told), is_told, "{run}");
    }
}

#[test]
fn null_storage_is_not_written_to() {
    let folder = folder();
    let words = "unet3d --path null --steps 4 --epochs 1 --compute-time 1ms \
        --params workflow.checkpoint=True --params model.model_size_bytes=1000";
    train(folder.path(), words).output().unwrap();
    let made: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(made, ["stormlp-results"]);
}

#[test]
fn a_checkpoint_folder_that_cannot_be_made_is_4_before_the_run() {
    let folder = folder();
    fs::write(folder.path().join("file"), "").unwrap();
    let words = format!(
        "unet3d --files 21 --epochs 1 --compute-time 1ms {SMALL} \
         --params checkpoint.checkpoint_folder=file/ckpt --params workflow.checkpoint=True"
    );
    let said = ["file/ckpt", "checkpoints go to", "checkpoint.checkpoint_folder"];
    check(folder.path(), &words, 4, &said);
    assert!(!folder.path().join("stormlp-results").exists());
}

/// A run that lasts until it is stopped, past its first epoch.
fn long_run(folder: &Path) -> Child {
    let words = format!("unet3d --files 21 --epochs 100000 --compute-time 5ms {SMALL}");
    run_past(folder, &words, "epoch 1 of ")
}

/// A run of `words` that has printed a line which begins with `mark`.
fn run_past(folder: &Path, words: &str, mark: &str) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_stormlp"))
        .current_dir(folder)
        .arg("train")
        .args(words.split_whitespace())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stderr.take().unwrap());
    let mut lines = said.lines().map_while(Result::ok);
    assert!(lines.any(|line| line.starts_with(mark)));
    // The rest has to be read, or the run would block on a full pipe.
    std::thread::spawn(move || lines.for_each(drop));
    child
}

fn interrupt(child: &Child) {
    let pid = child.id().to_string();
    let killed = Command::new("kill").args(["-INT", &pid]).status();
    assert!(killed.unwrap().success());
}

#[test]
fn a_later_run_that_cannot_start_keeps_the_report_of_earlier_ones() {
    let folder = folder();
    dataset(folder.path(), "unet3d", 28, "");
    let words = format!(
        "unet3d --dir data --files 28 --epochs 60 --runs 2 --compute-time 5ms \
         {SMALL} --params checkpoint.checkpoint_folder=ckpt --params workflow.checkpoint=True \
         --params checkpoint.checkpoint_after_epoch=1000"
    );
    let mut child = run_past(folder.path(), &words, "epoch 1 of ");
    // The checkpoint folder becomes a file before the second run wants it.
    fs::remove_dir_all(folder.path().join("ckpt")).unwrap();
    fs::write(folder.path().join("ckpt"), "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(5));
    let report = saved(folder.path());
    let message = report["ending"]["fact"].as_str().unwrap();
    assert!(message.contains("run 2 could not start"), "{message}");
    assert_eq!(report["runs"].as_array().unwrap().len(), 1);
    assert_eq!(report["runs"][0]["complete"], true);
    assert_eq!(report["meets_threshold"], false);
}

#[test]
fn an_interrupted_ceiling_does_not_count() {
    let folder = folder();
    // Preprocessing lasts longer than a step computes, so that the run misses its threshold.
    let words = "unet3d --files 28 --epochs 1 --compute-time 400ms --edition 1.0 --params \
        reader.read_threads=0 --params reader.preprocess_time=0.1 --params dataset.record_length_bytes=150000 --params dataset.record_length_bytes_stdev=0 --params metric.au=1.0";
    let mut child =
        run_past(folder.path(), words, "AU missed its target: measuring the upper limit");
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(6));
    let report = saved(folder.path());
    assert!(report["calibration"].is_null(), "{}", report["calibration"]);
    assert_eq!(report["ending"]["status"], "complete");
}

#[test]
fn an_interrupted_run_saves_its_measurements() {
    let folder = folder();
    let mut child = long_run(folder.path());
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let report = saved(folder.path());
    assert_eq!(report["ending"]["status"], "stopped");
    assert!(!report["epochs"].as_array().unwrap().is_empty());
}

#[test]
fn a_killed_run_loses_no_more_than_its_last_epoch() {
    let folder = folder();
    let words = format!("unet3d --files 21 --epochs 100000 --compute-time 5ms {SMALL}");
    let mut child = run_past(folder.path(), &words, "epoch 12 of ");
    child.kill().unwrap();
    child.wait().unwrap();
    let whole = saved(folder.path());
    assert_eq!(whole["ending"]["status"], "unfinished");
    let shown = || -> Value {
        let mut show = stormlp();
        show.args(["report", "show"]).arg(report_file(folder.path())).args(["--format", "json"]);
        serde_json::from_str(&stdout(show.assert().success())).unwrap()
    };
    let before = shown();
    let epochs = before["epochs"].as_array().unwrap();
    assert!(epochs.len() >= 11, "{}", epochs.len());
    let in_report = whole["epochs"].as_array().unwrap();
    assert!(epochs.starts_with(in_report), "{} of {}", in_report.len(), epochs.len());
    let sum = |key: &str| epochs.iter().map(|epoch| epoch[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!(before["bytes_read"], sum("bytes_read"));

    // A kill may come in the middle of a line, and just after the whole report was saved.
    let journal = report_file(folder.path()).with_extension("journal.jsonl");
    let lines = fs::read_to_string(&journal).unwrap_or_default();
    fs::write(&journal, format!("{lines}{{\"run\":1,\"ep")).unwrap();
    assert_eq!(shown(), before);
    let list = stdout(stormlp().current_dir(folder.path()).arg("report").assert().success());
    assert!(list.contains(" train ") && list.contains(" unfinished "), "{list}");
    assert!(!list.contains("contradict"), "{list}");
}

#[test]
fn a_stopped_run_reports_it_even_if_its_report_cannot_be_saved() {
    let folder = folder();
    let mut child = long_run(folder.path());
    // Until no report is saved between the two.
    while fs::remove_dir_all(folder.path().join("stormlp-results")).is_err() {}
    fs::write(folder.path().join("stormlp-results"), "in the way").unwrap();
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn two_runs_in_one_folder_refuse_each_other() {
    let folder = folder();
    let mut child = long_run(folder.path());
    let words = format!("unet3d --files 21 --epochs 1 {SMALL}");
    check(folder.path(), &words, 4, &["in use by another stormlp run"]);
    child.kill().unwrap();
    child.wait().unwrap();
}
