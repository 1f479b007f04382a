//! Training during a save: how much waiting asynchronous checkpointing leaves.
//!
//! Emulated steps continue while the save runs. If the next checkpoint is due before the save has
//! finished, training stalls until it has. That stall plus the delay of the steps is the cost of
//! the save for training. If the save fails or the user stops the run, training ends at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::plan::CheckpointPlan;
use crate::report::OverlapResult;
use stormlp_core::stop::StopToken;
use stormlp_transfer::thread_group::ThreadGroupError;

/// How often a step checks whether training is still needed.
const TICK: Duration = Duration::from_millis(50);

/// Emulated training steps between two checkpoints.
#[derive(Debug, Clone, Copy)]
pub(super) struct EmulatedSteps {
    seconds: f64,
    count: u32,
}

impl EmulatedSteps {
    /// As many as fill the time between checkpoints; `None` unless saves overlap with training.
    pub(super) fn of(plan: &CheckpointPlan) -> Option<Self> {
        let seconds = plan.request.overlap_step_seconds?;
        let count = (plan.pause_seconds / seconds).ceil().max(1.0) as u32;
        Some(Self { seconds, count })
    }
}

/// Runs emulated steps on a separate thread while `save` runs on this one. No result of the steps
/// is returned if `save` is not `whole` or if `stop` was requested before the last step.
pub(super) fn beside<T>(
    steps: Option<EmulatedSteps>,
    stop: &StopToken,
    save: impl FnOnce() -> T,
    whole: impl FnOnce(&T) -> bool,
) -> Result<(T, Option<Trained>), ThreadGroupError> {
    let Some(steps) = steps else {
        return Ok((save(), None));
    };
    let in_vain = AtomicBool::new(false);
    let is_over = || in_vain.load(Ordering::Relaxed) || stop.is_stopped();
    thread::scope(|scope| {
        let trainer = thread::Builder::new()
            .name("trainer".to_string())
            .spawn_scoped(scope, || train(steps, is_over))
            .map_err(ThreadGroupError::Start)?;
        let start = Instant::now();
        let result = save();
        let save_seconds = start.elapsed().as_secs_f64();
        in_vain.store(!whole(&result), Ordering::Relaxed);
        let late_seconds = trainer.join().ok().flatten();
        let trained = late_seconds.map(|late_seconds| Trained {
            steps,
            late_seconds,
            train_end_seconds: steps.seconds * f64::from(steps.count) + late_seconds,
            save_seconds,
        });
        Ok((result, trained))
    })
}

/// Training results during a save.
pub(super) struct Trained {
    steps: EmulatedSteps,
    late_seconds: f64,
    train_end_seconds: f64,
    save_seconds: f64,
}

impl Trained {
    /// The result, for a save that would have blocked training for `blocking_seconds`.
    pub(super) fn result(&self, blocking_seconds: f64) -> OverlapResult {
        OverlapResult {
            step_seconds: self.steps.seconds,
            steps: self.steps.count,
            stall_seconds: (self.save_seconds - self.train_end_seconds).max(0.0),
            late_seconds: self.late_seconds,
            blocking_seconds,
        }
    }
}

/// Sleeps through the steps and returns their total delay, or `None` if `is_over` before the last
/// has ended. A step starts only after the one before it has ended.
fn train(steps: EmulatedSteps, is_over: impl Fn() -> bool) -> Option<f64> {
    let step = Duration::from_secs_f64(steps.seconds);
    let mut late = Duration::ZERO;
    for _ in 0..steps.count {
        let due = Instant::now() + step;
        while let Some(left) = due.checked_duration_since(Instant::now()).filter(|d| !d.is_zero()) {
            if is_over() {
                return None;
            }
            thread::sleep(left.min(TICK));
        }
        late += due.elapsed();
    }
    Some(late.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: EmulatedSteps = EmulatedSteps { seconds: 0.001, count: 3 };

    #[test]
    fn a_save_that_ends_early_delays_nothing() {
        let ((), trained) = beside(Some(STEPS), &StopToken::new(), || (), |()| true).unwrap();
        let result = trained.unwrap().result(0.5);
        assert_eq!((result.stall_seconds, result.steps), (0.0, 3));
        assert_eq!(result.blocking_seconds, 0.5);
    }

    #[test]
    fn a_long_save_delays_training_for_the_remainder() {
        let trained = Trained {
            steps: STEPS,
            late_seconds: 0.0,
            train_end_seconds: 0.003,
            save_seconds: 2.003,
        };
        assert!((trained.result(2.003).stall_seconds - 2.0).abs() < 1e-9);
    }

    #[test]
    fn without_overlap_only_the_save_runs() {
        let (value, trained) = beside(None, &StopToken::new(), || 7, |_| true).unwrap();
        assert_eq!(value, 7);
        assert!(trained.is_none());
    }

    /// More than a day of training: a test that waits for it never ends.
    const ENDLESS: EmulatedSteps = EmulatedSteps { seconds: 86_400.0, count: 2 };

    #[test]
    fn training_ends_with_the_users_wish_and_leaves_no_figures() {
        let stop = StopToken::new();
        let ((), trained) = beside(Some(ENDLESS), &stop, || stop.stop(), |()| true).unwrap();
        assert!(trained.is_none());
    }

    #[test]
    fn a_failed_save_does_not_wait_for_training() {
        let stop = StopToken::new();
        let (saved, trained) =
            beside(Some(ENDLESS), &stop, || Err::<(), _>(5), Result::is_ok).unwrap();
        assert_eq!(saved, Err(5));
        assert!(trained.is_none());
    }
}
