#![no_main]

use libfuzzer_sys::fuzz_target;
use stormlp_training::plan::calibration::{Calibration, FORMATS};

// A saved calibration: whatever it says, a client's cost can be computed.
fuzz_target!(|text: &str| {
    let Ok(calibration) = Calibration::parse(text) else {
        return;
    };
    for cost in FORMATS.into_iter().filter_map(|format| calibration.of(format).ok()) {
        let _ = (cost.whole(0.1), cost.beyond_own(0.1));
    }
    let _ = calibration.checkpoint.map(|cost| cost.beyond_own());
});
