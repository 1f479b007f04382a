//! What many samples come down to: how a run went over time, and how its times spread.

use stormlp_core::histogram::LatencyUs;
use stormlp_core::report::{self, Interval};

use crate::chart::Bar;
use crate::document::{Column, Quantity, Table};

/// Fewer intervals are no course over time.
const FEWEST: usize = 8;
/// How many bars a course over time has.
const BARS: usize = 20;
/// A bar by its height; nothing, then an eighth and more.
const LEVELS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A number for each interval of a part of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Which part: `save 3`.
    pub name: String,
    /// The unit of the values.
    pub unit: &'static str,
    /// Length of an interval.
    pub interval_seconds: f64,
    /// The values.
    pub values: Vec<f64>,
}

/// How often something took how long.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// What was timed.
    pub name: String,
    /// The unit of the values.
    pub unit: &'static str,
    /// Mean, percentiles and maximum by their names; `None` where too few times stand behind one.
    pub percentiles: [(&'static str, Option<f64>); 6],
}

impl Series {
    /// Bytes over time in a unit of so many bytes a second; `None` when it was over too soon.
    pub fn rates(
        name: String,
        series: &report::Series,
        (unit, bytes): (&'static str, u64),
    ) -> Option<Self> {
        // The last interval is seldom whole.
        let (_, whole) = series.interval_bytes.split_last()?;
        let seconds = series.interval_seconds;
        let rate = |moved: &u64| *moved as f64 / bytes as f64 / seconds;
        (whole.len() >= FEWEST).then(|| Self {
            name,
            unit,
            interval_seconds: seconds,
            values: whole.iter().map(rate).collect(),
        })
    }

    /// A bar for each stretch of equal length, as high as its mean is.
    fn bars(&self) -> String {
        let highest = self.values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let count = BARS.min(self.values.len());
        let place = |bar: usize| bar * self.values.len() / count;
        let bar = |bar: usize| {
            let part = &self.values[place(bar)..place(bar + 1)];
            let mean = part.iter().sum::<f64>() / part.len() as f64;
            let level = (mean / highest * 8.0).ceil() as usize;
            LEVELS[level.min(8)]
        };
        (0..count).map(bar).collect()
    }
}

/// Bytes in each interval as a rate in units of so many bytes a second, in the middle of the
/// interval.
pub fn over_time(series: &report::Series, moved: &[u64], unit: u64) -> Vec<(f64, f64)> {
    let rate = |(interval, bytes): (Interval, u64)| {
        let rate = bytes as f64 / unit as f64 / interval.seconds;
        (interval.middle(), rate)
    };
    series.timed(moved).map(rate).collect()
}

/// How often so many transfers were in flight, in percent of the times that somebody looked; none
/// where nobody did.
pub fn depths(in_flight: &[u32]) -> Vec<Bar> {
    // 0, 1, 2, 3 to 4, 5 to 8 and so on.
    let class = |depth: u32| match depth {
        0 => 0,
        depth => 1 + depth.next_power_of_two().trailing_zeros() as usize,
    };
    let mut counts: Vec<usize> = Vec::new();
    for depth in in_flight {
        let class = class((*depth).min(1 << 31));
        counts.resize(counts.len().max(class + 1), 0);
        counts[class] += 1;
    }
    let name = |class: usize| match class {
        0..3 => class.to_string(),
        class => {
            let most = 1u64 << (class - 1);
            format!("{} to {most}", most / 2 + 1)
        }
    };
    let share = |count: usize| count as f64 * 100.0 / in_flight.len() as f64;
    let bars = counts.iter().enumerate();
    bars.map(|(class, count)| Bar::one(name(class), share(*count))).collect()
}

impl Distribution {
    /// Times in microseconds.
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
    /// A row for each series; all of a table are in the same unit.
    pub(crate) fn of_series(series: &[Series]) -> Option<Self> {
        let unit = series.first()?.unit;
        let numbers = [("min", 0), ("median", 0), ("max", 0), ("every s", 1)];
        let numbers = numbers.map(|(name, drop)| Column::numbers(name, drop));
        let words = ["over time", unit].map(|name| Column::words(name, 0));
        let mut table = Self::new(words.into_iter().chain(numbers));
        for one in series {
            let mut sorted = one.values.clone();
            sorted.sort_by(f64::total_cmp);
            let [min, max] = [sorted.first(), sorted.last()].map(|end| end.copied());
            let median = sorted.get(sorted.len() / 2).copied();
            let rates = [min, median, max].map(Option::unwrap_or_default);
            let mut row = vec![one.name.clone().into(), one.bars().into()];
            row.extend(rates.map(|rate| Quantity::neutral(rate, one.unit).into()));
            row.push(Quantity::neutral(one.interval_seconds, "s").into());
            table.row(one.name.clone(), row);
        }
        Some(table)
    }

    /// A row for each distribution; all of a table are in the same unit.
    pub(crate) fn of_distributions(distributions: &[Distribution]) -> Option<Self> {
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
