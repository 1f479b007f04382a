//! Ends a cell in a steady state, as SNIA's performance test specification defines it.

use std::time::Duration;

use stormlp_core::stats::mean;

/// Number of windows in the longest time of a cell: of a minute each in 20 minutes.
const MOST_WINDOWS: f64 = 20.0;
/// Maximum difference between the last five windows, as a share of their mean.
const SPREAD: f64 = 0.2;
/// Maximum change along the line through them, as a share of their mean.
const SLOPE: f64 = 0.1;

/// The rates of a cell's windows so far.
pub(super) struct SteadyWatch {
    window_seconds: f64,
    /// Time and bytes at the start of the window.
    begun: (Duration, u64),
    rates: Vec<f64>,
}

impl SteadyWatch {
    /// Watches a cell of at most `most_seconds`, before which `bytes` were moved.
    pub(super) fn new(most_seconds: f64, bytes: u64) -> Self {
        let window_seconds = most_seconds / MOST_WINDOWS;
        Self { window_seconds, begun: (Duration::ZERO, bytes), rates: Vec::new() }
    }

    /// Notes that `bytes` were moved `elapsed` after the start; whether that ends the cell.
    pub(super) fn look(&mut self, elapsed: Duration, bytes: u64) -> bool {
        let (start, before) = self.begun;
        let seconds = elapsed.saturating_sub(start).as_secs_f64();
        if seconds < self.window_seconds {
            return false;
        }
        self.rates.push(bytes.saturating_sub(before) as f64 / seconds);
        self.begun = (elapsed, bytes);
        let Some((_, last)) = self.rates.split_last_chunk::<5>() else {
            return false;
        };
        let mean = mean(last);
        let [low, high] = [f64::min, f64::max].map(|end| last.iter().copied().fold(mean, end));
        // Least squares over five times around 0, whose squares add up to 10.
        let slope: f64 = (-2..=2).zip(last).map(|(at, rate)| f64::from(at) * rate / 10.0).sum();
        mean > 0.0 && high - low <= SPREAD * mean && 4.0 * slope.abs() <= SLOPE * mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of windows of a second until these rates are steady.
    fn steady(rates: &[u64]) -> Option<u64> {
        let mut watch = SteadyWatch::new(20.0, 7);
        let mut bytes = 7;
        (1..).zip(rates).find_map(|(number, rate)| {
            bytes += rate;
            watch.look(Duration::from_secs(number), bytes).then_some(number)
        })
    }

    #[test]
    fn five_windows_within_a_fifth_of_their_mean_without_a_slope_are_steady() {
        assert_eq!(steady(&[100, 100, 100, 100]), None, "four windows");
        assert_eq!(steady(&[370, 370, 75, 75, 75, 75, 75]), Some(7));
        assert_eq!(steady(&[90, 110, 90, 110, 100]), Some(5));
        assert_eq!(steady(&[85, 111, 90, 110, 100]), None, "a spread of 26 %");
        assert_eq!(steady(&[110, 107, 104, 101, 98]), None, "a slope of 12 %");
        assert_eq!(steady(&[0; 9]), None, "nothing moved");
    }

    #[test]
    fn looks_within_a_window_are_not_windows() {
        let mut watch = SteadyWatch::new(20.0, 0);
        let looks = (1..50).map(|tenth| watch.look(Duration::from_millis(100 * tenth), tenth));
        assert!(looks.into_iter().all(|ends| !ends));
        assert_eq!(watch.rates.len(), 4);
    }
}
