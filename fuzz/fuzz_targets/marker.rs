#![no_main]

use libfuzzer_sys::fuzz_target;
use stormlp_model::checkpoint::Marker;

// What is read is written back to the same.
fuzz_target!(|text: &str| {
    if let Ok(marker) = Marker::parse(text) {
        assert_eq!(Marker::parse(&marker.to_json()).as_ref(), Ok(&marker));
    }
});
