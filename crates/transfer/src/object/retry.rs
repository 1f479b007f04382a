//! When a request is made again: bounded, with growing pauses that differ between threads.

use std::time::Duration;

/// Maximum number of retries of a request.
pub(super) const MOST_RETRIES: u32 = 5;
/// The pause before the first retry; each later one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Draws pauses. Threads that failed together do not come back together.
#[derive(Debug)]
pub(super) struct Pauses(u64);

impl Pauses {
    /// Different pauses for each `seed`.
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The pause before retry `number`, from 0: half to all of its full length.
    pub(super) fn next(&mut self, number: u32) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let share = 0.5 + (self.0 >> 11) as f64 / (1u64 << 54) as f64;
        (FIRST_PAUSE * 2u32.pow(number.min(MOST_RETRIES))).mul_f64(share)
    }
}

/// How often a request was made again before its error.
pub(super) fn after_retries(retries: u32) -> String {
    match retries {
        0 => String::new(),
        1 => ", after 1 retry".to_string(),
        retries => format!(", after {retries} retries"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_differ() {
        let (mut one, mut other) = (Pauses::new(1), Pauses::new(2));
        assert_ne!(one.next(0), other.next(0));
        for number in 0..MOST_RETRIES {
            let (pause, full) = (one.next(number), FIRST_PAUSE * 2u32.pow(number));
            assert!(pause >= full / 2 && pause <= full, "{pause:?}");
        }
    }
}
