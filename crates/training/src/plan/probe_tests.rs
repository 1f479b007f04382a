//! Tests the probe on epochs with a known outcome.

use proptest::prelude::*;

use super::*;
use stormlp_core::mt19937::Mt19937;

/// A judge for an epoch of `steps` steps of 32 samples with 100 ms of compute.
fn judge(steps: u64, most_steps: u64) -> Judge {
    Judge {
        enough: StopCondition::Verdict { threshold: 0.9 },
        steps,
        left_out: 1,
        most_steps,
        samples_per_step: 32.0,
        compute_seconds: 0.1,
        marks: Vec::new(),
        looks: 0,
        looked_at: 0,
        decided: false,
    }
}

/// Storage that delivers `share` of the demand, with `ahead` steps read ahead, over `steps` steps;
/// `noise` is the relative deviation of a step's reads, `memory` its autocorrelation.
fn marks(steps: u64, share: f64, ahead: f64, noise: f64, memory: f64, seed: u32) -> Vec<StepMark> {
    let mut random = Mt19937::new(seed);
    let (mut deviation, mut read, mut computed) = (0.0, 0.0f64, 0.0f64);
    let mut ends = Vec::new();
    let mut landed = Vec::new();
    for step in 0..steps {
        deviation =
            memory * deviation + (1.0 - memory * memory).sqrt() * noise * random.next_gaussian();
        let takes = 0.1 / share * (1.0 + deviation).max(0.1);
        // Reads run at most this many steps ahead of compute.
        let room = (step as f64 - ahead).max(0.0) as usize;
        let free = ends.get(room).filter(|_| step as f64 > ahead).copied();
        read = read.max(free.unwrap_or(0.0)) + takes;
        landed.push(read);
        if step as f64 + 1.0 < ahead {
            continue;
        }
        // The first batches are read at once, so the first step waits for all of them.
        let pending = landed.len() - ends.len();
        for _ in 0..pending {
            computed = computed.max(read) + 0.1;
            ends.push(computed);
        }
    }
    let samples = |end: f64| 32 * landed.iter().take_while(|at| **at <= end).count() as u64;
    let mark = |end: &f64| StepMark { nanos: (end * 1e9) as u64, samples: samples(*end) };
    ends.iter().map(mark).collect()
}

/// Feeds steps to a judge one by one until it stops.
fn judged(mut judge: Judge, marks: &[StepMark]) -> Forecast {
    for mark in marks {
        if judge.hear(std::slice::from_ref(mark)) {
            break;
        }
    }
    judge.forecast().unwrap()
}

fn true_au(marks: &[StepMark]) -> f64 {
    let (first, last) = (marks.first().unwrap(), marks.last().unwrap());
    (marks.len() - 1) as f64 * 0.1e9 / (last.nanos - first.nanos) as f64 * 100.0
}

#[test]
fn clear_cases_are_certain_within_some_seconds() {
    for (share, passes) in [(2.0, true), (0.7, false)] {
        let marks = marks(1000, share, 2.0, 0.05, 0.0, 1);
        let forecast = judged(judge(1000, 1000), &marks);
        assert_eq!((forecast.passes, forecast.certain), (passes, true));
        assert!(forecast.steps < 80, "{forecast:?}");
        let truth = true_au(&marks);
        assert!((forecast.au_percent - truth).abs() < 3.0, "{truth} {forecast:?}");
    }
}

#[test]
fn what_was_read_ahead_hides_no_slow_storage() {
    let marks = marks(1000, 0.8, 60.0, 0.01, 0.0, 1);
    // All data consumed so far had been read ahead.
    assert!(true_au(&marks[..40]) > 97.0);
    let forecast = judged(judge(1000, 1000), &marks);
    assert!(forecast.steps < 300 && forecast.certain && !forecast.passes, "{forecast:?}");
    assert!((forecast.au_percent - true_au(&marks)).abs() < 4.0, "{forecast:?}");
    // An epoch that ends before this shows does pass.
    let short = marks[..40].to_vec();
    let forecast = judged(judge(40, 40), &short);
    assert!(forecast.passes, "{forecast:?}");
}

#[test]
fn a_close_case_is_a_guess_or_takes_its_time() {
    let marks = marks(4000, 0.9005, 2.0, 0.2, 0.5, 3);
    let forecast = judged(judge(4000, 500), &marks);
    assert!(forecast.steps >= 300 || !forecast.certain, "{forecast:?}");
    assert!((forecast.au_percent - 90.0).abs() < 4.0);
    assert!(forecast.au_error.unwrap() > 0.1);
}

#[test]
fn a_complete_epoch_is_always_certain() {
    let marks = marks(12, 0.91, 2.0, 0.0, 0.0, 1);
    let mut judge = judge(12, 12);
    judge.hear(&marks);
    let forecast = judge.forecast().unwrap();
    assert!(forecast.certain);
    assert!((forecast.au_percent - true_au(&marks)).abs() < 1e-6);
}

#[test]
fn verdicts_are_wrong_no_more_often_than_they_say() {
    let mut wrong = 0;
    let mut certain = 0;
    for seed in 0..1000 {
        // Slightly below or above the threshold, with autocorrelated noise.
        let share = if seed % 2 == 0 { 0.87 } else { 0.935 };
        let marks = marks(2000, share, 2.0, 0.15, 0.6, seed);
        let passes = true_au(&marks) >= 90.0;
        let forecast = judged(judge(2000, 500), &marks);
        certain += u32::from(forecast.certain);
        wrong += u32::from(forecast.certain && forecast.passes != passes);
    }
    assert!(certain > 300, "{certain}");
    assert!(wrong <= 20, "{wrong} of {certain}");
}

proptest! {
    #[test]
    fn any_row_of_marks_is_taken(
        steps in 1u64..50,
        gaps in prop::collection::vec((0u64..2_000_000_000, 0u64..100), 0..60),
    ) {
        let mut judge = judge(steps, steps);
        let (mut nanos, mut samples) = (0, 0);
        for (gap, came) in gaps {
            nanos += gap;
            samples += came;
            judge.hear(&[StepMark { nanos, samples }]);
            if let Some(forecast) = judge.forecast() {
                prop_assert!(forecast.au_percent.is_finite() && forecast.au_percent >= 0.0);
                prop_assert!(forecast.samples_per_second.is_finite());
            }
        }
    }
}

#[test]
fn a_prefetched_epoch_shows_nothing_about_storage() {
    let may_live = |steps: u64, share: f64| {
        let mut judge = judge(steps, steps);
        judge.hear(&marks(steps, share, 8.0, 0.0, 0.0, 1));
        judge.may_live_on_read_ahead(0.9)
    };
    // No data is left to read once AU counts, whatever storage delivers.
    assert!(may_live(9, 0.2) && may_live(9, 2.0));
    // The remaining reads reveal it.
    assert!(may_live(30, 0.7));
    assert!(!may_live(30, 2.0));
    // In a long epoch read-ahead matters little.
    assert!(!may_live(500, 0.7));
}
