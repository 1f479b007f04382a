#![no_main]

use libfuzzer_sys::fuzz_target;
use stormlp_checkpoint::plan::Marker;

// A marker that is read is written back unchanged, and its numbers can be used. Text that a save
// wrote is the seed that gets furthest: `.stormlp-checkpoint.json` in a checkpoint's folder.
fuzz_target!(|text: &str| {
    if let Ok(marker) = Marker::parse(text) {
        assert_eq!(Marker::parse(&marker.to_json()).as_ref(), Ok(&marker));
        let all = marker.layout.first_ranks_bytes(marker.ranks);
        assert!(marker.files.iter().map(|file| file.bytes).sum::<u64>() <= all);
        assert!(marker.files.iter().all(|file| file.rank < marker.ranks));
        let source_bytes = marker.content.source_bytes;
        assert!((4096..=1 << 30).contains(&source_bytes) && source_bytes.is_multiple_of(4096));
    }
});
