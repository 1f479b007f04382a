//! Where the level of a series changed: nightly results of the same work.
//!
//! A stretch of the series has another level if its mean is further from the mean of the rest than
//! nearly every stretch of the same values in random order (circular binary segmentation, Olshen et
//! al. 2004). So it does not matter how values are distributed: rare bad runs, two speeds or
//! rounded figures. Random order removes the similarity of neighbours, which exists without a
//! change, too: a distance counts only as far as it exceeds an autoregressive process's. The
//! remaining stretches are cut again, and a change is reported only if the levels on both sides of
//! it differ significantly.

use std::ops::Range;

use crate::mt19937::Mt19937;
use crate::stats::{Shift, correlation_of_neighbours, mean, population_deviation};

/// Fewer values do not make a level.
pub const SHORTEST: usize = 5;
/// Neighbours that are more alike than this cannot be told from a series without a level.
const MOST_MEMORY: f64 = 0.95;
/// A stretch is not another level if so many random orders have one as far away.
const AS_FAR: usize = 4;
/// Stretches of a longer series begin and end only at so many places.
const MOST_PLACES: usize = 200;
/// The same series has the same changes whenever it is looked at.
const SEED: u32 = 2004;

/// A change of level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangePoint {
    /// The first value of the new level.
    pub at: usize,
    /// How far the level moved, with its uncertainty.
    pub shift: Shift,
}

/// The changes of level in `series`, from first to last. In at most a share `level` of the series
/// without any change, one is found, unless neighbours are alike in other ways than assumed.
pub fn change_points(series: &[f64], level: f64) -> Vec<ChangePoint> {
    let mut cuts = cuts(series, level);
    loop {
        improve(series, &mut cuts);
        let found = shifts(series, &cuts);
        // The place of a cut was chosen among all places.
        let allowed = level / series.len() as f64;
        let p = |one: &ChangePoint| one.shift.probability();
        let weakest = found.iter().max_by(|a, b| p(a).total_cmp(&p(b)));
        match weakest.filter(|one| p(one) >= allowed).map(|one| one.at) {
            None => return found,
            Some(at) => cuts.retain(|cut| *cut != at),
        }
    }
}

/// Where stretches of another level begin and end, in order.
fn cuts(series: &[f64], level: f64) -> Vec<usize> {
    let (count, mut random) = (series.len(), Mt19937::new(SEED));
    let level = level / 2.0;
    let cuts = split(series, 0..count, level, &mut random);
    if !cuts.is_empty() {
        return cuts;
    }
    // Without one of several changes the rest remain, which look like memory. A half of the series
    // may have one alone. The halves share as much error as the whole.
    for from in [0, count / 4, count / 2] {
        let half = from..from + count / 2;
        let Some(other) = other_level(&series[half], level / 3.0, &mut random) else {
            continue;
        };
        let mut cuts = [from + other.from, from + other.to].to_vec();
        cuts.retain(|cut| ![0, from, from + count / 2, count].contains(cut));
        for [from, to] in bounds(count, &cuts) {
            let share = level * (to - from) as f64 / count as f64;
            cuts.extend(split(series, from..to, share, &mut random));
        }
        cuts.sort_unstable();
        return cuts;
    }
    Vec::new()
}

/// Where stretches of another level within `range` begin and end, in order.
fn split(series: &[f64], range: Range<usize>, level: f64, random: &mut Mt19937) -> Vec<usize> {
    let Some(other) = other_level(&series[range.clone()], level, random) else {
        return Vec::new();
    };
    let inner = [range.start + other.from, range.start + other.to];
    let inner = inner.into_iter().filter(|cut| *cut > range.start && *cut < range.end);
    let mut cuts: Vec<usize> = inner.collect();
    let pieces = [range.start].into_iter().chain(cuts.clone()).chain([range.end]);
    let pieces: Vec<usize> = pieces.collect();
    for two in pieces.windows(2) {
        let share = level * (two[1] - two[0]) as f64 / range.len() as f64;
        cuts.extend(split(series, two[0]..two[1], share, random));
    }
    cuts.sort_unstable();
    cuts
}

/// A stretch of a series, and the distance of its mean from the rest: squared, in standard errors
/// of independent values.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    from: usize,
    to: usize,
    distance: f64,
}

/// The stretch of another level; `None` if more than a share `level` of the series without one have
/// one as far away.
fn other_level(values: &[f64], level: f64, random: &mut Mt19937) -> Option<Stretch> {
    let (center, deviation) = (mean(values), population_deviation(values));
    if values.len() < 2 * SHORTEST || !(deviation > 0.0 && deviation.is_finite()) {
        return None;
    }
    let mut values: Vec<f64> = values.iter().map(|value| (value - center) / deviation).collect();
    let furthest = furthest(&values)?;
    let distance = furthest.distance / inflation(&values, &[furthest.from, furthest.to]);
    let orders = (AS_FAR as f64 / level).ceil() as usize;
    let mut as_far = 0;
    for _ in 0..orders {
        shuffle(&mut values, random);
        as_far += usize::from(self::furthest(&values)?.distance >= distance);
        if as_far == AS_FAR {
            return None;
        }
    }
    Some(furthest)
}

/// The stretch with its mean furthest from the mean of the rest, in standardised values.
fn furthest(values: &[f64]) -> Option<Stretch> {
    let count = values.len();
    let mut sums = vec![0.0];
    sums.extend(values.iter().scan(0.0, |sum, value| {
        *sum += value;
        Some(*sum)
    }));
    let step = count.div_ceil(MOST_PLACES);
    let places = || (0..count).step_by(step).chain([count]);
    // A stretch shorter than a level would be left over otherwise.
    let leaves_a_level = |left: usize| left == 0 || left >= SHORTEST;
    let mut best: Option<Stretch> = None;
    for from in places().filter(|from| leaves_a_level(*from)) {
        let ends = places().filter(|to| *to >= from + SHORTEST && leaves_a_level(count - to));
        for to in ends.filter(|to| to - from < count) {
            let (inside, all) = ((to - from) as f64, count as f64);
            let spread = inside * (all - inside) / (all - 1.0);
            let distance = (sums[to] - sums[from]).powi(2) / spread;
            if best.is_none_or(|best| distance > best.distance) {
                best = Some(Stretch { from, to, distance });
            }
        }
    }
    best
}

/// Puts values in random order.
fn shuffle(values: &mut [f64], random: &mut Mt19937) {
    for last in (1..values.len()).rev() {
        values.swap(last, random.next_interval(last as u64) as usize);
    }
}

/// The variance of a mean as a multiple of independent values' variance, if `values` change their
/// level at `cuts`.
fn inflation(values: &[f64], cuts: &[usize]) -> f64 {
    // The estimate of a short series is uncertain by this much, and too little leads to false
    // changes.
    let uncertain = (values.len() as f64).sqrt().recip();
    let seen = correlation_of_neighbours(&around_levels(values, cuts));
    let memory = (seen + uncertain).clamp(0.0, MOST_MEMORY);
    (1.0 + memory) / (1.0 - memory)
}

/// The levels between `cuts`: first and end of each.
fn bounds(count: usize, cuts: &[usize]) -> Vec<[usize; 2]> {
    let all: Vec<usize> = [0].into_iter().chain(cuts.iter().copied()).chain([count]).collect();
    all.windows(2).map(|two| [two[0], two[1]]).filter(|[from, to]| from < to).collect()
}

/// The distance of each value from the mean of its level.
fn around_levels(values: &[f64], cuts: &[usize]) -> Vec<f64> {
    let levels = bounds(values.len(), cuts).into_iter();
    levels
        .flat_map(|[from, to]| {
            let level = mean(&values[from..to]);
            values[from..to].iter().map(move |value| value - level)
        })
        .collect()
}

/// Moves each cut to where it separates its neighbours best.
fn improve(series: &[f64], cuts: &mut [usize]) {
    for nth in 0..cuts.len() {
        let from = nth.checked_sub(1).map_or(0, |before| cuts[before]);
        let to = cuts.get(nth + 1).copied().unwrap_or(series.len());
        let apart = |at: usize| {
            let (before, after) = (&series[from..at], &series[at..to]);
            let harmonic = (before.len() * after.len()) as f64 / (to - from) as f64;
            (mean(after) - mean(before)).powi(2) * harmonic
        };
        let places = from + SHORTEST..=to - SHORTEST;
        cuts[nth] = places.max_by(|a, b| apart(*a).total_cmp(&apart(*b))).unwrap_or(cuts[nth]);
    }
}

/// The change at each of `cuts`.
fn shifts(series: &[f64], cuts: &[usize]) -> Vec<ChangePoint> {
    let degrees_of_freedom = (series.len() as f64) - cuts.len() as f64 - 1.0;
    let squares: f64 = around_levels(series, cuts).iter().map(|distance| distance.powi(2)).sum();
    let noise = inflation(series, cuts) * squares / degrees_of_freedom;
    let change = |two: &[[usize; 2]]| {
        let (before, after) = (&series[two[0][0]..two[0][1]], &series[two[1][0]..two[1][1]]);
        let counts = (before.len() as f64).recip() + (after.len() as f64).recip();
        let (value, error) = (mean(after) - mean(before), (noise * counts).sqrt());
        ChangePoint { at: two[1][0], shift: Shift { value, error, degrees_of_freedom } }
    };
    bounds(series.len(), cuts).windows(2).map(change).collect()
}

#[cfg(test)]
mod simulation_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mt19937::Mt19937;

    /// The annual flow of the Nile at Aswan from 1871 to 1970: R's `Nile`.
    const NILE: [f64; 100] = [
        1120.0, 1160.0, 963.0, 1210.0, 1160.0, 1160.0, 813.0, 1230.0, 1370.0, 1140.0, 995.0, 935.0,
        1110.0, 994.0, 1020.0, 960.0, 1180.0, 799.0, 958.0, 1140.0, 1100.0, 1210.0, 1150.0, 1250.0,
        1260.0, 1220.0, 1030.0, 1100.0, 774.0, 840.0, 874.0, 694.0, 940.0, 833.0, 701.0, 916.0,
        692.0, 1020.0, 1050.0, 969.0, 831.0, 726.0, 456.0, 824.0, 702.0, 1120.0, 1100.0, 832.0,
        764.0, 821.0, 768.0, 845.0, 864.0, 862.0, 698.0, 845.0, 744.0, 796.0, 1040.0, 759.0, 781.0,
        865.0, 845.0, 944.0, 984.0, 897.0, 822.0, 1010.0, 771.0, 676.0, 649.0, 846.0, 812.0, 742.0,
        801.0, 1040.0, 860.0, 874.0, 848.0, 890.0, 744.0, 749.0, 838.0, 1050.0, 918.0, 986.0,
        797.0, 923.0, 975.0, 815.0, 1020.0, 906.0, 901.0, 1170.0, 912.0, 746.0, 919.0, 718.0,
        714.0, 740.0,
    ];

    #[test]
    fn the_nile_changed_in_1899() {
        // Cobb (1978), and R's changepoint::cpt.mean(Nile): after the 28th year.
        let found = change_points(&NILE, 0.05);
        assert_eq!(found.iter().map(|one| one.at).collect::<Vec<_>>(), [28]);
        assert!((found[0].shift.value + 247.8).abs() < 0.1, "{found:?}");
    }

    #[test]
    fn a_step_between_constant_or_rounded_levels_is_found() {
        let step = |each: usize| [vec![1.0; each], vec![0.5; each]].concat();
        for each in [6, 10, 20] {
            let found = change_points(&step(each), 0.05);
            assert_eq!(found.iter().map(|one| one.at).collect::<Vec<_>>(), [each]);
        }
        assert_eq!(change_points(&step(4), 0.05), [], "four and four are too few");
        let mut random = Mt19937::new(5);
        let mut rounded = |level: f64| ((level + 0.004 * random.next_gaussian()) * 100.0).round();
        let series: Vec<f64> =
            (0..40).map(|nth| rounded(if nth < 20 { 1.0 } else { 0.8 })).collect();
        let found = change_points(&series, 0.05);
        assert_eq!(found.iter().map(|one| one.at).collect::<Vec<_>>(), [20], "{series:?}");
    }

    #[test]
    fn a_level_that_came_back_has_two_changes() {
        let mut random = Mt19937::new(9);
        let level = |nth: usize| if (20..30).contains(&nth) { 0.5 } else { 1.0 };
        let series: Vec<f64> =
            (0..45).map(|nth| level(nth) + 0.02 * random.next_gaussian()).collect();
        let found = change_points(&series, 0.05);
        assert_eq!(found.iter().map(|one| one.at).collect::<Vec<_>>(), [20, 30], "{found:?}");
    }

    #[test]
    fn a_part_of_a_change_that_came_back_is_another_change() {
        let mut random = Mt19937::new(11);
        let level = |nth: usize| [1.0, 0.5, 0.55][nth / 15];
        let series: Vec<f64> =
            (0..45).map(|nth| level(nth) + 0.005 * random.next_gaussian()).collect();
        let found = change_points(&series, 0.025);
        assert_eq!(found.iter().map(|one| one.at).collect::<Vec<_>>(), [15, 30], "{found:?}");
    }

    #[test]
    fn short_and_constant_series_have_no_changes() {
        assert_eq!(change_points(&[], 0.05), []);
        assert_eq!(change_points(&[1.0, 1.0, 2.0, 2.0], 0.05), []);
        assert_eq!(change_points(&[5.0; 40], 0.05), []);
    }
}
