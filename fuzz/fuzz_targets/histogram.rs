#![no_main]

use libfuzzer_sys::fuzz_target;
use stormlp_core::histogram;

// A saved histogram is a curve or is rejected, and needs no more memory than its length says. The
// `latency_histogram` of a cell is a good seed.
fuzz_target!(|text: &str| {
    for (quantile, us) in histogram::curve(text).into_iter().flatten() {
        assert!((0.0..1.0).contains(&quantile) && us.is_finite());
    }
});
