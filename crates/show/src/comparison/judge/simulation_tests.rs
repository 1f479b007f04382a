//! Error rates of comparisons on runs that vary like real drives: correlated intervals, slow drift,
//! occasional stalls, and run-to-run variation.

use super::*;
use stormlp_core::mt19937::Mt19937;

/// Number of comparisons of each kind.
const PAIRS: usize = 500;
/// Number of combinations in a simulated matrix.
const CELLS: usize = 4;

/// A simulated drive and its variation, as shares of its rate.
#[derive(Clone, Copy)]
struct Drive {
    /// Standard deviation from run to run.
    run_to_run: f64,
    /// Standard deviation from interval to interval.
    jitter: f64,
    /// Correlation of an interval's deviation with that of the previous one.
    memory: f64,
    /// Maximum drift over a run.
    drift: f64,
    /// Frequency of intervals that are stalled for half of their time.
    stalls: f64,
}

const STEADY: Drive =
    Drive { run_to_run: 0.01, jitter: 0.02, memory: 0.3, drift: 0.0, stalls: 0.0 };
const BUSY: Drive =
    Drive { run_to_run: 0.015, jitter: 0.04, memory: 0.6, drift: 0.03, stalls: 0.01 };
const MOODY: Drive =
    Drive { run_to_run: 0.015, jitter: 0.03, memory: 0.9, drift: 0.05, stalls: 0.0 };

impl Drive {
    /// A run with this many intervals at `share` of the drive's rate.
    fn run(self, random: &mut Mt19937, share: f64, intervals: usize) -> FigureRun {
        let level = share * (1.0 + self.run_to_run * random.next_gaussian());
        let slope = self.drift * (2.0 * random.next_f64() - 1.0);
        let fresh = (1.0 - self.memory.powi(2)).sqrt();
        let mut deviation = random.next_gaussian();
        let mut interval = |n: usize| {
            deviation = self.memory * deviation + fresh * random.next_gaussian();
            let place = n as f64 / intervals as f64 - 0.5;
            let rate = 1.0 + self.jitter * deviation + slope * place;
            let stalled = random.next_f64() < self.stalls;
            1e9 * level * rate * if stalled { 0.5 } else { 1.0 }
        };
        let within: Vec<f64> = (0..intervals).map(&mut interval).collect();
        FigureRun { value: mean(&within), within }
    }

    /// The verdict for this many runs per side, the later ones at `share` of the rate.
    fn compare(self, random: &mut Mt19937, share: f64, runs: usize, intervals: usize) -> Verdict {
        let mut side = |share: f64| -> Vec<FigureRun> {
            (0..runs).map(|_| self.run(random, share, intervals)).collect()
        };
        let mut pairs = Vec::new();
        for _ in 0..CELLS {
            let (baseline, now) = (side(1.0), side(share));
            let throughput = Pair {
                higher_is_better: true,
                smallest_change: 0.005,
                run_to_run: 0.02,
                baseline,
                now,
            };
            pairs.extend([latency(&throughput), throughput]);
        }
        Verdict::of_all(judge(&pairs).iter().map(|outcome| outcome.verdict))
    }

    /// The share of comparisons that end with one of `verdicts`.
    fn share_of(self, verdicts: &[Verdict], share: f64, runs: usize, intervals: usize) -> f64 {
        let mut random = Mt19937::new(20_261_122);
        let ends = (0..PAIRS).map(|_| self.compare(&mut random, share, runs, intervals));
        ends.filter(|end| verdicts.contains(end)).count() as f64 / PAIRS as f64
    }
}

/// Mean latency at a fixed queue depth for a throughput: one number per run.
fn latency(throughput: &Pair) -> Pair {
    let of = |run: &FigureRun| FigureRun { value: 1e12 / run.value, within: Vec::new() };
    Pair {
        higher_is_better: false,
        baseline: throughput.baseline.iter().map(of).collect(),
        now: throughput.now.iter().map(of).collect(),
        ..throughput.clone()
    }
}

/// Runs per side and intervals of each: cells of 5 s and more, and sets of short ones.
const SIZES: [(usize, usize); 5] = [(1, 50), (1, 100), (1, 600), (3, 30), (5, 30)];
const DRIVES: [(&str, Drive); 3] = [("steady", STEADY), ("busy", BUSY), ("moody", MOODY)];

/// The share of comparisons with the later side at `share` that end with one of `verdicts`, if it
/// violates `fits`.
fn misfits(verdicts: &[Verdict], share: f64, fits: fn(f64) -> bool) -> Vec<String> {
    let mut misfits = Vec::new();
    for (name, drive) in DRIVES {
        for (runs, intervals) in SIZES {
            let found = drive.share_of(verdicts, share, runs, intervals);
            if !fits(found) {
                misfits.push(format!("{name}, {runs} runs of {intervals}: {found}"));
            }
        }
    }
    misfits
}

#[test]
fn the_same_work_is_called_different_in_at_most_one_comparison_of_twenty() {
    let different = [Verdict::Improved, Verdict::Regressed];
    let wrong = misfits(&different, 1.0, |share| share <= 0.05);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_tenth_less_is_found_in_nineteen_comparisons_of_twenty() {
    let missed = misfits(&[Verdict::Regressed], 0.9, |share| share >= 0.95);
    // Three runs per side are few if runs vary by more than 2 %.
    let (few, missed): (Vec<_>, Vec<_>) =
        missed.into_iter().partition(|one| one.contains(", 3 runs"));
    assert!(missed.is_empty(), "{missed:#?}");
    assert!(few.iter().all(|one| !one.starts_with("steady")), "{few:#?}");
}
