//! cuFile's paths against the real libcufile on host memory, and against a double that fails.
//! The double also has a GPU, of host memory, for failures between CUDA and cuFile.
//!
//! Each scenario runs in a child process of this executable: the library is chosen by the
//! environment, its driver belongs to the process, and it may hang. The parent sets the scene,
//! waits with a time limit and looks at how the child ended. `cargo test --test cufile NAME` runs
//! the scenarios with NAME in their name.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)]

mod build;
mod call_scenarios;
mod double_scenarios;
mod gpu_scenarios;
mod proof_scenarios;
mod real_scenarios;
mod scene;
mod transfers;

use std::path::Path;
use std::process::ExitCode;

use scene::{Scenario, Verdict};
use stormlp_transfer::cufile::probe;

/// First argument of a child that plays a scenario.
const CHILD: &str = "__scenario";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some(probe::ARGUMENT) => {
            probe::child_main(words.get(1).map(Path::new));
            return ExitCode::SUCCESS;
        }
        Some(CHILD) => {
            let scenario = scenarios().into_iter().find(|scenario| scenario.name == words[1]);
            // A failure is a panic, which the parent sees.
            (scenario.expect("a scenario of this name").play)();
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let wanted = words.iter().find(|word| !word.starts_with('-'));
    let chosen = |scenario: &&Scenario| wanted.is_none_or(|word| scenario.name.contains(word));
    let mut failures = 0;
    for scenario in scenarios().iter().filter(chosen) {
        match scenario.run() {
            Verdict::Passed => println!("test {} ... ok", scenario.name),
            Verdict::Skipped(why) => {
                stormlp_fixtures::named(
                    scenario.name,
                    why,
                    "set STORMLP_LIBCUFILE to a libcufile.so.0",
                );
            }
            Verdict::Failed(why) => {
                failures += 1;
                println!("test {} ... FAILED\n{why}", scenario.name);
            }
        }
    }
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn scenarios() -> Vec<Scenario> {
    [
        real_scenarios::all(),
        double_scenarios::all(),
        gpu_scenarios::all(),
        proof_scenarios::all(),
        call_scenarios::all(),
    ]
    .concat()
}
