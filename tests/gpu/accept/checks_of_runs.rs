//! The acceptance run's command line, time limit, report and GPU.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::error::ErrorKind;
use serde_json::{Value, json};
use stormlp_core::evidence::{DirectIo, DirectStorage, Evidence, RouteProof};
use stormlp_core::path::PathKind;

use crate::clock::Clock;
use crate::direct::Direct;
use crate::gpu::names_exclusive;
use crate::options::Options;
use crate::process::run;
use crate::report::Report;
use crate::route::{Expected, Finding, Route};
use crate::route_of_check::word;

const PARTS: [&str; 2] = ["facts", "leaks"];

fn options(words: &str) -> Result<Options, clap::Error> {
    let words: Vec<String> = words.split_whitespace().map(str::to_string).collect();
    Options::of(&words, &PARTS)
}

#[test]
fn typing_errors_are_reported_and_nothing_runs() {
    for (words, kind, told) in [
        ("accept --accept --dirr /mnt", ErrorKind::UnknownArgument, "--dir"),
        ("accept --accept --without-gpus", ErrorKind::UnknownArgument, "--without-gpu"),
        ("accept --accept --only xyz", ErrorKind::InvalidValue, "facts\n  leaks"),
        ("accept --accept --double 12", ErrorKind::MissingRequiredArgument, "--without-gpu"),
        ("accept --accept --without-gpu --double 11", ErrorKind::InvalidValue, "12"),
    ] {
        let error = options(words).unwrap_err();
        assert_eq!((error.kind(), error.exit_code()), (kind, 2), "{words}");
        assert!(error.to_string().contains(told), "{words}: {error}");
    }
    let help = options("accept --accept --help").unwrap_err();
    assert_eq!(help.exit_code(), 0);
    assert!(help.to_string().contains("--only <WORDS>"), "{help}");
    let right = options("accept --accept --dir /mnt --only leak").unwrap();
    assert_eq!(right.dir, Path::new("/mnt"));
    assert!(right.takes("leaks") && !right.takes("facts"));
}

#[test]
fn no_command_starts_or_goes_on_after_the_time() {
    let over = Clock::new(Duration::ZERO);
    let ended = over.run(&mut Command::new("true"), Duration::from_secs(600));
    assert_eq!(ended.code, None);
    assert!(ended.stderr.contains("it was not started"), "{}", ended.stderr);
    assert!(over.start(&mut Command::new("true")).is_err());
    let short = Clock::new(Duration::from_millis(200));
    let ended = short.run(Command::new("sleep").arg("600"), Duration::from_secs(600));
    assert_eq!(ended.code, None);
    assert!(ended.stderr.contains("the ten minutes are over"), "{}", ended.stderr);
    let enough = Clock::new(Duration::from_secs(600));
    let ended = enough.run(&mut Command::new("true"), Duration::from_secs(600));
    assert_eq!(ended.code, Some(0));
}

/// A report in a folder, and its text so far.
fn report(folder: &Path) -> (Report, impl Fn() -> String) {
    let path = folder.join("report.md");
    let report = Report::new(&path, false, Path::new("/mnt/work")).unwrap();
    (report, move || fs::read_to_string(&path).unwrap())
}

#[test]
fn a_report_exists_during_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let (mut report, text) = report(folder.path());
    assert!(text().contains("interrupted run, which may have left files in /mnt/work"));
    report.part("facts");
    report.pass("build", "release");
    assert!(text().ends_with("## facts\n\n- **ok** build: release\n"));
    let _ = report.finish(3);
    assert!(text().contains("1 checks hold, 0 do not"));
    let nowhere = Report::new(&folder.path().join("no/such"), false, folder.path());
    assert!(nowhere.err().unwrap().contains("cannot be written"));
}

#[test]
fn a_run_without_checks_proves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (mut report, text) = report(folder.path());
    report.note("kernel", "6.8");
    let _ = report.finish(0);
    assert!(text().contains("**NOT PROVEN** the run: nothing was checked"));
}

#[test]
fn a_gpu_for_one_process_is_known_by_its_mode() {
    assert!(names_exclusive("Default\nExclusive_Process\n"));
    assert!(names_exclusive("Exclusive_Process"));
    assert!(!names_exclusive("Default\nDefault\n"));
    assert!(!names_exclusive("Prohibited\n"));
}

/// Evidence of a check by `gds`.
fn evidence(ran: Option<PathKind>, proof: RouteProof) -> Evidence {
    Evidence {
        object_store: None,
        effective_path: ran,
        summary: "so it went".to_string(),
        direct_io: DirectIo::Honoured,
        engine: None,
        direct_storage: Some(DirectStorage { proof, ..DirectStorage::default() }),
    }
}

#[test]
fn a_mixed_route_fails_only_where_all_of_it_must_be_direct() {
    let gds = PathKind::Gds;
    let told = |ran, proof, direct| word(gds, &evidence(ran, proof), direct);
    let finding = |word: &str| Finding::of_check(&format!("route {word}: so it went"));
    let mixed = told(None, RouteProof::Counters, false).unwrap().unwrap();
    assert!(matches!(finding(mixed), Some(Finding::Proven(Route::Mixed, _))));
    assert!(told(None, RouteProof::Counters, true).is_err());
    let direct = told(Some(gds), RouteProof::Counters, true).unwrap().unwrap();
    assert!(matches!(finding(direct), Some(Finding::Proven(Route::Direct, _))));
    let fell_back = Some(PathKind::GdsCompat);
    let compat = told(fell_back, RouteProof::Counters, false).unwrap().unwrap();
    assert!(matches!(finding(compat), Some(Finding::Proven(Route::Compat, _))));
    assert!(told(fell_back, RouteProof::Counters, true).is_err());
    // Unproven is not a fault, wherever it is.
    let unproven = told(None, RouteProof::None, true).unwrap().unwrap();
    assert!(matches!(finding(unproven), Some(Finding::NotProven(_))));
    assert!(told(Some(gds), RouteProof::None, false).is_err());
    assert!(Finding::of_check("test facts ... ok").is_none());
}

/// The direct route of a machine with this buffer of cuFile, where `--require gds` comes to this.
fn direct(buffer_bytes: Value, required: Value) -> Direct {
    Direct::find(Path::new("/mnt"), |words| {
        let cufile = if words.contains("--require gds") {
            required.clone()
        } else {
            json!({"proof": "none", "library_version": "1.14"})
        };
        let ran = if cufile["proof"] == "none" { Value::Null } else { json!("gds") };
        let cell = json!({"status": "ok", "evidence": {
            "effective_path": ran, "summary": "so it went", "direct_storage": cufile}});
        Ok(json!({"host": {"cufile_buffer_bytes": buffer_bytes}, "cells": [cell]}))
    })
}

#[test]
fn a_route_unproven_by_require_gds_is_not_an_error() {
    let unproven = json!({"proof": "none", "fallback_allowed": false,
                          "properties": ["direct targets: NFS"]});
    let direct = direct(json!(1 << 20), unproven);
    assert_eq!(direct.expected(), Expected::Either);
    assert_eq!(direct.option_of("gds"), "");
    let folder = tempfile::tempdir().unwrap();
    let (mut report, text) = report(folder.path());
    direct.tell(None, &mut report);
    let _ = report.finish(0);
    assert!(text().contains("**NOT PROVEN** the direct route to this folder"));
    assert!(text().contains(" 0 do not"));
}

#[test]
fn batches_above_cufiles_buffer_may_go_either_way() {
    let forbidden = json!({"proof": "fallback_forbidden", "fallback_allowed": false});
    for (buffer, bytes, expected) in [
        (json!(512 << 10), 1 << 20, Expected::Either),
        (json!(1 << 20), 1 << 20, Expected::Direct),
        (json!(16 << 20), 16 << 20, Expected::Direct),
        (Value::Null, 16 << 20, Expected::Either),
    ] {
        let direct = direct(buffer.clone(), forbidden.clone());
        assert_eq!(direct.expected_of_batches(bytes), expected, "{buffer} {bytes}");
    }
}

/// A libcuda without functions, and only where GPUs are numbered by their buses.
const CUDA: &str = "#include <stdlib.h>\n#include <string.h>\n\
    #define NOTHING(name) int name(void) { return 0; }\n\
    NOTHING(cuDeviceGet) NOTHING(cuCtxSetCurrent) NOTHING(cuDevicePrimaryCtxSetFlags_v2)\n\
    NOTHING(cuDevicePrimaryCtxRetain) NOTHING(cuMemAlloc_v2) NOTHING(cuMemHostAlloc)\n\
    NOTHING(cuStreamCreate) NOTHING(cuStreamSynchronize) NOTHING(cuMemcpyHtoDAsync_v2)\n\
    int cuInit(unsigned flags) { char *order = getenv(\"CUDA_DEVICE_ORDER\"); (void)flags;\n\
    return order == NULL || strcmp(order, \"PCI_BUS_ID\") != 0; }\n";

#[test]
fn bare_loops_number_gpus_as_stormlp_does() {
    if run(Command::new("cc").arg("--version")).code != Some(0) {
        return stormlp_fixtures::skipped("cc does not run", "install a C compiler");
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| -> PathBuf { folder.path().join(name) };
    fs::write(at("cuda.c"), CUDA).unwrap();
    let library = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([at("libcuda.so.1"), at("cuda.c")])
        .status();
    let bare = Command::new("cc")
        .arg("-o")
        .arg(at("bare"))
        .args(["tests/gpu/accept/bare.c", "-ldl", "-lpthread"])
        .status();
    assert!(library.unwrap().success() && bare.unwrap().success());
    let mut command = Command::new(at("bare"));
    command
        .args(["memory", "0"])
        .env("LD_LIBRARY_PATH", folder.path())
        .env_remove("CUDA_DEVICE_ORDER");
    let ended = run(&mut command);
    assert_eq!(ended.code, Some(0), "{}", ended.to_text());
    // A variable that the user set stays, as in stormlp.
    let ended = run(command.env("CUDA_DEVICE_ORDER", "FASTEST_FIRST"));
    assert_eq!(ended.code, Some(1));
}
