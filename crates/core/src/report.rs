//! The common structure of saved reports: head, plan, ending, the lane's results, and the
//! measurements that all lanes share. `docs/schema/results.schema.json` describes every field.

use std::path::Path;

use derive_more::Add;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::evidence::Evidence;
use crate::facts::HostFacts;
use crate::failure::Failure;
use crate::histogram::NamedHistogram;
use crate::json::{Integrity, unseal};
use crate::note::{Cause, Note};
use crate::path::PathKind;
use crate::tag::Tags;
use crate::telemetry::{Load, Track};
use crate::warning::Warning;

/// The version of the saved report's format. It increases when an old reader would misread a new
/// file; added fields do not increase it.
pub const FORMAT_VERSION: u32 = 1;

/// The note in reports of runs by an MLPerf edition.
pub const MODELLED: &str = "stormlp's, modelled on it; only mlpstorage makes MLPerf results";

/// The command that made a report.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, clap::ValueEnum,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ReportKind {
    /// A transfer matrix.
    Gds,
    /// A training run.
    Train,
    /// A checkpoint run.
    Checkpoint,
    /// A run of the KV-cache workload.
    Kvcache,
}

impl ReportKind {
    /// All of them, in the order of the help.
    pub const ALL: [Self; 4] = [Self::Gds, Self::Train, Self::Checkpoint, Self::Kvcache];

    /// The command's name.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The first fields of every saved report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Head {
    /// Version of the format.
    pub format_version: u32,
    /// The command that made it.
    pub kind: ReportKind,
    /// The command line as typed.
    pub command: String,
    /// When the run started, RFC 3339 in UTC.
    pub started_at: String,
    /// When it ended; `None` while it is running.
    pub ended_at: Option<String>,
    /// The user's `--tag` values, by key.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
    /// The machine it ran on.
    pub host: HostFacts,
    /// Whether the report is as it was written.
    #[serde(skip)]
    pub integrity: Integrity,
}

/// Bytes that block devices moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Add, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceBytes {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

impl Head {
    /// The head of a run that is starting, in the current format version.
    pub fn new(kind: ReportKind, command: String, started_at: String, host: HostFacts) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            kind,
            command,
            started_at,
            ended_at: None,
            tags: Tags::new(),
            host,
            integrity: Integrity::Intact,
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Ending {
    /// It is still running, or was killed: these are the results at the time of saving.
    Unfinished,
    /// The whole plan ran.
    Complete,
    /// The user stopped it; the results up to then are kept.
    Stopped,
    /// Something failed, for this reason; the results up to then are kept.
    Failed(Note<Cause>),
}

impl Ending {
    /// A run that failed because of `cause`.
    pub fn failed(cause: Cause, fact: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Failed(Note::new(cause, fact, remedy))
    }

    /// The end of the command with its report `saved` there.
    ///
    /// # Errors
    /// Why the run ended early.
    pub fn outcome(&self, saved: Option<&Path>) -> Result<(), Failure> {
        match self {
            Self::Complete => Ok(()),
            Self::Stopped | Self::Unfinished => {
                let kept = match saved {
                    Some(path) => format!("is in {}", path.display()),
                    None => "could not be saved".to_string(),
                };
                Err(Failure::stopped(format!("stopped; the result so far {kept}")))
            }
            Self::Failed(note) => Err(Failure::of_run(note, "")),
        }
    }
}

/// Throughput and load over part of a run, in intervals of equal length.
///
/// At most 1024 intervals; a run that outlasts them doubles their length. The last interval covers
/// the remainder, which may be from half as long to one and a half times as long.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Series {
    /// Start of the first interval in seconds: for training, from the start of its run, like its
    /// epochs; for cells, saves and restores, from the start of the measurement.
    pub started_seconds: f64,
    /// Length of an interval in seconds.
    pub interval_seconds: f64,
    /// Length of the last interval in seconds; `None` without intervals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_interval_seconds: Option<f64>,
    /// Bytes moved in each interval.
    pub interval_bytes: Vec<u64>,
    /// Bytes the block layer moved in each interval; `None` without a block device.
    pub interval_device_bytes: Option<Vec<u64>>,
    /// Transfers in flight at the end of each interval, sampled; empty if not sampled.
    pub interval_in_flight: Vec<u32>,
    /// Mean number of transfers in flight over each interval, counted. Empty if submissions are not
    /// counted, as in a matrix.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interval_in_flight_mean: Vec<f64>,
    /// Maximum number of transfers in flight in each interval; empty when the means are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interval_in_flight_max: Vec<u32>,
    /// CPU seconds of the process in each interval, user and system; empty if not sampled.
    pub interval_cpu_seconds: Vec<f64>,
    /// CPU seconds spent on collecting the tracks; `None` without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry_cpu_seconds: Option<f64>,
    /// Further telemetry with a value per interval: devices, host, network, GPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tracks: Vec<Track>,
    /// Queue depths and sizes of the transfers; `None` until this part of the run has ended, and in
    /// a matrix, where threads keep their configured depth and size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Load>,
    /// Bytes that each rank moved in each interval: in training the accelerators of this process, if
    /// there are 2 to 64; else the processes of a multi-host run; otherwise empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rank_interval_bytes: Vec<Vec<u64>>,
}

/// An interval of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Its start, on the time axis of [`Series::started_seconds`].
    pub from_seconds: f64,
    /// Its length; never 0.
    pub seconds: f64,
}

impl Interval {
    /// Its midpoint.
    pub fn middle(self) -> f64 {
        self.from_seconds + self.seconds / 2.0
    }

    /// Its end.
    pub fn end(self) -> f64 {
        self.from_seconds + self.seconds
    }
}

impl Series {
    /// The intervals paired with `values`, which has one value per interval. An interval of unknown
    /// length is omitted.
    pub fn timed<T: Copy>(&self, values: &[T]) -> impl Iterator<Item = (Interval, T)> {
        let last = values.len().saturating_sub(1);
        values.iter().enumerate().filter_map(move |(nth, value)| {
            let seconds =
                if nth == last { self.last_interval_seconds? } else { self.interval_seconds };
            let from_seconds = self.started_seconds + nth as f64 * self.interval_seconds;
            let interval = Interval { from_seconds, seconds };
            (seconds > 0.0).then_some((interval, *value))
        })
    }
}

/// The series of one part of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NamedSeries {
    /// The part: `run 1`, `save 3`, `restore 1`.
    pub name: String,
    /// Its series.
    #[serde(flatten)]
    pub series: Series,
}

/// The evidence for one part of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NamedEvidence {
    /// The part: `reads`, `saves`, `restores`.
    pub name: String,
    /// The path that ran, with the facts that prove it.
    #[serde(flatten)]
    pub evidence: Evidence,
}

/// The contribution of one host to a matrix, a training or checkpoints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostShare {
    /// The host, with its rank where the host has several processes.
    pub name: String,
    /// Bytes it moved.
    pub bytes: u64,
    /// CPU time of its process, user and system.
    pub cpu_seconds: f64,
    /// Cells, steps or checkpoints that it finished last.
    pub slowest: u64,
}

/// The report of a run: `P` is the lane's plan, `R` its lane-specific results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report<P, R> {
    /// Version, command, time, host.
    #[serde(flatten)]
    pub head: Head,
    /// The plan, decided before the first byte moved.
    pub plan: P,
    /// How the run ended.
    pub ending: Ending,
    /// The lane's results; their keys are at the top level of the file.
    #[serde(flatten)]
    pub results: R,
    /// Complete distributions. A matrix has one in each cell instead.
    pub histograms: Vec<NamedHistogram>,
    /// Time series. A matrix has one in each cell instead.
    pub series: Vec<NamedSeries>,
    /// The path that ran, and the evidence for it. A matrix has this in each cell instead.
    pub evidence: Vec<NamedEvidence>,
    /// Caveats the reader should know before trusting the numbers.
    pub warnings: Vec<Warning>,
}

impl<P, R> Report<P, R> {
    /// The report of a run that is starting: unfinished, with only `results`.
    pub fn new(head: Head, plan: P, results: R) -> Self {
        Self {
            head,
            plan,
            ending: Ending::Unfinished,
            results,
            histograms: Vec::new(),
            series: Vec::new(),
            evidence: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// The evidence for the part called `name`.
    pub fn evidence_of(&self, name: &str) -> Option<&Evidence> {
        let named = self.evidence.iter().find(|named| named.name == name);
        named.map(|named| &named.evidence)
    }

    /// The path that moved the bytes of the part called `name`, by its evidence; without any, the
    /// `planned` one.
    pub fn path_of(&self, name: &str, planned: PathKind) -> PathKind {
        let shown = self.evidence_of(name).and_then(|evidence| evidence.effective_path);
        shown.unwrap_or(planned)
    }

    /// `gds ran as gds-compat`, if the planned path fell back to another, or if its route is
    /// unproven; `None` if it ran, or no path did, or it cannot fall back to the path that ran.
    pub fn other_path(&self, name: &str, planned: PathKind) -> Option<String> {
        let evidence = self.evidence_of(name).filter(|evidence| evidence.may_be_of(planned))?;
        match evidence.effective_path {
            Some(ran) if ran == planned => None,
            Some(ran) => Some(format!("{planned} ran as {ran}")),
            None => Some(format!("the route of {planned} is unproven")),
        }
    }

    /// Adds a warning unless it is already present.
    pub fn warn(&mut self, warning: Warning) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}

/// A saved report that this program cannot read.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// Not JSON.
    #[error("the file is not a stormlp report: not valid JSON: {0}")]
    NoJson(serde_json::Error),
    /// Not a report.
    #[error("the file is not a stormlp report: {0}")]
    NoReport(&'static str),
    /// Written by another stormlp.
    #[error(
        "the report is of format version {found}, this stormlp reads {FORMAT_VERSION}: use a newer \
         stormlp"
    )]
    OtherVersion {
        /// The version in the file.
        found: u64,
    },
    /// A report with something missing or wrong in it.
    #[error("the report of `stormlp {kind}` is damaged: {source}", kind = kind.name())]
    Damaged {
        /// The command that made it.
        kind: ReportKind,
        /// The fault and its place.
        source: serde_json::Error,
    },
}

/// A saved report as JSON, the command that made it, and whether it is as it was written.
///
/// # Errors
/// If `json` is not a report, or is of another version.
pub fn parse(json: &str) -> Result<(ReportKind, serde_json::Value, Integrity), ReportError> {
    let mut value: serde_json::Value = serde_json::from_str(json).map_err(ReportError::NoJson)?;
    match value.get("format_version").and_then(serde_json::Value::as_u64) {
        Some(found) if found == u64::from(FORMAT_VERSION) => {}
        Some(found) => return Err(ReportError::OtherVersion { found }),
        None => return Err(ReportError::NoReport("`format_version` is missing")),
    }
    let kind = value.get("kind").cloned().unwrap_or_default();
    let kind: ReportKind = serde_json::from_value(kind)
        .map_err(|_| ReportError::NoReport("it does not name the command that wrote it"))?;
    let integrity = unseal(&mut value);
    Ok((kind, value, integrity))
}
