//! The acceptance run: proves on a machine with a GPU, in under ten minutes, that every path moves
//! the right bytes by the route it is said to, costs no more than bare loops, does not leak and
//! fails well; writes one report as it goes.
//!
//! `tests/gpu/accept/pack` builds and collects what it needs, `tests/gpu/accept/run` runs it where
//! neither Rust nor a network is. `--without-gpu` runs all of it against a double of libcuda and
//! libcufile, and the real libcufile on host memory, and calls every figure emulated. Without
//! arguments, as `cargo test` calls it, it says that and ends.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)]

mod bytes;
mod clock;
mod direct;
mod gpu;
mod lanes;
mod leaks;
mod library;
mod options;
mod overhead;
mod p2pdma;
mod preflight;
mod process;
mod report;
mod route;
mod scene;
mod trouble;

use std::process::ExitCode;

use options::Options;
use report::Report;
use scene::Scene;

/// A part of the run: its name, what it does, and whether cuFile has to accept files of the folder.
type Part = (&'static str, fn(&Scene, &mut Report), bool);

/// In this order: the first parts are worth more if the time runs out, and no other program gives
/// the overhead.
const PARTS: [Part; 9] = [
    ("overhead over bare loops", overhead::cufile, true),
    ("cpu-gpu against a bare copy", overhead::copies, false),
    ("facts", bytes::facts, true),
    ("bytes of every path, memory and registration", bytes::by_transfers, true),
    ("bytes of every path, engine, size and number of threads", bytes::by_cells, true),
    ("peer-to-peer DMA", p2pdma::all, true),
    ("training and checkpoints", lanes::all, true),
    ("trouble", trouble::all, true),
    ("leaks", leaks::all, true),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    if !words.iter().any(|word| word == "--accept") {
        stormlp_fixtures::named(
            "accept",
            "it is for a machine with a GPU",
            "tests/gpu/accept/run runs it",
        );
        return ExitCode::SUCCESS;
    }
    let options = match Options::of(&words, &PARTS.map(|(name, ..)| name)) {
        Ok(options) => options,
        Err(why) => {
            let _ = why.print();
            return ExitCode::from(u8::try_from(why.exit_code()).unwrap_or(2));
        }
    };
    let set = Scene::set(&options).and_then(|scene| {
        let report = Report::new(&options.report, scene.emulated(), scene.work())?;
        Ok((scene, report))
    });
    let (scene, mut report) = match set {
        Ok(set) => set,
        Err(why) => {
            println!("{why}");
            return ExitCode::from(2);
        }
    };
    report.part("preflight");
    let found = scene.look_before(&mut report);
    let parts = PARTS.into_iter().filter(|_| found.blocked.is_none());
    for (name, part, needs_folder) in parts.filter(|(name, ..)| options.takes(name)) {
        report.part(name);
        match scene.clock.check() {
            Err(why) => report.fail("time", why),
            Ok(()) if needs_folder && found.refused.is_some() => {
                report.skip(name, "cuFile rejects the folder's files, as preflight says");
            }
            Ok(()) => part(&scene, &mut report),
        }
        // An early end keeps all earlier results.
        scene.keep_results();
    }
    if let Some(raw) = scene.keep_results() {
        report.note("raw reports, logs and nvidia-smi -q", raw.display().to_string());
    }
    report.finish(scene.started())
}
