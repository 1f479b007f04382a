//! Results that MLCommons published in v3.0 (mlcommons/storage_results_v3.0, 068d91f): their
//! figures, in trees that we build, have the published verdict.

use serde_json::{Value, json};

use super::failed;
use super::fixtures::{Builder, package};
use crate::submission::TreeVerdict;
use crate::submission::tree::join;

/// A training run: folder, times of day, AU and samples/s of each epoch, and the means.
struct Run {
    name: &'static str,
    span: [&'static str; 2],
    au: &'static [f64],
    samples: &'static [f64],
    au_mean: f64,
    samples_mean: f64,
    mib: f64,
}

/// NewFW, one drive, unet3d on one emulated B200; the third run has two different means of epochs.
const UNET3D: [Run; 6] = [
    Run {
        name: "20260712_134711",
        span: ["13:47:15.911742", "14:15:04.524198"],
        au: &[
            97.58648093250396,
            97.91948462493626,
            97.8707628925002,
            97.69198558861825,
            97.72585336376429,
        ],
        samples: &[
            42.14605855498721,
            42.29051059771409,
            42.268794662472864,
            42.19201467758779,
            42.207267205232476,
        ],
        au_mean: 97.7589134804646,
        samples_mean: 42.22092913959889,
        mib: 5902.876593216607,
    },
    Run {
        name: "20260712_141606",
        span: ["14:16:10.936974", "14:44:03.231329"],
        au: &[
            97.65843816006604,
            97.61089158085964,
            97.56485124589985,
            97.58113903196951,
            97.519613664976,
        ],
        samples: &[
            42.177691864645624,
            42.15538955801686,
            42.13713091838039,
            42.14373410587404,
            42.117090071141725,
        ],
        au_mean: 97.5869867367542,
        samples_mean: 42.146207303611725,
        mib: 5892.429789092698,
    },
    Run {
        name: "20260712_144505",
        span: ["14:45:10.336089", "15:12:58.879459"],
        au: &[
            97.62202585675756,
            97.69976217018183,
            97.73543257065931,
            97.97830716380273,
            97.7355091461904,
        ],
        samples: &[
            42.16316686449407,
            42.19437964387792,
            42.210431059856035,
            42.314562798807565,
            42.210316125924486,
        ],
        au_mean: 97.75420738151837,
        samples_mean: 42.21857129859202,
        mib: 5902.54694522511,
    },
    Run {
        name: "20260712_151401",
        span: ["15:14:05.693759", "15:41:55.414547"],
        au: &[
            97.71346212850867,
            97.65444567051405,
            97.64426818126265,
            97.72085401373124,
            97.76353194006062,
        ],
        samples: &[
            42.201408677338165,
            42.173955107940756,
            42.16938466188359,
            42.20424157759656,
            42.221441450251525,
        ],
        au_mean: 97.69931238681544,
        samples_mean: 42.194086295002116,
        mib: 5899.123715146545,
    },
    Run {
        name: "20260712_154257",
        span: ["15:43:02.461293", "16:10:49.966354"],
        au: &[
            97.97198272503877,
            97.78335765282831,
            97.74990085626763,
            97.81718663757411,
            97.7435452837709,
        ],
        samples: &[
            42.31156621253229,
            42.231117730114356,
            42.21563649867621,
            42.24547551925163,
            42.21383637539152,
        ],
        au_mean: 97.81319463109594,
        samples_mean: 42.243526467193206,
        mib: 5906.035908723016,
    },
    Run {
        name: "20260712_161152",
        span: ["16:11:56.729136", "16:39:43.102057"],
        au: &[
            97.9526431667501,
            98.15820168549969,
            97.84040924828147,
            97.70671041334484,
            97.62266998464807,
        ],
        samples: &[
            42.30574810309893,
            42.39123339504071,
            42.2541020894827,
            42.197085361596756,
            42.16158292145559,
        ],
        au_mean: 97.85612689970483,
        samples_mean: 42.26195037413494,
        mib: 5908.611741402642,
    },
];

/// Epochs of the second run: start, end of its block, end and duration. Its end is noted after the
/// loader has stopped.
const EPOCHS: [[&str; 4]; 5] = [
    ["14:16:12.556823", "14:21:45.161867", "14:21:46.308172", "332.61"],
    ["14:21:46.516173", "14:27:19.330801", "14:27:20.452888", "332.82"],
    ["14:27:20.665778", "14:32:53.623560", "14:32:54.729426", "332.96"],
    ["14:32:54.935214", "14:38:27.805119", "14:38:28.865392", "332.87"],
    ["14:38:29.071498", "14:44:02.169173", "14:44:03.230316", "333.10"],
];

/// A system's package without results.
fn system(division: &str, organisation: &str, name: &str) -> Builder {
    let whole = package();
    let mut builder = Builder::default();
    for (path, text) in whole.files.iter().filter(|(path, _)| !path.contains("/results/")) {
        let path = path.replace("closed/acme", &format!("{division}/{organisation}"));
        builder.put(&path.replace("/fast.", &format!("/{name}.")), text.clone());
    }
    builder.describe("submission_name: fast", &format!("submission_name: {name}"));
    builder.describe("memory_capacity: 64", "memory_capacity: 377");
    builder
}

/// Files of a leaf without influence on figures; logs that were too large were pruned.
fn files(builder: &mut Builder, leaf: &str, stem: &str, overrides: &[&str]) {
    for name in [format!("{stem}.stdout.log"), format!("{stem}.stderr.log")] {
        builder.put(&join(leaf, &name), "");
    }
    builder.put(&join(leaf, "dlio.log"), "PRUNED BY STAFF\n");
    builder.put(&join(leaf, "dlio_config/config.yaml"), "workload: {}\n");
    builder.put(&join(leaf, "dlio_config/hydra.yaml"), "hydra: {}\n");
    let lines: String = overrides.iter().map(|line| format!("- {line}\n")).collect();
    builder.put(&join(leaf, "dlio_config/overrides.yaml"), lines);
    builder.json(&join(leaf, "fs_separation.json"), &json!({"same_filesystem": false}));
}

/// The metadata of the training runs, as v3.0's tool writes it: injected values are texts.
fn unet3d_metadata(command: &str) -> Value {
    json!({
        "benchmark_type": "training", "model": "unet3d", "command": command,
        "num_processes": 1, "accelerator": "b200", "verification": "CLOSED",
        "parameters": {
            "model": {"name": "unet3d", "type": "cnn", "model_size": 499_153_191},
            "framework": "pytorch",
            "workflow": {"generate_data": false, "train": true, "checkpoint": false},
            "dataset": {"data_folder": "/mnt/5336_61t/unet3d", "format": "npz",
                "num_files_train": "14000", "num_samples_per_file": 1,
                "record_length_bytes": 146_600_628, "record_length_bytes_stdev": 68_341_808,
                "record_length_bytes_resize": 2_097_152, "skip_listing": "True",
                "listing_validation_interval": "10"},
            "reader": {"data_loader": "pytorch", "batch_size": 7, "read_threads": "4",
                "multiprocessing_context": "fork", "file_shuffle": "seed",
                "sample_shuffle": "seed", "odirect": "True"},
            "train": {"epochs": 5, "computation_time": 0.162},
            "checkpoint": {"checkpoint_folder": "checkpoints/unet3d",
                "checkpoint_after_epoch": 5, "epochs_between_checkpoints": 2},
            "metric": {"au": 0.9},
        },
        "override_parameters": {"reader.read_threads": "4", "dataset.num_files_train": "14000",
            "reader.odirect": "True", "dataset.skip_listing": "True",
            "dataset.listing_validation_interval": "10",
            "dataset.data_folder": "/mnt/5336_61t/unet3d"},
        "args": {"mode": "closed", "model": "unet3d", "hosts": ["127.0.0.1"],
            "client_host_memory_in_gb": 377.0, "num_accelerators": 1, "accelerator_type": "b200",
            "data_dir": "/mnt/5336_61t", "results_dir": "/etc/cwp/log/results"},
    })
}

const UNET3D_OVERRIDES: [&str; 5] = [
    "workload=unet3d_b200",
    "++workload.reader.read_threads=4",
    "++workload.dataset.num_files_train=14000",
    "++workload.reader.odirect=True",
    "++workload.dataset.data_folder=/mnt/5336_61t/unet3d",
];

fn at(time: &str) -> String {
    format!("2026-07-12T{time}")
}

/// The training result of NewFW.
fn training() -> Builder {
    let mut builder = system("closed", "NewFW", "drive");
    let result = "closed/NewFW/results/drive/training/unet3d";
    for run in &UNET3D {
        let leaf = format!("{result}/run/{}", run.name);
        files(&mut builder, &leaf, "training_run", &UNET3D_OVERRIDES);
        builder.put(&join(&leaf, "0_output.json"), "PRUNED BY STAFF\n");
        let [start, end] = run.span.map(at);
        let epoch = json!({"start": start, "end": end});
        let mut stats: Value =
            (1..=5).map(|number: u32| (number.to_string(), epoch.clone())).collect();
        for (number, times) in (1..).zip(EPOCHS) {
            let [start, block, end] = [times[0], times[1], times[2]].map(at);
            if run.name == UNET3D[1].name {
                stats[number.to_string()] = json!({"start": start, "end": end, "duration": times[3],
                    "block1": {"start": start, "end": block, "duration": times[3]}});
            } else {
                stats[number.to_string()]["duration"] = json!(times[3]);
            }
        }
        builder.json(&join(&leaf, "0_per_epoch_stats.json"), &stats);
        builder.json(
            &join(&leaf, "summary.json"),
            &json!({
                "start": start, "end": end, "num_accelerators": 1, "num_hosts": 1,
                "hostname": "cve-ThinkSystem-SR665-V3", "num_files_train": 14_000,
                "num_files_eval": 0, "num_samples_per_file": 1, "host_cpu_count": [384],
                "host_processor_name": "x86_64", "host_memory_GB": [377.240_299_224_853_5],
                "epochs": 5,
                "metric": {
                    "train_au_percentage": run.au, "train_au_mean_percentage": run.au_mean,
                    "train_au_meet_expectation": "success",
                    "train_throughput_samples_per_second": run.samples,
                    "train_throughput_mean_samples_per_second": run.samples_mean,
                    "train_io_mean_MB_per_second": run.mib,
                },
            }),
        );
        let metadata = format!("training_{}_metadata.json", run.name);
        builder.json(&join(&leaf, &metadata), &unet3d_metadata("run"));
    }
    let datagen = format!("{result}/datagen/20260712_133654");
    files(&mut builder, &datagen, "training_datagen", &UNET3D_OVERRIDES);
    for (phase, name) in [("datasize", "20260712_133650"), ("datagen", "20260712_133654")] {
        let place = format!("{result}/{phase}/{name}/training_{name}_metadata.json");
        builder.json(&place, &unet3d_metadata(phase));
    }
    let scored = UNET3D[1..].iter().map(|run| run.mib).sum::<f64>() / 5.0 / 1024.0;
    let row = json!([{"Public ID": "v3.0-0061", "Benchmark Type": "training", "Model": "Unet3D",
        "Training - Accelerator Type": "b200", "Training - # Simulated Accelerators": 1,
        "Training - Read B/W (GiB/s)": scored}]);
    builder.json(&format!("{result}/run/results.json"), &row);
    builder
}

/// Rank 0's saves of NewFW's llama3-8b: start, end and duration.
const SAVES: [(&str, &str, f64, f64); 10] = [
    ("10:48:50.945830", "10:49:24.937816", 33.991986, 3.080_270_778_506_417),
    ("10:49:30.568204", "10:50:04.412396", 33.844192, 3.093_721_994_580_317),
    ("10:50:09.752557", "10:50:43.406148", 33.653591, 3.111_243_646_456_606),
    ("10:50:49.334046", "10:51:23.638679", 34.304633, 3.052_197_677_765_543),
    ("10:51:28.839390", "10:52:03.119112", 34.279722, 3.054_415_703_231_176),
    ("10:52:08.386813", "10:52:42.394074", 34.007261, 3.078_887_217_032_834),
    ("10:52:48.039847", "10:53:21.879115", 33.839268, 3.094_172_166_466_462_3),
    ("10:53:27.574845", "10:54:01.618987", 34.044142, 3.075_551_769_793_441),
    ("10:54:06.704398", "10:54:40.778182", 34.073784, 3.072_876_237_614_208_3),
    ("10:54:46.122120", "10:55:20.473197", 34.351077, 3.048_070_987_095_957),
];

/// The metadata of a run of checkpoints, invoked at this time, with its writes and reads.
fn checkpoint_metadata(invoked: &str, counts: [u32; 2]) -> Value {
    json!({
        "benchmark_type": "checkpointing", "model": "llama3-8b", "command": "run",
        "num_processes": 8, "accelerator": null, "verification": "CLOSED",
        "invocation_start_time": invoked,
        "parameters": {
            "model": {"name": "llama_8b", "type": "transformer", "num_layers": 32,
                "model_datatype": "fp16", "optimizer_datatype": "fp32",
                "parallelism": {"pipeline": 1, "tensor": 1, "zero_stage": 3},
                "transformer": {"vocab_size": 128_256, "hidden_size": 4096,
                    "ffn_hidden_size": 14_336, "num_attention_heads": 32, "num_kv_heads": 8}},
            "framework": "pytorch",
            "workflow": {"generate_data": false, "train": false, "checkpoint": true},
            "checkpoint": {"checkpoint_folder": "/mnt/5336_61t/checkpoint/llama3-8b",
                "time_between_checkpoints": 5, "num_checkpoints_write": counts[0],
                "num_checkpoints_read": counts[1], "fsync": true},
        },
        "override_parameters": {"checkpoint.num_checkpoints_read": counts[1],
            "checkpoint.num_checkpoints_write": counts[0],
            "checkpoint.checkpoint_folder": "/mnt/5336_61t/checkpoint/llama3-8b"},
        "args": {"mode": "closed", "model": "llama3-8b", "hosts": ["127.0.0.1"],
            "client_host_memory_in_gb": 377.0, "num_processes": 8,
            "num_checkpoints_read": counts[1], "num_checkpoints_write": counts[0],
            "checkpoint_folder": "/mnt/5336_61t/checkpoint",
            "results_dir": "/etc/cwp/log/results"},
    })
}

/// The checkpoints of NewFW: eight ranks, written and read by two commands. Neither names an
/// accelerator, and the metadata has no end of the invocation.
fn checkpoints() -> Builder {
    let mut builder = system("closed", "NewFW", "drive");
    let result = "closed/NewFW/results/drive/checkpointing/llama3-8b";
    let day = |time: &str| format!("2026-07-13T{time}");
    for (name, span, invoked, counts) in [
        ("20260713_104840", ["10:48:45.923442", "10:55:20.475175"], "10:48:40.449208", [10, 0]),
        ("20260713_105538", ["10:55:43.829515", "11:00:08.599685"], "10:55:38.500000", [0, 10]),
    ] {
        let leaf = join(result, name);
        let counted = [("write", counts[0]), ("read", counts[1])]
            .map(|(what, count)| format!("++workload.checkpoint.num_checkpoints_{what}={count}"));
        let folder = "++workload.checkpoint.checkpoint_folder=/mnt/5336_61t/checkpoint/llama3-8b";
        let overrides = ["workload=llama3_8b", &counted[0], &counted[1], folder];
        files(&mut builder, &leaf, "checkpointing_run", &overrides);
        let mut stats = json!({"1": {"start": day(span[0]), "end": day(span[1])}});
        let metric = if counts[0] > 0 {
            for (number, (start, end, seconds, rate)) in (1..).zip(SAVES) {
                stats["1"][format!("save_ckpt{number}")] = json!({"start": day(start),
                    "end": day(end), "duration": seconds, "throughput": rate});
            }
            json!({"save_checkpoint_io_mean_GB_per_second": 3.076_140_817_854_296,
                "save_checkpoint_io_stdev_GB_per_second": 0.019_326_690_328_210_04,
                "save_checkpoint_duration_mean_seconds": 34.038_965_6,
                "save_checkpoint_duration_stdev_seconds": 0.213_714_105_097_066_98})
        } else {
            json!({"load_checkpoint_io_mean_GB_per_second": 4.983_509_448_925_309,
                "load_checkpoint_io_stdev_GB_per_second": 0.122_244_200_350_507_47,
                "load_checkpoint_duration_mean_seconds": 21.022_852_6,
                "load_checkpoint_duration_stdev_seconds": 0.516_104_087_069_885_5})
        };
        builder.put(&join(&leaf, "0_output.json"), r#"{"1": {"throughput": {}, "au": {}}}"#);
        let stats = if counts[0] > 0 { stats.to_string() } else { "PRUNED BY STAFF\n".to_string() };
        builder.put(&join(&leaf, "0_per_epoch_stats.json"), stats);
        let mut summary = json!({
            "start": day(span[0]), "end": day(span[1]), "num_accelerators": 8, "num_hosts": 1,
            "hostname": "cve-ThinkSystem-SR665-V3", "num_files_train": 8,
            "host_cpu_count": [384], "host_processor_name": "x86_64",
            "host_memory_GB": [377.240_310_668_945_3], "epochs": 0, "metric": metric,
        });
        summary["metric"]["checkpoint_size_GB"] = json!(104.704_521_179_199_22);
        builder.json(&join(&leaf, "summary.json"), &summary);
        let metadata = checkpoint_metadata(&day(invoked), counts);
        builder.json(&join(&leaf, &format!("checkpointing_{name}_metadata.json")), &metadata);
    }
    let row = json!([{"Public ID": "v3.0-0065", "Benchmark Type": "checkpointing", "Model": "8B",
        "Checkpointing - Write B/W (GiB/s)": 3.076_140_817_854_296,
        "Checkpointing - Write Duration (secs)": 34.038_965_6,
        "Checkpointing - Read B/W (GiB/s)": 4.983_509_448_925_309,
        "Checkpointing - Read Duration (secs)": 21.022_852_6}]);
    builder.json(&join(result, "results.json"), &row);
    builder
}

/// A KV cache's command of one option and trial.
fn command(folder: &str, option: u32, arguments: &str) -> Value {
    let base = format!("/results/{folder}/option_{option}/trial_0");
    json!({"command": format!("mpirun -n 1 python3 mlperf_wrapper.py --rank-output-base {base} \
        --rank-cache-base /cache --seed-base 42 --config kv_cache_benchmark/config.yaml {arguments} \
        --generation-mode none")})
}

/// A summary's entry of an option: read and write in GiB/s, tokens/s, P95 in ms.
fn of_option(option: u32, figures: [f64; 4], ranks: u64, trials: u64, missing: usize) -> Value {
    json!({"option": option, "aggregated_read_bandwidth_gbps": figures[0],
        "aggregated_write_bandwidth_gbps": figures[1],
        "aggregated_avg_throughput_tokens_per_sec": figures[2],
        "aggregated_p95_latency_ms": figures[3], "rank_count": ranks, "trial_count": trials,
        "partial_failure": missing > 0, "missing_files": vec!["rank"; missing],
        "cpu_tier_ranks": []})
}

/// NewFW's KV cache: one rank, three trials of each option. The tool passes a `--config`, which the
/// submitter did not choose.
fn closed_cache() -> Builder {
    let mut builder = system("closed", "NewFW", "drive");
    let leaf = "closed/NewFW/results/drive/kv_cache/llama3.1-8b/run/20260712_182110";
    let closed = [
        "--model llama3.1-8b --num-users 200 --duration 300 --gpu-mem-gb 0 --cpu-mem-gb 0 \
         --max-concurrent-allocs 16",
        "--model llama3.1-8b --num-users 100 --duration 300 --gpu-mem-gb 0 --cpu-mem-gb 4 \
         --max-concurrent-allocs 16",
        "--model llama3.1-70b-instruct --num-users 70 --duration 300 --gpu-mem-gb 0 \
         --cpu-mem-gb 0 --max-concurrent-allocs 4",
    ];
    let commands: Vec<Value> =
        (1..).zip(closed).map(|(option, line)| command("20260712_182110", option, line)).collect();
    let metadata = json!({"benchmark_type": "kv_cache", "model": "llama3.1-8b", "command": "run",
        "num_processes": 1, "accelerator": null, "verification": null,
        "command_output_files": commands,
        "args": {"mode": "closed", "cache_dir": "/mnt/5336_61t/kvcache",
            "results_dir": "/etc/cwp/log/results", "config": null, "mpi_params": null}});
    builder.json(&join(leaf, "kv_cache_20260712_182110_metadata.json"), &metadata);
    let summary = json!({"schema_version": "1.0", "run_datetime": "20260712_182110",
        "npernode": 1, "host_count": 1, "total_ranks": 1, "trials_per_option": 3,
        "partial_failure": false, "trial_failures": {}, "options": {
            "1": of_option(1, [7.981766983503692, 1.7671206324114408,
                479.62514920574307, 63367.98124656415], 1, 3, 0),
            "2": of_option(2, [1.7915470356903278, 2.3781052782020846,
                787.3246653187922, 15143.042199968477], 1, 3, 0),
            "3": of_option(3, [7.410053087773914, 1.4557427993397114,
                183.16103500493037, 116385.25843250318], 1, 3, 0)}});
    builder.json(&join(leaf, "summary.json"), &summary);
    let rank = json!({"requests_completed": 918, "total_tokens_generated": 144946,
        "end_to_end_latencies": [1.3492685209930642], "seed": 42,
        "summary": {"cache_stats": {
            "tier_storage_read_bandwidth_gbps": 7.855362461867494,
            "tier_storage_write_bandwidth_gbps": 1.79303653225915}}});
    builder
        .json(&join(leaf, "option_1/trial_0/rank_0/kvcache_results_20260712_182112.json"), &rank);
    builder
}

/// FarmGPU's KV cache of the 70B model, open: 48 ranks, of which some left no file, one trial,
/// chosen users, memory and duration, and a preloaded library.
fn open_cache() -> Builder {
    let mut builder = system("open", "FarmGPU", "potato8");
    let leaf = "open/FarmGPU/results/potato8/kv_cache/llama3.1-70b-instruct/run/20260709_215001";
    let arguments = "--model llama3.1-70b-instruct --num-users 200 --duration 60 --gpu-mem-gb 1.0 \
        --cpu-mem-gb 1.0 --max-concurrent-allocs 16";
    let commands: Vec<Value> =
        (1..=3).map(|option| command("20260709_215001", option, arguments)).collect();
    let metadata = json!({"benchmark_type": "kv_cache", "model": "llama3.1-70b-instruct",
        "command": "run", "num_processes": 48, "command_output_files": commands,
        "args": {"mode": "open", "cache_dir": "/mnt/qlc/kvcache",
            "results_dir": "/mnt/mlperf-results", "seed": null, "trials": 1,
            "inter_option_delay": 15, "config": null, "enable_rag": false,
            "mpi_params": ["-x", "LD_PRELOAD=/usr/lib/libtcmalloc_minimal.so.4"]}});
    builder.json(&join(leaf, "kv_cache_20260709_215001_metadata.json"), &metadata);
    let summary = json!({"schema_version": "1.0", "npernode": 6, "host_count": 8,
        "total_ranks": 48, "trials_per_option": 1, "partial_failure": true, "options": {
            "1": of_option(1, [301.28441216382083, 124.12340292030909,
                11828.422641731166, 228023.36016601475], 48, 1, 24),
            "2": of_option(2, [238.90519019355776, 119.73771574722694,
                11323.875953983432, 95762.16989141538], 48, 1, 21),
            "3": of_option(3, [888.7962831981641, 298.52288738071127,
                30896.10482689294, 44617.20861537307], 48, 1, 0)}});
    builder.json(&join(leaf, "summary.json"), &summary);
    builder
}

#[test]
fn published_results_have_the_published_verdict() {
    for (what, builder, verdict) in [
        ("training", training(), TreeVerdict::Closed),
        ("checkpoints", checkpoints(), TreeVerdict::Closed),
        ("KV cache", closed_cache(), TreeVerdict::Closed),
        ("open KV cache", open_cache(), TreeVerdict::Open),
    ] {
        let report = builder.check();
        assert_eq!(failed(&report), [], "{what}: {:#?}", report.rules);
        assert_eq!((report.verdict, report.blocked_by), (verdict, vec![]), "{what}");
    }
}

#[test]
fn a_closed_cache_has_the_tables_options() {
    let leaf = "closed/NewFW/results/drive/kv_cache/llama3.1-8b/run/20260712_182110";
    let metadata = join(leaf, "kv_cache_20260712_182110_metadata.json");
    let ids = |change: &dyn Fn(&mut Builder)| -> Vec<String> {
        let mut builder = closed_cache();
        change(&mut builder);
        let report = builder.check();
        failed(&report).iter().map(|(id, _)| (*id).to_string()).collect()
    };
    let lines = |builder: &mut Builder, from: &str, to: &str| {
        let text = builder.files[&metadata].replace(from, to);
        builder.put(&metadata, text);
    };
    assert_eq!(ids(&|b| lines(b, "--num-users 100", "--num-users 99")), ["6.3.1.1"]);
    assert_eq!(ids(&|b| lines(b, "\"config\":null", "\"config\":\"/my.yaml\"")), ["6.3.2.1"]);
    assert_eq!(ids(&|b| lines(b, "/etc/cwp/log/results\"", "/mnt/5336_61t/kvcache/\"")), ["6.4.1"]);
    assert_eq!(
        ids(&|b| {
            b.remove(&metadata);
        }),
        ["LEAF-01"]
    );
    let change = |b: &mut Builder, change: &dyn Fn(&mut Value)| {
        b.edit(&join(leaf, "summary.json"), |summary| change(summary));
    };
    assert_eq!(ids(&|b| change(b, &|s| s["partial_failure"] = json!(true))), ["6.3.3.3"]);
    assert_eq!(ids(&|b| change(b, &|s| s["trials_per_option"] = json!(2))), ["6.3.2.1"]);
    let all = |s: &mut Value| s["options"]["2"]["cpu_tier_ranks"] = json!([0]);
    assert_eq!(ids(&|b| change(b, &all)), ["6.3.4.1"]);
    // With all its ranks' files there, an option's figures are held against them.
    let one_trial = |s: &mut Value| s["options"]["1"]["trial_count"] = json!(1);
    assert_eq!(ids(&|b| change(b, &one_trial)), ["6.3.4.1", "6.3.4.1"]);
}
