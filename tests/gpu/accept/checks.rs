//! Judgements of the acceptance run that need no GPU: faults that it must not let pass.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)]

#[path = "checks_of_runs.rs"]
mod checks_of_runs;
#[path = "clock.rs"]
mod clock;
#[allow(dead_code, reason = "the acceptance run uses more of it")]
#[path = "direct.rs"]
mod direct;
#[allow(dead_code, reason = "the acceptance run uses more of it")]
#[path = "gpu.rs"]
mod gpu;
#[allow(dead_code, reason = "the acceptance run uses more of it")]
#[path = "library.rs"]
mod library;
#[allow(dead_code, reason = "the acceptance run uses more of it")]
#[path = "options.rs"]
mod options;
#[allow(dead_code, reason = "the acceptance run uses more of it")]
#[path = "preflight.rs"]
mod preflight;
#[allow(dead_code, reason = "the acceptance run uses more of it")]
#[path = "process.rs"]
mod process;
#[allow(dead_code, reason = "the acceptance run uses more of it")]
#[path = "report.rs"]
mod report;
#[allow(dead_code, reason = "the acceptance run uses more of it")]
#[path = "route.rs"]
mod route;
#[path = "../route.rs"]
mod route_of_check;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use library::{Sources, carried};
use preflight::Preflight;
use process::{Running, run};
use route::{Claim, Expected, Finding, Route, Tally, judge_cell};

const MIB: u64 = 1 << 20;

/// A cell of two threads that read 1 MiB each by `gds`, with this evidence of cuFile's.
fn cell(ran: Value, cufile: Value) -> Value {
    json!({
        "status": "ok", "requested_path": "gds", "effective_path": ran, "op": "read",
        "io_size_bytes": 65536, "threads": 2, "bytes": 2 * MIB, "operations": 32,
        "verification": {"checked_bytes": 2 * MIB, "mismatches": []},
        "evidence": {"effective_path": ran, "summary": "so it went", "direct_io": "honoured",
                     "direct_storage": cufile},
    })
}

fn counted(p2p: Value, posix: Value) -> Value {
    json!({"proof": "counters", "counted": "beforehand", "fallback_operations": posix,
           "direct_operations": {"p2pdma": p2p, "nvidia_fs": 0}})
}

#[test]
fn a_route_without_counted_transfers_does_not_pass() {
    for (ran, cufile) in [
        (json!("gds"), counted(json!(0), json!(0))),
        (json!("gds"), counted(json!(null), json!(null))),
        (json!("gds"), counted(json!(16), json!(1))),
        (json!("gds-compat"), counted(json!(16), json!(16))),
        (json!("gds"), json!({"proof": "none"})),
        (json!("gds"), json!({"proof": "elimination"})),
        (json!("gds"), json!({})),
        (json!("gds"), json!({"proof": "fallback_forbidden", "fallback_allowed": true})),
        // nvidia-fs counted some of 32 transfers.
        (json!("gds"), json!({"proof": "kernel_driver", "kernel_operations": {"nvidia_fs": 31}})),
    ] {
        let judged = judge_cell(&cell(ran.clone(), cufile.clone()), MIB, Expected::Either);
        assert!(judged.is_err(), "{ran} {cufile} {judged:?}");
    }
}

#[test]
fn a_route_must_match_the_machine() {
    let direct = cell(json!("gds"), counted(json!(16), json!(0)));
    let compat = cell(json!("gds-compat"), counted(json!(0), json!(16)));
    let mixed = cell(json!(null), counted(json!(8), json!(8)));
    let route = |cell, expected| match judge_cell(cell, MIB, expected) {
        Ok(Finding::Proven(route, _)) => Some(route),
        _ => None,
    };
    assert_eq!(route(&direct, Expected::Direct), Some(Route::Direct));
    assert_eq!(route(&compat, Expected::Direct), None);
    assert_eq!(route(&mixed, Expected::Direct), None);
    assert_eq!(route(&mixed, Expected::SomeDirect), Some(Route::Mixed));
    assert_eq!(route(&compat, Expected::SomeDirect), None);
    assert_eq!(route(&compat, Expected::Compat), Some(Route::Compat));
    assert_eq!(route(&direct, Expected::Compat), None);
    let by_kernel = json!({"proof": "kernel_driver", "kernel_operations": {"nvidia_fs": 48}});
    let by_kernel = cell(json!("gds"), by_kernel);
    assert_eq!(route(&by_kernel, Expected::Direct), Some(Route::Direct));
    let forbidden = json!({"proof": "fallback_forbidden", "fallback_allowed": false});
    let forbidden = cell(json!("gds"), forbidden);
    assert_eq!(route(&forbidden, Expected::Direct), Some(Route::Direct));
}

#[test]
fn counting_throughout_covers_every_transfer() {
    let with = |operations: u64| {
        let mut cufile = counted(json!(operations), json!(0));
        cufile["counted"] = json!("throughout");
        judge_cell(&cell(json!("gds"), cufile), MIB, Expected::Direct)
    };
    assert!(with(32).is_ok());
    assert!(with(31).is_err());
}

#[test]
fn all_bytes_are_moved_and_checked() {
    let right = cell(json!("gds"), counted(json!(16), json!(0)));
    assert!(judge_cell(&right, MIB, Expected::Direct).is_ok());
    assert!(judge_cell(&right, 2 * MIB, Expected::Direct).is_err());
    for (key, value) in [
        ("bytes", json!(0)),
        ("bytes", json!(null)),
        ("operations", json!(31)),
        ("status", json!("failed")),
        ("verification", json!({"checked_bytes": MIB, "mismatches": []})),
        ("verification", json!({"checked_bytes": 2 * MIB, "mismatches": [{}]})),
        ("verification", json!(null)),
        ("effective_path", json!("gds-compat")),
    ] {
        let mut wrong = right.clone();
        wrong[key] = value;
        assert!(judge_cell(&wrong, MIB, Expected::Direct).is_err(), "{wrong}");
    }
}

#[test]
fn unproven_routes_are_never_listed_as_proven() {
    let unproven = json!({"proof": "none", "to_prove": "count"});
    let finding = judge_cell(&cell(json!(null), unproven), MIB, Expected::Direct).unwrap();
    let mut tally = Tally::default();
    tally.add(finding.clone());
    tally.add(finding);
    assert_eq!(tally.proven(), 0);
    let (count, why) = tally.unproven().unwrap();
    assert_eq!(count, 2);
    assert!(why.ends_with("to prove it: count"), "{why}");
    tally.add(Finding::Proven(Route::Direct, "counters".to_string()));
    assert_eq!((tally.proven(), tally.unproven().unwrap().0), (1, 2));
    assert_eq!(tally.to_text(), "1 direct (counters)");
}

#[test]
fn a_cpu_path_is_the_requested_one() {
    let judged = |asked, ran, direct_io| {
        let evidence = json!({"effective_path": ran, "direct_io": direct_io, "summary": ""});
        let claim = Claim { asked, evidence: &evidence, transfers: None };
        claim.judge(Expected::Direct).is_ok()
    };
    assert!(judged("cpu-gpu", "cpu-gpu", "honoured"));
    assert!(judged("page-cache", "page-cache", "not_asked"));
    assert!(!judged("cpu-gpu", "page-cache", "not_asked"));
    assert!(!judged("cpu-gpu", "cpu-gpu", "refused"));
}

#[test]
fn the_machines_own_library_comes_before_the_bundled_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| {
        let path = folder.path().join(name);
        fs::write(&path, "").unwrap();
        path
    };
    let (own, carried) = (file("own"), file("carried"));
    let sources = |named: Option<&Path>, own: Option<&PathBuf>| Sources {
        named: named.map(|path| path.as_os_str().to_os_string()),
        own: own.into_iter().cloned().collect(),
        carried: carried.clone(),
    };
    let chosen = |sources: Sources| sources.choose().unwrap().unwrap();
    let (first, second) = (chosen(sources(None, Some(&own))), chosen(sources(None, None)));
    assert_eq!((first.path, first.why), (own.clone(), "it is this machine's own"));
    assert_eq!(second.path, carried);
    assert!(second.why.contains("this machine has none"));
    // The programs run in other folders.
    let relative = Path::new("tests/gpu/accept/../accept/run");
    let named = chosen(sources(Some(relative), Some(&own)));
    assert!(named.path.is_absolute() && named.path.ends_with("tests/gpu/accept/run"));
    let missing = sources(Some(Path::new("no/such/lib.so")), Some(&own)).choose();
    assert!(missing.unwrap_err().contains("no/such/lib.so"));
    // The loader finds it by its name.
    let by_name = chosen(sources(Some(Path::new("libcufile.so.0")), None));
    assert_eq!(by_name.path, Path::new("libcufile.so.0"));
}

#[test]
fn of_the_carried_libraries_the_one_for_the_driver_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let of = |cuda| {
        let path = carried(folder.path(), cuda);
        path.strip_prefix(folder.path()).unwrap().display().to_string()
    };
    assert_eq!(of(Some(12)), "libcufile.so.0");
    for major in [12, 13] {
        let library = folder.path().join(format!("libcufile-{major}/libcufile.so.0"));
        fs::create_dir_all(library.parent().unwrap()).unwrap();
        fs::write(library, "").unwrap();
    }
    assert_eq!(of(Some(12)), "libcufile-12/libcufile.so.0");
    assert_eq!(of(Some(14)), "libcufile-13/libcufile.so.0");
    assert_eq!(of(None), "libcufile-13/libcufile.so.0");
}

#[test]
fn one_cause_stands_for_all_that_cannot_be_checked() {
    let machine = |gpus: Value, version: Value, gds: Value| {
        json!({
            "host": {"accelerators": gpus, "cuda_problem": "no driver",
                     "paths": [{"path": "gds", "availability": gds}]},
            "gpu": {"cufile": {"version": version}, "nvidia_fs": {"known": "2.26"},
                    "devices": {"known": [{"p2p_memory_bytes": {"known": 0}}]}},
            "storage": {"filesystem": {"known": {"kind": "ext4"}},
                        "devices": {"known": [{"name": "nvme0n1p1"}]}},
        })
    };
    let (there, none) = (json!({"known": "1.14"}), json!({"unknown": "not found"}));
    let works = json!({"status": "available"});
    let fails = json!({"status": "unavailable", "fact": "rejected", "remedy": "mount /run/udev"});
    let of = |gpus, version: &Value, gds: &Value| {
        Preflight::of(&machine(gpus, version.clone(), gds.clone()))
    };
    let found = of(json!([]), &there, &works);
    assert_eq!(found.blocked.unwrap(), "CUDA shows no GPU: no driver");
    let found = of(json!([{}]), &none, &fails);
    assert!(found.blocked.unwrap().contains("no usable libcufile") && found.refused.is_none());
    let found = of(json!([{}]), &there, &fails);
    assert_eq!(found.refused.unwrap(), "rejected; mount /run/udev");
    let found = of(json!([{}]), &there, &works);
    assert!(found.should_be_direct.unwrap().contains("nvidia-fs") && !found.has_p2pdma);
    assert_eq!((found.blocked, found.refused), (None, None));
}

#[test]
fn an_older_c_library_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("bin");
    fs::create_dir_all(&bin).unwrap();
    let script = |name: &Path, text: &str| {
        fs::write(name, text).unwrap();
        fs::set_permissions(name, fs::Permissions::from_mode(0o755)).unwrap();
    };
    fs::copy("tests/gpu/accept/run", folder.path().join("run")).unwrap();
    script(&bin.join("accept"), "#!/bin/sh\necho started\n");
    script(&folder.path().join("getconf"), "#!/bin/sh\necho glibc 2.31\n");
    let path = std::env::var("PATH").unwrap();
    let ended = |needed: &str| {
        fs::write(bin.join("glibc"), format!("{needed}\n")).unwrap();
        let mut command = Command::new(folder.path().join("run"));
        run(command.env("PATH", format!("{}:{path}", folder.path().display())))
    };
    let (newer, same, older) = (ended("2.35"), ended("2.31"), ended("2.4"));
    assert_eq!(newer.code, Some(2));
    assert!(newer.stderr.contains("has glibc 2.31, and"), "{}", newer.stderr);
    assert_eq!((same.code, same.stdout.as_str()), (Some(0), "started\n"));
    assert_eq!(older.stdout, "started\n");
}

#[test]
fn an_abandoned_child_is_killed() {
    let mut running = Running::start(Command::new("sleep").arg("600")).unwrap();
    let process = PathBuf::from(format!("/proc/{}", running.id()));
    let limit = Duration::from_millis(50);
    let never = running.until("such a thing", limit, || false);
    assert!(never.unwrap_err().contains("such a thing"));
    assert!(process.exists());
    drop(running);
    assert!(!process.exists());
    let mut ended = Running::start(&mut Command::new("true")).unwrap();
    let limit = Duration::from_secs(600);
    assert!(ended.until("more", limit, || false).unwrap_err().contains("it ended"));
    let killed = Running::start(Command::new("sleep").arg("600"))
        .unwrap()
        .attend(Duration::from_millis(50), |_| {});
    assert_eq!(killed.code, None);
    assert!(killed.to_text().contains("it was killed after"));
}
