//! Error rates of comparisons on runs that vary in other ways than the tests assume: runs resemble
//! their neighbours, drift, have rare bad ones, and each work has different noise.

#![allow(clippy::print_stdout, reason = "the documentation quotes the tables")]

use super::*;
use stormlp_core::mt19937::Mt19937;
use stormlp_core::sequential::LOOKS;

/// Number of comparisons of each kind.
const COMPARISONS: usize = 400;
/// At most this many of them may be wrong: 5 %, and the share of chance in one of a hundred cases.
const MOST_WRONG: usize = 30;

/// How the runs of a work vary, as shares of its rate.
#[derive(Clone, Copy)]
struct Work {
    /// Standard deviation of runs.
    deviation: f64,
    /// Correlation of a run with the next.
    memory: f64,
    /// Drift from each run to the next.
    drift: f64,
    /// Frequency of runs at a third less.
    bad: f64,
}

const WORKS: [(&str, Work); 6] = [
    ("steady", Work { deviation: 0.01, memory: 0.0, drift: 0.0, bad: 0.0 }),
    ("noisy", Work { deviation: 0.06, memory: 0.0, drift: 0.0, bad: 0.0 }),
    ("moody", Work { deviation: 0.03, memory: 0.6, drift: 0.0, bad: 0.0 }),
    ("sticky", Work { deviation: 0.03, memory: 0.95, drift: 0.0, bad: 0.0 }),
    ("warming", Work { deviation: 0.01, memory: 0.3, drift: 0.005, bad: 0.0 }),
    ("odd", Work { deviation: 0.02, memory: 0.3, drift: 0.0, bad: 0.1 }),
];

impl Work {
    /// The rates of this many runs one after the other, the `slower` ones at `share` of it.
    fn runs(self, random: &mut Mt19937, order: &[bool], share: f64) -> [Vec<f64>; 2] {
        let mut sides = [Vec::new(), Vec::new()];
        let mut state = random.next_gaussian();
        let fresh = (1.0 - self.memory.powi(2)).sqrt();
        for (nth, slower) in order.iter().enumerate() {
            state = self.memory * state + fresh * random.next_gaussian();
            let mut rate = 1e9 * (1.0 + self.deviation * state + self.drift * nth as f64);
            if random.next_f64() < self.bad {
                rate *= 0.67;
            }
            sides[usize::from(*slower)].push(if *slower { share * rate } else { rate });
        }
        sides
    }
}

/// A throughput, its latency at a fixed depth, and a tail that varies three times as much.
fn figures([baseline, now]: &[Vec<f64>; 2]) -> Vec<Sides> {
    let sides = |headline, effect, of: fn(f64) -> f64| Sides {
        higher_is_better: headline,
        headline,
        effect,
        baseline: baseline.iter().copied().map(of).collect(),
        now: now.iter().copied().map(of).collect(),
        earlier: Vec::new(),
    };
    vec![
        sides(true, 0.05, |rate| rate),
        sides(false, 0.05, |rate| 1e12 / rate),
        sides(false, 0.1, |rate| (1e9 / rate).powi(3)),
    ]
}

/// The verdicts on all figures, where sides are compared as `stormlp compare --run` does.
fn in_pairs(work: Work, random: &mut Mt19937, share: f64) -> Vec<Verdict> {
    let blocks = (0..8).flat_map(|_| {
        let first = random.next_f64() < 0.5;
        [first, !first, !first, first]
    });
    let order: Vec<bool> = blocks.take(30).collect();
    let [baseline, now] = work.runs(random, &order, share);
    let mut verdicts = Vec::new();
    for look in LOOKS {
        let sides = [baseline[..look].to_vec(), now[..look].to_vec()];
        let judged = judge(&figures(&sides), Design::Pairs);
        verdicts = judged.iter().map(|one| one.verdict).collect();
        if judged[0].interval.is_some_and(|interval| Judged::is_settled(interval, 0.05)) {
            break;
        }
    }
    verdicts
}

fn one_after_the_other(work: Work, random: &mut Mt19937, runs: usize) -> Vec<Verdict> {
    let order: Vec<bool> = (0..2 * runs).map(|nth| nth >= runs).collect();
    let sides = work.runs(random, &order, 1.0);
    judge(&figures(&sides), Design::Blocks).iter().map(|one| one.verdict).collect()
}

/// One run a side after this many earlier ones.
fn after_earlier(work: Work, random: &mut Mt19937, earlier: usize) -> Vec<Verdict> {
    let order = vec![false; earlier + 2];
    let [runs, _] = work.runs(random, &order, 1.0);
    let sides = [vec![runs[earlier]], vec![runs[earlier + 1]]];
    let mut figures = figures(&sides);
    for (figure, earlier) in figures.iter_mut().zip(self::figures(&[runs, Vec::new()])) {
        figure.earlier = earlier.baseline[..earlier.baseline.len() - 2].to_vec();
    }
    judge(&figures, Design::OneRun).iter().map(|one| one.verdict).collect()
}

fn different(verdicts: &[Verdict]) -> bool {
    verdicts.iter().any(|one| matches!(one, Verdict::Improved | Verdict::Regressed))
}

#[test]
fn the_same_work_is_called_different_in_at_most_one_comparison_of_twenty() {
    let mut found = Vec::new();
    for (name, work) in WORKS {
        let mut random = Mt19937::new(20_261_122);
        let wrong = (0..COMPARISONS).filter(|_| different(&in_pairs(work, &mut random, 1.0)));
        found.push((name, "pairs", wrong.count()));
        for runs in [5, 10, 20, 40] {
            let mut random = Mt19937::new(20_261_123);
            // A drift that goes on within the sides is seen; one that never ends cannot be.
            let wrong = (0..COMPARISONS)
                .filter(|_| different(&one_after_the_other(work, &mut random, runs)));
            found.push((name, "blocks", wrong.count()));
        }
    }
    for (name, work) in WORKS {
        let mut random = Mt19937::new(20_261_128);
        let wrong = (0..COMPARISONS).filter(|_| different(&after_earlier(work, &mut random, 20)));
        found.push((name, "after 20 earlier ones", wrong.count()));
    }
    println!("of {COMPARISONS} comparisons of the same work called different: {found:?}");
    let wrong: Vec<_> = found.iter().filter(|(_, _, wrong)| *wrong > MOST_WRONG).collect();
    assert!(wrong.is_empty(), "{found:?}");
}

#[test]
fn a_tenth_less_is_found_in_nine_comparisons_of_ten() {
    for (name, work) in WORKS {
        // A third less in one run of ten hides a tenth.
        if name == "odd" {
            continue;
        }
        let mut random = Mt19937::new(20_261_124);
        let found =
            (0..COMPARISONS).filter(|_| in_pairs(work, &mut random, 0.9)[0] == Verdict::Regressed);
        let found = found.count();
        assert!(found >= COMPARISONS * 9 / 10, "{name}: {found}");
    }
}

#[test]
fn how_often_a_tenth_is_found_depends_on_the_spread_of_pairs() {
    let mut found = Vec::new();
    for percent in [5, 8, 10, 11, 16] {
        let mut random = Mt19937::new(20_261_127);
        let deviation = f64::from(percent) / 100.0 / f64::sqrt(2.0);
        let work = Work { deviation, memory: 0.0, drift: 0.0, bad: 0.0 };
        let regressed =
            (0..COMPARISONS).filter(|_| in_pairs(work, &mut random, 0.9)[0] == Verdict::Regressed);
        found.push((percent, regressed.count()));
    }
    println!("standard deviation of a pair in %, found of {COMPARISONS}: {found:?}");
    assert!(found[0].1 >= COMPARISONS * 9 / 10, "{found:?}");
    assert!(found.windows(2).all(|two| two[1].1 <= two[0].1), "{found:?}");
}

#[test]
fn the_same_is_said_of_steady_work_and_never_of_a_change_that_matters() {
    let mut random = Mt19937::new(20_261_125);
    let (_, steady) = WORKS[0];
    let same = (0..COMPARISONS).filter(|_| in_pairs(steady, &mut random, 1.0)[0] == Verdict::Same);
    assert!(same.count() >= COMPARISONS * 9 / 10);
    for (name, work) in WORKS {
        let mut random = Mt19937::new(20_261_126);
        let wrong =
            (0..COMPARISONS).filter(|_| in_pairs(work, &mut random, 0.94)[0] == Verdict::Same);
        let wrong = wrong.count();
        assert!(wrong <= MOST_WRONG, "{name}: {wrong}");
    }
}
