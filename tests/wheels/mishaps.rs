//! Runs in which storage, the GPU or a setting fails: how every wheel must end them.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use serde_json::{Value, json};

use crate::runs::TIME_LIMIT;
use crate::scene::Scene;

/// A command line in trouble.
pub(crate) struct Mishap {
    pub(crate) name: &'static str,
    words: &'static str,
    /// The trouble, by variables of the stand-ins.
    trouble: &'static [(&'static str, &'static str)],
    code: i32,
    /// On the screen.
    says: &'static [&'static str],
    /// Whether the saved report is true to it.
    is_true: fn(&Value) -> bool,
}

/// `errno 1`, which libcufile reports for every error of a read.
const UNTRUE: &str = "Operation not permitted";

pub(crate) const MISHAPS: [Mishap; 9] = [
    Mishap {
        name: "compatibility mode is forbidden, and there is nothing else",
        words: "gds --path gds --op read,write --require gds --device cuda:0 --threads 2 \
                --io-size 64K --file-size 256K --duration 1x",
        trouble: &[],
        code: 4,
        says: &["5001"],
        is_true: |report| has_cells(report, "unavailable", 2),
    },
    Mishap {
        name: "a dead disk under gds",
        words: "gds --path gds --device cuda:0 --threads 2 --io-size 64K --file-size 256K \
                --duration 1x",
        trouble: &[("DOUBLE_IO_READS", "5")],
        code: 5,
        says: &["stormlp-data/gds/stormlp.", "Input/output error"],
        is_true: |report| has_cells(report, "failed", 1) && report["cells"][0]["errno"] == 5,
    },
    Mishap {
        name: "a dead disk under train",
        words: "train unet3d --path gds --device cuda:0 --threads 2 --files 28 --epochs 1 \
                --compute-time 1ms --params dataset.record_length_bytes=150000 \
                --params dataset.record_length_bytes_stdev=20000 --params metric.au=0.001",
        trouble: &[("DOUBLE_IO_READS", "5")],
        code: 5,
        says: &[".npz", "Input/output error"],
        is_true: |report| report["ending"]["status"] == "failed",
    },
    Mishap {
        name: "a dead disk under kvcache",
        words: "kvcache serving tiny-1b --path gds --device cuda:0 --duration 1s --chunk-tokens 64 \
                --prefixes 6 --prefix-tokens 128,256 --concurrency 2 --tune writers=2",
        trouble: &[("DOUBLE_IO_READS", "5")],
        code: 5,
        says: &["stormlp-data/kvcache/", "Input/output error"],
        is_true: |report| report["ending"]["status"] == "failed",
    },
    Mishap {
        name: "a full disk under checkpoint",
        words: "checkpoint tiny.yaml --path gds --device cuda:0 --ranks 8 --scale 1 --saves 1 \
                --restores 1 --pause 0",
        trouble: &[("DOUBLE_IO_WRITES", "28")],
        code: 5,
        says: &["no space left while writing", "stormlp-data/checkpoint"],
        is_true: |report| report["ending"]["status"] == "failed",
    },
    Mishap {
        name: "a stream transfer that moves no byte",
        words: "gds --path gds-async --buffer-memory host --device cuda:0 --threads 1 \
                --io-size 64K --file-size 256K --duration 1x",
        trouble: &[("DOUBLE_IO_READS", "nothing")],
        code: 5,
        says: &["a stream transfer moved 0 of 65536 bytes"],
        is_true: |report| has_cells(report, "failed", 1),
    },
    Mishap {
        name: "a stream transfer that moves half",
        words: "gds --path gds-async --buffer-memory host --device cuda:0 --threads 1 \
                --io-size 64K --file-size 256K --duration 1x",
        trouble: &[("DOUBLE_IO_READS", "halt")],
        code: 0,
        says: &[],
        is_true: |report| {
            let storage = &report["cells"][0]["evidence"]["direct_storage"];
            let words = "moved the rest of 1 transfer that moved less than asked";
            has_cells(report, "ok", 1)
                && storage["continued_operations"] == 1
                && report["cells"][0]["warnings"].to_string().contains(words)
        },
    },
    Mishap {
        name: "a lost GPU",
        words: "gds --path gds --device cuda:0 --threads 2 --io-size 64K,128K --file-size 256K \
                --duration 1x",
        trouble: &[("DOUBLE_FAULT", "lost")],
        code: 5,
        says: &["look for Xid in dmesg"],
        is_true: |report| has_cells(report, "failed", 1) && report["ending"]["kind"] == "device",
    },
    Mishap {
        name: "an allocation that hangs",
        words: "gds --path gds --device cuda:0 --threads 2 --io-size 64K --file-size 256K \
                --duration 1x",
        trouble: &[("DOUBLE_FAULT", "allocation-hangs"), ("STORMLP_CUFILE_TIMEOUT", "1")],
        code: 5,
        // From 1.13 to 1.17 the opening of the driver allocates.
        says: &["has not returned for 1 s; its buffers were left alone", "look for Xid in dmesg"],
        is_true: |report| report["ending"]["status"] == "failed",
    },
];

/// Whether the report has so many cells, all of this status.
fn has_cells(report: &Value, status: &str, count: usize) -> bool {
    let cells = report["cells"].as_array();
    cells
        .is_some_and(|all| all.len() == count && all.iter().all(|it| it["status"] == json!(status)))
}

impl Mishap {
    /// Runs the executable in `folder` and judges its end.
    pub(crate) fn play(&self, scene: &Scene, library: &Path, folder: &Path) -> Result<(), String> {
        let results = folder.join("stormlp-results");
        let _ = fs::remove_dir_all(&results);
        let mut command = Command::new(env!("CARGO_BIN_EXE_stormlp"));
        command.current_dir(folder).env_remove("STORMLP_RESULTS_DIR").timeout(TIME_LIMIT);
        command.args(self.words.split_whitespace());
        scene.enter(&mut command, library, true);
        let output = command.envs(self.trouble.iter().copied()).output().unwrap();
        let said = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        // Lines are wrapped.
        let said = said.concat();
        let flat = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let report = (fs::read_dir(&results).ok().and_then(|mut runs| runs.next()))
            .and_then(|run| fs::read_to_string(run.ok()?.path().join("report.json")).ok())
            .and_then(|text| serde_json::from_str::<Value>(&text).ok())
            .unwrap_or_default();
        let missing = self.says.iter().find(|words| !flat.contains(**words));
        let complaint = match missing {
            _ if output.status.code() != Some(self.code) => format!("{}", output.status),
            Some(words) => format!("`{words}` is not said"),
            None if flat.contains(UNTRUE) => format!("`{UNTRUE}` is said"),
            None if !(self.is_true)(&report) => format!("the report is not true: {report}"),
            None => return Ok(()),
        };
        Err(format!("{complaint}\n{said}"))
    }
}
