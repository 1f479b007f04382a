//! What a worker writes down while it measures: its own, fixed in size, merged once at the end.

use stormlp_core::histogram::LatencyHistogram;

/// One worker's measurements.
#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    pub(crate) latency: LatencyHistogram,
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
}

impl Recorder {
    /// An empty recorder; nothing it does later allocates.
    pub(crate) fn new() -> Self {
        Self { latency: LatencyHistogram::new(), operations: 0, bytes: 0 }
    }

    /// Writes down one transfer.
    #[inline]
    pub(crate) fn record(&mut self, latency_ns: u64, bytes: u64) {
        self.latency.record_ns(latency_ns);
        self.operations += 1;
        self.bytes += bytes;
    }

    /// Adds another worker's measurements.
    pub(crate) fn merge(&mut self, other: Self) {
        self.latency.merge(&other.latency);
        self.operations += other.operations;
        self.bytes += other.bytes;
    }
}
