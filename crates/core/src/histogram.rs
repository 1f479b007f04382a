//! Latency histograms with fixed bounds.
//!
//! The bounds are fixed when a histogram is made, so recording never allocates: a histogram that
//! grew in the hot loop would skew the measurement.

use base64::Engine as _;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2Serializer};
use serde::{Deserialize, Serialize};

/// The longest latency that is resolved: one hour. Longer ones are counted as this.
pub const HIGHEST_NS: u64 = 3_600_000_000_000;

/// Latencies in nanoseconds with two significant decimal digits, from 1 ns to one hour.
///
/// Two digits bound the relative error at 1 % and keep a histogram at about 40 KiB, small
/// enough to stay in a core's cache while a thread records millions of samples a second.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "PackedHistogram", into = "PackedHistogram")]
pub struct LatencyHistogram {
    inner: Histogram<u64>,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

/// A summary of latencies in microseconds.
///
/// A percentile is omitted if too few latencies were recorded for one to lie beyond it: fewer than
/// 2 for the median, 10, 100 and 1000 for the rest. It would otherwise be the maximum, or lie
/// between two latencies by chance.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyUs {
    /// Exact arithmetic mean.
    pub mean: f64,
    /// Exact minimum.
    pub min: f64,
    /// Median, within 1 %; `None` below 2 samples.
    pub p50: Option<f64>,
    /// 90th percentile, within 1 %; `None` below 10 samples.
    pub p90: Option<f64>,
    /// 99th percentile, within 1 %; `None` below 100 samples.
    pub p99: Option<f64>,
    /// 99.9th percentile, within 1 %; `None` below 1000 samples.
    pub p999: Option<f64>,
    /// Exact maximum.
    pub max: f64,
}

/// A complete named distribution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NamedHistogram {
    /// Name of the measured time: `fetch_wait`, `read`, `save_transfer`.
    pub name: String,
    /// The unit of the values in `data`: `ns`.
    pub unit: String,
    /// The number of values.
    pub count: u64,
    /// Mean, extremes and percentiles in microseconds.
    pub summary_us: LatencyUs,
    /// All values, HdrHistogram V2 in base64.
    pub data: String,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl LatencyHistogram {
    /// An empty histogram; the only allocation it ever makes.
    pub fn new() -> Self {
        let inner = Histogram::new_with_bounds(1, HIGHEST_NS, 2)
            .expect("the bounds are constants that hdrhistogram accepts");
        Self { inner, sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }

    /// Records one latency in nanoseconds.
    #[inline]
    pub fn record_ns(&mut self, latency_ns: u64) {
        self.inner.saturating_record(latency_ns.max(1));
        self.sum_ns += u128::from(latency_ns);
        self.min_ns = self.min_ns.min(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
    }

    /// The number of recorded latencies.
    pub fn len(&self) -> u64 {
        self.inner.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.inner.add(&other.inner).expect("all latency histograms share their bounds");
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Clears all values without releasing memory.
    pub fn reset(&mut self) {
        self.inner.reset();
        (self.sum_ns, self.min_ns, self.max_ns) = (0, u64::MAX, 0);
    }

    /// The latency in nanoseconds below which the share `quantile` (0 to 1) of the samples lies.
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        self.inner.value_at_quantile(quantile).clamp(self.min_ns.min(self.max_ns), self.max_ns)
    }

    /// Mean, extremes and the percentiles supported by enough samples; `None` without samples.
    pub fn summary(&self) -> Option<LatencyUs> {
        if self.is_empty() {
            return None;
        }
        let percentile_us = |quantile, fewest| {
            (self.len() >= fewest).then(|| self.quantile_ns(quantile) as f64 / 1e3)
        };
        Some(LatencyUs {
            mean: self.sum_ns as f64 / self.len() as f64 / 1e3,
            min: self.min_ns as f64 / 1e3,
            p50: percentile_us(0.5, 2),
            p90: percentile_us(0.9, 10),
            p99: percentile_us(0.99, 100),
            p999: percentile_us(0.999, 1000),
            max: self.max_ns as f64 / 1e3,
        })
    }

    /// The whole histogram in HdrHistogram's V2 encoding as base64, which other tools can read.
    pub fn to_base64(&self) -> String {
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(&self.inner, &mut bytes)
            .expect("writing to memory does not fail");
        base64::engine::general_purpose::STANDARD.encode(&bytes)
    }

    /// Packs the whole histogram for another host.
    pub fn pack(&self) -> PackedHistogram {
        PackedHistogram {
            data: self.to_base64(),
            sum_ns: u64::try_from(self.sum_ns).unwrap_or(u64::MAX),
            min_ns: self.min_ns,
            max_ns: self.max_ns,
        }
    }

    /// Unpacks a histogram that another host packed; `None` if it is not a valid histogram.
    pub fn unpack(packed: &PackedHistogram) -> Option<Self> {
        let bytes = base64::engine::general_purpose::STANDARD.decode(&packed.data).ok()?;
        let counted: Histogram<u64> =
            Deserializer::new().deserialize(&mut bytes.as_slice()).ok()?;
        let mut histogram = Self::new();
        histogram.inner.add(&counted).ok()?;
        (histogram.sum_ns, histogram.min_ns, histogram.max_ns) =
            (packed.sum_ns.into(), packed.min_ns, packed.max_ns);
        Some(histogram)
    }

    /// The histogram saved as `data` together with `summary`; `None` if it is invalid.
    pub fn of_report(data: &str, summary: &LatencyUs) -> Option<Self> {
        let nanoseconds = |microseconds: f64| (microseconds * 1e3).round() as u64;
        let mut histogram = Self::unpack(&PackedHistogram {
            data: data.to_string(),
            sum_ns: 0,
            min_ns: nanoseconds(summary.min),
            max_ns: nanoseconds(summary.max),
        })?;
        histogram.sum_ns = (summary.mean * 1e3 * histogram.len() as f64).round() as u128;
        Some(histogram)
    }

    /// The histogram in its saved form; `None` without samples.
    pub fn named(&self, name: &str) -> Option<NamedHistogram> {
        Some(NamedHistogram {
            name: name.to_string(),
            unit: "ns".to_string(),
            count: self.len(),
            summary_us: self.summary()?,
            data: self.to_base64(),
        })
    }
}

impl NamedHistogram {
    /// The values of both; `None` if one of them is invalid.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Option<Self> {
        let mut all = LatencyHistogram::of_report(&self.data, &self.summary_us)?;
        all.merge(&LatencyHistogram::of_report(&other.data, &other.summary_us)?);
        all.named(&self.name)
    }
}

/// A serialized histogram for transfer between hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackedHistogram {
    data: String,
    sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
}

impl From<LatencyHistogram> for PackedHistogram {
    fn from(histogram: LatencyHistogram) -> Self {
        histogram.pack()
    }
}

impl TryFrom<PackedHistogram> for LatencyHistogram {
    type Error = &'static str;

    fn try_from(packed: PackedHistogram) -> Result<Self, Self::Error> {
        Self::unpack(&packed).ok_or("a histogram is none")
    }
}

/// The quantiles of a latency curve, up to those by which storage is judged.
pub const CURVE: [f64; 12] =
    [0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99999];

/// The header of a saved histogram: cookie, length of the payload, bounds, digits.
const HEADER_BYTES: usize = 40;

/// The quantiles (0 to 1) and latencies in microseconds of a saved histogram, omitting quantiles
/// with no latency beyond them; `None` if `data` is not a histogram that a run can have saved.
pub fn curve(data: &str) -> Option<Vec<(f64, f64)>> {
    let histogram = read(data)?;
    let beyond = |quantile: f64| histogram.len() as f64 * (1.0 - quantile) >= 1.0;
    let known = CURVE.into_iter().filter(|quantile| beyond(*quantile));
    let points =
        known.map(|quantile| (quantile, histogram.value_at_quantile(quantile) as f64 / 1e3));
    Some(points.collect())
}

fn read(data: &str) -> Option<Histogram<u64>> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(data).ok()?;
    // The length of the payload determines the memory for decoding.
    let payload = bytes.get(4..8)?.try_into().ok().map(u32::from_be_bytes)?;
    if bytes.len() != HEADER_BYTES + usize::try_from(payload).ok()? {
        return None;
    }
    let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).ok()?;
    // The counts of a forged file may overflow their sum.
    (histogram.len() < u64::MAX).then_some(histogram)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_packed_histogram_unpacks_unchanged() {
        let mut histogram = LatencyHistogram::new();
        let empty = LatencyHistogram::unpack(&histogram.pack()).unwrap();
        assert_eq!(empty.summary(), None);
        for latency in [1, 90, 4_000, 77_000_000] {
            histogram.record_ns(latency);
        }
        let arrived = LatencyHistogram::unpack(&histogram.pack()).unwrap();
        assert_eq!(arrived.summary(), histogram.summary());
        assert_eq!(arrived.to_base64(), histogram.to_base64());
    }

    #[test]
    fn an_empty_histogram_has_no_summary() {
        assert!(LatencyHistogram::new().summary().is_none());
    }

    #[test]
    fn counts_beyond_what_their_sum_can_hold_are_no_histogram() {
        let mut histogram = LatencyHistogram::new();
        for ns in [5, 500, 9000] {
            histogram.inner.record_n(ns, i64::MAX as u64).unwrap();
        }
        assert_eq!(curve(&histogram.to_base64()), None);
    }

    #[test]
    fn only_a_saved_histogram_becomes_a_curve() {
        let mut histogram = LatencyHistogram::new();
        (1..=1000).for_each(|us| histogram.record_ns(us * 1000));
        let saved = histogram.to_base64();
        let points = curve(&saved).unwrap();
        assert_eq!(points.len(), 9, "p99.95 has no latency beyond it: {points:?}");
        for (quantile, us) in points {
            let exact = (quantile * 1000.0).max(1.0);
            assert!((us - exact).abs() <= exact * 0.011 + 1.0, "{quantile}: {us}");
        }
        assert_eq!(curve(&LatencyHistogram::new().to_base64()), Some(Vec::new()));
        for wrong in ["", "HISTFAAA", "?", &saved[..saved.len() - 8], &saved[4..]] {
            assert_eq!(curve(wrong), None, "{wrong}");
        }
        // A length that would take 4 GiB to decode.
        let mut bytes = base64::engine::general_purpose::STANDARD.decode(&saved).unwrap();
        bytes[4..8].copy_from_slice(&[255; 4]);
        let saved = base64::engine::general_purpose::STANDARD.encode(&bytes);
        assert_eq!(curve(&saved), None);
    }

    #[test]
    fn a_percentile_needs_a_latency_beyond_it() {
        let mut histogram = LatencyHistogram::new();
        let mut there = Vec::new();
        for count in 1..=1000u64 {
            histogram.record_ns(count * 1000);
            let us = histogram.summary().unwrap();
            let known = [us.p50, us.p90, us.p99, us.p999]
                .iter()
                .filter(|percentile| percentile.is_some())
                .count();
            if there.last().is_none_or(|(_, last)| *last != known) {
                there.push((count, known));
            }
        }
        assert_eq!(there, [(1, 0), (2, 1), (10, 2), (100, 3), (1000, 4)]);
    }

    proptest! {
        #[test]
        fn percentiles_are_within_one_percent_and_ordered(
            samples in prop::collection::vec(1u64..10_000_000_000, 1000..1300)
        ) {
            let mut histogram = LatencyHistogram::new();
            samples.iter().for_each(|ns| histogram.record_ns(*ns));
            let mut sorted = samples.clone();
            sorted.sort_unstable();
            let summary = histogram.summary().unwrap();
            let exact = sorted[(sorted.len() - 1) / 2] as f64 / 1e3;
            let percentiles = [summary.p50, summary.p90, summary.p99, summary.p999];
            let [p50, p90, p99, p999] = percentiles.map(Option::unwrap);
            prop_assert!((p50 - exact).abs() <= exact * 0.011 + 0.001);
            prop_assert_eq!(summary.min, sorted[0] as f64 / 1e3);
            prop_assert_eq!(summary.max, sorted[sorted.len() - 1] as f64 / 1e3);
            prop_assert!(p50 <= p90 && p90 <= p99 && p99 <= p999 && p999 <= summary.max);
        }

        #[test]
        fn merging_equals_recording_in_one(
            left in prop::collection::vec(1u64..1_000_000, 1..50),
            right in prop::collection::vec(1u64..1_000_000, 1..50),
        ) {
            let (mut a, mut b, mut both) =
                (LatencyHistogram::new(), LatencyHistogram::new(), LatencyHistogram::new());
            left.iter().for_each(|ns| { a.record_ns(*ns); both.record_ns(*ns); });
            right.iter().for_each(|ns| { b.record_ns(*ns); both.record_ns(*ns); });
            a.merge(&b);
            prop_assert_eq!(a.summary(), both.summary());
        }
    }
}
