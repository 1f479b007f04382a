//! How often a change is found in series that have none, and how often one that they have: with noise
//! of other kinds than a test might assume.

#![allow(clippy::print_stdout, reason = "the documentation quotes the tables")]

use super::change_points;
use crate::mt19937::Mt19937;

/// Number of series of each kind and length.
const SERIES: usize = 200;
/// Lengths of the series.
const LENGTHS: [usize; 3] = [20, 40, 80];
/// At most this many may be wrong: 5 %, and the share of chance in one of a hundred cases.
const MOST_WRONG: usize = 18;

/// How results vary, in shares of their level.
#[derive(Debug, Clone, Copy)]
enum Noise {
    /// Normal, each value like the last by this much.
    Normal { memory: f64 },
    /// A share of runs is a third slower.
    BadRuns(f64),
    /// Two speeds a fifth apart, at random.
    TwoSpeeds,
    /// A tail that is skewed and rounded to few values.
    RoundedTail,
    /// Two speeds a fifth apart, each kept for five runs on average.
    LastingSpeeds,
    /// Spells of two bad runs on average, one in twenty runs.
    Spells,
}

impl Noise {
    /// Whether at most one series of twenty is promised to be wrong.
    const ALL: [(Self, &'static str, bool); 10] = [
        (Self::Normal { memory: 0.0 }, "normal", true),
        (Self::BadRuns(0.1), "a third slower in one run of ten", true),
        (Self::BadRuns(0.2), "a third slower in two runs of ten", true),
        (Self::TwoSpeeds, "two speeds 20 % apart", true),
        (Self::RoundedTail, "a skewed tail, rounded", true),
        (Self::Normal { memory: 0.3 }, "neighbours correlated by 0.3", true),
        (Self::Normal { memory: 0.6 }, "neighbours correlated by 0.6", false),
        (Self::Normal { memory: 0.9 }, "neighbours correlated by 0.9", false),
        (Self::LastingSpeeds, "two speeds, each for five runs on average", false),
        (Self::Spells, "spells of two slow runs on average", false),
    ];

    /// A series of this many logarithms.
    fn series(self, random: &mut Mt19937, count: usize) -> Vec<f64> {
        let mut last = random.next_gaussian();
        let mut slow = self.is_two_speeds() && random.next_f64() < 0.5;
        (0..count)
            .map(|_| {
                let chance = random.next_f64();
                match self {
                    Self::Normal { memory } => {
                        let fresh = (1.0 - memory * memory).sqrt();
                        last = memory * last + fresh * random.next_gaussian();
                        return 0.03 * last;
                    }
                    Self::RoundedTail => {
                        return (20.0 * (0.3 * random.next_gaussian()).exp()).round().ln();
                    }
                    Self::BadRuns(share) => slow = chance < share,
                    Self::TwoSpeeds => slow = chance < 0.5,
                    Self::LastingSpeeds => slow ^= chance < 0.2,
                    Self::Spells => slow = chance < if slow { 0.5 } else { 0.05 },
                }
                let slower = if self.is_two_speeds() { 0.2 } else { 0.4 };
                0.02 * random.next_gaussian() - if slow { slower } else { 0.0 }
            })
            .collect()
    }

    fn is_two_speeds(self) -> bool {
        matches!(self, Self::TwoSpeeds | Self::LastingSpeeds)
    }
}

#[test]
fn a_series_without_a_change_rarely_has_one() {
    let mut table = String::new();
    let mut failed = false;
    for (noise, name, is_promised) in Noise::ALL {
        table += &format!("| {name} |");
        for count in LENGTHS {
            let mut random = Mt19937::new(20_261_123);
            let wrong = (0..SERIES)
                .filter(|_| !change_points(&noise.series(&mut random, count), 0.05).is_empty())
                .count();
            failed |= is_promised && wrong > MOST_WRONG;
            table += &format!(" {wrong} |");
        }
        table += "\n";
    }
    println!("of {SERIES} series of {LENGTHS:?} reports with a false change:\n{table}");
    assert!(!failed, "{table}");
}

#[test]
fn a_change_is_found_where_it_began() {
    let mut table = String::new();
    let mut fewest = SERIES;
    // Length, first report of the new level.
    for (count, at) in [(20, 10), (40, 30), (40, 35), (80, 60)] {
        table += &format!("| the last {} of {count} |", count - at);
        for (less, memory) in [(0.1, 0.0), (0.1, 0.2), (0.3, 0.0)] {
            let mut random = Mt19937::new(7);
            let is_found = |_: &usize| {
                let mut series = Noise::Normal { memory }.series(&mut random, count);
                series[at..].iter_mut().for_each(|value| *value += f64::ln(1.0 - less));
                let cuts = change_points(&series, 0.05);
                cuts.len() == 1 && cuts[0].at.abs_diff(at) <= 2
            };
            let found = (0..SERIES).filter(is_found).count();
            if count == 80 {
                fewest = fewest.min(found);
            }
            table += &format!(" {found} |");
        }
        table += "\n";
    }
    println!("of {SERIES} series, a tenth, a tenth in correlated ones, three tenths:\n{table}");
    assert!(fewest >= SERIES * 4 / 5, "{table}");
}
