//! The Mersenne Twister as numpy's legacy `RandomState` uses it.
//!
//! DLIO draws file sizes, emulated compute times and shuffles from `numpy.random` seeded
//! with a small integer. To make the same files and visit them in the same order, stormlp
//! needs that generator bit for bit: MT19937 seeded by `init_genrand`, 53-bit doubles, and
//! the polar Box–Muller Gaussian that hands out its second value on the next call.

use rand_mt::Mt;

/// `numpy.random.RandomState(seed)`: integers, doubles and Gaussians of the legacy stream.
#[derive(Clone, Debug)]
pub struct Mt19937 {
    words: Box<Mt>,
    spare_gaussian: Option<f64>,
}

impl Mt19937 {
    /// Seeds the generator as `numpy.random.seed(seed)` does for an integer below 2³².
    #[must_use]
    pub fn new(seed: u32) -> Self {
        Self { words: Box::new(Mt::new(seed)), spare_gaussian: None }
    }

    /// Seeds the generator as Python's `random.seed(seed)` does for an integer below 2³²: with an
    /// array of one word.
    #[must_use]
    pub fn of_python(seed: u32) -> Self {
        Self { words: Box::new(Mt::new_with_key([seed])), spare_gaussian: None }
    }

    /// The next 32-bit output.
    pub fn next_u32(&mut self) -> u32 {
        self.words.next_u32()
    }

    /// The next 64-bit output: the high word is drawn first, as numpy's `next_uint64` does.
    pub fn next_u64(&mut self) -> u64 {
        let high = u64::from(self.next_u32());
        let low = u64::from(self.next_u32());
        (high << 32) | low
    }

    /// A uniform double in `[0, 1)` with 53 random bits, as `random_sample()`.
    pub fn next_f64(&mut self) -> f64 {
        let high = f64::from(self.next_u32() >> 5);
        let low = f64::from(self.next_u32() >> 6);
        (high * 67_108_864.0 + low) / 9_007_199_254_740_992.0
    }

    /// A standard Gaussian, as `standard_normal()` of the legacy generator: polar Box–Muller, which
    /// keeps its second value for the next call.
    pub fn next_gaussian(&mut self) -> f64 {
        if let Some(spare) = self.spare_gaussian.take() {
            return spare;
        }
        loop {
            let first = 2.0 * self.next_f64() - 1.0;
            let second = 2.0 * self.next_f64() - 1.0;
            let radius_squared = first * first + second * second;
            if radius_squared < 1.0 && radius_squared != 0.0 {
                let factor = (-2.0 * radius_squared.ln() / radius_squared).sqrt();
                self.spare_gaussian = Some(factor * first);
                return factor * second;
            }
        }
    }

    /// A draw of `normal(mean, deviation)`.
    pub fn next_normal(&mut self, mean: f64, deviation: f64) -> f64 {
        mean + deviation * self.next_gaussian()
    }

    /// A uniform integer in `[0, max]` by masked rejection, as numpy's `random_interval`:
    /// 32-bit outputs while `max` fits in 32 bits, 64-bit ones beyond; no draw for 0.
    pub fn next_interval(&mut self, max: u64) -> u64 {
        if max == 0 {
            return 0;
        }
        let mask = u64::MAX >> max.leading_zeros();
        loop {
            let draw = if max <= u64::from(u32::MAX) {
                u64::from(self.next_u32())
            } else {
                self.next_u64()
            };
            let value = draw & mask;
            if value <= max {
                return value;
            }
        }
    }

    /// A number below `count`, which must not be 0, as Python's `choice` and `randint` draw it.
    pub fn next_below(&mut self, count: u32) -> u32 {
        let unused = count.leading_zeros();
        loop {
            let drawn = self.next_u32() >> unused;
            if drawn < count {
                return drawn;
            }
        }
    }

    /// Shuffles in place as `numpy.random.shuffle`: Fisher–Yates from the last element.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.next_interval(last as u64) as usize;
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Mt19937;

    // Expected values: numpy 2.4.6, numpy.random.seed(SEED) and the named function.

    #[test]
    fn integers_match_the_reference_generator() {
        // The reference implementation's own check: init_genrand(5489), ten thousandth output.
        let mut generator = Mt19937::new(5489);
        let last = (0..10_000).map(|_| generator.next_u32()).last();
        assert_eq!(last, Some(4_123_659_995));
    }

    #[test]
    fn doubles_are_numpys() {
        let mut generator = Mt19937::new(10);
        assert_eq!(generator.next_f64(), 0.771320643266746);
        assert_eq!(generator.next_f64(), 0.0207519493594015);
    }

    #[test]
    fn gaussians_are_numpys() {
        let mut generator = Mt19937::new(10);
        let drawn: Vec<f64> = (0..5).map(|_| generator.next_gaussian()).collect();
        assert_eq!(
            drawn,
            [
                1.331586504129518,
                0.7152789743984055,
                -1.5454002921112682,
                -0.008383849928522256,
                0.6213359738904805
            ]
        );
    }

    #[test]
    fn draws_of_python_are_pythons() {
        // Python 3.11: random.seed(42), then random(), randrange(3), randint(512, 4096).
        let mut generator = Mt19937::of_python(42);
        assert_eq!(generator.next_f64(), 0.6394267984578837);
        assert_eq!(generator.next_below(3), 0);
        assert_eq!(generator.next_below(3585) + 512, 3549);
    }

    #[test]
    fn shuffle_is_numpys() {
        let mut items: Vec<u32> = (0..20).collect();
        Mt19937::new(123).shuffle(&mut items);
        assert_eq!(items, [14, 5, 4, 17, 8, 7, 19, 12, 0, 15, 16, 9, 11, 10, 3, 1, 6, 18, 2, 13]);
    }

    #[test]
    fn long_shuffles_agree_with_numpy() {
        let mut items: Vec<u32> = (0..100_000).collect();
        Mt19937::new(124).shuffle(&mut items);
        assert_eq!(&items[..4], [87451, 94570, 66782, 45565]);
        assert_eq!(&items[99_996..], [74690, 90247, 79889, 70094]);
    }

    #[test]
    fn an_interval_of_one_value_draws_nothing() {
        let mut drawn = Mt19937::new(1);
        let mut untouched = Mt19937::new(1);
        assert_eq!(drawn.next_interval(0), 0);
        assert_eq!(drawn.next_u32(), untouched.next_u32());
    }
}
