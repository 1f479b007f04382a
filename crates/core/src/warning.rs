//! Warnings: a measured fact and the recommended action, both printed and saved in the report.

use serde::{Deserialize, Serialize};

use crate::note::Note;

/// The subject of a warning; a closed list that scripts can match on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WarningKind {
    /// A path other than the requested one ran.
    PathFellBack,
    /// A path ran, but its route is not proven.
    PathNotProven,
    /// The file system refused `O_DIRECT`.
    NotDirect,
    /// The data fit in the host's memory.
    FitsInMemory,
    /// Files have holes or unwritten space, for which no device is read.
    Holes,
    /// Files were unexpectedly in the page cache, or unexpectedly not.
    CacheState,
    /// The first sample, or some samples, are far from the others.
    Outliers,
    /// The measurement was too short to trust.
    TooShort,
    /// The host's CPU or the harness itself was the limit.
    HarnessBound,
    /// Some threads took much longer than others.
    LongTail,
    /// Other programs used the machine or its storage during the measurement.
    OthersLoad,
    /// Throughput drifted over the run.
    NoSteadyState,
    /// Not a release build.
    DebugBuild,
    /// An I/O engine other than the best one was used.
    EngineFellBack,
    /// The hosts of a run differ, or their data was not shared.
    Hosts,
    /// Buffers are on small pages or are not registered.
    Buffers,
    /// Threads, GPU and drives are on different NUMA nodes.
    FarPlacement,
    /// The accelerator memory is host memory.
    Emulated,
    /// Emulated compute ended later than scheduled.
    Pacing,
    /// The run is smaller than the real workload.
    Scaled,
    /// The dataset differs from what the workload describes.
    Dataset,
    /// A checkpoint that would not survive a crash.
    NotDurable,
    /// Checkpoints of an earlier run were replaced, or omitted from a restore.
    EarlierCheckpoints,
    /// A file to be removed is not the one stormlp created there, and was kept.
    NotRemoved,
    /// A setting that has no effect here.
    NoEffect,
    /// Requests were made again, because an object store was busy or a connection broke.
    Retried,
    /// Bytes that were to be verified by checksums were not.
    NotVerified,
    /// Storage was throttled or made to fail on purpose.
    Impaired,
    /// The kernel, a driver or a library is known to behave badly here.
    KnownIssue,
    /// The official tool's figure may be lower: this one does not include the cost of its client.
    UpperBound,
    /// A rule of a benchmark suite is not met, so the result is not comparable.
    NotComparable,
}

/// A measured fact and the recommended action.
pub type Warning = Note<WarningKind>;

impl WarningKind {
    /// Whether it says that the bytes took another path than the requested one, or may have.
    pub fn is_about_path(self) -> bool {
        matches!(self, Self::PathFellBack | Self::PathNotProven | Self::NotDirect)
    }

    /// Whether no screen may leave it out: the result is not what was asked for, or not clean.
    pub fn is_vital(self) -> bool {
        matches!(self, Self::Retried | Self::NotVerified)
    }
}

impl Warning {
    /// The part that is shared by warnings which differ only in their numbers.
    pub fn shape(&self) -> (WarningKind, String, &str) {
        (self.kind, without_numbers(&self.fact), &self.remedy)
    }
}

/// A text with all numbers and size units normalised.
fn without_numbers(text: &str) -> String {
    let mut shape = String::new();
    for c in text.chars() {
        let is_number = c.is_ascii_digit() || (c == '.' && shape.ends_with('0'));
        match is_number {
            true if shape.ends_with('0') => {}
            true => shape.push('0'),
            false => shape.push(c),
        }
    }
    for unit in ["KiB", "MiB", "GiB", "TiB"] {
        shape = shape.replace(unit, "B");
    }
    shape
}
