#![no_main]

use libfuzzer_sys::fuzz_target;
use stormlp_matrix::plan::{DataManifest, IoSize, JobRequest};

// Input of `stormlp gds`: a job and a sweep of sizes of the command line, a folder's manifest.
fuzz_target!(|text: &str| {
    let _ = text.parse::<JobRequest>();
    let _ = IoSize::parse_sweep(text).map(|sweep| sweep.sizes().count());
    if let Ok(manifest) = DataManifest::parse(text) {
        assert_eq!(DataManifest::parse(&manifest.to_json()).as_ref(), Ok(&manifest));
    }
});
