#![no_main]

use libfuzzer_sys::fuzz_target;
use stormlp_matrix::plan::gdsio::{GdsioArgs, parse_args, parse_job_file};

// The input as a job file, and its words as gdsio's arguments.
fuzz_target!(|text: &str| {
    let home = |name: &str| (name == "HOME").then(|| "/home/me".to_string());
    if let Ok(run) = parse_job_file(text, &home) {
        let _ = run.to_request();
    }
    let words: Vec<String> = text.split_whitespace().map(str::to_string).collect();
    if let Ok(GdsioArgs::Run(run)) = parse_args(&words) {
        let _ = run.to_request();
    }
});
