//! Positions of values on an axis, and the tick labels.

use std::ops::Range;

use plotters::coord::ranged1d::{
    KeyPointHint, KeyPointWeight, NoDefaultFormatting, Ranged, ValueFormatter,
};
use stormlp_core::units::short_size;

use super::plot::{Axis, Scale};
use crate::numbers::short;

/// Approximate number of labelled ticks.
const TICKS: f64 = 5.0;

/// Maximum number of labels before they overlap.
const MOST_NAMES: usize = 11;

/// An axis with its range and ticks. The library receives positions instead of values.
#[derive(Clone)]
pub(super) struct Ruler {
    scale: Scale,
    /// The values of a categorical axis.
    values: Vec<f64>,
    /// Its range.
    pub(super) range: (f64, f64),
    /// The labelled positions.
    pub(super) ticks: Vec<(f64, String)>,
}

impl Ruler {
    /// An axis for the finite ones of `values`.
    pub(super) fn new(axis: &Axis, values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let (least, most) =
            (values.first().copied().unwrap_or(0.0), values.last().copied().unwrap_or(1.0));
        let (range, ticks) = match axis.scale {
            Scale::Linear => linear(least.min(0.0), most.max(0.0)),
            Scale::Log => log(least, most),
            Scale::Quantiles => quantiles(most),
            Scale::Sizes => doublings(least, most),
            Scale::Counts => {
                let every = values.len().div_ceil(MOST_NAMES).max(1);
                let ticks = values
                    .iter()
                    .enumerate()
                    .step_by(every)
                    .map(|(place, value)| (place as f64, words(axis.scale, *value)));
                ((-0.4, values.len() as f64 - 0.6), ticks.collect())
            }
        };
        Self {
            scale: axis.scale,
            values,
            range,
            ticks: match axis.name.as_str() {
                "µs" => ticks.into_iter().map(|(at, _)| (at, duration(at, axis.scale))).collect(),
                _ => ticks,
            },
        }
    }

    /// Keeps every n-th label so that at most `names` of them remain, or two.
    pub(super) fn with_room_for(mut self, names: usize) -> Self {
        let every = self.ticks.len().div_ceil(names.max(2)).max(1);
        let mut nth = 0;
        self.ticks.retain(|_| {
            nth += 1;
            (nth - 1) % every == 0
        });
        self
    }

    /// Length of its longest label in letters.
    pub(super) fn letters(&self) -> usize {
        let letters = self.ticks.iter().map(|(_, name)| name.chars().count());
        letters.max().unwrap_or(0)
    }

    /// From zero to `most`, without labels.
    pub(super) fn plain(most: f64) -> Self {
        Self { scale: Scale::Linear, values: Vec::new(), range: (0.0, most), ticks: Vec::new() }
    }

    /// The position of a value.
    pub(super) fn place(&self, value: f64) -> f64 {
        let (from, to) = self.range;
        let place = match self.scale {
            Scale::Linear => value,
            Scale::Log => value.log10(),
            Scale::Quantiles => nines(value),
            Scale::Sizes => value.max(1.0).log2(),
            Scale::Counts => self.values.partition_point(|other| *other < value) as f64,
        };
        place.clamp(from, to)
    }
}

impl Ranged for Ruler {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, (start, end): (i32, i32)) -> i32 {
        let (from, to) = self.range;
        let share = ((place - from) / (to - from)).clamp(0.0, 1.0);
        start + (f64::from(end - start) * share).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match hint.weight() {
            KeyPointWeight::Bold => self.ticks.iter().map(|(at, _)| *at).collect(),
            KeyPointWeight::Any => Vec::new(),
        }
    }

    fn range(&self) -> Range<f64> {
        self.range.0..self.range.1
    }
}

impl ValueFormatter<f64> for Ruler {
    fn format_ext(&self, at: &f64) -> String {
        let tick = self.ticks.iter().find(|(place, _)| place == at);
        tick.map_or(String::new(), |(_, name)| name.clone())
    }
}

/// A value formatted as in tables.
pub(super) fn words(scale: Scale, value: f64) -> String {
    match scale {
        Scale::Sizes => short_size(value as u64),
        Scale::Counts => short_count(value),
        Scale::Quantiles => {
            let text = format!("{:.3}", value * 100.0);
            format!("p{}", text.trim_end_matches('0').trim_end_matches('.'))
        }
        Scale::Linear | Scale::Log => short(value),
    }
}

fn short_count(value: f64) -> String {
    match value {
        value if value >= 1000.0 => short(value),
        value if value.fract() == 0.0 => format!("{value}"),
        // Without meaningless digits.
        value if value < 100.0 => short(value).trim_end_matches('0').to_string(),
        value => short(value),
    }
}

/// From zero, in steps of 1, 2 or 5 times a power of ten.
fn linear(least: f64, most: f64) -> ((f64, f64), Vec<(f64, String)>) {
    // If all values are about zero, no tick step makes sense.
    let most = if most - least < 1e-8 { least + 1.0 } else { most };
    let span = (most - least).max(most.abs() * 1e-9);
    let rough = span / TICKS;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    let step = step.into_iter().find(|step| *step >= rough * 0.999).unwrap_or(rough);
    let (first, last) = ((least / step).floor() as i64, (most / step).ceil() as i64);
    let last = last.max(first + 1);
    let decimals = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
    let name = |at: f64| if at.abs() >= 1000.0 { short(at) } else { format!("{at:.decimals$}") };
    let ticks = (first..=last).map(|nth| nth as f64 * step);
    let range = (first as f64 * step, last as f64 * step);
    (range, ticks.map(|at| (at, name(at))).collect())
}

/// Whole powers of ten between the round values that enclose all; with few, steps between.
fn log(least: f64, most: f64) -> ((f64, f64), Vec<(f64, String)>) {
    const STEPS: [f64; 3] = [1.0, 2.0, 5.0];
    let (least, most) = (least.max(1e-9), most.max(1e-9));
    let powers = least.log10().floor() as i32..=most.log10().ceil() as i32;
    let round: Vec<f64> =
        powers.flat_map(|power| STEPS.map(|step| step * 10f64.powi(power))).collect();
    let from = round.iter().rev().find(|value| **value <= least * 1.000_001).unwrap_or(&least);
    let mut above = round.iter().filter(|value| *value > from);
    let to = above.clone().find(|value| **value >= most * 0.999_999).or(above.next_back());
    let (from, to) = (from.log10(), to.unwrap_or(&(from * 10.0)).log10());
    let decades = to - from;
    let every = (decades / 6.0).ceil() as i32;
    let is_tick = |value: &&f64| {
        let power = value.log10();
        let is_power = (power - power.round()).abs() < 1e-6;
        decades < 2.5 || is_power && power.round() as i32 % every == 0
    };
    let ticks = round.iter().filter(is_tick).map(|value| (value.log10(), short_count(*value)));
    let within = ticks.filter(|(at, _)| (from - 1e-9..=to + 1e-9).contains(at));
    ((from, to), within.collect())
}

/// Sizes at equal distances for each doubling, with some room at both ends.
fn doublings(least: f64, most: f64) -> ((f64, f64), Vec<(f64, String)>) {
    let (from, to) = (least.max(1.0).log2(), most.max(1.0).log2());
    let every = ((to - from) / 6.0).ceil().max(1.0) as usize;
    let powers = (from.floor() as u32..=to.ceil() as u32).step_by(every);
    let ticks = powers.map(|power| (f64::from(power), short_size(1 << power.min(63))));
    let room = ((to - from) * 0.04).max(0.2);
    let range = (from - room, to + room);
    let within = ticks.filter(|(at, _)| (range.0..=range.1).contains(at));
    (range, within.collect())
}

/// One tick for each nine.
fn quantiles(most: f64) -> ((f64, f64), Vec<(f64, String)>) {
    let to = nines(most).max(1.0);
    let names = ["p0", "p90", "p99", "p99.9", "p99.99", "p99.999"];
    let ticks = (names.iter().enumerate()).map(|(nines, name)| (nines as f64, name.to_string()));
    ((0.0, to), ticks.filter(|(at, _)| *at <= to + 1e-9).collect())
}

fn nines(quantile: f64) -> f64 {
    -(1.0 - quantile.clamp(0.0, 0.999_999)).log10()
}

/// The duration in microseconds at an axis position, in a suitable unit.
fn duration(at: f64, scale: Scale) -> String {
    let us = if scale == Scale::Log { 10f64.powf(at) } else { at };
    // Undoes rounding errors of powers of ten.
    let rounded = |value: f64| short_count((value * 1e6).round() / 1e6);
    match us {
        us if us >= 999_999.0 => format!("{} s", rounded(us / 1e6)),
        us if us >= 999.9 => format!("{} ms", rounded(us / 1e3)),
        us if us >= 0.999_9 || us == 0.0 => format!("{} µs", rounded(us)),
        us => format!("{} ns", rounded(us * 1e3)),
    }
}
