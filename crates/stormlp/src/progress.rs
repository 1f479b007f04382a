//! Draws the events of a run on stderr: a bar on a terminal, a line now and then elsewhere, and
//! nothing at all for what is over within a second.

use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use stormlp_model::event::{Event, Observer, Unit};
use stormlp_model::units::{ByteSize, format_duration};

use crate::output;

/// What ends sooner is not worth a line.
const QUIET_FOR: Duration = Duration::from_secs(1);
/// How often a log hears of a long phase.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// An observer for people.
#[derive(Debug)]
pub(crate) struct Progress {
    quiet: bool,
    terminal: bool,
    phase: Mutex<Option<Phase>>,
}

/// The stretch of work that is going on.
#[derive(Debug)]
struct Phase {
    label: String,
    total: Option<u64>,
    unit: Unit,
    done: u64,
    started: Instant,
    /// When the last line was printed, or the phase began.
    said: Instant,
    /// Hidden until the phase has lasted long enough.
    bar: ProgressBar,
}

impl Progress {
    /// Draws on stderr, or not at all when `quiet`.
    pub(crate) fn new(quiet: bool) -> Self {
        Self {
            quiet,
            terminal: std::io::stderr().is_terminal(),
            phase: Mutex::new(None),
        }
    }

    fn advance(&self, phase: &mut Phase, done: u64) {
        phase.done = done;
        phase.bar.set_position(done);
        let now = Instant::now();
        if self.terminal {
            if phase.bar.is_hidden() && now.duration_since(phase.started) >= QUIET_FOR {
                phase.bar.set_draw_target(ProgressDrawTarget::stderr());
                phase.bar.tick();
            }
        } else if now.duration_since(phase.said) >= LINE_EVERY {
            phase.said = now;
            output::say(phase.line());
        }
    }

    /// A bar disappears; a log keeps a line of what took its time.
    fn finish(&self, phase: &Phase) {
        phase.bar.finish_and_clear();
        let took = phase.started.elapsed();
        if !self.terminal && took >= QUIET_FOR {
            let took = format_duration(took.as_secs_f64());
            // Not "done": it may have been stopped.
            output::say(format!("{}: took {took}", phase.label));
        }
    }
}

impl Phase {
    fn new(label: &str, total: Option<u64>, unit: Unit) -> Self {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
        bar.set_message(label.to_string());
        if let Ok(style) = ProgressStyle::with_template(template(total.is_some(), unit)) {
            bar.set_style(style);
        }
        Self {
            label: label.to_string(),
            total,
            unit,
            done: 0,
            started: Instant::now(),
            said: Instant::now(),
            bar,
        }
    }

    /// How far it is, for a log.
    fn line(&self) -> String {
        let amount = |value| match self.unit {
            Unit::Bytes => ByteSize(value).to_string(),
            Unit::Milliseconds => format_duration(value as f64 / 1e3),
            Unit::Steps => format!("{value} steps"),
            Unit::Files => format!("{value} files"),
        };
        match self.total {
            Some(total) => format!("{}: {} of {}", self.label, amount(self.done), amount(total)),
            None => format!("{}: {}", self.label, amount(self.done)),
        }
    }
}

/// How a bar looks for a unit.
fn template(bounded: bool, unit: Unit) -> &'static str {
    match (bounded, unit) {
        (true, Unit::Bytes) => {
            "{msg} [{bar:30}] {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left"
        }
        (true, Unit::Milliseconds) => "{msg} [{bar:30}] {percent} %, {eta} left",
        (true, Unit::Steps | Unit::Files) => "{msg} [{bar:30}] {pos} of {len}, {eta} left",
        (false, Unit::Bytes) => "{msg} {binary_bytes}, {binary_bytes_per_sec}",
        (false, Unit::Milliseconds) => "{msg} {elapsed}",
        (false, Unit::Steps | Unit::Files) => "{msg} {pos}",
    }
}

impl Observer for Progress {
    fn event(&self, event: &Event) {
        if self.quiet {
            return;
        }
        // A panic elsewhere must not hide what the run still has to say.
        let mut current = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::PhaseStarted { label, total, unit } => {
                if let Some(left) = current.replace(Phase::new(label, *total, *unit)) {
                    self.finish(&left);
                }
            }
            Event::Progress { done } => {
                if let Some(phase) = current.as_mut() {
                    self.advance(phase, *done);
                }
            }
            Event::PhaseFinished => {
                if let Some(phase) = current.take() {
                    self.finish(&phase);
                }
            }
            Event::Note { message } => match current.as_ref() {
                Some(phase) if !phase.bar.is_hidden() => {
                    phase.bar.suspend(|| output::say(message));
                }
                _ => output::say(message),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Phase, template};
    use indicatif::ProgressStyle;
    use stormlp_model::event::Unit;

    const UNITS: [Unit; 4] = [Unit::Bytes, Unit::Milliseconds, Unit::Steps, Unit::Files];

    #[test]
    fn every_template_is_one_that_indicatif_reads() {
        for unit in UNITS {
            for bounded in [true, false] {
                assert!(ProgressStyle::with_template(template(bounded, unit)).is_ok());
            }
        }
    }

    #[test]
    fn a_log_line_has_units() {
        let mut phase = Phase::new("laying out 8 files", Some(8 << 30), Unit::Bytes);
        phase.done = 3 << 29;
        assert_eq!(phase.line(), "laying out 8 files: 1.50 GiB of 8 GiB");
        let mut phase = Phase::new("epoch 2 of 5", None, Unit::Steps);
        phase.done = 12;
        assert_eq!(phase.line(), "epoch 2 of 5: 12 steps");
    }
}
