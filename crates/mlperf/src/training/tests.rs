//! The files that MLPerf's tools read.

use serde_json::Value;
use stormlp_core::report::Ending;
use stormlp_training::report::RunReport;

use super::*;
use crate::fixtures::training::{plan, report, workload};

fn file<'a>(files: &'a [OutputFile], end: &str) -> &'a OutputFile {
    files.iter().find(|file| file.path.ends_with(end)).unwrap()
}

/// The files of a run with the steps of one epoch.
fn written() -> Vec<OutputFile> {
    let steps = vec![vec![StepLists { epoch: 1, steps: vec![vec![(1.5, 0.25); 12]; 2] }]];
    files(&report(), &workload(), &steps, Path::new("/out"), &|_| false)
}

#[test]
fn files_are_in_the_folders_of_v2() {
    let files = written();
    let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    insta::assert_snapshot!(paths.join("\n"), @r"
    training/unet3d/run/20261121_072500/summary.json
    training/unet3d/run/20261121_072500/0_per_epoch_stats.json
    training/unet3d/run/20261121_072500/0_output.json
    training/unet3d/run/20261121_072500/1_per_epoch_stats.json
    training/unet3d/run/20261121_072500/1_output.json
    training/unet3d/run/20261121_072500/dlio_config/config.yaml
    training/unet3d/run/20261121_072500/dlio_config/overrides.yaml
    training/unet3d/run/20261121_072500/dlio_config/hydra.yaml
    training/unet3d/run/20261121_072500/training_20261121_072500_metadata.json
    ");
    insta::assert_snapshot!(file(&files, "overrides.yaml").content, @r"
    - workload=unet3d_h100
    - ++workload.dataset.data_folder=/data/unet3d
    - ++workload.dataset.num_files_train=168
    - ++workload.train.epochs=2
    ");
}

#[test]
fn files_name_every_host_and_the_host_of_each_accelerator() {
    let mut report = report();
    let members = [stormlp_fixtures::member(0, "h1"), stormlp_fixtures::member(1, "h2")];
    report.results.group = Some(stormlp_fixtures::group(&members));
    report.plan.hosts = vec![1, 1];
    let files = files(&report, &workload(), &[], Path::new("/out"), &|_| false);
    let json = |end: &str| -> Value { serde_json::from_str(&file(&files, end).content).unwrap() };
    let summary = json("summary.json");
    assert_eq!((&summary["num_hosts"], &summary["hostname"]), (&2.into(), &"h1".into()));
    assert_eq!(summary["host_memory_GB"], serde_json::json!([64.0, 64.0]));
    assert_eq!(summary["host_cpu_count"], serde_json::json!([4, 4]));
    assert_eq!(summary["potential_caching"].as_array().unwrap().len(), 2);
    let args = &json("_metadata.json")["args"];
    assert_eq!(args["hosts"], serde_json::json!(["h1", "h2"]));
    assert_eq!(args["num_client_hosts"], 2);
    let [first, second] = ["0_output.json", "1_output.json"].map(json);
    assert_eq!((&first["hostname"], &second["hostname"]), (&"h1".into(), &"h2".into()));
    assert_eq!(second["num_hosts"], 2);
}

#[test]
fn the_metadata_names_stormlp_and_the_run() {
    let files = written();
    let metadata: Value = serde_json::from_str(&file(&files, "_metadata.json").content).unwrap();
    assert_eq!(metadata["benchmark_type"], "training");
    // Never CLOSED or OPEN: only mlpstorage's runs are.
    assert_eq!(metadata["verification"], "REHEARSAL");
    assert_eq!(metadata["generator"], "stormlp");
    assert_eq!(metadata["args"]["num_accelerators"], 2);
    assert_eq!(metadata["params_dict"]["train.epochs"], "2");
    assert_eq!(metadata["combined_params"]["reader"]["batch_size"], 7);
}

#[test]
fn the_summary_has_dlios_keys() {
    insta::assert_snapshot!(file(&written(), "summary.json").content, @r#"
    {
      "start": "2026-11-21T07:25:00.250000",
      "num_accelerators": 2,
      "metric": {
        "train_au_percentage": [
          85.00000000000001,
          95.0
        ],
        "train_au_mean_percentage": 90.0,
        "train_au_meet_expectation": "success",
        "train_au_stdev_percentage": 4.999999999999993,
        "train_throughput_samples_per_second": [
          33.49282296650718,
          37.4331550802139
        ],
        "train_throughput_mean_samples_per_second": 35.462989023360535,
        "train_throughput_stdev_samples_per_second": 1.9701660568533619,
        "train_io_mean_MB_per_second": 4958.054029065858,
        "train_io_stdev_MB_per_second": 275.44744605921414
      },
      "num_files_train": 168,
      "num_files_eval": 0,
      "num_samples_per_file": 1,
      "potential_caching": [
        1
      ],
      "data_size_per_host_GB": 22.93745568394661,
      "epochs": 2,
      "end": "2026-11-21T07:25:13.750000",
      "stormlp": {
        "version": "0.1.0",
        "profile": "v2",
        "run": 1,
        "warm_up": false,
        "held_to_closed_rules": false,
        "client": null
      },
      "num_hosts": 1,
      "hostname": "node7",
      "host_cpu_count": [
        2
      ],
      "host_processor_name": "Xeon",
      "host_cpuinfo": {
        "model name": "Xeon"
      },
      "host_meminfo": {
        "MemTotal": "67108864 kB"
      },
      "host_memory_GB": [
        64.0
      ]
    }
    "#);
}

#[test]
fn each_epoch_has_dlios_keys() {
    let files = written();
    insta::assert_snapshot!(file(&files, "1_per_epoch_stats.json").content, @r#"
    {
      "1": {
        "start": "2026-11-21T07:25:00.250000",
        "end": "2026-11-21T07:25:06.750000",
        "duration": "6.50",
        "block1": {
          "start": "2026-11-21T07:25:00.250000",
          "end": "2026-11-21T07:25:06.430000",
          "duration": "6.18"
        }
      },
      "2": {
        "start": "2026-11-21T07:25:07.250000",
        "end": "2026-11-21T07:25:13.750000",
        "duration": "6.50",
        "block1": {
          "start": "2026-11-21T07:25:07.250000",
          "end": "2026-11-21T07:25:12.990000",
          "duration": "5.74"
        }
      }
    }
    "#);
    let output: Value = serde_json::from_str(&file(&files, "0_output.json").content).unwrap();
    let first = &output["1"];
    assert_eq!(first["load"]["block1"].as_array().unwrap().len(), 12);
    assert_eq!(first["proc"]["block1"][3], 1.75);
    assert!(first["au"]["block1"].as_f64().unwrap() > 80.0);
    assert!(output["2"]["load"].as_object().unwrap().is_empty(), "no list, no numbers");
}

#[test]
fn an_incomplete_run_is_not_a_success() {
    let mut report = report();
    report.ending = Ending::Stopped;
    report.results.meets_threshold = false;
    report.results.epochs[1].accelerators[1].blocks[0].steps = 5;
    let files = files(&report, &workload(), &[], Path::new("/out"), &|_| false);
    let summary: Value = serde_json::from_str(&file(&files, "summary.json").content).unwrap();
    let metric = &summary["metric"];
    assert_eq!(metric["train_au_meet_expectation"], "fail");
    assert_eq!(metric["train_au_percentage"].as_array().unwrap().len(), 1);
    assert_eq!(
        metric["train_au_mean_percentage"], metric["train_au_percentage"][0],
        "an incomplete epoch is not in the mean"
    );
    assert_eq!(summary["epochs"], 1);
}

#[test]
fn the_configuration_is_the_whole_workload_as_it_ran() {
    let files = files(&report(), &workload(), &[], Path::new("/out"), &|_| false);
    let config = &file(&files, "dlio_config/config.yaml").content;
    let again = Workload::parse(config, "config.yaml", &[]).unwrap();
    let as_planned = workload().as_planned(&plan());
    assert_eq!(again.dataset, as_planned.dataset);
    assert_eq!(again.reader, as_planned.reader);
    assert_eq!(again.train, as_planned.train);
    assert_eq!(again.checkpoint, as_planned.checkpoint);
    assert_eq!(again.accelerator, "h100");
    assert_eq!(again.edition, Profile::V2);
}

/// A report with a checkpoint after the first epoch.
fn report_with_checkpoint() -> TrainReport {
    let mut report = report();
    report.results.checkpoints = vec![WrittenCheckpoint {
        epoch: 1,
        step: 12,
        bytes: 3 << 30,
        started_seconds: 6.0,
        duration_seconds: 1.5,
    }];
    report
}

#[test]
fn checkpoints_have_dlios_keys_too() {
    let report = report_with_checkpoint();
    let steps = vec![vec![StepLists { epoch: 1, steps: vec![vec![(1.5, 0.25); 12]; 2] }]];
    let files = files(&report, &workload(), &steps, Path::new("/out"), &|_| false);
    let summary: Value = serde_json::from_str(&file(&files, "summary.json").content).unwrap();
    let keys = summary["metric"].as_object().unwrap().iter();
    let lines: Vec<String> = keys
        .filter(|(key, _)| !key.starts_with("train_"))
        .map(|(key, value)| format!("{key}: {value}"))
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    save_checkpoint_io_mean_GB_per_second: 2.0
    save_checkpoint_io_stdev_GB_per_second: 0.0
    save_checkpoint_duration_mean_seconds: 1.5
    save_checkpoint_duration_stdev_seconds: 0.0
    checkpoint_size_GB: 3.0
    "#);
    let output: Value = serde_json::from_str(&file(&files, "1_output.json").content).unwrap();
    assert_eq!(output["1"]["load"]["block1"].as_array().unwrap().len(), 12);
    let stats = file(&files, "0_per_epoch_stats.json");
    let stats: Value = serde_json::from_str(&stats.content).unwrap();
    assert_eq!(stats["1"]["save_ckpt1"]["throughput"], 2.0);
}

#[test]
fn v1_has_its_own_keys_for_checkpoints() {
    let mut report = report_with_checkpoint();
    report.plan.profile = Profile::V1;
    let files = files(&report, &workload(), &[], Path::new("/out"), &|_| false);
    let summary: Value = serde_json::from_str(&file(&files, "summary.json").content).unwrap();
    assert!(summary["metric"].get("checkpoint_size_GB").is_none());
    let stats = file(&files, "0_per_epoch_stats.json");
    let stats: Value = serde_json::from_str(&stats.content).unwrap();
    assert_eq!(stats["1"]["ckpt1"]["duration"], "1.50");
}

/// A report of `count` runs that start so many seconds one after the other.
fn report_of_runs(count: u32, apart_seconds: f64) -> TrainReport {
    let mut report = report();
    report.results.runs = (1..=count)
        .map(|run| RunReport {
            run,
            warm_up: run == 1,
            epochs: report.results.epochs.clone(),
            mean: report.results.mean,
            cost: report.results.cost,
            complete: true,
            meets_threshold: true,
            started_unix_seconds: report.results.started_unix_seconds
                + apart_seconds * f64::from(run - 1),
            duration_seconds: 70.0,
            checkpoints: vec![WrittenCheckpoint {
                epoch: 1,
                step: 12,
                bytes: 1 << 30,
                started_seconds: 6.0,
                duration_seconds: 0.25 * f64::from(run),
            }],
        })
        .collect();
    report
}

fn folders(files: &[OutputFile]) -> Vec<&str> {
    let files = files.iter();
    files.filter_map(|file| file.path.strip_suffix("/summary.json")).collect()
}

#[test]
fn v3_and_several_runs_have_a_folder_each() {
    let mut report = report_of_runs(2, 70.0);
    report.plan.profile = Profile::V3;
    let files = files(&report, &workload(), &[], Path::new("/out"), &|_| false);
    assert_eq!(
        folders(&files),
        [
            "whatif/stormlp/results/node7/training/unet3d/run/20261121_072500",
            "whatif/stormlp/results/node7/training/unet3d/run/20261121_072610",
        ]
    );
}

#[test]
fn runs_of_one_second_have_separate_folders_and_none_is_overwritten() {
    let report = report_of_runs(3, 0.3);
    let there = "training/unet3d/run/20261121_072501";
    let files = files(&report, &workload(), &[], Path::new("/out"), &|name| name == there);
    assert_eq!(
        folders(&files),
        [
            "training/unet3d/run/20261121_072500",
            "training/unet3d/run/20261121_072502",
            "training/unet3d/run/20261121_072503",
        ]
    );
}

#[test]
fn every_run_has_its_own_steps_and_checkpoints() {
    let steps: Vec<Vec<StepLists>> = [1.0, 2.0]
        .map(|fetch| vec![StepLists { epoch: 1, steps: vec![vec![(fetch, 0.25); 12]; 2] }])
        .to_vec();
    let files = files(&report_of_runs(2, 70.0), &workload(), &steps, Path::new("/out"), &|_| false);
    assert_eq!(folders(&files).len(), 2);
    for (run, folder) in (1..).zip(folders(&files)) {
        let read = |name: &str| -> Value {
            let path = format!("{folder}/{name}");
            serde_json::from_str(&file(&files, &path).content).unwrap()
        };
        let first = &read("1_output.json")["1"]["load"]["block1"][0];
        assert_eq!(first, f64::from(run), "{folder}");
        let checkpoint = &read("0_per_epoch_stats.json")["1"]["save_ckpt1"];
        assert_eq!(checkpoint["duration"], 0.25 * f64::from(run), "{folder}");
    }
}
