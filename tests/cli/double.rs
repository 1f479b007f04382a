//! Complete runs against a double of libcuda and libcufile, which moves every byte by POSIX calls
//! and counts them: a fallback, as on a machine without a working direct route.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

use crate::{checkpoint, gds, stderr, stdout, stormlp, train};

#[allow(
    dead_code,
    clippy::unwrap_used,
    reason = "shared with the tests of cuFile, which fetch the real library as well"
)]
#[path = "../../crates/transfer/tests/cufile/build.rs"]
mod build;

/// `command` with the double, which fails as `fault` says; `None`, with a message, without a C
/// compiler.
pub(crate) fn with_double(command: &mut Command, fault: &str) -> Option<()> {
    with_double_of(1190, command, fault)
}

/// The same with the double of a version of libcufile, `1110` for 1.11.
#[allow(clippy::print_stderr)]
fn with_double_of(version: u32, command: &mut Command, fault: &str) -> Option<()> {
    let folder = match build::double(version) {
        Ok(folder) => folder,
        Err(why) => {
            stormlp_fixtures::skipped(why, "install a C compiler");
            return None;
        }
    };
    command.env("STORMLP_LIBCUFILE", folder.join("libcufile.so.0"));
    command.env("LD_LIBRARY_PATH", folder);
    command.env("DOUBLE_FAULT", fault);
    command.env_remove("CUFILE_LOGFILE_PATH");
    Some(())
}

/// Has `command` see an nvidia-fs that counts, in `folder`.
fn with_nvidia_fs(folder: &Path, command: &mut Command) -> Option<()> {
    let statistics = folder.join("nvidia-fs");
    let nothing =
        "IO stats: Enabled\nReads : n=0 readMiB=0 bytes=0\nWrites : n=0 writeMiB=0 bytes=0\n";
    fs::write(&statistics, nothing).unwrap();
    command.env("DOUBLE_NVFS", statistics);
    command.env("LD_PRELOAD", build::nvidia_fs().ok()?);
    Some(())
}

/// The report that a run left in `folder`, and the log of cuFile next to it.
fn left(folder: &Path) -> (Value, String) {
    let report = gds::saved(folder);
    let log = fs::read_to_string(report.with_file_name("cufile.log"));
    assert!(!folder.join("cufile.log").exists(), "a log beside the data");
    (gds::read_json(&report), log.expect("cuFile's log is with the report"))
}

fn kinds(report: &Value) -> Vec<&str> {
    let warnings = report["warnings"].as_array().unwrap().iter();
    warnings.map(|warning| warning["kind"].as_str().unwrap()).collect()
}

fn checkpoint_by_gds(folder: &Path, more: &[&str]) -> Command {
    let mut command =
        checkpoint::tiny(folder, &["--scale", "1", "--saves", "2", "--restores", "2"]);
    command.args(["--path", "gds", "--device", "cuda:0"]).args(more);
    command
}

#[test]
fn a_checkpoint_that_fell_back_reports_it_opens_the_driver_once_and_keeps_its_log() {
    let folder = checkpoint::folder();
    let mut command = checkpoint_by_gds(folder.path(), &[]);
    let Some(()) = with_double(&mut command, "") else {
        return;
    };
    let said = stdout(command.assert().success());
    assert!(said.contains("gds was requested: cuFile's POSIX compatibility mode"), "{said}");
    let (report, log) = left(folder.path());
    assert!(kinds(&report).contains(&"path_fell_back"), "{:?}", kinds(&report));
    assert_eq!(log, "driver open, GPUs: 1\n", "opened once for two saves and two restores");
}

#[test]
fn a_checkpoint_that_must_not_fall_back_fails_at_its_first_save() {
    let folder = checkpoint::folder();
    let mut command = checkpoint_by_gds(folder.path(), &["--require", "gds"]);
    let Some(()) = with_double(&mut command, "") else {
        return;
    };
    let said = stderr(command.assert().code(5));
    // The library is set to refuse its fallback.
    assert!(said.contains("5008 IO_NOT_SUPPORTED"), "{said}");
    assert!(said.contains("without --require gds"), "{said}");
    let folder = checkpoint::folder();
    let mut direct = checkpoint_by_gds(folder.path(), &["--require", "gds"]);
    with_double(&mut direct, "direct");
    direct.assert().success();
    let (report, _) = left(folder.path());
    assert!(!kinds(&report).contains(&"path_fell_back"), "{:?}", kinds(&report));
}

#[test]
fn a_call_that_does_not_return_ends_the_run_with_a_saved_report() {
    for path in ["gds", "gds-batch"] {
        let folder = gds::folder();
        let words = format!("--path cpu,{path} --device cuda:0 --io-size 64K --queue-depth 2");
        let mut command = gds::gds(folder.path(), &format!("{words} {}", gds::QUICK));
        let Some(()) = with_double(&mut command, "transfer-hangs") else {
            return;
        };
        command.env("STORMLP_CUFILE_TIMEOUT", "0.5");
        let said = stderr(command.assert().code(5));
        let words = format!("a cuFile call on path {path} has not returned for 0.5 s");
        assert!(said.contains(&words), "{said}");
        let (report, _) = left(folder.path());
        assert_eq!(report["ending"]["status"], "failed", "{path}");
        assert_eq!(report["ending"]["kind"], "device", "{path}");
        assert_eq!(report["cells"][0]["status"], "ok", "the cell before it is kept");
    }
}

#[test]
fn a_release_that_does_not_return_ends_the_run_too() {
    let folder = gds::folder();
    let words = "--path gds --device cuda:0 --io-size 64K --threads 2 --file-size 1M --duration 1x";
    let mut command = gds::gds(folder.path(), words);
    let Some(()) = with_double(&mut command, "release-hangs") else {
        return;
    };
    command.env("STORMLP_CUFILE_TIMEOUT", "0.5");
    let said = stderr(command.assert().code(5));
    let words =
        "a cuFile call that releases memory, a file or the driver has not returned for 0.5 s";
    assert!(said.contains(words), "{said}");
    assert_eq!(left(folder.path()).0["ending"]["kind"], "device");
}

fn train_by_gds(folder: &Path, more: &str) -> Command {
    let small = train::SMALL;
    let device = if more.contains("--device") { "" } else { "--device cuda:0" };
    let words = "unet3d --files 28 --epochs 1 --compute-time 1ms --path gds";
    train::train(folder, &format!("{words} {device} {more} {small}"))
}

#[test]
fn training_that_fell_back_reports_it_and_fails_with_require_gds() {
    let folder = train::folder();
    let mut command = train_by_gds(folder.path(), "--tune wait=spin");
    let Some(()) = with_double(&mut command, "") else {
        return;
    };
    command.assert().success();
    let (report, log) = left(folder.path());
    assert!(kinds(&report).contains(&"path_fell_back"), "{:?}", kinds(&report));
    assert_eq!(log, "driver open, GPUs: 1\n");
    assert_eq!(report["plan"]["transport"]["wait"], "spin");
    fs::remove_dir_all(folder.path().join("stormlp-results")).unwrap();
    let mut command = train_by_gds(folder.path(), "--require gds");
    with_double(&mut command, "");
    let said = stderr(command.assert().code(5));
    assert!(said.contains("5008 IO_NOT_SUPPORTED"), "{said}");
    assert!(said.contains("without --require gds"), "{said}");
}

#[test]
fn requested_statistics_are_kept_in_training_and_checkpoints_too() {
    let counted = |mut command: Command, folder: &Path| {
        with_double(&mut command, "direct")?;
        command.assert().success();
        let (report, _) = left(folder);
        let counted = &report["evidence"][0]["direct_storage"]["counted"];
        let message = report["warnings"].to_string();
        let costs = message.contains("cuFile counts during the measured part");
        Some((counted.as_str().unwrap().to_string(), costs))
    };
    for (level, expected) in
        [("", ("at_first", false)), ("--tune cufile-stats=3", ("throughout", true))]
    {
        let expected = Some((expected.0.to_string(), expected.1));
        let folder = train::folder();
        let command = train_by_gds(folder.path(), level);
        let trained = counted(command, folder.path());
        if trained.is_none() {
            return;
        }
        assert_eq!(trained, expected, "{level}");
        let folder = checkpoint::folder();
        let level: Vec<&str> = level.split_whitespace().collect();
        let command = checkpoint_by_gds(folder.path(), &level);
        assert_eq!(counted(command, folder.path()), expected, "{level:?}");
    }
    let folder = train::folder();
    let words = format!("unet3d --tune cufile-stats=3 {}", train::SMALL);
    let said = stderr(train::train(folder.path(), &words).assert().code(2));
    assert!(said.contains("--tune cufile-stats has no effect"), "{said}");
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
    assert_eq!(report["plan"]["request"]["open_direct"], false);
}

/// A cell by cuFile's blocking calls, of two threads with 128 transfers each to a pass.
fn gds_by_gds(folder: &Path, more: &str) -> Command {
    let words = "--path gds --device cuda:0 --threads 2 --io-size 8K --file-size 1M";
    gds::gds(folder, &format!("{words} {more}"))
}

#[test]
fn direct_transfers_are_never_called_a_fallback() {
    for (version, more, effective, proof, warning) in [
        (1190, "", "gds", "counters", None),
        (1190, "--tune cufile-stats=0", "null", "none", Some("path_not_proven")),
        (1190, "--tune cufile-stats=3", "gds", "counters", None),
        (1140, "", "null", "none", Some("path_not_proven")),
        (1140, "--require gds", "gds", "fallback_forbidden", None),
        (1110, "", "null", "none", Some("path_not_proven")),
        (1110, "--require gds", "gds", "fallback_forbidden", None),
    ] {
        let folder = gds::folder();
        let mut command = gds_by_gds(folder.path(), &format!("--duration 1x {more}"));
        let Some(()) = with_double_of(version, &mut command, "direct") else {
            return;
        };
        command.assert().success();
        let (report, _) = left(folder.path());
        let cell = &report["cells"][0];
        let ran = cell["effective_path"].as_str().unwrap_or("null");
        assert_eq!(ran, effective, "{version} {more}");
        let cufile = &cell["evidence"]["direct_storage"];
        assert_eq!(cufile["proof"], proof, "{version} {more}");
        let counted = match (version, more) {
            (1190, "") => "beforehand",
            (1190, "--tune cufile-stats=3") => "throughout",
            _ => "never",
        };
        assert_eq!(cufile["counted"], counted, "{version} {more}");
        let kinds = kinds(cell);
        assert!(!kinds.contains(&"path_fell_back"), "{version} {more} {kinds:?}");
        let unproven = kinds.contains(&"path_not_proven");
        assert_eq!(unproven, warning.is_some(), "{version} {more} {kinds:?}");
    }
}

#[test]
fn forbidding_a_fallback_proves_no_unaligned_transfer_and_no_large_entry() {
    for words in [
        "--path gds --tune alignment=1 --op randread --io-size 8K",
        "--path gds-batch --queue-depth 2 --io-size 2M",
    ] {
        let folder = gds::folder();
        let more = "--device cuda:0 --threads 1 --file-size 16M --duration 1x --require gds";
        let mut command = gds::gds(folder.path(), &format!("{words} {more}"));
        let Some(()) = with_double_of(1110, &mut command, "direct") else {
            return;
        };
        command.assert().success();
        let (report, _) = left(folder.path());
        let cell = &report["cells"][0];
        assert!(cell["effective_path"].is_null(), "{words}: {cell}");
        let cufile = &cell["evidence"]["direct_storage"];
        assert_eq!(cufile["proof"], "none", "{words}: {cufile}");
        assert!(kinds(cell).contains(&"path_not_proven"), "{words}");
    }
}

#[test]
fn host_memory_is_not_shown_as_a_gpus() {
    for (kind, words) in [
        ("pinned", "pinned host memory for Double (cuda:0)"),
        ("host", "host memory for Double (cuda:0)"),
        ("mmap", "host memory from mmap for Double (cuda:0)"),
        ("device", "Double (cuda:0)"),
    ] {
        let folder = gds::folder();
        let mut command =
            gds_by_gds(folder.path(), &format!("--duration 1x --buffer-memory {kind}"));
        let Some(()) = with_double(&mut command, "direct") else {
            return;
        };
        let shown = stdout(command.assert().success());
        assert!(shown.contains(words), "{shown}");
        let in_row = |line: &str| line.split_whitespace().take(2).eq(["gds", kind]);
        assert!(shown.lines().any(in_row), "{shown}");
        let (report, _) = left(folder.path());
        assert_eq!(report["cells"][0]["memory"], words);
    }
}

#[test]
fn a_fabric_that_is_not_ready_is_named_without_the_bus() {
    let folder = gds::folder();
    let mut command = gds_by_gds(folder.path(), "--duration 1x");
    let Some(()) = with_double(&mut command, "no-fabric") else {
        return;
    };
    let said = stderr(command.assert().failure());
    assert!(said.contains("fabric"), "{said}");
    let mut doctor = stormlp();
    doctor.current_dir(folder.path()).arg("doctor");
    let Some(()) = with_double(&mut doctor, "no-fabric") else {
        return;
    };
    let said = stdout(doctor.assert().success());
    assert!(said.contains("fabric"), "{said}");
}

#[test]
fn a_longer_cell_only_adds_calls_that_move_data() {
    let calls = |passes: u32| {
        let folder = gds::folder();
        let mut command = gds_by_gds(folder.path(), &format!("--duration {passes}x"));
        with_double(&mut command, "direct")?;
        let log = folder.path().join("calls");
        command.env("DOUBLE_CALLS", &log).assert().success();
        let text = fs::read_to_string(log).expect("the double tells its calls");
        let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
        lines.sort();
        // How often counting is switched on and off depends on which thread is ready first; all of
        // it is over before the first is measured.
        let counts = ["cuFileSetStatsLevel", "cuFileStatsSt", "cuFileGetStatsL3"];
        lines.retain(|line| !counts.iter().any(|name| line.starts_with(name)));
        let (reads, others) =
            lines.into_iter().partition::<Vec<_>, _>(|line| line.starts_with("cuFileRead "));
        Some((reads, others))
    };
    let (Some(short), Some(long)) = (calls(1), calls(4)) else {
        return;
    };
    assert_eq!(short.1, long.1);
    // Eight transfers of each thread are rehearsed, and 128 make up a pass.
    assert_eq!(short.0, ["cuFileRead 272"]);
    assert_eq!(long.0, ["cuFileRead 1040"]);
}

/// Up to 1.19 the library crashes where several threads ask for what cufile.json decides.
#[test]
fn threads_ask_the_driver_for_nothing_but_their_transfers() {
    let asked = |threads: u32, path: &str| {
        let folder = gds::folder();
        let words = "--device cuda:0 --io-size 8K --file-size 1M --duration 1x";
        let words = format!("{words} --path {path} --threads {threads}");
        let mut command = gds::gds(folder.path(), &words);
        with_double(&mut command, "direct")?;
        let log = folder.path().join("calls");
        // The probe's process writes there as well, and this one last.
        command.env("DOUBLE_CALLS", &log).assert().success();
        let calls = fs::read_to_string(log).expect("the double tells its calls");
        let asks = |line: &&str| {
            let of_the_driver = line.starts_with("cuFileDriver") || line.starts_with("cuFileGetP");
            of_the_driver || line.starts_with("cuFileUseCount")
        };
        let mut asked: Vec<String> = calls.lines().filter(asks).map(str::to_string).collect();
        asked.sort();
        Some(asked)
    };
    for path in ["gds", "gds-batch"] {
        let (Some(one), Some(eight)) = (asked(1, path), asked(8, path)) else {
            return;
        };
        assert_eq!(one, eight, "{path}");
        for once in [
            "cuFileDriverGetProperties 1",
            "cuFileDriverOpen 1",
            "cuFileDriverClose 1",
            // One for each kind of target.
            "cuFileDriverGetP2PFlags 13",
        ] {
            assert!(eight.iter().any(|line| line == once), "{path}: {eight:?}");
        }
    }
}

#[test]
fn a_small_share_is_not_touched_before_it_is_measured() {
    let folder = gds::folder();
    let words = "--path gds --device cuda:0 --threads 2 --io-size 64K --file-size 1M --duration 1x";
    let mut command = gds::gds(folder.path(), words);
    let Some(()) = with_double(&mut command, "direct") else {
        return;
    };
    let log = folder.path().join("calls");
    command.env("DOUBLE_CALLS", &log).assert().success();
    let calls = fs::read_to_string(log).unwrap();
    assert!(calls.lines().any(|line| line == "cuFileRead 32"), "{calls}");
    let (report, _) = left(folder.path());
    let cufile = &report["cells"][0]["evidence"]["direct_storage"];
    assert_eq!(cufile["proof"], "counters");
    assert_eq!(cufile["counted"], "at_first");
}

#[test]
fn nvidia_fs_proves_and_refutes_where_the_library_counts_nothing() {
    for (fault, more, effective) in [
        ("direct", "--threads 4", "gds"),
        ("direct", "--path gds-batch --queue-depth 100", "gds-batch"),
        ("", "--threads 4", "gds-compat"),
    ] {
        let folder = gds::folder();
        let words = "--device cuda:0 --io-size 16K --file-size 4M --duration 2x";
        let path = if more.contains("--path") { "" } else { "--path gds" };
        let mut command = gds::gds(folder.path(), &format!("{words} {path} {more}"));
        let seen = with_nvidia_fs(folder.path(), &mut command);
        let Some(()) = seen.and(with_double_of(1110, &mut command, fault)) else {
            return;
        };
        command.assert().success();
        let (report, _) = left(folder.path());
        let cell = &report["cells"][0];
        let cufile = &cell["evidence"]["direct_storage"];
        assert_eq!(cell["effective_path"], effective, "{fault} {more}: {cufile}");
        assert_eq!(cufile["proof"], "kernel_driver", "{fault} {more}: {cufile}");
    }
}

#[test]
fn a_write_without_its_route_names_none() {
    let folder = gds::folder();
    let mut command = gds_by_gds(folder.path(), "--op write --duration 1x --require gds");
    let Some(()) = with_double(&mut command, "") else {
        return;
    };
    let said = stderr(command.assert().code(5));
    assert!(said.contains("5008 IO_NOT_SUPPORTED"), "{said}");
    let (report, _) = left(folder.path());
    let cell = &report["cells"][0];
    assert!(cell["effective_path"].is_null(), "{cell}");
    let evidence = &cell["evidence"];
    assert!(evidence["effective_path"].is_null(), "{evidence}");
    let summary = evidence["summary"].as_str().unwrap();
    assert!(summary.ends_with("no transfer succeeded"), "{summary}");
}

#[test]
fn a_driver_that_does_not_open_fails_its_cells_and_not_those_of_other_paths() {
    let folder = gds::folder();
    let words = "--path gds,cpu-gpu --device cuda:0 --io-size 8K --file-size 1M --duration 1x";
    let mut command = gds::gds(folder.path(), &format!("{words} --require gds"));
    let Some(()) = with_double(&mut command, "open-without-nvidia-fs") else {
        return;
    };
    let said = stderr(command.assert().code(4));
    assert!(said.contains("which --require gds"), "{said}");
    let report = gds::read_json(&gds::saved(folder.path()));
    let cells = report["cells"].as_array().unwrap();
    let by = |path: &str| cells.iter().find(|cell| cell["requested_path"] == path).unwrap();
    assert_eq!(by("gds")["status"], "unavailable", "{}", by("gds"));
    assert!(by("gds")["reason"].as_str().unwrap().contains("5001"), "{}", by("gds"));
    assert_eq!(by("cpu-gpu")["status"], "ok", "{}", by("cpu-gpu"));
    assert!(by("cpu-gpu")["iops"].as_f64().unwrap() > 0.0);
}

/// The lines of cuFile's log after `command` with two GPUs.
fn opened_with_two(mut command: Command, folder: &Path) -> Option<String> {
    with_double(&mut command, "")?;
    command.env("DOUBLE_GPUS", "2").assert().success();
    Some(left(folder).1)
}

#[test]
fn only_gpus_in_use_are_visible_to_cufile() {
    let words = "--path gds --threads 2 --io-size 8K --file-size 64K --duration 1x --buffer-memory";
    let both = ["cuda:0", "cuda:1"];
    for (devices, memory, named) in [
        ("cuda:1", "device", &both[1..]),
        ("cuda:0,cuda:1", "device", &both),
        ("cuda:0,cuda:1", "host", &both),
        ("all", "device", &both),
        ("all", "host", &both),
    ] {
        let folder = gds::folder();
        let command = gds::gds(folder.path(), &format!("{words} {memory} --device {devices}"));
        let Some(said) = opened_with_two(command, folder.path()) else {
            return;
        };
        let log = format!("driver open, GPUs: {}\n", named.len());
        assert_eq!(said, log, "{devices} {memory}");
        let report = gds::read_json(&gds::saved(folder.path()));
        assert_eq!(report["plan"]["devices"], serde_json::json!(named), "{devices} {memory}");
        let workers = report["plan"]["thread_groups"][0]["workers"].as_array().unwrap();
        let mut used: Vec<&str> = workers.iter().map(|it| it["device"].as_str().unwrap()).collect();
        used.dedup();
        assert_eq!(used, named, "{devices} {memory}: a thread for each");
    }
    let folder = train::folder();
    let command = train_by_gds(folder.path(), "");
    let log = opened_with_two(command, folder.path());
    assert_eq!(log.as_deref(), Some("driver open, GPUs: 1\n"), "train");
}

/// Calls of a function in all, and those for the memory of the second GPU.
fn calls_of_two(mut command: Command, folder: &Path, function: &str) -> Option<[u64; 2]> {
    with_double(&mut command, "direct")?;
    let log = folder.join("calls");
    command.env("DOUBLE_GPUS", "2").env("DOUBLE_CALLS", &log).assert().success();
    let calls = fs::read_to_string(log).unwrap();
    let count = |name: &str| {
        let of = calls.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        of.map_or(0, |count| count.parse().unwrap())
    };
    Some([count(function), count(&format!("second device: {function}"))])
}

#[test]
fn accelerators_and_ranks_are_dealt_over_the_devices() {
    for (devices, named) in [("all", 2), ("cuda:0,cuda:1", 2), ("cuda:1", 0)] {
        let folder = train::folder();
        let small = train::SMALL;
        let words = "unet3d -n 2 --params reader.batch_size=3 --files 28 --epochs 1 --compute-time 1ms --path gds";
        let command = train::train(folder.path(), &format!("{words} --device {devices} {small}"));
        let Some([all, second]) = calls_of_two(command, folder.path(), "cuFileRead") else {
            return;
        };
        let (report, log) = left(folder.path());
        let transport = &report["plan"]["transport"];
        assert_eq!(transport["devices"].as_array().unwrap().len(), named, "{transport}");
        let visible = named.max(1);
        assert_eq!(log, format!("driver open, GPUs: {visible}\n"), "{devices}");
        // Each accelerator reads as many files: whole batches.
        let of_second = if named == 0 { 0 } else { all / 2 };
        assert!(all >= 24 && second == of_second, "{devices}: {second} of {all}");

        let folder = checkpoint::folder();
        let more = ["--scale", "1", "--saves", "1", "--restores", "1", "--path", "gds", "--device"];
        let mut command = checkpoint::tiny(folder.path(), &more);
        command.arg(devices);
        let [all, second] = calls_of_two(command, folder.path(), "cuFileWrite").unwrap();
        let (report, _) = left(folder.path());
        let save = &report["plan"]["save"];
        assert_eq!(save["devices"].as_array().unwrap().len(), named, "{save}");
        assert_eq!(second, if named == 0 { 0 } else { all / 2 }, "{devices}: of {all}");
    }
}

#[test]
fn devices_without_work_are_left_alone_and_named() {
    let folder = train::folder();
    let mut command = train_by_gds(folder.path(), "--device cuda:0,cuda:1");
    let Some(()) = with_double(&mut command, "direct") else {
        return;
    };
    let said = stdout(command.env("DOUBLE_GPUS", "2").assert().success());
    assert!(said.contains("no work is assigned to cuda:1 of --device"), "{said}");
    let (report, log) = left(folder.path());
    assert_eq!(log, "driver open, GPUs: 1\n");
    assert_eq!(report["plan"]["transport"]["devices"], serde_json::json!([]));
    let mut command =
        train_by_gds(folder.path(), "-n 2 --params reader.batch_size=3 --device all --threads 1");
    with_double(&mut command, "direct");
    let said = stderr(command.env("DOUBLE_GPUS", "2").assert().code(3));
    assert!(said.contains("--threads 1: each of 2 devices needs a thread"), "{said}");
}

#[test]
fn devices_that_are_double_absent_or_hidden_are_refused_by_name() {
    for (devices, visible, words) in [
        ("all", "", "there is no cuda:0"),
        ("cuda:1,cuda:0,cuda:1", "0,1", "--device names cuda:1 more than once"),
        ("cuda:0,cuda:2", "0,1", "there is no cuda:2: CUDA shows 2 devices"),
        ("cuda:1", "1", "there is no cuda:1: CUDA shows 1 device on this machine, and"),
        ("cuda:1", "1", "CUDA_VISIBLE_DEVICES=1 hides all other devices"),
    ] {
        let folder = gds::folder();
        let mut command = gds::gds(folder.path(), &format!("--path gds --device {devices}"));
        let Some(()) = with_double(&mut command, "") else {
            return;
        };
        command.env("DOUBLE_GPUS", "2").env("CUDA_VISIBLE_DEVICES", visible);
        let said = stderr(command.assert().failure());
        assert!(said.contains(words), "{devices} {visible}: {said}");
    }
}
