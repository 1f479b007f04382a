//! What a worker writes down while it measures: its own, fixed in size, merged once at the end.

use stormlp_model::histogram::LatencyHistogram;

/// Buckets of the throughput series. When a run outlasts them, neighbours are joined.
pub(crate) const SERIES_BUCKETS: usize = 1024;

/// Bytes moved in equal stretches of time since the start.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    bucket_ns: u64,
    bytes: Box<[u64]>,
}

impl Series {
    /// An empty series of buckets this long.
    pub(crate) fn new(bucket_ns: u64) -> Self {
        Self {
            bucket_ns,
            bytes: vec![0; SERIES_BUCKETS].into_boxed_slice(),
        }
    }

    /// Counts bytes that arrived `elapsed_ns` after the start.
    #[inline]
    pub(crate) fn add(&mut self, elapsed_ns: u64, bytes: u64) {
        while elapsed_ns / self.bucket_ns >= SERIES_BUCKETS as u64 {
            self.double();
        }
        self.bytes[(elapsed_ns / self.bucket_ns) as usize] += bytes;
    }

    /// Makes the buckets twice as long.
    fn double(&mut self) {
        for i in 0..SERIES_BUCKETS / 2 {
            self.bytes[i] = self.bytes[2 * i] + self.bytes[2 * i + 1];
        }
        self.bytes[SERIES_BUCKETS / 2..].fill(0);
        self.bucket_ns *= 2;
    }

    /// Adds another worker's series of the same start.
    pub(crate) fn merge(&mut self, mut other: Self) {
        while self.bucket_ns < other.bucket_ns {
            self.double();
        }
        while other.bucket_ns < self.bucket_ns {
            other.double();
        }
        self.bytes
            .iter_mut()
            .zip(&other.bytes)
            .for_each(|(a, b)| *a += b);
    }

    /// Length of a bucket in seconds, and the bytes of each bucket that begins before
    /// `end_seconds`.
    pub(crate) fn bytes(&self, end_seconds: f64) -> (f64, Vec<u64>) {
        let bucket_seconds = self.bucket_ns as f64 / 1e9;
        let count = ((end_seconds / bucket_seconds).ceil() as usize).clamp(1, SERIES_BUCKETS);
        (bucket_seconds, self.bytes[..count].to_vec())
    }
}

/// One worker's measurements.
#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    pub(crate) latency: LatencyHistogram,
    pub(crate) series: Series,
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
}

impl Recorder {
    /// An empty recorder; nothing it does later allocates.
    pub(crate) fn new(bucket_ns: u64) -> Self {
        Self {
            latency: LatencyHistogram::new(),
            series: Series::new(bucket_ns),
            operations: 0,
            bytes: 0,
        }
    }

    /// Writes down one transfer.
    #[inline]
    pub(crate) fn record(&mut self, latency_ns: u64, elapsed_ns: u64, bytes: u64) {
        self.latency.record_ns(latency_ns);
        self.series.add(elapsed_ns, bytes);
        self.operations += 1;
        self.bytes += bytes;
    }

    /// Adds another worker's measurements.
    pub(crate) fn merge(&mut self, other: Self) {
        self.latency.merge(&other.latency);
        self.series.merge(other.series);
        self.operations += other.operations;
        self.bytes += other.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_series_ends_where_the_run_did() {
        let mut series = Series::new(100_000_000);
        series.add(10_000_000, 1000);
        series.add(120_000_000, 500);
        assert_eq!(series.bytes(0.15), (0.1, vec![1000, 500]));
    }

    proptest! {
        #[test]
        fn no_byte_is_lost_however_long_a_run_is(
            left in prop::collection::vec((0u64..10_000_000, 1u64..1000), 1..100),
            right in prop::collection::vec((0u64..100_000, 1u64..1000), 1..100),
        ) {
            let (mut a, mut b) = (Recorder::new(50), Recorder::new(50));
            left.iter().for_each(|(at, bytes)| a.record(1, *at, *bytes));
            right.iter().for_each(|(at, bytes)| b.record(1, *at, *bytes));
            let expected: u64 = left.iter().chain(&right).map(|(_, bytes)| bytes).sum();
            a.merge(b);
            prop_assert_eq!(a.bytes, expected);
            prop_assert_eq!(a.series.bytes.iter().sum::<u64>(), expected);
        }
    }
}
