#![no_main]

use libfuzzer_sys::fuzz_target;
use stormlp_matrix::plan::gdsio::{GdsioArgs, GdsioRun, parse_args, parse_job_file};

/// Everything that is made of a run that was read.
fn use_run(run: &GdsioRun) {
    let _ = run.path();
    let _ = run.to_request();
}

// The input as a job file, and its words as gdsio's arguments.
fuzz_target!(|text: &str| {
    let home = |name: &str| (name == "HOME").then(|| "/home/me".to_string());
    if let Ok((_, run)) = parse_job_file(text, &home) {
        use_run(&run);
    }
    let words: Vec<String> = text.split_whitespace().map(str::to_string).collect();
    if let Ok(GdsioArgs::Run(run)) = parse_args(&words) {
        use_run(&run);
    }
});
