//! A saved report of any command: the only module that knows the report types of all lanes.

use std::ops::Deref;

use derive_more::From;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;
use stormlp_checkpoint::report::CheckpointReport;
use stormlp_checkpoint::show as checkpoint;
#[cfg(test)]
use stormlp_core::report::FORMAT_VERSION;
use stormlp_core::report::{Ending, ReportError, ReportKind, parse};
use stormlp_kvcache::report::KvcacheReport;
use stormlp_kvcache::show as kvcache;
use stormlp_matrix::plan::MatrixReport;
use stormlp_matrix::show as matrix;
use stormlp_show::Shown;
use stormlp_show::document::Columns;
use stormlp_show::document::Document;
use stormlp_training::report::TrainReport;
use stormlp_training::show as training;

/// A saved report of any command.
#[derive(Debug, Clone, Serialize, From)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(untagged)]
#[allow(clippy::large_enum_variant, reason = "one at a time is held")]
pub(crate) enum AnyReport {
    /// A transfer matrix.
    #[cfg_attr(test, schemars(extend("properties" = {"kind": {"const": "gds"}, "format_version": {"const": FORMAT_VERSION}, "comparison": comparison_schema()})))]
    Gds(MatrixReport),
    /// A training run.
    #[cfg_attr(test, schemars(extend("properties" = {"kind": {"const": "train"}, "format_version": {"const": FORMAT_VERSION}, "comparison": comparison_schema()})))]
    Train(TrainReport),
    /// A checkpoint run.
    #[cfg_attr(test, schemars(extend("properties" = {"kind": {"const": "checkpoint"}, "format_version": {"const": FORMAT_VERSION}, "comparison": comparison_schema()})))]
    Checkpoint(CheckpointReport),
    /// A run of the KV-cache workload.
    #[cfg_attr(test, schemars(extend("properties" = {"kind": {"const": "kvcache"}, "format_version": {"const": FORMAT_VERSION}, "comparison": comparison_schema()})))]
    Kvcache(KvcacheReport),
}

/// The comparison that is added to a report printed or exported with a baseline; it is never saved.
#[cfg(test)]
fn comparison_schema() -> serde_json::Value {
    serde_json::json!({
        "type": "object",
        "description": "The comparison with the report of `--baseline`, as `stormlp compare` prints \
                        it; only where JSON was printed or exported with one.",
    })
}

impl AnyReport {
    /// Parses a saved report, if it is as saved.
    pub(crate) fn from_json(json: &str) -> Result<Self, ReportError> {
        let (kind, value) = parse(json)?;
        let report = match kind {
            ReportKind::Gds => serde_json::from_value(value).map(Self::Gds),
            ReportKind::Train => serde_json::from_value(value).map(Self::Train),
            ReportKind::Checkpoint => serde_json::from_value(value).map(Self::Checkpoint),
            ReportKind::Kvcache => serde_json::from_value(value).map(Self::Kvcache),
        };
        report.map_err(|source| ReportError::Damaged { kind, source })
    }

    /// Sets how and when the run ended.
    pub(crate) fn end(&mut self, ending: Ending, at: String) {
        let (its_ending, head) = match self {
            Self::Gds(report) => (&mut report.ending, &mut report.head),
            Self::Train(report) => (&mut report.ending, &mut report.head),
            Self::Checkpoint(report) => (&mut report.ending, &mut report.head),
            Self::Kvcache(report) => (&mut report.ending, &mut report.head),
        };
        *its_ending = ending;
        head.ended_at = Some(at);
    }

    /// The report of a matrix.
    pub(crate) fn as_gds(&self) -> Option<&MatrixReport> {
        if let Self::Gds(report) = self { Some(report) } else { None }
    }

    /// The report as a document; `columns` applies to a matrix.
    pub(crate) fn document_with(&self, columns: Columns) -> Document {
        let Self::Gds(report) = self else {
            return self.document();
        };
        matrix::document(report, columns)
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
