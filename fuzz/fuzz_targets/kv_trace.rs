#![no_main]

use libfuzzer_sys::fuzz_target;
use stormlp_kvcache::plan::{BLOCK_TOKENS, Model, TraceReader};

// A trace: whatever is read does not go back in time, and an error names a line that was read.
fuzz_target!(|text: &str| {
    let model = Model::named("tiny-1b").expect("a model that is built in");
    let mut reader = TraceReader::new(&model, BLOCK_TOKENS);
    let mut last_ns = 0;
    for (nth, line) in (1..).zip(text.lines()) {
        match reader.line(line) {
            Ok(None) => {}
            Ok(Some(entry)) => {
                assert!(entry.at_ns >= last_ns);
                last_ns = entry.at_ns;
            }
            Err(error) => {
                assert_eq!(error.line, nth);
                return;
            }
        }
    }
});
