//! Object stores, as a user sees them: an endpoint that works, one that fails, and foreign objects.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use assert_cmd::Command;
use stormlp_test_support::{Fault, ObjectServer};

/// The executable in `folder`, with the server's address and without this user's settings.
fn stormlp(server: &ObjectServer, folder: &Path, arguments: &str) -> Command {
    let mut command = super::stormlp();
    command.current_dir(folder).env("HOME", folder).envs(server.variables());
    for variable in ["AWS_ENDPOINT_URL_S3", "AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_CONFIG_FILE"] {
        command.env_remove(variable);
    }
    command.args(arguments.split(' '));
    command
}

/// Runs it: exit code, stdout and stderr.
pub(crate) fn run(server: &ObjectServer, arguments: &str) -> (i32, String, String) {
    let folder = tempfile::tempdir().unwrap();
    run_in(folder.path(), server, arguments)
}

/// The errors of a run with another, useless endpoint at `address`.
pub(super) fn failed_at(address: SocketAddr, arguments: &str) -> String {
    let (server, folder) = (ObjectServer::default(), tempfile::tempdir().unwrap());
    let mut command = stormlp(&server, folder.path(), arguments);
    let output = command.env("AWS_ENDPOINT_URL", format!("http://{address}")).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(5), "{error}");
    assert!(error.contains("AWS_ENDPOINT_URL"), "{error}");
    error
}

/// The same with arguments that have spaces.
fn run_words(server: &ObjectServer, words: &[&str]) -> (i32, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let output = stormlp(server, folder.path(), words[0]).args(&words[1..]).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

pub(super) fn run_in(
    folder: &Path,
    server: &ObjectServer,
    arguments: &str,
) -> (i32, String, String) {
    std::fs::write(folder.join("tiny.yaml"), super::checkpoint::TINY).unwrap();
    let output = stormlp(server, folder, arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

pub(super) const GDS: &str =
    "gds --dir s3://bucket/p --io-size 256K --file-size 1M --threads 2 --duration 1x";

#[test]
fn gds_measures_objects_and_clean_removes_them_and_nothing_else() {
    let server = ObjectServer::default();
    server.put("p/mine", b"somebody else's");
    let (code, out, error) = run(&server, &format!("{GDS} --op read,write"));
    assert_eq!(code, 0, "{out}{error}");
    assert!(out.contains("s3") && !format!("{out}{error}").contains("the-secret"), "{out}{error}");
    assert!(server.keys().iter().any(|key| key.starts_with("p/stormlp.0.put/")));
    let (code, out, error) = run(&server, "clean s3://bucket/p --dry-run");
    assert_eq!((code, server.keys().len() > 3), (0, true), "{out}{error}");
    let (code, out, error) = run(&server, "clean s3://bucket/p");
    assert_eq!(code, 0, "{out}{error}");
    assert_eq!(server.keys(), ["p/mine"]);
    let (code, _, error) = run(&server, "clean s3://bucket/p");
    assert_eq!(code, 4, "{error}");
    assert!(error.contains("did not create"), "{error}");
}

#[test]
fn an_object_among_those_that_writes_put_is_left_unless_stormlp_put_it() {
    let server = ObjectServer::default();
    assert_eq!(run(&server, &format!("{GDS} --op read,write")).0, 0);
    server.put("p/stormlp.0.put/7", b"hers");
    let (code, out, error) = run(&server, &format!("{GDS} --op write"));
    assert_eq!(code, 4, "{out}{error}");
    assert!(error.contains("s3://bucket/p/stormlp.0.put/7 is an object without"), "{error}");
    let (code, out, error) = run(&server, "clean s3://bucket/p");
    assert_eq!(code, 0, "{out}{error}");
    assert!(error.contains("left s3://bucket/p/stormlp.0.put/7"), "{error}");
    assert_eq!(server.keys(), ["p/stormlp.0.put/7"]);
}

#[test]
fn times_to_first_byte_are_in_every_format_and_whole_objects_have_no_range() {
    let server = ObjectServer::default();
    let whole = GDS.replace("256K", "1M");
    let (code, out, error) = run(&server, &format!("{whole} --format json"));
    assert_eq!(code, 0, "{error}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let cell = &report["cells"][0];
    let first_byte = &cell["evidence"]["object_store"]["first_byte"];
    assert_eq!(first_byte["count"], cell["operations"], "{first_byte}");
    let [first, all] =
        [&first_byte["summary_us"], &cell["latency_us"]].map(|us| us["mean"].as_f64().unwrap());
    assert!(first > 0.0 && first <= all, "{first} of {all} µs");
    let ranged = |arguments: &str| {
        let before = server.ranges();
        assert_eq!(run(&server, arguments).0, 0);
        server.ranges() - before
    };
    // Requests for the manifest and the first bytes remain, the same for both.
    assert!(ranged(&whole) + 6 <= ranged(GDS));
    let (_, out, _) = run(&server, &format!("{whole} --format csv"));
    assert!(out.contains("first_byte_us_p50"), "{out}");
    let (_, out, _) = run(&server, &format!("{whole} --details"));
    assert!(out.contains("first byte mean µs"), "{out}");
    let (_, out, _) = run(&server, &format!("{whole} --format html"));
    assert!(out.contains("s3, first byte"), "{out}");
    let (_, out, _) = run(&server, &format!("{whole} --format openmetrics"));
    assert!(out.contains("\nstormlp_gds_first_byte_p50_seconds{"), "{out}");
}

#[test]
fn nothing_is_said_of_the_file_system_here_or_of_syncs() {
    let server = ObjectServer::default();
    let (code, out, error) = run(&server, &format!("{GDS} --op write --details"));
    assert_eq!(code, 0, "{out}{error}");
    for word in ["fsync", "storage  "] {
        assert!(!out.contains(word), "{word}: {out}");
    }
    let (_, out, _) = run(&server, &format!("{GDS} --op write --format json"));
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["host"]["storage"], serde_json::json!([]));
}

#[test]
fn connections_are_dealt_over_several_endpoints() {
    let server = ObjectServer::default();
    let folder = tempfile::tempdir().unwrap();
    let localhost = server.endpoint().replace("127.0.0.1", "localhost");
    let both = format!("{},{localhost}", server.endpoint());
    let mut command = stormlp(&server, folder.path(), &format!("{GDS} --format json"));
    let output = command.env("AWS_ENDPOINT_URL", &both).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let endpoint = report["cells"][0]["evidence"]["object_store"]["endpoint"].as_str().unwrap();
    assert!(endpoint.contains("127.0.0.1") && endpoint.contains("localhost"), "{endpoint}");
}

#[test]
fn endpoints_of_separate_stores_are_refused_before_anything_is_measured() {
    let (one, other) = (ObjectServer::default(), ObjectServer::default());
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(run(&one, DATASET).0, 0);
    for arguments in [GDS, TRAIN, &DATASET.replace("d/set", "d/more")] {
        let both = format!("{},{}", one.endpoint(), other.endpoint());
        let mut command = stormlp(&one, folder.path(), arguments);
        let output = command.env("AWS_ENDPOINT_URL", both).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(matches!(output.status.code(), Some(4 | 5)), "{arguments}: {error}");
        assert!(error.contains("they are separate stores"), "{arguments}: {error}");
        assert!(error.contains(&other.endpoint()), "{arguments}: {error}");
    }
    assert!(other.keys().is_empty(), "{:?}", other.keys());
}

#[test]
fn an_object_that_the_endpoint_keeps_is_named() {
    let server = ObjectServer::default();
    assert_eq!(run(&server, GDS).0, 0);
    server.trap("POST /bucket/?delete", 1, Fault::Keep("p/stormlp.1"));
    let (code, _, error) = run(&server, "clean s3://bucket/p");
    assert_eq!(code, 5, "{error}");
    assert!(error.contains("s3://bucket/p/stormlp.1") && error.contains("AccessDenied"), "{error}");
    assert!(error.contains("permission"), "{error}");
    assert_eq!(run(&server, "clean s3://bucket/p").0, 0);
    assert!(server.keys().is_empty(), "{:?}", server.keys());
}

#[test]
fn an_object_that_somebody_replaced_is_left() {
    let server = ObjectServer::default();
    assert_eq!(run(&server, GDS).0, 0);
    server.put("p/stormlp.1", &vec![7; 1 << 20]);
    let (code, _, error) = run(&server, "clean s3://bucket/p");
    assert_eq!(code, 0, "{error}");
    assert!(error.contains("left s3://bucket/p/stormlp.1"), "{error}");
    assert!(server.keys().contains(&"p/stormlp.1".to_string()), "{:?}", server.keys());
    assert!(!server.keys().contains(&"p/stormlp.0".to_string()));
}

/// Twelve objects of 40 KiB, or two that need an upload in parts.
pub(super) const DATASET: &str = "datagen unet3d --dir s3://bucket/d/set --files 12 --params \
                       dataset.record_length_bytes=40000 --params dataset.record_length_bytes_stdev=0";

fn train_keys(server: &ObjectServer) -> Vec<String> {
    server.keys().into_iter().filter(|key| key.starts_with("d/set/train/")).collect()
}

#[test]
fn a_dataset_is_made_read_and_removed() {
    let server = ObjectServer::default();
    server.put("d/hers", b"x");
    let (code, out, error) = run(&server, DATASET);
    assert_eq!(code, 0, "{out}{error}");
    server.put("d/set/train/notes.txt", b"x");
    assert!(out.contains("PUT and uploads over HTTP") && out.contains("Server: test"), "{out}");
    assert_eq!(train_keys(&server).len(), 13);
    assert!(server.keys().contains(&"d/set/.stormlp-manifest.json".to_string()));
    assert!(!server.keys().iter().any(|key| key.contains("journal")), "{:?}", server.keys());
    // The objects are those that files would be.
    let folder = tempfile::tempdir().unwrap();
    let files = DATASET.replace("s3://bucket/d/set", "set");
    assert_eq!(run_in(folder.path(), &server, &files).0, 0);
    for key in train_keys(&server).iter().filter(|key| key.ends_with(".npz")) {
        let file = folder.path().join("set").join(key.strip_prefix("d/set/").unwrap());
        assert_eq!(server.object(key).unwrap(), std::fs::read(file).unwrap(), "{key}");
    }
    let (code, out, error) = run(&server, &DATASET.replacen(" --params", " --check --params", 1));
    assert_eq!(code, 0, "{out}{error}");
    let (code, _, error) = run(&server, DATASET);
    assert_eq!(code, 4, "{error}");
    assert!(error.contains("this dataset already"), "{error}");

    // Without compute there is no utilisation to meet a target with.
    let (code, out, error) = run(&server, TRAIN);
    assert_eq!(code, 6, "{out}{error}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let store = &report["evidence"][0]["object_store"];
    assert_eq!(store["endpoint"], server.endpoint());
    assert_eq!(store["retries"], 0);
    // Two epochs of twelve samples, each one GET, on as many connections as there are threads.
    assert!(store["requests"].as_u64().unwrap() >= 24, "{store}");
    assert!(store["connections"].as_u64().unwrap() <= 16, "{store}");
    assert_eq!(report["evidence"][0]["effective_path"], "s3");
    let (_, out, _) = run(&server, &TRAIN.replace("--format json", "--details"));
    assert!(out.contains("first byte"), "{out}");
    let (_, out, _) = run(&server, &TRAIN.replace("--format json", "--format openmetrics"));
    assert!(out.contains("\nstormlp_train_first_byte_p50_seconds{"), "{out}");
    assert!(!format!("{out}{error}").contains("the-secret"));

    let (code, out, error) = run(&server, "clean s3://bucket/d");
    assert_eq!(code, 0, "{out}{error}");
    assert!(out.contains("removed 12 objects"), "{out}");
    assert_eq!(server.keys(), ["d/hers", "d/set/train/notes.txt"]);
}

pub(super) const TRAIN: &str = "train unet3d --dir s3://bucket/d/set --format json --epochs 2 \
                     --params reader.batch_size=2 --compute-time 0 --params dataset.record_length_bytes=40000 \
                     --params dataset.record_length_bytes_stdev=0";

#[test]
fn large_objects_are_uploaded_in_parts_with_the_same_bytes() {
    let server = ObjectServer::default();
    let large = DATASET.replace("--files 12", "--files 2").replace("=40000", "=40000000");
    let (code, out, error) = run(&server, &large);
    assert_eq!(code, 0, "{out}{error}");
    assert!(server.pending().is_empty());
    let lines = server.lines();
    assert!(lines.iter().any(|line| line.contains("partNumber=3")), "{lines:?}");
    let (code, out, error) = run(&server, &large.replacen(" --params", " --check --params", 1));
    assert_eq!(code, 0, "{out}{error}");
}

#[test]
fn a_killed_generation_is_continued_and_what_it_left_is_not_taken_for_whole() {
    let server = ObjectServer::default();
    // The endpoint fails when seven objects are there, and for good.
    server.trap("PUT /bucket/d/set/train/img_07", usize::MAX, Fault::Refuse(403, "AccessDenied"));
    let (code, _, error) = run(&server, &format!("{DATASET} --threads 1"));
    assert_eq!(code, 5, "{error}");
    assert!(error.contains("img_07_of_12.npz") && error.contains("--resume"), "{error}");
    // As if it had been killed before it listed the last one, and in the midst of an upload.
    server.leave_upload("d/set/train/img_08_of_12.npz");
    let whole = train_keys(&server).len();
    assert_eq!(whole, 7, "{:?}", server.keys());
    server.put("d/set/train/img_08_of_12.npz", b"hers");
    server.forgive();
    for way in [" --resume --params", " --overwrite --params"] {
        let (code, out, error) = run(&server, &DATASET.replacen(" --params", way, 1));
        assert_eq!(code, 4, "{out}{error}");
        assert!(error.contains("img_08_of_12.npz") && error.contains("no mark"), "{error}");
        assert_eq!(server.object("d/set/train/img_08_of_12.npz").unwrap(), b"hers");
    }
    server.put_marked("d/set/train/img_08_of_12.npz", b"not listed");
    let (code, out, error) = run(&server, &DATASET.replacen(" --params", " --resume --params", 1));
    assert_eq!(code, 0, "{out}{error}");
    assert!(out.contains("7 files that were complete"), "{out}");
    assert!(server.pending().is_empty(), "{:?}", server.pending());
    assert_eq!(run(&server, &DATASET.replacen(" --params", " --check --params", 1)).0, 0);
}

#[test]
fn clean_removes_what_a_killed_generation_left() {
    let server = ObjectServer::default();
    server.trap("PUT /bucket/d/set/train/img_07", usize::MAX, Fault::Refuse(403, "AccessDenied"));
    assert_eq!(run(&server, &format!("{DATASET} --threads 1")).0, 5);
    server.leave_upload("d/set/train/img_08_of_12.npz");
    server.leave_upload("d/set/train/hers");
    server.put_marked("d/set/train/img_09_of_12.npz", b"not listed");
    server.put("d/set/train/img_10_of_12.npz", b"hers, by chance of that name");
    server.put_marked("d/set/train/img_99_of_12.npz", b"no file has that number");
    server.put("d/set/train/hers_of_13.npz", b"x");
    let before = server.lines().len();
    let (code, out, error) = run(&server, "clean s3://bucket/d/set");
    assert_eq!(code, 0, "{out}{error}");
    assert!(out.contains("aborted 1 unfinished upload"), "{out}");
    assert!(error.contains("left s3://bucket/d/set/train/img_10_of_12.npz"), "{error}");
    let left = ["hers_of_13.npz", "img_10_of_12.npz", "img_99_of_12.npz"];
    assert_eq!(server.keys(), left.map(|name| format!("d/set/train/{name}")));
    // Listed objects are known from one list, and go in one request.
    let lines = server.lines()[before..].join("\n");
    assert!(!lines.contains("HEAD /bucket/d/set/train/img_03"), "{lines}");
    let deletes = lines.matches("POST /bucket/?delete").count();
    assert_eq!(deletes, 3, "the data, then the two objects of the journal: {lines}");
    assert_eq!(server.pending(), ["d/set/train/hers"]);
}

#[test]
fn training_fails_with_the_object_that_is_wrong() {
    let server = ObjectServer::default();
    assert_eq!(run(&server, DATASET).0, 0);
    let fails = |expected: &str| {
        let (code, out, error) = run(&server, TRAIN);
        assert_eq!(code, 5, "{out}{error}");
        assert!(error.contains(expected), "{error}");
        assert!(error.contains("s3://bucket/d/set") && error.contains("train/img_"), "{error}");
    };
    server.trap("GET /bucket/d/set/train/img_05", usize::MAX, Fault::Cut(7));
    fails("the body ended after");
    server.forgive();
    server.trap("GET /bucket/d/set/train/img_05", usize::MAX, Fault::Refuse(503, "SlowDown"));
    fails("after 5 retries");
    server.forgive();
    // Not one of the files with framing that is checked before the run.
    server.trap("GET /bucket/d/set/train/img_03", 2, Fault::Refuse(503, "SlowDown"));
    let (code, out, error) = run(&server, TRAIN);
    assert_eq!(code, 6, "{error}");
    assert!(out.contains("were retries"), "{out}");
}

#[test]
fn objects_that_cannot_be_read_are_not_called_bad() {
    let server = ObjectServer::default();
    assert_eq!(run(&server, DATASET).0, 0);
    let verify = DATASET.replacen(" --params", " --check --params", 1);
    for (fault, code, help) in [
        (Fault::Refuse(403, "AccessDenied"), 4, "have no permission"),
        (Fault::Refuse(503, "SlowDown"), 5, "let the endpoint accept more requests"),
        (Fault::Cut(7), 5, "AWS_ENDPOINT_URL"),
    ] {
        server.trap("GET /bucket/d/set/train/img_05", usize::MAX, fault);
        let (ended, out, error) = run(&server, &verify);
        let said = format!("{out}{error}");
        assert_eq!(ended, code, "{said}");
        assert!(said.contains("11 of 12 files are good"), "{said}");
        assert!(said.contains("could not be verified: train/img_05_of_12.npz"), "{said}");
        assert!(error.contains(help), "{said}");
        assert!(!said.contains("bad") && !said.contains("remove"), "{said}");
        let (ended, out, error) = run(&server, TRAIN);
        assert_eq!(ended, code, "{out}{error}");
        assert!(error.contains("train/img_05_of_12.npz") && error.contains(help), "{error}");
        assert!(!error.contains("regenerate") && !error.contains("--resume"), "{error}");
        server.forgive();
    }
    // Without a manifest, the framing is read.
    server.remove("d/set/.stormlp-manifest.json");
    server.trap("GET /bucket/d/set/train/img_05", usize::MAX, Fault::Refuse(403, "AccessDenied"));
    let (code, out, error) = run(&server, &verify);
    assert_eq!(code, 4, "{out}{error}");
    assert!(out.contains("could not be verified: train/img_05_of_12.npz"), "{out}");
    server.forgive();
    // One that is not there, and one that is another.
    server.remove("d/set/train/img_07_of_12.npz");
    let (code, out, error) = run(&server, &verify);
    assert_eq!(code, 5, "{out}{error}");
    assert!(out.contains("missing: train/img_07_of_12.npz"), "{out}");
    assert!(!format!("{out}{error}").contains("os error"), "{out}{error}");
    server.put("d/set/train/img_07_of_12.npz", b"short");
    let (code, out, error) = run(&server, &verify);
    assert_eq!(code, 5, "{out}{error}");
    assert!(out.contains("bad: train/img_07_of_12.npz"), "{out}");
}

#[test]
fn retries_outside_transfers_are_said_once_by_every_command() {
    let server = ObjectServer::default();
    assert_eq!(run(&server, DATASET).0, 0);
    let refuse = |wanted: &str| server.trap(wanted, 2, Fault::Refuse(503, "SlowDown"));
    let said = |arguments: &str| {
        let (code, out, error) = run(&server, arguments);
        assert!(code == 0 || code == 6, "{out}{error}");
        let said = format!("{out}{error}");
        said.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    // One of the files with framing that is checked before the run.
    refuse("GET /bucket/d/set/train/img_05");
    let of_train = said(&TRAIN.replace(" --format json", ""));
    assert_eq!(of_train.matches("were retries").count(), 1, "{of_train}");
    assert!(
        of_train.contains("requests outside the measured transfers were retries"),
        "{of_train}"
    );
    refuse("GET /bucket/d/set/train/img_05");
    let of_verify = said(&DATASET.replacen(" --params", " --check --params", 1));
    assert!(of_verify.contains("were retries"), "{of_verify}");
    // A proxy can refuse, too.
    let bare = "HTTP/1.1 503 Slow\r\nContent-Length: 0\r\n\r\n";
    server.trap("GET /bucket", 2, Fault::Raw(bare.into()));
    let of_doctor = said("doctor s3://bucket/d");
    assert!(of_doctor.contains("were retries"), "{of_doctor}");
    assert!(of_doctor.contains("server test"), "{of_doctor}");
    refuse("GET /bucket");
    let of_clean = said("clean s3://bucket/d");
    assert!(of_clean.contains("were retries"), "{of_clean}");
}

#[test]
fn a_generation_that_cannot_begin_does_not_speak_of_files() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = failed_at(closed, DATASET);
    assert!(error.contains("Connection refused"), "{error}");
    assert!(!error.contains("complete") && !error.contains("--resume"), "{error}");
    let server = ObjectServer::default();
    server.trap("PUT /bucket/d/set/.stormlp", usize::MAX, Fault::Refuse(403, "AccessDenied"));
    let (code, _, error) = run(&server, DATASET);
    assert_eq!(code, 4, "{error}");
    assert!(error.contains("permission") && !error.contains("--resume"), "{error}");
}

#[test]
fn what_objects_cannot_do_is_refused() {
    let server = ObjectServer::default();
    for (arguments, expected) in [
        ("train unet3d --dir s3://bucket/none", "contains no npz files of a dataset"),
        ("train unet3d --dir s3://b/none", "is not the name of a bucket"),
        ("train unet3d --dir s3://bucket/d/set --path cpu", "path cpu moves files"),
        (
            "datagen unet3d --dir s3://bucket/d --files 2 --tune engine=uring",
            "--tune engine has no effect on objects",
        ),
        ("datasize unet3d --dir s3://bucket/d", "s3:// cannot be used here"),
        (
            "checkpoint llama3-8b --dir s3://bucket/c --fsync none",
            "--fsync has no effect on objects",
        ),
    ] {
        if arguments.contains("d/set") {
            assert_eq!(run(&server, DATASET).0, 0);
        }
        let (code, out, error) = run(&server, arguments);
        assert!(code != 0 && error.contains(expected), "{arguments}: {out}{error}");
    }
}

#[test]
fn doctor_examines_each_endpoint() {
    let (server, other) = (ObjectServer::default(), ObjectServer::default());
    let down = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let doctor = |endpoints: String| {
        let mut command = stormlp(&server, folder.path(), "doctor s3://bucket/p");
        let output = command.env("AWS_ENDPOINT_URL", endpoints).output().unwrap();
        let words = |bytes: Vec<u8>| {
            let text = String::from_utf8(bytes).unwrap();
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        (output.status.code().unwrap(), words(output.stdout), words(output.stderr))
    };
    let (one, another) = (server.endpoint(), other.endpoint());
    let (code, out, error) = doctor(format!("{one},{another}"));
    assert_eq!(code, 0, "{out}{error}");
    assert!(out.contains(&format!("{one}, bucket in the path")), "{out}");
    assert!(out.contains(&format!("{another}: ")), "{out}");
    // Whichever is down.
    for endpoints in [format!("{one},http://{down}"), format!("http://{down},{one}")] {
        let (code, out, error) = doctor(endpoints);
        assert_eq!(code, 5, "{out}{error}");
        assert!(out.contains(&format!("{one}, bucket in the path")), "{out}");
        let refused = format!("http://{down}: Connection refused");
        assert!(out.contains(&refused) && error.contains(&refused), "{out}{error}");
    }
}

#[test]
fn a_plan_of_objects_names_neither_engine_nor_page_cache() {
    let (code, out, error) = run(&ObjectServer::default(), &format!("{GDS} --dry-run"));
    assert_eq!(code, 0, "{error}");
    assert!(out.contains("per cell after") && !out.contains("page cache"), "{out}");
    assert!(!out.contains("engine none"), "{out}");
}

#[test]
fn gdsio_names_the_command_that_takes_objects() {
    let (code, out, error) =
        run(&ObjectServer::default(), "gdsio -D s3://bucket/g -w 2 -s 1M -i 64K -x 1 -I 0");
    assert_eq!(code, 2, "{out}");
    assert!(error.contains("help: stormlp gds --dir s3://bucket/g"), "{error}");
}

#[test]
fn doctor_shows_what_an_object_store_allows_and_writes_nothing() {
    let server = ObjectServer::default();
    server.put("p/x", b"x");
    server.leave_upload("p/y");
    let (code, out, error) = run(&server, "doctor s3://bucket/p");
    assert_eq!(code, 0, "{out}{error}");
    for expected in
        ["s3://bucket/p can be listed", &server.endpoint(), "without TLS", "one was read", "1; "]
    {
        assert!(out.contains(expected), "{expected}: {out}");
    }
    let only_reads = server.lines().iter().all(|line| line.starts_with("GET "));
    assert!(only_reads && server.keys() == ["p/x"], "{:?}", server.lines());
    server.trap("GET /bucket/p/x", 1, Fault::Refuse(403, "AccessDenied"));
    let (code, out, error) = run(&server, "doctor s3://bucket/p");
    assert_eq!(code, 4, "{out}{error}");
    assert!(out.contains("GET s3://bucket/p/x at byte 0: the endpoint answered 403"), "{out}");
    server.leave_upload("u v+1/y");
    let (_, out, _) = run_words(&server, &["doctor", "s3://bucket/u v+1"]);
    assert!(out.contains("`stormlp clean 's3://bucket/u v+1'`"), "{out}");
    let (code, out, error) = run(&server, "doctor s3://another/p --format json");
    assert_eq!(code, 4, "{out}{error}");
    let found: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert!(found["list"].to_string().contains("create the bucket first"), "{out}");
    let (code, _, error) = run(&server, "doctor s3://b");
    assert_eq!(code, 2, "{error}");
}

pub(super) const CHECKPOINT: &str = "checkpoint tiny.yaml --dir s3://bucket/c --ranks 8 --scale 1 --saves 2 \
                          --restores 2 --pause 0 --format json";

#[test]
fn a_checkpoint_is_saved_restored_verified_and_removed() {
    let server = ObjectServer::default();
    server.put("c/hers", b"x");
    let (code, out, error) = run(&server, &format!("{CHECKPOINT} --verify"));
    assert_eq!(code, 0, "{out}{error}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    for name in ["saves", "restores"] {
        assert_eq!(report[name].as_array().unwrap().len(), 2, "{name}");
        let evidence = report["evidence"].as_array().unwrap().iter();
        let named = evidence.clone().find(|one| one["name"] == name).unwrap();
        assert_eq!(named["object_store"]["endpoint"], server.endpoint(), "{named}");
    }
    assert!(
        server.keys().contains(&"c/run1/global_epoch1_step1/.stormlp-checkpoint.json".to_string())
    );
    assert!(server.pending().is_empty());
    // Saved again, which removes the first run, and then removed.
    let again = CHECKPOINT.replace("--format json", "--edition 2.0 --details");
    let (code, out, error) = run(&server, &again);
    assert_eq!(code, 0, "{out}{error}");
    assert!(out.contains("first byte") && out.contains("complete s"), "{out}");
    assert!(!out.contains("sync"), "{out}");
    assert!(server.keys().iter().all(|key| key == "c/hers" || key.starts_with("c/run2/")));
    server.leave_upload("c/run2/global_epoch1_step1/hers");
    let (code, out, error) = run(&server, "clean s3://bucket/c");
    assert_eq!(code, 0, "{out}{error}");
    assert_eq!(server.keys(), ["c/hers"]);
    assert_eq!(server.pending(), ["c/run2/global_epoch1_step1/hers"]);
}

#[test]
fn a_checkpoint_is_scaled_without_a_trial_on_objects() {
    let server = ObjectServer::default();
    let auto = CHECKPOINT.replace("--scale 1 ", "");
    let (code, out, error) = run(&server, &auto);
    assert_eq!(code, 0, "{out}{error}");
    assert!(!server.lines().iter().any(|line| line.contains("trial")), "{:?}", server.lines());
    let example = "checkpoint llama3-8b --ranks 8 --dir s3://bucket/other --dry-run";
    let (code, out, error) = run(&server, example);
    assert_eq!(code, 0, "{out}{error}");
    assert!(!server.lines().iter().any(|line| line.contains("trial")), "{:?}", server.lines());
}

#[test]
fn a_checkpoint_that_cannot_be_completed_leaves_nothing_that_looks_whole() {
    let server = ObjectServer::default();
    server.trap(
        "PUT /bucket/c/run1/global_epoch1_step1/zero_pp",
        usize::MAX,
        Fault::Refuse(403, "AccessDenied"),
    );
    let (code, out, error) = run(&server, CHECKPOINT);
    assert_ne!(code, 0, "{out}{error}");
    assert!(format!("{out}{error}").contains("s3://bucket/c/run1/global_epoch1_step1/"));
    assert!(server.pending().is_empty() && server.keys().is_empty(), "{:?}", server.keys());
    for (more, expected) in [
        ("--dir here", "--dir here does not"),
        ("--path cpu", "--path has no effect on objects"),
        ("--io-size 4M", "--io-size is for files"),
    ] {
        let (code, _, error) = run(&server, &format!("{CHECKPOINT} {more}"));
        assert!(code != 0 && error.contains(expected), "{more}: {error}");
    }
}
