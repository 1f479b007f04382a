//! Limits of the machine and of its user: each is a clear error, none a crash.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Runs a shell line in which `$0` is the executable.
fn shell(folder: &Path, line: &str) -> Output {
    Command::new("sh")
        .current_dir(folder)
        .args(["-c", line, env!("CARGO_BIN_EXE_stormlp")])
        .output()
        .unwrap()
}

pub(crate) fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn sizes_that_do_not_fit_into_memory_are_refused_before_they_are_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let datagen = "datagen unet3d --dir d --files 100000000 --dry-run --params \
                   dataset.record_length_bytes=8 --params dataset.record_length_bytes_stdev=1";
    let output = shell(folder.path(), &format!("ulimit -v 700000; exec \"$0\" {datagen}"));
    assert_eq!(output.status.code(), Some(4), "{}", told(&output));
    let told = told(&output);
    assert!(told.contains("the sizes of 100000000 files need 762.94 MiB of memory"), "{told}");
}

#[test]
fn a_file_size_limit_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tiny.yaml"), crate::checkpoint::TINY).unwrap();
    let gds = "gds --path buffered --threads 1 --file-size 4M --duration 1x";
    for (words, code) in [
        (gds.to_string(), 4),
        (format!("{gds} --op write --file new"), 4),
        ("checkpoint tiny.yaml --ranks 8 --pause 0 --saves 1 --restores 0".to_string(), 4),
    ] {
        let output = shell(folder.path(), &format!("ulimit -f 1000; exec \"$0\" {words}"));
        let told = told(&output);
        assert_eq!(output.status.code(), Some(code), "{words}: {:?} {told}", output.status);
        assert!(told.contains("File too large"), "{told}");
        assert!(told.contains("ulimit -f"), "{told}");
    }
}

#[test]
fn a_dataset_of_files_above_the_limit_is_refused_before_anything_is_made_or_removed() {
    let folder = tempfile::tempdir().unwrap();
    let datagen = format!("datagen unet3d --files 2 --dir data {SMALL}");
    let refused = |words: &str| {
        let line = format!("ulimit -f 100; exec \"$0\" {words}");
        let output = shell(folder.path(), &line);
        let told = told(&output);
        assert_eq!(output.status.code(), Some(4), "{words}: {told}");
        assert!(told.contains("this process may only write files up to"), "{told}");
        assert!(told.contains("help: raise the limit on the size of files (ulimit -f)"), "{told}");
        assert!(!told.contains("--resume"), "{told}");
    };
    refused(&datagen);
    refused(&format!("train unet3d --generate --files 35 --dir data {SMALL}"));
    let data = folder.path().join("data");
    assert!(!data.exists());

    let made = shell(folder.path(), &format!("exec \"$0\" {datagen}"));
    assert_eq!(made.status.code(), Some(0), "{}", told(&made));
    refused(&format!("{datagen} --overwrite"));
    assert_eq!(fs::read_dir(data.join("train")).unwrap().count(), 2);
}

#[test]
fn more_threads_than_open_files_are_refused_before_files_are_laid_out() {
    let folder = tempfile::tempdir().unwrap();
    let gds = "gds --dir data --path cpu --engine psync --threads 32 --file-size 1M --duration 1x";
    let output = shell(folder.path(), &format!("ulimit -n 20; exec \"$0\" {gds}"));
    let told = told(&output);
    assert_eq!(output.status.code(), Some(4), "{told}");
    assert!(told.contains("this process may have 20"), "{told}");
    assert!(told.contains("ulimit -n 40"), "{told}");
    assert!(!folder.path().join("data").exists());
}

#[test]
fn a_link_that_does_not_lead_to_a_folder_is_reported() {
    let folder = folder_with_a_model();
    std::os::unix::fs::symlink("loop", folder.path().join("loop")).unwrap();
    std::os::unix::fs::symlink("nowhere", folder.path().join("dead")).unwrap();
    for words in [
        "gds --path cpu --threads 1 --file-size 1M --duration 1x --dir".to_string(),
        format!("datagen unet3d --files 2 {SMALL} --dir"),
        "checkpoint tiny.yaml --ranks 8 --dir".to_string(),
        "checkpoint tiny.yaml --scale 0.3 --dir".to_string(),
    ] {
        for (dir, link) in [("loop", "loop"), ("loop/x", "loop"), ("dead/x", "dead")] {
            let output = shell(folder.path(), &format!("exec \"$0\" {words} {dir}"));
            let told = told(&output);
            assert_eq!(output.status.code(), Some(4), "{words} {dir}: {told}");
            let what = format!("{link} is a link that does not lead to a folder");
            assert!(told.contains(&what), "{words} {dir}: {told}");
            assert!(told.contains("help: remove the link"), "{words}: {told}");
            assert!(!told.contains("SCALED"), "{told}");
        }
    }
}

#[test]
fn impossible_file_names_are_refused_and_nothing_is_created() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tiny.yaml"), crate::checkpoint::TINY).unwrap();
    let path = &folder.path().join("here");
    fs::create_dir(path).unwrap();
    std::os::unix::fs::symlink("b", path.join("a")).unwrap();
    std::os::unix::fs::symlink("a", path.join("b")).unwrap();
    let long = "x".repeat(300);
    let deep = "y/".repeat(2500);
    for name in [long.as_str(), deep.as_str(), "a", "a/c", "$(printf '\\377')/none/deeper"] {
        for words in [
            format!(
                "gds --path buffered --threads 1 --file-size 1M --duration 1x --dir \"{name}\""
            ),
            format!(
                "gds --path buffered --threads 1 --file-size 1M --duration 1x --file \"{name}\""
            ),
            format!("datagen unet3d --files 1 --dir \"{name}\""),
            format!("train unet3d --generate --files 1 --steps 1 --dir \"{name}\""),
            format!("checkpoint ../tiny.yaml --ranks 8 --pause 0 --dir \"{name}\""),
            format!("clean \"{name}\""),
        ] {
            let output = shell(path, &format!("exec \"$0\" {words}"));
            let (code, told) = (output.status.code(), told(&output));
            assert!(matches!(code, Some(3 | 4)), "{code:?} {words:.60}: {told:.400}");
            let made: Vec<_> =
                fs::read_dir(path).unwrap().flatten().map(|e| e.file_name()).collect();
            assert_eq!(made.len(), 2, "{words:.60} made {made:?}");
        }
    }
}

/// Has the kernel refuse one system call with an error number, then runs a command. The numbers are
/// the same on every architecture.
const REFUSE: &str = r#"
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
call, errno = int(sys.argv[1]), int(sys.argv[2])
code = [(0x20, 0, 0, 0), (0x15, 0, 1, call), (6, 0, 0, 0x50000 | errno), (6, 0, 0, 0x7fff0000)]
rules = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in code))
program = struct.pack("HP", len(code), ctypes.addressof(rules))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, program, 0, 0) == 0
os.execv(sys.argv[3], sys.argv[3:])
"#;
const IO_URING_SETUP: u32 = 425;
const CLONE3: u32 = 435;
const OPENAT2: u32 = 437;
pub(crate) const SMALL: &str =
    "--params dataset.record_length_bytes=1000000 --params dataset.record_length_bytes_stdev=0";

/// Runs the executable without a system call; `None` where there is no Python to arrange it.
pub(crate) fn without(folder: &Path, call: u32, errno: i32, words: &str) -> Option<Output> {
    Command::new("python3")
        .current_dir(folder)
        .args(["-c", REFUSE, &call.to_string(), &errno.to_string()])
        .arg(env!("CARGO_BIN_EXE_stormlp"))
        .args(words.split_whitespace())
        .output()
        .ok()
}

fn folder_with_a_model() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tiny.yaml"), crate::checkpoint::TINY).unwrap();
    folder
}

#[test]
fn refused_io_uring_is_reported_before_anything_is_created() {
    let folder = folder_with_a_model();
    for words in [
        "gds --path cpu --engine uring --threads 1 --file-size 1M --duration 1x".to_string(),
        format!("datagen unet3d --files 2 --tune engine=uring {SMALL}"),
        format!("train unet3d --generate --files 35 --engine uring {SMALL}"),
        "checkpoint tiny.yaml --ranks 8 --engine uring".to_string(),
    ] {
        for errno in [1, 38] {
            let Some(output) = without(folder.path(), IO_URING_SETUP, errno, &words) else {
                return;
            };
            let told = told(&output);
            assert_eq!(output.status.code(), Some(4), "{words}: {told}");
            assert!(told.contains("--engine psync"), "{words}: {told}");
            assert_eq!(told.matches("--engine psync").count(), 1, "{words}: {told}");
            assert!(told.contains("io_uring"), "{words}: {told}");
            assert!(told.contains("seccomp"), "what refuses it: {words}: {told}");
            let made = fs::read_dir(folder.path()).unwrap().count();
            assert_eq!(made, 1, "{words}");
        }
    }
}

#[test]
fn a_thread_that_cannot_be_started_is_reported() {
    let folder = folder_with_a_model();
    for words in [
        "gds --path cpu --threads 1 --file-size 1M --duration 1x".to_string(),
        format!("datagen unet3d --files 2 {SMALL}"),
        format!("train unet3d --generate --files 35 {SMALL}"),
        "checkpoint tiny.yaml --ranks 8".to_string(),
    ] {
        let Some(output) = without(folder.path(), CLONE3, 11, &words) else {
            return;
        };
        let told = told(&output);
        assert_eq!(output.status.code(), Some(4), "{words}: {told}");
        assert!(!told.contains("panicked"), "{words}: {told}");
    }
}

/// Runs a command as a user who may have so many threads; the system's own limits hold for root.
const FEW_THREADS: &str = r#"
import os, resource, sys
threads, user = int(sys.argv[1]), int(sys.argv[2])
os.chown(".", user, user)
resource.setrlimit(resource.RLIMIT_NPROC, (threads, threads))
os.setgroups([])
os.setgid(user)
os.setuid(user)
os.environ["HOME"] = "/nonexistent"
os.execv(sys.argv[3], sys.argv[3:])
"#;

#[test]
fn a_limit_of_threads_is_named_wherever_it_is_reached() {
    let user = (61_000 + std::process::id() % 4000).to_string();
    let with = |threads: u32, words: &str| {
        let folder = folder_with_a_model();
        fs::write(
            folder.path().join("kv.csv"),
            "Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n\
            1.0,Write,49152,Tier-2,a,Prefill\n1.1,Read,49152,Tier-2,a,Decode\n",
        )
        .unwrap();
        let mut command = Command::new("python3");
        command.current_dir(&folder).args(["-c", FEW_THREADS, &threads.to_string(), &user]);
        command.arg(env!("CARGO_BIN_EXE_stormlp")).args(words.split_whitespace());
        command.output().ok()
    };
    let can_change_user = with(50, "--version").is_some_and(|output| output.status.success());
    if !can_change_user {
        return;
    }
    for words in [
        "gds --path cpu --threads 2 --file-size 1M --duration 1x".to_string(),
        "gds --path cpu-gpu --device host --threads 1 --file-size 1M --duration 1x".to_string(),
        format!("datagen unet3d --files 2 --threads 2 {SMALL}"),
        format!("train unet3d --generate --files 35 --steps 4 {SMALL}"),
        "checkpoint tiny.yaml --ranks 8 --saves 1 --restores 0 --pause 0".to_string(),
        "kvcache mlperf tiny-1b --users 2 --duration 100ms".to_string(),
        "kvcache serving tiny-1b --concurrency 2 --duration 100ms".to_string(),
        "kvcache replay kv.csv tiny-1b --speed max".to_string(),
        "doctor .".to_string(),
    ] {
        for threads in [1, 2, 3, 4, 6] {
            let output = with(threads, &words).unwrap();
            let (code, told) = (output.status.code(), told(&output));
            let is_slow = code == Some(3) && told.contains("use a longer --duration");
            let is_known = is_slow || matches!(code, Some(0 | 4));
            assert!(is_known, "{words}: {threads} threads: {code:?} {told}");
            assert!(!told.contains("panicked"), "{words}: {threads} threads: {told}");
            let is_named = code != Some(4) || told.contains("ulimit -u");
            assert!(is_named, "{words}: {threads} threads: {told}");
        }
    }
}

#[test]
fn kernels_without_openat2_reach_files_one_folder_after_the_other() {
    let folder = folder_with_a_model();
    for words in [
        "gds --path buffered --threads 2 --file-size 1M --duration 1x".to_string(),
        format!("datagen unet3d --files 2 {SMALL}"),
        "checkpoint tiny.yaml --ranks 8 --saves 1 --restores 1 --pause 0".to_string(),
        "clean".to_string(),
    ] {
        let Some(output) = without(folder.path(), OPENAT2, 38, &words) else {
            return;
        };
        assert_eq!(output.status.code(), Some(0), "{words}: {}", told(&output));
    }
    assert!(!folder.path().join("stormlp-data/gds").exists());
}

#[test]
fn a_failed_transfer_is_reported_with_its_file_and_offset() {
    let folder = folder_with_a_model();
    let gds = "gds --path cpu --threads 1 --file-size 8M --duration 1x";
    let checkpoint = "checkpoint tiny.yaml --ranks 8 --saves 1 --restores 1 --pause 0";
    for (words, file) in [
        (format!("{gds} --inject-fault read:3:EIO"), "stormlp.0"),
        (format!("{gds} --dir new --inject-fault write:4:EIO"), "new/stormlp.0"),
        (format!("{checkpoint} --inject-fault read:9:EIO"), "_states.pt"),
        (format!("{checkpoint} --inject-fault write:9:EIO"), "_states.pt"),
        (
            format!("train unet3d --generate --files 35 {SMALL} --inject-fault write:9:EIO"),
            "stormlp-data/unet3d/",
        ),
    ] {
        let output = shell(folder.path(), &format!("exec \"$0\" {words}"));
        let told = told(&output);
        assert_eq!(output.status.code(), Some(5), "{words}: {told}");
        assert!(told.contains("Input/output error"), "{words}: {told}");
        let placed = told.contains("at byte ") || told.contains("at offset ");
        assert!(placed && told.contains(file), "{words}: {told}");
    }
}

#[test]
fn a_report_that_does_not_fit_is_reported_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let gds = "gds --path null --threads 1 --file-size 4M --duration 1x";
    let output = shell(folder.path(), &format!("ulimit -f 1; exec \"$0\" {gds}"));
    let told = told(&output);
    assert_eq!(output.status.code(), Some(4), "{told}");
    assert!(told.contains("the report could not be saved"), "{told}");
    assert!(told.contains("help: raise the limit on the size of files"), "{told}");
}
