//! `stormlp gds` when something is wrong: exit code, message, and that no result is lost.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use crate::gds::{QUICK, folder, gds, read_json, saved};
use crate::stderr;

/// Runs `words` in a new folder, expects `code` and all of `said` on stderr.
fn check(words: &str, code: i32, said: &[&str]) {
    let folder = folder();
    let text = stderr(gds(folder.path(), words).assert().code(code));
    assert!(text.contains("error: "), "{words}: {text}");
    for part in said {
        assert!(text.contains(part), "{words}: `{part}` is not in: {text}");
    }
    assert!(!text.contains("panicked"), "{words}: {text}");
}

#[test]
fn wrong_words_are_2_with_valid_choices() {
    check("--path gdz", 2, &["gdz", "gds-batch"]);
    check("--op reed", 2, &["reed", "randread"]);
    check("--io-size 1X", 2, &["1X"]);
    check("--io-size 0", 2, &["from 1 byte to 1G"]);
    check("--threads 100000", 2, &["from 1 to 1024"]);
    check("--queue-depth 100000", 2, &["from 1 to 4096"]);
    check("--duration 9999h", 2, &["at most a week"]);
    check("--io-size 4M:1M:1M", 2, &["4M:1M:1M"]);
    check("--threads 0", 2, &["threads"]);
    check("--runs 0", 2, &["--runs"]);
    check("--queue-depth 0", 2, &["queue-depth"]);
    check("--duration 5parsecs", 2, &["parsecs"]);
    check("--preset fast", 2, &["`fast`", "quick"]);
    check("--output a.xlsx", 2, &["a.xlsx", ".csv"]);
    check("--device gpu", 2, &["gpu", "cuda:0"]);
    check("--job threads=1", 2, &["dir="]);
    check("--duration 1x --duration 1s", 2, &["cannot be used multiple times"]);
    check("--dir a --file b", 2, &["cannot be used with"]);
    check("--tune cufile-stats=4", 2, &["cufile-stats", "from 0 to 3"]);
    check("--path cpu --tune cufile-stats=3", 2, &["no effect"]);
}

#[test]
fn invalid_plans_are_3_and_all_faults_are_listed() {
    check(
        "--path cpu --io-size 1000,2000 --threads 1 --file-size 1M",
        3,
        &["2 problems", "1000 bytes", "2000 bytes"],
    );
    check(
        "--io-size 16M --file-size 8M --threads 1",
        3,
        &["16 MiB is larger", "help: ", "--file-size"],
    );
    check("--path cpu --io-size 1000 --threads 1 --file-size 1M", 3, &["1000 bytes", "O_DIRECT"]);
}

#[test]
fn what_this_machine_lacks_is_4_before_anything_is_written() {
    check("--device cuda:7", 4, &["no cuda:7", "stormlp doctor"]);
    check("--file-size 900T --threads 1", 4, &["900 TiB", "would fit"]);
    check("--path gds", 4, &["gds: ", "help: "]);
    check("--require gds", 4, &["--require gds"]);
    check("--file no/such/file", 4, &["no/such/file"]);
    check("--dir /proc/stormlp", 4, &["/proc/stormlp"]);
    check("--dir no/such/mount", 4, &["no/such/mount", "mkdir -p"]);
    check("--output no/such/folder/a.csv", 4, &["no/such/folder", "mkdir -p"]);
    check("--baseline nothing.json", 4, &["nothing.json"]);
    check(
        "--queue-depth 4096 --threads 1024 --io-size 1G --file-size 1G --duration 1x",
        4,
        &["are free"],
    );
}

#[test]
fn a_named_path_that_cannot_run_is_4_after_the_others_were_measured() {
    let folder = folder();
    let words = format!("{QUICK} --path gds,buffered");
    let text = stderr(gds(folder.path(), &words).assert().code(4));
    assert!(text.contains("error: gds read: "), "{text}");
    let report = read_json(&saved(folder.path()));
    assert_eq!(report["cells"][0]["status"], "unavailable");
    assert!(report["cells"][0]["reason"].as_str().unwrap().contains("libcufile"));
    assert_eq!(report["cells"][1]["status"], "ok");
}

#[test]
fn a_folder_in_place_of_a_file_and_a_file_in_place_of_a_folder_are_distinguished() {
    let folder = folder();
    fs::create_dir(folder.path().join("d")).unwrap();
    fs::write(folder.path().join("f"), "x").unwrap();
    let text = stderr(gds(folder.path(), "--file d").assert().code(3));
    assert!(text.contains("d is not a file or block device"), "{text}");
    let text = stderr(gds(folder.path(), "--dir f").assert().code(4));
    assert!(text.contains("is not a folder"), "{text}");
    let text = stderr(gds(folder.path(), "--file f --threads 1 --path buffered").assert().code(3));
    assert!(text.contains("larger than"), "{text}");
    let words = "--file f --file-size 1G --path buffered";
    let text = stderr(gds(folder.path(), words).assert().code(4));
    assert!(text.contains("f is too small: it has 1 B"), "{text}");
}

#[test]
fn a_given_file_with_data_of_others_is_written_only_on_request() {
    let folder = folder();
    let precious = folder.path().join("precious");
    let data = vec![7; 1 << 20];
    fs::write(&precious, &data).unwrap();
    let write = "--path cpu,buffered --op write --io-size 64K --threads 1 --duration 1x --file";
    let message = stderr(gds(folder.path(), &format!("{write} precious")).assert().code(3));
    assert!(message.contains("precious holds data and is not known to be created"), "{message}");
    assert!(message.contains("add --destroy-data"), "{message}");
    for mode in ["-I 1", "-I 3 -M 50"] {
        let mut gdsio = crate::stormlp();
        gdsio.args(format!("gdsio -x 1 {mode} -i 64K -f precious").split(' '));
        let message = stderr(gdsio.current_dir(folder.path()).assert().code(3));
        assert!(message.contains("add --destroy-data"), "{message}");
    }
    assert_eq!(fs::read(&precious).unwrap(), data);
    gds(folder.path(), &format!("{write} precious --destroy-data")).assert().success();
    assert_ne!(fs::read(&precious).unwrap(), data);
    // It may always be read, and an empty file may be written.
    gds(folder.path(), "--path cpu --duration 1x --threads 1 --file precious").assert().success();
    let empty = fs::File::create(folder.path().join("empty")).unwrap();
    empty.set_len(1 << 20).unwrap();
    gds(folder.path(), &format!("{write} empty")).assert().success();
}

#[test]
fn a_given_file_that_stormlp_created_is_written_again() {
    let folder = folder();
    for (name, op) in [("allocated", "write"), ("filled", "randwrite")] {
        let words = format!(
            "--path cpu,buffered --op {op} --io-size 64K --threads 1 --duration 1x --file {name}"
        );
        gds(folder.path(), &format!("{words} --file-size 1M")).assert().success();
        // A file system without extended attributes keeps no mark, so the origin is unknown.
        let path = folder.path().join(name);
        let keeps = rustix::fs::getxattr(&path, "user.stormlp", &mut [0_u8; 8][..]).is_ok();
        gds(folder.path(), &words).assert().code(if keeps { 0 } else { 3 });
    }
}

#[test]
fn foreign_files_are_never_overwritten() {
    let folder = folder();
    fs::create_dir(folder.path().join("d")).unwrap();
    fs::write(folder.path().join("d/stormlp.0"), "precious").unwrap();
    let text = stderr(gds(folder.path(), &format!("{QUICK} --dir d")).assert().code(3));
    assert!(text.contains("d/stormlp.0 exists"), "{text}");
    assert_eq!(fs::read_to_string(folder.path().join("d/stormlp.0")).unwrap(), "precious");
}

#[test]
fn a_csv_file_with_other_columns_is_not_added_to() {
    let folder = folder();
    fs::write(folder.path().join("a.csv"), "name,age\n").unwrap();
    let text = stderr(gds(folder.path(), "--output a.csv --append").assert().code(4));
    assert!(text.contains("other columns"), "{text}");
    let kept = fs::read_to_string(folder.path().join("a.csv")).unwrap();
    assert_eq!(kept, "name,age\n");
}

#[test]
fn a_dataset_folder_is_not_used_for_test_files() {
    let folder = folder();
    fs::create_dir(folder.path().join("d")).unwrap();
    let manifest = r#"{"format_version":1,"made_by":"datagen","files":[]}"#;
    fs::write(folder.path().join("d/.stormlp-manifest.json"), manifest).unwrap();
    let text = stderr(gds(folder.path(), &format!("{QUICK} --dir d")).assert().code(4));
    assert!(text.contains("stormlp datagen"), "{text}");
}

#[test]
fn a_manifest_that_is_not_json_is_the_reported_reason() {
    let folder = folder();
    let words = format!("{QUICK} --path buffered");
    gds(folder.path(), &words).assert().success();
    let manifest = folder.path().join("stormlp-data/gds/.stormlp-manifest.json");
    fs::write(manifest, "{\"format_version\":").unwrap();
    let text = stderr(gds(folder.path(), &words).assert().code(4));
    assert!(text.contains("the manifest cannot be read"), "{text}");
}

#[test]
fn more_folders_than_threads_is_3() {
    check(
        "--dir a --dir b --dir c --threads 2 --file-size 1M",
        3,
        &["3 files or folders need at least 3 threads"],
    );
}

#[test]
fn a_wrong_byte_is_found_with_its_file_and_offset() {
    let folder = folder();
    let words = "--path buffered --file-size 4M --threads 2 --duration 1x --verify";
    gds(folder.path(), words).assert().success();
    let file = File::options()
        .read(true)
        .write(true)
        .open(folder.path().join("stormlp-data/gds/stormlp.1"))
        .unwrap();
    let offset = (2 << 20) + 4711;
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[!byte[0]], offset).unwrap();
    fs::remove_dir_all(folder.path().join("stormlp-results")).unwrap();
    let text = stderr(gds(folder.path(), words).assert().code(5));
    assert!(text.contains("1 of 1 cells failed"), "{text}");
    let cell = read_json(&saved(folder.path()))["cells"][0].clone();
    assert_eq!(cell["status"], "failed");
    let first = &cell["verification"]["mismatches"][0];
    assert_eq!(first["offset_bytes"], offset);
    assert!(first["file"].as_str().unwrap().ends_with("stormlp.1"), "{first}");
    assert_ne!(first["expected"], first["found"]);
    let shown = |words: &[&str]| {
        let mut command = crate::stormlp();
        command.args(["report", "stormlp-results"]).args(words).current_dir(folder.path());
        crate::stdout(command.assert().success())
    };
    let list = shown(&[]);
    assert!(list.contains("DATA MISMATCH") && !list.contains("GiB/s"), "{list}");
    let metrics = shown(&["--format", "openmetrics"]);
    let wrong =
        metrics.lines().find(|line| line.starts_with("stormlp_run_data_mismatch{")).unwrap();
    assert!(wrong.contains("work=") && wrong.ends_with(" 1"), "{wrong}");
    assert!(metrics.contains("verdict=\"DATA MISMATCH\""), "{metrics}");
}

#[test]
fn a_file_truncated_during_reads_fails_its_cell_but_not_the_matrix() {
    let folder = folder();
    let words = "--path buffered,null --file-size 64M --threads 1 --io-size 4K";
    gds(folder.path(), &format!("{words} --duration 10ms")).assert().success();
    fs::remove_dir_all(folder.path().join("stormlp-results")).unwrap();
    let file = folder.path().join("stormlp-data/gds/stormlp.0");
    let truncated = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(700));
        File::options().write(true).open(file).unwrap().set_len(8192).unwrap();
    });
    let text = stderr(gds(folder.path(), &format!("{words} --duration 3s")).assert().code(5));
    truncated.join().unwrap();
    assert!(text.contains("buffered read: "), "{text}");
    let report = read_json(&saved(folder.path()));
    let status = |index: usize| report["cells"][index]["status"].clone();
    assert_eq!((status(0), status(1)), ("failed".into(), "ok".into()));
}

#[test]
fn files_in_memory_are_reported_as_such_without_blaming_others() {
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else {
        stormlp_fixtures::skipped("/dev/shm is not writable", "mount a tmpfs there");
        return;
    };
    let file = memory.path().join("file");
    fs::write(&file, vec![1; 1 << 20]).unwrap();
    let targets =
        [format!("--file {}", file.display()), format!("--dir {}/data", memory.path().display())];
    for target in targets {
        let folder = folder();
        let words = format!("--path buffered --threads 1 --file-size 1M --duration 1x {target}");
        let output = gds(folder.path(), &words).assert().success();
        let shown = crate::stdout(output);
        assert!(shown.contains("live in memory (tmpfs"), "{target}: {shown}");
        assert!(!shown.contains("another process"), "{target}: {shown}");
    }
}

#[test]
fn a_path_that_is_neither_file_nor_device_is_one_error() {
    let folder = folder();
    fs::create_dir(folder.path().join("a-folder")).unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    for name in ["/dev/zero", "/dev/tty", "pipe", "a-folder"] {
        for op in ["read", "write"] {
            let words = format!("--path cpu --op {op} --file {name}");
            let message = stderr(gds(folder.path(), &words).assert().code(3));
            let errors = message.lines().filter(|line| !line.starts_with("help")).count();
            assert_eq!(errors, 1, "{message}");
            assert!(message.contains("is not a file or block device"), "{message}");
        }
    }
}

#[test]
fn an_export_that_never_ends_is_not_read() {
    let folder = folder();
    std::os::unix::fs::symlink("/dev/zero", folder.path().join("rows.csv")).unwrap();
    let words = "--path null --output rows.csv --threads 1 --duration 1x --file-size 1M --dry-run";
    gds(folder.path(), &words.replace(" --dry-run", "")).assert().success();
}
