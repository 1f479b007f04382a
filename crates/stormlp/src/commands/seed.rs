//! Seeds of runs.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

/// A new seed for each run, so that storage has never seen its content.
pub(super) fn fresh_seed() -> u64 {
    // 32 bits, which every JSON reader preserves. The report contains it for `--seed`.
    RandomState::new().build_hasher().finish() >> 32
}
