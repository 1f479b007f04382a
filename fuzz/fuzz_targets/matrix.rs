#![no_main]

use libfuzzer_sys::fuzz_target;
use stormlp_matrix::plan::{DataManifest, JobRequest};

// What `stormlp gds` reads: a job of the command line, a folder's manifest.
fuzz_target!(|text: &str| {
    let _ = text.parse::<JobRequest>();
    if let Ok(manifest) = DataManifest::parse(text) {
        assert_eq!(DataManifest::parse(&manifest.to_json()).as_ref(), Ok(&manifest));
    }
});
