#![no_main]

use libfuzzer_sys::fuzz_target;
use stormlp_mlperf::submission::system_yaml;

// The description of a system: a fault has a line only within the text.
fuzz_target!(|text: &str| {
    // YAML's line breaks. A parser that met the end too soon names the line after it.
    let lines = text.split(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']).count();
    for fault in system_yaml::faults(text) {
        assert!(fault.line.is_none_or(|line| (1..=lines + 1).contains(&line)), "{fault}");
    }
});
