//! Upgrades the report of a checkpoint run.

use serde_json::{Map, Value};

/// Fields that the plan copied from the request.
const ASKED: [&str; 9] = [
    "closed",
    "folders",
    "keep",
    "local_data",
    "cold",
    "verify",
    "require_gds",
    "cufile_stats",
    "telemetry_seconds",
];
/// Fields that follow from others.
const FOLLOWING: [&str; 2] = ["scale", "split_restores"];

/// Upgrades the fields of a report.
pub(super) fn upgrade(fields: &mut Map<String, Value>) {
    if let Some(plan) = fields.get_mut("plan").and_then(Value::as_object_mut) {
        let request = request(plan);
        plan.insert("request".into(), request.into());
        FOLLOWING.iter().for_each(|key| drop(plan.remove(*key)));
    }
}

/// The request, as far as the plan held it: what else was asked for is unknown, and the plan has
/// what was decided.
fn request(plan: &mut Map<String, Value>) -> Map<String, Value> {
    let asked = ASKED.iter().filter_map(|key| Some((key.to_string(), plan.remove(*key)?)));
    let mut request: Map<String, Value> = asked.collect();
    let overlap = plan.remove("overlap").unwrap_or_default();
    request.insert("overlap_step_seconds".into(), overlap["step_seconds"].clone());
    request.insert("model".into(), plan.get("model").cloned().unwrap_or_default());
    let path = plan.get("save").and_then(|save| save.get("path"));
    request.extend(path.map(|path| ("path".to_string(), path.clone())));
    request
}
