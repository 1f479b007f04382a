//! Repetitions of one combination, put together.

use stormlp_model::matrix::{CellReport, IoSize, MatrixReport, Measurement};
use stormlp_model::operation::Operation;
use stormlp_model::path::PathKind;
use stormlp_model::stats::{mean, sample_deviation};

/// What the repetitions of a combination share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Key {
    pub(super) path: PathKind,
    pub(super) combination: Combination,
}

/// What cells that are to be compared share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Combination {
    pub(super) op: Operation,
    pub(super) io_size_bytes: u64,
    pub(super) mix: Option<IoSize>,
    pub(super) threads: u32,
    pub(super) queue_depth: u32,
}

impl Combination {
    /// The size of a transfer, for people.
    pub(super) fn io_size(&self) -> String {
        match self.mix {
            Some(mix) => mix.to_string(),
            None => super::numbers::size(self.io_size_bytes),
        }
    }

    /// All of it in words.
    pub(super) fn words(&self) -> String {
        let threads = match self.threads {
            1 => "1 thread".to_string(),
            threads => format!("{threads} threads"),
        };
        format!("{} of {}, {threads}", self.op, self.io_size())
    }
}

/// A mean and how far its samples lie from it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) mean: f64,
    /// Sample standard deviation; `None` for a single sample.
    pub(super) deviation: Option<f64>,
}

impl Spread {
    /// `self` by `other`, the relative deviations added in squares.
    pub(super) fn ratio(self, other: Self) -> Self {
        let mean = self.mean / other.mean;
        let relative = |spread: Self| spread.deviation.map(|d| d / spread.mean);
        let deviation = match (relative(self), relative(other)) {
            (None, None) => None,
            (a, b) => Some(mean * a.unwrap_or(0.0).hypot(b.unwrap_or(0.0))),
        };
        Self { mean, deviation }
    }

    /// With two decimals.
    pub(super) fn text(self) -> String {
        match self.deviation {
            Some(deviation) => format!("{:.2} ± {deviation:.2}", self.mean),
            None => format!("{:.2}", self.mean),
        }
    }
}

/// The cells of one combination, in the order they ran.
#[derive(Debug)]
pub(super) struct Group<'a> {
    pub(super) key: Key,
    pub(super) cells: Vec<&'a CellReport>,
}

impl<'a> Group<'a> {
    /// The numbers of the cells that count.
    pub(super) fn results(&self) -> Vec<&'a Measurement> {
        self.cells.iter().filter_map(|cell| cell.result()).collect()
    }

    /// Mean and deviation of a number over the repetitions; `None` when no cell counts.
    pub(super) fn spread(&self, number: impl Fn(&Measurement) -> f64) -> Option<Spread> {
        let samples: Vec<f64> = self.results().into_iter().map(number).collect();
        let deviation = (samples.len() > 1).then(|| sample_deviation(&samples));
        (!samples.is_empty()).then(|| Spread {
            mean: mean(&samples),
            deviation,
        })
    }

    /// Throughput in bytes per second.
    pub(super) fn throughput(&self) -> Option<Spread> {
        self.spread(|m| m.throughput_bytes_per_second)
    }

    /// The path under which the results are shown, with what ran where that differs.
    pub(super) fn path_words(&self) -> String {
        let requested = self.key.path;
        let ran = self.cells.iter().filter(|cell| cell.result().is_some());
        let mut others: Vec<String> = Vec::new();
        for cell in ran {
            let name = match cell.effective_path {
                Some(path) if path == requested => continue,
                Some(path) => path.to_string(),
                None => "unproven".to_string(),
            };
            if !others.contains(&name) {
                others.push(name);
            }
        }
        match others.is_empty() {
            true => requested.to_string(),
            false => format!("{requested} (ran: {})", others.join(", ")),
        }
    }
}

/// The groups of a report, in the order of their first cells.
pub(super) fn groups(report: &MatrixReport) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for cell in &report.results.cells {
        let key = key_of(cell);
        match groups.iter_mut().find(|group| group.key == key) {
            Some(group) => group.cells.push(cell),
            None => groups.push(Group {
                key,
                cells: vec![cell],
            }),
        }
    }
    groups
}

fn key_of(cell: &CellReport) -> Key {
    Key {
        path: cell.requested_path,
        combination: Combination {
            op: cell.op,
            io_size_bytes: cell.io_size_bytes,
            mix: cell.io_size_mix,
            threads: cell.threads,
            queue_depth: cell.queue_depth,
        },
    }
}
