//! `stormlp train` on tiny datasets: files, reads, text and reports.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

use crate::{last_line, stderr, stdout, stormlp};

/// Small samples and a threshold that any machine reaches, so that the exit code says only
/// whether the run went through.
pub(crate) const SMALL: &str = "--params dataset.record_length_bytes=150000 \
    --params dataset.record_length_bytes_stdev=20000 --params metric.au=0.001";

/// A folder on a file system with O_DIRECT, which a temporary file system may not have.
pub(crate) fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// `stormlp train` with `words` in `folder`, without any libcufile.
pub(crate) fn train(folder: &Path, words: &str) -> Command {
    let mut command = stormlp();
    command
        .current_dir(folder)
        .env("STORMLP_LIBCUFILE", "/nonexistent/libcufile.so.0")
        .arg("train")
        .args(words.split_whitespace());
    command
}

/// The report that a run printed.
pub(crate) fn report(folder: &Path, words: &str) -> Value {
    let mut command = train(folder, words);
    let text = stdout(command.args(["--format", "json"]).assert().success());
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_starter_set_is_made_once_and_read_every_epoch() {
    let folder = folder();
    let words = format!("unet3d --files 28 --epochs 2 --compute-time 2ms {SMALL}");
    let mut first = train(folder.path(), &words);
    let first = first.args(["--format", "json"]).assert().success();
    let said = stderr(first);
    assert!(said.contains("(starter dataset, 28 files)"), "{said}");
    assert!(said.contains("report: stormlp-results/train-unet3d-"), "{said}");

    let report = report(folder.path(), &words);
    assert_eq!(report["plan"]["workload"], "unet3d");
    assert_eq!(report["plan"]["profile"], "v2");
    assert_eq!(report["plan"]["steps_per_epoch"], 4);
    assert_eq!(report["epochs"].as_array().unwrap().len(), 2);
    assert_eq!(report["ending"]["status"], "complete");
    for key in ["profile", "nominal", "measured", "including_startup"] {
        let au = report["au_percent"][key].as_f64().unwrap();
        assert!(au > 0.0 && au <= 110.0, "{key}: {au}");
    }
    for key in ["storage", "cpu", "barrier", "startup"] {
        assert!(report["waiting_seconds"][key].is_number(), "{key}");
    }
    let files = folder.path().join("stormlp-data/unet3d/train");
    let bytes: u64 =
        fs::read_dir(files).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    // Each epoch reads every file, and as np.load does the zip's magic and its end in three steps.
    let read = report["bytes_read"].as_u64().unwrap();
    assert_eq!(read, 2 * (bytes + 28 * (4096 + 22 + 42 + 124)));
}

#[test]
fn the_official_clients_cost_is_in_au_and_in_the_report() {
    let folder = folder();
    let words = "unet3d --path null --steps 10 --epochs 1 --compute-time 10ms --client-overhead dlio \
                 --params metric.au=0.001";
    let report = report(folder.path(), words);
    let au = report["au_percent"]["profile"].as_f64().unwrap();
    assert!(au > 0.0 && au < 60.0, "{au}");
    assert_eq!(report["plan"]["client"]["estimated"], true);
    let said = stdout(train(folder.path(), words).assert());
    assert!(said.contains("DLIO's own work is added, as measured on another machine"), "{said}");
}

#[test]
fn a_saved_report_is_the_printed_one() {
    let folder = folder();
    let words = format!("cosmoflow --steps 4 --epochs 1 --compute-time 1ms {SMALL}");
    let report = report(folder.path(), &words);
    let results = folder.path().join("stormlp-results");
    let saved = fs::read_dir(results).unwrap().next().unwrap().unwrap();
    let saved = fs::read_to_string(saved.path().join("report.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&saved).unwrap(), report);
    assert_eq!(report["kind"], "train");
    assert!(report["ended_at"].as_str() >= report["started_at"].as_str());
    let histograms = report["histograms"].as_array().unwrap();
    for (histogram, name) in
        histograms.iter().zip(["fetch_wait", "barrier_wait", "compute_overshoot", "read"])
    {
        assert_eq!(histogram["name"], name);
        assert!(histogram["count"].as_u64() > Some(0), "{name}");
    }
    let moved: u64 = report["series"][0]["interval_bytes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|bytes| bytes.as_u64().unwrap())
        .sum();
    assert!(moved > 0);
}

#[test]
fn every_path_reads_the_same_bytes() {
    let folder = folder();
    // v3 discards the reads that its workers had begun before the first epoch: their number depends
    // on the moment.
    let words =
        format!("retinanet --edition 2.0 --files 144 --epochs 1 --compute-time 1ms -n 2 {SMALL}");
    let expected = report(folder.path(), &words)["bytes_read"].as_u64().unwrap();
    assert!(expected > 0);
    for path in ["cpu", "page-cache", "cpu-gpu"] {
        let device = if path == "cpu" { "" } else { " --device host" };
        let words = format!("{words} --path {path}{device}");
        let report = report(folder.path(), &words);
        assert_eq!(report["bytes_read"].as_u64().unwrap(), expected, "{path}");
        let ran = report["evidence"][0]["effective_path"].as_str().unwrap();
        assert_eq!(ran, path);
        let emulated = report["warnings"].as_array().unwrap().iter();
        let emulated = emulated.filter(|warning| warning["kind"] == "emulated").count();
        assert_eq!(emulated, usize::from(path != "cpu"), "{path}");
    }
    let psync = report(folder.path(), &format!("{words} --engine psync"));
    assert_eq!(psync["evidence"][0]["engine"]["engine"], "psync");
    assert_eq!(psync["bytes_read"].as_u64().unwrap(), expected);
}

#[test]
fn record_files_are_read_through_tensorflows_pattern() {
    let folder = folder();
    let words = "resnet50 --files 4 --params dataset.num_samples_per_file=50 --params reader.batch_size=10 --epochs 2 \
        --compute-time 1ms --steps 20 --params dataset.record_length_bytes=3000 --params metric.au=0.001";
    let report = report(folder.path(), words);
    assert_eq!(report["plan"]["loader"]["kind"], "interleave");
    assert_eq!(report["epochs"][1]["accelerators"][0]["blocks"][0]["steps"], 20);
}

#[test]
fn column_files_are_read_by_row_group() {
    let folder = folder();
    let words = "flux --files 2 --params dataset.num_samples_per_file=40 --params reader.batch_size=8 --compute-time 1ms \
        --epochs 1 --params dataset.parquet.row_group_size=16 --params metric.au=0.001";
    let report = report(folder.path(), words);
    assert_eq!(report["plan"]["reads"]["kind"], "row_groups");
    let steps = report["plan"]["steps_per_epoch"].as_u64().unwrap();
    assert!(steps > 0);
    let block = &report["epochs"][0]["accelerators"][0]["blocks"][0];
    assert_eq!(block["steps"].as_u64().unwrap(), steps);
}

#[test]
fn null_storage_needs_no_dataset() {
    let folder = folder();
    let words = "unet3d --path null -n 16 --steps 5 --epochs 1 --compute-time 5ms \
        --params metric.au=0.001";
    let report = report(folder.path(), words);
    assert_eq!(report["plan"]["accelerators"], 16);
    assert_eq!(report["evidence"][0]["effective_path"], "null");
    assert_eq!(report["device_bytes_read"], Value::Null);
    assert!(!folder.path().join("stormlp-data").exists());
}

#[test]
fn null_storage_reads_nothing_and_is_reported() {
    let folder = folder();
    let yaml = "model: {name: mine}\n\
                dataset: {format: indexed_binary, num_samples_per_file: 4096, \
                record_length_bytes: 1024}\n\
                reader: {data_loader: pytorch, batch_size: 8}\n\
                train: {computation_time: 0.001}\nmetric: {au: 0.001}\n";
    std::fs::write(folder.path().join("mine.yaml"), yaml).unwrap();
    let words = "mine.yaml --edition 2.0 --path null --steps 3 --epochs 1";
    let report = report(folder.path(), words);
    // No byte was read, whatever the loaders asked for.
    assert_eq!(report["bytes_read"], 0);
    assert_eq!(report["read_mib_per_second"], 0.0);
}

#[test]
fn a_cold_run_proves_it_or_reports_that_it_was_not() {
    let folder = folder();
    let words = format!("unet3d --files 21 --epochs 2 --compute-time 1ms --cache cold {SMALL}");
    let report = report(folder.path(), &words);
    let cold = report["epochs"]
        .as_array()
        .unwrap()
        .iter()
        .all(|epoch| epoch["cached_share"].as_f64().unwrap() <= 0.01);
    let mut warnings = report["warnings"].as_array().unwrap().iter();
    let warned = warnings.any(|warning| warning["kind"] == "cache_state");
    assert_ne!(cold, warned);
}

#[test]
fn several_runs_begin_with_a_warm_up() {
    let folder = folder();
    let words = format!("unet3d --files 21 --epochs 1 --runs 2 --compute-time 1ms {SMALL}");
    let report = report(folder.path(), &words);
    let runs = report["runs"].as_array().unwrap();
    let warm_ups: Vec<_> = runs.iter().map(|run| run["warm_up"].clone()).collect();
    assert_eq!(warm_ups, [true, false, false]);
    for key in ["/au_percent/profile", "/bytes_read", "/cpu_user_seconds", "/duration_seconds"] {
        let of = |value: &Value| value.pointer(key).and_then(Value::as_f64).unwrap();
        let mean = f64::midpoint(of(&runs[1]), of(&runs[2]));
        assert!((mean - of(&report)).abs() < 1e-9, "{key}");
    }
    // The warm-up is in no distribution, and every step but an epoch's first is in this one.
    let histograms = report["histograms"].as_array().unwrap();
    let mut waits = histograms.iter().filter(|one| one["name"] == "fetch_wait");
    let steps = report["plan"]["steps_per_epoch"].as_u64().unwrap();
    assert_eq!(waits.next().unwrap()["count"], 2 * (steps - 1));
    // A file for each sample of 21, whichever run it is.
    assert_eq!(runs[0]["bytes_read"], report["bytes_read"]);
}

#[test]
fn checkpoints_follow_the_workload() {
    let folder = folder();
    let words = format!(
        "unet3d --files 28 --epochs 2 --compute-time 1ms --edition 1.0 {SMALL} \
         --params workflow.checkpoint=True \
         --params checkpoint.steps_between_checkpoints=2 --params model.model_size_bytes=100000"
    );
    let report = report(folder.path(), &words);
    for epoch in report["epochs"].as_array().unwrap() {
        let blocks = epoch["accelerators"][0]["blocks"].as_array().unwrap();
        assert_eq!(blocks.len(), 2, "a checkpoint after two of four steps");
    }
    let checkpoints = report["checkpoints"].as_array().unwrap();
    assert!(checkpoints.iter().all(|one| one["bytes"] == 100_000));
    assert_eq!(checkpoints.len(), 4);
}

#[test]
fn the_files_of_mlperfs_tools_hold_the_same_figures() {
    let folder = folder();
    let words =
        format!("unet3d --files 21 --epochs 2 --compute-time 1ms --mlperf-output mlperf {SMALL}");
    let report = report(folder.path(), &words);
    let runs = folder.path().join("mlperf/training/unet3d/run");
    let run = fs::read_dir(runs).unwrap().next().unwrap().unwrap().path();
    let mut show = stormlp();
    let shown = stdout(show.args(["report", "show"]).arg(&run).assert().success());
    assert!(
        last_line(&shown, 0).starts_with("AU ") && shown.contains("not an MLPerf result"),
        "{shown}"
    );
    let summary = &mlperf_files(folder.path(), "summary.json")[0];
    let theirs = summary["metric"]["train_au_mean_percentage"].as_f64().unwrap();
    let ours = report["au_percent"]["profile"].as_f64().unwrap();
    assert!((theirs - ours).abs() < 1e-6, "{theirs} {ours}");
}

#[test]
fn the_configuration_of_a_run_makes_the_same_plan() {
    let folder = folder();
    let words = format!(
        "unet3d --files 28 --epochs 2 --steps 3 --edition native \
         --mlperf-output mlperf {SMALL} \
         --params train.computation_time=0.0015 --params train.computation_time_stdev=0.0001 --params train.seed=7 --params reader.batch_size=4 \
         --params workflow.checkpoint=True \
         --params checkpoint.checkpoint_after_epoch=1 --params model.model_size_bytes=1000 \
         --params reader.preprocess_time=0.0001 --params reader.file_shuffle=seed"
    );
    let first = report(folder.path(), &words);
    let runs = fs::read_dir(folder.path().join("mlperf/training/unet3d/run")).unwrap();
    let run = runs.map(|run| run.unwrap().path()).next().unwrap();
    let config = run.join("dlio_config/config.yaml");
    let again = format!("{} --dry-run --format json", config.display());
    let plan = stdout(train(folder.path(), &again).assert().success());
    let mut plan: Value = serde_json::from_str(&plan).unwrap();
    assert_eq!(plan["request"]["workload"], config.to_str().unwrap());
    plan["request"] = first["plan"]["request"].clone();
    // A dry run writes no files of MLPerf's, for which a run keeps the times, in 8 bytes a step.
    let memory = plan["memory_bytes"].as_u64().unwrap() + 8 * 3 * 2;
    plan["memory_bytes"] = memory.into();
    assert_eq!(plan, first["plan"]);
}

/// The files of this name in the folders of all runs, in the order of their names.
fn mlperf_files(folder: &Path, name: &str) -> Vec<Value> {
    let runs = fs::read_dir(folder.join("mlperf/training/unet3d/run")).unwrap();
    let mut paths: Vec<_> = runs.map(|run| run.unwrap().path().join(name)).collect();
    paths.sort();
    let texts = paths.iter().map(|path| fs::read_to_string(path).unwrap());
    texts.map(|text| serde_json::from_str(&text).unwrap()).collect()
}

#[test]
fn every_one_of_several_runs_has_mlperf_files_with_its_steps_and_checkpoint() {
    let folder = folder();
    let words = format!(
        "unet3d --files 21 --epochs 1 --runs 2 --compute-time 1ms --mlperf-output mlperf \
         {SMALL} --params workflow.checkpoint=True --params checkpoint.checkpoint_after_epoch=1"
    );
    report(folder.path(), &words);
    let outputs = mlperf_files(folder.path(), "0_output.json");
    assert_eq!(outputs.len(), 3);
    for output in &outputs {
        let loads = output["1"]["load"]["block1"].as_array().unwrap();
        assert_eq!(loads.len(), 3, "a time for every step");
    }
    for stats in mlperf_files(folder.path(), "0_per_epoch_stats.json") {
        assert!(stats["1"]["save_ckpt1"]["duration"].is_f64(), "{stats}");
    }
}

#[test]
fn a_dry_run_prints_the_plan_and_reads_nothing() {
    let folder = folder();
    let words = "unet3d --path null --steps 7 --dry-run";
    let text = stdout(train(folder.path(), words).assert().success());
    assert!(text.contains("unet3d"), "{text}");
    assert!(!folder.path().join("stormlp-results").exists());
}

#[test]
fn a_dry_run_plans_with_the_set_that_a_run_would_make() {
    let folder = folder();
    let words = format!("unet3d --files 28 --epochs 1 --compute-time 2ms {SMALL} --dry-run");
    let planned = train(folder.path(), &words).assert().success();
    let said = stderr(planned);
    assert!(said.contains("a run would first write "), "{said}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

    let planned = stdout(train(folder.path(), &words).assert().success());
    report(folder.path(), words.trim_end_matches("--dry-run"));
    let real = stdout(train(folder.path(), &words).assert().success());
    assert_eq!(planned, real);
}

/// The texts of a report's warnings.
fn warnings(report: &Value) -> Vec<String> {
    let warnings = report["warnings"].as_array().unwrap().iter();
    let facts = warnings.map(|warning| warning["fact"].as_str().unwrap().to_string());
    facts.collect()
}

#[test]
fn files_in_subfolders_are_read_and_dlios_view_is_reported() {
    let folder = folder();
    let datagen = "unet3d --dir data --files 21 --params dataset.num_subfolders_train=3 \
        --params dataset.record_length_bytes=150000 --params dataset.record_length_bytes_stdev=20000";
    let mut make = stormlp();
    make.current_dir(folder.path()).arg("datagen");
    make.args(datagen.split_whitespace()).assert().success();
    let words = format!("unet3d --dir data --epochs 1 --compute-time 1ms {SMALL}");
    let told = |report: &Value| {
        let mut facts = warnings(report).into_iter();
        facts.any(|fact| fact.contains("train/ has 3 subfolders, but the workload says 0"))
    };
    assert!(told(&report(folder.path(), &words)));
    let words = format!("{words} --params dataset.num_subfolders_train=3");
    assert!(!told(&report(folder.path(), &words)));
}

#[test]
fn omitted_files_are_reported_once() {
    let folder = folder();
    let datagen = "unet3d --dir data --files 28 --params \
        dataset.record_length_bytes=150000 --params dataset.record_length_bytes_stdev=20000";
    let mut make = stormlp();
    make.current_dir(folder.path()).arg("datagen");
    make.args(datagen.split_whitespace()).assert().success();
    fs::write(folder.path().join("data/train/notes.txt"), "x").unwrap();
    let words = format!("unet3d --dir data --files 21 --epochs 1 --compute-time 1ms {SMALL}");
    let mut facts = warnings(&report(folder.path(), &words));
    facts.retain(|fact| fact.contains("files"));
    assert_eq!(facts, ["train/ contains 28 files, but the workload has 21"]);

    // A dataset of stormlp is the whole dataset: no file is left out.
    let words = words.replace("--files 21", "") + " --params dataset.num_files_train=21";
    let report = report(folder.path(), &words);
    assert_eq!(report["plan"]["steps_per_epoch"], 4);
    let mut facts = warnings(&report);
    facts.retain(|fact| fact.contains("the workload has"));
    assert_eq!(facts, [""; 0]);
}

#[test]
fn a_short_run_warns_that_storage_did_not_sustain_the_rate() {
    let folder = folder();
    let words = format!("unet3d --files 28 --epochs 1 --compute-time 300ms {SMALL}");
    let short = report(folder.path(), &words);
    assert_eq!(short["verdict"]["limited_by"], "read_ahead");
    let said = |report: &Value| {
        let facts = warnings(report);
        facts.iter().any(|fact| fact.contains("not have to sustain"))
    };
    assert!(said(&short), "{:?}", warnings(&short));
}

/// A run that misses its threshold on any host: its workers preprocess for longer than it computes.
const MISSED: &str = "unet3d --files 21 --epochs 1 --compute-time 1ms --edition 1.0 --params metric.au=1.0 \
    --params reader.read_threads=0 --params reader.preprocess_time=0.002 --params dataset.record_length_bytes=150000 \
    --params dataset.record_length_bytes_stdev=0";

#[test]
fn a_starter_set_is_read_from_storage_in_two_epochs() {
    let folder = folder();
    let words = "unet3d --files 42 --compute-time 1ms --params metric.au=0.001 \
        --params dataset.record_length_bytes=150000 --params dataset.record_length_bytes_stdev=0";
    let shown = stdout(train(folder.path(), words).assert().success());
    assert!(last_line(&shown, 0).contains("; starter set, cold, 2 epochs"), "{shown}");
    // Its folder says what it is, so the next run knows.
    let plan = |more: &str| -> Value {
        let words = format!("{words} {more} --dry-run --format json");
        serde_json::from_str(&stdout(train(folder.path(), &words).assert().success())).unwrap()
    };
    let again = plan("");
    assert_eq!((&again["epochs"], &again["request"]["cache"]), (&2.into(), &"cold".into()));
    assert_eq!(plan("--epochs 3")["epochs"], 3);
    assert_eq!(plan("--params train.epochs=4 --dir stormlp-data/unet3d")["epochs"], 4);
    // `datagen` generates for the workload as it is.
    let mut datagen = stormlp();
    let made = "datagen unet3d --files 42 --dir own --params dataset.record_length_bytes=150000 \
        --params dataset.record_length_bytes_stdev=0";
    datagen.current_dir(folder.path()).args(made.split_whitespace()).assert().success();
    let own = plan("--dir own");
    assert_eq!((&own["epochs"], &own["request"]["cache"]), (&5.into(), &Value::Null));
}

#[test]
fn a_missed_threshold_is_6_with_the_reason() {
    let folder = folder();
    let words = MISSED;
    let said = stderr(train(folder.path(), words).assert().code(6));
    assert!(said.contains("is below the 100.0 % that unet3d requires"), "{said}");
}

#[test]
fn five_runs_are_scored_after_a_warm_up_and_all_are_in_the_table() {
    let folder = folder();
    let words = format!("unet3d --files 21 --epochs 1 --runs 5 --compute-time 1ms {SMALL}");
    let text = stdout(train(folder.path(), &words).assert().success());
    let rows = |kind: &str| {
        let of_kind = |line: &&str| line.split_whitespace().nth(1) == Some(kind);
        text.lines().filter(of_kind).count()
    };
    assert_eq!((rows("warm-up"), rows("scored")), (1, 6), "{text}");
    // A line says what it counts if that differs.
    for scope in [
        "Epochs of the last run",
        "over the epochs of all scored runs",
        "(mean of all scored runs)",
        "(a scored run at the mean)",
        "Telemetry of all runs, including the warm-up",
    ] {
        assert!(text.contains(scope), "{scope}: {text}");
    }
}

#[test]
fn a_closed_run_names_every_rule_that_it_would_break() {
    let folder = folder();
    let words = "unet3d --closed --dry-run --params reader.prefetch_size=5 --params dataset.record_length_bytes_stdev=5";
    let said = stderr(train(folder.path(), words).assert().code(3));
    for rule in [
        "rule 10.1 of v2.0: reader.prefetch_size is 5",
        "rule 10.1 of v2.0: dataset.record_length_bytes_stdev is 5",
        "rule 7 of v2.0: there is no whole dataset yet, and a run would first make one of ",
    ] {
        assert!(said.contains(rule), "{rule}: {said}");
    }
    // A folder without a dataset keeps none of them back.
    fs::create_dir(folder.path().join("empty")).unwrap();
    let words = "unet3d --closed --dry-run --dir empty --params reader.prefetch_size=5";
    let said = stderr(train(folder.path(), words).assert().code(3));
    for part in ["rule 10.1 of v2.0: reader.prefetch_size is 5", "empty contains no npz files"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("rule 7"), "{said}");
    let words = "unet3d --closed --dry-run --dir empty";
    train(folder.path(), words).assert().code(4);
    fs::remove_dir(folder.path().join("empty")).unwrap();
    let words = "unet3d --closed --generate=full --dry-run --params reader.prefetch_size=1";
    // The plan is printed also where the dataset does not fit.
    let plan = stdout(train(folder.path(), words).assert().code(&[0, 4][..]));
    assert!(plan.contains("closed rules enforced"), "{plan}");
    assert!(plan.contains("5 scored, after a warm-up"), "{plan}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_closed_run_of_v3_keeps_results_off_the_file_system_of_its_data() {
    let folder = folder();
    let said = |results: &Path| {
        let words = "retinanet --accelerator b200 --edition 3.0 --closed --dry-run --results-dir";
        let mut command = train(folder.path(), words);
        let ended = command.arg(results).output().unwrap();
        String::from_utf8(ended.stderr).unwrap()
    };
    let rule = "rule 3.4.1/3.4.2 of v3.0";
    let beside = said(&folder.path().join("not/made/yet"));
    assert!(beside.contains(rule), "{beside}");
    let elsewhere = said(Path::new("/proc"));
    assert!(!elsewhere.contains(rule), "{elsewhere}");
    // Without the rules it has no effect there.
    let words = "retinanet --accelerator b200 --dry-run --results-dir elsewhere";
    let said = stderr(train(folder.path(), words).assert().code(2));
    assert!(said.contains("--results-dir has no effect with --dry-run"), "{said}");
}

/// Makes the dataset of [`MISSED`], which is then no starter set: its files would be dropped.
fn generate_missed(folder: &Path) {
    let words = "datagen unet3d --files 21 --params dataset.record_length_bytes=150000 \
        --params dataset.record_length_bytes_stdev=0";
    let mut datagen = stormlp();
    datagen.current_dir(folder).args(words.split_whitespace()).assert().success();
}

#[test]
fn a_headline_from_the_page_cache_is_marked_and_the_verdict_appears_once() {
    let folder = folder();
    generate_missed(folder.path());
    let words = MISSED;
    train(folder.path(), words).assert().code(6);
    let again = train(folder.path(), words).assert().code(6);
    let shown = stdout(again);
    let all = format!("{shown}{}", stderr(train(folder.path(), words).assert().code(6)));
    let verdict = all.lines().find_map(|line| line.strip_prefix("verdict"));
    assert_eq!(all.matches(verdict.unwrap().trim()).count(), 1, "{all}");
    assert!(
        last_line(&shown, 0).starts_with("FAIL: AU ")
            && shown.contains("; mostly read from memory)"),
        "{all}"
    );
}

#[test]
fn a_changed_path_contradicts_its_evidence_and_the_headline_stays() {
    let folder = folder();
    generate_missed(folder.path());
    let words = format!("{MISSED} --output changed.json");
    train(folder.path(), MISSED).assert().code(6);
    let headline = stdout(train(folder.path(), &words).assert().code(6));
    let headline = last_line(&headline, 0);
    assert!(headline.contains("mostly read from memory"), "{headline}");
    let path = folder.path().join("changed.json");
    let mut report: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    report["plan"]["transport"]["path"] = "gds".into();
    fs::write(&path, report.to_string()).unwrap();
    let shown = stormlp().args(["report", "show"]).arg(&path).assert().success();
    let shown = stdout(shown).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("changed after it was written"), "{shown}");
    assert!(shown.ends_with(headline), "{shown}");
}
