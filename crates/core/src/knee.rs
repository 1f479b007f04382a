//! The search for a knee: the least costly setting that is not significantly more than 2 % below
//! the best.
//!
//! Settings lie on lines, ascending in cost. The search walks up each line in doublings until two
//! in a row bring no gain, and repeats one that falls before it counts. Then it bisects between a
//! setting that reaches the best rate and one that does not, and repeats the settings that decide
//! the answer. Its only state is the measurements, so it continues from a saved report as if it had
//! never stopped.

use serde::{Deserialize, Serialize};

use crate::stats::{beyond, mean, sample_deviation};

/// How far below the best a setting may lie, as a share.
pub const WITHIN: f64 = 0.02;
/// This many steps in a row that gain less than [`WITHIN`] end a walk: a single one may be bad
/// luck.
const PATIENCE: usize = 2;
/// Maximum distance of the knee below the best, however noisy: the smallest difference that matters
/// to comparisons.
const MOST_BELOW: f64 = 0.05;
/// The probability that settings are called different although they are not.
const ERROR: f64 = 0.05;

/// Busy share of the threads, or of all CPUs, above which they are the limit.
const BUSY: f64 = 0.9;
/// Below this share they are not.
const IDLE: f64 = 0.75;

/// The bottleneck at the best rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum KneeLimit {
    /// The storage, or the path between it and this host.
    Storage,
    /// CPUs of this host: the busy threads' CPUs, or all.
    Client,
    /// Memory: the bytes came from the page cache, or from a file system without storage.
    Memory,
    /// Other programs: they and this one used most of the CPUs, so that storage was not the limit alone.
    Others,
}

impl KneeLimit {
    /// The limit of a run that used `at_work` CPU seconds a second, where its threads or CPUs could
    /// use `most`; `in_memory` if its bytes may have been in memory. `None` if that does not tell.
    pub fn of(at_work: f64, most: f64, in_memory: bool) -> Option<Self> {
        if at_work >= BUSY * most {
            Some(Self::Client)
        } else if in_memory {
            Some(Self::Memory)
        } else {
            (at_work <= IDLE * most).then_some(Self::Storage)
        }
    }

    /// The limit of such a run next to other programs that used `others` of the `cpus` of the host.
    pub fn beside(others: f64, (at_work, cpus): (f64, f64), alone: Option<Self>) -> Option<Self> {
        let is_crowded = others > 0.0 && at_work + others > IDLE * cpus;
        match alone {
            Some(Self::Storage) | None if is_crowded => Some(Self::Others),
            alone => alone,
        }
    }

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Storage => "storage",
            Self::Client => "CPUs of this host",
            Self::Memory => "memory",
            Self::Others => "other programs on this host",
        }
    }
}

/// A setting and its runs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Setting {
    /// The cost to minimise: transfers in flight, streams.
    pub cost: u64,
    /// How often it was run.
    pub runs: usize,
    /// The rates of the runs that counted, in order.
    pub rates: Vec<f64>,
}

impl Setting {
    fn mean(&self) -> Option<f64> {
        (!self.rates.is_empty()).then(|| mean(&self.rates))
    }
}

/// How much repetitions of a setting differ.
#[derive(Debug, Clone, Copy)]
struct Noise {
    /// Standard deviation as a share of the mean.
    deviation: f64,
    degrees_of_freedom: f64,
}

/// Line and index of a setting.
pub type SettingIndex = (usize, usize);

/// Everything measured so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    /// The lines, each ascending in cost; among settings of equal cost earlier lines are preferred.
    pub lines: Vec<Vec<Setting>>,
    /// How often to run the settings that decide the answer.
    pub repeat: usize,
}

/// The answer so far.
#[derive(Debug, Clone, PartialEq)]
pub struct KneeAnswer {
    /// The least costly setting that is not significantly more than [`WITHIN`] below the best.
    pub knee: SettingIndex,
    /// The best setting.
    pub best: SettingIndex,
    /// Standard deviation of repetitions in percent of their mean; `None` without repetitions.
    pub noise_percent: Option<f64>,
    /// The other settings that noise does not exclude from being the knee, cheapest first: cheaper ones
    /// that may reach the best, and more costly ones up to the one within [`WITHIN`] of the best by
    /// its mean.
    pub ties: Vec<SettingIndex>,
    /// Whether the best is the last setting available and the rate was still rising there.
    pub is_lower_bound: bool,
}

impl Search {
    /// The next setting to run; `None` once the answer is known.
    pub fn next(&self) -> Option<SettingIndex> {
        match self.walk() {
            Err(next) => Some(next),
            Ok(lines) => self.narrow(lines).or_else(|| self.confirm()),
        }
    }

    /// The likely number of runs of a search of this shape.
    pub fn likely_runs(&self) -> usize {
        let doublings = |line: &Vec<Setting>| {
            let range =
                line.last().map_or(1, |s| s.cost) / line.first().map_or(1, |s| s.cost).max(1);
            range.max(1).ilog2() as usize + 1
        };
        let first = self.lines.first().map_or(0, doublings);
        let further: usize = self
            .lines
            .iter()
            .skip(1)
            .take(2 * PATIENCE)
            .map(|line| doublings(line).min(PATIENCE + 1))
            .sum();
        let narrowing = usize::from(self.lines.iter().any(|line| line.len() > doublings(line)));
        let settings: usize = self.lines.iter().map(Vec::len).sum();
        let repeated = settings.min(PATIENCE + 1) * self.repeat.saturating_sub(1);
        settings.min(first + further + narrowing) + repeated
    }

    /// Walks up the lines using only first runs (and the second of settings that fall), and only
    /// settings the walk itself visited, so that neither repetitions nor later measurements change its
    /// course. `Ok` is the number of lines
    /// walked.
    fn walk(&self) -> Result<usize, SettingIndex> {
        let mut walked: Vec<(u64, f64)> = Vec::new();
        let (mut best, mut idle, mut from_cost) = (0.0, 0, 0);
        for (line, settings) in self.lines.iter().enumerate() {
            let came_by =
                walk_line(settings, from_cost, self.repeat).map_err(|index| (line, index))?;
            let top = came_by.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
            walked.extend(came_by);
            idle = if gains(top, best) { 0 } else { idle + 1 };
            best = top.max(best);
            // A rate of zero here means that all other settings of the grid fail, too.
            if idle == PATIENCE || best == 0.0 {
                return Ok(line + 1);
            }
            let reaching = walked.iter().filter(|(_, rate)| *rate >= best * (1.0 - WITHIN));
            // Further lines start below the cheapest sufficient cost so far.
            from_cost = reaching.map(|(cost, _)| *cost).min().unwrap_or(0) / 2;
        }
        Ok(self.lines.len())
    }

    /// An untried setting between one that reaches the best and a cheaper one that does not.
    fn narrow(&self, lines: usize) -> Option<SettingIndex> {
        let (knee, best) = self.knee_and_best()?;
        let (cheapest, noise) = (self.at(knee).cost, self.noise());
        let reaches = |s: &Setting| !s.rates.is_empty() && self.is_enough(s, best, noise);
        (self.lines.iter().take(lines).enumerate()).find_map(|(line, settings)| {
            let high = settings.iter().position(reaches)?;
            let end = high.min(settings.partition_point(|s| s.cost < cheapest));
            let low = (0..end).rev().find(|index| settings[*index].runs > 0);
            let begin = low.map_or(0, |low| low + 1);
            let half = settings.partition_point(|s| 2 * s.cost <= settings[high].cost);
            let middle = match low {
                Some(_) => begin + end.saturating_sub(begin + 1) / 2,
                None => half.clamp(1, end.max(1)) - 1,
            };
            (begin < end).then_some((line, middle))
        })
    }

    /// A deciding setting that has not run often enough: the knee, the best, the best of those cheaper
    /// than the knee, and all that noise does not distinguish from it.
    fn confirm(&self) -> Option<SettingIndex> {
        let (knee, best) = self.knee_and_best()?;
        let below = self
            .measured()
            .filter(|place| self.at(*place).cost < self.at(knee).cost)
            .max_by(|a, b| self.rate(*a).total_cmp(&self.rate(*b)));
        let mut open: Vec<SettingIndex> =
            [Some(knee), Some(best), below].into_iter().flatten().collect();
        open.extend(self.cheaper(knee, best));
        open.retain(|place| self.at(*place).runs < self.repeat);
        open.into_iter().min_by_key(|place| self.at(*place).runs)
    }

    /// The answer so far; `None` before the first measurement.
    pub fn found(&self) -> Option<KneeAnswer> {
        let (knee, best) = self.knee_and_best()?;
        let noise = self.noise();
        let cost = |place: &SettingIndex| self.at(*place).cost;
        let by_mean = self.measured().filter(|place| self.is_enough(self.at(*place), best, None));
        let certain = by_mean.map(|place| cost(&place)).min().unwrap_or(0);
        let tied = cost(&knee) + 1..=certain;
        let alike_above = |place: &SettingIndex| {
            tied.contains(&cost(place)) && self.may_be_enough(self.at(*place), best, noise)
        };
        let mut ties: Vec<SettingIndex> = self.cheaper(knee, best);
        ties.extend(self.measured().filter(alike_above));
        ties.sort_by_key(cost);
        Some(KneeAnswer {
            knee,
            best,
            noise_percent: noise.map(|noise| noise.deviation * 100.0),
            ties,
            is_lower_bound: self.still_gains_at(best),
        })
    }

    /// The settings cheaper than the knee that noise does not exclude from reaching the best.
    fn cheaper(&self, knee: SettingIndex, best: SettingIndex) -> Vec<SettingIndex> {
        let noise = self.noise();
        let is_open = |place: &SettingIndex| {
            self.at(*place).cost < self.at(knee).cost
                && self.may_be_enough(self.at(*place), best, noise)
        };
        self.measured().filter(is_open).collect()
    }

    /// Whether a setting is within [`WITHIN`] of the best, or misses that by no more than `noise`
    /// explains, up to [`MOST_BELOW`] the best.
    fn is_enough(&self, setting: &Setting, best: SettingIndex, noise: Option<Noise>) -> bool {
        self.is_at(setting, best, (WITHIN + self.explained(setting, best, noise)).min(MOST_BELOW))
    }

    /// The same without that bound.
    fn may_be_enough(&self, setting: &Setting, best: SettingIndex, noise: Option<Noise>) -> bool {
        self.is_at(setting, best, WITHIN + self.explained(setting, best, noise))
    }

    /// Whether a setting is no more than a share `below` the best.
    fn is_at(&self, setting: &Setting, best: SettingIndex, below: f64) -> bool {
        setting.mean().unwrap_or(0.0) >= self.rate(best) * (1.0 - below)
    }

    /// How far below the best noise explains a setting to be, as a share.
    fn explained(&self, setting: &Setting, best: SettingIndex, noise: Option<Noise>) -> f64 {
        let runs = |s: &Setting| s.rates.len().max(1) as f64;
        let error = (1.0 / runs(setting) + 1.0 / runs(self.at(best))).sqrt();
        noise.map_or(0.0, |noise| noise.deviation * error * beyond(ERROR, noise.degrees_of_freedom))
    }

    /// Whether `best` is the last of its line or on the last line, and gains on all before it.
    fn still_gains_at(&self, best: SettingIndex) -> bool {
        let gains_on = |before: &dyn Fn(SettingIndex) -> bool| {
            let others = self
                .measured()
                .filter(|place| before(*place))
                .map(|place| self.rate(place))
                .fold(0.0, f64::max);
            gains(self.rate(best), others)
        };
        let cost = self.at(best).cost;
        let is_last = best.1 + 1 == self.lines[best.0].len();
        let at_the_end =
            is_last && gains_on(&|place| self.at(place).cost < cost || place.0 < best.0);
        let in_the_last_line = self.lines.len() > 1
            && best.0 + 1 == self.lines.len()
            && gains_on(&|place| place.0 < best.0);
        let anything_above = self.measured().any(|place| self.at(place).cost > cost);
        (at_the_end && !anything_above) || in_the_last_line
    }

    /// The noise of repetitions, pooled over all settings; `None` without repetitions.
    fn noise(&self) -> Option<Noise> {
        let (mut squares, mut freedom) = (0.0, 0.0);
        for setting in self.lines.iter().flatten().filter(|s| s.rates.len() > 1) {
            let weight = (setting.rates.len() - 1) as f64;
            let relative = sample_deviation(&setting.rates) / mean(&setting.rates);
            squares += weight * relative * relative;
            freedom += weight;
        }
        let deviation = (squares / freedom).sqrt();
        (freedom > 0.0).then_some(Noise { deviation, degrees_of_freedom: freedom })
    }

    fn knee_and_best(&self) -> Option<(SettingIndex, SettingIndex)> {
        let by_rate = |a: &SettingIndex, b: &SettingIndex| self.rate(*a).total_cmp(&self.rate(*b));
        let best = self.measured().max_by(by_rate)?;
        let noise = self.noise();
        let reaching = self.measured().filter(|place| self.is_enough(self.at(*place), best, noise));
        // Among settings of equal cost, the first, which is on the earliest line.
        let knee = reaching.min_by_key(|place| self.at(*place).cost)?;
        Some((knee, best))
    }

    /// The settings that have a rate.
    fn measured(&self) -> impl Iterator<Item = SettingIndex> {
        let places = self.lines.iter().enumerate();
        let places =
            places.flat_map(|(line, settings)| (0..settings.len()).map(move |i| (line, i)));
        places.filter(|place| !self.at(*place).rates.is_empty())
    }

    fn at(&self, (line, index): SettingIndex) -> &Setting {
        &self.lines[line][index]
    }

    /// The mean rate of a setting.
    pub fn rate(&self, place: SettingIndex) -> f64 {
        self.at(place).mean().unwrap_or(0.0)
    }
}

/// Whether `rate` exceeds `best` by enough to count.
fn gains(rate: f64, best: f64) -> bool {
    rate > best * (1.0 + WITHIN)
}

/// Whether `rate` is below `best` by enough to count.
fn falls(rate: f64, best: f64) -> bool {
    rate < best * (1.0 - WITHIN)
}

/// Walks up a line from the setting that costs `from_cost` or less. Returns the costs and rates
/// visited, or the setting that has to run first. With repetitions, a setting that falls runs twice,
/// and its better run counts.
fn walk_line(
    settings: &[Setting],
    from_cost: u64,
    repeat: usize,
) -> Result<Vec<(u64, f64)>, usize> {
    let first = settings.partition_point(|s| s.cost <= from_cost).max(1) - 1;
    let (mut at, mut best, mut idle) = (first, 0.0, 0);
    let mut walked = Vec::new();
    while let Some(setting) = settings.get(at) {
        let rate = match setting.rates.first() {
            Some(rate) if falls(*rate, best) && repeat > 1 => match setting.rates.get(1) {
                Some(second) => rate.max(*second),
                None if setting.runs < 2 => return Err(at),
                None => *rate,
            },
            Some(rate) => *rate,
            None if setting.runs == 0 => return Err(at),
            None => break,
        };
        walked.push((setting.cost, rate));
        idle = if gains(rate, best) { 0 } else { idle + 1 };
        best = rate.max(best);
        if idle == PATIENCE {
            break;
        }
        let doubled = settings.partition_point(|s| s.cost < 2 * setting.cost);
        // The last setting ends a walk, however close it is.
        at = if at + 1 == settings.len() {
            settings.len()
        } else {
            doubled.clamp(at + 1, settings.len() - 1)
        };
    }
    Ok(walked)
}

#[cfg(test)]
#[path = "knee_tests.rs"]
#[allow(clippy::unwrap_used)]
mod tests;
