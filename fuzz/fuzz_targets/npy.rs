#![no_main]

use libfuzzer_sys::fuzz_target;
use stormlp_dataset::format::Format;
use stormlp_dataset::format::npy::Npy;

fuzz_target!(|bytes: &[u8]| {
    let mut source = bytes;
    let _ = Npy.inspect("file", &mut source);
});
