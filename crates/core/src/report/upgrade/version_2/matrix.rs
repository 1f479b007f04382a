//! Upgrades the report of a transfer matrix.

use serde_json::{Map, Value};

/// Upgrades the fields of a report.
pub(super) fn upgrade(_fields: &mut Map<String, Value>) {}
