//! Object stores: endpoints that are silent, down or refuse, and requests that are made again.

use std::collections::HashMap;
use std::io::Write as _;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use stormlp_test_support::{Fault, ObjectServer};

use super::objects::{CHECKPOINT, DATASET, GDS, TRAIN, failed_at, run, run_in};
use super::signals::{code, send};

#[test]
fn retries_are_counted_and_said() {
    let server = ObjectServer::default();
    server.trap("GET /bucket/p/stormlp.0", 2, Fault::Refuse(503, "SlowDown"));
    let (code, out, error) = run(&server, &format!("{GDS} --format json"));
    assert_eq!(code, 0, "{error}");
    assert!(out.contains("\"retries\": 2"), "{out}");
    assert!(out.contains("were retries"), "{out}");
}

#[test]
fn retries_are_on_every_screen_with_what_to_do_about_them() {
    let server = ObjectServer::default();
    let many = GDS.replace("--io-size 256K", "--io-size 64K,128K,256K,512K --op read,randread");
    server.trap("GET /bucket/p/stormlp.0?", 2, Fault::Refuse(503, "SlowDown"));
    server.trap("GET /bucket/p/stormlp.1?", 1, Fault::Hang);
    let (code, out, error) = run(&server, &many);
    assert_eq!(code, 0, "{out}{error}");
    let said = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("were retries after the endpoint refused them"), "{out}");
    assert!(said.contains("were retries after connections broke"), "{out}");
    let (_, csv, _) = run(&server, &format!("{many} --format csv"));
    assert!(csv.contains(",connections,requests,retries,retries_after_loss,sent_bytes"), "{csv}");
    let (_, page, _) = run(&server, &format!("{many} --format html"));
    assert!(page.contains("Requests for objects"), "{page}");
}

/// The last line of CSV by column.
fn last_row(csv: &str) -> HashMap<&str, &str> {
    let lines: Vec<&str> = csv.trim().lines().collect();
    lines[0].split(',').rev().zip(lines[lines.len() - 1].split(',').rev()).collect()
}

#[test]
fn a_run_that_retried_is_marked_in_csv_metrics_lists_and_comparisons() {
    let (server, folder) = (ObjectServer::default(), tempfile::tempdir().unwrap());
    let run_at = |server: &ObjectServer, arguments: &str| {
        let (code, out, error) = run_in(folder.path(), server, arguments);
        assert!([0, 3, 6].contains(&code), "{out}{error}");
        (out, error)
    };
    let run = |arguments: &str| run_at(&server, arguments);
    let train = |more: &str| TRAIN.replace("--format json", &format!("--format csv {more}"));
    run(DATASET);
    let (clean, _) = run(&train("--results-dir a"));
    assert_eq!(last_row(&clean)["retries"], "0", "{clean}");
    // Some of them are refused before the run, when framing is looked at.
    for image in 0..12 {
        let wanted = format!("GET /bucket/d/set/train/img_{image:02}");
        server.trap(&wanted, 2, Fault::Refuse(503, "SlowDown"));
    }
    let (csv, _) = run(&train("--results-dir b"));
    let row = last_row(&csv);
    assert!(row["retries"] != "0" && row["retries_after_loss"] == "0", "{csv}");
    assert!(row["requests"].parse::<u64>().unwrap() > 12, "{csv}");
    let (metrics, _) = run("report b --format openmetrics");
    assert!(metrics.contains("stormlp_run_object_retries{kind=\"train\""), "{metrics}");
    assert!(run("report b --format csv").0.contains(", retried"));
    assert!(!run("report a --format csv").0.contains("retried"));
    let compared = run("compare a b --format json").0;
    assert!(compared.contains("requests were retries after the endpoint refused"), "{compared}");
    assert!(!compared.contains("the objects of the baseline"), "{compared}");

    let other = ObjectServer::default();
    run_at(&other, DATASET);
    run_at(&other, &train("--results-dir c"));
    let compared = run("compare a c --format json").0;
    let told = format!("{} without TLS", other.endpoint());
    assert!(compared.contains("the objects of the baseline") && compared.contains(&told));

    // Files have an engine, objects have not.
    let in_files = |arguments: &str| arguments.replace("s3://bucket/d/set", "set");
    run(&in_files(DATASET));
    run(&in_files(&train("--engine psync --results-dir d")));
    let (_, refused) = run("compare d a");
    assert!(refused.contains("not the same work:\n  - path: "), "{refused}");
    assert!(!refused.contains("engine"), "{refused}");

    server.trap("states.pt", 2, Fault::Refuse(503, "SlowDown"));
    let (csv, _) = run(&CHECKPOINT.replace("--format json", "--format csv"));
    let saves: Vec<&str> = csv.lines().take(3).collect();
    assert_eq!(last_row(&saves.join("\n"))["retries"], "2", "{csv}");
    assert_eq!(last_row(&csv)["retries"], "0", "{csv}");
}

#[test]
fn times_to_first_byte_are_those_after_the_warm_up() {
    let server = ObjectServer::default();
    let late = Fault::Late(std::time::Duration::from_millis(10));
    server.trap("GET /bucket/p/stormlp.", usize::MAX, late);
    let timed = GDS.replace("--duration 1x", "--warmup 1s --duration 1s");
    let (code, out, error) = run(&server, &format!("{timed} --format json"));
    assert_eq!(code, 0, "{error}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let cell = &report["cells"][0];
    let store = &cell["evidence"]["object_store"];
    let [count, operations, requests] =
        [&store["first_byte"]["count"], &cell["operations"], &store["requests"]]
            .map(|number| number.as_u64().unwrap());
    // One of each thread may end as the measurement begins.
    assert!(count.abs_diff(operations) <= 2, "{count} of {operations}");
    assert!(requests >= count + 3, "{requests} requests, {count} of them measured");
}

#[test]
fn an_endpoint_that_accepts_connections_and_says_nothing_is_reported_soon() {
    // No program accepts, but the kernel does.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let begun = std::time::Instant::now();
    for arguments in [GDS, "doctor s3://bucket/p"] {
        let error = failed_at(address, arguments);
        assert!(error.contains(&format!("http://{address}: no answer within 5 s")), "{error}");
    }
    assert!(begun.elapsed() < std::time::Duration::from_secs(60));
}

#[test]
fn an_endpoint_that_answers_a_byte_a_second_is_reported_soon() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            std::thread::spawn(move || {
                let mut socket = socket.unwrap();
                for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n".iter().cycle() {
                    std::thread::sleep(Duration::from_secs(1));
                    if socket.write_all(&[*byte]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    // The first requests are for a list, a GET and a HEAD.
    let server = ObjectServer::default();
    for arguments in ["doctor s3://bucket/p", TRAIN, "clean s3://bucket/p"] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_stormlp"));
        command.current_dir(&folder).args(arguments.split_whitespace()).envs(server.variables());
        command.env("AWS_ENDPOINT_URL", format!("http://{address}")).env("HOME", folder.path());
        let output = command.output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(5), "{arguments}: {said}");
        assert!(said.contains(" bytes passed within 5 s"), "{arguments}: {said}");
    }
}

/// Leaves of an object only the first half, with stormlp's mark: what some endpoints keep of a PUT whose
/// process was killed. Its key begins with `prefix`.
fn cut(server: &ObjectServer, prefix: &str) -> String {
    let keys = server.keys();
    let key = keys.iter().find(|key| key.starts_with(prefix) && !key.contains("/.")).unwrap();
    let content = server.object(key).unwrap();
    server.put_marked(key, &content[..content.len() / 2]);
    key.clone()
}

#[test]
fn an_object_that_was_put_in_part_is_incomplete_and_ours() {
    let server = ObjectServer::default();
    let done = |arguments: &str| {
        let (code, out, error) = run(&server, arguments);
        assert_eq!(code, 0, "{arguments}: {out}{error}");
        format!("{out}{error}")
    };
    let option = |name: &str| DATASET.replacen(" --params", &format!(" --{name} --params"), 1);
    done(DATASET);
    cut(&server, "d/set/train/");
    assert_ne!(run(&server, &option("check")).0, 0);
    done(&option("resume"));
    done(&option("check"));
    cut(&server, "d/set/train/");
    done(&option("overwrite"));
    cut(&server, "d/set/train/");
    done("clean s3://bucket/d/set");
    done(GDS);
    cut(&server, "p/stormlp.0");
    done("clean s3://bucket/p");
    // The next run removes the earlier one.
    done(CHECKPOINT);
    let key = cut(&server, "c/");
    let (code, out, error) = run(&server, &CHECKPOINT.replace("--saves 2", "--saves 0"));
    assert!(code != 0 && error.contains("complete"), "{out}{error}");
    done(CHECKPOINT);
    assert!(!server.keys().contains(&key), "{:?}", server.keys());
    cut(&server, "c/");
    let checkpoints = done("clean s3://bucket/c");
    assert!(server.keys().is_empty(), "{checkpoints}{:?}", server.keys());
}

#[test]
fn what_an_endpoint_refuses_has_its_help_in_every_command() {
    let refused = |code: &'static str, status: u16| {
        let server = ObjectServer::default();
        for wanted in ["GET /bucket", "HEAD /bucket"] {
            server.trap(wanted, usize::MAX, Fault::Refuse(status, code));
        }
        server
    };
    let server = refused("AccessDenied", 403);
    for arguments in
        [GDS, DATASET, TRAIN, CHECKPOINT, "clean s3://bucket/p", "doctor s3://bucket/p"]
    {
        let (code, out, error) = run(&server, arguments);
        assert_eq!(code, 4, "{arguments}: {out}{error}");
        assert!(error.contains("permission"), "{arguments}: {error}");
    }
    for (fault, status, expected) in [
        ("InvalidAccessKeyId", 403, "no such access key"),
        ("InvalidAccessKeyId", 404, "no such access key"),
        ("SignatureDoesNotMatch", 403, "AWS_SECRET_ACCESS_KEY is not the one"),
        ("NoSuchBucket", 404, "create the bucket"),
        ("InvalidRequest", 400, "endpoint's log"),
    ] {
        let (code, out, error) = run(&refused(fault, status), "doctor s3://bucket/p");
        assert_eq!(code, 4, "{fault}: {out}{error}");
        assert!(out.contains("s3://bucket/p cannot be listed"), "{out}");
        assert!(error.contains(fault) && error.contains(expected), "{error}");
    }
}

#[test]
fn an_error_names_its_object_once() {
    let server = ObjectServer::default();
    server.trap("GET /bucket/p/stormlp.0?", usize::MAX, Fault::Cut(3));
    let (code, _, error) = run(&server, GDS);
    assert_eq!(code, 5, "{error}");
    let line = error.lines().find(|line| line.starts_with("error")).unwrap();
    assert_eq!(line.matches("stormlp.0").count(), 1, "{error}");
    assert_eq!(line.matches("at byte").count(), 1, "{error}");
    server.forgive();
    assert_eq!(run(&server, DATASET).0, 0);
    server.trap("GET /bucket/d/set/train/img_05", usize::MAX, Fault::Cut(7));
    let (code, _, error) = run(&server, TRAIN);
    assert_eq!(code, 5, "{error}");
    assert_eq!(error.matches("img_05_of_12").count(), 1, "{error}");
}

#[test]
fn an_endpoint_that_is_down_is_named_with_what_to_do() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for arguments in [GDS, "clean s3://bucket/p"] {
        let error = failed_at(closed, arguments);
        assert!(error.contains(&format!("http://{closed}: Connection refused")), "{error}");
    }
}

#[test]
fn an_endpoint_that_dies_in_the_run_fails_the_cell_and_leaves_what_clean_removes() {
    let server = ObjectServer::default();
    server.trap("GET /bucket/p/stormlp.", usize::MAX, Fault::Hang);
    let (code, out, error) = run(&server, GDS);
    assert_eq!(code, 5, "{out}{error}");
    assert!(format!("{out}{error}").contains("s3://bucket/p/stormlp."), "{out}{error}");
    assert!(!out.contains("the cell ran for") && !out.contains("times the first one's"), "{out}");
    assert_eq!(run(&server, "clean s3://bucket/p").0, 0);
    assert!(server.keys().is_empty(), "{:?}", server.keys());
}

#[test]
fn refusals_say_what_to_do() {
    let cases = [
        (Fault::Refuse(403, "AccessDenied"), "permission"),
        (Fault::Refuse(400, "ExpiredToken"), "AWS_SESSION_TOKEN"),
        (Fault::Refuse(403, "RequestTimeTooSkewed"), "clock"),
    ];
    for (fault, advice) in cases {
        let server = ObjectServer::default();
        server.trap("GET /bucket", usize::MAX, fault.clone());
        let (code, _, error) = run(&server, GDS);
        assert!(code != 0 && error.contains(advice), "{fault:?}: {error}");
        assert!(server.keys().is_empty(), "nothing is written where nothing can be read");
    }
    let server = ObjectServer::default();
    let (code, _, error) = run(&server, &GDS.replace("bucket", "another"));
    assert!(code != 0 && error.contains("create the bucket first"), "{error}");
}

/// Starts a command on a server that answers no more requests with `wanted` in their first line once one
/// came, interrupts it, and returns its exit code and how long it took to end.
fn interrupted(server: &ObjectServer, arguments: &str, wanted: &str) -> (Option<i32>, Duration) {
    let folder = tempfile::tempdir().unwrap();
    server.trap(wanted, usize::MAX, Fault::Late(Duration::from_secs(600)));
    let before = server.lines().len();
    let mut command = Command::new(env!("CARGO_BIN_EXE_stormlp"));
    command.current_dir(&folder).args(arguments.split_whitespace()).envs(server.variables());
    command.env("HOME", folder.path()).env_remove("STORMLP_RESULTS_DIR");
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    while !server.lines()[before..].iter().any(|line| line.contains(wanted)) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{arguments}: no {wanted}");
        std::thread::sleep(Duration::from_millis(20));
    }
    send("-INT", &child);
    let asked = Instant::now();
    (code(child, arguments), asked.elapsed())
}

#[test]
fn the_first_interrupt_ends_a_run_whose_endpoint_is_silent() {
    let server = ObjectServer::default();
    assert_eq!(run(&server, DATASET).0, 0);
    let kvcache = "kvcache serving tiny-1b --dir s3://bucket/kv --duration 60s --concurrency 1 \
                   --prefixes 1 --prefix-tokens 256 --capacity 64M";
    for (arguments, wanted) in [
        (GDS, "GET /bucket/p/stormlp."),
        (TRAIN, "GET /bucket/d/set/train/img_05"),
        (&*DATASET.replace("d/set", "e"), "PUT /bucket/e/train/"),
        (kvcache, "PUT /bucket/kv"),
    ] {
        let (code, took) = interrupted(&server, arguments, wanted);
        assert_eq!(code, Some(130), "{arguments}");
        assert!(took < Duration::from_secs(25), "{arguments}: {took:?}");
        server.forgive();
    }
}

#[test]
fn no_output_repeats_a_credential_in_any_encoding() {
    let (secret, token) = ("wJal+rXUtn/FEMI&K7", "FwoG/Zx+token==");
    let url = |text: &str| {
        let escaped = |byte: u8| match byte.is_ascii_alphanumeric() {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        };
        text.bytes().map(escaped).collect::<String>()
    };
    let numbers = |text: &str| text.bytes().map(|byte| format!("&#{byte};")).collect::<String>();
    let forms: Vec<String> = [secret, token]
        .iter()
        .flat_map(|text| {
            let xml = text.replace('&', "&amp;");
            [xml.clone(), url(text), url(&url(text)), numbers(text), xml.replace('/', "\\/")]
        })
        .collect();
    let message = forms.join(" ");
    let body = format!("<Error><Code>Odd</Code><Message>{message}</Message></Error>");
    let reply = format!(
        "HTTP/1.1 400 Oops\r\nConnection: close\r\nServer: {}\r\nContent-Length: {}\r\n\r\n{body}",
        url(secret),
        body.len()
    );
    let server = ObjectServer::default();
    server.trap("/bucket", usize::MAX, Fault::Raw(reply.into_bytes()));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tiny.yaml"), super::checkpoint::TINY).unwrap();
    for arguments in
        [GDS, DATASET, TRAIN, CHECKPOINT, "clean s3://bucket/p", "doctor s3://bucket/p"]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stormlp"));
        command.current_dir(&folder).args(arguments.split_whitespace()).envs(server.variables());
        command.env("AWS_SECRET_ACCESS_KEY", secret).env("AWS_SESSION_TOKEN", token);
        let output = command.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        // A HEAD has no document.
        assert!(said.contains("***") || arguments.starts_with("clean"), "{arguments}: {said}");
        let plain = [secret, token].map(str::to_string);
        for form in forms.iter().chain(&plain) {
            assert!(!said.contains(form.as_str()), "{arguments}: {form} in {said}");
        }
    }
    assert!(server.lines().iter().all(|line| !line.contains("X-Amz-")), "signed in a header");
}
