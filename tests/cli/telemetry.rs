//! System telemetry during a run, as reported.

use serde_json::Value;

use crate::checkpoint::{folder, tiny};
use crate::{stderr, stdout, stormlp};

fn run(words: &str) -> Value {
    let folder = tempfile::tempdir_in(".").unwrap();
    let mut command = stormlp();
    command.current_dir(folder.path()).args(words.split_whitespace());
    serde_json::from_str(&stdout(command.assert().success())).unwrap()
}

const GDS: &str = "gds --format json --path cpu --io-size 64K --threads 2 --queue-depth 3 \
                   --file-size 4M --duration 2x";

#[test]
fn a_cell_follows_its_host() {
    let report = run(GDS);
    assert_eq!(report["plan"]["request"]["tune"]["telemetry_seconds"], 0.1);
    let cell = &report["cells"][0];
    let intervals = cell["interval_bytes"].as_array().unwrap().len();
    let tracks = cell["tracks"].as_array().unwrap();
    let cpu = tracks.iter().find(|track| track["measure"] == "host_cpu_seconds");
    assert_eq!(cpu.unwrap()["values"].as_array().unwrap().len(), intervals);
}

#[test]
fn telemetry_can_be_off_or_sampled_less_often() {
    let report = run(&format!("{GDS} --tune telemetry=off"));
    assert_eq!(report["plan"]["request"]["tune"]["telemetry_seconds"], Value::Null);
    let cell = &report["cells"][0];
    assert!(cell.get("tracks").is_none() && cell.get("telemetry_cpu_seconds").is_none());
    assert!(cell["bytes"].as_u64() > Some(0));
    let report = run(&format!("{GDS} --tune telemetry=2s"));
    assert_eq!(report["cells"][0]["interval_seconds"], 2.0);
}

#[test]
fn training_and_checkpoints_show_system_telemetry() {
    let folder = folder();
    let mut train = stormlp();
    train.current_dir(folder.path());
    train.args(["train", "cosmoflow", "--files", "8", "--steps", "4", "--epochs", "1"]);
    let save = tiny(folder.path(), &["--saves", "1", "--restores", "0"]);
    for mut command in [train, save] {
        let shown = stdout(command.assert());
        // The kernel counts CPU time in ticks, so that a run this short may have none.
        for part in ["Around the run", "host memory", "at submission"] {
            assert!(shown.contains(part), "{shown}");
        }
    }
}

#[test]
fn series_have_the_length_of_their_last_interval_and_count_transfers_in_flight() {
    let folder = folder();
    let mut save = tiny(folder.path(), &["--saves", "1", "--restores", "1", "--format", "json"]);
    let mut train = stormlp();
    train.current_dir(folder.path()).args(
        "train unet3d --generate --files 42 --accelerators 2 --epochs 2 --compute-time 1ms --format json \
         --params dataset.record_length_bytes=65536 --params dataset.record_length_bytes_stdev=0 \
         --params metric.au=0.001"
            .split_whitespace(),
    );
    for command in [&mut save, &mut train] {
        let report: Value = serde_json::from_str(&stdout(command.assert().success())).unwrap();
        for series in report["series"].as_array().unwrap() {
            let numbers = |key: &str| -> Vec<f64> {
                let values = series[key].as_array().unwrap();
                values.iter().map(|value| value.as_f64().unwrap()).collect()
            };
            let (mean, most) =
                (numbers("interval_in_flight_mean"), numbers("interval_in_flight_max"));
            assert_eq!(mean.len(), numbers("interval_bytes").len());
            let fits = |(mean, most): (&f64, &f64)| (0.0..=*most).contains(mean);
            assert!(mean.iter().zip(&most).all(fits), "{mean:?} {most:?}");
            assert!(most.iter().any(|most| *most >= 1.0), "{most:?}");
            let last = series["last_interval_seconds"].as_f64().unwrap();
            let usual = series["interval_seconds"].as_f64().unwrap();
            assert!(last > 0.0 && last <= 1.5 * usual, "{last} {usual}");
        }
        if report["kind"] == "train" {
            let of_all = report["series"][0]["interval_bytes"].as_array().unwrap();
            let of_ranks = report["series"][0]["rank_interval_bytes"].as_array().unwrap();
            assert_eq!(of_ranks.len(), 2);
            for (nth, whole) in of_all.iter().enumerate() {
                let sum: u64 = of_ranks.iter().map(|rank| rank[nth].as_u64().unwrap()).sum();
                // A quantity spread over the intervals is rounded for each rank.
                assert!(sum.abs_diff(whole.as_u64().unwrap()) <= 2, "{sum} {whole}");
            }
            let begun = report["epochs"][0]["started_seconds"].as_f64().unwrap();
            let series = report["series"][0]["started_seconds"].as_f64().unwrap();
            assert!(series > 0.0 && series <= begun, "{series} {begun}");
        }
    }
    let cell = &run(GDS)["cells"][0];
    assert!(cell["last_interval_seconds"].as_f64() > Some(0.0));
    // Its hot loop has no more counters: the existing ones are sampled.
    assert!(cell.get("interval_in_flight_mean").is_none());
    assert!(cell["interval_in_flight"].is_array());
}

#[test]
fn a_matrix_reports_system_telemetry() {
    let folder = tempfile::tempdir_in(".").unwrap();
    let mut command = stormlp();
    let words = "gds --path cpu --io-size 64K --file-size 4M --duration 400ms --output page.html";
    command.current_dir(folder.path()).args(words.split(' '));
    let text = stdout(command.assert().success());
    assert!(text.contains("Around the run"), "{text}");
    let page = std::fs::read_to_string(folder.path().join("page.html")).unwrap();
    // A run that ends within one interval has no series.
    let is_told = page.contains("Telemetry of cpu, ") || page.contains("No telemetry: ");
    assert!(is_told, "{page}");
}

#[test]
fn an_interval_out_of_bounds_is_refused() {
    let assert = stormlp().args(["gds", "--tune", "telemetry=5ms"]).assert().code(2);
    assert!(stderr(assert).contains("10ms to 60s"));
}
