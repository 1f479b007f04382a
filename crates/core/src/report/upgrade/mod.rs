//! Upgrades reports of older format versions to the current form, as JSON, before they are typed.
//!
//! Adding or renaming a field of a plan breaks older files too: give the field its old meaning
//! here.

mod version_1;
mod version_2;

use serde_json::Value;

use super::{FORMAT_VERSION, ReportKind};

/// Upgrades a report of version `found`; damaged parts are left as they are.
pub(super) fn to_current(found: u64, kind: ReportKind, report: &mut Value) {
    let Some(fields) = report.as_object_mut() else {
        return;
    };
    if found < 2 {
        version_1::upgrade(kind, fields);
    }
    if found < 3 {
        version_2::upgrade(kind, fields);
    }
    fields.insert("format_version".into(), FORMAT_VERSION.into());
}
