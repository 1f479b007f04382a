#![no_main]

use libfuzzer_sys::fuzz_target;
use stormlp_hosts::pmi1::{answer, bytes_of, field, piece_bytes};

// The lines of a launcher, as if each answered the next question.
fuzz_target!(|bytes: &[u8]| {
    let mut read = bytes;
    for expected in ["response_to_init", "maxes", "my_kvsname", "get_result"].into_iter().cycle() {
        let before = read.len();
        if let Ok(line) = answer(&mut read, expected) {
            assert!(piece_bytes(&line, field(&line, "kvsname").unwrap_or_default()) > 0);
            let value = field(&line, "value").unwrap_or_default();
            assert!(bytes_of(value).is_none_or(|bytes| bytes.len() * 2 == value.len()));
        }
        if read.len() == before {
            return;
        }
    }
});
