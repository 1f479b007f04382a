#![no_main]

use libfuzzer_sys::fuzz_target;
use stormlp_core::units::{ByteSize, format_duration, parse_duration, short_size};

// Sizes and times as they are typed, and how they are shown.
fuzz_target!(|text: &str| {
    if let Ok(size) = text.parse::<ByteSize>() {
        let _ = size.to_string();
        // The short spelling gives every byte. Above this, sizes are read in larger steps.
        if size.0 < 1 << 53 {
            assert_eq!(short_size(size.0).parse(), Ok(size));
        }
    }
    if let Ok(duration) = parse_duration(text) {
        let _ = format_duration(duration.as_secs_f64());
    }
});
