//! The runs that every wheel must pass, and the required contents of their reports.

use std::fs;
use std::path::Path;
use std::time::Duration;

use assert_cmd::Command;
use serde_json::{Value, json};

use crate::scene::Scene;

/// Longer than any run; one that is still there hangs.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(60);

/// A command line of eight threads.
pub(crate) struct Run {
    pub(crate) name: &'static str,
    words: &'static str,
    /// How often every wheel runs it if all are requested: ten times for runs that crashed before.
    pub(crate) repeats: u32,
    /// Whether it has a GPU; without one the library opens from 1.16 on.
    has_gpu: bool,
    /// Whether all that was to be measured is in the report.
    is_whole: fn(&Value) -> bool,
}

/// The command line of a folder with files that cuFile rejects.
const REFUSED: &str = "gds --path gds,cpu-gpu --device cuda:0 --threads 2 --io-size 64K \
                       --file-size 256K --duration 1x";

/// Runs both paths without udev's entry for the device: cuFile's is not available, with the
/// library's reason, and the other one is measured.
pub(crate) fn refused(scene: &Scene, library: &Path, folder: &Path) -> Verdict {
    let results = folder.join("stormlp-results");
    let _ = fs::remove_dir_all(&results);
    let mut command = Command::new(env!("CARGO_BIN_EXE_stormlp"));
    command.current_dir(folder).args(REFUSED.split_whitespace()).timeout(TIME_LIMIT);
    scene.enter(&mut command, library, true);
    let output = command.env_remove("DOUBLE_UDEV").output().unwrap();
    let said = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    let said = said.concat();
    let cells = (fs::read_dir(&results).ok().and_then(|mut runs| runs.next()))
        .and_then(|run| fs::read_to_string(run.ok()?.path().join("report.json")).ok())
        .and_then(|text| serde_json::from_str::<Value>(&text).ok())
        .map_or(Value::Null, |report| report["cells"].clone());
    for words in [
        "the file system was not recognised",
        "libcufile's log says: udev property not found: ID_FS_USAGE",
        "-v /run/udev:/run/udev:ro",
    ] {
        if !said.contains(words) {
            return Verdict::Failed(format!("`{words}` is not in\n{said}"));
        }
    }
    match (cells[0]["status"].as_str(), cells[1]["status"].as_str()) {
        (Some("unavailable"), Some("ok")) => Verdict::Whole,
        _ => Verdict::Failed(format!("the cells are {cells}\n{said}")),
    }
}

pub(crate) const RUNS: [Run; 13] = [
    Run {
        name: "gds",
        words: "gds --path gds,cpu-gpu --device cuda:0 --threads 8 --io-size 64K --file-size 256K \
                --duration 1x",
        repeats: 10,
        has_gpu: true,
        is_whole: has_read_all,
    },
    Run {
        name: "gds-batch",
        words: "gds --path gds-batch --queue-depth 4 --device cuda:0 --threads 8 --io-size 64K \
                --file-size 256K --duration 1x",
        repeats: 10,
        has_gpu: true,
        is_whole: has_read_all,
    },
    Run {
        name: "train",
        words: "train unet3d --path gds --device cuda:0 --threads 8 --files 28 --epochs 1 \
                --compute-time 1ms --params dataset.record_length_bytes=150000 \
                --params dataset.record_length_bytes_stdev=20000 --params metric.au=0.001",
        repeats: 10,
        has_gpu: true,
        is_whole: has_trained,
    },
    Run {
        name: "train by batches",
        words: "train unet3d --path gds-batch --device cuda:0 --threads 8 --files 28 --epochs 1 \
                --compute-time 1ms --params dataset.record_length_bytes=150000 \
                --params dataset.record_length_bytes_stdev=20000 --params metric.au=0.001",
        repeats: 10,
        has_gpu: true,
        is_whole: has_trained,
    },
    Run {
        name: "checkpoint",
        words: "checkpoint tiny.yaml --path gds --device cuda:0 --ranks 8 --scale 1 --saves 1 \
                --restores 1 --pause 0",
        repeats: 10,
        has_gpu: true,
        is_whole: has_restored,
    },
    Run {
        name: "checkpoint by batches",
        words: "checkpoint tiny.yaml --path gds-batch --device cuda:0 --ranks 8 --scale 1 \
                --saves 1 --restores 1 --pause 0",
        repeats: 10,
        has_gpu: true,
        is_whole: has_restored,
    },
    Run {
        name: "prefixes of KV caches",
        words: "kvcache serving tiny-1b --path gds --device cuda:0 --verify --duration 1s \
                --chunk-tokens 64 --prefixes 6 --prefix-tokens 128,256 --concurrency 6 --tune writers=2",
        repeats: 1,
        has_gpu: true,
        is_whole: has_loaded,
    },
    Run {
        name: "prefixes of KV caches in host memory",
        words: "kvcache serving tiny-1b --path gds --device host --verify --duration 1s \
                --chunk-tokens 64 --prefixes 6 --prefix-tokens 128,256 --concurrency 6 --tune writers=2",
        repeats: 1,
        has_gpu: false,
        is_whole: has_loaded,
    },
    // With GPU memory its compatibility mode copies by a kernel, which needs a GPU.
    Run {
        name: "gds by streams in host memory",
        words: "gds --path gds-async --buffer-memory host --queue-depth 4 --device cuda:0 --threads 8 \
                --io-size 64K --file-size 256K --duration 1x",
        repeats: 10,
        has_gpu: true,
        is_whole: has_read_all,
    },
    Run {
        name: "gds in host memory of all GPUs",
        words: "gds --path gds --buffer-memory host --device all --threads 8 --io-size 64K \
                --file-size 256K --duration 1x",
        repeats: 1,
        has_gpu: true,
        is_whole: |report| {
            has_read_all(report) && report["plan"]["devices"] == json!(["cuda:0", "cuda:1"])
        },
    },
    Run {
        name: "train with two GPUs",
        words: "train unet3d -n 2 --params reader.batch_size=3 --path gds --device all --threads 8 --files 28 --epochs 1 \
                --compute-time 1ms --params dataset.record_length_bytes=150000 \
                --params dataset.record_length_bytes_stdev=20000 --params metric.au=0.001",
        repeats: 1,
        has_gpu: true,
        is_whole: |report| has_trained(report) && is_dealt(&report["plan"]["transport"]),
    },
    Run {
        name: "checkpoint with two GPUs",
        words: "checkpoint tiny.yaml --path gds --device cuda:0,cuda:1 --ranks 8 --scale 1 \
                --saves 1 --restores 1 --pause 0",
        repeats: 1,
        has_gpu: true,
        is_whole: |report| has_restored(report) && is_dealt(&report["plan"]["save"]),
    },
    Run {
        name: "gds in host memory",
        words: "gds --path gds --buffer-memory host --device host --threads 8 --io-size 64K \
                --file-size 256K --duration 1x",
        repeats: 10,
        has_gpu: false,
        is_whole: has_read_all,
    },
];

/// Cells that each went over eight files, with no more transfers counted than were made: 32, and as
/// many rehearsed ones.
fn has_read_all(report: &Value) -> bool {
    let whole = |cell: &Value| {
        let counted = cell["evidence"]["direct_storage"]["fallback_operations"].as_u64();
        cell["status"] == "ok" && cell["bytes"] == 8 * 256 * 1024 && counted <= Some(64)
    };
    report["cells"].as_array().is_some_and(|cells| !cells.is_empty() && cells.iter().all(whole))
}

/// A transport over both GPUs.
fn is_dealt(transport: &Value) -> bool {
    let devices = transport["devices"].as_array();
    devices.is_some_and(|all| all.iter().map(|one| &one["device"]).eq(["cuda:0", "cuda:1"]))
}

/// An epoch over 28 files.
fn has_trained(report: &Value) -> bool {
    report["epochs"].as_array().is_some_and(|all| all.len() == 1)
        && report["bytes_read"].as_u64() > Some(28 * 100_000)
}

/// One checkpoint, saved and restored.
fn has_restored(report: &Value) -> bool {
    let total = &report["plan"]["total_bytes"];
    let moved = |phase: &str| &report[phase][0]["bytes"];
    total.is_u64() && moved("saves") == total && moved("restores") == total
}

/// Prefixes, each of chunks that were written before.
fn has_loaded(report: &Value) -> bool {
    let trial = &report["trials"][0];
    let loads = trial["prompts"]["loads"].as_array();
    let tokens = |of: &Value| of["tokens"].as_u64().unwrap_or(0);
    report["ending"]["status"] == "complete"
        && loads.is_some_and(|all| all.iter().map(tokens).sum::<u64>() > 0)
}

/// How a run ended.
pub(crate) enum Verdict {
    Whole,
    /// The library rejects files here.
    Refused(String),
    Failed(String),
}

impl Run {
    /// Whether a minor version can do it.
    pub(crate) fn is_for(&self, minor: u32) -> bool {
        self.has_gpu || minor >= 16
    }

    /// Runs the executable in `folder`, where data of runs before may lie, and judges its report.
    pub(crate) fn play(&self, scene: &Scene, library: &Path, folder: &Path) -> Verdict {
        let results = folder.join("stormlp-results");
        let _ = fs::remove_dir_all(&results);
        fs::write(folder.join("tiny.yaml"), include_str!("../html/tiny.yaml")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_stormlp"));
        command
            .current_dir(folder)
            .env_remove("STORMLP_RESULTS_DIR")
            .args(self.words.split_whitespace())
            .timeout(TIME_LIMIT);
        scene.enter(&mut command, library, self.has_gpu);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            let refused = said.contains("cuFile rejects files in");
            return match scene.hurdle().filter(|_| refused) {
                Some(why) => Verdict::Refused(why),
                None => Verdict::Failed(format!("{}\n{}", output.status, said.trim_end())),
            };
        }
        match self.judge(&results) {
            Ok(()) => Verdict::Whole,
            Err(why) => Verdict::Failed(why),
        }
    }

    /// Looks for the report and checks its contents.
    fn judge(&self, results: &Path) -> Result<(), String> {
        let words = |error: &dyn std::error::Error| format!("no report: {error}");
        let mut runs = fs::read_dir(results).map_err(|error| words(&error))?;
        let run = runs.next().ok_or("no report")?.unwrap().path();
        let log = fs::read_to_string(run.join("cufile.log")).unwrap_or_default();
        // What stormlp asks is not an error.
        let own = ["Buffer size mismatch", "invalid status flag", "invalid arguments"];
        if let Some(line) = log.lines().find(|line| own.iter().any(|words| line.contains(words))) {
            return Err(format!("cufile.log has {line}"));
        }
        let text = fs::read_to_string(run.join("report.json")).map_err(|error| words(&error))?;
        let report: Value = serde_json::from_str(&text).map_err(|error| words(&error))?;
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let cells = list(&report["cells"]);
        let evidence: Vec<Value> = (cells.iter().map(|cell| cell["evidence"].clone()))
            .chain(list(&report["evidence"]))
            .collect();
        let mut warnings = (cells.iter().flat_map(|cell| list(&cell["warnings"])))
            .chain(list(&report["warnings"]));
        let fell_back = |evidence: &Value| {
            let summary = evidence["summary"].as_str().unwrap_or_default();
            evidence["effective_path"] == "gds-compat"
                && summary.starts_with("cuFile's POSIX compatibility mode")
        };
        let copied = |evidence: &Value| evidence["effective_path"] == "cpu-gpu";
        for (holds, complaint) in [
            (report["ending"]["status"] == "complete", "is not complete"),
            ((self.is_whole)(&report), "lacks something"),
            (
                evidence.iter().any(fell_back)
                    && evidence.iter().all(|one| fell_back(one) || copied(one)),
                "does not tell the compatibility mode",
            ),
            (warnings.any(|warning| warning["kind"] == "path_fell_back"), "does not warn of it"),
        ] {
            if !holds {
                return Err(format!("the report {complaint}:\n{text}"));
            }
        }
        Ok(())
    }
}
