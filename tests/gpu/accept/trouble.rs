//! Failures are reported with their cause, and end the run in time.

use std::fs::File;
use std::time::Duration;

use crate::bytes::in_memory;
use crate::direct::judge;
use crate::process::{Ended, TO_START, has_measured};
use crate::report::Report;
use crate::route::{Expected, Finding};
use crate::scene::Scene;

pub(crate) fn all(scene: &Scene, report: &mut Report) {
    out_of_memory(scene, report);
    no_visible_device(scene, report);
    truncated(scene, report);
    fallback(scene, report);
}

/// Whether a run ended with one of these exit codes and these words.
fn told(ended: &Ended, codes: &[i32], words: &str) -> Result<String, String> {
    let said = format!("{}{}", ended.stdout, ended.stderr);
    let end = ended.to_text();
    let right = ended.code.is_some_and(|code| codes.contains(&code)) && said.contains(words);
    if right { Ok(end) } else { Err(format!("`{words}` was expected; {end}")) }
}

/// More buffers than cuFile registers, and more than any GPU holds.
fn out_of_memory(scene: &Scene, report: &mut Report) {
    let folder = scene.folder("memory");
    let run = |depth: u32, more: &str| {
        let words = format!(
            "gds --dir {} --path gds --device cuda:0 --io-size 16M --threads 16 --queue-depth {depth} \
             --duration 1x --file-size 16M --cache as-is {more}",
            folder.display()
        );
        let mut command = scene.program("stormlp", "out-of-memory");
        scene.run(command.args(words.split_whitespace()))
    };
    let what = "more buffers than may be registered";
    // Twice the amount that cuFile registers by default.
    match scene.free_memory() {
        Ok(free) if free < 64 << 30 => report.skip(what, "the GPU's memory ends before the limit"),
        Err(why) => report.skip(what, why),
        Ok(_) => report.check(what, told(&run(256, ""), &[4], "that cuFile registers")),
    }
    report.check(
        "out of GPU memory",
        told(&run(4096, "--tune register=no"), &[4], "of cuda:0, which has"),
    );
}

/// A GPU hidden from CUDA.
fn no_visible_device(scene: &Scene, report: &mut Report) {
    let folder = scene.folder("hidden");
    let hidden = |words: &str| {
        let words = format!("gds --dir {} --path cpu-gpu {words} --dry-run", folder.display());
        let mut command = scene.program("stormlp", "no-device");
        command.env("CUDA_VISIBLE_DEVICES", "");
        scene.run(command.args(words.split_whitespace()))
    };
    report.check("a device that is not visible", told(&hidden("--device cuda:0"), &[4], "cuda:0"));
    let on_bus = std::fs::read_dir("/sys/bus/pci/devices").into_iter().flatten().flatten().filter(
        |device| {
            let text =
                |name: &str| std::fs::read_to_string(device.path().join(name)).unwrap_or_default();
            text("vendor").starts_with("0x10de") && text("class").starts_with("0x03")
        },
    );
    match on_bus.count() {
        0 => report.skip("host memory in a hidden GPU's place", "PCI shows no GPU here"),
        _ => report.check(
            "host memory does not stand in for a hidden GPU unasked",
            told(&hidden(""), &[4], "--device host"),
        ),
    }
    let typed = hidden("--device host");
    report.check("host memory where that was typed", told(&typed, &[0], "emulated"));
}

/// A file that is cut short while it is read.
fn truncated(scene: &Scene, report: &mut Report) {
    for path in ["gds", "gds-batch", "cpu-gpu"] {
        let what = format!("a file truncated while {path} reads it");
        report.check(&what, truncated_under(scene, path));
    }
}

fn truncated_under(scene: &Scene, path: &str) -> Result<String, String> {
    let folder = scene.folder(&format!("truncated-{path}"));
    let results = folder.join("results");
    let words = format!(
        "gds --dir {} --results-dir {} --path {path} --device cuda:0 --io-size 1M --threads 1 \
         --duration 500ms --runs 40 --file-size 64M --cache as-is",
        folder.display(),
        results.display()
    );
    let mut command = scene.program("stormlp", "direct");
    let mut running = scene.start(command.args(words.split_whitespace()))?;
    running.until("a measured cell", TO_START, || has_measured(&results))?;
    let file = File::options().write(true).open(folder.join("stormlp.0"));
    file.and_then(|file| file.set_len(1 << 20))
        .map_err(|error| format!("the file cannot be cut short: {error}"))?;
    let ended = scene.clock.attend(running, Duration::from_secs(15), |_| {});
    told(&ended, &[5], "truncated")
}

/// Where the direct route cannot be had, `--require gds` fails and says why; or the route stays not
/// proven.
fn fallback(scene: &Scene, report: &mut Report) {
    let what = "--require gds where cuFile falls back";
    // cuFile has no direct route to a file system in memory.
    let folder = match in_memory(1 << 20) {
        Ok(folder) => folder,
        Err(why) => return report.skip(what, why),
    };
    let words = format!(
        "gds --dir {} --path gds --device cuda:0 --require gds --io-size 64K --threads 1 --duration 1x \
         --file-size 1M --format json",
        folder.path().display()
    );
    let mut command = scene.program("stormlp", "");
    let ended = scene.run(command.args(words.split_whitespace()));
    let said = format!("{}{}", ended.stdout, ended.stderr);
    // A library that rejects files there has no information about fallbacks.
    if said.contains("HandleRegister failed") {
        return report.skip(what, "this libcufile takes no file in memory");
    }
    if ended.code.is_some_and(|code| [4, 5].contains(&code)) && said.contains("--require gds") {
        return report.pass(what, ended.to_text());
    }
    let run = ended.json();
    match run.map(|run| judge(&run["cells"][0], Expected::Either)) {
        Ok(Ok(Finding::NotProven(why))) => report.not_proven(what, why),
        _ => report.fail(what, ended.to_text()),
    }
}
