//! Draws the events of a run on stderr: one line for the current phase or the current cell of a
//! matrix, as a bar on a terminal and as occasional lines elsewhere; no line if it ends within a
//! second. A cell of several leaves a row of results.

use std::io::IsTerminal;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use stormlp_core::event::{Event, Observer, Unit};
use stormlp_core::printable::printable;
use stormlp_core::units::{ByteSize, GIB, format_duration};
use stormlp_matrix::plan::CellReport;
use stormlp_matrix::show::{cell_row, cell_row_head};
use stormlp_show::numbers::{short, thousands};

use crate::output;

/// Shorter phases are not worth a line.
const QUIET_FOR: Duration = Duration::from_secs(1);
/// Interval of log lines for a long phase.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// The minimum time over which a displayed rate is measured.
const RATE_OVER: Duration = Duration::from_millis(500);

/// An observer that shows progress to the user.
#[derive(Debug)]
pub(crate) struct Progress {
    quiet: bool,
    terminal: bool,
    state: Mutex<State>,
}

/// The current phase or cell, and the pace of completed cells.
#[derive(Debug, Default)]
struct State {
    phase: Option<Phase>,
    cell: Option<Cell>,
    pace: Pace,
}

impl Progress {
    /// Draws on stderr, or not at all when `quiet`.
    pub(crate) fn new(quiet: bool) -> Self {
        Self { quiet, terminal: std::io::stderr().is_terminal(), state: Mutex::default() }
    }

    /// Reports that the current matrix cell ended, with this entry of the report.
    pub(crate) fn cell_finished(&self, entry: &CellReport) {
        let state = &mut *self.state();
        if let Some(cell) = state.cell.take() {
            cell.finish(entry, &mut state.pace);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere must not suppress further messages of the run.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Progress {
    fn event(&self, event: &Event) {
        if self.quiet {
            return;
        }
        let state = &mut *self.state();
        match event {
            Event::PhaseStarted { label, total, unit } => {
                if let Some(left) = state.phase.replace(Phase::new(label, *total, *unit)) {
                    left.finish(self.terminal);
                }
            }
            Event::Progress { done } => {
                if let Some(phase) = state.phase.as_mut() {
                    phase.advance(*done, self.terminal);
                }
            }
            Event::PhaseFinished => {
                if let Some(phase) = state.phase.take() {
                    phase.finish(self.terminal);
                }
            }
            Event::CellStarted { .. } => state.cell = Cell::begin(event, Instant::now()),
            Event::Moved { bytes, operations } => {
                if let Some(cell) = state.cell.as_mut() {
                    let moved = (*bytes, *operations);
                    cell.advance(moved, Instant::now(), &state.pace, self.terminal);
                }
            }
            Event::Note { message } => {
                let cell = state.cell.as_ref().map(|cell| &cell.line);
                let line = cell.or_else(|| state.phase.as_ref().map(|phase| &phase.line));
                match line.filter(|line| !line.bar.is_hidden()) {
                    Some(line) => line.bar.suspend(|| output::say(message)),
                    None => output::say(message),
                }
            }
        }
    }
}

/// A line that is drawn anew on a terminal, and said from time to time elsewhere.
#[derive(Debug)]
struct StatusLine {
    started: Instant,
    /// When the last line was printed, or the work started.
    said: Instant,
    /// Hidden until the work has taken long enough.
    bar: ProgressBar,
}

impl StatusLine {
    /// A line of text, with a bar and the time left if there is a `total`.
    fn new(total: Option<u64>, now: Instant) -> Self {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
        // A line too long for the terminal is truncated, not wrapped; a bar fills the rest of the
        // width.
        let bounded = total.map_or("{wide_msg}", |_| "{msg} [{wide_bar}] {eta} left");
        if let Ok(style) = ProgressStyle::with_template(bounded) {
            bar.set_style(style);
        }
        Self { started: now, said: now, bar }
    }

    fn show(&mut self, text: &str, now: Instant, terminal: bool) {
        if terminal {
            self.bar.set_message(printable(text).into_owned());
            if self.bar.is_hidden() && now.duration_since(self.started) >= QUIET_FOR {
                self.bar.set_draw_target(ProgressDrawTarget::stderr());
            }
            self.bar.tick();
        } else if now.duration_since(self.said) >= LINE_EVERY {
            self.said = now;
            output::say(text);
        }
    }
}

/// A phase of work.
#[derive(Debug)]
struct Phase {
    label: String,
    total: Option<u64>,
    unit: Unit,
    line: StatusLine,
}

impl Phase {
    /// Starts a phase now.
    fn new(label: &str, total: Option<u64>, unit: Unit) -> Self {
        Self { label: label.to_string(), total, unit, line: StatusLine::new(total, Instant::now()) }
    }

    /// Updates the amount done.
    fn advance(&mut self, done: u64, terminal: bool) {
        let text = self.text(done);
        self.line.bar.set_position(done);
        self.line.show(&text, Instant::now(), terminal);
    }

    /// Removes the bar; a log gets a line for a long phase.
    fn finish(&self, terminal: bool) {
        self.line.bar.finish_and_clear();
        let took = self.line.started.elapsed();
        if !terminal && took >= QUIET_FOR {
            let took = format_duration(took.as_secs_f64());
            // Not "done": it may have been stopped.
            output::say(format!("{}: took {took}", self.label));
        }
    }

    fn text(&self, done: u64) -> String {
        let amount = |value| match self.unit {
            Unit::Bytes => ByteSize(value).to_string(),
            Unit::Milliseconds => format_duration(value as f64 / 1e3),
            Unit::Steps => format!("{value} steps"),
            Unit::Files => format!("{value} files"),
            Unit::Runs => format!("{value} runs"),
        };
        let of = self.total.map_or(String::new(), |total| format!(" of {}", amount(total)));
        format!("{}: {}{of}", self.label, amount(done))
    }
}

/// Actual against estimated duration of the completed cells.
#[derive(Debug, Default)]
struct Pace {
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

/// The running cell of a matrix.
#[derive(Debug)]
struct Cell {
    label: String,
    /// Its number and the number of all: `37/288`, `5/~9`.
    number: String,
    is_only: bool,
    estimated_seconds: f64,
    after_seconds: f64,
    /// When the last rate was taken, with the bytes and transfers up to then.
    taken: (Instant, u64, u64),
    line: StatusLine,
}

impl Cell {
    /// The cell that starts by `event`.
    fn begin(event: &Event, now: Instant) -> Option<Self> {
        let Event::CellStarted { label, number, of, about, estimated_seconds, after_seconds } =
            event
        else {
            return None;
        };
        Some(Self {
            label: label.clone(),
            number: format!("{number}/{}{of}", if *about { "~" } else { "" }),
            is_only: *of <= 1 && !about,
            estimated_seconds: *estimated_seconds,
            after_seconds: *after_seconds,
            taken: (now, 0, 0),
            line: StatusLine::new(None, now),
        })
    }

    /// Updates the bytes and transfers completed so far.
    fn advance(
        &mut self,
        (bytes, operations): (u64, u64),
        now: Instant,
        pace: &Pace,
        terminal: bool,
    ) {
        let (then, bytes_then, operations_then) = self.taken;
        let over = now.duration_since(then);
        if over >= RATE_OVER {
            let moved =
                [bytes.saturating_sub(bytes_then), operations.saturating_sub(operations_then)];
            let text = self.text(moved.map(|more| more as f64 / over.as_secs_f64()), now, pace);
            self.taken = (now, bytes, operations);
            self.line.show(&text, now, terminal);
        }
    }

    /// Removes the line; with several cells, a row of results remains.
    fn finish(self, entry: &CellReport, pace: &mut Pace) {
        self.line.bar.finish_and_clear();
        if !self.is_only {
            if pace.cells == 0 {
                output::say(cell_row_head());
            }
            output::say(cell_row(&self.number, entry));
        }
        pace.cells += 1;
        pace.estimated_seconds += self.estimated_seconds;
        pace.took_seconds += self.line.started.elapsed().as_secs_f64();
    }

    /// The state of the matrix at this rate of bytes and transfers, most important first.
    fn text(&self, [bytes, operations]: [f64; 2], now: Instant, pace: &Pace) -> String {
        let factor = pace.factor();
        let done = now.duration_since(self.line.started).as_secs_f64();
        let of_this = (self.estimated_seconds * factor - done).max(0.0);
        let left = format_duration(of_this + self.after_seconds * factor);
        let (rate, iops) = (short(bytes / GIB as f64), thousands(operations.round() as u64));
        let Self { label, number, .. } = self;
        format!("cell {number}, about {left} left, {rate} GiB/s, {iops} IOPS: {label}")
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
        assert_eq!(cell.taken, (start, 0, 0), "too early for a rate");
        let later = start + Duration::from_secs(2);
        assert_eq!(
            cell.text([GIB as f64 / 2.0, 131_072.0], later, &pace),
            "cell 37/288, about 1 m 43 s left, 0.500 GiB/s, 131,072 IOPS: cpu read 4K, 8 threads, \
             depth 1"
        );
        cell.advance((GIB, 262_144), later, &pace, false);
        assert_eq!(cell.taken, (later, GIB, 262_144));
    }

    #[test]
    fn what_is_left_follows_how_long_cells_really_take() {
        let start = Instant::now();
        let slow = Pace { cells: 2, estimated_seconds: 10.0, took_seconds: 20.0 };
        let line = cell(start).text([0.0; 2], start, &slow);
        assert!(line.starts_with("cell 37/288, about 3 m 30 s left, "), "{line}");
    }

    #[test]
    fn every_template_is_one_that_indicatif_reads() {
        for total in [None, Some(8)] {
            let line = StatusLine::new(total, Instant::now());
            assert_eq!(line.bar.length(), total);
        }
    }

    #[test]
    fn a_log_line_has_units() {
        let phase = Phase::new("laying out 8 files", Some(8 << 30), Unit::Bytes);
        assert_eq!(phase.text(3 << 29), "laying out 8 files: 1.50 GiB of 8 GiB");
        let phase = Phase::new("epoch 2 of 5", None, Unit::Steps);
        assert_eq!(phase.text(12), "epoch 2 of 5: 12 steps");
    }
}
