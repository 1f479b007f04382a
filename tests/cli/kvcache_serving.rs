//! `stormlp kvcache serving`, and prompts of a Mooncake trace, on real files.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::{stderr, stdout, stormlp};

/// Bytes of 64 tokens of `tiny-1b` in whole blocks.
const CHUNK: u64 = 1_576_960;

fn words(more: &str) -> Vec<String> {
    let words = format!("kvcache {more} --dir chunks --quiet --tune telemetry=off");
    words.split(' ').map(str::to_string).collect()
}

fn served(dir: &Path, more: &str) -> Value {
    let mut ran = stormlp();
    let ran = ran.current_dir(dir).args(words(more)).args(["--format", "json"]).assert();
    serde_json::from_str(&stdout(ran.success())).unwrap()
}

fn count(of: &Value, key: &str) -> u64 {
    of[key].as_u64().unwrap_or_else(|| panic!("{key} of {of:#}"))
}

fn files(dir: &Path, prefix: &str) -> usize {
    let entries = fs::read_dir(dir.join("chunks")).into_iter().flatten();
    let names = entries.map(|one| one.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(prefix)).count()
}

const SERVING: &str = "serving tiny-1b --duration 1s --chunk-tokens 64 --prefixes 6 \
                       --prefix-tokens 128,256 --concurrency 2 --tune writers=1";

#[test]
fn prompts_load_what_was_written_before() {
    let dir = TempDir::new_in(".").unwrap();
    let json = served(
        dir.path(),
        &format!("{SERVING} --verify --prefill-rate 8000 --tune new-tokens=100"),
    );
    assert_eq!(json["plan"]["workload"], "serving");
    assert_eq!(count(&json["plan"]["serving"], "chunk_bytes"), CHUNK);
    let trial = &json["trials"][0];
    let prompts = &trial["prompts"];
    assert!(
        count(&trial["requests"], "served") + count(&trial["requests"], "served_late") > 2,
        "{trial:#}"
    );
    let loads = prompts["loads"].as_array().unwrap();
    let chunks: u64 = loads.iter().map(|of| count(of, "tokens") / 64).sum();
    let all = count(&trial["read"], "objects") + count(&trial["read"], "late_objects");
    assert_eq!(chunks, all);
    let bytes = count(&trial["read"], "bytes") + count(&trial["read"], "late_bytes");
    assert_eq!(bytes, chunks * CHUNK);
    for of in loads {
        assert!([128, 256].contains(&count(of, "prefix_tokens")));
        let tokens = count(of, "tokens") as f64 / count(&of["load_ms"], "count") as f64;
        let computing = of["computing_ms"].as_f64().unwrap();
        assert!((computing - tokens / 8.0).abs() < 1e-6, "{of:#}");
    }
    assert_eq!(files(dir.path(), "chunk_"), 0);
}

#[test]
fn what_nobody_has_written_yet_is_not_asked_for() {
    let dir = TempDir::new_in(".").unwrap();
    // Prompts without a stored prefix are unlimited: they must not evict existing objects. With
    // small chunks there are many.
    let small = SERVING.replace("--chunk-tokens 64", "--chunk-tokens 16");
    let small = small.replace("--prefix-tokens 128,256", "--prefix-tokens 32,64");
    let small = small.replace("--duration 1s", "--duration 3s");
    let json = served(dir.path(), &format!("{small} --tune new-tokens=1,reuse=4"));
    let trial = &json["trials"][0];
    let prompts = &trial["prompts"];
    let (loaded, all) = (count(prompts, "loaded_tokens"), count(prompts, "tokens"));
    // Four of five are expected.
    assert!(count(&trial["requests"], "served") >= 20 && loaded * 2 > all, "{prompts:#}");
    assert_eq!(count(prompts, "dropped"), 0);
}

#[test]
fn prefixes_that_do_not_fit_are_said_before_the_run_and_only_a_part_is_written() {
    let dir = TempDir::new_in(".").unwrap();
    // Three of 2 chunks and three of 4 have no room.
    let says = "6 prefixes need 27.07 MiB, but chunks may use only 9.02 MiB";
    let small = format!("{SERVING} --no-cleanup --capacity {}", 6 * CHUNK);
    let plan = words(&format!("{small} --dry-run"));
    let planned = stdout(stormlp().current_dir(&dir).args(plan).assert().success());
    assert!(planned.split_whitespace().collect::<Vec<_>>().join(" ").contains(says), "{planned}");
    assert_eq!(files(dir.path(), "chunk_"), 0);
    // A log names steps that last seconds.
    let slow = format!("{small} --throttle write=3M");
    let loud = words(&slow).into_iter().filter(|word| word != "--quiet");
    let text = stderr(stormlp().current_dir(&dir).args(loud).assert().success());
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // First the warning, then the objects that have room.
    let begins = text.find("writing 6 chunks of the first prefixes: took");
    assert!(begins.is_some() && text.find(says) < begins && text.contains(says), "{text}");
    assert!((1..=6).contains(&files(dir.path(), "chunk_")));
    let more = format!("{SERVING} --capacity {}", 3 * CHUNK);
    let text = stderr(stormlp().current_dir(&dir).args(words(&more)).assert().code(4));
    assert!(text.contains("a prefix needs up to 6.02 MiB"), "{text}");
}

#[test]
fn a_run_that_is_stopped_before_its_trial_has_no_figure() {
    let dir = TempDir::new_in(".").unwrap();
    let slow = format!("{SERVING} --throttle write=4M --prefixes 200 --format json")
        .replace("--prefixes 6 ", "");
    let mut command = Command::new(env!("CARGO_BIN_EXE_stormlp"));
    command
        .current_dir(dir.path())
        .args(words(&slow))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    while files(dir.path(), "chunk_") == 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let stopped = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(stopped.unwrap().success());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("stopped before anything was measured"), "{said}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["trials"].as_array().map(Vec::len), Some(0), "{json:#}");
    assert_eq!(files(dir.path(), "chunk_"), 0);
    let shown = stdout(stormlp().current_dir(&dir).args(["report"]).assert().success());
    assert!(!shown.contains("GiB/s"), "{shown}");
}

#[test]
fn what_a_killed_run_has_begun_is_known() {
    let dir = TempDir::new_in(".").unwrap();
    for path in ["buffered", "cpu"] {
        let kill = format!("{SERVING} --path {path} --inject-fault nth=9,call=write,errno=KILL");
        stormlp().current_dir(&dir).args(words(&kill)).assert().failure();
        assert!(files(dir.path(), "chunk_") > 0);
        stormlp().current_dir(&dir).args(["clean", "chunks"]).assert().success();
        assert!(!dir.path().join("chunks").exists());
    }
}

#[test]
fn chunks_share_files_and_are_known_to_clean() {
    let dir = TempDir::new_in(".").unwrap();
    // Room for the first prefixes and little else, so that new ones delete old ones.
    let room = format!("{SERVING} --tune layout=packed,reuse=1 --capacity {}", 20 * CHUNK);
    let json = served(dir.path(), &format!("{room} --verify --no-cleanup"));
    let trial = &json["trials"][0];
    assert!(count(&trial["written"], "objects") > 0, "{trial:#}");
    assert!(count(&trial["evictions"], "deleted") > 0, "{trial:#}");
    assert_eq!((files(dir.path(), "pack_"), files(dir.path(), "chunk_")), (1, 0));
    fs::write(dir.path().join("chunks/mine.npy"), "mine").unwrap();
    let mut clean = stormlp();
    let cleaned = stderr(clean.current_dir(&dir).args(["clean", "chunks"]).assert().success());
    assert!(cleaned.contains("left chunks/mine.npy, which stormlp did not create"), "{cleaned}");
    assert_eq!((files(dir.path(), "pack_"), files(dir.path(), "mine")), (0, 1));
}

#[test]
fn every_path_to_an_accelerator_loads_what_was_written() {
    for path in ["page-cache", "cpu-gpu"] {
        let dir = TempDir::new_in(".").unwrap();
        let json = served(dir.path(), &format!("{SERVING} --verify --path {path} --device host"));
        assert_eq!(json["evidence"][0]["effective_path"], path);
        assert_eq!(json["plan"]["transport"]["emulated"], true);
        let loaded = count(&json["trials"][0]["prompts"], "loaded_tokens");
        assert!(loaded > 0, "{:#}", json["trials"][0]);
        assert!(json["warnings"].to_string().contains("accelerator memory is emulated"));
    }
}

#[test]
fn prompts_of_a_trace_load_the_blocks_that_earlier_ones_wrote() {
    let dir = TempDir::new_in(".").unwrap();
    // The second repeats the first, the third shares one block; tokens after a full block are not
    // stored.
    let lines = [
        r#"{"timestamp": 0, "input_length": 150, "output_length": 5, "hash_ids": [7, 8, 9]}"#,
        r#"{"timestamp": 900, "input_length": 128, "output_length": 5, "hash_ids": [7, 8]}"#,
        r#"{"timestamp": 950, "input_length": 128, "output_length": 5, "hash_ids": [7, 5]}"#,
    ];
    fs::write(dir.path().join("moon.jsonl"), lines.join("\n")).unwrap();
    let json =
        served(dir.path(), "replay moon.jsonl tiny-1b --chunk-tokens 64 --tune layout=files");
    assert_eq!(json["plan"]["trace"]["format"], "mooncake");
    let trial = &json["trials"][0];
    assert_eq!(count(&trial["requests"], "served"), 3);
    assert_eq!(count(&trial["prompts"], "tokens"), 150 + 128 + 128);
    // Writes are in the background: how many were done before the second prompt is not fixed.
    assert!(count(&trial["prompts"], "loaded_tokens") <= 192, "{trial:#}");
    assert!(count(&trial["written"], "objects") >= 2, "{trial:#}");
    let wrong = words("replay moon.jsonl tiny-1b");
    let text = stderr(stormlp().current_dir(&dir).args(wrong).assert().code(3));
    assert!(
        text.contains("line 1: 3 hash_ids for 150 tokens, which fill 1 block of 512"),
        "{text}"
    );
}

#[test]
fn a_chunk_that_was_cut_is_named_with_where_its_file_ends() {
    let dir = TempDir::new_in(".").unwrap();
    let lines = [
        r#"{"timestamp": 0, "input_length": 64, "hash_ids": [7]}"#,
        r#"{"timestamp": 4000, "input_length": 64, "hash_ids": [7]}"#,
    ];
    fs::write(dir.path().join("moon.jsonl"), lines.join("\n")).unwrap();
    let chunk = dir.path().join("chunks/chunk_0000000000000007.npy");
    let cut = std::thread::spawn(move || {
        // Once it is whole; it is read seconds later.
        while fs::metadata(&chunk).map_or(0, |facts| facts.len()) < CHUNK {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(200));
        fs::File::options().write(true).open(&chunk).unwrap().set_len(100_000).unwrap();
    });
    let more = "replay moon.jsonl tiny-1b --chunk-tokens 64 --io-size 256K";
    let text = stderr(stormlp().current_dir(&dir).args(words(more)).assert().code(5));
    cut.join().unwrap();
    let says = format!("ended after 100000 bytes; {CHUNK} were written");
    assert!(text.contains(&says), "{text}");
}

#[test]
fn storage_that_fails_ends_the_run() {
    let dir = TempDir::new_in(".").unwrap();
    for fault in ["read:3:EIO", "write:40:ENOSPC"] {
        let more = format!("{SERVING} --inject-fault {fault}");
        let text = stderr(stormlp().current_dir(&dir).args(words(&more)).assert().code(5));
        assert!(text.contains("chunk_"), "{text}");
    }
    assert_eq!(files(dir.path(), "chunk_"), 0);
}

#[test]
fn wrong_requests_are_refused_with_what_to_do() {
    let dir = TempDir::new_in(".").unwrap();
    let refused = |more: &str, code: i32, says: &str| {
        let text = stderr(stormlp().current_dir(&dir).args(words(more)).assert().code(code));
        assert!(text.contains(says), "{text}");
    };
    refused("serving tiny-1b --prefix-tokens 100", 3, "multiples of 256");
    refused("serving --users 3", 2, "--users is an option of kvcache mlperf");
    refused("serving tiny-1b --engine psync --queue-depth 4", 3, "use --engine uring");
    refused("serving tiny-1b --path gdz", 2, "use buffered, cpu, page-cache");
    refused("serving tiny-1b --require gds", 3, "use --path gds");
    let mut gds = stormlp();
    gds.current_dir(&dir).env("STORMLP_LIBCUFILE", "/nowhere/libcufile.so.0");
    let text = stderr(gds.args(words("serving tiny-1b --path gds")).assert().code(4));
    assert!(text.contains("path gds cannot run here"), "{text}");
    refused("serving tiny-1b --tune writers=0", 2, "from 1 to 500");
    refused("serving tiny-1b --capacity 1M", 4, "the largest object");
    refused("replay", 2, "FILE");
    refused("mlperf --prefixes 2", 2, "--prefixes is an option of kvcache serving");
    assert_eq!(files(dir.path(), "chunk"), 0);
}
