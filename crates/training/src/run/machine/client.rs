//! Client overhead on the machine's clock: it costs time, but no CPU of this host.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::queue::Nanos;

/// The client's work on samples and steps of a phase. Workers share a host's CPUs: a sample waits
/// for the first free CPU.
#[derive(Debug, Default)]
pub struct ClientWork {
    /// Time per step that is neither loading nor compute.
    pub(super) step_ns: Nanos,
    /// The time by which each compute exceeds the request, because the client sleeps that much too
    /// long.
    pub(super) oversleep_ns: Nanos,
    /// CPU time per sample.
    sample_ns: f64,
    /// When each CPU becomes free.
    cpus: BinaryHeap<Reverse<Nanos>>,
}

impl ClientWork {
    /// Work of `step_ns` per step and `sample_ns` per sample, on this many CPUs.
    pub fn new(step_ns: Nanos, sample_ns: f64, cpus: usize) -> Self {
        Self { step_ns, oversleep_ns: 0, sample_ns, cpus: vec![Reverse(0); cpus.max(1)].into() }
    }

    /// The same work by a client that sleeps this much too long in each step.
    #[must_use]
    pub fn oversleeping(self, oversleep_ns: Nanos) -> Self {
        Self { oversleep_ns, ..self }
    }

    /// Whether samples cost any time.
    pub(super) fn has_samples_to_see_to(&self) -> bool {
        self.sample_ns > 0.0
    }

    /// When samples that were read at `now` can be delivered.
    pub(super) fn sample_ready(&mut self, samples: u64, now: Nanos) -> Nanos {
        let work = (self.sample_ns * samples as f64) as Nanos;
        if work == 0 {
            return now;
        }
        let Some(mut first) = self.cpus.peek_mut() else {
            return now;
        };
        first.0 = first.0.max(now) + work;
        first.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_wait_for_a_free_cpu() {
        let mut work = ClientWork::new(0, 100.0, 2);
        let ready: Vec<_> = (0..5).map(|_| work.sample_ready(1, 1000)).collect();
        assert_eq!(ready, [1100, 1100, 1200, 1200, 1300]);
        assert_eq!(work.sample_ready(3, 5000), 5300);
        assert_eq!(ClientWork::default().sample_ready(7, 10), 10, "no work takes no time");
    }
}
