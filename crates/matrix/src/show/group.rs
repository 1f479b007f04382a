//! Groups the repetitions of a combination.

use crate::plan::{CellReport, CellStatus, IoSize, MatrixReport, Measurement};
use stormlp_core::distinct::distinct;
use stormlp_core::operation::Operation;
use stormlp_core::path::PathKind;
use stormlp_core::stats::{mean, sample_deviation};
use stormlp_core::units::{GIB, counted};

use stormlp_show::document::{Cell, Estimate, Table};

/// The settings shared by the repetitions of a combination.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct CellKey {
    pub(super) path: PathKind,
    pub(super) op: Operation,
    /// Share of reads if the operation is a mix.
    pub(super) read_percent: Option<u8>,
    pub(super) io_size: IoSize,
    pub(super) threads: u32,
    pub(super) queue_depth: u32,
}

impl CellKey {
    /// Name of the combination, equal in all reports.
    pub(super) fn name(&self) -> String {
        format!("{}, {}", self.path, self.title())
    }

    /// The operation, formatted.
    pub(super) fn operation(&self) -> String {
        self.op.of_mix(self.read_percent)
    }

    /// The settings of threads and depth.
    pub(super) fn load(&self) -> (u32, u32) {
        (self.threads, self.queue_depth)
    }

    /// All settings but the path for a sentence: `read of 4 KiB, 3 hosts × 1 thread at depth 32`, with
    /// `hosts ×` if there are several.
    pub(super) fn setting(&self, hosts: &str) -> String {
        let threads = counted(u64::from(self.threads), "thread");
        let depth = match self.queue_depth {
            1 => String::new(),
            depth => format!(" at depth {depth}"),
        };
        format!("{} of {}, {hosts}{threads}{depth}", self.operation(), self.io_size.words())
    }

    /// All settings but the path.
    pub(super) fn title(&self) -> String {
        let threads = counted(u64::from(self.threads), "thread");
        let size = self.io_size.words();
        format!("{} of {size}, {threads}, depth {}", self.operation(), self.queue_depth)
    }

    /// Whether cells of both differ only in their paths.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        Self { path: other.path, ..*self } == *other
    }
}

/// The cells of one combination, in execution order.
#[derive(Debug)]
pub(super) struct CellGroup<'a> {
    pub(super) key: CellKey,
    pub(super) cells: Vec<&'a CellReport>,
}

/// A group of cells, and its throughput or the reason that it has none.
pub(super) type Rated<'a> = (&'a CellGroup<'a>, Cell);

impl<'a> CellGroup<'a> {
    /// The results of the valid cells.
    pub(super) fn results(&self) -> Vec<&'a Measurement> {
        self.cells.iter().filter_map(|cell| cell.result()).collect()
    }

    /// Mean and deviation of a figure over the repetitions; `None` without a valid cell.
    pub(super) fn estimate(&self, number: impl Fn(&Measurement) -> f64) -> Option<Estimate> {
        let samples: Vec<f64> = self.results().into_iter().map(number).collect();
        let spread = (samples.len() > 1).then(|| sample_deviation(&samples));
        (!samples.is_empty()).then(|| Estimate { value: mean(&samples), spread })
    }

    /// Mean of a figure that every repetition must have.
    pub(super) fn known(&self, number: impl Fn(&Measurement) -> Option<f64>) -> Option<f64> {
        let samples: Option<Vec<f64>> = self.results().into_iter().map(number).collect();
        samples.filter(|samples| !samples.is_empty()).map(|samples| mean(&samples))
    }

    /// Throughput in GiB/s.
    pub(super) fn throughput(&self) -> Option<Estimate> {
        self.estimate(|m| m.throughput_bytes_per_second / GIB as f64)
    }

    /// Mean throughput; below all other groups without a valid cell.
    pub(super) fn rate(&self) -> f64 {
        self.throughput().map_or(-1.0, |rate| rate.value)
    }

    /// The requested path, with the effective path if that differs.
    pub(super) fn path_words(&self) -> String {
        let requested = self.key.path;
        let ran = self.cells.iter().filter(|cell| cell.result().is_some());
        let other = ran.filter(|cell| cell.effective_path != Some(requested));
        let name = |path: PathKind| path.to_string();
        let others = other.map(|cell| cell.effective_path.map_or("unproven".to_string(), name));
        let others = distinct(others);
        if others.is_empty() {
            requested.to_string()
        } else {
            format!("{requested} (ran: {})", others.join(", "))
        }
    }
}

/// The groups of a report, ordered by their first cells. A cell of the plan counts once: a
/// duplicate in a damaged report is not a repetition.
pub(super) fn groups(report: &MatrixReport) -> Vec<CellGroup<'_>> {
    let mut groups: Vec<CellGroup<'_>> = Vec::new();
    for cell in &report.results.cells {
        let key = key_of(report, cell);
        match groups.iter_mut().find(|group| group.key == key) {
            Some(group) if group.cells.iter().any(|one| one.cell == cell.cell) => {}
            Some(group) => group.cells.push(cell),
            None => groups.push(CellGroup { key, cells: vec![cell] }),
        }
    }
    groups
}

/// The measured settings by name: paths, with the effective path if that differs, and the rest.
pub(crate) fn combinations(report: &MatrixReport) -> Vec<(&'static str, String)> {
    type Words = fn(&CellGroup<'_>) -> String;
    let parts: [(&'static str, Words); 5] = [
        ("paths", |group| group.path_words()),
        ("operations", |group| group.key.operation()),
        ("I/O sizes", |group| group.key.io_size.words()),
        ("threads per cell", |group| group.key.threads.to_string()),
        ("queue depths", |group| group.key.queue_depth.to_string()),
    ];
    let groups = groups(report);
    let told = parts
        .into_iter()
        .map(|(name, words)| (name, distinct(groups.iter().map(words)).join(", ")));
    told.collect()
}

/// Name of a cell's combination, equal in all reports.
pub(crate) fn subject(report: &MatrixReport, cell: &CellReport) -> String {
    key_of(report, cell).name()
}

pub(super) fn key_of(report: &MatrixReport, cell: &CellReport) -> CellKey {
    CellKey {
        path: cell.requested_path,
        op: cell.op,
        read_percent: report.plan.request.read_percent,
        io_size: cell.io_size,
        threads: cell.threads,
        queue_depth: cell.queue_depth,
    }
}

/// Notes that a cell is shorter than planned because the user stopped the run.
pub(super) fn cut_short(numbers: &Measurement) -> Option<String> {
    let done = numbers.duration_seconds;
    numbers.interrupted.then(|| format!("cut short by the user after {done:.2} s"))
}

/// Stands in for the figures of a cell that read wrong data.
pub(super) const WRONG_DATA: &str = "wrong data";

/// The same for one cell.
pub(super) fn not_measured(cell: &CellReport, table: &mut Table) -> String {
    // The headline has the place.
    if cell.read_wrong_data() {
        return WRONG_DATA.to_string();
    }
    let (word, reason) = failure_words(cell);
    let mut text = format!("{}: {reason}", cell.requested_path);
    if let Some(remedy) = cell.remedy.as_deref().filter(|remedy| !remedy.is_empty()) {
        text.push_str(&format!("; {remedy}"));
    }
    format!("{word} {}", table.footnote(text))
}

/// How a cell without results is marked, and the reason.
pub(super) fn failure_words(cell: &CellReport) -> (&'static str, &str) {
    let word = if cell.status == CellStatus::Failed { "failed" } else { "n/a" };
    (word, cell.reason.as_deref().unwrap_or("no reason was recorded"))
}
