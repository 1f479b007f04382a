//! Tests of verdicts for small sets of values.

use proptest::prelude::*;

use super::*;

fn sides(baseline: &[f64], now: &[f64]) -> Sides {
    Sides {
        higher_is_better: true,
        headline: true,
        effect: 0.05,
        baseline: baseline.to_vec(),
        now: now.to_vec(),
        earlier: Vec::new(),
    }
}

fn only(sides: Sides, design: Design) -> Judged {
    judge(&[sides], design)[0]
}

#[test]
fn the_direction_decides_the_name_of_a_difference() {
    let (before, now) = ([10.0, 10.1, 9.9], [9.0, 9.1, 8.9]);
    let slower = only(sides(&before, &now), Design::Turns);
    assert_eq!(slower.verdict, Verdict::Regressed);
    assert_eq!(slower.basis, Some(Basis::Runs));
    assert!((slower.change.unwrap_or_default() + 0.1).abs() < 1e-3);
    assert_eq!(only(sides(&now, &before), Design::Turns).verdict, Verdict::Improved);
    let latency = Sides { higher_is_better: false, ..sides(&before, &now) };
    assert_eq!(only(latency, Design::Turns).verdict, Verdict::Improved);
}

#[test]
fn the_same_and_cannot_tell_are_two_answers() {
    let steady = only(sides(&[10.0, 10.1, 9.9], &[10.05, 9.95, 10.1]), Design::Turns);
    assert_eq!(steady.verdict, Verdict::Same, "{steady:?}");
    let noisy = only(sides(&[10.0, 14.0, 7.0], &[9.0, 13.0, 8.0]), Design::Turns);
    assert_eq!(noisy.verdict, Verdict::CannotTell, "{noisy:?}");
    let [low, high] = noisy.interval.unwrap();
    assert!(low < -0.05 && high > 0.05);
    // A certain change that is too small to matter.
    let small = only(sides(&[10.0; 8], &[10.01; 8]), Design::Turns);
    assert!(small.verdict == Verdict::Same && small.adjusted < Some(1e-9), "{small:?}");
    // Three equal values do not show how the next one varies.
    let few = only(sides(&[10.0; 3], &[12.0; 3]), Design::Turns);
    assert_eq!((few.verdict, few.adjusted), (Verdict::CannotTell, None));
    for (interval, verdict) in [
        ([-0.05, 0.05], Verdict::Same),
        ([-0.051, 0.01], Verdict::CannotTell),
        ([0.0, 0.2], Verdict::CannotTell),
        ([0.01, 0.2], Verdict::Improved),
        ([-0.2, -0.01], Verdict::Regressed),
    ] {
        assert_eq!(Verdict::of(interval, 0.05, true), verdict, "{interval:?}");
    }
}

#[test]
fn one_run_has_a_change_and_no_verdict() {
    let one = only(sides(&[10.0], &[5.0]), Design::OneRun);
    assert_eq!((one.verdict, one.interval, one.basis), (Verdict::CannotTell, None, None));
    assert!((one.change.unwrap() + 0.5).abs() < 1e-12);
    let many = only(sides(&[10.0, 10.1, 9.9, 10.0], &[5.0]), Design::OneRun);
    assert_eq!(many.verdict, Verdict::CannotTell);
}

#[test]
fn pairs_cancel_what_both_runs_share() {
    let drift: Vec<f64> = (0..10).map(|n| 10.0 * 1.1f64.powi(n)).collect();
    let slower: Vec<f64> =
        drift.iter().enumerate().map(|(n, x)| x * (0.9 + 0.001 * (n % 3) as f64)).collect();
    let paired = only(sides(&drift, &slower), Design::Pairs);
    assert_eq!((paired.verdict, paired.basis), (Verdict::Regressed, Some(Basis::Pairs)));
    assert_eq!(only(sides(&drift, &slower), Design::Turns).verdict, Verdict::CannotTell);
}

#[test]
fn sides_in_blocks_need_many_runs_that_do_not_drift() {
    let (before, now) = ([10.0, 10.1, 9.9, 10.0, 10.1], [9.0, 9.1, 8.9, 9.0, 9.1]);
    let few = only(sides(&before, &now), Design::Blocks);
    assert_eq!((few.verdict, few.interval), (Verdict::CannotTell, None));
    let steady = |level: f64| -> Vec<f64> {
        (0..12).map(|n| level * (1.0 + 0.01 * f64::from(n * 5 % 7))).collect()
    };
    let many = only(sides(&steady(10.0), &steady(9.0)), Design::Blocks);
    assert_eq!((many.verdict, many.basis), (Verdict::Regressed, Some(Basis::Blocks)));
    let drifting: Vec<f64> = (0..12).map(|n| 10.0 - 0.1 * f64::from(n)).collect();
    let drift = only(sides(&drifting, &steady(8.8)), Design::Blocks);
    assert_eq!((drift.verdict, drift.interval), (Verdict::CannotTell, None));
}

#[test]
fn earlier_reports_are_the_noise_of_a_single_run() {
    let earlier: Vec<f64> = (0..20).map(|n| 10.0 + 0.1 * f64::from(n * 7 % 5)).collect();
    let with = |now: f64, design| {
        only(Sides { earlier: earlier.clone(), ..sides(&[10.2], &[now]) }, design)
    };
    assert_eq!(with(9.0, Design::OneRun).verdict, Verdict::Regressed);
    assert_eq!(with(10.1, Design::OneRun).basis, Some(Basis::Earlier));
    assert_ne!(with(10.0, Design::OneRun).verdict, Verdict::Regressed);
    let few = Sides { earlier: earlier[..19].to_vec(), ..sides(&[10.2], &[9.0]) };
    assert_eq!(only(few, Design::OneRun).verdict, Verdict::CannotTell);
}

#[test]
fn figures_share_the_error_and_headlines_have_half_of_it() {
    let doubtful = sides(&[10.0, 10.2, 9.8], &[9.5, 9.7, 9.3]);
    let alone = only(doubtful.clone(), Design::Turns);
    assert_eq!(alone.verdict, Verdict::Regressed);
    let other = Sides { headline: false, ..doubtful.clone() };
    let family = [doubtful, other.clone(), other.clone(), other];
    let outcomes = judge(&family, Design::Turns);
    assert_eq!(outcomes[0].adjusted.unwrap(), 2.0 * alone.adjusted.unwrap());
    assert!(outcomes[1].adjusted > outcomes[0].adjusted);
    for outcome in outcomes {
        let [low, high] = outcome.interval.unwrap();
        let excludes = low > 0.0 || high < 0.0;
        assert_eq!(excludes, outcome.adjusted.unwrap() < ERROR);
    }
}

#[test]
fn a_comparison_ends_where_more_runs_would_not_change_the_answer() {
    for (interval, settled) in [
        ([-0.01, 0.01], true),
        ([0.03, 0.07], true),
        ([-0.9, -0.2], true),
        ([-0.04, 0.09], false),
        ([-0.2, -0.01], false),
    ] {
        assert_eq!(Judged::is_settled(interval, 0.05), settled, "{interval:?}");
    }
}

proptest! {
    #[test]
    fn no_numbers_break_a_comparison(
        before in prop::collection::vec(prop_oneof![Just(0.0), -1e20..1e20, 1.0..2.0], 0..12),
        now in prop::collection::vec(prop_oneof![Just(0.0), -1e20..1e20, 1.0..2.0], 0..12),
        earlier in prop::collection::vec(prop_oneof![Just(0.0), 0.0..1e20], 0..30),
        design in 0..4usize,
    ) {
        let design = [Design::Pairs, Design::Turns, Design::Blocks, Design::OneRun][design];
        let outcome = only(Sides { earlier, ..sides(&before, &now) }, design);
        let told = [outcome.probability, outcome.adjusted];
        prop_assert!(told.iter().flatten().all(|p| (0.0..=1.0).contains(p)));
        prop_assert!(outcome.change.is_none_or(f64::is_finite));
        prop_assert!(outcome.interval.is_none_or(|ends| ends[0] <= ends[1]));
        prop_assert_eq!(outcome.interval.is_some(), outcome.basis.is_some());
        if outcome.verdict != Verdict::CannotTell {
            prop_assert!(outcome.interval.is_some());
        }
    }
}
