//! Behaviour that all commands share: usage errors, broken pipes, completions.

use std::process::{Command, Stdio};

use crate::{stderr, stdout, stormlp};

#[test]
fn wrong_usage_is_2_with_the_reason() {
    let text = stderr(stormlp().arg("frobnicate").assert().code(2));
    assert!(text.starts_with("error: ") && text.contains("frobnicate"), "{text}");
    stormlp().assert().code(2);
    stormlp().args(["doctor", "--format", "xml"]).assert().code(2);
}

#[test]
fn the_version_names_the_package_the_build_and_its_features() {
    let text = stdout(stormlp().arg("--version").assert().success());
    let version = format!("stormlp {} (", env!("CARGO_PKG_VERSION"));
    assert!(text.starts_with(&version), "{text}");
    assert_eq!(text.contains("tokio-uring"), cfg!(feature = "tokio-uring"), "{text}");
}

#[test]
fn a_closed_output_pipe_is_not_an_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_stormlp"))
        .args(["generate", "completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(stormlp().args(["generate", "completions", shell]).assert().success());
        assert!(script.contains("doctor") && script.contains("checkpoint"), "{shell}");
    }
}

#[test]
fn completions_offer_the_values_of_options() {
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(stormlp().args(["generate", "completions", shell]).assert().success());
        for value in ["cpu-async-gpu", "randwrite", "data-preparation", "tokio-uring", "h100"] {
            assert!(script.contains(value), "{shell}: {value}");
        }
    }
}

#[test]
fn options_of_fio_are_answered_with_ours() {
    let text = stderr(stormlp().args(["gds", "--iodepth=32"]).assert().code(2));
    assert!(text.contains("--iodepth is --queue-depth here"), "{text}");
    let text = stderr(stormlp().args(["gds", "--op", "randrw"]).assert().code(2));
    assert!(text.contains("randrw is --op randread --read-percent 50 here"), "{text}");
}
