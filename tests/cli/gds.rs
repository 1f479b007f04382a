//! `stormlp gds` when all goes well: the table, the report's keys, reuse, presets, exports.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::{last_line, stderr, stdout, stormlp};

/// `stormlp gds` in `folder` with small files and short cells, and without any libcufile.
pub(crate) fn gds(folder: &Path, words: &str) -> assert_cmd::Command {
    let mut command = stormlp();
    command
        .current_dir(folder)
        .env("STORMLP_LIBCUFILE", "/nonexistent/libcufile.so.0")
        .arg("gds")
        .args(words.split_whitespace());
    command
}

/// Options that make a cell quick.
pub(crate) const QUICK: &str = "--file-size 8M --threads 2 --duration 50ms";

pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// The only saved report below `folder`.
pub(crate) fn saved(folder: &Path) -> std::path::PathBuf {
    let runs: Vec<_> = (fs::read_dir(folder.join("stormlp-results")).unwrap())
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(runs.len(), 1, "{runs:?}");
    runs[0].join("report.json")
}

pub(crate) fn read_json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn without_a_gpu_the_table_has_emulated_paths_and_the_reason_gds_is_missing() {
    let folder = folder();
    let assert = gds(folder.path(), QUICK).assert().success();
    let message = stderr(assert);
    assert!(message.contains("writing test files first: 16 MiB to stormlp-data/gds"), "{message}");
    assert!(message.contains("cells to measure, about"), "{message}");
    let table = stdout(gds(folder.path(), QUICK).assert().success());
    assert!(table.contains("host memory (emulated)"), "{table}");
    assert!(table.contains("n/a [1]") && table.contains("[1] gds: "), "{table}");
    let answer = last_line(&table, 0);
    assert!(answer.contains("cpu-gpu ") && answer.contains("page-cache"), "{table}");
    assert!(!answer.contains('×'), "one run of each is no ratio: {table}");
}

#[test]
fn a_cell_that_is_to_become_steady_says_whether_it_did() {
    let folder = folder();
    let words = "--path cpu,null --file-size 8M --threads 1 --duration steady:2s";
    let page = stdout(gds(folder.path(), words).assert().success());
    let report = read_json(&saved(folder.path()));
    assert_eq!(report["plan"]["request"]["duration"], serde_json::json!({"steady": 2.0}));
    let cells = report["cells"].as_array().unwrap();
    let steady: Vec<bool> = cells.iter().map(|one| one["steady"].as_bool().unwrap()).collect();
    assert_eq!(steady.len(), 2, "{cells:?}");
    for (cell, steady) in cells.iter().zip(steady) {
        // Five of twenty windows at least, and no more than the maximum, with what was in flight.
        let seconds = cell["duration_seconds"].as_f64().unwrap();
        assert!(seconds >= if steady { 0.5 } else { 1.9 }, "{seconds}");
    }
    assert!(page.contains("steady at the end"), "{page}");
    let refused = stderr(gds(folder.path(), "--duration steady:soon").assert().code(2));
    assert!(refused.contains("--duration"), "{refused}");
}

#[test]
fn files_are_laid_out_once_and_used_again() {
    let folder = folder();
    gds(folder.path(), QUICK).assert().success();
    let file = folder.path().join("stormlp-data/gds/stormlp.1");
    let made = fs::metadata(&file).unwrap().modified().unwrap();
    let message = stderr(gds(folder.path(), QUICK).assert().success());
    assert!(!message.contains("writing test files"), "{message}");
    assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), made);
}

#[test]
fn the_keys_that_scripts_rely_on_are_there_in_stdout_and_in_the_saved_report() {
    let folder = folder();
    let words = format!("{QUICK} --format json --op read,randwrite");
    let printed: Value =
        serde_json::from_str(&stdout(gds(folder.path(), &words).assert().success())).unwrap();
    assert_eq!(printed, read_json(&saved(folder.path())));
    for key in ["format_version", "command", "host", "plan", "warnings", "cells"] {
        assert!(!printed[key].is_null(), "{key}");
    }
    let cells = printed["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 6);
    for cell in cells {
        for key in [
            "requested_path",
            "effective_path",
            "evidence",
            "status",
            "reason",
            "op",
            "io_size_bytes",
            "threads",
            "queue_depth",
            "throughput_bytes_per_second",
            "iops",
            "latency_us",
            "operations",
            "bytes",
            "duration_seconds",
            "cpu_user_seconds",
            "cpu_system_seconds",
            "page_cache_share",
        ] {
            assert!(cell.as_object().unwrap().contains_key(key), "{key}: {cell}");
        }
        if cell["status"] == "ok" {
            for key in ["mean", "min", "max"] {
                assert!(cell["latency_us"][key].as_f64().unwrap() > 0.0, "{key}");
            }
            let transfers = cell["operations"].as_u64().unwrap();
            for (key, fewest) in [("p50", 2), ("p90", 10), ("p99", 100), ("p999", 1000)] {
                let percentile = cell["latency_us"].as_object().unwrap()[key].as_f64();
                assert_eq!(percentile.is_some(), transfers >= fewest, "{key}: {cell}");
            }
            let bytes =
                cell["operations"].as_u64().unwrap() * cell["io_size_bytes"].as_u64().unwrap();
            assert_eq!(cell["bytes"], bytes);
            assert_eq!(cell["effective_path"], cell["requested_path"]);
        }
    }
    let status: Vec<&str> = cells.iter().map(|cell| cell["status"].as_str().unwrap()).collect();
    assert_eq!(status, ["unavailable", "ok", "ok", "unavailable", "ok", "ok"]);
}

#[test]
fn lists_make_a_matrix_and_repetitions_are_cells_of_their_own() {
    let folder = folder();
    let words = "--path buffered,null --io-size 4K:12K:4K --threads 1,2 --runs 2 \
                 --file-size 1M --duration 10ms --format csv";
    let text = stdout(gds(folder.path(), words).assert().success());
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!(rows.len(), 1 + 2 * 3 * 2 * 2, "{text}");
    assert!(rows[0].starts_with("format_version,started_at,"), "{}", rows[0]);
    assert!(rows[1..].iter().all(|row| row.contains(",ok,")), "{text}");
}

#[test]
fn passes_move_every_byte_that_many_times() {
    let folder = folder();
    let words =
        "--path buffered,cpu-async-gpu --file-size 8M --threads 2 --duration 3x --format json";
    let text = stdout(gds(folder.path(), words).assert().success());
    let report: Value = serde_json::from_str(&text).unwrap();
    for cell in report["cells"].as_array().unwrap() {
        assert_eq!(cell["bytes"], 3 * 2 * (8 << 20), "{cell}");
        let first = cell["first_done_seconds"].as_f64().unwrap();
        assert!(first <= cell["last_done_seconds"].as_f64().unwrap());
    }
}

#[test]
fn every_engine_that_runs_is_named() {
    let folder = folder();
    for engine in ["psync", "auto"] {
        let words = format!("{QUICK} --path buffered --engine {engine} --format json");
        let text = stdout(gds(folder.path(), &words).assert().success());
        let report: Value = serde_json::from_str(&text).unwrap();
        let ran = report["cells"][0]["engine"].as_str().unwrap();
        match engine {
            "auto" => assert!(["uring", "psync"].contains(&ran), "{ran}"),
            named => assert_eq!(ran, named),
        }
    }
}

#[test]
fn a_dry_run_prints_the_plan_and_writes_nothing() {
    let folder = folder();
    let plan = stdout(gds(folder.path(), "--dry-run --threads 4").assert().success());
    assert!(plan.contains("4 of them filled") && plan.contains("cells can run; about"), "{plan}");
    let json = stdout(gds(folder.path(), "--dry-run --format json").assert().success());
    let plan: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(plan["cells"].as_array().unwrap().len(), 3);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn presets_are_matrices_whose_entries_options_replace() {
    let folder = folder();
    let cells = |words: &str| {
        let words = format!("{words} --dry-run --format json --file-size 128M");
        let text = stdout(gds(folder.path(), &words).assert().success());
        let plan: Value = serde_json::from_str(&text).unwrap();
        plan["cells"].as_array().unwrap().len()
    };
    assert_eq!(cells("--preset full"), 432);
    assert_eq!(cells("--preset data-preparation"), 2 * 2 * 3 * 2);
    assert_eq!(cells("--preset training"), 2 * 2 * 3 * 3);
    assert_eq!(cells("--preset full --op read --threads 1"), 9 * 3);
    assert!(cells("--preset quick") > 0);
    // Without cuFile every preset runs its other cells, and keeps the rest as cells that cannot
    // run.
    let words = "--preset inference --threads 1 --file-size 128M --dry-run";
    let plan = stdout(gds(folder.path(), words).assert().success());
    assert!(last_line(&plan, 0).starts_with("plan of inference: 8 of 16 cells can run"), "{plan}");
    assert!(plan.contains("n/a [1]") && plan.contains("[1] gds: "), "{plan}");
}

#[test]
fn outputs_are_recognised_by_extension_and_csv_grows_if_told() {
    let folder = folder();
    let words = format!("{QUICK} --path buffered --output a.csv --output a.md --output a.json");
    let rows = || fs::read_to_string(folder.path().join("a.csv")).unwrap().lines().count();
    for _ in 0..2 {
        gds(folder.path(), &words).assert().success();
        assert_eq!(rows(), 2);
    }
    gds(folder.path(), &format!("{words} --append")).assert().success();
    assert_eq!(rows(), 3);
    let none = stderr(gds(folder.path(), "--output a.md --append").assert().code(2));
    assert!(none.contains("--append is for .csv files"), "{none}");
    let markdown = fs::read_to_string(folder.path().join("a.md")).unwrap();
    let headline = markdown.lines().next().unwrap();
    assert!(headline.starts_with("### buffered"), "{markdown}");
    assert!(headline.contains(" GiB/s (read of "), "{markdown}");
    assert_eq!(read_json(&folder.path().join("a.json"))["kind"], "gds");
}

#[test]
fn the_studys_tables_can_be_printed() {
    let folder = folder();
    let words = format!(
        "{QUICK} --preset training --path cpu-gpu,page-cache --io-size 64K --op read --format markdown"
    );
    let table = stdout(gds(folder.path(), &words).assert().success());
    assert!(
        table.contains("| I/O Type | Transfer Type | Threads | Data Set Size (KiB) |"),
        "{table}"
    );
    assert!(table.contains("| READ | CPU_CACHED_GPU | 2 |"), "{table}");
}

#[test]
fn removed_files_are_gone_and_kept_ones_stay() {
    let folder = folder();
    gds(folder.path(), &format!("{QUICK} --path buffered --clean")).assert().success();
    assert!(!folder.path().join("stormlp-data/gds/stormlp.0").exists());
    gds(folder.path(), &format!("{QUICK} --path buffered")).assert().success();
    assert!(folder.path().join("stormlp-data/gds/stormlp.0").exists());
}

#[test]
fn jobs_have_targets_and_threads_of_their_own() {
    let folder = folder();
    let words = "--job dir=a,threads=1 --job dir=b,threads=2,name=two --path buffered \
                 --file-size 1M --duration 20ms --format json";
    let text = stdout(gds(folder.path(), words).assert().success());
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["cells"][0]["threads"], 3);
    let jobs = report["cells"][0]["jobs"].as_array().unwrap();
    assert_eq!(jobs[1]["name"], "two");
    assert!(jobs.iter().all(|job| job["bytes"].as_u64().unwrap() > 0));
    assert!(folder.path().join("b/stormlp.1").is_file());
}

#[test]
fn depths_are_a_list_and_cells_are_reported_as_they_finish() {
    let folder = folder();
    let words = format!("{QUICK} --path cpu,buffered --queue-depth 1,4");
    let done = gds(folder.path(), &words).assert().success();
    let said = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
    let lines: Vec<&str> = said.lines().collect();
    let head = lines
        .iter()
        .position(|line| line.trim_start().starts_with("cell path "))
        .unwrap_or_else(|| panic!("{said}"));
    for (index, start) in
        ["1/4 cpu ", "2/4 buffered ", "3/4 cpu ", "4/4 buffered "].iter().enumerate()
    {
        assert!(lines[head + 1 + index].trim_start().starts_with(start), "{said}");
    }
    let report = read_json(&saved(folder.path()));
    let depths: Vec<u64> = (report["cells"].as_array().unwrap().iter())
        .map(|cell| cell["queue_depth"].as_u64().unwrap())
        .collect();
    assert_eq!(depths, [1, 1, 4, 4]);
}

#[test]
fn every_path_runs_a_mix_of_reads_and_writes() {
    let folder = folder();
    let paths = "--path cpu,buffered,cpu-gpu,cpu-async-gpu,page-cache,null";
    let words = format!("{QUICK} {paths} --op randread --read-percent 50 --io-size 64K");
    let table = stdout(gds(folder.path(), &words).assert().success());
    assert!(table.contains("50 % reads and 50 % writes in each cell"), "{table}");
    let report = read_json(&saved(folder.path()));
    for cell in report["cells"].as_array().unwrap() {
        assert_eq!(cell["status"], "ok", "{cell}");
    }
}

#[test]
fn the_report_names_the_storage_that_was_measured() {
    let folder = folder();
    let words = format!("{QUICK} --path cpu");
    gds(folder.path(), &words).assert().success();
    let report = read_json(&saved(folder.path()));
    let storage = report["host"]["storage"].as_array().unwrap();
    assert_eq!(storage.len(), 1, "{storage:?}");
    assert_eq!(storage[0]["paths"][0], "stormlp-data/gds");
    assert!(storage[0]["file_system"].is_string(), "{storage:?}");
}

#[test]
fn a_mix_has_its_reads_and_writes_apart_and_fsync_is_a_column() {
    let folder = folder();
    let words = "--path buffered --op randread --read-percent 70 --threads 1 --file-size 4M \
                 --io-size 4K --duration 1x --fsync end";
    let report: Value = {
        let words = format!("{words} --format json --output mix.csv --output mix.txt");
        serde_json::from_str(&stdout(gds(folder.path(), &words).assert().success())).unwrap()
    };
    let cell = &report["cells"][0];
    let count = |part: &str, key: &str| cell["mix"][part][key].as_u64().unwrap();
    for key in ["operations", "bytes"] {
        let both = count("reads", key) + count("writes", key);
        assert_eq!(both, cell[key].as_u64().unwrap(), "{key}");
    }
    let share = count("reads", "operations") as f64 / 1024.0;
    assert!((0.6..0.8).contains(&share), "{share}");
    for part in ["reads", "writes"] {
        assert!(cell["mix"][part]["latency_us"]["p99"].as_f64() > Some(0.0));
        assert!(!cell["mix"][part]["latency_histogram"].as_str().unwrap().is_empty());
    }
    let csv = fs::read_to_string(folder.path().join("mix.csv")).unwrap();
    let mut lines = csv.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let row: Vec<&str> = lines.next().unwrap().split(',').collect();
    // Commas within fields are before these.
    for column in ["fsync_seconds", "read_iops", "write_latency_us_p99"] {
        let from_end = header.iter().rev().position(|name| *name == column).unwrap();
        let field: f64 = row[row.len() - 1 - from_end].parse().unwrap();
        assert!(field > 0.0, "{column}: {csv}");
    }
    let text = fs::read_to_string(folder.path().join("mix.txt")).unwrap();
    for column in ["fsync s", "read GiB/s", "write GiB/s", "read IOPS", "write p99 µs"] {
        assert!(text.contains(column), "{column}: {text}");
    }
}
