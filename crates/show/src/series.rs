//! Summaries of many samples: progress over time and latency distributions.

use std::collections::BTreeMap;

use stormlp_core::histogram::LatencyUs;
use stormlp_core::report::{self, Interval};

use crate::chart::Bar;
pub use crate::document::TimeSummary;
use crate::document::{Column, Quantity, Table};

/// Maximum number of ranks that are all shown.
const MOST_RANKS: usize = 5;

/// The ranks of a series with their bytes in each interval: all, or of many the slowest, the median
/// and the fastest.
pub fn ranks(series: &report::Series) -> Vec<(String, &[u64])> {
    let mut all: Vec<(usize, &[u64])> =
        series.rank_interval_bytes.iter().map(Vec::as_slice).enumerate().collect();
    let name = |(rank, _): &(usize, &[u64])| format!("rank {rank}");
    if all.len() <= MOST_RANKS {
        return all.iter().map(|one| (name(one), one.1)).collect();
    }
    all.sort_by_key(|(_, moved)| moved.iter().sum::<u64>());
    let chosen = [(0, "slowest"), (all.len() / 2, "median"), (all.len() - 1, "fastest")];
    let named = |(nth, word): (usize, &str)| {
        let one: &(usize, &[u64]) = &all[nth];
        (format!("{}, the {word} of {}", name(one), all.len()), one.1)
    };
    chosen.map(named).into()
}

/// Bytes in each interval as a rate in units of `unit` bytes per second, at the midpoint of the
/// interval.
pub fn over_time(series: &report::Series, moved: &[u64], unit: u64) -> Vec<(f64, f64)> {
    let rate = |(interval, bytes): (Interval, u64)| {
        let rate = bytes as f64 / unit as f64 / interval.seconds;
        (interval.middle(), rate)
    };
    series.timed(moved).map(rate).collect()
}

/// The sums of the amounts of all numbers by powers of two, from the smallest to the largest class
/// that occurs; `name` names that up to a power.
fn by_class(
    counts: impl IntoIterator<Item = (u64, f64)>,
    name: impl Fn(u64) -> String,
) -> Vec<(String, f64)> {
    let mut classes: BTreeMap<u64, f64> = BTreeMap::new();
    for (number, amount) in counts.into_iter().filter(|(_, amount)| *amount > 0.0) {
        let most = if number == 0 { 0 } else { number.min(1 << 62).next_power_of_two() };
        *classes.entry(most).or_default() += amount;
    }
    classes.into_iter().map(|(most, sum)| (name(most), sum)).collect()
}

/// A class of depths: `0`, `1`, `2`, `3 to 4`, `5 to 8` and so on.
pub fn depth_class(most: u64) -> String {
    if most < 3 { most.to_string() } else { format!("{} to {most}", most / 2 + 1) }
}

/// A bar for each class, in percent of the sum.
pub fn shares(
    counts: impl IntoIterator<Item = (u64, f64)>,
    name: impl Fn(u64) -> String,
) -> Vec<Bar> {
    let classes = by_class(counts, name);
    let all: f64 = classes.iter().map(|(_, sum)| sum).sum();
    classes.into_iter().map(|(name, sum)| Bar::one(name, sum * 100.0 / all)).collect()
}

impl TimeSummary {
    /// A distribution of times in microseconds.
    pub fn of(name: impl Into<String>, us: &LatencyUs) -> Self {
        Self {
            name: name.into(),
            unit: "µs",
            percentiles: [
                ("mean", Some(us.mean)),
                ("p50", us.p50),
                ("p90", us.p90),
                ("p99", us.p99),
                ("p99.9", us.p999),
                ("max", Some(us.max)),
            ],
        }
    }
}

impl Table {
    /// One row for each distribution, all in the same unit.
    pub(crate) fn of_distributions(distributions: &[TimeSummary]) -> Option<Self> {
        let first = distributions.first()?;
        let drops = [0, 0, 2, 0, 3, 0];
        let numbers = first.percentiles.iter().zip(drops);
        let numbers = numbers
            .map(|((name, _), drop)| Column::numbers(format!("{name} {}", first.unit), drop));
        let mut table = Self::new([Column::words("time", 0)].into_iter().chain(numbers));
        for one in distributions {
            let values = one.percentiles.iter().map(|(_, value)| match value {
                Some(value) => Quantity::lower(*value, one.unit).into(),
                None => "".into(),
            });
            let name = [one.name.clone().into()];
            table.row(one.name.clone(), name.into_iter().chain(values).collect());
        }
        Some(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_ranks(moved: &[u64]) -> report::Series {
        report::Series {
            interval_seconds: 1.0,
            interval_bytes: vec![moved.iter().sum(); 9],
            rank_interval_bytes: moved.iter().map(|bytes| vec![*bytes; 9]).collect(),
            ..report::Series::default()
        }
    }

    #[test]
    fn few_ranks_are_all_shown_and_many_by_the_slowest_the_median_and_the_fastest() {
        let names = |series: &report::Series| -> Vec<String> {
            ranks(series).into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(names(&of_ranks(&[3, 1])), ["rank 0", "rank 1"]);
        let many = of_ranks(&[5, 1, 4, 7, 3, 6, 2]);
        let expected =
            ["rank 1, the slowest of 7", "rank 2, the median of 7", "rank 3, the fastest of 7"];
        assert_eq!(names(&many), expected);
    }
}
