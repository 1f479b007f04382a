//! From format version 1 to 2.

use serde_json::{Map, Value, json};

use crate::path::PathKind;
use crate::report::ReportKind;

/// Top-level keys of a version 1 checkpoint report outside its plan; all others were in it.
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

/// Upgrades the fields of a report.
pub(super) fn upgrade(kind: ReportKind, fields: &mut Map<String, Value>) {
    match kind {
        ReportKind::Gds => matrix(fields),
        ReportKind::Train => training(fields),
        ReportKind::Checkpoint => checkpoint(fields),
        // Newer than that version.
        ReportKind::Kvcache => {}
    }
}

/// A matrix recorded only whether the user had stopped it.
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
    if let Some(plan) = fields.get_mut("plan").and_then(Value::as_object_mut) {
        matrix_plan(plan);
    }
}

/// The cells' common values were stored alongside them.
fn matrix_plan(plan: &mut Map<String, Value>) {
    let mut take = |key: &str| plan.remove(key).unwrap_or_default();
    let asked = take("engine_asked");
    let memory = take("memory");
    let common = json!({
        "engine": take("engine"),
        // Reports from before this field existed did not request an engine by name.
        "engine_asked": if asked.is_null() { "auto".into() } else { asked },
        "memory": memory["kind"],
        "submit_batch": take("submit_batch"),
        "register_buffers": take("register"),
        "window": 1,
        "streams": 1,
    });
    let devices = memory.get("devices").and_then(Value::as_array);
    let only = devices.filter(|devices| devices.len() == 1);
    let cells = plan.get_mut("cells").and_then(Value::as_array_mut);
    for cell in cells.into_iter().flatten().filter_map(Value::as_object_mut) {
        let path = cell.get("path").cloned().unwrap_or_default();
        let path = serde_json::from_value::<PathKind>(path);
        let in_accelerator = path.is_ok_and(PathKind::ends_in_accelerator);
        let device = only.filter(|_| in_accelerator).map(|devices| &devices[0]);
        let emulated = in_accelerator && memory["emulated"] == true;
        let buffer = cell.remove("slot_bytes").unwrap_or_default();
        cell.insert("chunk_bytes".into(), buffer);
        cell.insert("device".into(), device.cloned().unwrap_or_default());
        cell.insert("emulated".into(), emulated.into());
        cell.extend(common.as_object().cloned().unwrap_or_default());
    }
    let devices = memory.get("devices").cloned().unwrap_or_default();
    plan.insert("devices".into(), devices);
}

fn training(fields: &mut Map<String, Value>) {
    let said = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default();
    let layout = said("layout").to_string();
    let engine = fields.get("evidence").and_then(|evidence| evidence.get("engine"));
    let engine = engine.and_then(|engine| engine.get("engine")).cloned();
    let warnings = fields.get("warnings").and_then(Value::as_array);
    let is_emulated = |warning: &Value| warning.get("kind") == Some(&"emulated".into());
    let emulated = warnings.is_some_and(|warnings| warnings.iter().any(is_emulated));
    if let Some(plan) = fields.get_mut("plan").and_then(Value::as_object_mut) {
        training_plan(plan, &layout, engine, emulated);
    }
    let evidence = [named("reads", fields.remove("evidence"))];
    fields.insert("evidence".into(), evidence.into_iter().flatten().collect());
}

/// The transport was decided at run time and reported in a sentence: "2 I/O threads, up to 2 chunks
/// of 256 KiB in flight in each".
fn training_plan(
    plan: &mut Map<String, Value>,
    layout: &str,
    engine: Option<Value>,
    emulated: bool,
) {
    let numbers: Vec<u64> =
        layout.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let number = |index: usize| numbers.get(index).copied().unwrap_or(1);
    let path = plan.remove("path").unwrap_or_default();
    plan.remove("threads");
    let transport = json!({
        "path": path,
        "engine": engine.unwrap_or_else(|| "psync".into()),
        "engine_asked": "auto",
        "device": emulated.then_some("host"),
        "memory": "host",
        "emulated": emulated,
        "threads": number(0),
        "queue_depth": number(1),
        "chunk_bytes": number(2) << 10,
        "window": 1,
        "submit_batch": number(1) + 1,
        "register_buffers": true,
        "streams": 1,
    });
    plan.insert("transport".into(), transport);
    if let Some(shuffle) = plan.get_mut("shuffle").and_then(Value::as_object_mut) {
        let seed = shuffle.get("seed").cloned().unwrap_or_default();
        shuffle.insert("file_seed".into(), seed);
    }
}

/// The plan's fields were mixed with the others, and the ending had its own wording.
fn checkpoint(fields: &mut Map<String, Value>) {
    let evidence = [
        named("saves", fields.remove("save_evidence")),
        named("restores", fields.remove("restore_evidence")),
    ];
    let (own, plan) = std::mem::take(fields)
        .into_iter()
        .partition(|(key, _)| CHECKPOINT_KEYS.contains(&key.as_str()) || key.starts_with("cpu_"));
    *fields = own;
    let mut plan: Map<String, Value> = plan;
    checkpoint_plan(&mut plan);
    fields.insert("plan".into(), plan.into());
    fields.insert("evidence".into(), evidence.into_iter().flatten().collect());
    if let Some(ending) = fields.get_mut("ending").and_then(Value::as_object_mut) {
        for (old, new) in [("outcome", "status"), ("fault", "cause"), ("error", "message")] {
            if let Some(value) = ending.remove(old) {
                ending.insert(new.into(), value);
            }
        }
        if ending.get("status") == Some(&"done".into()) {
            ending.insert("status".into(), "complete".into());
        }
    }
}

/// Saves and restores had a few numbers each, next to a single path and device.
fn checkpoint_plan(plan: &mut Map<String, Value>) {
    let path = plan.remove("path").unwrap_or_default();
    let device = plan.remove("device").unwrap_or_default();
    let (emulated, on_host) = (device == "host", device == "host" || device.is_null());
    let ranks = plan.get("ranks").and_then(Value::as_array).map_or(1, Vec::len);
    let split =
        plan.get("restore").and_then(|restore| restore.get("split")).cloned().unwrap_or_default();
    plan.insert("split_restores".into(), split);
    for direction in ["save", "restore"] {
        let Some(old) = plan.get(direction) else {
            continue;
        };
        let threads = old["threads"].as_u64().unwrap_or(1).max(1) as usize;
        let transport = json!({
            "path": path,
            "engine": old["engine"],
            "engine_asked": "auto",
            "device": device,
            "memory": if on_host { "host" } else { "device" },
            "emulated": emulated,
            "threads": old["threads"],
            "queue_depth": old["slots"],
            "chunk_bytes": old["chunk_bytes"],
            "window": old["streams"],
            "submit_batch": 1,
            "register_buffers": true,
            "streams": ranks.div_ceil(threads),
        });
        plan.insert(direction.into(), transport);
    }
}

/// Evidence labelled with the part it covers; `None` if there was none.
fn named(name: &str, evidence: Option<Value>) -> Option<Value> {
    let mut evidence = evidence.filter(|evidence| !evidence.is_null())?;
    evidence.as_object_mut()?.insert("name".into(), name.into());
    Some(evidence)
}
