//! `stormlp gdsio`: gdsio's words in, gdsio's line out.

use std::fs;
use std::path::Path;

use crate::gds::{folder, read_json, saved};
use crate::{stderr, stdout, stormlp};

fn gdsio(folder: &Path, words: &str) -> assert_cmd::Command {
    let mut command = stormlp();
    command
        .current_dir(folder)
        .env("STORMLP_LIBCUFILE", "/nonexistent/libcufile.so.0")
        .env_remove("STORMLP_EMULATE")
        .arg("gdsio")
        .args(words.split_whitespace());
    command
}

/// Checks a result line field by field, as parsers of gdsio's output read it.
fn check_line(line: &str, start: &str, operations: u64) {
    assert!(line.starts_with(start), "{line}");
    let number = |key: &str| -> f64 {
        let behind = line.split_once(key).unwrap_or_else(|| panic!("{key}: {line}")).1;
        behind.split_whitespace().next().unwrap().parse().unwrap()
    };
    assert!(number("Throughput: ") > 0.0 && line.contains(" GiB/sec, Avg_Latency: "), "{line}");
    assert!(number("Avg_Latency: ") > 0.0 && line.contains(" usecs ops: "), "{line}");
    assert_eq!(number(" ops: "), operations as f64, "{line}");
    assert!(number(" total_time ") > 0.0 && line.ends_with(" secs"), "{line}");
}

#[test]
fn a_verified_write_prints_gdsios_three_lines() {
    let folder = folder();
    let words = "-D d -w 2 -s 8M -i 1M -x 2 -I 1 -V";
    let text = stdout(gdsio(folder.path(), words).assert().success());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    let rest = "XferType: CPU_GPU Threads: 2 DataSetSize: 16384/16384(KiB) IOSize: 1024(KiB) ";
    check_line(lines[0], &format!("IoType: WRITE {rest}"), 16);
    assert_eq!(lines[1], "Verifying data");
    check_line(lines[2], &format!("IoType: READ {rest}"), 16);
    assert!(folder.path().join("d/gdsio.1").is_file());
}

#[test]
fn workers_split_a_file_without_a_time_and_share_it_with_one() {
    let folder = folder();
    let split = stdout(gdsio(folder.path(), "-f f -w 4 -s 8M -i 1M -x 1 -I 1").assert().success());
    check_line(
        split.trim_end(),
        "IoType: WRITE XferType: CPUONLY Threads: 4 DataSetSize: 8192/8192(KiB)",
        8,
    );
    let timed = "-f f -w 4 -s 8M -i 64K -x 4 -I 2 -T 0.05";
    let timed = stdout(gdsio(folder.path(), timed).assert().success());
    assert!(timed.starts_with("IoType: RANDREAD XferType: CPU_CACHED_GPU Threads: 4 "), "{timed}");
    assert!(timed.contains("/32768(KiB) IOSize: 64(KiB)"), "{timed}");
}

#[test]
fn workers_that_do_not_divide_a_file_move_all_of_it() {
    let folder = folder();
    let words = "-f g3 -w 3 -s 16M -i 1M -x 1 -I 1";
    let line = stdout(gdsio(folder.path(), words).assert().success());
    check_line(
        line.trim_end(),
        "IoType: WRITE XferType: CPUONLY Threads: 3 DataSetSize: 16384/16384(KiB)",
        16,
    );
}

#[test]
fn verifying_a_read_compares_the_content_and_replaces_nothing() {
    let folder = folder();
    let read = "-D d -w 1 -s 4M -i 1M -x 1 -I 0 -V";
    let write = "-D d -w 1 -s 4M -i 1M -x 1 -I 1 -V";
    gdsio(folder.path(), write).assert().success();
    gdsio(folder.path(), read).assert().success();
    let file = folder.path().join("d/gdsio.0");
    let own = vec![7u8; 4 << 20];
    fs::write(&file, &own).unwrap();
    let text = stderr(gdsio(folder.path(), read).assert().code(5));
    assert!(text.contains("cells failed"), "{text}");
    assert_eq!(fs::read(&file).unwrap(), own);
}

#[test]
fn data_not_written_for_verification_is_not_called_corrupt() {
    let folder = folder();
    for target in ["-D d", "-f f --destroy-data"] {
        let line = |rest: &str| format!("{target} -w 2 -s 4M -i 64K -x 1 {rest}");
        gdsio(folder.path(), &line("-I 1")).assert().success();
        let text = stderr(gdsio(folder.path(), &line("-I 0 -V")).assert().code(4));
        assert!(
            text.contains("was not written with -V and -k 0")
                && text.contains("write it first with -I 1 -V without -T, or leave -V out"),
            "{text}"
        );
        gdsio(folder.path(), &line("-I 1 -V")).assert().success();
        for kind in ["-I 0 -V", "-I 2 -V"] {
            gdsio(folder.path(), &line(kind)).assert().success();
        }
        let text = stderr(gdsio(folder.path(), &line("-I 0 -V -k 3")).assert().code(4));
        assert!(text.contains("-k 3"), "{text}");
    }
    // Data that was written to be verified and is wrong in places is corrupt.
    let file = folder.path().join("f");
    let mut bytes = fs::read(&file).unwrap();
    bytes[..1 << 20].fill(7);
    fs::write(&file, bytes).unwrap();
    let read = "-f f -w 2 -s 4M -i 64K -x 1 -I 0 -V";
    gdsio(folder.path(), read).assert().code(5);
}

#[test]
fn advice_names_gdsios_own_options() {
    let folder = folder();
    for (words, code, said) in [
        ("-f missing -x 1 -I 0", 4, "the same line with -I 1"),
        ("-D d -x 1 -s 1M -i 2M -I 1", 3, "use a larger -s or an -i up to 1M"),
        ("-f f -s 1M -w 0 -x 1 -I 1", 2, "from 1 to 1024"),
    ] {
        let text = stderr(gdsio(folder.path(), words).assert().code(code));
        assert!(text.contains(said) && !text.contains(" --"), "{text}");
    }
    let words = "-D d -x 1 -O 1 -s 1M -i 64K -I 0 -T 0.2";
    gdsio(folder.path(), "-D d -x 1 -s 1M -i 64K -I 1").assert().success();
    let done = gdsio(folder.path(), words).assert().success();
    let text = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
    assert!(text.contains("leave -T out"), "{text}");
    assert!(!text.contains("--duration") && !text.contains("--file-size"), "{text}");
}

#[test]
fn a_job_file_with_variables_runs_its_jobs_side_by_side() {
    let folder = folder();
    let text = "[global]\nname=nightly\nxfer_type=$TYPE\nrw=write\nbs=128K\nsize=1M\n\n\
                [job1]\nnum_threads=2\ndirectory=$ROOT/one\n\n[job2]\nnum_threads=1\ndirectory=two\n";
    fs::write(folder.path().join("rw.gdsio"), text).unwrap();
    let mut command = gdsio(folder.path(), "rw.gdsio");
    let line = stdout(command.env("TYPE", "1").env("ROOT", ".").assert().success());
    check_line(
        line.trim_end(),
        "IoType: WRITE XferType: CPUONLY Threads: 3 DataSetSize: 3072/3072(KiB)",
        24,
    );
    let report = read_json(&saved(folder.path()));
    assert_eq!(report["plan"]["request"]["name"], "nightly");
    assert_eq!(report["cells"][0]["jobs"].as_array().unwrap().len(), 2);
    let text = stderr(gdsio(folder.path(), "rw.gdsio").assert().code(2));
    assert!(text.contains("rw.gdsio: line 3") && text.contains("`TYPE`"), "{text}");
}

#[test]
fn statistics_of_each_job_follow_the_line_with_j() {
    let folder = folder();
    let words = "-x 1 -I 1 -i 64K -s 1M -J -f a -w 2 -f b -w 1";
    let text = stdout(gdsio(folder.path(), words).assert().success());
    let jobs: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(jobs.len(), 2, "{text}");
    assert!(jobs[0].starts_with("Job: job0 Threads: 2 "), "{text}");
}

#[test]
fn unusable_options_are_refused_by_name() {
    let folder = folder();
    for (words, code, said) in [
        ("-P sockfs://1.2.3.4:1 -x 0", 2, "`-P`"),
        ("-D d -Z 3", 2, "-Z"),
        ("-x 1", 2, "-D"),
        ("-D d -f f -x 1", 2, "cannot be combined"),
        ("-D d -x 8", 2, "-x 8"),
        ("-D d -w 0 -x 1", 2, "-w 0"),
        ("nowhere.gdsio", 4, "nowhere.gdsio"),
        ("-f missing -x 1 -I 0", 4, "missing does not exist"),
        ("-f missing -x 1 -I 0 -s 8M", 4, "write the file first: the same line with -I 1"),
        ("-D d -x 0 -s 1M", 4, "libcufile"),
        ("-D d -x 2 -d 7 -s 1M", 4, "no cuda:7"),
        ("-D d -x 2 -d 7 -s 1M", 4, "help: `stormlp doctor` lists them; --emulate (or STORMLP_"),
        ("-D d -x 0 -s 1M", 4, "--emulate"),
        ("-w 2 -D d -D e -x 1", 2, "`-w`"),
    ] {
        let text = stderr(gdsio(folder.path(), words).assert().code(code));
        assert!(text.contains("error: ") && text.contains(said), "{words}: {text}");
    }
    assert!(stdout(gdsio(folder.path(), "-h").assert().success()).contains("Usage: stormlp gdsio"));
}

#[test]
fn a_line_with_a_gpu_runs_emulated_on_request() {
    let folder = folder();
    // The vendor's first two examples, options before the file.
    for (kind, words) in [(0, "--emulate -x 0"), (2, "-x 2 --emulate")] {
        let words = format!("{words} -d 0 -s 8K -i 4K -f out{kind} -I 1");
        let done = gdsio(folder.path(), &words).assert().success();
        let said = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
        assert!(said.contains("accelerator memory is emulated"), "{said}");
        assert_eq!(said.contains("-x 0 runs as -x 2"), kind == 0, "{said}");
        check_line(
            stdout(done).trim_end(),
            "IoType: WRITE XferType: CPU_GPU Threads: 1 DataSetSize: 8/8(KiB) IOSize: 4(KiB) ",
            2,
        );
    }
    let words = "-w 2 -i 64K -s 1M -x 6 -I 0 -d 3 -D d -T 0.05";
    let mut command = gdsio(folder.path(), words);
    let line = stdout(command.env("STORMLP_EMULATE", "1").assert().success());
    assert!(line.starts_with("IoType: READ XferType: CPU_GPU"), "{line}");
}

#[test]
fn a_folder_keeps_the_files_that_stormlp_did_not_make() {
    let folder = folder();
    fs::create_dir(folder.path().join("d")).unwrap();
    let file = folder.path().join("d/gdsio.0");
    let own = vec![7u8; 1 << 20];
    fs::write(&file, &own).unwrap();
    for kind in ["-I 1", "-I 3", "-I 0 -M 50"] {
        let words = format!("-D d -w 1 -s 1M -i 64K -x 1 {kind}");
        let text = stderr(gdsio(folder.path(), &words).assert().code(3));
        assert!(text.contains("was not created by stormlp (no manifest)"), "{text}");
        assert!(text.contains("help: use another -D, or name the file with -f"), "{text}");
        assert_eq!(fs::read(&file).unwrap(), own);
    }
}

#[test]
fn files_that_gdsio_made_are_read() {
    let folder = folder();
    fs::create_dir(folder.path().join("d")).unwrap();
    for worker in 0..2 {
        fs::write(folder.path().join(format!("d/gdsio.{worker}")), vec![7u8; 1 << 20]).unwrap();
    }
    for kind in ["-I 0", "-I 2 -T 0.05"] {
        let words = format!("-D d -w 2 -s 1M -i 64K -x 1 {kind}");
        let line = stdout(gdsio(folder.path(), &words).assert().success());
        assert!(line.contains("READ XferType: CPUONLY Threads: 2 "), "{line}");
    }
    // No manifest claims them afterwards, and their content has no counterpart to compare with.
    assert!(!folder.path().join("d/.stormlp-manifest.json").exists());
    let fewer = gdsio(folder.path(), "-D d -w 3 -s 1M -i 64K -x 1 -I 0").assert().code(4);
    assert!(stderr(fewer).contains("gdsio.2 does not exist"));
    assert!(!folder.path().join("d/gdsio.2").exists());
    let verify = gdsio(folder.path(), "-D d -w 2 -s 1M -i 64K -x 1 -I 0 -V").assert().code(4);
    assert!(stderr(verify).contains("was not written with -V"));
    let more = gdsio(folder.path(), "-D d -w 2 -s 2M -i 64K -x 1 -I 0").assert().code(4);
    assert!(stderr(more).contains("is too small"));
    assert_eq!(fs::read(folder.path().join("d/gdsio.0")).unwrap(), vec![7u8; 1 << 20]);
}

#[test]
fn a_job_is_measured_over_its_own_time() {
    let folder = folder();
    let text = "[global]\nxfer_type=1\nrw=write\nbs=64K\nsize=256K\n\n\
                [small]\nnum_threads=1\ndirectory=small\n\n[large]\nnum_threads=4\ndirectory=large\n";
    fs::write(folder.path().join("two.gdsio"), text).unwrap();
    stdout(gdsio(folder.path(), "two.gdsio").assert().success());
    let saved = saved(folder.path());
    let cell = &read_json(&saved)["cells"][0];
    let whole = cell["duration_seconds"].as_f64().unwrap();
    for job in cell["jobs"].as_array().unwrap() {
        let number = |key: &str| job[key].as_f64().unwrap();
        let seconds = number("duration_seconds");
        assert!(seconds > 0.0 && seconds <= whole, "{job}");
        let rate = number("bytes") / seconds;
        assert!((rate / number("throughput_bytes_per_second") - 1.0).abs() < 1e-6, "{job}");
    }
    let shown = stdout(stormlp().args(["report", "show"]).arg(&saved).assert().success());
    assert!(shown.contains("\nJobs\n"), "{shown}");
    assert!(shown.lines().any(|line| line.trim_start().starts_with("large ")), "{shown}");
}
