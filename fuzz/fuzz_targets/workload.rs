#![no_main]

use libfuzzer_sys::fuzz_target;
use stormlp_training::plan::workload::Workload;

// A workload file, and the first lines of the input once more as `--params`.
fuzz_target!(|text: &str| {
    let params: Vec<String> = text.lines().take(4).map(str::to_string).collect();
    let _ = Workload::parse(text, "file", &params);
    if let Ok(workload) = Workload::parse(text, "file", &[]) {
        let _ = workload.dataset.train_bytes();
    }
});
