//! A matrix cell: one line that fits the terminal while it runs, and a row when it ends.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use stormlp_core::event::Event;
use stormlp_core::units::{GIB, format_duration};
use stormlp_matrix::plan::CellReport;
use stormlp_matrix::show::{cell_row, cell_row_head};
use stormlp_show::numbers::{short, thousands};

use super::{LINE_EVERY, QUIET_FOR};
use crate::output;

/// The minimum time over which a displayed rate is measured.
const RATE_OVER: Duration = Duration::from_millis(500);

/// Actual against estimated duration of the completed cells.
#[derive(Debug, Default)]
pub(super) struct Pace {
    cells: u64,
    estimated_seconds: f64,
    took_seconds: f64,
}

impl Pace {
    /// The correction factor for estimates.
    fn factor(&self) -> f64 {
        match self.cells {
            0 => 1.0,
            _ => (self.took_seconds / self.estimated_seconds.max(1e-3)).clamp(0.1, 10.0),
        }
    }
}

/// The running cell.
#[derive(Debug)]
pub(super) struct Cell {
    label: String,
    number: u64,
    of: u64,
    about: bool,
    estimated_seconds: f64,
    after_seconds: f64,
    started: Instant,
    /// When the last rate was taken, with the bytes and transfers up to then.
    taken: (Instant, u64, u64),
    /// Bytes and transfers per second.
    rate: Option<(f64, f64)>,
    /// When the last line was printed, or the cell started.
    said: Instant,
    /// Hidden until the cell has run long enough.
    bar: ProgressBar,
}

impl Cell {
    /// The cell whose start `event` reports.
    pub(super) fn begin(event: &Event, now: Instant) -> Option<Self> {
        let Event::CellStarted { label, number, of, about, estimated_seconds, after_seconds } =
            event
        else {
            return None;
        };
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        // A line too long for the terminal is truncated, not wrapped.
        if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
            bar.set_style(style);
        }
        Some(Self {
            label: label.clone(),
            number: *number,
            of: *of,
            about: *about,
            estimated_seconds: *estimated_seconds,
            after_seconds: *after_seconds,
            started: now,
            taken: (now, 0, 0),
            rate: None,
            said: now,
            bar,
        })
    }

    /// The progress bar.
    pub(super) fn bar(&self) -> &ProgressBar {
        &self.bar
    }

    /// Updates the bytes and transfers completed so far.
    pub(super) fn advance(
        &mut self,
        (bytes, operations): (u64, u64),
        now: Instant,
        pace: &Pace,
        terminal: bool,
    ) {
        let (then, bytes_then, operations_then) = self.taken;
        let over = now.duration_since(then);
        if over < RATE_OVER {
            return;
        }
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / over.as_secs_f64();
        self.rate = Some((rate(bytes, bytes_then), rate(operations, operations_then)));
        self.taken = (now, bytes, operations);
        if terminal {
            self.bar.set_message(self.line(now, pace));
            if self.bar.is_hidden() && now.duration_since(self.started) >= QUIET_FOR {
                self.bar.set_draw_target(ProgressDrawTarget::stderr());
            }
            self.bar.tick();
        } else if now.duration_since(self.said) >= LINE_EVERY {
            self.said = now;
            output::say(self.line(now, pace));
        }
    }

    /// Removes the line; with several cells, a row of results remains.
    pub(super) fn finish(self, entry: &CellReport, pace: &mut Pace) {
        self.bar.finish_and_clear();
        if self.of > 1 || self.about {
            if pace.cells == 0 {
                output::say(cell_row_head());
            }
            let about = if self.about { "~" } else { "" };
            let number = format!("{}/{about}{}", self.number, self.of);
            output::say(cell_row(&number, entry));
        }
        pace.cells += 1;
        pace.estimated_seconds += self.estimated_seconds;
        pace.took_seconds += self.started.elapsed().as_secs_f64();
    }

    /// The state of the matrix, most important first.
    fn line(&self, now: Instant, pace: &Pace) -> String {
        let factor = pace.factor();
        let done = now.duration_since(self.started).as_secs_f64();
        let of_this = (self.estimated_seconds * factor - done).max(0.0);
        let left = format_duration(of_this + self.after_seconds * factor);
        let rate = self.rate.map_or(String::new(), |(bytes, operations)| {
            let iops = thousands(operations.round() as u64);
            format!(", {} GiB/s, {iops} IOPS", short(bytes / GIB as f64))
        });
        let Self { label, number, of, .. } = self;
        let so_many = if self.about { "about " } else { "" };
        format!("cell {number} of {so_many}{of}, about {left} left{rate}: {label}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(now: Instant) -> Cell {
        let event = Event::CellStarted {
            label: "cpu read 4K, 8 threads, depth 1".to_string(),
            number: 37,
            of: 288,
            about: false,
            estimated_seconds: 5.0,
            after_seconds: 100.0,
        };
        Cell::begin(&event, now).unwrap()
    }

    #[test]
    fn a_line_shows_the_progress_of_the_matrix() {
        let start = Instant::now();
        let mut cell = cell(start);
        let pace = Pace::default();
        cell.advance((1 << 20, 256), start + RATE_OVER / 2, &pace, false);
        assert_eq!(cell.rate, None);
        let later = start + Duration::from_secs(2);
        cell.advance((GIB, 262_144), later, &pace, false);
        assert_eq!(
            cell.line(later, &pace),
            "cell 37 of 288, about 1 m 43 s left, 0.500 GiB/s, 131,072 IOPS: cpu read 4K, \
             8 threads, depth 1"
        );
    }

    #[test]
    fn what_is_left_follows_how_long_cells_really_take() {
        let start = Instant::now();
        let slow = Pace { cells: 2, estimated_seconds: 10.0, took_seconds: 20.0 };
        let line = cell(start).line(start, &slow);
        assert!(line.starts_with("cell 37 of 288, about 3 m 30 s left: cpu"), "{line}");
    }
}
