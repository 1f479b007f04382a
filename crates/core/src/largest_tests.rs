//! Tests the search on curves with a known answer.

use proptest::prelude::*;

use super::*;

/// The delivered throughput at a count, in percent of the demand.
trait Curve {
    fn au(&self, count: u32) -> f64;
}

impl<F: Fn(u32) -> f64> Curve for F {
    fn au(&self, count: u32) -> f64 {
        self(count)
    }
}

const THRESHOLD: f64 = 90.0;

fn trial(curve: &dyn Curve, count: u32, kind: RunKind) -> Trial {
    let au = curve.au(count);
    let suggested = (f64::from(count) * au / THRESHOLD) as u32;
    Trial {
        count,
        kind,
        passed: au >= THRESHOLD,
        certain: true,
        suggests: (au < 97.0).then_some(suggested),
    }
}

fn run(mut search: Search, curve: &dyn Curve) -> Search {
    for _ in 0..10_000 {
        match search.next() {
            Some((count, kind)) => search.tell(trial(curve, count, kind)),
            None => return search,
        }
    }
    panic!("no end: {:?}", &search.trials[..20]);
}

/// Storage that delivers the demand of `capacity` accelerators at the threshold.
fn saturating(capacity: f64) -> impl Fn(u32) -> f64 {
    move |count| (THRESHOLD * capacity / f64::from(count)).min(99.5)
}

#[test]
fn a_good_estimate_needs_two_probes() {
    let search = run(Search::new(20, 1000, 1), &saturating(20.4));
    let tried: Vec<_> = search.trials().iter().map(|t| (t.count, t.kind)).collect();
    use RunKind::{Full, Probe};
    assert_eq!(tried, [(20, Probe), (21, Probe), (20, Full), (21, Full)]);
    assert!(!search.is_lower_bound());
}

#[test]
fn a_count_that_passes_and_misses_is_none_that_always_passed() {
    let mut search = Search::new(23, 100, 1);
    let tell = |search: &mut Search, count, kind, passed, certain| {
        search.tell(Trial { count, kind, passed, certain, suggests: None });
    };
    use RunKind::{Full, Probe};
    tell(&mut search, 23, Probe, true, true);
    tell(&mut search, 24, Probe, false, true);
    assert_eq!(search.next(), Some((23, RunKind::Full)));
    tell(&mut search, 23, Full, false, true);
    assert_eq!(search.inconsistent(), [23]);
    assert_eq!(search.bracket(), Bracket { passing: 0, missing: Some(23) });
    tell(&mut search, 22, Probe, true, true);
    assert_eq!(search.next(), Some((22, RunKind::Full)));
    tell(&mut search, 22, Full, true, true);
    assert_eq!(search.next(), None, "23 has had its full run");
    assert_eq!(search.bracket(), Bracket { passing: 22, missing: Some(23) });
}

#[test]
fn a_guess_is_overruled_by_a_full_run() {
    let mut search = Search::new(8, 100, 1);
    let guess = |count, passed| Trial {
        count,
        kind: RunKind::Probe,
        passed,
        certain: false,
        suggests: None,
    };
    search.tell(guess(8, true));
    search.tell(guess(9, false));
    assert_eq!(search.next(), Some((8, RunKind::Full)));
    search.tell(Trial { kind: RunKind::Full, certain: true, ..guess(8, true) });
    assert_eq!(search.next(), Some((9, RunKind::Full)));
    search.tell(Trial { kind: RunKind::Full, certain: true, ..guess(9, true) });
    assert_eq!(search.bracket(), Bracket { passing: 9, missing: None });
    assert_eq!(search.inconsistent(), [0; 0]);
    assert!(matches!(search.next(), Some((count, RunKind::Probe)) if count > 9));
}

#[test]
fn not_even_one_is_confirmed_too() {
    let search = run(Search::new(5, 100, 1), &|_| 40.0);
    assert_eq!(search.bracket(), Bracket { passing: 0, missing: Some(1) });
    let last = search.trials().last().unwrap();
    assert_eq!((last.count, last.kind), (1, RunKind::Full));
}

#[test]
fn what_passes_at_the_limit_is_a_lower_bound() {
    let mut search = Search::new(4, 1_000_000, 1);
    search.limit(48);
    let search = run(search, &|_| 99.9);
    assert!(search.is_lower_bound());
    assert_eq!(search.bracket(), Bracket { passing: 48, missing: None });
}

#[test]
fn the_published_cliff_is_found() {
    // AU 72, 70 and 59 % were published at 23, 24 and 25 accelerators.
    let curve = |count: u32| match count {
        0..=22 => 95.0,
        23 => 90.0 + 2.0,
        24 => 90.0,
        _ => 79.0,
    };
    for first in 1..100 {
        let search = run(Search::new(first, 1000, 1), &curve);
        assert_eq!(search.bracket(), Bracket { passing: 24, missing: Some(25) });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn slopes_are_solved_within_the_bound(
        answer in 1u32..5000,
        within in 0.01f64..0.99,
        off in 0.5f64..2.0,
        confirm in 0u32..4,
    ) {
        let first = ((f64::from(answer) * off) as u32).clamp(answer.div_ceil(2), answer * 2);
        let search = run(Search::new(first, 1_000_000, confirm), &saturating(f64::from(answer) + within));
        let found = search.bracket();
        prop_assert_eq!(found, Bracket { passing: answer, missing: Some(answer + 1) });
        prop_assert!(search.probes() <= most_probes(answer), "{:?}", search.trials());
        let full = search.trials().len() as u32 - search.probes();
        prop_assert_eq!(full, 2 * confirm);
    }

    /// A cliff gives no hint of its position: below it everything passes, above it no setting does.
    #[test]
    fn cliffs_are_solved_within_the_bound(
        answer in 1u32..5000,
        first in 0.5f64..2.0,
        before in 90.0f64..100.0,
        after in 0.0f64..89.9,
    ) {
        let first = ((f64::from(answer) * first) as u32).clamp(answer.div_ceil(2), answer * 2);
        let curve = |count: u32| if count <= answer { before } else { after };
        let search = run(Search::new(first, 1_000_000, 1), &curve);
        prop_assert_eq!(search.bracket(), Bracket { passing: answer, missing: Some(answer + 1) });
        prop_assert!(search.probes() <= most_probes(answer), "{:?}", search.trials());
    }

    /// Any falling curve is solved, however wrong the estimate.
    #[test]
    fn any_estimate_finds_the_answer(
        answer in 0u32..3000,
        first in 1u32..100_000,
        shape in 0.01f64..3.0,
    ) {
        let curve = |count: u32| {
            let load = f64::from(count) / (f64::from(answer) + 0.5);
            (THRESHOLD / load.powf(shape)).min(100.0)
        };
        let search = run(Search::new(first, 1_000_000, 2), &curve);
        let found = search.bracket();
        prop_assert_eq!(found, Bracket { passing: answer, missing: Some(answer + 1) });
        prop_assert!(search.probes() <= 2 * ceil_log2(answer.max(first)) + 6, "{:?}", search.trials());
    }

    /// Noise that makes one count both pass and miss: the search ends, its answer always passed,
    /// and all contradictory counts are reported.
    #[test]
    fn noise_never_passes_for_an_answer(
        answer in 1u32..500,
        first in 1u32..1000,
        width in 0.0f64..0.1,
        confirm in 0u32..4,
        draws in prop::collection::vec((any::<bool>(), any::<bool>()), 400),
    ) {
        let mut search = Search::new(first, 2000, confirm);
        let margin = (f64::from(answer) * width).ceil() as u32;
        for (passes, certain) in draws {
            let Some((count, kind)) = search.next() else {
                break;
            };
            let noisy = count.abs_diff(answer) <= margin;
            search.tell(Trial {
                count,
                kind,
                passed: if noisy { passes } else { count <= answer },
                certain: kind == RunKind::Full || certain || !noisy,
                suggests: None,
            });
        }
        prop_assert_eq!(search.next(), None);
        let found = search.bracket();
        let missing = found.missing.unwrap();
        prop_assert!(found.passing < missing);
        prop_assert!(missing - found.passing == 1 || confirm == 0);
        prop_assert!(found.passing <= answer + margin && missing + margin >= answer);
        let missed = |t: &&Trial| t.count == found.passing && t.certain && !t.passed;
        prop_assert!(search.trials().iter().find(missed).is_none());
        let of_answer = search.trials().iter().filter(|t| t.count == found.passing);
        let full = of_answer.filter(|t| t.kind == RunKind::Full).count() as u32;
        prop_assert!(found.passing == 0 || full == confirm);
        for count in search.inconsistent() {
            prop_assert!(count > found.passing);
            prop_assert!(count.abs_diff(answer) <= margin);
        }
    }
}
