//! The acceptance run: proves on a machine with a GPU, in under ten minutes, that every path moves
//! the right bytes by the route it is said to, costs no more than bare loops, leaks nothing and
//! fails well; writes one report as it goes.
//!
//! `tests/gpu/accept/pack` builds and collects what it needs, `tests/gpu/accept/run` runs it where
//! neither Rust nor a network is. `--without-gpu` runs all of it against a double of libcuda and
//! libcufile, and what the real libcufile does on host memory, and calls every figure emulated.
//! Without arguments, as `cargo test` calls it, it says that and ends.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod bytes;
mod clock;
mod direct;
mod gpu;
mod lanes;
mod leaks;
mod library;
mod options;
mod overhead;
mod process;
mod report;
mod route;
mod scene;
mod trouble;

use std::process::ExitCode;

use options::Options;
use report::Report;
use scene::Scene;

/// A part of the run: its name and what it does.
type Part = (&'static str, fn(&Scene, &mut Report));

/// In this order: what is proved first is worth most where the time runs out.
const PARTS: [Part; 8] = [
    ("facts", bytes::facts),
    ("bytes of every path, memory and registration", bytes::by_transfers),
    ("bytes of every path, engine, size and number of threads", bytes::by_cells),
    ("training and checkpoints", lanes::all),
    ("trouble", trouble::all),
    ("leaks", leaks::all),
    ("overhead over bare loops", overhead::cufile),
    ("cpu-gpu against a bare copy", overhead::copies),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    if !words.iter().any(|word| word == "--accept") {
        stormlp_core::skipped_tests::named(
            "accept",
            "it is for a machine with a GPU",
            "tests/gpu/accept/run runs it",
        );
        return ExitCode::SUCCESS;
    }
    let options = match Options::of(&words, &PARTS.map(|(name, _)| name)) {
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
    for (name, part) in PARTS {
        if !options.takes(name) {
            continue;
        }
        report.part(name);
        match scene.clock.check() {
            Ok(()) => part(&scene, &mut report),
            Err(why) => report.fail("time", why),
        }
    }
    report.finish(scene.started())
}
