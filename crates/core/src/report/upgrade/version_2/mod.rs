//! From format version 2 to 3: what is wrong is a note everywhere, plans hold the request, and
//! results do not repeat the plan.

mod checkpoint;
mod matrix;
mod training;

use serde_json::{Map, Value};

use crate::report::ReportKind;

/// Upgrades the fields of a report.
pub(super) fn upgrade(kind: ReportKind, fields: &mut Map<String, Value>) {
    if let Some(ending) = fields.get_mut("ending").and_then(Value::as_object_mut) {
        failed(ending);
    }
    match kind {
        ReportKind::Gds => matrix::upgrade(fields),
        ReportKind::Train => training::upgrade(fields),
        ReportKind::Checkpoint => checkpoint::upgrade(fields),
    }
}

/// The ending of a failed run had its own words. A device that failed was called the machine, which
/// now means that it lacks something.
fn failed(ending: &mut Map<String, Value>) {
    for (old, new) in [("cause", "kind"), ("message", "fact")] {
        if let Some(value) = ending.remove(old) {
            ending.insert(new.into(), value);
        }
    }
    if ending.get("kind") == Some(&"machine".into()) {
        ending.insert("kind".into(), "device".into());
    }
}
