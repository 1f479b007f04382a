//! Figures of a report that contradict each other: rates and what they are of, parts and their
//! whole, means and what they are over.
//!
//! A run writes none of these. Whoever reads a report is told of them and may still look at it: a
//! field that somebody corrected does not make the rest of it worthless.

use super::{Head, NamedHistogram, Series};
use crate::histogram::{LatencyUs, of_saved};

/// Rates are computed from the numbers that stand beside them: what is further apart was changed.
pub const TOLERANCE: f64 = 0.01;
/// Intervals begin and end when somebody looks, not when bytes begin to move.
const TOLERANCE_OF_INTERVALS: f64 = 0.1;
/// Means are of numbers that stand in the report with all their digits.
pub const TOLERANCE_OF_MEANS: f64 = 1e-4;
/// Values of a histogram are known within 1 %, and so are the percentiles that were taken of it.
const TOLERANCE_OF_LATENCIES: f64 = 0.02;
/// The shortest latency that a histogram tells from others.
const LEAST_LATENCY_US: f64 = 0.0011;
/// Fewer intervals say little: the first or the last may hold most of a part.
const FEWEST_INTERVALS: usize = 10;

/// Contradictions that were found so far, in words.
#[derive(Debug, Default)]
pub struct Found(Vec<String>);

impl Found {
    /// Those of the head of a report, which all lanes share.
    pub fn of(head: &Head) -> Self {
        let mut found = Self::default();
        found.times(head);
        found
    }

    /// All of them.
    pub fn into_words(self) -> Vec<String> {
        self.0
    }

    /// Adds one.
    pub fn push(&mut self, words: String) {
        self.0.push(words);
    }

    /// Tells where a number is not what others come to.
    pub fn hold(&mut self, place: &str, what: &str, number: f64, comes_to: f64, from: &str) {
        self.hold_within(TOLERANCE, (place, what), [number, comes_to], from);
    }

    /// The same of a number and what others come to, at a tolerance of its own.
    pub fn hold_within(
        &mut self,
        tolerance: f64,
        (place, what): (&str, &str),
        [number, comes_to]: [f64; 2],
        from: &str,
    ) {
        let apart = (number - comes_to).abs();
        if apart > tolerance * number.abs().max(comes_to.abs()) {
            let place = inner(place, what);
            let (number, comes_to) = (short(number), short(comes_to));
            self.0.push(format!("{place} is {number}, but {from} come to {comes_to}"));
        }
    }

    /// Tells where a part is more than its whole.
    pub fn hold_part(&mut self, place: &str, what: &str, part: f64, whole: f64, of: &str) {
        if part > whole * (1.0 + TOLERANCE) {
            let place = inner(place, what);
            let (part, whole) = (short(part), short(whole));
            self.0.push(format!("{place} is {part}, and {of} no more than {whole}"));
        }
    }

    /// The same of whole numbers, which agree exactly.
    pub fn hold_count(&mut self, place: &str, what: &str, number: u64, comes_to: u64, from: &str) {
        if number != comes_to {
            let place = inner(place, what);
            self.0.push(format!("{place} is {number}, but {from} come to {comes_to}"));
        }
    }

    /// That a run ends after it began.
    fn times(&mut self, head: &Head) {
        let moment = |time: &str| time.trim_end_matches('Z').to_string();
        let ended = head.ended_at.as_deref();
        if let Some(ended) = ended.filter(|ended| moment(ended) < moment(&head.started_at)) {
            let started = &head.started_at;
            self.0.push(format!("ended_at is {ended}, before started_at ({started})"));
        }
    }

    /// That latencies are in order, and those of the histogram that is saved beside them.
    pub fn latencies(&mut self, place: &str, count: u64, told: &LatencyUs, saved: &str) {
        let known = [
            ("min", Some(told.min)),
            ("p50", told.p50),
            ("p90", told.p90),
            ("p99", told.p99),
            ("p999", told.p999),
            ("max", Some(told.max)),
        ];
        let known: Vec<(&str, f64)> =
            known.into_iter().filter_map(|(name, us)| Some((name, us?))).collect();
        for pair in known.windows(2) {
            if let [(lower, less), (upper, more)] = pair {
                self.hold_part(place, &format!("latency {lower}"), *less, *more, upper);
            }
        }
        self.hold_part(place, "latency mean", told.mean, told.max, "max");
        // Not every report has one.
        if saved.is_empty() {
            return;
        }
        let Some((values, comes_to)) = of_saved(saved) else {
            self.0.push(format!("{place} has a histogram that is none"));
            return;
        };
        let from = "the values of its histogram";
        self.hold_count(place, "latencies", count, values, from);
        for (what, told, comes_to) in [
            ("mean latency", Some(told.mean), Some(comes_to.mean)),
            ("p50 latency", told.p50, comes_to.p50),
            ("p90 latency", told.p90, comes_to.p90),
            ("p99 latency", told.p99, comes_to.p99),
            ("p99.9 latency", told.p999, comes_to.p999),
        ] {
            let pair = told.zip(comes_to).map(|(told, comes_to)| [told, comes_to]);
            // What took no time is in the bucket of 1 ns.
            let apart = |[told, comes_to]: &[f64; 2]| (told - comes_to).abs() > LEAST_LATENCY_US;
            if let Some(pair) = pair.filter(apart) {
                self.hold_within(TOLERANCE_OF_LATENCIES, (place, what), pair, from);
            }
        }
    }

    /// That what the hosts had a share in comes to the whole, where any are told.
    pub fn hosts(
        &mut self,
        place: &str,
        what: &str,
        whole: u64,
        shares: impl Iterator<Item = u64>,
    ) {
        let shares: Vec<u64> = shares.collect();
        if !shares.is_empty() {
            let sum = shares.into_iter().fold(0, u64::saturating_add);
            self.hold_count(place, what, whole, sum, "those of its hosts");
        }
    }

    /// Those between distributions and their summaries.
    pub fn histograms(&mut self, histograms: &[NamedHistogram]) {
        for (index, one) in histograms.iter().enumerate() {
            let place = format!("histograms.{index}");
            self.latencies(&place, one.count, &one.summary_us, &one.data);
        }
    }

    /// That all rows of a series have a value for each interval.
    pub fn shape(&mut self, place: &str, series: &Series) {
        let intervals = series.interval_bytes.len();
        let device = series.interval_device_bytes.as_ref();
        let mut rows = vec![
            ("interval_device_bytes".to_string(), device.map_or(0, Vec::len)),
            ("interval_in_flight".to_string(), series.interval_in_flight.len()),
            ("interval_cpu_seconds".to_string(), series.interval_cpu_seconds.len()),
        ];
        let tracks = series.tracks.iter().enumerate();
        rows.extend(
            tracks.map(|(index, track)| (format!("tracks.{index}.values"), track.values.len())),
        );
        for (row, length) in rows {
            if length != 0 && length != intervals {
                self.0.push(format!(
                    "{place}.{row} has {length} values, and interval_bytes {intervals}"
                ));
            }
        }
    }

    /// That the intervals hold the bytes that were counted while they lasted.
    pub fn intervals(&mut self, place: &str, series: &Series, bytes: u64, covers: Covers) {
        let row = &series.interval_bytes;
        if row.len() < FEWEST_INTERVALS {
            return;
        }
        let sum: f64 = row.iter().map(|bytes| *bytes as f64).sum();
        let largest = row.iter().copied().max().unwrap_or(0) as f64;
        let allowed = TOLERANCE_OF_INTERVALS * bytes as f64 + 2.0 * largest;
        let lacks = sum + allowed < bytes as f64 && covers != Covers::AtMost;
        let exceeds = sum > bytes as f64 + allowed && covers != Covers::AtLeast;
        if lacks || exceeds {
            self.0.push(format!(
                "{place}.interval_bytes come to {sum:.0} bytes, but {bytes} were counted"
            ));
        }
    }
}

/// What of the bytes of a part its intervals hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Covers {
    /// All of them.
    All,
    /// All, and others besides.
    AtLeast,
    /// All but those of a first while.
    AtMost,
}

/// A number with no more digits than tell it from another.
pub fn short(number: f64) -> String {
    if number.abs() >= 1e4 { format!("{number:.0}") } else { format!("{number:.4}") }
}

/// `place` and what lies in it.
pub fn inner(place: &str, name: &str) -> String {
    match place {
        "" => name.to_string(),
        place => format!("{place}.{name}"),
    }
}
