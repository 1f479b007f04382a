//! What is looked at while a run goes on, as its report has it.

use serde_json::Value;

use crate::checkpoint::{folder, tiny};
use crate::{stderr, stdout, stormlp};

fn run(words: &str) -> Value {
    let folder = tempfile::tempdir_in(".").unwrap();
    let mut command = stormlp();
    command
        .current_dir(folder.path())
        .args(words.split_whitespace());
    serde_json::from_str(&stdout(command.assert().success())).unwrap()
}

const GDS: &str = "gds --format json --path cpu --io-size 64K --threads 2 --queue-depth 3 \
                   --file-size 4M --passes 2";

#[test]
fn a_cell_follows_its_host() {
    let report = run(GDS);
    assert_eq!(report["plan"]["telemetry_seconds"], 0.1);
    let cell = &report["cells"][0];
    let intervals = cell["interval_bytes"].as_array().unwrap().len();
    let tracks = cell["tracks"].as_array().unwrap();
    let cpu = tracks
        .iter()
        .find(|track| track["measure"] == "host_cpu_seconds");
    assert_eq!(cpu.unwrap()["values"].as_array().unwrap().len(), intervals);
}

#[test]
fn telemetry_can_be_left_out_or_looked_at_more_seldom() {
    let report = run(&format!("{GDS} --telemetry off"));
    assert_eq!(report["plan"]["telemetry_seconds"], Value::Null);
    let cell = &report["cells"][0];
    assert!(cell.get("tracks").is_none() && cell.get("telemetry_cpu_seconds").is_none());
    assert!(cell["bytes"].as_u64() > Some(0));
    let report = run(&format!("{GDS} --telemetry 2s"));
    assert_eq!(report["cells"][0]["interval_seconds"], 2.0);
}

#[test]
fn training_and_checkpoints_show_what_went_on_around_them() {
    let folder = folder();
    let mut train = stormlp();
    train.current_dir(folder.path());
    train.args([
        "train",
        "cosmoflow",
        "--files",
        "8",
        "--steps",
        "4",
        "--epochs",
        "1",
    ]);
    let save = tiny(folder.path(), &["--writes", "1", "--reads", "0"]);
    for mut command in [train, save] {
        let shown = stdout(command.assert());
        // The kernel counts CPU time in ticks, so that a run this short may have none.
        for part in [
            "Around the run",
            "host memory",
            "as a transfer was submitted",
        ] {
            assert!(shown.contains(part), "{shown}");
        }
    }
}

#[test]
fn an_interval_out_of_bounds_is_refused() {
    let assert = stormlp()
        .args(["gds", "--telemetry", "5ms"])
        .assert()
        .code(2);
    assert!(stderr(assert).contains("between 10ms and 60s"));
}
