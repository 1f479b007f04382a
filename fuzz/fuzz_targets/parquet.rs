#![no_main]

use libfuzzer_sys::fuzz_target;
use stormlp_dataset::format::parquet::read_footer;

// The input as a footer, with the length and the magic that lead the reader to it.
fuzz_target!(|footer: &[u8]| {
    let mut file = b"PAR1".to_vec();
    file.extend_from_slice(footer);
    file.extend_from_slice(&(footer.len() as u32).to_le_bytes());
    file.extend_from_slice(b"PAR1");
    let mut source = &file[..];
    let _ = read_footer("file", &mut source);
    let mut bare = footer;
    let _ = read_footer("file", &mut bare);
});
