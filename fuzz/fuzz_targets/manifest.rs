#![no_main]

use libfuzzer_sys::fuzz_target;
use stormlp_dataset::manifest::Manifest;

fuzz_target!(|text: &str| {
    let _ = Manifest::parse(text);
});
