//! How a run goes over time: counters looked at now and then, as a bounded row of intervals.

use std::time::Duration;

use crate::telemetry::{BlockDevices, CpuTimes, Instruments, thread_cpu_seconds};
use crate::{DriverSet, Flown};
use stormlp_core::report::Series;
use stormlp_core::telemetry::{Measure, Reading, Telemetry, Track};

/// Intervals of a series at most; one that outlasts them doubles their length.
const INTERVALS: usize = 1024;
/// Intervals at most while they are shorter than usual.
const FIRST_INTERVALS: usize = 16;

/// What is looked at: sums since the start, but for `in_flight` and the most of `flown`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Counters {
    /// Bytes moved.
    pub bytes: u64,
    /// Transfers in flight now.
    pub in_flight: u32,
    /// How long transfers were in flight, and how many at once since the last look; `None` where
    /// that is not counted.
    pub flown: Option<Flown>,
    /// CPU seconds of the process, user and system.
    pub cpu_seconds: f64,
    /// Bytes the block devices moved; `None` where none is behind the files.
    pub device_bytes: Option<u64>,
}

impl Counters {
    /// What the drivers of a crew counted, and the process and its devices, at this moment.
    pub fn now(drivers: &DriverSet, devices: &BlockDevices) -> Self {
        let device = devices.counters();
        let counted = drivers.total();
        Self {
            bytes: counted.bytes,
            in_flight: counted.in_flight as u32,
            flown: drivers.flown(),
            cpu_seconds: CpuTimes::of_process().total_seconds(),
            device_bytes: device.map(|device| device.read_bytes + device.written_bytes),
        }
    }

    fn most(&self) -> u32 {
        self.flown.map_or(0, |flown| flown.most)
    }

    /// With so many in flight at once, at least.
    fn at_least(mut self, most: u32) -> Self {
        if let Some(flown) = &mut self.flown {
            flown.most = flown.most.max(most);
        }
        self
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
/// What was counted between two looks is spread evenly over the time between them. How many were in
/// flight at once in that time is told of every interval that ended in it.
#[derive(Debug)]
pub struct Sampler<'a> {
    instruments: &'a Instruments,
    interval_ns: u64,
    /// The length that intervals begin with, or soon have.
    usual_ns: u64,
    /// What was seen at the start, and at the end of each interval that is over.
    ends: Vec<Look>,
    /// When the first look was, and the last, with what it saw.
    started_ns: u64,
    last_ns: u64,
    last: Look,
    /// The most in flight at once in the interval under way, by the looks that lie in it.
    most_of_interval: u32,
    /// CPU time of reading the instruments.
    cost_seconds: f64,
}

impl<'a> Sampler<'a> {
    /// A sampler that nothing was shown yet, with the intervals of `telemetry` to begin with.
    pub fn new(telemetry: Telemetry, instruments: &'a Instruments) -> Self {
        let usual_ns = telemetry.interval().as_nanos().max(1) as u64;
        Self {
            instruments,
            interval_ns: usual_ns,
            usual_ns,
            ends: Vec::with_capacity(INTERVALS + 1),
            started_ns: 0,
            last_ns: 0,
            last: Look::default(),
            most_of_interval: 0,
            cost_seconds: 0.0,
        }
    }

    /// The same for what may be over at once: its first intervals are shorter, and double until
    /// they are as long as `telemetry` says.
    pub fn of_what_may_be_short(telemetry: Telemetry, instruments: &'a Instruments) -> Self {
        let sampler = Self::new(telemetry, instruments);
        let interval_ns = telemetry.first_interval().as_nanos().max(1) as u64;
        Self { interval_ns, usual_ns: sampler.usual_ns / interval_ns * interval_ns, ..sampler }
    }

    /// How long to sleep until the next look; progress and Ctrl-C do not wait for a distant one.
    pub fn pause(&self) -> Duration {
        Telemetry::default().interval().min(Duration::from_nanos(self.interval_ns))
    }

    /// Shows it the counters at `now_ns`, and reads the instruments; the first look is the start.
    pub fn look(&mut self, now_ns: u64, counters: Counters) {
        self.look_at(now_ns, counters, false);
    }

    /// Looks if an interval is over, and at what is seldom read, too, if all of it `is_over`.
    pub fn tick(&mut self, now_ns: u64, is_over: bool, counters: impl FnOnce() -> Counters) {
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

    /// When the interval under way ends; `None` before the first look.
    fn next_end(&self) -> Option<u64> {
        let intervals = self.ends.len() as u64;
        (intervals > 0).then(|| self.started_ns + intervals * self.interval_ns)
    }

    fn push(&mut self, end: Look) {
        self.ends.push(end);
        let most = if self.interval_ns < self.usual_ns { FIRST_INTERVALS } else { INTERVALS };
        if self.ends.len() > most {
            // Every second end stays: the start, and the ends of the intervals now twice as long.
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

    /// The end of an interval that a `first_half` is part of: a level that was read there alone is
    /// the best that is known of it.
    fn joined(&self, first_half: &Look, mut end: Look) -> Look {
        end.counters = end.counters.at_least(first_half.counters.most());
        let tracks = self.instruments.tracks().iter();
        let both = end.around.iter_mut().zip(&first_half.around).zip(tracks);
        for ((value, before), (measure, _)) in both {
            if value.is_nan() && measure.reading() == Reading::Level {
                *value = *before;
            }
        }
        end
    }

    /// What was to be seen `share` of the way from the last look to this one.
    fn between(&self, to: &Look, share: f64) -> Look {
        let tracks = self.instruments.tracks().iter();
        let around = self.last.around.iter().zip(&to.around).zip(tracks).map(
            |((from, to), (measure, _))| match measure.reading() {
                Reading::Level => *to,
                // What is seldom read counts from where it was read.
                _ if from.is_nan() => *to,
                Reading::Count | Reading::Seconds => from + (to - from) * share,
            },
        );
        Look {
            counters: between(&self.last.counters, &to.counters, share),
            around: around.collect(),
        }
    }

    /// The series so far, what is left as its last interval.
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
        let flown: Vec<(Flown, Flown)> = steps()
            .map(|(a, b)| Some((a.flown?, b.flown?)))
            .collect::<Option<_>>()
            .unwrap_or_default();
        let mean = |(index, (from, to)): (usize, &(Flown, Flown))| {
            let mean = (to.transfer_seconds - from.transfer_seconds) / seconds(index);
            // A look takes a moment, in which time goes on.
            mean.clamp(0.0, f64::from(to.most))
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
            tracks: tracks
                .filter_map(|(index, (measure, of))| {
                    let most = |interval| self.instruments.most(*measure, seconds(interval));
                    track(&ends, index, (*measure, of), &seconds, &most)
                })
                .collect(),
        }
    }

    /// The ends of all intervals, and the length of the last in nanoseconds. What is left after the
    /// last whole one is an interval of its own where it is half as long or longer; else its few
    /// ticks and bytes would make rates that nobody saw, and it goes with the one before.
    fn ends(&self) -> (Vec<Look>, u64) {
        let mut ends = self.ends.clone();
        let whole = self.next_end().map_or(0, |end| end - self.interval_ns);
        let mut last_ns = self.interval_ns;
        if self.last_ns > whole {
            last_ns = self.last_ns - whole;
            let mut last = self.last.clone();
            // Looks that were at an end of an interval told of what came before it.
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

/// One number over time, in no interval more than `most`; `None` where it did not answer at the start or
/// the end, or a level never.
fn track(
    ends: &[Look],
    index: usize,
    (measure, of): (Measure, &str),
    seconds: &dyn Fn(usize) -> f64,
    most: &dyn Fn(usize) -> f64,
) -> Option<Track> {
    let seen =
        ends.iter().map(|end| end.around.get(index).copied()).collect::<Option<Vec<f64>>>()?;
    let read = match measure.reading() {
        // Nobody knows what a level was between two readings.
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

/// Counts with those that were not read put evenly between their neighbours; `None` where the first
/// or the last was not read.
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
        flown: from.flown.zip(to.flown).map(|(from, to)| Flown {
            transfer_seconds: from.transfer_seconds
                + (to.transfer_seconds - from.transfer_seconds) * share,
            // In every interval that ended meanwhile.
            most: to.most,
        }),
        cpu_seconds: from.cpu_seconds + (to.cpu_seconds - from.cpu_seconds) * share,
        device_bytes: device.map(|(from, to)| count(from, to)),
    }
}

#[cfg(test)]
#[path = "sampler_tests.rs"]
mod tests;
