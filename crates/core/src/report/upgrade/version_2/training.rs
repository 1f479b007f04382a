//! Upgrades the report of a training run.

use serde_json::{Map, Value};

/// Fields of a plan that only repeated an option, and their names in its request.
const ASKED: [(&str, &str); 9] = [
    ("workload_source", "workload"),
    ("closed", "closed"),
    ("barrier", "barrier"),
    ("storage", "storage"),
    ("cold", "cold"),
    ("require_gds", "require_gds"),
    ("cufile_stats", "cufile_stats"),
    ("telemetry_seconds", "telemetry_seconds"),
    ("keep_step_times", "keep_step_times"),
];

/// Results that only repeated the plan.
const COPIES: [&str; 6] =
    ["workload", "accelerator", "accelerators", "profile", "steps_per_epoch", "threshold_percent"];

/// Upgrades the fields of a report.
pub(super) fn upgrade(fields: &mut Map<String, Value>) {
    if let Some(Value::Object(plan)) = fields.get_mut("plan") {
        move_request(plan);
    }
    for copy in COPIES {
        fields.shift_remove(copy);
    }
}

/// Options that were not saved stay unknown; the rest of the plan has what came of them.
fn move_request(plan: &mut Map<String, Value>) {
    // Where a report says nothing about it, there was no telemetry.
    let mut request = Map::from_iter([("telemetry_seconds".to_string(), Value::Null)]);
    for (from, to) in ASKED {
        if let Some(value) = plan.shift_remove(from) {
            request.insert(to.to_string(), value);
        }
    }
    plan.insert("request".to_string(), Value::Object(request));
}
