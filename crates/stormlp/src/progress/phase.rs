//! A phase of work: a bar on a terminal, occasional lines elsewhere, and nothing at all if it ends
//! within a second.

use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use stormlp_core::event::Unit;
use stormlp_core::printable::printable;
use stormlp_core::units::{ByteSize, format_duration};

use super::{LINE_EVERY, QUIET_FOR};
use crate::output;

/// The current phase.
#[derive(Debug)]
pub(super) struct Phase {
    label: String,
    total: Option<u64>,
    unit: Unit,
    done: u64,
    started: Instant,
    /// When the last line was printed, or the phase started.
    said: Instant,
    /// Hidden until the phase has run long enough.
    bar: ProgressBar,
}

impl Phase {
    /// Starts a phase now.
    pub(super) fn new(label: &str, total: Option<u64>, unit: Unit) -> Self {
        let label = printable(label);
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

    /// Updates the amount done.
    pub(super) fn advance(&mut self, done: u64, terminal: bool) {
        self.done = done;
        self.bar.set_position(done);
        let now = Instant::now();
        if terminal {
            if self.bar.is_hidden() && now.duration_since(self.started) >= QUIET_FOR {
                self.bar.set_draw_target(ProgressDrawTarget::stderr());
                self.bar.tick();
            }
        } else if now.duration_since(self.said) >= LINE_EVERY {
            self.said = now;
            output::say(self.line());
        }
    }

    /// Removes the bar; a log gets a line for a long phase.
    pub(super) fn finish(&self, terminal: bool) {
        self.bar.finish_and_clear();
        let took = self.started.elapsed();
        if !terminal && took >= QUIET_FOR {
            let took = format_duration(took.as_secs_f64());
            // Not "done": it may have been stopped.
            output::say(format!("{}: took {took}", self.label));
        }
    }

    /// The progress bar.
    pub(super) fn bar(&self) -> &ProgressBar {
        &self.bar
    }

    /// Progress, for a log.
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

/// The bar template for a unit; the bar takes the width left by the text, so that the line fits.
fn template(bounded: bool, unit: Unit) -> &'static str {
    match (bounded, unit) {
        (true, Unit::Bytes) => {
            "{msg} [{wide_bar}] {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left"
        }
        (true, Unit::Milliseconds) => "{msg} [{wide_bar}] {percent} %, {eta} left",
        (true, Unit::Steps | Unit::Files) => "{msg} [{wide_bar}] {pos} of {len}, {eta} left",
        (false, Unit::Bytes) => "{msg} {binary_bytes}, {binary_bytes_per_sec}",
        (false, Unit::Milliseconds) => "{msg} {elapsed}",
        (false, Unit::Steps | Unit::Files) => "{msg} {pos}",
    }
}

#[cfg(test)]
mod tests {
    use super::{Phase, template};
    use indicatif::ProgressStyle;
    use stormlp_core::event::Unit;

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
