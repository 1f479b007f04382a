//! A worker's recordings during the measurement: private, of fixed size, merged once at the end.

use crate::plan::{MixedParts, Transfers};
use stormlp_core::histogram::LatencyHistogram;

/// The bytes moved, and the time of each transfer.
#[derive(Debug, Clone)]
pub(crate) struct Moved {
    pub(crate) latency: LatencyHistogram,
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
}

/// The transfers of a worker.
#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    /// All of them; of a mix the reads.
    pub(crate) moved: Moved,
    /// The writes of a mix.
    writes: Option<Box<Moved>>,
}

impl Moved {
    fn new() -> Self {
        Self { latency: LatencyHistogram::new(), operations: 0, bytes: 0 }
    }

    #[inline]
    fn record(&mut self, latency_ns: u64, bytes: u64) {
        self.latency.record_ns(latency_ns);
        self.operations += 1;
        self.bytes += bytes;
    }

    fn merge(&mut self, other: &Self) {
        self.latency.merge(&other.latency);
        self.operations += other.operations;
        self.bytes += other.bytes;
    }

    /// The report of them if they took `seconds`.
    pub(crate) fn within(&self, seconds: f64) -> Transfers {
        Transfers::of(&self.latency, (self.operations, self.bytes), seconds)
    }
}

impl Recorder {
    /// An empty recorder, of a mix of reads and writes if `mixed`; it never allocates later.
    pub(crate) fn new(mixed: bool) -> Self {
        Self { moved: Moved::new(), writes: mixed.then(|| Box::new(Moved::new())) }
    }

    /// Records one transfer.
    #[inline]
    pub(crate) fn record(&mut self, latency_ns: u64, bytes: u64, is_write: bool) {
        match &mut self.writes {
            Some(writes) if is_write => writes.record(latency_ns, bytes),
            _ => self.moved.record(latency_ns, bytes),
        }
    }

    /// Merges another worker's measurements.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.moved.merge(&other.moved);
        if let (Some(own), Some(other)) = (&mut self.writes, &other.writes) {
            own.merge(other);
        }
    }

    /// All transfers together.
    pub(crate) fn total(&self) -> Moved {
        let mut total = self.moved.clone();
        if let Some(writes) = &self.writes {
            total.merge(writes);
        }
        total
    }

    /// The reads and the writes of a mix over its duration.
    pub(crate) fn apart(&self, seconds: f64) -> Option<MixedParts> {
        let writes = self.writes.as_ref()?;
        Some(MixedParts { reads: self.moved.within(seconds), writes: writes.within(seconds) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_of_a_mix_are_apart_and_add_up() {
        let mut recorder = Recorder::new(true);
        let mut other = Recorder::new(true);
        for _ in 0..3 {
            recorder.record(1_000, 4096, false);
            other.record(9_000, 4096, true);
        }
        recorder.merge(&other);
        let apart = recorder.apart(2.0).unwrap();
        assert_eq!((apart.reads.operations, apart.writes.bytes), (3, 3 * 4096));
        assert_eq!(apart.writes.iops, 1.5);
        let mean = |part: &Transfers| part.latency_us.unwrap().mean.round();
        assert_eq!((mean(&apart.reads), mean(&apart.writes)), (1.0, 9.0));
        let total = recorder.total();
        assert_eq!((total.operations, total.bytes, total.latency.len()), (6, 6 * 4096, 6));
        assert!(Recorder::new(false).apart(1.0).is_none());
    }
}
