//! Object stores: what a user sees of an endpoint that works, fails, and holds what others put there.

use std::net::TcpListener;
use std::path::Path;

use assert_cmd::Command;
use stormlp_transfer::testing::{Fault, ObjectServer};

/// The executable in `folder`, with the server's address and nothing of this user's settings.
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
fn run(server: &ObjectServer, arguments: &str) -> (i32, String, String) {
    let folder = tempfile::tempdir().unwrap();
    run_in(folder.path(), server, arguments)
}

fn run_in(folder: &Path, server: &ObjectServer, arguments: &str) -> (i32, String, String) {
    let output = stormlp(server, folder, arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

const GDS: &str = "gds --dir s3://bucket/p --io-size 256K --file-size 1M --threads 2 --passes 1";

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
fn an_endpoint_that_is_down_is_named_with_what_to_do() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = ObjectServer::default();
    for arguments in [GDS, "clean s3://bucket/p"] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = stormlp(&server, folder.path(), arguments);
        let output = command.env("AWS_ENDPOINT_URL", format!("http://{closed}")).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(5), "{error}");
        assert!(error.contains(&format!("http://{closed}: Connection refused")), "{error}");
        assert!(error.contains("AWS_ENDPOINT_URL"), "{error}");
    }
}

#[test]
fn an_endpoint_that_dies_in_the_run_fails_the_cell_and_leaves_what_clean_removes() {
    let server = ObjectServer::default();
    server.trap("GET /bucket/p/stormlp.", usize::MAX, Fault::Hang);
    let (code, out, error) = run(&server, GDS);
    assert_eq!(code, 5, "{out}{error}");
    assert!(format!("{out}{error}").contains("s3://bucket/p/stormlp."), "{out}{error}");
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
