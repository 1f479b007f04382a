//! From format version 2 to 3: plans hold the request, and results do not repeat the plan.

mod checkpoint;
mod matrix;
mod training;

use serde_json::{Map, Value};

use crate::report::ReportKind;

/// Upgrades the fields of a report.
pub(super) fn upgrade(kind: ReportKind, fields: &mut Map<String, Value>) {
    match kind {
        ReportKind::Gds => matrix::upgrade(fields),
        ReportKind::Train => training::upgrade(fields),
        ReportKind::Checkpoint => checkpoint::upgrade(fields),
    }
}
