//! The acceptance run: proves on a machine with a GPU, in under ten minutes, that every path moves
//! the right bytes by the route it is said to, costs no more than bare loops, leaks nothing and
//! fails well; writes one report.
//!
//! `tests/gpu/accept/pack` builds and collects what it needs, `tests/gpu/accept/run` runs it where
//! neither Rust nor a network is. `--without-gpu` runs all of it against a double of libcuda and
//! libcufile, and what the real libcufile does on host memory, and calls every figure emulated.
//! Without arguments, as `cargo test` calls it, it says that and ends.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod bytes;
mod direct;
mod gpu;
mod lanes;
mod leaks;
mod library;
mod overhead;
mod process;
mod report;
mod route;
mod scene;
mod trouble;

use std::process::ExitCode;

use report::Report;
use scene::Scene;

/// A part of the run: its name, what it does, and how many seconds it is thought to take.
type Part = (&'static str, fn(&Scene, &mut Report), u64);

/// In this order: what is proved first is worth most where the time runs out.
const PARTS: [Part; 8] = [
    ("facts", bytes::facts, 10),
    (
        "bytes of every path, memory and registration",
        bytes::by_transfers,
        60,
    ),
    (
        "bytes of every path, engine, size and number of threads",
        bytes::by_cells,
        90,
    ),
    ("training and checkpoints", lanes::all, 90),
    ("trouble", trouble::all, 40),
    ("leaks", leaks::all, 60),
    ("overhead over bare loops", overhead::cufile, 150),
    ("cpu-gpu against a bare copy", overhead::copies, 30),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if !words.iter().any(|word| word == "--accept") {
        println!("test accept ... skipped: tests/gpu/accept/run runs it");
        return ExitCode::SUCCESS;
    }
    let scene = match Scene::set(&words) {
        Ok(scene) => scene,
        Err(why) => {
            println!("{why}");
            return ExitCode::from(2);
        }
    };
    let mut report = Report::new(&scene);
    for (name, part, seconds) in PARTS {
        if scene
            .only
            .as_deref()
            .is_some_and(|only| !name.contains(only))
        {
            continue;
        }
        report.part(name);
        match scene.left().as_secs() > seconds / 2 {
            true => part(&scene, &mut report),
            false => report.fail("time", "the ten minutes are over: this part did not run"),
        }
    }
    report.finish(&scene)
}
