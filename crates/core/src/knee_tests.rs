//! The search on known curves.

use proptest::prelude::*;

use super::*;

/// Lines of the given costs, with no runs yet.
fn lines(costs: &[&[u64]], repeat: usize) -> Search {
    let setting = |cost: &u64| Setting { cost: *cost, ..Setting::default() };
    Search {
        lines: (costs.iter().map(|line| line.iter().map(setting).collect())).collect(),
        repeat,
    }
}

/// Runs a search on the rates that `rate` returns for line, cost and run; `None` fails the run.
fn search(
    costs: &[&[u64]],
    repeat: usize,
    rate: impl Fn(usize, u64, usize) -> Option<f64>,
) -> (Search, usize) {
    let mut search = lines(costs, repeat);
    let mut runs = 0;
    while let Some((line, index)) = search.next() {
        runs += 1;
        assert!(runs < 1000, "a search that does not end: {search:?}");
        let setting = &mut search.lines[line][index];
        let measured = rate(line, setting.cost, setting.runs);
        setting.runs += 1;
        setting.rates.extend(measured);
    }
    (search, runs)
}

const DEPTHS: [u64; 12] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];

fn knee_cost(search: &Search) -> u64 {
    search.at(search.found().unwrap().knee).cost
}

#[test]
fn a_line_is_walked_in_doublings_and_then_narrowed() {
    let (found, runs) = search(&[&DEPTHS], 1, |_, cost, _| Some(cost.min(11) as f64));
    assert_eq!(knee_cost(&found), 12);
    // 1, 2, 4, 8, 16, 32 and 64, and 12 between 8 and 16.
    assert_eq!(runs, 8);
    let found = found.found().unwrap();
    assert!(!found.is_lower_bound && found.ties.is_empty());
    assert_eq!(found.noise_percent, None);
}

#[test]
fn one_bad_measurement_does_not_end_a_search() {
    let (found, _) = search(&[&DEPTHS], 1, |_, cost, _| match cost {
        4 => Some(1.9),
        cost => Some(cost.min(32) as f64),
    });
    assert_eq!(knee_cost(&found), 32);
}

#[test]
fn a_setting_that_falls_is_repeated_before_it_ends_a_walk() {
    // The first runs at 4 and 8 were disturbed.
    let rate = |_, cost: u64, run| match (cost, run) {
        (4 | 8, 0) => Some(1.5),
        _ => Some(cost.min(32) as f64),
    };
    let (found, _) = search(&[&DEPTHS], 3, rate);
    assert_eq!(found.at((0, 3)).runs, 2, "{found:?}");
    assert!(found.found().unwrap().best.1 >= 9, "{found:?}");
}

#[test]
fn noise_does_not_make_a_far_setting_enough() {
    // A quarter of the best, and repetitions that differ by 70 %.
    let rate = |_, cost: u64, run| Some(cost.min(16) as f64 * [0.3, 1.0, 1.7][run % 3]);
    let (found, _) = search(&[&DEPTHS], 3, rate);
    let answer = found.found().unwrap();
    assert!(found.rate(answer.knee) >= 0.95 * found.rate(answer.best), "{answer:?}");
    assert!(answer.noise_percent.unwrap() > 50.0, "{answer:?}");
    // Nor does it make it certain that fewer do not reach the best.
    let ties: Vec<u64> = answer.ties.iter().map(|place| found.at(*place).cost).collect();
    assert!(ties.contains(&8), "{ties:?}");
    for place in &answer.ties {
        assert_eq!(found.at(*place).runs, 3, "what is open is repeated");
    }
}

#[test]
fn repeated_searches_of_noisy_storage_agree() {
    // Storage that is flat from 16 on, with noise of 1.5 %, searched 200 times.
    let mut knees = Vec::new();
    for seed in 0..200u64 {
        let (found, _) = search(&[&DEPTHS], 3, |_, cost, run| {
            let mixed = (seed << 32 | cost << 8 | run as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let drawn = (mixed >> 40) as f64 / f64::from(1u32 << 24);
            Some(100.0 * (cost.min(16) as f64 / 16.0) * (1.0 + 0.052 * (drawn - 0.5)))
        });
        knees.push(knee_cost(&found));
    }
    let right = knees.iter().filter(|knee| **knee == 16).count();
    assert!(right >= 190, "{knees:?}");
}

#[test]
fn a_gain_at_the_last_setting_is_a_lower_bound() {
    let (found, _) = search(&[&DEPTHS], 1, |_, cost, _| Some(cost as f64));
    assert!(found.found().unwrap().is_lower_bound);
    assert_eq!(knee_cost(&found), 64);
    let (found, _) = search(&[&[8]], 3, |_, _, _| Some(1.0));
    assert!(found.found().unwrap().is_lower_bound, "one setting shows no knee");
}

#[test]
fn more_threads_are_tried_until_they_gain_nothing() {
    // One thread reaches 3 at most, the storage 8.
    let two = DEPTHS.map(|depth| 2 * depth);
    let four = DEPTHS.map(|depth| 4 * depth);
    let eight = DEPTHS.map(|depth| 8 * depth);
    let (found, runs) = search(&[&DEPTHS, &two, &four, &eight], 1, |line, cost, _| {
        Some((cost as f64).min(3.0 * f64::from(1u32 << line)).min(8.0))
    });
    let answer = found.found().unwrap();
    assert_eq!((answer.knee.0, knee_cost(&found)), (2, 8));
    assert!(!answer.is_lower_bound);
    assert!(runs <= 22, "{runs} runs of 48");
}

#[test]
fn settings_within_the_noise_are_not_distinguished() {
    // Depth 16 averages 97.5 %, and repetitions vary by 2 %.
    let wobble = |run| 1.0 + 0.02 * [0.0, 1.0, -1.0][run % 3];
    let rate = |_, cost: u64, run| match cost {
        32.. => Some(100.0 * wobble(run)),
        24 => Some(99.0 * wobble(run)),
        16 => Some(97.5 * wobble(run)),
        _ => Some(cost as f64),
    };
    let (found, _) = search(&[&DEPTHS], 3, rate);
    let answer = found.found().unwrap();
    assert_eq!(knee_cost(&found), 16);
    assert!((1.5..2.5).contains(&answer.noise_percent.unwrap()));
    let ties: Vec<u64> = answer.ties.iter().map(|place| found.at(*place).cost).collect();
    assert_eq!(ties, [24]);
    for place in [answer.knee, answer.best] {
        assert_eq!(found.at(place).runs, 3);
    }
}

#[test]
fn a_failed_setting_has_no_rate_and_ends_its_line() {
    let (found, runs) = search(&[&DEPTHS, &DEPTHS], 3, |_, _, _| None);
    assert_eq!((found.found(), runs), (None, 1));
    let (found, _) = search(&[&DEPTHS], 3, |_, cost, _| (cost < 8).then_some(cost as f64));
    assert_eq!(knee_cost(&found), 4);
}

proptest! {
    #[test]
    fn the_knee_of_a_rising_and_then_flat_curve_is_found(
        limit in 1.0..64.0f64,
        threads in 1usize..5,
        repeat in 1usize..4,
    ) {
        let costs: Vec<Vec<u64>> = (0..threads)
            .map(|line| DEPTHS.iter().map(|depth| depth << line).collect())
            .collect();
        let costs: Vec<&[u64]> = costs.iter().map(Vec::as_slice).collect();
        let rate = |cost: u64| (cost as f64).min(limit);
        let (found, runs) = search(&costs, repeat, |_, cost, _| Some(rate(cost)));
        let enough = limit * (1.0 - WITHIN);
        let least = costs.iter().copied().flatten().filter(|cost| rate(**cost) >= enough).min();
        prop_assert_eq!(Some(knee_cost(&found)), least.copied());
        prop_assert!(runs <= 2 * lines(&costs, repeat).likely_runs(), "{}", runs);
    }

    #[test]
    fn a_search_ends_for_any_measurements(seed in any::<u64>(), threads in 1usize..5) {
        let costs: Vec<Vec<u64>> = (0..threads)
            .map(|line| DEPTHS.iter().map(|depth| depth << line).collect())
            .collect();
        let costs: Vec<&[u64]> = costs.iter().map(Vec::as_slice).collect();
        let (found, runs) = search(&costs, 3, |line, cost, run| {
            let mixed = seed.wrapping_mul(cost + 1).wrapping_add((line * 31 + run * 7) as u64);
            let drawn = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            (drawn % 10 > 0).then_some(drawn as f64)
        });
        prop_assert!(runs <= threads * DEPTHS.len() * 3);
        prop_assert!(found.next().is_none());
    }
}

#[test]
fn storage_is_not_named_where_other_programs_used_the_cpus() {
    let beside = |others, at_work| {
        KneeLimit::beside(others, (at_work, 4.0), KneeLimit::of(at_work, 4.0, false))
    };
    assert_eq!(beside(0.0, 1.0), Some(KneeLimit::Storage));
    assert_eq!(beside(1.0, 1.0), Some(KneeLimit::Storage));
    assert_eq!(beside(2.5, 1.0), Some(KneeLimit::Others));
    assert_eq!(beside(0.6, 3.9), Some(KneeLimit::Client));
}
