//! The noise that all objects of a run are pieces of: one stream of 2²⁷ elements that follows from
//! the seed of the run.
//!
//! Any part can be made alone, by a jump in numpy's generator. That costs 1.5 CPU seconds per GiB,
//! so a run that writes makes all of it once (256 MiB) and copies from it, which costs 0.07.

use super::pcg64::Pcg64;

/// Elements of the stream; longer objects are made of several pieces of it.
pub const NOISE_ELEMENTS: u64 = 1 << 27;
/// Bytes of the whole stream.
pub const NOISE_BYTES: u64 = 2 * NOISE_ELEMENTS;

/// An element, little endian.
pub type Element = [u8; 2];

/// The noise of a run.
#[derive(Debug, Clone)]
pub struct Noise {
    generator: Pcg64,
    /// All of it, or an empty buffer.
    made: Vec<Element>,
}

impl Noise {
    /// The noise of a run with this seed, of which each part is made when it is asked for.
    pub fn new(run_seed: u64) -> Self {
        Self { generator: Pcg64::new(run_seed), made: Vec::new() }
    }

    /// The same, of which `all` was generated before.
    ///
    /// # Panics
    /// If it is not all of it.
    #[must_use]
    pub fn holding(self, all: Vec<Element>) -> Self {
        assert_eq!(all.len() as u64, NOISE_ELEMENTS, "the noise of a run is one stream");
        Self { made: all, ..self }
    }

    /// Copies elements from `place` on; they must not go beyond the end.
    pub(super) fn copy(&self, place: u64, target: &mut [Element]) {
        let start = place as usize;
        match self.made.get(start..start + target.len()) {
            Some(made) => target.copy_from_slice(made),
            None => self.generate(place, target),
        }
    }

    /// Makes elements from `place` on.
    pub fn generate(&self, place: u64, target: &mut [Element]) {
        let mut generator = self.generator.jumped(place);
        for element in target {
            *element = element_of(generator.next_u64()).to_le_bytes();
        }
    }
}

/// An element: uniform from -1 to 1, rounded to 16-bit floating point, ties to even. Crates that
/// convert drop the low half of the number first, or round twice; numpy does neither.
#[inline]
fn element_of(raw: u64) -> u16 {
    /// The smallest normal 16-bit number, 2⁻¹⁴.
    const NORMAL: f64 = 6.103_515_625e-5;
    /// The reciprocal of the distance of the numbers below it, 2²⁴.
    const PER_STEP: f64 = 16_777_216.0;
    /// Difference of the exponents' biases, in place.
    const BIAS: u64 = (1023 - 15) << 10;
    // Exact: a multiple of 2⁻⁵² below 1.
    let value = -1.0 + 2.0 * ((raw >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0));
    let sign = (value.to_bits() >> 48) as u16 & 0x8000;
    if value.abs() < NORMAL {
        return sign | (value.abs() * PER_STEP).round_ties_even() as u16;
    }
    let bits = value.abs().to_bits();
    // Rounds at bit 42, where the fraction of the short form ends.
    let rounded = (bits + 0x1ff_ffff_ffff + (bits >> 42 & 1)) >> 42;
    sign | (rounded - BIAS) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of a 16-bit number.
    fn value_of(bits: u16) -> f64 {
        let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
        let size = match exponent {
            0 => fraction / 1024.0 * 2f64.powi(-14),
            _ => (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
        };
        if bits & 0x8000 == 0 { size } else { -size }
    }

    #[test]
    fn elements_are_the_nearest_16_bit_numbers() {
        let mut generator = Pcg64::new(7);
        // The ends, the middle, and the smallest numbers beside it.
        let middle = 1u64 << 63;
        let small = (0..2000).map(|nth| middle + (nth << 32) - (1 << 42));
        let edges = [0, u64::MAX, middle, middle - 1].into_iter().chain(small);
        for raw in edges.chain((0..200_000).map(|_| generator.next_u64())) {
            let value = -1.0 + 2.0 * ((raw >> 11) as f64 / 9_007_199_254_740_992.0);
            let bits = element_of(raw);
            let off = (value - value_of(bits)).abs();
            for other in [bits.wrapping_add(1), bits.wrapping_sub(1)] {
                let other_off = (value - value_of(other)).abs();
                let is_tie_to_even = off == other_off && bits & 1 == 0;
                assert!(off < other_off || is_tie_to_even, "{raw:#x}: {bits:#x}");
            }
        }
    }

    #[test]
    fn noise_made_at_once_is_that_made_in_parts() {
        let parts = Noise::new(42);
        let mut all = vec![[0; 2]; NOISE_ELEMENTS as usize];
        for (part, place) in all.chunks_mut(1 << 20).zip((0..).step_by(1 << 20)) {
            parts.generate(place, part);
        }
        let whole = Noise::new(42).holding(all);
        for place in [0, 1, (1 << 20) - 7, NOISE_ELEMENTS - 100] {
            let (mut one, mut other) = ([[0; 2]; 100], [[0; 2]; 100]);
            parts.copy(place, &mut one);
            whole.copy(place, &mut other);
            assert_eq!(one, other, "{place}");
        }
    }
}
