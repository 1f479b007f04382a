#![no_main]

use libfuzzer_sys::fuzz_target;
use stormlp_dataset::format::indexed_binary::read_index;

fuzz_target!(|input: (u64, &[u8], &[u8])| {
    let (data_bytes, mut offsets, mut sizes) = input;
    let _ = read_index("file", data_bytes, &mut offsets, &mut sizes);
});
