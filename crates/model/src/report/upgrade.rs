//! Reports of format version 1, brought to the current form as JSON, before any type sees them.
//!
//! A plan that gets or renames a field breaks these files too: give the field its old meaning
//! here.

use serde_json::{Map, Value, json};

use super::{FORMAT_VERSION, ReportKind};

/// Keys of a checkpoint's report of version 1 that are not its plan's; all others were.
const CHECKPOINT_KEYS: [&str; 13] = [
    "format_version",
    "kind",
    "command",
    "started_at",
    "host",
    "warnings",
    "ending",
    "saves",
    "restores",
    "summary",
    "elapsed_seconds",
    "verified_bytes",
    "peak_rss_bytes",
];

/// Brings a report of version 1 to the current form; what is damaged stays as it is.
pub(super) fn from_version_1(kind: ReportKind, report: &mut Value) {
    let Some(fields) = report.as_object_mut() else {
        return;
    };
    fields.insert("format_version".into(), FORMAT_VERSION.into());
    match kind {
        ReportKind::Gds => matrix(fields),
        ReportKind::Train => training(fields),
        ReportKind::Checkpoint => checkpoint(fields),
    }
}

/// Whether the user had stopped it was all that a matrix said of its end.
fn matrix(fields: &mut Map<String, Value>) {
    let stopped = fields.remove("stopped").and_then(|value| value.as_bool());
    let count = |value: Option<&Value>| value.and_then(Value::as_array).map_or(0, Vec::len);
    let done = count(fields.get("cells"));
    let planned = count(fields.get("plan").and_then(|plan| plan.get("cells")));
    let status = match stopped {
        Some(true) => "stopped",
        _ if done < planned => "unfinished",
        _ => "complete",
    };
    fields.insert("ending".into(), json!({ "status": status }));
}

fn training(fields: &mut Map<String, Value>) {
    let evidence = [named("reads", fields.remove("evidence"))];
    fields.insert("evidence".into(), evidence.into_iter().flatten().collect());
}

/// The plan's fields stood among the others, and the end had words of its own.
fn checkpoint(fields: &mut Map<String, Value>) {
    let evidence = [
        named("saves", fields.remove("save_evidence")),
        named("restores", fields.remove("restore_evidence")),
    ];
    let (own, plan) = std::mem::take(fields)
        .into_iter()
        .partition(|(key, _)| CHECKPOINT_KEYS.contains(&key.as_str()) || key.starts_with("cpu_"));
    *fields = own;
    let plan: Map<String, Value> = plan;
    fields.insert("plan".into(), plan.into());
    fields.insert("evidence".into(), evidence.into_iter().flatten().collect());
    if let Some(ending) = fields.get_mut("ending").and_then(Value::as_object_mut) {
        for (old, new) in [
            ("outcome", "status"),
            ("fault", "cause"),
            ("error", "message"),
        ] {
            if let Some(value) = ending.remove(old) {
                ending.insert(new.into(), value);
            }
        }
        if ending.get("status") == Some(&"done".into()) {
            ending.insert("status".into(), "complete".into());
        }
    }
}

/// Evidence under the name of what it is about; `None` where there was none.
fn named(name: &str, evidence: Option<Value>) -> Option<Value> {
    let mut evidence = evidence.filter(|evidence| !evidence.is_null())?;
    evidence.as_object_mut()?.insert("name".into(), name.into());
    Some(evidence)
}
