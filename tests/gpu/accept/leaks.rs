//! No resource grows over many cells, and no process or file stays behind when a run is ended from
//! outside.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::process::{Running, TO_START, has_measured};
use crate::report::Report;
use crate::scene::Scene;

/// Other processes may allocate and free memory of the GPU meanwhile.
const SLACK_BYTES: u64 = 64 << 20;

pub(crate) fn all(scene: &Scene, report: &mut Report) {
    many_cells(scene, report);
    for (name, code) in [("INT", Some(130)), ("KILL", None)] {
        let verdict = ended_by(scene, name, code);
        report.check(&format!("a run ended by SIG{name}"), verdict);
    }
}

/// Resources of a process.
#[derive(Debug, Clone, Copy)]
struct Holds {
    descriptors: usize,
    resident_kib: u64,
    gpu_free_bytes: Option<u64>,
}

fn holds(scene: &Scene, process: u32) -> Option<Holds> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(Holds {
        descriptors: fs::read_dir(format!("/proc/{process}/fd")).ok()?.count(),
        resident_kib: resident.split_whitespace().next()?.parse().ok()?,
        gpu_free_bytes: scene.free_memory_beside(),
    })
}

/// 300 short cells in one process.
fn many_cells(scene: &Scene, report: &mut Report) {
    let what = "300 short cells";
    let before = scene.free_memory();
    let words = "--path gds,gds-async,gds-batch,cpu-gpu,cpu-async-gpu --io-size 64K --threads 2 \
                 --queue-depth 4 --duration 40ms --runs 60 --file-size 8M --cache as-is";
    let folder = scene.folder("leaks");
    let running = match start(scene, &folder, words) {
        Ok(running) => running,
        Err(why) => return report.fail(what, why),
    };
    let mut seen = Vec::new();
    let ended = scene.clock.attend(running, Duration::from_secs(100), |process| {
        seen.extend(holds(scene, process));
    });
    report.check(what, ended.json().and_then(|matrix| grew(&matrix["cells"], &seen)));
    report.check("the GPU's memory after them", given_back(scene, before));
}

/// Whether a process held more at the end than when it was warm.
fn grew(cells: &serde_json::Value, seen: &[Holds]) -> Result<String, String> {
    let count = cells.as_array().map_or(0, Vec::len);
    let right =
        cells.as_array().into_iter().flatten().filter(|cell| cell["status"] == "ok").count();
    if (count, right) != (300, 300) {
        return Err(format!("{right} of {count} cells are right"));
    }
    // The last look may have come while it was taken down.
    let (Some(warm), Some(end)) = (seen.get(seen.len() / 4), seen.iter().rev().nth(1)) else {
        return Err(format!("it was checked only {} times", seen.len()));
    };
    let words = format!("{warm:?} when it was warm, {end:?} at the end");
    let memory = warm.gpu_free_bytes.zip(end.gpu_free_bytes);
    let grew = end.descriptors > warm.descriptors + 40
        || end.resident_kib > warm.resident_kib + warm.resident_kib / 4 + (16 << 10)
        || memory.is_some_and(|(warm, end)| end + SLACK_BYTES < warm);
    if grew { Err(words) } else { Ok(words) }
}

/// A matrix in a separate folder, which saves its report there as well.
fn start(scene: &Scene, folder: &Path, words: &str) -> Result<Running, String> {
    let words = format!(
        "gds --dir {} --results-dir {} --device cuda:0 {words} --format json",
        folder.display(),
        folder.join("results").display()
    );
    let mut command = scene.program("stormlp", "direct");
    scene.start(command.args(words.split_whitespace()))
}

/// Ends a run in its cells by a signal.
fn ended_by(scene: &Scene, name: &str, code: Option<i32>) -> Result<String, String> {
    let before = scene.free_memory();
    let folder = scene.folder(&format!("ended-by-{name}"));
    let mut running = start(
        scene,
        &folder,
        "--path gds,gds-async,gds-batch --io-size 1M --threads 4 --queue-depth 8 --duration 500ms \
         --runs 40 --file-size 16M --cache as-is",
    )?;
    let results = folder.join("results");
    running.until("a measured cell", TO_START, || has_measured(&results))?;
    running.signal(name);
    let begun = Instant::now();
    let ended = scene.clock.attend(running, Duration::from_secs(30), |_| {});
    if ended.code != code {
        return Err(ended.to_text());
    }
    let seconds = begun.elapsed().as_secs_f64();
    let after = given_back(scene, before)?;
    let end = ended.code.map_or("ended".to_string(), |code| format!("exit code {code}"));
    Ok(format!("{end} after {seconds:.1} s; {after}"))
}

/// Whether the GPU has the memory that it had before, within a few seconds.
fn given_back(scene: &Scene, before: Result<u64, String>) -> Result<String, String> {
    let before = before?;
    let begun = Instant::now();
    loop {
        // Where one process alone may open the GPU, the one that ended may still be in its place.
        let after = scene.free_memory();
        let back = after.as_ref().is_ok_and(|after| after + SLACK_BYTES >= before);
        if back || begun.elapsed() > Duration::from_secs(10) {
            let after = after?;
            let words = format!("the GPU has {after} bytes free, {before} before");
            return if back { Ok(words) } else { Err(words) };
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}
