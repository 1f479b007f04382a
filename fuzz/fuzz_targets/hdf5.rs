#![no_main]

use libfuzzer_sys::fuzz_target;
use stormlp_dataset::format::Format;
use stormlp_dataset::format::hdf5::Hdf5;

fuzz_target!(|bytes: &[u8]| {
    let mut source = bytes;
    let _ = Hdf5.inspect("file", &mut source);
});
