//! Figures of a report that contradict each other: rates and what they are of, parts and their
//! whole, means and what they are over.
//!
//! A run writes none of these. Whoever reads a report is told of them and may still look at it: a
//! field that somebody corrected does not make the rest of it worthless.

use super::{AnyReport, NamedSeries, Series};
use crate::checkpoint::{
    CheckpointReport, CheckpointResult, PhaseSummary, gib_per_second, summarise,
};
use crate::matrix::{CellReport, MatrixReport, Measurement};
use crate::training::metrics;
use crate::training::report::{EpochReport, TrainReport, scored};
use crate::units::MIB;

/// Rates are computed from the numbers that stand beside them: what is further apart was changed.
const TOLERANCE: f64 = 0.01;
/// Intervals begin and end when somebody looks, not when bytes begin to move.
const TOLERANCE_OF_INTERVALS: f64 = 0.1;
/// Fewer intervals say little: the first or the last may hold most of a part.
const FEWEST_INTERVALS: usize = 10;

impl AnyReport {
    /// Where figures of the report contradict each other, in words; empty for what a run wrote.
    pub fn contradictions(&self) -> Vec<String> {
        let mut found = Found::default();
        match self {
            Self::Gds(report) => found.matrix(report),
            Self::Train(report) => found.training(report),
            Self::Checkpoint(report) => found.checkpoint(report),
        }
        found.0
    }
}

#[derive(Default)]
struct Found(Vec<String>);

impl Found {
    /// Tells where a number is not what others come to.
    fn hold(&mut self, place: &str, what: &str, number: f64, comes_to: f64, from: &str) {
        let apart = (number - comes_to).abs();
        if apart > TOLERANCE * number.abs().max(comes_to.abs()) {
            let place = inner(place, what);
            let (number, comes_to) = (short(number), short(comes_to));
            self.0.push(format!(
                "{place} is {number}, but {from} come to {comes_to}"
            ));
        }
    }

    /// The same of whole numbers, which agree exactly.
    fn hold_count(&mut self, place: &str, what: &str, number: u64, comes_to: u64, from: &str) {
        if number != comes_to {
            let place = inner(place, what);
            self.0.push(format!(
                "{place} is {number}, but {from} come to {comes_to}"
            ));
        }
    }

    fn matrix(&mut self, report: &MatrixReport) {
        for (index, cell) in report.results.cells.iter().enumerate() {
            if let Some(numbers) = cell.result() {
                self.cell(report, &format!("cells.{index}"), cell, numbers);
            }
        }
    }

    fn cell(
        &mut self,
        report: &MatrixReport,
        place: &str,
        cell: &CellReport,
        numbers: &Measurement,
    ) {
        let seconds = numbers.duration_seconds;
        let rate = numbers.throughput_bytes_per_second;
        let (bytes, operations) = (numbers.bytes, numbers.operations);
        if seconds > 0.0 {
            let of = "bytes and duration_seconds";
            let comes_to = bytes as f64 / seconds;
            self.hold(place, "throughput_bytes_per_second", rate, comes_to, of);
            let of = "operations and duration_seconds";
            self.hold(place, "iops", numbers.iops, operations as f64 / seconds, of);
        }
        if has_one_size(report, cell) {
            let comes_to = operations.saturating_mul(cell.io_size_bytes);
            let of = "operations of io_size_bytes";
            self.hold_count(place, "bytes", bytes, comes_to, of);
        }
        self.shape(place, &numbers.series);
        let covers = match report.plan.warmup_seconds > 0.0 {
            // Whoever looks for the first time may come late.
            true => Covers::AtMost,
            false => Covers::All,
        };
        self.intervals(place, &numbers.series, bytes, covers);
    }

    fn training(&mut self, report: &TrainReport) {
        let (plan, results) = (&report.plan, &report.results);
        let single = results.runs.is_empty();
        let runs = results.runs.iter().enumerate();
        for (index, run) in runs {
            let place = format!("runs.{index}");
            self.epochs(&place, &run.epochs);
            self.bytes_of_epochs(&place, run.cost.bytes_read, &run.epochs);
        }
        if single {
            self.epochs("", &results.epochs);
            self.bytes_of_epochs("", results.cost.bytes_read, &results.epochs);
        }
        let of_scored = scored(plan, results.scored_epochs());
        if !of_scored.is_empty() {
            let (mean, of) = (metrics::mean(&of_scored), "those of the epochs");
            let told = &results.mean;
            let (au, comes_to) = (told.au_percent.profile, mean.au_percent.profile);
            self.hold("", "au_percent.profile", au, comes_to, of);
            let (rate, comes_to) = (told.samples_per_second, mean.samples_per_second);
            self.hold("", "samples_per_second", rate, comes_to, of);
        }
        for (index, named) in report.series.iter().enumerate() {
            let place = format!("series.{index}");
            self.shape(&place, &named.series);
            let epochs = match single {
                true => (index == 0).then_some(&results.epochs),
                false => results.runs.get(index).map(|run| &run.epochs),
            };
            if let Some(epochs) = epochs {
                // Evaluations and the starts of loaders read besides.
                self.intervals(&place, &named.series, bytes_of(epochs), Covers::AtLeast);
            }
        }
    }

    fn epochs(&mut self, place: &str, epochs: &[EpochReport]) {
        for (index, epoch) in epochs.iter().enumerate() {
            let place = inner(place, &format!("epochs.{index}"));
            if epoch.duration_seconds > 0.0 {
                let mib = epoch.cost.bytes_read as f64 / MIB as f64;
                let (rate, comes_to) = (
                    epoch.measures.read_mib_per_second,
                    mib / epoch.duration_seconds,
                );
                let of = "bytes_read and duration_seconds";
                self.hold(&place, "read_mib_per_second", rate, comes_to, of);
            }
        }
    }

    fn bytes_of_epochs(&mut self, place: &str, bytes: u64, epochs: &[EpochReport]) {
        let comes_to = bytes_of(epochs);
        self.hold_count(place, "bytes_read", bytes, comes_to, "those of its epochs");
    }

    fn checkpoint(&mut self, report: &CheckpointReport) {
        let results = &report.results;
        let phases = [
            ("save", "saves", &results.saves, results.summary.save),
            (
                "restore",
                "restores",
                &results.restores,
                results.summary.restore,
            ),
        ];
        for (part, key, phase, summary) in phases {
            for (index, result) in phase.iter().enumerate() {
                let place = format!("{key}.{index}");
                self.ranks(&place, result);
                let name = format!("{part} {}", result.step);
                let mut series = report.series.iter().filter(|named| named.name == name);
                if let (Some(named), None) = (series.next(), series.next()) {
                    self.intervals(&place, &named.series, result.bytes, Covers::All);
                }
            }
            if let Some((told, comes_to)) = summary.zip(summarise(phase)) {
                self.summary(&format!("summary.{part}"), &told, &comes_to);
            }
        }
        for (index, NamedSeries { series, .. }) in report.series.iter().enumerate() {
            self.shape(&format!("series.{index}"), series);
        }
    }

    fn ranks(&mut self, place: &str, result: &CheckpointResult) {
        let sum = result.ranks.iter().map(|rank| rank.bytes);
        let sum = sum.fold(0, u64::saturating_add);
        self.hold_count(place, "bytes", result.bytes, sum, "those of its ranks");
        for (index, rank) in result.ranks.iter().enumerate() {
            let place = format!("{place}.ranks.{index}");
            let comes_to = gib_per_second(rank.bytes, rank.duration_seconds);
            let of = "bytes and duration_seconds";
            self.hold(&place, "gib_per_second", rank.gib_per_second, comes_to, of);
        }
        let slowest = result.duration_seconds.max;
        let comes_to = gib_per_second(result.bytes, slowest);
        let of = "bytes and duration_seconds.max";
        let total = result.gib_per_second.total;
        self.hold(place, "gib_per_second.total", total, comes_to, of);
    }

    fn summary(&mut self, place: &str, told: &PhaseSummary, comes_to: &PhaseSummary) {
        for (what, of) in [
            (
                "mlperf_rules",
                (|phase| phase.mlperf_rules) as fn(&PhaseSummary) -> _,
            ),
            ("dlio", |phase| phase.dlio),
            ("all_ranks", |phase| phase.all_ranks),
        ] {
            let (told, comes_to) = (of(told), of(comes_to));
            let rate = format!("{what}.gib_per_second.mean");
            let from = "those of the checkpoints";
            let rates = (told.gib_per_second.mean, comes_to.gib_per_second.mean);
            self.hold(place, &rate, rates.0, rates.1, from);
            let seconds = format!("{what}.duration_seconds.mean");
            let means = (told.duration_seconds.mean, comes_to.duration_seconds.mean);
            self.hold(place, &seconds, means.0, means.1, from);
        }
    }

    /// That all rows of a series have a value for each interval.
    fn shape(&mut self, place: &str, series: &Series) {
        let intervals = series.interval_bytes.len();
        let device = series.interval_device_bytes.as_ref();
        let mut rows = vec![
            (
                "interval_device_bytes".to_string(),
                device.map_or(0, Vec::len),
            ),
            (
                "interval_in_flight".to_string(),
                series.interval_in_flight.len(),
            ),
            (
                "interval_cpu_seconds".to_string(),
                series.interval_cpu_seconds.len(),
            ),
        ];
        let tracks = series.tracks.iter().enumerate();
        rows.extend(
            tracks.map(|(index, track)| (format!("tracks.{index}.values"), track.values.len())),
        );
        for (row, length) in rows {
            if length != 0 && length != intervals {
                self.0.push(format!(
                    "{place}.{row} has {length} values, and interval_bytes {intervals}"
                ));
            }
        }
    }

    /// That the intervals hold the bytes that were counted while they lasted.
    fn intervals(&mut self, place: &str, series: &Series, bytes: u64, covers: Covers) {
        let row = &series.interval_bytes;
        if row.len() < FEWEST_INTERVALS {
            return;
        }
        let sum: f64 = row.iter().map(|bytes| *bytes as f64).sum();
        let largest = row.iter().copied().max().unwrap_or(0) as f64;
        let allowed = TOLERANCE_OF_INTERVALS * bytes as f64 + 2.0 * largest;
        let lacks = sum + allowed < bytes as f64 && covers != Covers::AtMost;
        let exceeds = sum > bytes as f64 + allowed && covers != Covers::AtLeast;
        if lacks || exceeds {
            self.0.push(format!(
                "{place}.interval_bytes come to {sum:.0} bytes, but {bytes} were counted"
            ));
        }
    }
}

/// What of the bytes of a part its intervals hold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Covers {
    /// All of them.
    All,
    /// All, and others besides.
    AtLeast,
    /// All but those of a first while.
    AtMost,
}

/// Whether all transfers of a cell are of the same size.
fn has_one_size(report: &MatrixReport, cell: &CellReport) -> bool {
    let planned = report.plan.cells.get(cell.cell);
    let crew = planned.and_then(|planned| report.plan.crews.get(planned.crew));
    let own = |crew: &crate::matrix::Crew| crew.workers.iter().any(|one| one.io_size.is_some());
    cell.io_size_mix.is_none() && crew.is_some_and(|crew| !own(crew))
}

fn bytes_of(epochs: &[EpochReport]) -> u64 {
    let each = epochs.iter().map(|epoch| epoch.cost.bytes_read);
    each.fold(0, u64::saturating_add)
}

/// A number with no more digits than tell it from another.
fn short(number: f64) -> String {
    match number.abs() >= 1e4 {
        true => format!("{number:.0}"),
        false => format!("{number:.4}"),
    }
}

/// `place` and what lies in it.
fn inner(place: &str, name: &str) -> String {
    match place {
        "" => name.to_string(),
        place => format!("{place}.{name}"),
    }
}
