//! A run over time: counters sampled at intervals, as a bounded series.

use std::time::Duration;

use crate::drive::DriverSet;
use crate::drive::load::InFlightStats;
use crate::telemetry::{BlockDevices, CpuTimes, Instruments, thread_cpu_seconds};
use stormlp_core::report::Series;
use stormlp_core::telemetry::{Measure, Reading, Telemetry, Track};

/// Maximum number of intervals in a series; longer runs double the interval.
const INTERVALS: usize = 1024;
/// Maximum number of intervals while they are shorter than usual.
const FIRST_INTERVALS: usize = 16;

/// A sample: totals since the start, except `in_flight` and the peak in `flown`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Counters {
    /// Bytes transferred.
    pub bytes: u64,
    /// Transfers in flight now.
    pub in_flight: u32,
    /// Accumulated time in flight, and peak concurrency since the last sample; `None` if not
    /// recorded.
    pub flown: Option<InFlightStats>,
    /// CPU seconds of the process, user and system.
    pub cpu_seconds: f64,
    /// Bytes transferred by the block devices; `None` if no block device is behind the files.
    pub device_bytes: Option<u64>,
    /// Bytes transferred for each rank; empty if they are not counted by rank.
    pub rank_bytes: Vec<u64>,
}

impl Counters {
    /// The current counters of a thread group's drivers, the process and its devices.
    pub fn now(drivers: &DriverSet, devices: &BlockDevices) -> Self {
        let device = devices.counters();
        let counted = drivers.total();
        Self {
            bytes: counted.bytes,
            in_flight: counted.in_flight as u32,
            flown: drivers.flown(),
            cpu_seconds: CpuTimes::of_process().total_seconds(),
            device_bytes: device.map(|device| device.read_bytes + device.written_bytes),
            rank_bytes: Vec::new(),
        }
    }

    fn most(&self) -> u32 {
        self.flown.map_or(0, |flown| flown.most)
    }

    fn at_least(mut self, most: u32) -> Self {
        if let Some(flown) = &mut self.flown {
            flown.most = flown.most.max(most);
        }
        self
    }
}

/// One sample: the counters and the instrument readings.
#[derive(Debug, Clone, PartialEq, Default)]
struct Sample {
    counters: Counters,
    readings: Vec<f64>,
}

/// Builds a [`Series`] from samples of counters and instruments.
///
/// Counts between two samples are spread evenly over that time. The peak concurrency of that time
/// applies to every interval that ended in it.
#[derive(Debug)]
pub struct Sampler<'a> {
    instruments: &'a Instruments,
    interval_ns: u64,
    /// The initial interval length, or the one soon reached.
    usual_ns: u64,
    /// The samples at the start and at the end of each completed interval.
    ends: Vec<Sample>,
    /// The times of the first and last sample, and the last sample.
    started_ns: u64,
    last_ns: u64,
    last: Sample,
    /// The peak concurrency in the current interval, from the samples in it.
    most_of_interval: u32,
    /// CPU time spent reading the instruments.
    cost_seconds: f64,
}

impl<'a> Sampler<'a> {
    /// A sampler without samples, starting with the intervals of `telemetry`.
    pub fn new(telemetry: Telemetry, instruments: &'a Instruments) -> Self {
        let usual_ns = telemetry.interval().as_nanos().max(1) as u64;
        Self {
            instruments,
            interval_ns: usual_ns,
            usual_ns,
            ends: Vec::with_capacity(INTERVALS + 1),
            started_ns: 0,
            last_ns: 0,
            last: Sample::default(),
            most_of_interval: 0,
            cost_seconds: 0.0,
        }
    }

    /// The same for runs that may be short: the first intervals are shorter, and double until they
    /// are as long as `telemetry` says.
    pub fn with_fine_start(telemetry: Telemetry, instruments: &'a Instruments) -> Self {
        let sampler = Self::new(telemetry, instruments);
        let interval_ns = telemetry.first_interval().as_nanos().max(1) as u64;
        Self { interval_ns, usual_ns: sampler.usual_ns / interval_ns * interval_ns, ..sampler }
    }

    /// How long to sleep until the next sample; bounded so that progress and Ctrl-C are served.
    pub fn pause(&self) -> Duration {
        Telemetry::default().interval().min(Duration::from_nanos(self.interval_ns))
    }

    /// Records the counters at `now_ns` and reads the instruments; the first sample is the start.
    pub fn look(&mut self, now_ns: u64, counters: Counters) {
        self.look_at(now_ns, counters, false);
    }

    /// Samples if an interval has ended or the run `is_over`, then including the slow instruments.
    pub fn tick(&mut self, now_ns: u64, is_over: bool, counters: impl FnOnce() -> Counters) {
        if is_over || self.is_due(now_ns) {
            self.look_at(now_ns, counters(), is_over);
        }
    }

    fn look_at(&mut self, now_ns: u64, counters: Counters, everything: bool) {
        let before = thread_cpu_seconds();
        let readings = self.instruments.read(everything || self.ends.is_empty());
        self.cost_seconds += thread_cpu_seconds() - before;
        self.see(now_ns, Sample { counters, readings });
    }

    /// Whether an interval has ended, so that a sample is due.
    fn is_due(&self, now_ns: u64) -> bool {
        self.next_end().is_none_or(|end_ns| now_ns >= end_ns)
    }

    fn see(&mut self, now_ns: u64, look: Sample) {
        if self.ends.is_empty() {
            (self.started_ns, self.last_ns, self.last) = (now_ns, now_ns, look.clone());
            self.ends.push(look.clone());
        }
        let mut most = self.most_of_interval.max(look.counters.most());
        while let Some(end_ns) = self.next_end().filter(|end_ns| *end_ns <= now_ns) {
            let span = (now_ns - self.last_ns).max(1) as f64;
            let share = (end_ns - self.last_ns) as f64 / span;
            let mut end = self.between(&look, share);
            end.counters = end.counters.at_least(most);
            self.push(end);
            most = 0;
        }
        self.most_of_interval = most;
        (self.last_ns, self.last) = (now_ns, look);
    }

    /// The end of the current interval; `None` before the first sample.
    fn next_end(&self) -> Option<u64> {
        let intervals = self.ends.len() as u64;
        (intervals > 0).then(|| self.started_ns + intervals * self.interval_ns)
    }

    fn push(&mut self, end: Sample) {
        self.ends.push(end);
        let most = if self.interval_ns < self.usual_ns { FIRST_INTERVALS } else { INTERVALS };
        if self.ends.len() > most {
            // Keep every second end: the start, and the ends of the intervals that are now twice
            // as long.
            for index in (2..self.ends.len()).step_by(2) {
                let [first_half, whole] = [index - 1, index].map(|at| self.ends[at].clone());
                self.ends[index] = self.joined(&first_half, whole);
            }
            let mut index = 0;
            self.ends.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.interval_ns *= 2;
        }
    }

    /// The end of a merged interval starting with `first_half`: a level read only there is the
    /// best available value.
    fn joined(&self, first_half: &Sample, mut end: Sample) -> Sample {
        end.counters = end.counters.at_least(first_half.counters.most());
        let tracks = self.instruments.tracks().iter();
        let both = end.readings.iter_mut().zip(&first_half.readings).zip(tracks);
        for ((value, before), (measure, _)) in both {
            if value.is_nan() && measure.reading() == Reading::Level {
                *value = *before;
            }
        }
        end
    }

    /// Interpolates at `share` between the last sample and this one.
    fn between(&self, to: &Sample, share: f64) -> Sample {
        let tracks = self.instruments.tracks().iter();
        let readings = self.last.readings.iter().zip(&to.readings).zip(tracks).map(
            |((from, to), (measure, _))| match measure.reading() {
                Reading::Level => *to,
                // Rarely read values count from where they were read.
                _ if from.is_nan() => *to,
                Reading::Count | Reading::Seconds => from + (to - from) * share,
            },
        );
        Sample {
            counters: between(&self.last.counters, &to.counters, share),
            readings: readings.collect(),
        }
    }

    /// The series so far, with the remainder as its last interval.
    pub fn series(&self) -> Series {
        let (ends, last_ns) = self.ends();
        let steps = || (ends.windows(2)).map(|pair| (&pair[0].counters, &pair[1].counters));
        let device = |counters: &Counters| counters.device_bytes.unwrap_or(0);
        let seconds = |index: usize| {
            if index + 2 == ends.len() {
                last_ns as f64 / 1e9
            } else {
                self.interval_ns as f64 / 1e9
            }
        };
        let flown: Vec<(InFlightStats, InFlightStats)> = steps()
            .map(|(a, b)| Some((a.flown?, b.flown?)))
            .collect::<Option<_>>()
            .unwrap_or_default();
        let mean = |(index, (from, to)): (usize, &(InFlightStats, InFlightStats))| {
            let mean = (to.transfer_seconds - from.transfer_seconds) / seconds(index);
            // The clock advances during sampling.
            mean.clamp(0.0, f64::from(to.most))
        };
        let of_rank = |rank: usize| {
            let counted = |counters: &Counters| counters.rank_bytes.get(rank).copied().unwrap_or(0);
            steps().map(|(a, b)| counted(b).saturating_sub(counted(a))).collect()
        };
        let tracks = self.instruments.tracks().iter().enumerate();
        Series {
            started_seconds: self.started_ns as f64 / 1e9,
            interval_seconds: self.interval_ns as f64 / 1e9,
            last_interval_seconds: (ends.len() > 1).then_some(last_ns as f64 / 1e9),
            interval_bytes: steps().map(|(a, b)| b.bytes - a.bytes).collect(),
            interval_device_bytes: (ends.iter())
                .all(|end| end.counters.device_bytes.is_some())
                .then(|| steps().map(|(a, b)| device(b) - device(a)).collect()),
            interval_in_flight: steps().map(|(_, b)| b.in_flight).collect(),
            interval_in_flight_mean: flown.iter().enumerate().map(mean).collect(),
            interval_in_flight_max: flown.iter().map(|(_, to)| to.most).collect(),
            interval_cpu_seconds: steps().map(|(a, b)| b.cpu_seconds - a.cpu_seconds).collect(),
            telemetry_cpu_seconds: (!self.instruments.tracks().is_empty())
                .then_some(self.cost_seconds),
            load: None,
            rank_interval_bytes: (0..self.last.counters.rank_bytes.len()).map(of_rank).collect(),
            tracks: tracks
                .filter_map(|(index, (measure, of))| {
                    let most = |interval| self.instruments.most(*measure, seconds(interval));
                    track(&ends, index, (*measure, of), &seconds, &most)
                })
                .collect(),
        }
    }

    /// The ends of all intervals, and the length of the last in nanoseconds. The remainder after
    /// the last full interval becomes a separate interval if it is at least half as long; otherwise
    /// its few ticks and bytes would give spurious rates, so it is merged with the one before.
    fn ends(&self) -> (Vec<Sample>, u64) {
        let mut ends = self.ends.clone();
        let whole = self.next_end().map_or(0, |end| end - self.interval_ns);
        let mut last_ns = self.interval_ns;
        if self.last_ns > whole {
            last_ns = self.last_ns - whole;
            let mut last = self.last.clone();
            // Samples at the end of an interval describe what came before it.
            last.counters = last.counters.at_least(self.most_of_interval);
            if last_ns < self.interval_ns / 2 && ends.len() > 1 {
                let before = ends.pop().map_or(0, |end| end.counters.most());
                last.counters = last.counters.at_least(before);
                last_ns += self.interval_ns;
            }
            ends.push(last);
        }
        (ends, last_ns)
    }
}

/// One value over time, at most `most` in any interval; `None` if it was unavailable at the start
/// or the end, or for a level, always.
fn track(
    ends: &[Sample],
    index: usize,
    (measure, of): (Measure, &str),
    seconds: &dyn Fn(usize) -> f64,
    most: &dyn Fn(usize) -> f64,
) -> Option<Track> {
    let seen =
        ends.iter().map(|end| end.readings.get(index).copied()).collect::<Option<Vec<f64>>>()?;
    let read = match measure.reading() {
        // A level between two readings is unknown.
        Reading::Level => Some(seen).filter(|seen| seen.iter().skip(1).any(|one| one.is_finite())),
        Reading::Count | Reading::Seconds => bridged(seen),
    }?;
    let values = read.windows(2).enumerate().map(|(interval, ends)| {
        let counted = (ends[1] - ends[0]).max(0.0);
        match measure.reading() {
            Reading::Count => counted.min(most(interval)),
            Reading::Seconds => (counted / seconds(interval)).min(most(interval)),
            Reading::Level => ends[1],
        }
    });
    Some(Track { measure, of: of.to_string(), values: values.collect() })
}

/// Counts with missing readings interpolated between their neighbours; `None` if the first or the
/// last is missing.
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

/// The counters interpolated at `share` between two samples.
fn between(from: &Counters, to: &Counters, share: f64) -> Counters {
    let count = |from: u64, to: u64| from + (to.saturating_sub(from) as f64 * share) as u64;
    let device = from.device_bytes.zip(to.device_bytes);
    let ranks = from.rank_bytes.iter().zip(&to.rank_bytes);
    Counters {
        bytes: count(from.bytes, to.bytes),
        in_flight: to.in_flight,
        flown: from.flown.zip(to.flown).map(|(from, to)| InFlightStats {
            transfer_seconds: from.transfer_seconds
                + (to.transfer_seconds - from.transfer_seconds) * share,
            // Applies to every interval that ended meanwhile.
            most: to.most,
        }),
        cpu_seconds: from.cpu_seconds + (to.cpu_seconds - from.cpu_seconds) * share,
        device_bytes: device.map(|(from, to)| count(from, to)),
        rank_bytes: ranks.map(|(from, to)| count(*from, *to)).collect(),
    }
}

#[cfg(test)]
#[path = "sampler_tests.rs"]
mod tests;
