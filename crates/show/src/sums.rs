//! Contradictory figures in a report: rates and their inputs, parts and their whole, means and
//! their samples.
//!
//! A run writes none of these. The reader is warned of them and may still use the report: one field
//! edited by hand does not make the rest worthless.

use stormlp_core::evidence::Evidence;
use stormlp_core::histogram::{LatencyUs, NamedHistogram, of_saved};
use stormlp_core::path::PathKind;
use stormlp_core::report::{Head, Series};

/// Rates are computed from the numbers next to them; a larger deviation means an edit.
pub const TOLERANCE: f64 = 0.01;
/// Interval boundaries follow the sampling times, not the start of I/O.
const TOLERANCE_OF_INTERVALS: f64 = 0.1;
/// Means are of numbers that the report contains at full precision.
pub const TOLERANCE_OF_MEANS: f64 = 1e-4;
/// Histogram values are known within 1 %, and so are the percentiles derived from them.
const TOLERANCE_OF_LATENCIES: f64 = 0.02;
/// The shortest latency that a histogram can resolve.
const LEAST_LATENCY_US: f64 = 0.0011;
/// With fewer intervals, the first or the last may hold most of a part.
const FEWEST_INTERVALS: usize = 10;

/// Contradictions found so far, in words.
#[derive(Debug, Default)]
pub struct Found(Vec<String>);

impl Found {
    /// Checks the head of a report, which all lanes share.
    pub fn of(head: &Head) -> Self {
        let mut found = Self::default();
        found.times(head);
        found
    }

    /// All contradictions.
    pub fn into_words(self) -> Vec<String> {
        self.0
    }

    /// Adds a contradiction.
    pub fn push(&mut self, words: String) {
        self.0.push(words);
    }

    /// Records when the evidence is that of a path which a run of the `planned` one cannot take.
    pub fn path(&mut self, place: &str, planned: PathKind, evidence: &Evidence) {
        if let Some(shown) = evidence.effective_path.filter(|_| !evidence.may_be_of(planned)) {
            self.0.push(format!("{place} is {planned}, but the evidence shows {shown}"));
        }
    }

    /// Records when a number is not what the others add up to.
    pub fn hold(&mut self, place: &str, what: &str, number: f64, comes_to: f64, from: &str) {
        self.hold_within(TOLERANCE, (place, what), [number, comes_to], from);
    }

    /// Like [`Self::hold`], with a given tolerance.
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
            self.0.push(format!("{place} is {number}, but {from} add up to {comes_to}"));
        }
    }

    /// Records when a part exceeds its whole.
    pub fn hold_part(&mut self, place: &str, what: &str, part: f64, whole: f64, of: &str) {
        if part > whole * (1.0 + TOLERANCE) {
            let place = inner(place, what);
            let (part, whole) = (short(part), short(whole));
            self.0.push(format!("{place} is {part}, but {of} is only {whole}"));
        }
    }

    /// Like [`Self::hold`] for integers, which must match exactly.
    pub fn hold_count(&mut self, place: &str, what: &str, number: u64, comes_to: u64, from: &str) {
        if number != comes_to {
            let place = inner(place, what);
            self.0.push(format!("{place} is {number}, but {from} add up to {comes_to}"));
        }
    }

    /// Checks that a run ends after it began.
    fn times(&mut self, head: &Head) {
        let moment = |time: &str| time.trim_end_matches('Z').to_string();
        let ended = head.ended_at.as_deref();
        if let Some(ended) = ended.filter(|ended| moment(ended) < moment(&head.started_at)) {
            let started = &head.started_at;
            self.0.push(format!("ended_at is {ended}, before started_at ({started})"));
        }
    }

    /// Checks that latencies are in order and match the histogram saved with them.
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
        // Not every report has a histogram.
        if saved.is_empty() {
            return;
        }
        let Some((values, comes_to)) = of_saved(saved) else {
            self.0.push(format!("{place} has an invalid histogram"));
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
            // Zero durations are in the bucket of 1 ns.
            let apart = |[told, comes_to]: &[f64; 2]| (told - comes_to).abs() > LEAST_LATENCY_US;
            if let Some(pair) = pair.filter(apart) {
                self.hold_within(TOLERANCE_OF_LATENCIES, (place, what), pair, from);
            }
        }
    }

    /// Checks that the hosts' shares add up to the whole, if any are reported.
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
            self.hold_count(place, what, whole, sum, "its hosts' shares");
        }
    }

    /// Checks distributions against their summaries.
    pub fn histograms(&mut self, histograms: &[NamedHistogram]) {
        for (index, one) in histograms.iter().enumerate() {
            let place = format!("histograms.{index}");
            self.latencies(&place, one.count, &one.summary_us, &one.data);
        }
    }

    /// Checks that all rows of a series have a value for each interval.
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
                    "{place}.{row} has {length} values, but interval_bytes has {intervals}"
                ));
            }
        }
    }

    /// Checks that the intervals add up to the bytes counted over the same time.
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
                "{place}.interval_bytes add up to {sum:.0} bytes, but {bytes} were counted"
            ));
        }
    }
}

/// Which bytes of a part its intervals cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Covers {
    /// All of them.
    All,
    /// All of them, and others as well.
    AtLeast,
    /// All except those of an initial period.
    AtMost,
}

/// A number with only as many digits as needed to distinguish it.
pub fn short(number: f64) -> String {
    if number.abs() >= 1e4 { format!("{number:.0}") } else { format!("{number:.4}") }
}

/// The location of `name` within `place`.
pub fn inner(place: &str, name: &str) -> String {
    match place {
        "" => name.to_string(),
        place => format!("{place}.{name}"),
    }
}
