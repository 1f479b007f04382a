//! What a terminal and MLPerf's tools get to see.

use serde_json::Value;
use stormlp_model::facts::{Availability, HostFacts};
use stormlp_model::head::{ReportHead, ReportKind};
use stormlp_model::histogram::LatencyUs;
use stormlp_model::training::catalog;
use stormlp_model::training::datasize::{SizeRequest, datasize};
use stormlp_model::training::inventory::{DataFile, Inventory};
use stormlp_model::training::metrics::{self, Rule};
use stormlp_model::training::plan::TrainPlan;
use stormlp_model::training::profile::Profile;
use stormlp_model::training::report::*;
use stormlp_model::training::request::TrainRequest;
use stormlp_model::training::workload::Workload;

use super::*;

fn host() -> HostFacts {
    HostFacts {
        hostname: "node7".to_string(),
        kernel: "6.18".to_string(),
        cpu_model: "Xeon".to_string(),
        cpus: 2,
        memory_bytes: 64 << 30,
        memory_limit_bytes: None,
        locked_memory_limit_bytes: None,
        open_files_limit: 1024,
        io_uring: Availability::Available,
        accelerators: Vec::new(),
        paths: Vec::new(),
        stormlp_version: "0.1.0".to_string(),
        release_build: true,
    }
}

fn workload() -> Workload {
    catalog::find("unet3d", None)
        .unwrap()
        .workload(&[])
        .unwrap()
}

fn plan() -> TrainPlan {
    let inventory = Inventory {
        folder: "/data/unet3d".into(),
        train: (0..168)
            .map(|index| DataFile {
                name: format!("train/img_{index:03}_of_168.npz"),
                bytes: 146_600_628,
            })
            .collect(),
        ..Inventory::default()
    };
    let request = TrainRequest {
        accelerators: Some(2),
        epochs: Some(2),
        ..TrainRequest::default()
    };
    TrainPlan::resolve(&workload(), &request, &host(), &inventory)
        .unwrap()
        .plan
}

fn block(started: f64, step: f64) -> BlockSums {
    BlockSums {
        started_seconds: started,
        seconds: 2.0 + 11.0 * step,
        steps: 12,
        window_steps: 11,
        window_compute_seconds: 11.0 * 0.323,
        excluded_seconds: 2.0,
        compute_seconds: 12.0 * 0.323,
        fetch_seconds: 1.7,
        barrier_seconds: 0.1,
        first_fetch_seconds: 1.677,
    }
}

fn epoch(plan: &TrainPlan, number: u32, step: f64) -> EpochReport {
    let started = f64::from(number - 1) * 7.0;
    let blocks = [block(started, step)];
    let rule = Rule {
        profile: plan.profile,
        batch_size: plan.batch_size,
        nominal_seconds: 0.323,
        sample_bytes: plan.data.sample_bytes,
    };
    let mut measures = metrics::epoch_measures(&rule, &[&blocks, &blocks]);
    measures.read_mib_per_second = 4001.5;
    measures.preread_share = Some(0.34);
    measures.waiting_seconds = WaitingSeconds {
        storage: 1.25,
        cpu: 0.25,
        barrier: 0.2,
        startup: 3.35,
    };
    EpochReport {
        epoch: number,
        measures,
        cost: Cost::default(),
        started_seconds: started,
        duration_seconds: 6.5,
        cached_share: Some(0.25),
        cached_method: Some("cachestat".to_string()),
        device: Some(DeviceUse {
            busy_percent: 97.0,
            queue_depth: 7.5,
            request_bytes: 262_144.0,
            bytes_per_second: 2e9,
        }),
        slowest: Some(Slowest {
            accelerator: 1,
            kept_others_seconds: 0.2,
        }),
        latency: StepLatency::default(),
        accelerators: (0..2)
            .map(|accelerator| AcceleratorEpoch {
                accelerator,
                blocks: blocks.to_vec(),
            })
            .collect(),
        evaluation: None,
    }
}

fn report() -> TrainReport {
    let plan = plan();
    let epochs = vec![epoch(&plan, 1, 0.38), epoch(&plan, 2, 0.34)];
    let measures: Vec<Measures> = epochs.iter().map(|epoch| epoch.measures).collect();
    let mean = metrics::mean(&measures);
    TrainReport {
        head: ReportHead::new(
            ReportKind::Train,
            "stormlp train unet3d".to_string(),
            "2026-11-21T07:25:00Z".to_string(),
            host(),
        ),
        workload: plan.workload.clone(),
        accelerator: plan.accelerator.clone(),
        accelerators: plan.accelerators,
        profile: plan.profile,
        steps_per_epoch: plan.steps_per_epoch,
        epochs,
        mean,
        stdev: metrics::spread(&measures),
        threshold_percent: 90.0,
        meets_threshold: mean.au_percent.profile >= 90.0,
        cost: Cost {
            bytes_read: 49_257_811_008,
            device_bytes_read: Some(40 << 30),
            cpu_user_seconds: 1.5,
            cpu_system_seconds: 3.25,
        },
        peak_rss_bytes: 300 << 20,
        duration_seconds: 13.5,
        ending: RunEnding::Complete,
        runs: Vec::new(),
        latency: StepLatency {
            fetch_wait_us: Some(LatencyUs {
                p50: 12.0,
                p99: 41_000.0,
                max: 1_300_000.0,
                ..LatencyUs::default()
            }),
            ..StepLatency::default()
        },
        checkpoints: Vec::new(),
        devices: vec!["vda".to_string()],
        evidence: None,
        layout: "2 I/O threads, 16 chunks of 256 KiB each".to_string(),
        verdict: Verdict {
            bound: Bound::Storage,
            sentence: "storage-bound: 74 % of the waiting had reads in flight".to_string(),
        },
        calibration: None,
        started_unix_seconds: 1_795_245_900.25,
        plan,
    }
}

#[test]
fn a_run_reads_from_epochs_to_verdict() {
    insta::assert_snapshot!(text(&report()), @r"
    unet3d on 2 emulated h100, profile v2 (MLPerf Storage v2.0), path buffered
    168 npz files, 22.94 GiB in /data/unet3d; 12 steps of 2 x 7 samples, compute 0.323 s
    ────────────────────────────────────────────────────────────────────────────────────────────────────────
     epoch   AU %   samples/s    MiB/s   read MiB/s   cached %   storage s   cpu s   barrier s   start-up s
    ────────────────────────────────────────────────────────────────────────────────────────────────────────
     1       85.0        33.5   4682.6       4001.5         25        1.25    0.25        0.20         3.35
     2       95.0        37.4   5233.5       4001.5         25        1.25    0.25        0.20         3.35
     mean    90.0        35.5   4958.1       4001.5          -        1.25    0.25        0.20         3.35
    ────────────────────────────────────────────────────────────────────────────────────────────────────────
    AU          90.00 % by profile v2 (nominal compute 90.00 %, measured 90.00 %, including start-up 65.12 %)
    throughput  35.46 samples/s, 4958.05 MiB/s by the record length; 4001.50 MiB/s were read
    spread      AU 5.00 points, 1.97 samples/s (standard deviation over epochs)
    read ahead  34 % of an epoch's samples, before its counted steps began
    fetch wait  p50 12 us, p99 41.00 ms, max 1.30 s (first step of each epoch left out)
    host        CPU 1.50 s user, 3.25 s system, 0.104 s for each GiB read; peak memory 300 MiB; 2 I/O threads, 16 chunks of 256 KiB each
    bytes       45.87 GiB read by the loaders; from the device 40 GiB by vda
    device      busy 97 %, queue depth 7.5, 256 KiB per read request (last epoch)
    verdict     storage-bound: 74 % of the waiting had reads in flight
    result      AU 90.00 %: meets the 90.0 % of unet3d
    ");
}

#[test]
fn a_run_that_was_stopped_has_no_result() {
    let mut report = report();
    report.ending = RunEnding::Stopped;
    let text = text(&report);
    assert!(
        text.contains("result      none: the run was stopped"),
        "{text}"
    );
    assert!(!text.contains("misses"), "{text}");
}

#[test]
fn a_plan_tells_every_number() {
    insta::assert_snapshot!(plan_text(&plan()), @r"
    unet3d on 2 emulated h100, profile v2 (MLPerf Storage v2.0)
    folder      /data/unet3d
    data        168 npz files, samples in each: 1; 22.94 GiB; 146600628 bytes a sample by the workload
    steps       12 an epoch, each 7 samples on 2 accelerators; epochs: 2, runs: 1
    compute     0.323 s a step
    loader      PyTorch's: 4 workers, 4 batches outstanding for each accelerator
    reads       as np.load reads a zip: 252 KiB and 4 KiB in turn
    path        buffered (Storage->PAGE_CACHE->CPU)
    order       contiguous ranges by file name, the same in every epoch (so this edition read, whatever file_shuffle says)
    AU          threshold 90.0 %; the first 1 and last 0 steps of a block are left out; a block ends after one more fetch
    checkpoint  10 KiB after epoch 5 and every 2 epochs, in checkpoints/unet3d
    demand      6.35 GB/s at an AU of 100 %; at least 7.8 s of compute in a run
    memory      about 256.53 MiB
    ");
}

#[test]
fn a_size_says_what_decided() {
    let request = SizeRequest {
        hosts: 2,
        host_memory_bytes: 1006 << 30,
        ..SizeRequest::of(&workload(), Profile::V2, 8)
    };
    let answer = SizeAnswer {
        workload: "unet3d".to_string(),
        accelerator: "h100".to_string(),
        accelerators: 8,
        hosts: 2,
        host_memory_bytes: 1006 << 30,
        profile: Profile::V2,
        size: datasize(&request).unwrap(),
        run_seconds: 1000.0,
        folder: "stormlp-data/unet3d".to_string(),
        free_bytes: Some(20 << 40),
        fits: Some(true),
    };
    insta::assert_snapshot!(datasize_text(&answer), @r"
    unet3d on 8 h100 on 2 hosts, profile v2 (MLPerf Storage v2.0)
    files       73682
    bytes       10801827472296 (9.82 TiB)
    decided by  5 times the memory of 2 hosts with 1006 GiB (the steps alone would need 28000 files)
    subfolders  7 advised (--params dataset.num_subfolders_train=7)
    steps       1315 an epoch
    run         at least 16 m 40 s of compute
    folder      stormlp-data/unet3d: it fits: 20 TiB free
    ");
}

#[test]
fn the_list_of_workloads_names_what_each_asks() {
    let two = [
        workload(),
        catalog::find("dlrm", None).unwrap().workload(&[]).unwrap(),
    ];
    insta::assert_snapshot!(workloads_text(&two), @r"
    ────────────────────────────────────────────────────────────────────────────────────────────────────────────
     workload   accelerator   profile   format    bytes/sample   samples/file   batch   compute s   AU %   GB/s
    ────────────────────────────────────────────────────────────────────────────────────────────────────────────
     unet3d     h100          v2        npz          146600628              1       7       0.323     90   3.18
     dlrm       b200          v3        parquet            761        4718592   16384    0.000375     70   6.99
    ────────────────────────────────────────────────────────────────────────────────────────────────────────────
    GB/s (10^9 bytes) is what one accelerator asks of the storage at an AU of 100 %; dlrm reads 40 of its 200 columns.
    `stormlp workloads show NAME` prints one as YAML, NAME as in unet3d or unet3d_h100.
    ");
}

#[test]
fn the_keys_that_scripts_rely_on_are_there() {
    let json = serde_json::to_value(report()).unwrap();
    for key in [
        "workload",
        "accelerator",
        "accelerators",
        "profile",
        "steps_per_epoch",
        "epochs",
        "au_percent",
        "samples_per_second",
        "mib_per_second",
        "waiting_seconds",
        "threshold_percent",
        "meets_threshold",
        "bytes_read",
        "device_bytes_read",
        "cpu_user_seconds",
        "cpu_system_seconds",
        "peak_rss_bytes",
    ] {
        assert!(!json[key].is_null(), "{key}");
    }
    for object in [&json, &json["epochs"][0]] {
        for key in ["profile", "nominal", "measured", "including_startup"] {
            assert!(object["au_percent"][key].is_f64(), "{key}");
        }
        for key in ["storage", "cpu", "barrier", "startup"] {
            assert!(object["waiting_seconds"][key].is_f64(), "{key}");
        }
    }
    let back: TrainReport = serde_json::from_value(json).unwrap();
    assert_eq!(back, report());
}

fn file<'a>(files: &'a [mlperf::OutputFile], end: &str) -> &'a mlperf::OutputFile {
    files.iter().find(|file| file.path.ends_with(end)).unwrap()
}

#[test]
fn mlperf_files_have_dlios_keys_and_v2s_folders() {
    let steps = vec![vec![StepLists {
        epoch: 1,
        steps: vec![vec![(1.5, 0.25); 12]; 2],
    }]];
    let files = mlperf::files(&report(), &workload(), &steps, &|_| false);
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
    ");
    insta::assert_snapshot!(file(&files, "summary.json").content, @r#"
    {
      "start": "2026-11-21T07:25:00.250000",
      "num_accelerators": 2,
      "num_hosts": 1,
      "hostname": "node7",
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
        "train_io_mean_MB_per_second": 4958.054029065859,
        "train_io_stdev_MB_per_second": 275.44744605921414
      },
      "num_files_train": 168,
      "num_files_eval": 0,
      "num_samples_per_file": 1,
      "host_cpu_count": [
        2
      ],
      "host_processor_name": [
        "Xeon"
      ],
      "potential_caching": [
        1
      ],
      "host_cpuinfo": {
        "model name": "Xeon"
      },
      "host_meminfo": {
        "MemTotal": "67108864 kB"
      },
      "host_memory_GB": [
        64.0
      ],
      "data_size_per_host_GB": 22.93745568394661,
      "epochs": 2,
      "end": "2026-11-21T07:25:13.750000"
    }
    "#);
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
    assert!(
        output["2"]["load"].as_object().unwrap().is_empty(),
        "no list, no numbers"
    );
    insta::assert_snapshot!(file(&files, "overrides.yaml").content, @r"
    - workload=unet3d_h100
    - ++workload.dataset.num_files_train=168
    - ++workload.dataset.data_folder=/data/unet3d
    - ++workload.train.epochs=2
    ");
}

#[test]
fn a_run_cut_short_is_no_success() {
    let mut report = report();
    report.ending = RunEnding::Stopped;
    report.meets_threshold = false;
    report.epochs[1].accelerators[1].blocks[0].steps = 5;
    let files = mlperf::files(&report, &workload(), &[], &|_| false);
    let summary: Value = serde_json::from_str(&file(&files, "summary.json").content).unwrap();
    let metric = &summary["metric"];
    assert_eq!(metric["train_au_meet_expectation"], "fail");
    assert_eq!(metric["train_au_percentage"].as_array().unwrap().len(), 1);
    assert_eq!(
        metric["train_au_mean_percentage"], metric["train_au_percentage"][0],
        "the epoch that was cut short is not in the mean"
    );
    assert_eq!(summary["epochs"], 1);
}

#[test]
fn the_configuration_runs_again() {
    let files = mlperf::files(&report(), &workload(), &[], &|_| false);
    let config = &file(&files, "dlio_config/config.yaml").content;
    let again = Workload::parse(config, "config.yaml", &[]).unwrap();
    assert_eq!(
        (again.name.as_str(), again.accelerator.as_str()),
        ("unet3d", "h100")
    );
    assert_eq!(again.dataset.num_files_train, 168);
    assert_eq!(again.reader.read_threads, 4);
    assert_eq!(again.edition, Profile::V2);
}

/// A report of `count` runs that start so many seconds one after the other.
fn report_of_runs(count: u32, apart_seconds: f64) -> TrainReport {
    let mut report = report();
    report.runs = (1..=count)
        .map(|run| RunReport {
            run,
            warm_up: run == 1,
            epochs: report.epochs.clone(),
            mean: report.mean,
            cost: report.cost,
            meets_threshold: true,
            started_unix_seconds: report.started_unix_seconds + apart_seconds * f64::from(run - 1),
            duration_seconds: 70.0,
            checkpoints: vec![CheckpointReport {
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

fn folders(files: &[mlperf::OutputFile]) -> Vec<&str> {
    let files = files.iter();
    files
        .filter_map(|file| file.path.strip_suffix("/summary.json"))
        .collect()
}

#[test]
fn v3_and_several_runs_have_a_folder_each() {
    let mut report = report_of_runs(2, 70.0);
    report.profile = Profile::V3;
    let files = mlperf::files(&report, &workload(), &[], &|_| false);
    assert_eq!(
        folders(&files),
        [
            "whatif/stormlp/results/node7/training/unet3d/run/20261121_072500",
            "whatif/stormlp/results/node7/training/unet3d/run/20261121_072610",
        ]
    );
}

#[test]
fn runs_of_one_second_are_numbered_and_no_folder_is_written_over() {
    let report = report_of_runs(3, 0.3);
    let there = "training/unet3d/run/20261121_072500-2";
    let files = mlperf::files(&report, &workload(), &[], &|name| name == there);
    assert_eq!(
        folders(&files),
        [
            "training/unet3d/run/20261121_072500",
            "training/unet3d/run/20261121_072500-3",
            "training/unet3d/run/20261121_072500-4",
        ]
    );
}

#[test]
fn every_run_has_its_own_steps_and_checkpoints() {
    let steps: Vec<Vec<StepLists>> = [1.0, 2.0]
        .map(|fetch| {
            vec![StepLists {
                epoch: 1,
                steps: vec![vec![(fetch, 0.25); 12]; 2],
            }]
        })
        .to_vec();
    let files = mlperf::files(&report_of_runs(2, 70.0), &workload(), &steps, &|_| false);
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
