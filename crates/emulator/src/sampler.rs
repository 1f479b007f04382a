//! How a run goes over time: counters looked at now and then, as a bounded row of intervals.

use std::time::Duration;

use stormlp_model::report::Series;
use stormlp_transfer::drive::Counted;
use stormlp_transfer::telemetry::{BlockDevices, CpuTimes};

/// Intervals of a series at most; one that outlasts them doubles their length.
const INTERVALS: usize = 1024;

/// What is looked at: sums since the start, but for `in_flight`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Counters {
    /// Bytes moved.
    pub(crate) bytes: u64,
    /// Transfers in flight now.
    pub(crate) in_flight: u32,
    /// CPU seconds of the process, user and system.
    pub(crate) cpu_seconds: f64,
    /// Bytes the block devices moved; `None` where none is behind the files.
    pub(crate) device_bytes: Option<u64>,
}

impl Counters {
    /// What the drivers of a crew counted, and the process and its devices, at this moment.
    pub(crate) fn now(drivers: Counted, devices: &BlockDevices) -> Self {
        let device = devices.counters();
        Self {
            bytes: drivers.bytes,
            in_flight: drivers.in_flight as u32,
            cpu_seconds: CpuTimes::of_process().total_seconds(),
            device_bytes: device.map(|device| device.read_bytes + device.written_bytes),
        }
    }
}

/// Makes a [`Series`] of looks at counters. It allocates once.
///
/// What was counted between two looks is spread evenly over the time between them.
#[derive(Debug)]
pub(crate) struct Sampler {
    interval_ns: u64,
    /// The counters at the start, and at the end of each interval that is over.
    ends: Vec<Counters>,
    /// When the first look was, and the last, with what it saw.
    started_ns: u64,
    last_ns: u64,
    last: Counters,
}

impl Sampler {
    /// A sampler that nothing was shown yet, with intervals of `interval` to begin with.
    pub(crate) fn new(interval: Duration) -> Self {
        Self {
            interval_ns: interval.as_nanos().max(1) as u64,
            ends: Vec::with_capacity(INTERVALS + 1),
            started_ns: 0,
            last_ns: 0,
            last: Counters::default(),
        }
    }

    /// Shows it the counters at `now_ns`; the first look is the start.
    pub(crate) fn look(&mut self, now_ns: u64, counters: Counters) {
        if self.ends.is_empty() {
            (self.started_ns, self.last_ns, self.last) = (now_ns, now_ns, counters);
            self.ends.push(counters);
        }
        while let Some(end_ns) = self.next_end().filter(|end_ns| *end_ns <= now_ns) {
            let span = (now_ns - self.last_ns).max(1) as f64;
            let share = (end_ns - self.last_ns) as f64 / span;
            self.push(between(&self.last, &counters, share));
        }
        (self.last_ns, self.last) = (now_ns, counters);
    }

    /// When the interval under way ends; `None` before the first look.
    fn next_end(&self) -> Option<u64> {
        let intervals = self.ends.len() as u64;
        (intervals > 0).then(|| self.started_ns + intervals * self.interval_ns)
    }

    fn push(&mut self, end: Counters) {
        self.ends.push(end);
        if self.ends.len() > INTERVALS {
            // Every second end stays: the start, and the ends of the intervals now twice as long.
            let mut index = 0;
            self.ends.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.interval_ns *= 2;
        }
    }

    /// The series so far, the interval under way as the last one.
    pub(crate) fn series(&self) -> Series {
        let mut ends = self.ends.clone();
        let whole = self.next_end().map_or(0, |end| end - self.interval_ns);
        if self.last_ns > whole {
            ends.push(self.last);
        }
        let steps = || ends.windows(2).map(|pair| (&pair[0], &pair[1]));
        let device = |counters: &Counters| counters.device_bytes.unwrap_or(0);
        Series {
            interval_seconds: self.interval_ns as f64 / 1e9,
            interval_bytes: steps().map(|(a, b)| b.bytes - a.bytes).collect(),
            interval_device_bytes: (ends.iter())
                .all(|end| end.device_bytes.is_some())
                .then(|| steps().map(|(a, b)| device(b) - device(a)).collect()),
            interval_in_flight: steps().map(|(_, b)| b.in_flight).collect(),
            interval_cpu_seconds: steps()
                .map(|(a, b)| b.cpu_seconds - a.cpu_seconds)
                .collect(),
        }
    }
}

/// The counters `share` of the way from one look to the next.
fn between(from: &Counters, to: &Counters, share: f64) -> Counters {
    let count = |from: u64, to: u64| from + (to.saturating_sub(from) as f64 * share) as u64;
    let device = from.device_bytes.zip(to.device_bytes);
    Counters {
        bytes: count(from.bytes, to.bytes),
        in_flight: to.in_flight,
        cpu_seconds: from.cpu_seconds + (to.cpu_seconds - from.cpu_seconds) * share,
        device_bytes: device.map(|(from, to)| count(from, to)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(bytes: u64) -> Counters {
        Counters {
            bytes,
            in_flight: 3,
            cpu_seconds: bytes as f64 / 10.0,
            device_bytes: Some(2 * bytes),
        }
    }

    #[test]
    fn what_was_counted_between_looks_is_spread_over_the_time_between() {
        let mut sampler = Sampler::new(Duration::from_nanos(100));
        assert!(sampler.series().interval_bytes.is_empty());
        sampler.look(50, counters(0));
        sampler.look(200, counters(30));
        sampler.look(350, counters(60));
        sampler.look(390, counters(70));
        let series = sampler.series();
        assert_eq!(series.interval_bytes, [20, 20, 20, 10]);
        assert_eq!(series.interval_device_bytes, Some(vec![40, 40, 40, 20]));
        assert_eq!(series.interval_in_flight, [3; 4]);
        assert_eq!(series.interval_seconds, 1e-7);
        assert!((series.interval_cpu_seconds.iter().sum::<f64>() - 7.0).abs() < 1e-9);
    }

    #[test]
    fn a_long_run_has_longer_intervals_and_loses_no_byte() {
        let mut sampler = Sampler::new(Duration::from_nanos(10));
        for step in 0..50_000u64 {
            sampler.look(step * 7, counters(step * step));
        }
        let series = sampler.series();
        assert!(series.interval_bytes.len() <= INTERVALS);
        let sum: u64 = series.interval_bytes.iter().sum();
        assert_eq!(sum, 49_999 * 49_999);
        let seconds = series.interval_seconds * series.interval_bytes.len() as f64;
        assert!((seconds - 350e-6).abs() < 2.0 * series.interval_seconds);
    }

    #[test]
    fn no_device_is_no_series_of_one() {
        let mut sampler = Sampler::new(Duration::from_nanos(10));
        for now in [0, 25] {
            let device_bytes = None;
            sampler.look(
                now,
                Counters {
                    device_bytes,
                    ..counters(now)
                },
            );
        }
        assert_eq!(sampler.series().interval_device_bytes, None);
    }
}
