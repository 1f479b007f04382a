#![no_main]

use libfuzzer_sys::fuzz_target;
use stormlp_dataset::format::Format;
use stormlp_dataset::format::tfrecord::Tfrecord;
use stormlp_dataset::format::tfrecord_scan::{PayloadCheck, RecordScanner};

fuzz_target!(|bytes: &[u8]| {
    let mut source = bytes;
    let _ = Tfrecord.inspect("file", &mut source);
    for check in [PayloadCheck::Crc, PayloadCheck::Skip] {
        let mut scanner = RecordScanner::new("file", bytes.len() as u64, check);
        let fed = bytes.chunks(5).try_for_each(|piece| scanner.feed(piece).map(drop));
        if fed.is_ok() {
            let _ = scanner.finish();
        }
    }
});
