//! Storage that is slowed down or made to fail: every command marks it and handles it.

use std::fs;
use std::process::{Command, Stdio};

use crate::checkpoint::{TINY, tiny};
use crate::checkpoint_trouble::wait_for;
use crate::gds::{QUICK, folder, gds};
use crate::train::{SMALL, train};
use crate::{stderr, stdout, stormlp};

#[test]
fn a_throttled_run_is_always_marked() {
    let message = "--throttle allowed reads 64 MiB/s";
    let place = folder();
    let words = format!("{QUICK} --path buffered --op read --throttle read=64M");
    let printed = gds(place.path(), &words).assert().success();
    let printed = printed.get_output();
    let printed = [&*printed.stdout, &*printed.stderr].concat();
    let printed = String::from_utf8(printed).unwrap();
    assert!(printed.replace('\n', " ").contains(message), "{printed}");
    let reports = fs::read_dir(place.path().join("stormlp-results")).unwrap();
    let report = reports.last().unwrap().unwrap().path().join("report.json");
    let report: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
    assert!(report["warnings"].to_string().contains("impaired"));
    // A transfer begun within the time may end after it, but no more than stand in line.
    let bytes = report["cells"][0]["bytes"].as_u64().unwrap();
    assert!(bytes < 40 << 20, "{bytes} bytes in 50 ms at 64 MiB/s");
}

#[test]
fn an_injected_fault_ends_a_run_like_a_real_one() {
    let place = folder();
    fs::write(place.path().join("tiny.yaml"), TINY).unwrap();
    let fault = ["--inject-fault", "write:3:EIO"];
    let said = stderr(tiny(place.path(), &fault).assert().code(5));
    assert!(said.contains("Input/output error"), "{said}");
    let words = format!("unet3d --files 28 {SMALL} --inject-fault create:9:ENOSPC");
    let said = stderr(train(folder().path(), &words).assert().code(5));
    assert!(said.contains("No space left on device"), "{said}");
}

#[test]
fn advice_names_the_workload_as_it_was_typed() {
    let place = folder();
    let yaml = "model: {name: mine}\ndataset: {format: npz, num_files_train: 28, \
                record_length_bytes: 4096}\nreader: {data_loader: pytorch, batch_size: 4}\n\
                train: {computation_time: 0.001}\n";
    fs::write(place.path().join("my.yaml"), yaml).unwrap();
    let words = format!("my.yaml --dir data --generate {SMALL} --inject-fault read:3:EIO");
    let said = stderr(train(place.path(), &words).assert().code(5))
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let advice = "`stormlp datagen my.yaml --dir data --check`";
    assert!(said.contains(advice), "{said}");
}

#[test]
fn an_unreadable_marker_does_not_make_a_folder_foreign() {
    let place = folder();
    fs::write(place.path().join("tiny.yaml"), TINY).unwrap();
    let once = ["--saves", "1", "--restores", "1"];
    tiny(place.path(), &once).assert().success();
    let again = [&once[..], &["--inject-fault", "read:1:EIO"]].concat();
    let said = stderr(tiny(place.path(), &again).assert().code(5));
    assert!(said.contains(".stormlp-checkpoint.json"), "{said}");
    assert!(said.contains("Input/output error (os error 5)"), "{said}");
    assert!(!said.contains("in the way"), "{said}");
}

#[test]
fn a_run_killed_before_measuring_leaves_its_report() {
    let slow = "--throttle write=64K";
    let runs = [
        (format!("train unet3d --files 28 {SMALL} {slow}"), "stormlp-data/unet3d/train"),
        (
            format!("checkpoint tiny.yaml --scale 1 --ranks 8 {slow}"),
            "stormlp-data/checkpoint/tiny/run1/global_epoch1_step1/.stormlp-checkpoint.json",
        ),
    ];
    for (words, appears) in runs {
        let place = folder();
        fs::write(place.path().join("tiny.yaml"), TINY).unwrap();
        let mut run = Command::new(env!("CARGO_BIN_EXE_stormlp"))
            .current_dir(place.path())
            .args(words.split_whitespace())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_for(&place.path().join(appears));
        run.kill().unwrap();
        run.wait().unwrap();
        let list = stormlp().current_dir(place.path()).arg("report").assert();
        let list = stdout(list.success());
        assert!(list.contains("unfinished"), "{words}: {list}");
        let reports = fs::read_dir(place.path().join("stormlp-results")).unwrap();
        let report = reports.last().unwrap().unwrap().path();
        let mut shown = stormlp();
        let shown = shown.args(["report", "show"]).arg(report).assert();
        assert!(stdout(shown.success()).contains("unfinished"), "{words}");
    }
}

#[test]
fn impairments_are_read_strictly_and_refused_where_nothing_runs() {
    let cases = [
        ("gds --throttle read=0", "--throttle: `read=0` needs a rate"),
        ("gds --inject-fault reed:1:EIO", "--inject-fault: in `reed:1:EIO`"),
        ("doctor --throttle read=1M", "are for gds, train, checkpoint and kvcache"),
    ];
    for (words, said) in cases {
        let text = stderr(stormlp().args(words.split(' ')).assert().code(2));
        assert!(text.contains(said), "{words}: {text}");
    }
    for command in ["gds", "train", "checkpoint"] {
        let help = stdout(stormlp().args([command, "--help"]).assert().success());
        assert!(!help.contains("--throttle") && !help.contains("--inject-fault"));
    }
}

/// A file that cannot be looked at is neither missing nor free.
#[test]
fn what_cannot_be_looked_at_is_not_taken_for_missing() {
    let place = folder();
    fs::write(place.path().join("tiny.yaml"), TINY).unwrap();
    let gds_words = format!("{QUICK} --path buffered --op read");
    gds(place.path(), &gds_words).assert().success();
    let once = ["--saves", "1", "--restores", "1"];
    tiny(place.path(), &once).assert().success();
    let calls = ["stat", "list", "statfs", "open", "read"];
    for (error, code, words) in [
        ("EIO", 5, "Input/output error (os error 5)"),
        ("EACCES", 4, "Permission denied (os error 13)"),
    ] {
        for call in calls {
            let fault = format!("{call}:1:{error}");
            let gds = gds(place.path(), &format!("{gds_words} --inject-fault {fault}"));
            let again = [&once[..], &["--inject-fault", &fault]].concat();
            for mut command in [gds, tiny(place.path(), &again)] {
                let said = stderr(command.assert().code(code));
                assert!(said.contains(words), "{fault}: {said}");
                let verb = match call {
                    "stat" => "inspect",
                    "list" => "read the folder",
                    "statfs" => "query the free space of",
                    call => call,
                };
                assert!(said.contains(&format!("{verb} ")), "{fault}: {said}");
                for wrong in ["manifest says", "in the way", "0 B are free", "is not a folder"] {
                    assert!(!said.contains(wrong), "{fault}: {said}");
                }
            }
        }
    }
}

#[test]
fn the_rest_of_a_short_write_is_written_or_its_error_is_shown() {
    // One transfer at a time, after two writes of the manifest: the fourth write is the rest of the
    // third.
    let one = "--threads 1 --queue-depth 1 --io-size 1M --file-size 8M --duration 1x";
    let words = format!("{one} --path buffered --op write --inject-fault write:3:short");
    gds(folder().path(), &words).assert().success();
    let words = format!("{words} --inject-fault write:4:EIO");
    let said = stderr(gds(folder().path(), &words).assert().code(5));
    assert!(said.contains("Input/output error") && said.contains(", at byte "), "{said}");
    assert!(!said.contains("no storage space"), "{said}");
    // The same where files are laid out to be read.
    let words = format!("{one} --path buffered --op read --inject-fault write:2:short");
    gds(folder().path(), &words).assert().success();
    let words = format!("{words} --inject-fault write:3:EIO");
    let said = stderr(gds(folder().path(), &words).assert().code(5));
    assert!(said.contains("Input/output error") && said.contains("at byte "), "{said}");
}

/// NFS and FUSE keep a file that is removed while open under another name in its folder.
#[test]
fn what_is_left_of_an_open_file_is_in_nobodys_way() {
    let place = folder();
    fs::write(place.path().join("tiny.yaml"), TINY).unwrap();
    let once = ["--saves", "1", "--restores", "0"];
    tiny(place.path(), &once).assert().success();
    let step = place.path().join("stormlp-data/checkpoint/tiny/run1/global_epoch1_step1");
    fs::write(step.join(".nfs0000000000a1b2c300000001"), "x").unwrap();
    fs::write(step.join(".fuse_hidden0000000300000001"), "x").unwrap();
    tiny(place.path(), &once).assert().success();
    tiny(place.path(), &["--saves", "0", "--restores", "1", "--verify"]).assert().success();
}

#[test]
fn a_device_that_fails_is_5_whatever_the_call() {
    let place = folder();
    fs::write(place.path().join("tiny.yaml"), TINY).unwrap();
    for call in ["rename", "mkdir", "sync", "create"] {
        let fault = format!("{call}:1:EIO");
        let said = stderr(tiny(place.path(), &["--inject-fault", &fault]).assert().code(5));
        assert!(said.contains("Input/output error"), "{fault}: {said}");
    }
}
