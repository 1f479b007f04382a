//! Reports of `stormlp gds` about the quality of its numbers: device traffic, pages of the buffers,
//! the cells a warning is about, and figures with too few transfers.

use serde_json::Value;

use crate::gds::{folder, gds, read_json, saved};
use crate::{stderr, stdout, stormlp};

/// The cells of a quick matrix with these options.
fn cells(words: &str) -> Vec<Value> {
    let folder = folder();
    let words = format!("--file-size 4M --threads 2 --duration 1x --format json {words}");
    let json = stdout(gds(folder.path(), &words).assert().success());
    let report: Value = serde_json::from_str(&json).unwrap();
    report["cells"].as_array().unwrap().clone()
}

/// Whether each of these cells was synced.
fn synced(cells: &[Value]) -> Vec<bool> {
    cells.iter().map(|cell| cell["fsync_seconds"].is_f64()).collect()
}

#[test]
fn writes_through_the_page_cache_are_synced_unless_that_is_declined() {
    let words = "--path buffered,page-cache,cpu --op write,read";
    let first = [true, true, false, false, false, false];
    assert_eq!(synced(&cells(words)), first);
    assert_eq!(synced(&cells(&format!("{words} --fsync none"))), [false; 6]);
    let all = [true, true, true, false, false, false];
    assert_eq!(synced(&cells(&format!("{words} --fsync end"))), all);
}

#[test]
fn the_header_shows_when_files_are_synced_and_a_wrong_word_is_refused() {
    let folder = folder();
    let words = "--file-size 4M --threads 1 --duration 1x --path buffered,cpu --op write";
    let message = stdout(gds(folder.path(), words).assert().success());
    assert!(message.contains("writes through the page cache end with one"), "{message}");
    let plan =
        stdout(gds(folder.path(), &format!("{words} --fsync none --dry-run")).assert().success());
    assert!(plan.contains("the data may not have reached storage"), "{plan}");
    let wrong = stderr(gds(folder.path(), "--fsync always").assert().code(2));
    assert!(wrong.contains("auto") && wrong.contains("none") && wrong.contains("end"), "{wrong}");
}

#[test]
fn an_unsynced_buffered_write_wins_no_comparison() {
    let folder = folder();
    let words =
        "--file-size 4M --threads 1 --duration 1x --path buffered,cpu --op write --fsync none";
    let message = stdout(gds(folder.path(), words).assert().success());
    assert!(!message.contains("× the throughput"), "{message}");
}

#[test]
fn gdsio_does_not_sync_and_reports_what_reached_storage() {
    let folder = folder();
    let words = "gdsio -D d -w 2 -s 1M -i 64K -x 4 -I 1";
    let assert =
        stormlp().current_dir(folder.path()).args(words.split_whitespace()).assert().success();
    let message = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    let report = read_json(&saved(folder.path()));
    let storage = &report["host"]["storage"][0];
    let told = match (storage["file_system"].as_str(), &report["cells"][0]["device_written_bytes"])
    {
        (Some("tmpfs"), _) => "these files live in memory (tmpfs",
        (_, Value::Null) => "2 threads: it wrote 2 MiB to the page cache and did not sync",
        _ => "of the 2 MiB it wrote had reached ",
    };
    assert!(message.contains(told), "{told}: {message}");
    assert!(stdout(assert).starts_with("IoType: WRITE XferType: CPU_CACHED_GPU "));
}

#[test]
fn pages_are_as_requested_and_reported() {
    let small = cells("--path cpu --tune pages=small");
    assert_eq!(small[0]["buffers_backing"], "small_pages");
    let folder = folder();
    let words = "--file-size 4M --threads 1 --duration 1x --path cpu --tune pages=small";
    let message = stdout(gds(folder.path(), words).assert().success());
    assert!(message.contains("on small pages (small pages requested)"), "{message}");
    assert!(!message.contains("transparent_hugepage/enabled"), "no advice against it: {message}");
    let wrong = stderr(gds(folder.path(), "--tune pages=tiny").assert().code(2));
    assert!(wrong.contains("huge") && wrong.contains("small"), "{wrong}");
}

#[test]
fn percentiles_of_few_transfers_are_blank() {
    let cell = &cells("--path cpu --io-size 1M")[0];
    assert_eq!(cell["operations"], 8);
    let latency = &cell["latency_us"];
    assert!(latency["p50"].is_f64() && latency["p90"].is_null(), "{latency}");
    assert!(latency["p99"].is_null() && latency["p999"].is_null(), "{latency}");
}

#[test]
fn a_repeated_timed_cell_reports_device_traffic_and_warnings_are_grouped() {
    let folder = folder();
    let words = "--file-size 64K --threads 1 --duration 60ms --path cpu,buffered \
                 --io-size 4K,8K,16K,32K";
    let message = stdout(gds(folder.path(), words).assert().success());
    assert!(message.contains("it covered its files") && message.contains(" times: "), "{message}");
    let short: Vec<&str> =
        message.lines().filter(|line| line.contains("the cell ran for")).collect();
    assert_eq!(short.len(), 1, "{message}");
    assert!(short[0].contains("(and 7 more like it)"), "{message}");
}

/// A file of 8 MiB of which the first half was written.
fn half_a_file(folder: &std::path::Path) {
    let file = std::fs::File::create(folder.join("half")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &vec![7; 4 << 20], 0).unwrap();
    file.sync_all().unwrap();
    file.set_len(8 << 20).unwrap();
}

#[test]
fn a_sparse_file_is_named_and_wins_no_comparison() {
    let folder = folder();
    half_a_file(folder.path());
    let words = "--file half --threads 1 --duration 1x --path cpu,buffered --io-size 64K";
    let text = stdout(gds(folder.path(), words).assert().success());
    assert!(text.contains("50 % of half are holes or unwritten"), "{text}");
    assert!(!text.contains("× the throughput"), "{text}");
    assert!(text.contains("cpu (reading holes)"), "{text}");
    let mut gdsio = stormlp();
    gdsio.args("gdsio -x 1 -I 0 -i 64K -f half".split(' '));
    let done = gdsio.current_dir(folder.path()).assert().success();
    let message = stderr(done);
    assert!(message.contains("50 % of half are holes"), "{message}");
    // A file that is written first has no holes any more.
    let text = stdout(
        gds(folder.path(), &format!("{words} --op write,read --destroy-data")).assert().success(),
    );
    assert!(!text.contains("holes"), "{text}");
    let text = stdout(gds(folder.path(), words).assert().success());
    assert!(!text.contains("holes"), "{text}");
}

#[test]
fn a_sparse_test_file_is_reported_with_its_remedy() {
    let folder = folder();
    let words = "--dir data --threads 1 --file-size 8M --duration 1x --path cpu,buffered";
    let text = stdout(gds(folder.path(), words).assert().success());
    assert!(!text.contains("holes"), "{text}");
    let file = folder.path().join("data/stormlp.0");
    // The same file as before, of which the second half is lost.
    let opened = std::fs::File::options().write(true).open(&file).unwrap();
    opened.set_len(4 << 20).unwrap();
    opened.set_len(8 << 20).unwrap();
    let text = stdout(gds(folder.path(), words).assert().success());
    assert!(text.contains("50 % of data/stormlp.0 are holes or unwritten"), "{text}");
    assert!(text.contains("remove it, so that it is created again"), "{text}");
    assert!(!text.contains("× the throughput"), "{text}");
    std::fs::remove_file(&file).unwrap();
    let text = stdout(gds(folder.path(), words).assert().success());
    assert!(!text.contains("holes"), "{text}");
}

#[test]
fn a_mix_is_named_by_its_shares() {
    let folder = folder();
    let words =
        "--path cpu --op randread --read-percent 70 --threads 1 --file-size 1M --duration 1x";
    let plan = stdout(gds(folder.path(), &format!("{words} --dry-run")).assert().success());
    let text = stdout(gds(folder.path(), words).assert().success());
    for text in [plan, text] {
        assert!(text.contains("randrw 70/30") && !text.contains("randread"), "{text}");
    }
}
