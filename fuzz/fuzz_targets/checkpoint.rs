#![no_main]

use libfuzzer_sys::fuzz_target;
use stormlp_checkpoint::plan::{CheckpointFacts, CheckpointRequest, FolderFacts, parse, resolve};
use stormlp_core::facts::Availability;

// A workload file becomes a plan or problems, whatever its numbers.
fuzz_target!(|text: &str| {
    let Ok(workload) = parse(text, "file") else {
        return;
    };
    let host = stormlp_fixtures::host();
    let facts = CheckpointFacts {
        folders: vec![FolderFacts {
            path: "folder".into(),
            writable: Availability::Available,
            free_bytes: Some(1 << 50),
            file_system_id: 1,
            file_system: None,
            direct: Availability::Available,
        }],
        saved: Vec::new(),
        last_run: 0,
        trial_bytes_per_second: Some(1e9),
    };
    let request = CheckpointRequest::plain(workload, "folder".into());
    let _ = resolve(&request, &host, &facts);
});
