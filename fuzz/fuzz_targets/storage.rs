#![no_main]

use libfuzzer_sys::fuzz_target;
use stormlp_planner::plan::StorageModel;

// Storage in figures, as it is typed: a parsed value prints as text that parses to the same.
fuzz_target!(|text: &str| {
    if let Ok(storage) = text.parse::<StorageModel>() {
        let printed = storage.to_string();
        assert_eq!(printed.parse::<StorageModel>().as_ref(), Ok(&storage), "{printed}");
    }
});
