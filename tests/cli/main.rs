//! Runs the real executable in temporary folders and checks all that a user would see: exit code,
//! stdout, stderr, files. One binary for all commands, so that it links once.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod calibrate;
mod checkpoint;
mod checkpoint_trouble;
mod compare;
mod compare_turns;
mod datagen;
mod deliver;
mod devices;
mod doctor;
mod double;
mod exports;
mod extremes;
mod field;
mod find_knee;
mod find_max;
mod frame;
mod gds;
mod gds_honest;
mod gds_saved;
mod gds_trouble;
mod gdsio;
mod hostile;
mod impaired;
mod kvcache;
mod kvcache_objects;
mod kvcache_replay;
mod kvcache_run;
mod kvcache_servers;
mod kvcache_serving;
mod limits;
mod mission;
mod mistakes;
mod objects;
mod objects_faults;
mod objects_gateway;
mod objects_ways;
mod plan;
mod report;
mod schema;
mod screen;
mod services;
mod signals;
mod submission;
mod sweep;
mod telemetry;
mod threads;
mod train;
mod train_dataset;
mod train_trouble;
mod unheard;
mod workloads;

use assert_cmd::Command;

/// The executable, without settings of the caller's environment.
fn stormlp() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stormlp"));
    command.env_remove("STORMLP_LIBCUFILE");
    command.env_remove("STORMLP_RESULTS_DIR");
    // Everything, in lines that do not wrap: other tests look at screens.
    command.env("COLUMNS", "1000").env("STORMLP_DETAILS", "1");
    command
}

/// The executable as a user at a terminal of 80 columns runs it, who sees one screen.
fn at_a_terminal() -> Command {
    let mut command = stormlp();
    command.env_remove("STORMLP_DETAILS").env("COLUMNS", "80");
    command
}

/// The answer, which text ends with; `nth` counts the lines from the end.
fn last_line(text: &str, nth: usize) -> &str {
    text.trim_end().lines().rev().nth(nth).unwrap()
}

/// The output of a finished command on stdout.
fn stdout(assert: assert_cmd::assert::Assert) -> String {
    String::from_utf8(assert.get_output().stdout.clone()).unwrap()
}

/// The output of a finished command on stderr.
fn stderr(assert: assert_cmd::assert::Assert) -> String {
    String::from_utf8(assert.get_output().stderr.clone()).unwrap()
}
