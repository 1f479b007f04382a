//! The saved report of a matrix. `docs/schema/results.schema.json` describes every field.

pub mod outcome;

use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use crate::plan::choice::IoSize;
use crate::plan::matrix_plan::{CellPlan, MatrixPlan};
use stormlp_core::evidence::Evidence;
use stormlp_core::facts::Availability;
use stormlp_core::group::GroupFacts;
use stormlp_core::histogram::{LatencyHistogram, LatencyUs};
use stormlp_core::knee::KneeLimit;
use stormlp_core::operation::Operation;
use stormlp_core::path::{EngineKind, PathKind};
use stormlp_core::report::HostShare;
use stormlp_core::report::{Report, Series};
use stormlp_core::units::{ByteSize, GIB};
use stormlp_core::warning::Warning;
pub use stormlp_transfer::Backing;

/// How a cell ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CellStatus {
    /// It ran and its results are valid.
    Ok,
    /// It started and broke, read wrong data, or violated a `--require` option.
    Failed,
    /// It cannot run on this machine.
    Unavailable,
}

/// The first mismatch between the data that a thread read and the expected data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileMismatch {
    /// The file.
    pub file: PathBuf,
    /// Offset of the first wrong byte in the file.
    pub offset_bytes: u64,
    /// The expected pattern from there, in hexadecimal digits.
    pub expected: String,
    /// The data read from there, in as many digits.
    pub found: String,
}

/// Results of verification against the pattern.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CellVerification {
    /// Bytes that were compared.
    pub checked_bytes: u64,
    /// The first mismatch of each thread that saw one; it stops all of them.
    pub mismatches: Vec<FileMismatch>,
}

/// Results of one job of a cell (gdsio's `-J`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobReport {
    /// Its name.
    pub name: String,
    /// Its threads.
    pub threads: u32,
    /// From its first thread's start to its last thread's end, without the warm-up.
    pub duration_seconds: f64,
    /// Its transfers.
    #[serde(flatten)]
    pub transfers: Transfers,
}

/// The reads and the writes of a cell with both, each by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MixedParts {
    /// Its reads.
    pub reads: Transfers,
    /// Its writes.
    pub writes: Transfers,
}

/// The transfers of a job, or a mix's in one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Transfers {
    /// Transfers completed.
    pub operations: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Bytes moved, divided by the time of the job or cell.
    pub throughput_bytes_per_second: f64,
    /// Transfers completed, divided by that time.
    pub iops: f64,
    /// Time from a transfer's submission to its completion; `None` without any.
    pub latency_us: Option<LatencyUs>,
    /// All latencies in nanoseconds, HdrHistogram V2 in base64; empty without any.
    pub latency_histogram: String,
}

impl Transfers {
    /// `operations` with these latencies that moved `bytes` within `seconds`.
    pub fn of(latency: &LatencyHistogram, (operations, bytes): (u64, u64), seconds: f64) -> Self {
        let latency_us = latency.summary();
        Self {
            operations,
            bytes,
            throughput_bytes_per_second: bytes as f64 / seconds,
            iops: operations as f64 / seconds,
            latency_us,
            latency_histogram: latency_us.map_or(String::new(), |_| latency.to_base64()),
        }
    }

    /// All of these `parts` together within `seconds`; `None` if a histogram cannot be read.
    pub fn sum<'a>(parts: impl Iterator<Item = &'a Self>, seconds: f64) -> Option<Self> {
        let mut latencies = LatencyHistogram::new();
        let (mut operations, mut bytes) = (0, 0);
        for part in parts {
            (operations, bytes) = (operations + part.operations, bytes + part.bytes);
            if let Some(latency) = &part.latency_us {
                latencies.merge(&LatencyHistogram::of_report(&part.latency_histogram, latency)?);
            }
        }
        Some(Self::of(&latencies, (operations, bytes), seconds))
    }
}

/// The results of a cell that ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measurement {
    /// Bytes moved in the measured time, divided by that time.
    pub throughput_bytes_per_second: f64,
    /// Transfers completed in the measured time, divided by that time.
    pub iops: f64,
    /// Time from a transfer's submission to its completion.
    pub latency_us: LatencyUs,
    /// All latencies in nanoseconds, HdrHistogram V2 in base64.
    pub latency_histogram: String,
    /// Transfers completed.
    pub operations: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// From the start barrier to the last thread's end, without the warm-up.
    pub duration_seconds: f64,
    /// From the start barrier to the first thread's end.
    pub first_done_seconds: f64,
    /// From the start barrier to the last thread's end.
    pub last_done_seconds: f64,
    /// User CPU time of the process over the measured time.
    pub cpu_user_seconds: f64,
    /// System CPU time of the process over the measured time.
    pub cpu_system_seconds: f64,
    /// User and system CPU time per GiB moved; 0 if no byte moved.
    pub cpu_seconds_per_gib: f64,
    /// Progress of the cell over time.
    #[serde(flatten)]
    pub series: Series,
    /// The block devices behind the files.
    pub device_names: Vec<String>,
    /// Bytes those devices read over the measured time.
    pub device_read_bytes: Option<u64>,
    /// Bytes those devices wrote over the measured time.
    pub device_written_bytes: Option<u64>,
    /// Share of the files in the page cache before the cell, 0 to 1.
    pub page_cache_share: Option<f64>,
    /// The same after the cell.
    pub page_cache_share_after: Option<f64>,
    /// Time spent in fsync at the end, within the duration; `None` if files were not synced.
    pub fsync_seconds: Option<f64>,
    /// The I/O engine, for CPU paths.
    pub engine: Option<EngineKind>,
    /// The memory at the end of transfers: `NVIDIA H200 (cuda:0)`, `host memory (emulated)`.
    pub memory: String,
    /// Whether host memory stood in for accelerator memory.
    pub memory_emulated: bool,
    /// The page type of the host buffers.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub buffers_backing: Backing,
    /// Peak resident set size of the process so far, in bytes.
    pub peak_rss_bytes: u64,
    /// Results of each job; empty if there is only one.
    pub jobs: Vec<JobReport>,
    /// Its reads and its writes apart; `None` for a cell of one kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mix: Option<MixedParts>,
    /// Whether the user stopped the run during this cell: it is shorter than planned.
    pub interrupted: bool,
    /// When the start barrier opened, in seconds since 1970; only set in multi-host runs, to
    /// compute how much of the hosts' time overlaps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_unix_seconds: Option<f64>,
    /// The parts of a cell that changed speed, each with its rate; empty if it did not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<Level>,
    /// Whether a cell that was to become steady did; `None` with several processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<bool>,
}

impl Measurement {
    /// Its first and last rates in words; `None` if it did not change speed.
    pub(crate) fn levels_in_words(&self) -> Option<String> {
        let [first, others @ .., last] = self.levels.as_slice() else {
            return None;
        };
        let [from, to] = [first, last].map(|level| level.bytes_per_second / GIB as f64);
        let more = match others.len() {
            0 => String::new(),
            count => format!("after {count} other rates "),
        };
        let before = ByteSize(first.bytes);
        Some(format!("{from:.3} GiB/s for the first {before}, then {more}{to:.3} GiB/s"))
    }
}

/// A part of a cell with one rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Level {
    /// Bytes moved in it.
    pub bytes: u64,
    /// Its rate.
    pub bytes_per_second: f64,
}

/// One host's share of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostCell {
    /// The host, with its rank if the host has several processes.
    pub name: String,
    /// Bytes it moved.
    pub bytes: u64,
    /// Transfers it completed.
    pub operations: u64,
    /// From its start barrier to its last thread's end, without the warm-up.
    pub duration_seconds: f64,
    /// Its throughput over that time.
    pub throughput_bytes_per_second: f64,
    /// Time from the submission of one of its transfers to its completion.
    pub latency_us: LatencyUs,
    /// User and system CPU time of its process.
    pub cpu_seconds: f64,
    /// Bytes its devices read in that time; with several processes on a host, only set for the
    /// first.
    pub device_read_bytes: Option<u64>,
    /// Bytes its devices wrote in that time; with several processes on a host, only set for the
    /// first.
    pub device_written_bytes: Option<u64>,
}

/// Growth of the share of the files in the page cache that is not by chance.
const CACHED: f64 = 0.01;

impl Measurement {
    /// The shares of the files in the page cache before and after the cell, if it filled the cache.
    pub fn filled_cache(&self) -> Option<(f64, f64)> {
        let shares = self.page_cache_share.zip(self.page_cache_share_after);
        shares.filter(|(before, after)| *after > before + CACHED)
    }
}

/// A cell's fields for the schema: the results, or `null` under [`PROMISED_KEYS`].
#[cfg(feature = "schema")]
#[allow(dead_code)]
#[derive(schemars::JsonSchema)]
#[serde(untagged)]
enum MeasurementKeys {
    Measured(Box<Measurement>),
    NotMeasured {
        throughput_bytes_per_second: (),
        iops: (),
        latency_us: (),
        operations: (),
        bytes: (),
        duration_seconds: (),
        cpu_user_seconds: (),
        cpu_system_seconds: (),
        page_cache_share: (),
    },
}

/// One entry of `cells[]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CellReport {
    /// Index of the cell in the plan.
    pub cell: usize,
    /// Repetition number, from 1.
    pub repeat: u32,
    /// The requested path.
    pub requested_path: PathKind,
    /// The path that ran; `None` if none did or it is unknown.
    pub effective_path: Option<PathKind>,
    /// How it ended.
    pub status: CellStatus,
    /// Why the status is not `ok`.
    pub reason: Option<String>,
    /// How to fix it.
    pub remedy: Option<String>,
    /// The system error number of a failure.
    pub errno: Option<i32>,
    /// The operation.
    pub op: Operation,
    /// Size of a transfer in bytes; a mix of sizes as it is typed.
    #[serde(rename = "io_size_bytes")]
    pub io_size: IoSize,
    /// Threads.
    pub threads: u32,
    /// Transfers in flight for each thread.
    pub queue_depth: u32,
    /// Evidence of the path that ran.
    pub evidence: Option<Evidence>,
    /// The results, if it ran.
    #[serde(flatten, serialize_with = "write_measurement", deserialize_with = "read_measurement")]
    #[cfg_attr(feature = "schema", schemars(with = "MeasurementKeys"))]
    pub measurement: Option<Measurement>,
    /// Results of verification against the pattern.
    pub verification: Option<CellVerification>,
    /// Warnings about this cell.
    pub warnings: Vec<Warning>,
    /// Each host's share by rank in multi-host runs; else empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostCell>,
    /// Share of the longest host's time in which all hosts measured it, by their clocks; `null` for
    /// a single host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap_share: Option<f64>,
}

impl CellReport {
    /// A planned cell that has not run: unavailable if the plan says so, else failed.
    pub fn without_numbers(index: usize, plan: &CellPlan, reason: &str) -> Self {
        let (status, reason, remedy) = match &plan.availability {
            Availability::Unavailable { fact, remedy } => {
                (CellStatus::Unavailable, fact.clone(), Some(remedy.clone()))
            }
            Availability::Available => (CellStatus::Failed, reason.to_string(), None),
        };
        Self {
            cell: index,
            repeat: plan.repeat,
            requested_path: plan.transport.path,
            effective_path: None,
            status,
            reason: Some(reason),
            remedy,
            errno: None,
            op: plan.op,
            io_size: plan.io_size,
            threads: plan.transport.threads as u32,
            queue_depth: plan.transport.queue_depth as u32,
            evidence: None,
            measurement: None,
            verification: None,
            warnings: Vec::new(),
            hosts: Vec::new(),
            overlap_share: None,
        }
    }

    /// Whether it has the settings of a planned cell.
    pub(crate) fn is_of(&self, plan: &CellPlan) -> bool {
        (self.repeat, self.requested_path, self.op, self.io_size)
            == (plan.repeat, plan.transport.path, plan.op, plan.io_size)
            && (self.threads as usize, self.queue_depth as usize)
                == (plan.transport.threads, plan.transport.queue_depth)
    }

    /// Whether its data were not those expected.
    pub fn read_wrong_data(&self) -> bool {
        self.verification.as_ref().is_some_and(|found| !found.mismatches.is_empty())
    }

    /// The results of a valid cell.
    pub fn result(&self) -> Option<&Measurement> {
        match self.status {
            CellStatus::Ok => self.measurement.as_ref(),
            CellStatus::Failed | CellStatus::Unavailable => None,
        }
    }
}

/// Results of a knee search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FindKnee {
    /// One entry for each path, operation and size with a measured cell.
    pub knees: Vec<Knee>,
}

/// Threads and depth with the measured bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KneePoint {
    /// Threads.
    pub threads: u32,
    /// Transfers in flight for each thread.
    pub queue_depth: u32,
    /// Mean bandwidth of its cells, in bytes per second.
    pub throughput_bytes_per_second: f64,
}

/// The smallest number of transfers in flight that comes within 2 % of the best bandwidth; among
/// equals, the setting with the smallest number of threads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Knee {
    /// The requested path.
    pub requested_path: PathKind,
    /// The operation.
    pub op: Operation,
    /// Size of a transfer in bytes; a mix of sizes as it is typed.
    #[serde(rename = "io_size_bytes")]
    pub io_size: IoSize,
    /// Threads and depth of the knee, and its bandwidth.
    #[serde(flatten)]
    pub knee: KneePoint,
    /// Its bandwidth in percent of the best.
    pub share_of_best_percent: f64,
    /// 99th percentile of latency at the knee in microseconds, the mean over its cells.
    pub latency_us_p99: Option<f64>,
    /// Number of cells averaged for the knee.
    pub runs: u64,
    /// The setting with the best bandwidth.
    pub best: KneePoint,
    /// Standard deviation of repetitions in percent of their mean; `null` without repetitions.
    pub noise_percent: Option<f64>,
    /// The other settings that noise does not exclude from being the knee: with fewer transfers in
    /// flight, which may reach the best, and with more, up to the one that is within 2 % of it by its
    /// mean.
    pub ties: Vec<KneePoint>,
    /// Whether bandwidth was still growing at the end of the tested range.
    pub is_lower_bound: bool,
    /// The bottleneck of the best setting; `null` if unknown.
    pub limited_by: Option<KneeLimit>,
    /// Number of cells measured.
    pub cells: u64,
    /// Whether the search completed.
    pub is_complete: bool,
}

/// The report of `stormlp gds`.
pub type MatrixReport = Report<MatrixPlan, MatrixResults>;

/// The results of a matrix.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MatrixResults {
    /// The cells measured so far, in plan order.
    pub cells: Vec<CellReport>,
    /// The knees of a completed search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub find_knee: Option<FindKnee>,
    /// Each host's share of the totals by rank in multi-host runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostShare>,
    /// How the hosts found each other; `None` for a single host or without a launcher.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupFacts>,
}

impl MatrixResults {
    /// Whether a cell of the plan is done: it is present and was not cut short.
    pub fn has(&self, cell: usize) -> bool {
        self.of(cell).is_some_and(|done| {
            done.status == CellStatus::Ok
                && !done.measurement.as_ref().is_some_and(|m| m.interrupted)
        })
    }

    /// The entry of a cell of the plan.
    pub fn of(&self, cell: usize) -> Option<&CellReport> {
        let place = self.cells.binary_search_by_key(&cell, |done| done.cell);
        place.ok().map(|place| &self.cells[place])
    }

    /// Adds a cell, replacing an earlier run of the same one.
    pub fn push(&mut self, cell: CellReport) {
        self.cells.retain(|old| old.cell != cell.cell);
        let place = self.cells.partition_point(|old| old.cell < cell.cell);
        self.cells.insert(place, cell);
    }
}

/// Stable keys of [`Measurement`] for scripts; `null` in a cell that did not run.
const PROMISED_KEYS: [&str; 9] = [
    "throughput_bytes_per_second",
    "iops",
    "latency_us",
    "operations",
    "bytes",
    "duration_seconds",
    "cpu_user_seconds",
    "cpu_system_seconds",
    "page_cache_share",
];

/// Writes the results, or `null` under every promised key.
fn write_measurement<S: Serializer>(
    measurement: &Option<Measurement>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match measurement {
        Some(measurement) => measurement.serialize(serializer),
        None => serializer.collect_map(PROMISED_KEYS.map(|key| (key, None::<u8>))),
    }
}

/// Reads the results of a cell, if any.
fn read_measurement<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Measurement>, D::Error> {
    let fields = serde_json::Map::deserialize(deserializer)?;
    match fields.get("operations") {
        None | Some(serde_json::Value::Null) => Ok(None),
        Some(_) => serde_json::from_value(serde_json::Value::Object(fields))
            .map(Some)
            .map_err(serde::de::Error::custom),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> CellPlan {
        CellPlan {
            availability: Availability::unavailable("no libcufile", "install it"),
            ..crate::show::fixtures::cell_plan(PathKind::Gds)
        }
    }

    #[test]
    fn a_cell_that_did_not_run_has_null_for_every_number() {
        let cell = CellReport::without_numbers(3, &plan(), "");
        let json = serde_json::to_value(&cell).unwrap();
        assert_eq!(json["status"], "unavailable");
        assert_eq!(json["reason"], "no libcufile");
        for key in PROMISED_KEYS {
            assert!(json.as_object().unwrap().contains_key(key), "{key}");
            assert!(json[key].is_null(), "{key}");
        }
        assert_eq!(serde_json::from_value::<CellReport>(json).unwrap(), cell);
    }

    #[test]
    fn a_damaged_measurement_is_an_error_and_not_a_missing_one() {
        let cell = CellReport::without_numbers(3, &plan(), "");
        let mut json = serde_json::to_value(&cell).unwrap();
        json["operations"] = 17.into();
        assert!(serde_json::from_value::<CellReport>(json).is_err());
    }
}
