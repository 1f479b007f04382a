#![no_main]

use libfuzzer_sys::fuzz_target;
use stormlp_model::checkpoint::{CheckpointFacts, CheckpointRequest, FolderFacts, parse, resolve};
use stormlp_model::facts::{Availability, HostFacts};

// A workload file becomes a plan or problems, whatever its numbers.
fuzz_target!(|text: &str| {
    let Ok(workload) = parse(text) else {
        return;
    };
    let host = HostFacts {
        hostname: "host".to_string(),
        kernel: "6.8".to_string(),
        cpu_model: "cpu".to_string(),
        cpus: 8,
        memory_bytes: 1 << 36,
        memory_limit_bytes: None,
        locked_memory_limit_bytes: None,
        open_files_limit: 1 << 20,
        io_uring: Availability::Available,
        accelerators: Vec::new(),
        paths: Vec::new(),
        stormlp_version: "0".to_string(),
        release_build: true,
    };
    let facts = CheckpointFacts {
        folders: vec![FolderFacts {
            path: "folder".into(),
            writable: Availability::Available,
            free_bytes: 1 << 50,
            file_system_id: 1,
            file_system: None,
            direct: Availability::Available,
        }],
        saved: Vec::new(),
        trial_bytes_per_second: Some(1e9),
    };
    let request = CheckpointRequest::plain(workload, "folder".into());
    let _ = resolve(&request, &host, &facts);
});
