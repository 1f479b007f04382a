//! How a run goes over time: counters looked at now and then, as a bounded row of intervals.

use stormlp_model::report::Series;
use stormlp_model::telemetry::{Measure, Reading, Telemetry, Track};
use stormlp_transfer::drive::Counted;
use stormlp_transfer::telemetry::{BlockDevices, CpuTimes, Instruments, thread_cpu_seconds};

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

/// What was seen in one look: the counters, and what the instruments read.
#[derive(Debug, Clone, PartialEq, Default)]
struct Look {
    counters: Counters,
    around: Vec<f64>,
}

/// Makes a [`Series`] of looks at counters and instruments.
///
/// What was counted between two looks is spread evenly over the time between them.
#[derive(Debug)]
pub(crate) struct Sampler<'a> {
    instruments: &'a Instruments,
    interval_ns: u64,
    /// What was seen at the start, and at the end of each interval that is over.
    ends: Vec<Look>,
    /// When the first look was, and the last, with what it saw.
    started_ns: u64,
    last_ns: u64,
    last: Look,
    /// CPU time of reading the instruments.
    cost_seconds: f64,
}

impl<'a> Sampler<'a> {
    /// A sampler that nothing was shown yet, with the intervals of `telemetry` to begin with.
    pub(crate) fn new(telemetry: Telemetry, instruments: &'a Instruments) -> Self {
        Self {
            instruments,
            interval_ns: telemetry.interval().as_nanos().max(1) as u64,
            ends: Vec::with_capacity(INTERVALS + 1),
            started_ns: 0,
            last_ns: 0,
            last: Look::default(),
            cost_seconds: 0.0,
        }
    }

    /// Shows it the counters at `now_ns`, and reads the instruments; the first look is the start.
    pub(crate) fn look(&mut self, now_ns: u64, counters: Counters) {
        self.look_at(now_ns, counters, false);
    }

    /// Looks if an interval is over, and at what is seldom read, too, if all of it `is_over`.
    pub(crate) fn tick(&mut self, now_ns: u64, is_over: bool, counters: impl FnOnce() -> Counters) {
        if is_over || self.is_due(now_ns) {
            self.look_at(now_ns, counters(), is_over);
        }
    }

    fn look_at(&mut self, now_ns: u64, counters: Counters, everything: bool) {
        let before = thread_cpu_seconds();
        let around = self.instruments.read(everything || self.ends.is_empty());
        self.cost_seconds += thread_cpu_seconds() - before;
        self.see(now_ns, Look { counters, around });
    }

    /// Whether an interval is over, so that it is time for a look.
    fn is_due(&self, now_ns: u64) -> bool {
        self.next_end().is_none_or(|end_ns| now_ns >= end_ns)
    }

    fn see(&mut self, now_ns: u64, look: Look) {
        if self.ends.is_empty() {
            (self.started_ns, self.last_ns, self.last) = (now_ns, now_ns, look.clone());
            self.ends.push(look.clone());
        }
        while let Some(end_ns) = self.next_end().filter(|end_ns| *end_ns <= now_ns) {
            let span = (now_ns - self.last_ns).max(1) as f64;
            let share = (end_ns - self.last_ns) as f64 / span;
            self.push(self.between(&look, share));
        }
        (self.last_ns, self.last) = (now_ns, look);
    }

    /// When the interval under way ends; `None` before the first look.
    fn next_end(&self) -> Option<u64> {
        let intervals = self.ends.len() as u64;
        (intervals > 0).then(|| self.started_ns + intervals * self.interval_ns)
    }

    fn push(&mut self, end: Look) {
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

    /// What was to be seen `share` of the way from the last look to this one.
    fn between(&self, to: &Look, share: f64) -> Look {
        let tracks = self.instruments.tracks().iter();
        let around = self.last.around.iter().zip(&to.around).zip(tracks);
        let around = around.map(|((from, to), (measure, _))| match measure.reading() {
            Reading::Level => *to,
            // What is seldom read counts from where it was read.
            _ if from.is_nan() => *to,
            Reading::Count | Reading::Seconds => from + (to - from) * share,
        });
        Look {
            counters: between(&self.last.counters, &to.counters, share),
            around: around.collect(),
        }
    }

    /// The series so far, the interval under way as the last one.
    pub(crate) fn series(&self) -> Series {
        let mut ends = self.ends.clone();
        let whole = self.next_end().map_or(0, |end| end - self.interval_ns);
        // Length of the last interval, which is seldom whole.
        let mut last_ns = self.interval_ns;
        if self.last_ns > whole {
            last_ns = self.last_ns - whole;
            ends.push(self.last.clone());
        }
        let steps = || (ends.windows(2)).map(|pair| (&pair[0].counters, &pair[1].counters));
        let device = |counters: &Counters| counters.device_bytes.unwrap_or(0);
        let seconds = |index: usize| match index + 2 == ends.len() {
            true => last_ns as f64 / 1e9,
            false => self.interval_ns as f64 / 1e9,
        };
        let tracks = self.instruments.tracks().iter().enumerate();
        Series {
            interval_seconds: self.interval_ns as f64 / 1e9,
            interval_bytes: steps().map(|(a, b)| b.bytes - a.bytes).collect(),
            interval_device_bytes: (ends.iter())
                .all(|end| end.counters.device_bytes.is_some())
                .then(|| steps().map(|(a, b)| device(b) - device(a)).collect()),
            interval_in_flight: steps().map(|(_, b)| b.in_flight).collect(),
            interval_cpu_seconds: steps()
                .map(|(a, b)| b.cpu_seconds - a.cpu_seconds)
                .collect(),
            telemetry_cpu_seconds: (!self.instruments.tracks().is_empty())
                .then_some(self.cost_seconds),
            load: None,
            tracks: tracks
                .filter_map(|(index, (measure, of))| track(&ends, index, *measure, of, &seconds))
                .collect(),
        }
    }
}

/// One number over time; `None` where it did not answer at the start or the end.
fn track(
    ends: &[Look],
    index: usize,
    measure: Measure,
    of: &str,
    seconds: &dyn Fn(usize) -> f64,
) -> Option<Track> {
    let seen = ends.iter().map(|end| end.around.get(index).copied());
    let read = bridged(seen.collect::<Option<Vec<f64>>>()?)?;
    let values = read.windows(2).enumerate().map(|(interval, ends)| {
        let counted = (ends[1] - ends[0]).max(0.0);
        match measure.reading() {
            Reading::Count => counted,
            Reading::Seconds => counted / seconds(interval),
            Reading::Level => ends[1],
        }
    });
    Some(Track {
        measure,
        of: of.to_string(),
        values: values.collect(),
    })
}

/// Numbers with those that were not read put evenly between their neighbours; `None` where the
/// first or the last was not read.
fn bridged(mut read: Vec<f64>) -> Option<Vec<f64>> {
    let mut known = 0;
    if !read.first()?.is_finite() || !read.last()?.is_finite() {
        return None;
    }
    for index in 1..read.len() {
        if read[index].is_finite() {
            let step = (read[index] - read[known]) / (index - known) as f64;
            for between in known + 1..index {
                read[between] = read[between - 1] + step;
            }
            known = index;
        }
    }
    Some(read)
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
    use std::path::Path;
    use std::sync::LazyLock;
    use std::time::Duration;

    use super::*;

    /// One that looks at nothing but the counters.
    fn sampler(interval_ns: u64) -> Sampler<'static> {
        static NONE: LazyLock<Instruments> = LazyLock::new(Instruments::default);
        let interval = Duration::from_nanos(interval_ns);
        Sampler::new(Telemetry::Every(interval), &NONE)
    }

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
        let mut sampler = sampler(100);
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
        let mut sampler = sampler(10);
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
        let mut sampler = sampler(10);
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

    #[test]
    fn what_is_read_seldom_is_spread_between_its_readings() {
        let none = f64::NAN;
        let read = vec![10.0, none, none, 40.0, none, 60.0];
        assert_eq!(
            bridged(read),
            Some(vec![10.0, 20.0, 30.0, 40.0, 50.0, 60.0])
        );
        assert_eq!(bridged(vec![1.0, none]), None);
        assert_eq!(bridged(vec![none, 1.0]), None);
        assert_eq!(bridged(vec![]), None);
    }

    #[test]
    fn tracks_are_differences_shares_and_levels() {
        let instruments = Instruments::around([Path::new(".")], [], Telemetry::default());
        let of = |wanted: Measure| {
            let mut tracks = instruments.tracks().iter();
            tracks.position(|(measure, _)| *measure == wanted)
        };
        let cpu = of(Measure::HostCpuSeconds).expect("a host");
        let memory = of(Measure::MemoryAvailableBytes).expect("a host");
        let mut sampler = Sampler::new(Telemetry::default(), &instruments);
        for (look, number) in [(0, 1.0), (100, 4.0), (200, 6.0), (250, 6.5)] {
            let mut around = vec![number; instruments.tracks().len()];
            around[memory] = 1000.0 - number;
            let counters = Counters::default();
            sampler.see(look * 1_000_000, Look { counters, around });
        }
        let series = sampler.series();
        let values = |index: usize| &series.tracks[index].values;
        assert_eq!(values(cpu), &[3.0, 2.0, 0.5]);
        assert_eq!(values(memory), &[996.0, 994.0, 993.5]);
        if let Some(depth) = of(Measure::DeviceInFlight) {
            // The last interval is half as long as the others.
            assert_eq!(values(depth), &[30.0, 20.0, 10.0]);
        }
        assert_eq!(series.telemetry_cpu_seconds, Some(0.0));
    }
}
