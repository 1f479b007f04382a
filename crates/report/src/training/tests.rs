//! What a terminal gets to see.

use stormlp_model::report::Ending;
use stormlp_model::training::catalog;
use stormlp_model::training::datasize::{SizeRequest, datasize};
use stormlp_model::training::profile::Profile;
use stormlp_model::training::report::{TrainReport, scored};

use super::fixtures::{plan, report, workload};
use super::*;

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
    report.ending = Ending::Stopped;
    let text = text(&report);
    assert!(
        text.contains("result      none: the run was stopped"),
        "{text}"
    );
    assert!(!text.contains("misses"), "{text}");
}

#[test]
fn an_epoch_that_was_cut_short_says_so() {
    let mut report = report();
    report.ending = Ending::Stopped;
    report.results.epochs[1].accelerators[1].blocks[0].steps = 5;
    let text = text(&report);
    assert!(text.contains("\n 1     "), "{text}");
    assert!(text.contains("\n 2 cut short "), "{text}");
}

#[test]
fn means_leave_out_epochs_that_were_cut_short_while_there_are_whole_ones() {
    let report = report();
    let mut cut = report.results.epochs[1].clone();
    cut.accelerators.pop();
    let whole = report.results.epochs[0].clone();
    assert_eq!(scored(&report.plan, [&cut, &whole]), [whole.measures]);
    assert_eq!(scored(&report.plan, [&cut]), [cut.measures]);
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
    memory      about 88.53 MiB
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
