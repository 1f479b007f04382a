//! A saved report of any command: the only module that knows the report types of all lanes.

use std::ops::Deref;

use derive_more::From;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use stormlp_checkpoint::report::CheckpointReport;
use stormlp_checkpoint::show as checkpoint;
use stormlp_core::json;
#[cfg(test)]
use stormlp_core::report::FORMAT_VERSION;
use stormlp_core::report::{Ending, Head, ReportError, ReportKind, parse};
use stormlp_kvcache::report::KvcacheReport;
use stormlp_kvcache::show as kvcache;
use stormlp_matrix::plan::MatrixReport;
use stormlp_matrix::show as matrix;
use stormlp_show::Shown;
use stormlp_training::report::TrainReport;
use stormlp_training::show as training;

/// A saved report of any command.
#[derive(Debug, Clone, Serialize, From)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(untagged)]
#[allow(clippy::large_enum_variant, reason = "one at a time is held")]
pub(crate) enum AnyReport {
    /// A transfer matrix.
    #[cfg_attr(test, schemars(extend("properties" = common_schema("gds"))))]
    Gds(MatrixReport),
    /// A training run.
    #[cfg_attr(test, schemars(extend("properties" = common_schema("train"))))]
    Train(TrainReport),
    /// A checkpoint run.
    #[cfg_attr(test, schemars(extend("properties" = common_schema("checkpoint"))))]
    Checkpoint(CheckpointReport),
    /// A run of the KV-cache workload.
    #[cfg_attr(test, schemars(extend("properties" = common_schema("kvcache"))))]
    Kvcache(KvcacheReport),
}

/// The fields that tell the commands' reports apart, and those that are not in a lane's type.
#[cfg(test)]
fn common_schema(kind: &str) -> Value {
    serde_json::json!({
        "kind": {"const": kind},
        "format_version": {"const": FORMAT_VERSION},
        "comparison": {
            "type": "object",
            "description": "The comparison with the report of `--baseline`, as `stormlp compare` \
                            prints it; only where JSON was printed or exported with one.",
        },
        "digest": {
            "type": "string",
            "description": "SHA-256 of all other fields in the canonical form of RFC 8785.",
        },
    })
}

impl AnyReport {
    /// Parses a saved report.
    pub(crate) fn from_json(json: &str) -> Result<Self, ReportError> {
        let (kind, value, integrity) = parse(json)?;
        let report = match kind {
            ReportKind::Gds => serde_json::from_value(value).map(Self::Gds),
            ReportKind::Train => serde_json::from_value(value).map(Self::Train),
            ReportKind::Checkpoint => serde_json::from_value(value).map(Self::Checkpoint),
            ReportKind::Kvcache => serde_json::from_value(value).map(Self::Kvcache),
        };
        let mut report: Self = report.map_err(|source| ReportError::Damaged { kind, source })?;
        report.open().1.integrity = integrity;
        Ok(report)
    }

    /// The report as JSON for people and programs, with its digest.
    pub(crate) fn sealed(&self) -> Result<Value, serde_json::Error> {
        json::sealed(self, &self.head().integrity)
    }

    /// Sets how and when the run ended.
    pub(crate) fn end(&mut self, ending: Ending, at: String) {
        let (its_ending, head) = self.open();
        *its_ending = ending;
        head.ended_at = Some(at);
    }

    fn open(&mut self) -> (&mut Ending, &mut Head) {
        match self {
            Self::Gds(report) => (&mut report.ending, &mut report.head),
            Self::Train(report) => (&mut report.ending, &mut report.head),
            Self::Checkpoint(report) => (&mut report.ending, &mut report.head),
            Self::Kvcache(report) => (&mut report.ending, &mut report.head),
        }
    }

    /// The report of a matrix.
    pub(crate) fn as_gds(&self) -> Option<&MatrixReport> {
        if let Self::Gds(report) = self { Some(report) } else { None }
    }
}

impl Deref for AnyReport {
    type Target = dyn Shown;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Gds(report) => report,
            Self::Train(report) => report,
            Self::Checkpoint(report) => report,
            Self::Kvcache(report) => report,
        }
    }
}

/// The CSV columns of a command's records.
pub(crate) fn record_columns(kind: ReportKind) -> Vec<&'static str> {
    let places = match kind {
        ReportKind::Gds => &matrix::RECORDS[..],
        ReportKind::Train => &training::RECORDS[..],
        ReportKind::Checkpoint => &checkpoint::RECORDS[..],
        ReportKind::Kvcache => &kvcache::RECORDS[..],
    };
    places.iter().map(|(name, _)| *name).collect()
}

#[cfg(test)]
mod tests;
