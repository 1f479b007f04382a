//! Whole runs against a double of libcuda and libcufile, which moves every byte by POSIX calls and
//! says so in its counters: a fallback, as on a machine whose direct route does not work.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

use crate::{checkpoint, gds, stderr, stdout, train};

#[allow(
    dead_code,
    clippy::unwrap_used,
    reason = "shared with the tests of cuFile, which fetch the real library as well"
)]
#[path = "../../crates/transfer/tests/cufile/build.rs"]
mod build;

/// `command` with the double, which does what `fault` says; `None`, with a message, without a C
/// compiler.
#[allow(clippy::print_stderr)]
fn with_double(command: &mut Command, fault: &str) -> Option<()> {
    let folder = match build::double(1190) {
        Ok(folder) => folder,
        Err(why) => {
            eprintln!("skipped: {why}");
            return None;
        }
    };
    command.env("STORMLP_LIBCUFILE", folder.join("libcufile.so.0"));
    command.env("LD_LIBRARY_PATH", folder);
    command.env("DOUBLE_FAULT", fault);
    command.env_remove("CUFILE_LOGFILE_PATH");
    Some(())
}

/// The report that a run left in `folder`, and the log of cuFile beside it.
fn left(folder: &Path) -> (Value, String) {
    let report = gds::saved(folder);
    let log = fs::read_to_string(report.with_file_name("cufile.log"));
    assert!(!folder.join("cufile.log").exists(), "a log beside the data");
    (
        gds::read_json(&report),
        log.expect("cuFile's log is with the report"),
    )
}

fn kinds(report: &Value) -> Vec<&str> {
    let warnings = report["warnings"].as_array().unwrap().iter();
    warnings
        .map(|warning| warning["kind"].as_str().unwrap())
        .collect()
}

fn checkpoint_by_gds(folder: &Path, more: &[&str]) -> Command {
    let mut command = checkpoint::tiny(folder, &["--scale", "1", "--writes", "2", "--reads", "2"]);
    command
        .args(["--path", "gds", "--device", "cuda:0"])
        .args(more);
    command
}

#[test]
fn a_checkpoint_that_fell_back_says_so_holds_the_driver_once_and_has_its_log() {
    let folder = checkpoint::folder();
    let mut command = checkpoint_by_gds(folder.path(), &[]);
    let Some(()) = with_double(&mut command, "") else {
        return;
    };
    let said = stdout(command.assert().success());
    assert!(
        said.contains("gds was asked for: cuFile's POSIX compatibility mode"),
        "{said}"
    );
    let (report, log) = left(folder.path());
    assert!(
        kinds(&report).contains(&"path_fell_back"),
        "{:?}",
        kinds(&report)
    );
    assert_eq!(
        log, "driver open\n",
        "opened once for two saves and two restores"
    );
}

#[test]
fn a_checkpoint_that_must_not_fall_back_fails_at_its_first_save() {
    let folder = checkpoint::folder();
    let mut command = checkpoint_by_gds(folder.path(), &["--require-gds"]);
    let Some(()) = with_double(&mut command, "") else {
        return;
    };
    let said = stderr(command.assert().code(5));
    // The library is told to refuse what it would fall back to.
    assert!(said.contains("5008 IO_NOT_SUPPORTED"), "{said}");
    let folder = checkpoint::folder();
    let mut direct = checkpoint_by_gds(folder.path(), &["--require-gds"]);
    with_double(&mut direct, "direct");
    direct.assert().success();
    let (report, _) = left(folder.path());
    assert!(
        !kinds(&report).contains(&"path_fell_back"),
        "{:?}",
        kinds(&report)
    );
}

fn train_by_gds(folder: &Path, more: &str) -> Command {
    let small = train::SMALL;
    let words = "unet3d --files 28 --epochs 1 --compute-time 1ms --path gds --device cuda:0";
    train::train(folder, &format!("{words} {more} {small}"))
}

#[test]
fn training_that_fell_back_says_so_and_fails_where_it_must_not() {
    let folder = train::folder();
    let mut command = train_by_gds(folder.path(), "--wait spin");
    let Some(()) = with_double(&mut command, "") else {
        return;
    };
    command.assert().success();
    let (report, log) = left(folder.path());
    assert!(
        kinds(&report).contains(&"path_fell_back"),
        "{:?}",
        kinds(&report)
    );
    assert_eq!(log, "driver open\n");
    assert_eq!(report["plan"]["transport"]["wait"], "spin");
    fs::remove_dir_all(folder.path().join("stormlp-results")).unwrap();
    let mut command = train_by_gds(folder.path(), "--require-gds");
    with_double(&mut command, "");
    let said = stderr(command.assert().code(5));
    assert!(said.contains("5008 IO_NOT_SUPPORTED"), "{said}");
}

#[test]
fn gdsios_files_without_o_direct_go_to_cufile() {
    let folder = gds::folder();
    let mut command = crate::stormlp();
    command.current_dir(folder.path());
    command.args("gdsio -D data -w 2 -s 1M -i 64K -x 0 -I 1 -O 1".split(' '));
    let Some(()) = with_double(&mut command, "direct") else {
        return;
    };
    let line = stdout(command.assert().success());
    assert!(line.contains("XferType: GPUD "), "{line}");
    let (report, _) = left(folder.path());
    let evidence = &report["cells"][0]["evidence"];
    assert_eq!(evidence["direct_io"], "not_asked", "{evidence}");
    assert_eq!(report["plan"]["open_direct"], false);
}
