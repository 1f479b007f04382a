//! Where the level of a series changed: nightly results of the same work.
//!
//! The series is cut where that explains it best (optimal partitioning, Jackson et al. 2005, with
//! the penalty of Schwarz's criterion), and a cut counts only if the levels on both sides differ
//! significantly. Neighbours of such a series are alike even where nothing changed, so its noise is
//! that of an autoregressive process, estimated from the differences of neighbours, which a change
//! of level disturbs once. Without that, one in four such series would have a change.

use crate::stats::{Shift, mean, median};

/// Fewer values do not make a level.
pub const SHORTEST: usize = 3;
/// Neighbours that are more alike than this cannot be told from a series without a level.
const MOST_MEMORY: f64 = 0.9;
/// Differences beyond this many standard deviations are changes, or single odd values.
const MOST_TYPICAL: f64 = 3.0;
/// The standard deviation of normal values whose median distance from 0 is 1.
const OF_MEDIAN: f64 = 1.482_602_218_505_602;

/// A change of level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangePoint {
    /// The first value of the new level.
    pub at: usize,
    /// How far the level moved, with its uncertainty.
    pub shift: Shift,
}

/// The changes of level in `series`, from first to last. In at most a share `level` of the series
/// without any change, one is found.
pub fn change_points(series: &[f64], level: f64) -> Vec<ChangePoint> {
    let noise = noise(series);
    if series.len() < 2 * SHORTEST || !noise.is_finite() {
        return Vec::new();
    }
    let mut cuts = partition(series, noise);
    loop {
        let found = shifts(series, &cuts, noise);
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

/// The change at each of `cuts`.
fn shifts(series: &[f64], cuts: &[usize], noise: f64) -> Vec<ChangePoint> {
    let bounds: Vec<usize> =
        [0].into_iter().chain(cuts.iter().copied()).chain([series.len()]).collect();
    let degrees_of_freedom = (series.len() - cuts.len() - 1) as f64;
    let change = |bounds: &[usize]| {
        let (before, after) = (&series[bounds[0]..bounds[1]], &series[bounds[1]..bounds[2]]);
        let counts = (before.len() as f64).recip() + (after.len() as f64).recip();
        let (value, error) = (mean(after) - mean(before), (noise * counts).sqrt());
        ChangePoint { at: bounds[1], shift: Shift { value, error, degrees_of_freedom } }
    };
    bounds.windows(3).map(change).collect()
}

/// The variance that the mean of many values has times their number: that of single values, and
/// more if neighbours are alike. Infinite for values that do not vary.
fn noise(series: &[f64]) -> f64 {
    let apart: Vec<f64> = series.windows(2).map(|two| two[1] - two[0]).collect();
    let sizes: Vec<f64> = apart.iter().map(|one| one.abs()).collect();
    // If more than half of the neighbours are equal, figures are rounded: to the smallest difference.
    let rounded_to = sizes.iter().copied().filter(|size| *size > 0.0).fold(f64::INFINITY, f64::min);
    let typical = match OF_MEDIAN * median(&sizes) {
        0.0 => rounded_to,
        typical => typical,
    };
    let stretches = || series.chunk_by(|a, b| a == b);
    if rounded_to.is_finite() && stretches().all(|stretch| stretch.len() >= SHORTEST) {
        // Levels without noise: what rounding hides is evenly distributed.
        return rounded_to.powi(2) / 12.0;
    }
    let largest = MOST_TYPICAL * typical;
    let apart: Vec<f64> = apart.iter().map(|one| one.clamp(-largest, largest)).collect();
    let squares: f64 = apart.iter().map(|one| one.powi(2)).sum();
    if squares <= 0.0 {
        return f64::INFINITY;
    }
    let together: f64 = apart.windows(2).map(|two| two[0] * two[1]).sum();
    // What a short series shows is uncertain by this much, and too little leads to false changes.
    let uncertain = (series.len() as f64).sqrt().recip();
    let memory = (1.0 + 2.0 * together / squares + uncertain).clamp(0.0, MOST_MEMORY);
    squares / apart.len() as f64 * (1.0 + memory) / (2.0 * (1.0 - memory).powi(2))
}

/// The cuts that minimise the squared distances from the levels, in units of `noise`, with a penalty
/// for each cut.
fn partition(series: &[f64], noise: f64) -> Vec<usize> {
    let count = series.len();
    let penalty = 2.0 * (count as f64).ln();
    // Sums up to each place, so that the cost of any stretch takes one step.
    let (mut sums, mut squares) = (vec![0.0], vec![0.0]);
    let origin = mean(series);
    for (nth, value) in series.iter().enumerate() {
        sums.push(sums[nth] + (value - origin));
        squares.push(squares[nth] + (value - origin).powi(2));
    }
    let cost = |from: usize, to: usize| {
        let sum: f64 = sums[to] - sums[from];
        (squares[to] - squares[from] - sum * sum / (to - from) as f64) / noise
    };
    // For each end, the least cost and the start of its last stretch.
    let mut best = vec![(f64::INFINITY, 0); count + 1];
    best[0] = (-penalty, 0);
    for to in SHORTEST..=count {
        let starts = (0..=to - SHORTEST).filter(|from| *from == 0 || *from >= SHORTEST);
        let costs = starts.map(|from| (best[from].0 + cost(from, to) + penalty, from));
        best[to] = costs.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((f64::INFINITY, 0));
    }
    let mut cuts = Vec::new();
    let mut end = best[count].1;
    while end > 0 {
        cuts.insert(0, end);
        end = best[end].1;
    }
    cuts
}

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

    /// A series without a change whose neighbours are correlated by `memory`, in per cent of 100.
    fn steady(random: &mut Mt19937, memory: f64, count: usize) -> Vec<f64> {
        let mut last = random.next_gaussian();
        let mut next = || {
            last = memory * last + (1.0 - memory * memory).sqrt() * random.next_gaussian();
            100.0 + 3.0 * last
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn a_series_without_a_change_has_one_in_at_most_one_of_twenty() {
        for (memory, count) in [(0.0, 20), (0.0, 60), (0.3, 60), (0.6, 60), (0.6, 200)] {
            let mut random = Mt19937::new(20_261_123);
            let wrong = (0..400)
                .filter(|_| !change_points(&steady(&mut random, memory, count), 0.05).is_empty());
            let wrong = wrong.count();
            assert!(wrong <= 20, "{memory}, {count}: {wrong} of 400");
        }
    }

    #[test]
    fn a_tenth_less_is_found_where_it_began_in_four_series_of_five() {
        let mut random = Mt19937::new(7);
        let mut found = 0;
        for _ in 0..200 {
            let mut series = steady(&mut random, 0.2, 60);
            series[40..].iter_mut().for_each(|value| *value -= 10.0);
            let cuts = change_points(&series, 0.05);
            found += usize::from(cuts.len() == 1 && cuts[0].at.abs_diff(40) <= 2);
        }
        assert!(found >= 160, "{found} of 200");
    }

    #[test]
    fn a_step_between_constant_or_rounded_levels_is_found() {
        let step = |each: usize| [vec![1.0; each], vec![0.5; each]].concat();
        for each in [4, 6, 20] {
            let found = change_points(&step(each), 0.05);
            assert_eq!(found.iter().map(|one| one.at).collect::<Vec<_>>(), [each]);
        }
        assert_eq!(change_points(&step(3), 0.05), [], "three and three are too few");
        let mut random = Mt19937::new(5);
        let mut rounded = |level: f64| ((level + 0.004 * random.next_gaussian()) * 100.0).round();
        let series: Vec<f64> =
            (0..40).map(|nth| rounded(if nth < 20 { 1.0 } else { 0.8 })).collect();
        let found = change_points(&series, 0.05);
        assert_eq!(found.iter().map(|one| one.at).collect::<Vec<_>>(), [20], "{series:?}");
    }

    #[test]
    fn short_and_constant_series_have_no_changes() {
        assert_eq!(change_points(&[], 0.05), []);
        assert_eq!(change_points(&[1.0, 1.0, 2.0, 2.0], 0.05), []);
        assert_eq!(change_points(&[5.0; 40], 0.05), []);
    }
}
