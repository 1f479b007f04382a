#![no_main]

use libfuzzer_sys::fuzz_target;
use stormlp_dataset::format::Format;
use stormlp_dataset::format::npz::{Npz, read_head};

fuzz_target!(|bytes: &[u8]| {
    let mut source = bytes;
    let _ = read_head("file", bytes.len() as u64, bytes);
    let _ = Npz.inspect("file", &mut source);
});
