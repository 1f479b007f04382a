//! `stormlp doctor`.

use std::fs;

use serde_json::Value;

use crate::{stderr, stdout, stormlp};

#[test]
fn the_text_has_every_path_and_every_section() {
    let folder = tempfile::tempdir().unwrap();
    let text = stdout(stormlp().arg("doctor").arg(folder.path()).assert().success());
    for section in
        ["Transfer paths", "GPUs and direct storage", "Storage behind", "Host", "io_uring"]
    {
        assert!(text.lines().any(|line| line.starts_with(section)), "{section}:\n{text}");
    }
    for path in ["gds ", "cpu-gpu ", "null "] {
        assert!(text.lines().any(|line| line.trim_start().starts_with(path)), "{path}:\n{text}");
    }
    assert!(text.contains("gds-batch-stream"), "{text}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "it left files behind");
}

#[test]
fn the_json_has_known_facts_or_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let assert =
        stormlp().args(["doctor", "--format", "json"]).arg(folder.path()).assert().success();
    let json: Value = serde_json::from_str(&stdout(assert)).unwrap();
    assert_eq!(json["format_version"], 1);
    assert_eq!(json["host"]["paths"].as_array().unwrap().len(), 10);
    for path in json["host"]["paths"].as_array().unwrap() {
        let availability = &path["availability"];
        match availability["status"].as_str().unwrap() {
            "available" => {}
            _ => assert!(!availability["fact"].as_str().unwrap().is_empty(), "{path}"),
        }
    }
    let kind = &json["storage"]["filesystem"]["known"]["kind"];
    assert!(kind.is_string(), "{json:#}");
}

#[test]
fn a_library_that_cannot_be_opened_is_a_reason_not_a_failure() {
    let assert = stormlp()
        .args(["doctor", "--format", "json"])
        .env("STORMLP_LIBCUFILE", "/does/not/exist.so")
        .assert()
        .success();
    let json: Value = serde_json::from_str(&stdout(assert)).unwrap();
    let gds = &json["host"]["paths"][0];
    assert_eq!(gds["path"], "gds");
    assert_eq!(gds["availability"]["status"], "unavailable");
    assert!(gds["availability"]["fact"].as_str().unwrap().contains("/does/not/exist.so"), "{gds}");
}

#[test]
fn a_missing_place_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    for (path, said) in [
        (folder.path().join("later"), "later does not exist"),
        ("/dev/null".into(), "/dev/null is not a folder, file or block device"),
    ] {
        let assert = stormlp().arg("doctor").arg(path).assert().code(4);
        let text = stderr(assert);
        assert!(text.contains(said) && text.contains("help: name an existing folder"), "{text}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_file_shows_the_storage_behind_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data");
    std::fs::write(&file, vec![7; 3 << 20]).unwrap();
    let text = stdout(stormlp().arg("doctor").arg(&file).assert().success());
    assert!(text.contains(&format!("Storage behind {}", file.display())), "{text}");
}

#[test]
fn launchers_are_given_the_hosts_of_a_hostfile() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hostfile");
    fs::write(&file, "h1 slots=8\nh2 slots=8 # spare\n").unwrap();
    let text = stdout(stormlp().args(["launch"]).arg(&file).assert().success());
    for word in [format!("--hostfile {}", file.display()), "-w h1,h2".to_string()] {
        assert!(text.contains(&word), "{word}:\n{text}");
    }
    fs::write(&file, "# nobody\n").unwrap();
    let text = stderr(stormlp().args(["launch"]).arg(&file).assert().code(3));
    assert!(text.contains("names no host"), "{text}");
    let missing = folder.path().join("missing");
    stormlp().args(["launch"]).arg(&missing).assert().code(4);
}

#[test]
fn launch_wants_each_host_once_and_prints_whole_lines() {
    let text = stderr(stormlp().args(["launch", "a,a,b"]).assert().code(2));
    assert!(text.contains("a,a,b names a host twice"), "{text}");
    let folder = "/shared/with/a/long/name/that/no/line/of/eighty/columns/has";
    let words = ["launch", "a,b", "gds", "--dir", folder, "--tag", "a=b c", "--path", "cpu"];
    let text = stdout(stormlp().env("COLUMNS", "80").args(words).assert().success());
    let ends = format!("stormlp gds --dir {folder} --tag 'a=b c' --path cpu");
    assert_eq!(text.lines().filter(|line| line.ends_with(&ends)).count(), 3, "{text}");
    assert!(text.contains("-n 2 ") && text.contains("--host a,b"), "{text}");
    let text = stdout(stormlp().args(["launch", "hostfile"]).assert().success());
    assert!(text.contains("--host hostfile") && text.contains("no file hostfile"), "{text}");
    let text = stderr(stormlp().args(["launch", ""]).assert().code(2));
    assert!(text.contains("names no host"), "{text}");
}
