//! A worker's recordings during the measurement: private, of fixed size, merged once at the end.

use stormlp_core::histogram::LatencyHistogram;

#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    pub(crate) latency: LatencyHistogram,
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
}

impl Recorder {
    /// An empty recorder; it never allocates later.
    pub(crate) fn new() -> Self {
        Self { latency: LatencyHistogram::new(), operations: 0, bytes: 0 }
    }

    /// Records one transfer.
    #[inline]
    pub(crate) fn record(&mut self, latency_ns: u64, bytes: u64) {
        self.latency.record_ns(latency_ns);
        self.operations += 1;
        self.bytes += bytes;
    }

    /// Merges another worker's measurements.
    pub(crate) fn merge(&mut self, other: Self) {
        self.latency.merge(&other.latency);
        self.operations += other.operations;
        self.bytes += other.bytes;
    }
}
