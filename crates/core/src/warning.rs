//! Warnings: a measured fact and the recommended action, both printed and saved in the report.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The subject of a warning; a closed list that scripts can match on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WarningKind {
    /// The report is not as it was written.
    Changed,
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
    /// The measurement was too short to trust.
    TooShort,
    /// The host's CPU or the harness itself was the limit.
    HarnessBound,
    /// Other programs used the machine or its storage during the measurement.
    OthersLoad,
    /// A limit of the control group held the run back.
    GroupLimit,
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
    /// The dataset differs from the workload's description.
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Warning {
    /// The subject.
    pub kind: WarningKind,
    /// The measured or found fact and its place, with units; of several parts of a run, in the
    /// first.
    pub fact: String,
    /// What to do now; empty if the fact is sufficient, or no remedy is known.
    pub remedy: String,
    /// The parts of a run that it is about, in order; empty for all of it, and in a report, where it
    /// is saved with its part.
    #[serde(skip)]
    pub subjects: Vec<String>,
}

/// The importance of warnings; a screen has room for a few.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// No screen may leave it out: the result is not the requested one, or not clean.
    Vital,
    /// It is about the path that ran, which the figures rest on.
    Path,
    /// It explains a figure.
    Explains,
    /// All other warnings.
    Other,
}

impl WarningKind {
    /// The importance of such a warning.
    pub fn rank(self) -> Rank {
        match self {
            Self::Changed | Self::Retried | Self::NotVerified => Rank::Vital,
            Self::PathFellBack | Self::PathNotProven | Self::NotDirect => Rank::Path,
            Self::GroupLimit | Self::OthersLoad | Self::Impaired => Rank::Explains,
            _ => Rank::Other,
        }
    }
}

/// Maximum number of subjects that are named.
const NAMED: usize = 3;

impl Warning {
    /// A warning about a whole run.
    pub fn new(kind: WarningKind, fact: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { kind, fact: fact.into(), remedy: remedy.into(), subjects: Vec::new() }
    }

    /// The same warning about a part of a run.
    #[must_use]
    pub fn about(mut self, subject: String) -> Self {
        self.subjects.push(subject);
        self
    }

    /// Whether both ask for the same action for the same reason, whatever their numbers and subjects.
    pub fn is_like(&self, other: &Self) -> bool {
        let differs = self.remedy.is_empty() && self.fact != other.fact;
        self.kind == other.kind && self.remedy == other.remedy && !differs
    }

    /// The subjects, if any, then the fact.
    pub fn subjects_and_fact(&self) -> String {
        let fact = &self.fact;
        match self.subjects.as_slice() {
            [] => fact.clone(),
            [only] => format!("{only}: {fact}"),
            [first, others @ ..] if others.len() < NAMED => {
                format!("{first}: {fact} (like it: {})", others.join("; "))
            }
            [first, others @ ..] => format!("{first}: {fact} (and {} more like it)", others.len()),
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.subjects_and_fact())?;
        if self.remedy.is_empty() { Ok(()) } else { write!(f, "; {}", self.remedy) }
    }
}

/// Adds `warning`, or its subjects to a warning like it.
pub fn merge(warnings: &mut Vec<Warning>, warning: Warning) {
    match warnings.iter_mut().find(|known| known.is_like(&warning)) {
        Some(known) => {
            let new = warning.subjects.into_iter().filter(|one| !known.subjects.contains(one));
            let new: Vec<String> = new.collect();
            known.subjects.extend(new);
        }
        None => warnings.push(warning),
    }
}
