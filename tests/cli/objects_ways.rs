//! Object stores: how transfers are verified, over how many connections.

use stormlp_test_support::{Fault, ObjectServer};

use super::objects::{CHECKPOINT, DATASET, GDS, TRAIN, run};

/// The evidence about the object store of the first cell, or of the part of this name.
fn store(out: &str, part: &str) -> serde_json::Value {
    let report: serde_json::Value = serde_json::from_str(out).unwrap();
    match report["cells"].as_array() {
        Some(cells) => cells[0]["evidence"]["object_store"].clone(),
        None => {
            let mut parts = report["evidence"].as_array().unwrap().iter();
            let named = parts.find(|one| part.is_empty() || one["name"] == part).unwrap();
            named["object_store"].clone()
        }
    }
}

#[test]
fn objects_that_are_read_whole_are_checked_by_their_checksums() {
    let server = ObjectServer::default();
    let whole = format!("{} --checksum crc --format json", GDS.replace("256K", "1M"));
    let (code, out, error) = run(&server, &whole);
    assert_eq!(code, 0, "{out}{error}");
    let checksums = &store(&out, "")["checksums"];
    assert_eq!(checksums["checked_bytes"], 2 << 20, "{checksums}");
    assert_eq!(checksums["responses_unverified"], 0, "{checksums}");
    // Ranges have none, but together they are the object.
    let ranges = format!("{GDS} --checksum crc");
    let (code, out, error) = run(&server, &format!("{ranges} --format json"));
    assert_eq!(code, 0, "{error}");
    let checksums = &store(&out, "")["checksums"];
    assert_eq!(checksums["checked_bytes"], 2 << 20, "{checksums}");
    assert_eq!(checksums["responses_unverified"], 0, "{checksums}");
    let (_, out, _) = run(&server, &ranges);
    assert!(out.contains("verified  2 MiB by checksum\n"), "{out}");
    server.trap("GET /bucket/p/stormlp.0?", usize::MAX, Fault::Corrupt);
    let (code, out, error) = run(&server, &format!("{GDS} --checksum crc"));
    server.forgive();
    assert_eq!(code, 5, "{out}{error}");
    let said = format!("{out}{error}");
    assert!(said.contains("GET s3://bucket/p/stormlp.0 at byte 0: its CRC64NVME is"), "{said}");
    // A transfer that was about to be compared is not reported as one without a checksum.
    assert!(!said.contains("verification by checksums"), "{said}");
    // Sizes and ETags alone do not see this.
    let corrupt = || server.trap("GET /bucket/p/stormlp.0?", usize::MAX, Fault::Corrupt);
    corrupt();
    let (code, out, error) = run(&server, &whole);
    assert_eq!(code, 5, "{out}{error}");
    let said = format!("{out}{error}");
    assert!(said.contains("GET s3://bucket/p/stormlp.0 at byte 0: its CRC64NVME is"), "{said}");
    let (code, out, error) = run(&server, &whole.replace(" --checksum crc", ""));
    assert_eq!(code, 0, "{out}{error}");
    assert!(store(&out, "")["checksums"].is_null(), "{out}");
}

#[test]
fn a_run_that_verified_nothing_says_so_on_every_screen() {
    let server = ObjectServer::default();
    // These objects have no checksums.
    assert_eq!(run(&server, GDS).0, 0);
    let many = GDS.replace("--io-size 256K", "--io-size 64K,128K,256K,512K --op read,randread");
    let (code, out, error) = run(&server, &format!("{many} --checksum crc"));
    assert_eq!(code, 0, "{out}{error}");
    assert!(out.contains("verified  nothing; 120 replies had no checksum"), "{out}");
    assert!(out.contains("no bytes were verified"), "{out}");
    // An endpoint need not repeat the checksum that it was sent.
    let silent = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nETag: \"x\"\r\n\r\n".to_vec();
    server.trap("PUT /bucket/p/stormlp.0.put/", usize::MAX, Fault::Raw(silent.clone()));
    server.trap("PUT /bucket/p/stormlp.1.put/", usize::MAX, Fault::Raw(silent));
    let (code, out, error) = run(&server, &format!("{GDS} --op write --checksum crc"));
    assert_eq!(code, 0, "{out}{error}");
    let said = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("did not repeat the checksum sent"), "{out}");
    assert!(!said.contains("checksum of the data read"), "{out}");
}

/// Two objects of 40 MB.
fn large(command: &str) -> String {
    let command = command.replace("--files 12", "--files 2").replace("=40000 ", "=40000000 ");
    command.replace("--params reader.batch_size=2", "--params reader.batch_size=1")
}

#[test]
fn objects_that_are_trained_on_in_ranges_are_compared_with_what_head_tells() {
    let server = ObjectServer::default();
    let made = large(&DATASET.replacen(" --params", " --checksum crc --params", 1));
    let (code, out, error) = run(&server, &made);
    assert_eq!(code, 0, "{out}{error}");
    assert!(out.contains("by checksum"), "{out}");
    for edition in ["native", "3.0"] {
        let more = format!(" --checksum crc --edition {edition} --params");
        let train = large(&TRAIN.replacen(" --params", &more, 1));
        let before = server.ranges();
        let (code, out, error) = run(&server, &train);
        assert_eq!(code, 6, "{out}{error}");
        assert!(server.ranges() - before > 4, "{edition}");
        let checksums = &store(&out, "")["checksums"];
        assert!(checksums["checked_bytes"].as_u64().unwrap() >= 4 * 39_000_000, "{checksums}");
        assert_eq!(checksums["responses_unverified"], 0, "{edition}: {checksums}");
        server.trap("GET /bucket/d/set/train/img_1_of_2", usize::MAX, Fault::Corrupt);
        let (code, out, error) = run(&server, &train);
        assert_eq!(code, 5, "{out}{error}");
        assert!(error.contains("img_1_of_2.npz"), "{error}");
        server.forgive();
    }
}

/// Four objects of 40 records.
const RECORDS: &str = "--params dataset.record_length_bytes=40000 \
                       --params dataset.record_length_bytes_stdev=0 --params dataset.num_samples_per_file=40";

#[test]
fn objects_of_records_are_compared_if_one_thread_reads_all_of_each() {
    let server = ObjectServer::default();
    let made = format!("datagen resnet50 --dir s3://bucket/r --files 4 --checksum crc {RECORDS}");
    let (code, out, error) = run(&server, &made);
    assert_eq!(code, 0, "{out}{error}");
    let train = |more: &str| {
        let (code, out, error) = run(
            &server,
            &format!(
                "train resnet50 --dir s3://bucket/r --checksum crc --format json --epochs 1 \
                 --params reader.batch_size=4 --compute-time 0 {more} {RECORDS}"
            ),
        );
        assert_eq!(code, 6, "{out}{error}");
        let said = out.contains("not_verified");
        assert!(!out.contains("replies had no checksum"), "{out}");
        (store(&out, "")["checksums"].clone(), said)
    };
    let (alone, said) = train("--threads 1");
    assert!(!said && alone["checked_bytes"].as_u64() > Some(0), "{alone}");
    assert_eq!(alone["responses_unverified"], 0, "{alone}");
    let (shared, said) = train("--threads 4");
    assert_eq!(said, shared["ranges_unverified"].as_u64() > Some(0), "{shared}");
    assert_eq!(shared["ranges_unverified"], shared["responses_unverified"], "{shared}");
}

#[test]
fn datasets_and_checkpoints_have_checksums_from_end_to_end() {
    let server = ObjectServer::default();
    let made = DATASET.replacen(" --params", " --checksum crc --params", 1);
    let (code, out, error) = run(&server, &made);
    assert_eq!(code, 0, "{out}{error}");
    let train = TRAIN.replacen(" --params", " --checksum crc --params", 1);
    let (code, out, error) = run(&server, &train);
    assert_eq!(code, 6, "{out}{error}");
    let checksums = &store(&out, "")["checksums"];
    assert!(checksums["checked_bytes"].as_u64().unwrap() >= 24 * 40_000, "{checksums}");
    assert_eq!(checksums["responses_unverified"], 0, "{checksums}");
    server.trap("GET /bucket/d/set/train/img_03", usize::MAX, Fault::Corrupt);
    let (code, out, error) = run(&server, &train);
    assert_eq!(code, 5, "{out}{error}");
    assert!(error.contains("img_03_of_12.npz at byte 0: its CRC64NVME"), "{error}");

    let (code, out, error) = run(&server, &format!("{CHECKPOINT} --checksum crc"));
    assert_eq!(code, 0, "{out}{error}");
    let (_, shown, error) =
        run(&server, &format!("{} --checksum crc", CHECKPOINT.replace(" --format json", "")));
    assert!(shown.contains("restores verified"), "{shown}{error}");
    for part in ["saves", "restores"] {
        let checksums = &store(&out, part)["checksums"];
        assert!(checksums["checked_bytes"].as_u64().unwrap() > 0, "{part}: {checksums}");
        assert_eq!(checksums["responses_unverified"], 0, "{part}: {checksums}");
    }
}

#[test]
fn an_upload_whose_checksum_the_endpoint_does_not_find_fails() {
    let server = ObjectServer::default();
    let put = "PUT /bucket/d/set/train/img_05";
    server.trap(put, usize::MAX, Fault::Refuse(400, "BadDigest"));
    let made = DATASET.replacen(" --params", " --checksum crc --params", 1);
    let (code, out, error) = run(&server, &made);
    assert_eq!(code, 5, "{out}{error}");
    assert!(error.contains("img_05_of_12.npz") && error.contains("BadDigest"), "{error}");
    assert!(error.contains("changed on its way, or in memory"), "{error}");
}

#[test]
fn what_only_objects_have_is_refused_for_files() {
    let server = ObjectServer::default();
    for (arguments, expected) in [
        ("gds --dir here --path cpu --checksum crc", "checksum `crc` is for objects"),
        ("gds --dir here --path cpu --checksum none", "checksum `none` is for objects"),
        ("checkpoint tiny.yaml --dir here --checksum crc", "checksum `crc` is for objects"),
        ("datagen unet3d --dir here --files 1 --checksum crc", "no effect on files"),
        ("datagen unet3d --dir here --files 1 --checksum content", "use none, size or crc"),
        ("datagen unet3d --dir here --files 1 --check --resume", "cannot be used with"),
        ("kvcache serving --dir here --engine tokio-uring", "no path for chunks"),
        ("gds --dir s3://bucket/p --checksum md5", "is not a way to verify"),
        ("gds --dir s3://bucket/p --checksum content", "--verify compares every byte"),
    ] {
        let (code, out, error) = run(&server, arguments);
        assert!(code == 2 || code == 3, "{arguments}: {code} {out}{error}");
        assert!(error.contains(expected), "{arguments}: {error}");
    }
}

#[test]
fn a_thread_has_as_many_connections_as_its_depth() {
    let server = ObjectServer::default();
    // Time enough for all of them.
    let late = Fault::Late(std::time::Duration::from_millis(50));
    server.trap("/bucket/p/stormlp.", usize::MAX, late);
    let deep = format!("{} --queue-depth 3 --format json", GDS.replace("1M", "2M"));
    let (code, out, error) = run(&server, &format!("{deep} --op read,write"));
    assert_eq!(code, 0, "{out}{error}");
    assert!(!out.contains("makes blocking calls"), "{out}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    for cell in report["cells"].as_array().unwrap() {
        let store = &cell["evidence"]["object_store"];
        let connections = store["connections"].as_u64().unwrap();
        // Two threads; a connection without work is not opened.
        assert!((3..=6).contains(&connections), "{store}");
        assert_eq!(cell["operations"], 16);
    }
}

#[test]
fn parts_of_an_object_travel_together_and_are_aborted_together() {
    let server = ObjectServer::default();
    let large = DATASET.replace("--files 12", "--files 1").replace("=40000", "=70000000");
    server.trap("partNumber", 4, Fault::Late(std::time::Duration::from_millis(300)));
    let (code, out, error) = run(&server, &format!("{large} --threads 1"));
    assert_eq!(code, 0, "{out}{error}");
    assert!(server.most_at_once() >= 2, "{}", server.most_at_once());
    let (code, out, error) = run(&server, &large.replacen(" --params", " --check --params", 1));
    assert_eq!(code, 0, "{out}{error}");

    server.trap("partNumber=3", usize::MAX, Fault::Refuse(403, "AccessDenied"));
    let again = large.replace("d/set", "d/other");
    let (code, out, error) = run(&server, &again);
    assert_eq!(code, 5, "{out}{error}");
    assert!(error.contains("upload part 3 of s3://bucket/d/other/train/img_0_of_1"), "{error}");
    assert!(server.pending().is_empty(), "{:?}", server.pending());
}

#[test]
fn a_checkpoint_has_sixteen_connections_or_those_that_are_asked_for() {
    let server = ObjectServer::default();
    let planned = |more: &str| {
        let (code, out, error) = run(&server, &format!("{CHECKPOINT} --dry-run{more}"));
        assert_eq!(code, 0, "{error}");
        let plan: serde_json::Value = serde_json::from_str(&out).unwrap();
        [&plan["save"], &plan["restore"]].map(|transport| {
            ["threads", "queue_depth", "window"].map(|key| transport[key].as_u64().unwrap())
        })
    };
    assert_eq!(planned(""), [[8, 2, 2], [8, 2, 2]]);
    assert_eq!(planned(" --queue-depth 4"), [[8, 4, 4], [8, 4, 4]]);
    let (code, out, error) = run(&server, &format!("{CHECKPOINT} --queue-depth 3"));
    assert_eq!(code, 0, "{out}{error}");
}

#[test]
fn a_store_that_redirects_each_object_is_followed_and_says_so() {
    let store = ObjectServer::default();
    let gateway = store.gateway();
    let (code, out, error) = run(&gateway, &format!("{GDS} --op read,write --format json"));
    assert_eq!(code, 0, "{out}{error}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    for cell in report["cells"].as_array().unwrap() {
        let store = &cell["evidence"]["object_store"];
        assert!(store["redirects"].as_u64().unwrap() >= 8 && store["retries"] == 0, "{store}");
        assert_eq!(store["endpoint"], gateway.endpoint());
        let told = cell["evidence"]["summary"].as_str().unwrap();
        assert!(told.contains("which redirects requests"), "{told}");
    }
    let large = DATASET.replace("--files 12", "--files 1").replace("=40000", "=20000000");
    let check = large.replacen(" --params", " --check --params", 1);
    for line in [&large, &check, CHECKPOINT, "clean s3://bucket/p", "doctor s3://bucket/d"] {
        let (code, out, error) = run(&gateway, line);
        assert_eq!(code, 0, "{line}: {out}{error}");
    }
}
