//! `stormlp kvcache serving` over a bucket: chunks are objects.

use serde_json::Value;
use stormlp_test_support::{Fault, ObjectServer};

use crate::objects::run;

fn words(more: &str) -> String {
    format!(
        "kvcache serving tiny-1b --dir s3://bucket/kv --duration 1s --quiet --prefixes 4 \
         --tune telemetry=off,writers=1 --concurrency 2 {more}"
    )
}

/// Chunks of 1.5 MB, and of 25 MB, which are uploaded in parts.
const SMALL: &str = "--chunk-tokens 64 --prefix-tokens 128";
const LARGE: &str = "--chunk-tokens 1024 --prefix-tokens 1024";

fn chunks(server: &ObjectServer) -> usize {
    server.keys().iter().filter(|key| key.starts_with("kv/chunk_")).count()
}

#[test]
fn prefixes_are_loaded_from_objects_and_clean_removes_them_and_nothing_else() {
    let server = ObjectServer::default();
    server.put("hers", b"x");
    // Room for the first prefixes alone, so that new ones delete old ones.
    let room = format!("{SMALL} --capacity 13M --tune reuse=1 --no-cleanup --verify");
    let (code, out, error) = run(&server, &words(&format!("{room} --format json")));
    assert_eq!(code, 0, "{out}{error}");
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["evidence"][0]["effective_path"], "s3");
    let trial = &json["trials"][0];
    let loads = trial["prompts"]["loads"].as_array().unwrap();
    assert!(loads.iter().any(|of| of["tokens"].as_u64() > Some(0)), "{trial:#}");
    assert!(trial["evictions"]["deleted"].as_u64() > Some(0), "{trial:#}");
    assert!(trial["residency"].is_null(), "objects are in no cache of this machine");
    assert!((1..=8).contains(&chunks(&server)), "{:?}", server.keys());
    let (code, out, error) = run(&server, "clean s3://bucket/kv");
    assert_eq!(code, 0, "{out}{error}");
    assert_eq!(server.keys(), ["hers"]);
}

#[test]
fn large_chunks_are_uploaded_in_parts_and_a_trial_leaves_nothing() {
    let server = ObjectServer::default();
    let (code, out, error) = run(&server, &words(&format!("{LARGE} --verify --details")));
    assert_eq!(code, 0, "{out}{error}");
    assert!(out.contains("0 retries;"), "requests are on the screen: {out}");
    assert!(server.lines().iter().any(|line| line.contains("partNumber=2")));
    assert!(server.pending().is_empty());
    assert_eq!(chunks(&server), 0);
}

#[test]
fn what_a_killed_run_or_somebody_else_left_is_told_apart() {
    let server = ObjectServer::default();
    // The endpoint fails in the middle, and for good.
    server.trap("DELETE /bucket/kv/chunk_", usize::MAX, Fault::Refuse(403, "AccessDenied"));
    server.trap("POST /bucket/?delete", usize::MAX, Fault::Refuse(403, "AccessDenied"));
    let (code, _, error) = run(&server, &words(&format!("{SMALL} --capacity 13M")));
    assert_eq!(code, 5, "{error}");
    assert!(chunks(&server) > 0);
    server.forgive();
    // Existing objects are known, and removed by the next run; uploads of chunks are aborted.
    server.leave_upload("kv/chunk_0000000000000001.npy");
    server.leave_upload("kv/hers");
    let (code, _, error) = run(&server, &words(SMALL));
    assert_eq!((code, chunks(&server)), (0, 0), "{error}");
    assert_eq!(server.pending(), ["kv/hers"]);
    server.put("kv/hers.npy", b"x");
    let (code, _, error) = run(&server, &words(SMALL));
    assert_eq!(code, 4, "{error}");
    assert!(
        error.contains("s3://bucket/kv contains hers.npy, which stormlp did not make"),
        "{error}"
    );
}

#[test]
fn an_object_that_is_removed_during_the_run_is_named_with_what_to_do() {
    let server = ObjectServer::default();
    server.trap("GET /bucket/kv/chunk_", 1, Fault::Refuse(404, "NoSuchKey"));
    let (code, out, error) = run(&server, &words(SMALL));
    assert_eq!(code, 5, "{out}{error}");
    assert!(error.contains("s3://bucket/kv/chunk_") && error.contains("404 NoSuchKey"), "{error}");
    assert!(error.contains("something removed it during the run"), "{error}");
    assert!(!out.contains("GiB/s"), "{out}");
}

#[test]
fn what_objects_cannot_do_is_refused() {
    let server = ObjectServer::default();
    for (more, says) in [
        ("--tune layout=packed", "use --tune layout=files"),
        ("--path cpu", "leave --path out"),
        ("--io-size 1M", "a chunk is read by one request"),
    ] {
        let (code, _, error) = run(&server, &words(&format!("{SMALL} {more}")));
        assert_eq!(code, 3, "{error}");
        assert!(error.contains(says), "{error}");
    }
    let (code, _, error) = run(&server, "kvcache mlperf tiny-1b --users 1 --dir s3://bucket/kv");
    assert_eq!(code, 3, "{error}");
    assert!(error.contains("use `stormlp kvcache serving`"), "{error}");
    let (code, _, error) = run(&server, "kvcache serving --path s3 --dir kv");
    assert_eq!(code, 3, "{error}");
    assert!(error.contains("use --dir s3://bucket/prefix"), "{error}");
    assert!(server.keys().is_empty(), "{:?}", server.keys());
}
