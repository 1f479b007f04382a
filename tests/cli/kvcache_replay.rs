//! `stormlp kvcache replay`: traces of other programs, on real files.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::{stderr, stdout, stormlp};

/// 100 tokens of `tiny-1b`.
const BYTES: u64 = 2_457_600;
const IO: &str = "Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\r\n";
const BURST: &str = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n";

fn words(more: &str) -> Vec<String> {
    let (file, more) = more.split_once(' ').unwrap_or((more, ""));
    let words =
        format!("kvcache replay {file} tiny-1b --dir objects --quiet --tune telemetry=off {more}");
    words.split_whitespace().map(str::to_string).collect()
}

fn replayed(dir: &Path, more: &str) -> Value {
    let mut ran = stormlp();
    let ran = ran.current_dir(dir).args(words(more)).args(["--format", "json"]).assert();
    serde_json::from_str(&stdout(ran.success())).unwrap()
}

fn count(of: &Value, key: &str) -> u64 {
    of[key].as_u64().unwrap_or_else(|| panic!("{key} of {of:#}"))
}

#[test]
fn a_trace_of_mlperfs_client_moves_what_it_says() {
    let dir = TempDir::new_in(".").unwrap();
    let line = |time: &str, what: &str, tier: u8, key: &str| {
        format!("{time},{what},{BYTES},Tier-{tier},{key},Decode\r\n")
    };
    // The third was in memory, the last was written before the trace began.
    let lines = [
        line("1784555733.5", "Write", 2, "a"),
        line("1784555733.5", "Read", 2, "a"),
        line("1784555733.6", "Read", 1, "a"),
        line("1784555733.6", "Write", 2, "a"),
        line("1784555733.7", "Read", 2, "a"),
        line("1784555733.7", "Read", 2, "b"),
    ];
    fs::write(dir.path().join("io.csv"), IO.to_string() + &lines.concat()).unwrap();
    let json = replayed(dir.path(), "io.csv --speed max --concurrency 4 --verify");
    let trial = &json["trials"][0];
    assert_eq!(json["plan"]["workload"], "replay");
    assert_eq!(
        (count(&json["plan"]["trace"], "entries"), count(&json["plan"]["trace"], "skipped")),
        (5, 1)
    );
    assert_eq!((count(&trial["written"], "objects"), count(&trial["read"], "objects")), (2, 2));
    // Each file has a header in addition to its tokens.
    assert_eq!(count(&trial["written"], "bytes"), 2 * (BYTES + 128));
    assert_eq!(
        (count(&trial["lookups"], "own_hits"), count(&trial["lookups"], "own_misses")),
        (2, 1)
    );
    assert_eq!(count(&trial["requests"], "served"), 5);
    assert_eq!(trial["is_whole_trace"], true);
    let left = fs::read_dir(dir.path().join("objects")).unwrap();
    let names = left.map(|one| one.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.ends_with(".npy")).count(), 0);
}

#[test]
fn a_trace_whose_reads_find_nothing_measures_nothing() {
    let dir = TempDir::new_in(".").unwrap();
    let line = |what: &str, key: &str| format!("5,{what},{BYTES},Tier-2,{key},Decode\r\n");
    let reads = [line("Read", "a"), line("Read", "b")].concat();
    fs::write(dir.path().join("io.csv"), format!("{IO}{reads}")).unwrap();
    let mut ran = stormlp();
    let ran = ran.current_dir(&dir).args(words("io.csv")).assert().code(3);
    let none = "no result: none of the 2 objects that the trace reads was there";
    let output = ran.get_output();
    for text in [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)) {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(none) && !text.contains("0.000 GiB/s"), "{text}");
    }
    // With one write there is a figure, and a warning.
    fs::write(dir.path().join("io.csv"), format!("{IO}{}{reads}", line("Write", "c"))).unwrap();
    let warnings = replayed(dir.path(), "io.csv")["warnings"].to_string();
    assert!(warnings.contains("2 of 2 reads found no object"), "{warnings}");
}

#[test]
fn a_trace_of_burstgpt_is_served_at_its_pace_or_faster() {
    let dir = TempDir::new_in(".").unwrap();
    let lines = "5,ChatGPT,40,18,58,API log\n6,ChatGPT,0,0,0,API log\n9,GPT-4,30,70,100,API log\n";
    fs::write(dir.path().join("burst.csv"), BURST.to_string() + lines).unwrap();
    let json = replayed(dir.path(), "burst.csv --speed 8 --runs 2");
    for trial in json["trials"].as_array().unwrap() {
        // Each is written once and read 1 + 1 and 1 + 3 times.
        assert_eq!((count(&trial["written"], "objects"), count(&trial["read"], "objects")), (2, 6));
        // The second is sent half a second after the first.
        assert!(trial["total_seconds"].as_f64().unwrap() >= 0.5, "{trial:#}");
    }
    let json = replayed(dir.path(), "burst.csv --duration 100ms --no-cleanup");
    let trial = &json["trials"][0];
    assert_eq!(
        (count(&trial["requests"], "begun"), &trial["is_whole_trace"]),
        (1, &Value::Bool(false))
    );
    assert!(dir.path().join("objects/trace_user_0_req_0000.npy").exists());
    let shown = stdout(stormlp().current_dir(&dir).args(["report"]).assert().success());
    assert!(shown.contains("kvcache"), "{shown}");
}

#[test]
fn a_trace_that_is_wrong_is_refused_with_its_line() {
    let dir = TempDir::new_in(".").unwrap();
    let refused = |content: &[u8], more: &str, code: i32, says: &str| {
        fs::write(dir.path().join("trace"), content).unwrap();
        let mut ran = stormlp();
        let text = stderr(ran.current_dir(&dir).args(words(more)).assert().code(code));
        assert!(text.contains(says), "{text}");
    };
    let burst = |line: &str| (BURST.to_string() + "7,GPT-4,5,5,10,API log\n" + line).into_bytes();
    refused(&burst("6,GPT-4,5,5,10,API log\n"), "trace", 3, "trace, line 3: the time goes back");
    refused(&burst("8,GPT-4,-5,5,0,API log\n"), "trace", 3, "trace, line 3: Request tokens: `-5`");
    refused(&burst("8,GPT-4,5\n"), "trace", 3, "trace, line 3: 3 fields instead of 6");
    refused(b"when,what\n", "trace", 3, "trace, line 1: no known trace begins like this");
    refused(b"", "trace", 3, "the trace is empty");
    refused(b"\x28\xb5\x2f\xfd\x04\x00", "trace", 3, "unpack it first (zstd -d)");
    refused(&vec![b'{'; 2 << 20], "trace", 3, "line 1: it is longer than");
    refused(BURST.as_bytes(), "trace", 3, "has no work for storage");
    let io = |line: &str| format!("{IO}5,Write,{BYTES},Tier-2,a,Prefill\r\n{line}").into_bytes();
    let other = io("5,Read,24576,Tier-2,a,Decode\r\n");
    refused(&other, "trace", 3, "trace, line 3: Object_Size_Bytes: 24576 are read of `a`");
    refused(&burst(""), "absent.csv", 4, "absent.csv");
    refused(&burst(""), "trace --speed fast", 2, "use 0.001 to 1000000");
    refused(&burst(""), "trace --users 3", 2, "--users");
    refused(&burst(""), "trace --concurrency 0", 2, "from 1 to 500");
    refused(&burst(""), "trace --capacity 64K", 4, "the largest object of tiny-1b");
    assert!(!dir.path().join("objects").exists());
}

#[test]
fn a_byte_that_changed_is_named() {
    let dir = TempDir::new_in(".").unwrap();
    let line = |time: u32, what: &str| format!("{time},{what},{BYTES},Tier-2,a,Decode\r\n");
    let lines = IO.to_string() + &line(0, "Write") + &line(4, "Read");
    fs::write(dir.path().join("io.csv"), lines).unwrap();
    let object = dir.path().join("objects/a.npy");
    let changed = std::thread::spawn(move || {
        // Once it is whole; it is read seconds later.
        while fs::metadata(&object).map_or(0, |facts| facts.len()) < BYTES + 128 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        let file = fs::File::options().write(true).open(&object).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"no such floats", 1_500_000).unwrap();
    });
    let mut ran = stormlp();
    let text = stderr(ran.current_dir(&dir).args(words("io.csv --verify")).assert().code(5));
    changed.join().unwrap();
    assert!(text.contains("DATA MISMATCH") && text.contains("a.npy, byte 15000"), "{text}");
}
