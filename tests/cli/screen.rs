//! Text that a user at a terminal of 24 lines and 80 columns sees without scrolling.

use std::path::Path;

use crate::checkpoint::TINY;
use crate::gds::{QUICK, folder};
use crate::{at_a_terminal, last_line, stdout};

/// The screen that a command leaves in `folder`; the report's place and the prompt follow.
fn screen(folder: &Path, words: &str) -> String {
    let mut command = at_a_terminal();
    command.current_dir(folder).args(words.split_whitespace());
    // A library that is named and missing is a separate finding, which doctor explains in full.
    if words != "doctor" {
        command.env("STORMLP_LIBCUFILE", "/nonexistent/libcufile.so.0");
    }
    let screen = stdout(command.assert());
    // The doctor has no report.
    let most = if words == "doctor" { 23 } else { 22 };
    assert!(screen.lines().count() <= most, "{words}: {} lines\n{screen}", screen.lines().count());
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{words}:\n{screen}");
    screen
}

#[test]
fn a_finished_run_fits_a_screen_and_ends_with_its_answer() {
    let folder = folder();
    let folder = folder.path();
    let gds = screen(folder, &format!("gds {QUICK}"));
    assert!(gds.contains("op read, I/O 1 MiB, threads 2, depth 1\n"), "{gds}");
    assert!(last_line(&gds, 0).contains("GiB/s") || last_line(&gds, 1).contains("GiB/s"), "{gds}");
    let sweep = format!("gds {QUICK} --path cpu --io-size 4K,64K --queue-depth 1,4");
    let sweep = screen(folder, &sweep);
    for part in ["best ", "maximum ", "lowest mean latency"] {
        assert!(sweep.contains(part), "{part}: {sweep}");
    }
    let header = sweep.lines().find(|line| line.contains("GiB/s")).unwrap();
    assert!(header.contains("depth") && !header.contains("threads"), "{sweep}");
    screen(folder, &format!("gds {QUICK} --dry-run"));
    let train = "train unet3d --path null --steps 6 --epochs 2 -n 1";
    assert!(screen(folder, train).contains("AU "));
    screen(folder, "train unet3d --dry-run --generate");
    let plan = "plan unet3d --storage read=10GB/s --steps 20 --epochs 1 --hosts 1";
    let plan = screen(folder, plan);
    assert!(plan.contains("\nunet3d: 1 host with 1 drive feeds at most "), "{plan}");
    let doctor = screen(folder, "doctor");
    assert!(doctor.contains("\ncan be measured here: "), "{doctor}");
}

#[test]
fn a_checkpoint_run_with_its_progress_fits_a_screen() {
    let folder = folder();
    std::fs::write(folder.path().join("tiny.yaml"), TINY).unwrap();
    let words = "checkpoint tiny.yaml --ranks 8 --saves 2 --restores 2 --pause 0";
    let mut command = at_a_terminal();
    let output = command.current_dir(folder.path()).args(words.split_whitespace()).output();
    let output = output.unwrap();
    let shown = [output.stderr, output.stdout].concat();
    let shown = String::from_utf8(shown).unwrap();
    assert!(output.status.success(), "{shown}");
    assert!(shown.lines().count() <= 24, "{} lines\n{shown}", shown.lines().count());
}

#[test]
fn details_show_what_a_screen_leaves_out() {
    let folder = folder();
    let words = format!("gds {QUICK} --path buffered");
    let short = screen(folder.path(), &words);
    assert!(!short.contains("Around the run"), "{short}");
    let mut command = at_a_terminal();
    command.current_dir(folder.path()).args(words.split_whitespace()).arg("--details");
    let all = stdout(command.assert().success());
    assert!(all.contains("p99.9 µs") && all.contains("max µs"), "{all}");
    assert!(all.lines().count() > 22, "{all}");
}
