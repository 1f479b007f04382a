//! What every saved report is: a head, the plan, how it ended, the lane's results, and what all
//! lanes measure alike. `docs/results.md` describes every field.

mod check;
pub mod sums;
mod upgrade;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::evidence::Evidence;
use crate::facts::HostFacts;
use crate::histogram::NamedHistogram;
use crate::tag::Tags;
use crate::telemetry::{Load, Track};
use crate::warning::Warning;

/// The version of the saved report's format. It goes up when an old reader would misread a new
/// file; added fields do not raise it.
pub const FORMAT_VERSION: u32 = 2;

/// What the report of a run says whose profile is an edition of MLPerf's.
pub const MODELLED: &str = "stormlp's, modelled on it; only mlpstorage makes MLPerf results";

/// Which command made a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
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
}

impl ReportKind {
    /// The name of the command.
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
    /// Which command made it.
    pub kind: ReportKind,
    /// The command line, as it was typed.
    pub command: String,
    /// When the run started, RFC 3339 in UTC.
    pub started_at: String,
    /// When it ended; `None` while it goes on, and in reports of format version 1.
    #[serde(default)]
    pub ended_at: Option<String>,
    /// What the user said of the run with `--tag`, by key.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
    /// Of which run over several hosts this is a part; `None` where it is the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<PartOf>,
    /// The machine it ran on.
    pub host: HostFacts,
}

impl Head {
    /// The head of a run that starts, in the current format version.
    pub fn new(kind: ReportKind, command: String, started_at: String, host: HostFacts) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            kind,
            command,
            started_at,
            ended_at: None,
            tags: Tags::new(),
            part: None,
            host,
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Ending {
    /// It goes on, or was killed: this is what had been measured when the report was saved.
    Unfinished,
    /// All of the plan ran.
    Complete,
    /// The user stopped it; what is here was measured before.
    Stopped,
    /// Something failed; what is here was measured before.
    Failed {
        /// Whose fault it was.
        cause: FailureCause,
        /// What failed, where, and what it means.
        message: String,
        /// What to do now; empty where nobody knows.
        #[serde(default)]
        remedy: String,
    },
}

/// What ended a run that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FailureCause {
    /// A file of the dataset could not be read, or is not what it should be.
    Dataset,
    /// A checkpoint could not be written beside training.
    Checkpoint,
    /// Storage refused, filled up, or gave back wrong data.
    Storage,
    /// The transfer path, a device or this machine.
    Machine,
    /// Another host of the run.
    Hosts,
    /// A limit of this machine or of its user: no more threads could be started.
    Resources,
    /// stormlp itself.
    Internal,
}

/// How throughput and load went over a stretch of a run, in intervals of equal length.
///
/// At most 1024 intervals; a run that outlasts them doubles their length. The last one has what was
/// left, which may be half as much, or half as much more.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Series {
    /// When the first interval began: of training in seconds from the start of its run, as its
    /// epochs have it; of cells, saves and restores from the start of what is measured.
    #[serde(default)]
    pub started_seconds: f64,
    /// Length of an interval.
    pub interval_seconds: f64,
    /// Length of the last interval; `None` in reports of before it was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_interval_seconds: Option<f64>,
    /// Bytes moved in each interval.
    pub interval_bytes: Vec<u64>,
    /// Bytes the block layer moved in each interval; `None` without a block device.
    #[serde(default)]
    pub interval_device_bytes: Option<Vec<u64>>,
    /// Transfers in flight at the end of each interval, sampled; empty where nobody looked.
    #[serde(default)]
    pub interval_in_flight: Vec<u32>,
    /// Transfers in flight, counted: their mean over the time of each interval. Empty where
    /// submissions are not counted, as in a matrix.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interval_in_flight_mean: Vec<f64>,
    /// The most transfers that were in flight at once in each interval; empty as the means are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interval_in_flight_max: Vec<u32>,
    /// CPU seconds of the process in each interval, user and system; empty where nobody looked.
    #[serde(default)]
    pub interval_cpu_seconds: Vec<f64>,
    /// CPU seconds that looking at the tracks took; `None` without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry_cpu_seconds: Option<f64>,
    /// What was looked at besides, a value for each interval: devices, host, network, GPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tracks: Vec<Track>,
    /// Queue depths and sizes of the transfers; `None` until the stretch is over, and in a matrix,
    /// whose threads keep the depth and size that they are told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Load>,
}

/// An interval of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// When it began, as [`Series::started_seconds`] counts.
    pub from_seconds: f64,
    /// How long it was; never 0.
    pub seconds: f64,
}

impl Interval {
    /// Its middle.
    pub fn middle(self) -> f64 {
        self.from_seconds + self.seconds / 2.0
    }

    /// Its end.
    pub fn end(self) -> f64 {
        self.from_seconds + self.seconds
    }
}

impl Series {
    /// The intervals of `values`, which has one for each of the series. One whose length is not
    /// known, the last of an older report, is left out.
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
    /// Which part: `run 1`, `save 3`, `restore 1`.
    pub name: String,
    /// How it went.
    #[serde(flatten)]
    pub series: Series,
}

/// What one part of a run rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NamedEvidence {
    /// Which part: `reads`, `saves`, `restores`.
    pub name: String,
    /// What ran, with the facts that show it.
    #[serde(flatten)]
    pub evidence: Evidence,
}

/// Of which run a report is a part, and whose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PartOf {
    /// The run: the name of its folder, or what `--run-id` said.
    pub run_id: String,
    /// What the host is called beside the others.
    pub host: String,
    /// What the kernel drew when the host was started: equal for processes of one host.
    pub boot_id: String,
    /// Its process there.
    pub process: u32,
    /// The number of the process under its launcher, from 0; `None` without a launcher.
    pub rank: Option<u32>,
    /// The processes that the launcher started; `None` without a launcher.
    pub size: Option<u32>,
    /// When the hosts were to begin (`--start-at`), RFC 3339 in UTC; `None` under a launcher, where
    /// they wait for each other.
    #[serde(default)]
    pub start_at: Option<String>,
}

/// What one host had a share in, of a matrix or of checkpoints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostShare {
    /// The host, with its rank where the host has several processes.
    pub name: String,
    /// Bytes that it moved.
    pub bytes: u64,
    /// CPU time of its process, user and system.
    pub cpu_seconds: f64,
    /// Cells or checkpoints that it was the last one to end.
    pub slowest: u64,
}

/// The report of a run: `P` is the lane's plan, `R` what only this lane measures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report<P, R> {
    /// Version, command, time, host.
    #[serde(flatten)]
    pub head: Head,
    /// What was decided before the first byte moved.
    pub plan: P,
    /// How the run ended.
    pub ending: Ending,
    /// What the lane measured; its keys stand at the top level of the file.
    #[serde(flatten)]
    pub results: R,
    /// Whole distributions. A matrix has one in each cell instead.
    #[serde(default)]
    pub histograms: Vec<NamedHistogram>,
    /// How it went over time. A matrix has this in each cell instead.
    #[serde(default)]
    pub series: Vec<NamedSeries>,
    /// What ran, and how that is known. A matrix has this in each cell instead.
    #[serde(default)]
    pub evidence: Vec<NamedEvidence>,
    /// What the reader should know before trusting the numbers.
    pub warnings: Vec<Warning>,
}

impl<P, R> Report<P, R> {
    /// The report of a run that begins: unfinished, and without anything but `results`.
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

    /// What the part called `name` rests on.
    pub fn evidence_of(&self, name: &str) -> Option<&Evidence> {
        let named = self.evidence.iter().find(|named| named.name == name);
        named.map(|named| &named.evidence)
    }

    /// Adds a warning, unless it is there already.
    pub fn warn(&mut self, warning: Warning) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}

/// A saved report that this program cannot read.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// No JSON.
    #[error("the file is no stormlp report: it is no JSON: {0}")]
    NoJson(serde_json::Error),
    /// Not a report at all.
    #[error("the file is no stormlp report: {0}")]
    NoReport(&'static str),
    /// Written by a newer stormlp.
    #[error(
        "the report has format version {found}, this stormlp reads up to {FORMAT_VERSION}; \
         use a newer stormlp"
    )]
    Newer {
        /// The version in the file.
        found: u64,
    },
    /// It holds what no run can have written.
    #[error(
        "the report of `stormlp {kind}` was damaged or changed: {what}",
        kind = kind.name()
    )]
    Absurd {
        /// Which command made it.
        kind: ReportKind,
        /// The field, and what is wrong with it.
        what: String,
    },
    /// A report with something missing or wrong in it.
    #[error("the report of `stormlp {kind}` is damaged: {source}", kind = kind.name())]
    Damaged {
        /// Which command made it.
        kind: ReportKind,
        /// What is wrong, and where.
        source: serde_json::Error,
    },
}

/// A saved report as JSON in the current form, and which command made it: the version is read first,
/// and reports of older versions are brought to the current form.
///
/// # Errors
/// When `json` is no report, a damaged one, or newer than this program.
pub fn current_form(json: &str) -> Result<(ReportKind, serde_json::Value), ReportError> {
    let mut value: serde_json::Value = serde_json::from_str(json).map_err(ReportError::NoJson)?;
    let version = value.get("format_version");
    match version.and_then(serde_json::Value::as_u64) {
        Some(0) | None if version.is_some() => {
            return Err(ReportError::NoReport("`format_version` is not a version"));
        }
        Some(found) if found <= u64::from(FORMAT_VERSION) => {}
        Some(found) => return Err(ReportError::Newer { found }),
        None => return Err(ReportError::NoReport("`format_version` is missing")),
    }
    let kind = value.get("kind").cloned().unwrap_or_default();
    let kind: ReportKind = serde_json::from_value(kind)
        .map_err(|_| ReportError::NoReport("it does not say which command made it"))?;
    if value["format_version"] == 1 {
        upgrade::from_version_1(kind, &mut value);
    }
    match check::absurdity(&value) {
        Some(what) => Err(ReportError::Absurd { kind, what }),
        None => Ok((kind, value)),
    }
}
