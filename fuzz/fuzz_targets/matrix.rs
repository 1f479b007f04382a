#![no_main]

use libfuzzer_sys::fuzz_target;
use stormlp_matrix::plan::{DataManifest, JobRequest, MatrixRequest, apply_text};

// What `stormlp gds` reads: a preset, a job of the command line, a folder's manifest.
fuzz_target!(|text: &str| {
    let mut request = MatrixRequest::plain("data".into());
    let _ = apply_text("mine", text, &mut request);
    let _ = text.parse::<JobRequest>();
    if let Ok(manifest) = DataManifest::parse(text) {
        assert_eq!(DataManifest::parse(&manifest.to_json()).as_ref(), Ok(&manifest));
    }
});
