#![no_main]

use libfuzzer_sys::fuzz_target;
use stormlp_kvcache::plan::{KNOWN_BY_BYTES, Marker};

// The marker in a folder of objects, and the beginning of a file that may be one of them.
fuzz_target!(|input: (&str, &str, u64, &[u8])| {
    let (text, name, bytes, start) = input;
    if let Ok(marker) = Marker::parse(text) {
        let _ = marker.made(name, bytes, &start[..start.len().min(KNOWN_BY_BYTES)]);
    }
    let ours = Marker::new(vec!["tiny-1b".to_string()], 42, false);
    let _ = ours.made(name, bytes, &start[..start.len().min(KNOWN_BY_BYTES)]);
});
