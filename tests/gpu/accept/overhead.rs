//! What stormlp costs over bare loops of the same calls, in pairs A B B A.

use crate::report::Report;
use crate::scene::{Ended, Scene, run};

/// Seconds of one measurement.
const SECONDS: f64 = 2.0;
/// stormlp may be this much slower.
const GOAL: f64 = 0.02;

/// One comparison.
#[derive(Clone, Copy)]
struct Case {
    /// The bare loop, and stormlp's path and engine.
    mode: &'static str,
    path: &'static str,
    size: u64,
    threads: u32,
    depth: u32,
    statistics: u32,
}

const fn case(mode: &'static str, path: &'static str, size: u64, threads: u32, depth: u32) -> Case {
    Case {
        mode,
        path,
        size,
        threads,
        depth,
        statistics: 0,
    }
}

const K4: u64 = 4 << 10;
const M1: u64 = 1 << 20;

/// cuFile's calls: blocking, on streams, in batches.
const CUFILE: [Case; 12] = [
    case("sync", "gds", K4, 1, 1),
    case("sync", "gds", K4, 8, 1),
    case("sync", "gds", M1, 1, 1),
    case("sync", "gds", M1, 8, 1),
    Case {
        statistics: 3,
        ..case("sync", "gds", K4, 8, 1)
    },
    Case {
        statistics: 3,
        ..case("sync", "gds", M1, 8, 1)
    },
    case("async", "gds-async", M1, 1, 1),
    case("async", "gds-async", M1, 1, 8),
    case("async", "gds-async", M1, 1, 32),
    case("async", "gds-async", K4, 1, 256),
    case("batch", "gds-batch", K4, 1, 32),
    case("batch", "gds-batch", M1, 1, 32),
];

/// A read into pinned memory and a copy to the GPU.
const COPIES: [Case; 3] = [
    case("copy", "cpu-gpu", K4, 8, 1),
    case("copy", "cpu-gpu", M1, 1, 1),
    case("copy", "cpu-gpu", M1, 8, 1),
];

/// Over cuFile.
pub(crate) fn cufile(scene: &Scene, report: &mut Report) {
    let has_levels = scene
        .stormlp("gds --help")
        .stdout
        .contains("--cufile-stats");
    if !has_levels {
        report.note(
            "statistics",
            "stormlp has no --cufile-stats: it counts at its own level",
        );
    }
    CUFILE
        .iter()
        .for_each(|case| compare(scene, *case, has_levels, report));
    on_host_memory(scene, report);
}

/// Over a bare copy.
pub(crate) fn copies(scene: &Scene, report: &mut Report) {
    COPIES
        .iter()
        .for_each(|case| compare(scene, *case, false, report));
}

/// Both in turn, twice each.
fn compare(scene: &Scene, case: Case, has_levels: bool, report: &mut Report) {
    let folder = scene.folder("overhead");
    let seconds = if scene.emulated { 0.3 } else { SECONDS };
    let folder = folder.display().to_string();
    let stormlp = || {
        let mut words = stormlp_words(case, &folder, seconds);
        words.push_str(" --device cuda:0 --wait spin");
        if has_levels && case.path != "cpu-gpu" {
            words.push_str(&format!(" --cufile-stats {}", case.statistics));
        }
        iops_of_report(&scene.stormlp(&words))
    };
    let bare = || {
        let words = bare_words(case, &folder, seconds, 0);
        iops_of_bare(&run(scene
            .program("bare", "direct")
            .args(words.split_whitespace())))
    };
    judge(scene, case, report, pairs(stormlp, bare));
}

/// The real library on host memory, which needs no GPU.
fn on_host_memory(scene: &Scene, report: &mut Report) {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
        return;
    };
    let folder = folder.path().display().to_string();
    for case in [CUFILE[0], CUFILE[3], CUFILE[10]] {
        let program = |name: &str, words: &str| {
            let mut command = scene.on_host_memory(name)?;
            Some(run(command.args(words.split_whitespace())))
        };
        let missing = || "there is no libcufile".to_string();
        let stormlp = || {
            let words = stormlp_words(case, &folder, 0.5);
            let ended = program("stormlp", &format!("{words} --device host --memory host"));
            iops_of_report(&ended.ok_or_else(missing)?)
        };
        let bare = || {
            let ended = program("bare", &bare_words(case, &folder, 0.5, -1));
            iops_of_bare(&ended.ok_or_else(missing)?)
        };
        let name = format!("real libcufile on host memory, {}", words(case));
        match pairs(stormlp, bare) {
            Ok((ours, theirs)) => report.note(&name, figures(ours, theirs)),
            Err(why) => report.skip(&name, why),
        }
    }
}

fn stormlp_words(case: Case, folder: &str, seconds: f64) -> String {
    let Case {
        path,
        size,
        threads,
        depth,
        ..
    } = case;
    format!(
        "gds --dir {folder} --path {path} --engine psync --io-size {size} --threads {threads} \
         --queue-depth {depth} --duration {seconds}s --file-size 256M --cache as-is --format json"
    )
}

fn bare_words(case: Case, folder: &str, seconds: f64, device: i32) -> String {
    let Case {
        mode,
        size,
        threads,
        depth,
        statistics,
        ..
    } = case;
    format!("{mode} {folder} {size} {threads} {depth} {seconds} {statistics} {device}")
}

/// Means of A and B, measured in the order A B B A. A first, which also makes the files.
fn pairs(
    ours: impl Fn() -> Result<f64, String>,
    bare: impl Fn() -> Result<f64, String>,
) -> Result<(f64, f64), String> {
    let first = ours()?;
    let theirs = (bare()? + bare()?) / 2.0;
    Ok(((first + ours()?) / 2.0, theirs))
}

fn iops_of_report(ended: &Ended) -> Result<f64, String> {
    let report = ended.json().map_err(|why| format!("stormlp: {why}"))?;
    let cell = &report["cells"][0];
    cell["iops"]
        .as_f64()
        .ok_or_else(|| format!("stormlp: {}", cell["reason"]))
}

fn iops_of_bare(ended: &Ended) -> Result<f64, String> {
    let told = ended
        .json()
        .map_err(|why| format!("the bare loop: {why}"))?;
    told["iops"]
        .as_f64()
        .ok_or("the bare loop: no figure".to_string())
}

fn words(case: Case) -> String {
    format!(
        "{} {} KiB, {} threads, depth {}, statistics {}",
        case.path,
        case.size >> 10,
        case.threads,
        case.depth,
        case.statistics
    )
}

fn figures(ours: f64, theirs: f64) -> String {
    let cost = 100.0 * (1.0 - ours / theirs);
    format!("{ours:.0} against {theirs:.0} transfers/s of the bare loop: {cost:+.1} %")
}

fn judge(scene: &Scene, case: Case, report: &mut Report, measured: Result<(f64, f64), String>) {
    let name = words(case);
    match measured {
        Err(why) => report.fail(&name, why),
        Ok((ours, theirs)) if scene.emulated => report.note(&name, figures(ours, theirs)),
        Ok((ours, theirs)) if ours >= theirs * (1.0 - GOAL) => {
            report.pass(&name, figures(ours, theirs));
        }
        Ok((ours, theirs)) => report.miss(&name, figures(ours, theirs)),
    }
}
