//! PCG64 and SeedSequence as numpy has them, with a jump to any output.
//!
//! Facts: numpy's `PCG64` is XSL-RR 128/64, and advances its state before each output;
//! `SeedSequence` hashes the words of a seed into a pool of four and draws the state from that. The
//! state is a linear congruential generator, so `n` steps are one multiplication and one addition,
//! found in O(log n).

/// The multiplier of the 128-bit state.
const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;
/// Words in the pool of a seed sequence.
const POOL: usize = 4;

/// A generator at some place of its sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pcg64 {
    state: u128,
    increment: u128,
}

impl Pcg64 {
    /// `numpy.random.PCG64(seed)`, before its first output.
    pub(super) fn new(seed: u64) -> Self {
        let [s0, s1, s2, s3] = seed_sequence(seed);
        let wide = |high: u64, low: u64| u128::from(high) << 64 | u128::from(low);
        let increment = wide(s2, s3) << 1 | 1;
        let mut generator = Self { state: 0, increment };
        generator.step();
        generator.state = generator.state.wrapping_add(wide(s0, s1));
        generator.step();
        generator
    }

    #[inline]
    fn step(&mut self) {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
    }

    /// The next output.
    #[inline]
    pub(super) fn next_u64(&mut self) -> u64 {
        self.step();
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }

    /// The generator `steps` outputs later.
    #[must_use]
    pub(super) fn jumped(self, mut steps: u64) -> Self {
        // Squares the map x -> a·x + c once for each bit of `steps`.
        let (mut all_a, mut all_c) = (1u128, 0u128);
        let (mut a, mut c) = (MULTIPLIER, self.increment);
        while steps > 0 {
            if steps & 1 == 1 {
                all_a = all_a.wrapping_mul(a);
                all_c = all_c.wrapping_mul(a).wrapping_add(c);
            }
            c = c.wrapping_mul(a.wrapping_add(1));
            a = a.wrapping_mul(a);
            steps >>= 1;
        }
        Self { state: self.state.wrapping_mul(all_a).wrapping_add(all_c), ..self }
    }
}

/// `SeedSequence(seed).generate_state(4, uint64)`.
fn seed_sequence(seed: u64) -> [u64; 4] {
    let mut hash_in = Hash { constant: 0x43b0_d7e5, multiplier: 0x931e_8875 };
    let words = [seed as u32, (seed >> 32) as u32, 0, 0];
    let mut pool = words.map(|word| hash_in.of(word));
    for from in 0..POOL {
        for to in (0..POOL).filter(|to| *to != from) {
            pool[to] = mix(pool[to], hash_in.of(pool[from]));
        }
    }
    let mut hash_out = Hash { constant: 0x8b51_f9dd, multiplier: 0x58f3_8ded };
    let mut words = (0..2 * POOL).map(|nth| u64::from(hash_out.of(pool[nth % POOL])));
    // The low half of each comes first.
    std::array::from_fn(|_| words.next().unwrap_or(0) | words.next().unwrap_or(0) << 32)
}

/// A hash with a constant that changes with each word.
struct Hash {
    constant: u32,
    multiplier: u32,
}

impl Hash {
    fn of(&mut self, word: u32) -> u32 {
        let mixed = word ^ self.constant;
        self.constant = self.constant.wrapping_mul(self.multiplier);
        let mixed = mixed.wrapping_mul(self.constant);
        mixed ^ mixed >> 16
    }
}

fn mix(x: u32, y: u32) -> u32 {
    let mixed = 0xca01_f9ddu32.wrapping_mul(x).wrapping_sub(0x4973_f715u32.wrapping_mul(y));
    mixed ^ mixed >> 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn outputs_are_numpys() {
        // numpy 2.4: PCG64(42).random_raw(2).
        let mut generator = Pcg64::new(42);
        assert_eq!(generator.next_u64(), 0xc621_fbcd_16d9_2688);
        assert_eq!(generator.next_u64(), 0x705a_5661_a791_ffc1);
        // Seeds above 32 bits take two words: PCG64(15289096167558888179).random_raw().
        let mut generator = Pcg64::new(15_289_096_167_558_888_179);
        assert_eq!((generator.next_u64() as u32) >> 5, 5_846_362);
    }

    proptest! {
        #[test]
        fn a_jump_is_that_many_steps(seed: u64, steps in 0u64..2000) {
            let mut stepped = Pcg64::new(seed);
            for _ in 0..steps {
                stepped.next_u64();
            }
            prop_assert_eq!(Pcg64::new(seed).jumped(steps), stepped);
        }
    }
}
