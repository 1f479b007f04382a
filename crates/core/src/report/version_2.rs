//! From format version 2 to 3: what is wrong is a note everywhere, plans hold the request, and
//! results do not repeat the plan.

use serde_json::{Map, Value, json};

use crate::report::ReportKind;

/// Fields of a plan that its request has now, under the same names, and their values in reports
/// from before there were such fields.
const MATRIX_ASKED: [(&str, Value); 13] = [
    ("name", Value::Null),
    ("warmup_seconds", Value::Null),
    ("find_knee", Value::Bool(false)),
    ("cache", Value::Null),
    ("read_percent", Value::Null),
    ("fill", Value::Null),
    ("verify", Value::Null),
    ("open_direct", Value::Bool(true)),
    ("seed", Value::Null),
    ("require_gds", Value::Null),
    ("cufile_stats", Value::Null),
    ("require_direct", Value::Null),
    ("telemetry_seconds", Value::Null),
];
/// Fields of a plan that only repeated an option, and their names in its request.
const TRAINING_ASKED: [(&str, &str); 9] = [
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
const TRAINING_COPIES: [&str; 6] =
    ["workload", "accelerator", "accelerators", "profile", "steps_per_epoch", "threshold_percent"];
/// Fields that the plan copied from the request.
const CHECKPOINT_ASKED: [&str; 9] = [
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
const CHECKPOINT_FOLLOWING: [&str; 2] = ["scale", "split_restores"];

/// Upgrades the fields of a report.
pub(super) fn upgrade(kind: ReportKind, fields: &mut Map<String, Value>) {
    if let Some(ending) = fields.get_mut("ending").and_then(Value::as_object_mut) {
        failed(ending);
    }
    match kind {
        ReportKind::Gds => matrix(fields),
        ReportKind::Train => training(fields),
        ReportKind::Checkpoint => checkpoint(fields),
        // Newer than that version.
        ReportKind::Kvcache => {}
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

/// Upgrades a transfer matrix.
fn matrix(fields: &mut Map<String, Value>) {
    if let Some(plan) = fields.get_mut("plan").and_then(Value::as_object_mut) {
        let mut request = matrix_asked(plan);
        let names = plan.remove("job_names").unwrap_or_default();
        request.insert("jobs".into(), jobs(&names, plan));
        request.extend(as_planned(plan));
        plan.insert("request".into(), request.into());
    }
}

/// Takes from a plan the fields of its request.
fn matrix_asked(plan: &mut Map<String, Value>) -> Map<String, Value> {
    let mut request = Map::new();
    for (key, before) in MATRIX_ASKED {
        request.insert(key.into(), plan.remove(key).unwrap_or(before));
    }
    let mut take = |key: &str| plan.remove(key).unwrap_or_default();
    let (paths, span, alignment) = (take("paths"), take("span"), take("random_alignment_bytes"));
    let wanted = paths.get("wanted");
    let named = wanted.or(paths.get("named")).cloned();
    let fsync = match take("fsync") {
        Value::Bool(true) => "end".into(),
        Value::Bool(false) => "none".into(),
        choice => choice,
    };
    let others = json!({
        "optional_paths": wanted.is_some(),
        "paths": named.unwrap_or_else(|| json!([paths])),
        "duration_seconds": span["seconds"],
        "passes": span["passes"],
        "repeat": take("repeat"),
        "random_alignment_bytes": alignment,
        "fsync": fsync,
        "remove": take("keep") == false,
    });
    request.extend(others.as_object().cloned().unwrap_or_default());
    request
}

/// What the request had beside that, as far as the cells and the files of the plan tell.
fn as_planned(plan: &Map<String, Value>) -> Map<String, Value> {
    let none = Vec::new();
    let list = |key: &str| plan.get(key).and_then(Value::as_array).unwrap_or(&none);
    let cells = list("cells");
    let each = |key: &str| {
        let mut once: Vec<&Value> = Vec::new();
        for value in cells.iter().filter_map(|cell| cell.get(key)) {
            if !once.contains(&value) {
                once.push(value);
            }
        }
        json!(once)
    };
    let common = |key: &str, before: Value| {
        let of_cell = cells.first().and_then(|cell| cell.get(key)).cloned();
        of_cell.unwrap_or(before)
    };
    let first = list("files").first().and_then(|file| file["path"].as_str());
    let in_folder = first.filter(|_| !list("folders").is_empty());
    let name = in_folder.and_then(|path| path.rsplit('/').next());
    let planned = json!({
        "ops": each("op"),
        "io_sizes": each("io_size"),
        "threads": each("threads"),
        "queue_depths": each("queue_depth"),
        "file_stem": name.and_then(|name| name.split('.').next()).unwrap_or("stormlp"),
        "shared_file": "split",
        "offset_bytes": 0,
        "overwrite_block_devices": false,
        "overwrite_signatures": [],
        "devices": [],
        "memory": common("memory", "device".into()),
        "pages": common("pages", "huge".into()),
        "no_register": common("register_buffers", true.into()) == false,
        "engine": common("engine_asked", "auto".into()),
        "threading": {"wait": null, "numa": "auto", "cpus": null},
    });
    planned.as_object().cloned().unwrap_or_default()
}

/// The jobs of these names, at the places of their files.
fn jobs(names: &Value, plan: &Map<String, Value>) -> Value {
    let at = |key: &str, index: &Value| {
        let index = index.as_u64().unwrap_or(u64::MAX) as usize;
        plan.get(key).and_then(|list| list.get(index)).cloned().unwrap_or_default()
    };
    let crews = plan.get("crews").and_then(Value::as_array).into_iter().flatten();
    let workers: Vec<&Value> =
        crews.filter_map(|crew| crew["workers"].as_array()).flatten().collect();
    let target = |job: usize| {
        let worker = workers.iter().find(|worker| worker["job"] == job);
        let file = at("files", worker.map_or(&Value::Null, |worker| &worker["file"]));
        match &file["folder"] {
            Value::Null => json!({"file": file["path"].as_str().unwrap_or_default()}),
            folder => json!({"folder": at("folders", folder)["path"]}),
        }
    };
    let names = names.as_array().into_iter().flatten().enumerate();
    names.map(|(job, name)| json!({"name": name, "target": target(job)})).collect()
}

/// Upgrades a training run.
fn training(fields: &mut Map<String, Value>) {
    if let Some(Value::Object(plan)) = fields.get_mut("plan") {
        move_training_request(plan);
    }
    for copy in TRAINING_COPIES {
        fields.shift_remove(copy);
    }
}

/// Options that were not saved stay unknown; the rest of the plan has what came of them.
fn move_training_request(plan: &mut Map<String, Value>) {
    // Where a report says nothing about it, there was no telemetry.
    let mut request = Map::from_iter([("telemetry_seconds".to_string(), Value::Null)]);
    for (from, to) in TRAINING_ASKED {
        if let Some(value) = plan.shift_remove(from) {
            request.insert(to.to_string(), value);
        }
    }
    plan.insert("request".to_string(), Value::Object(request));
}

/// Upgrades a checkpoint run.
fn checkpoint(fields: &mut Map<String, Value>) {
    if let Some(plan) = fields.get_mut("plan").and_then(Value::as_object_mut) {
        let request = checkpoint_request(plan);
        plan.insert("request".into(), request.into());
        CHECKPOINT_FOLLOWING.iter().for_each(|key| drop(plan.remove(*key)));
    }
}

/// The request, as far as the plan held it: what else was asked for is unknown, and the plan has
/// what was decided.
fn checkpoint_request(plan: &mut Map<String, Value>) -> Map<String, Value> {
    let asked =
        CHECKPOINT_ASKED.iter().filter_map(|key| Some((key.to_string(), plan.remove(*key)?)));
    let mut request: Map<String, Value> = asked.collect();
    let overlap = plan.remove("overlap").unwrap_or_default();
    request.insert("overlap_step_seconds".into(), overlap["step_seconds"].clone());
    request.insert("model".into(), plan.get("model").cloned().unwrap_or_default());
    let path = plan.get("save").and_then(|save| save.get("path"));
    request.extend(path.map(|path| ("path".to_string(), path.clone())));
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_of_an_older_plan_is_what_it_had_of_it() {
        let mut report = json!({"plan": {
            "name": "quick",
            "paths": {"wanted": ["gds", "cpu"]},
            "span": {"passes": 2},
            "fsync": true,
            "keep": false,
            "job_names": ["a", "b"],
            "folders": [{"path": "data"}],
            "files": [
                {"path": "data/gdsio.0", "folder": 0},
                {"path": "/dev/x", "folder": null},
            ],
            "crews": [{"workers": [{"job": 0, "file": 0}, {"job": 1, "file": 1}]}],
            "cells": [
                {"op": "read", "threads": 1, "register_buffers": false},
                {"op": "read", "threads": 8, "register_buffers": false},
            ],
        }});
        matrix(report.as_object_mut().unwrap());
        let plan = &report["plan"];
        assert!(plan.get("name").is_none() && plan.get("job_names").is_none());
        for (key, value) in [
            ("name", json!("quick")),
            ("paths", json!(["gds", "cpu"])),
            ("optional_paths", json!(true)),
            ("passes", json!(2)),
            ("duration_seconds", Value::Null),
            ("fsync", json!("end")),
            ("remove", json!(true)),
            ("open_direct", json!(true)),
            ("ops", json!(["read"])),
            ("threads", json!([1, 8])),
            ("no_register", json!(true)),
            ("file_stem", json!("gdsio")),
            (
                "jobs",
                json!([
                    {"name": "a", "target": {"folder": "data"}},
                    {"name": "b", "target": {"file": "/dev/x"}},
                ]),
            ),
        ] {
            assert_eq!(plan["request"][key], value, "{key}");
        }
        for (before, now) in [("false", "none"), ("\"none\"", "none"), ("\"auto\"", "auto")] {
            let fsync: Value = serde_json::from_str(before).unwrap();
            let mut report = json!({"plan": {"fsync": fsync}});
            matrix(report.as_object_mut().unwrap());
            assert_eq!(report["plan"]["request"]["fsync"], now);
        }
    }
}
