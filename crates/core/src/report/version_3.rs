//! From format version 3 to 4: evidence in the words *direct* and *fallback* operations, with the
//! mechanism beside them, and devices of a matrix as one word.

use serde_json::{Map, Value};

use crate::report::ReportKind;

/// The key of a library's evidence; the library was always NVIDIA's.
const OLD_EVIDENCE: &str = "cufile";

/// Upgrades the fields of a report.
pub(super) fn upgrade(kind: ReportKind, fields: &mut Map<String, Value>) {
    for value in fields.values_mut() {
        evidence(value);
    }
    if kind == ReportKind::Gds
        && let Some(plan) = fields.get_mut("plan")
        && let Some(devices) = plan.pointer_mut("/request/devices")
    {
        one_word(devices);
    }
}

/// Upgrades all evidence within `value`, which it recognises by its shape: the lines of a journal
/// have no version.
pub(super) fn evidence(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(evidence),
        Value::Object(fields) => {
            if fields.contains_key("effective_path")
                && let Some(mut old) = fields.remove(OLD_EVIDENCE)
            {
                if let Some(old) = old.as_object_mut() {
                    direct_and_fallback(old);
                }
                fields.insert("direct_storage".into(), old);
            }
            fields.values_mut().for_each(evidence);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What libcufile did, in words that fit every vendor's library.
fn direct_and_fallback(fields: &mut Map<String, Value>) {
    let mut take = |key: &str| fields.remove(key).filter(|value| !value.is_null());
    let direct = [("p2pdma", take("p2p_operations")), ("nvidia_fs", take("nvfs_operations"))];
    let kernel = [("nvidia_fs", take("nvfs_driver_operations"))];
    let fallback = take("posix_operations");
    let allowed = take("compat_mode_allowed");
    let proof = take("proof");
    let by = |counts: &[(&str, Option<Value>)]| {
        let known = counts.iter().filter_map(|(name, count)| Some((*name, count.clone()?)));
        known.map(|(name, count)| (name.to_string(), count)).collect::<Map<_, _>>()
    };
    let direct = by(&direct);
    fields.insert("library".into(), "libcufile".into());
    let counts = if direct.is_empty() { Value::Null } else { direct.into() };
    fields.insert("direct_operations".into(), counts);
    fields.insert("fallback_operations".into(), fallback.into());
    fields.insert("kernel_operations".into(), by(&kernel).into());
    fields.insert("fallback_allowed".into(), allowed.into());
    if let Some(proof) = proof {
        let now = match proof.as_str() {
            Some("nvidia_fs") => "kernel_driver".into(),
            Some("compat_forbidden") => "fallback_forbidden".into(),
            _ => proof,
        };
        fields.insert("proof".into(), now);
    }
}

/// A list of devices as the option has it: `cuda:0,cuda:1`.
fn one_word(devices: &mut Value) {
    if let Some(list) = devices.as_array() {
        let names: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
        *devices = if names.is_empty() { Value::Null } else { names.join(",").into() };
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::evidence::{Evidence, Mechanism, RouteProof};

    fn old(proof: &str, counts: [Option<u64>; 4]) -> Value {
        let [p2p, nvfs, posix, kernel] = counts;
        json!({
            "effective_path": "gds", "summary": "so it went", "direct_io": "honoured",
            "engine": null,
            "cufile": {
                "library_version": "1.16", "library_path": "/lib/libcufile.so.0",
                "p2p_operations": p2p, "nvfs_operations": nvfs, "posix_operations": posix,
                "nvfs_driver_operations": kernel, "counted": "at_first", "proof": proof,
                "to_prove": null, "compat_mode_allowed": false, "properties": ["batch"],
            },
        })
    }

    fn read(mut value: Value) -> Evidence {
        evidence(&mut value);
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn counters_of_routes_are_direct_and_fallback_operations() {
        let counted = read(old("counters", [Some(7), Some(2), Some(1), None]));
        let it = counted.direct_storage.unwrap();
        let direct = [(Mechanism::P2pdma, 7), (Mechanism::NvidiaFs, 2)].into();
        assert_eq!((it.direct_operations, it.fallback_operations), (Some(direct), Some(1)));
        assert_eq!((it.library.as_str(), it.fallback_allowed), ("libcufile", Some(false)));
        assert!(it.kernel_operations.is_empty());
        let kernel = read(old("nvidia_fs", [None, None, None, Some(40)])).direct_storage.unwrap();
        assert_eq!((kernel.direct_operations, kernel.fallback_operations), (None, None));
        assert_eq!(kernel.kernel_operations, [(Mechanism::NvidiaFs, 40)].into());
        assert_eq!(kernel.proof, RouteProof::KernelDriver);
        let forbidden = read(old("compat_forbidden", [None; 4])).direct_storage.unwrap();
        assert_eq!(forbidden.proof, RouteProof::FallbackForbidden);
    }

    #[test]
    fn evidence_is_found_wherever_it_is_and_left_alone_once_upgraded() {
        let mut report = json!({
            "plan": {"request": {"devices": ["cuda:0", "cuda:1"]}},
            "cells": [{"evidence": old("counters", [Some(1), Some(0), Some(0), None])}],
        });
        upgrade(ReportKind::Gds, report.as_object_mut().unwrap());
        assert_eq!(report["plan"]["request"]["devices"], "cuda:0,cuda:1");
        let now = &report["cells"][0]["evidence"]["direct_storage"];
        assert_eq!(now["direct_operations"], json!({"p2pdma": 1, "nvidia_fs": 0}));
        let before = report.clone();
        upgrade(ReportKind::Gds, report.as_object_mut().unwrap());
        assert_eq!(report, before);
        let mut none = json!({"plan": {"request": {"devices": []}}});
        upgrade(ReportKind::Gds, none.as_object_mut().unwrap());
        assert!(none["plan"]["request"]["devices"].is_null());
    }
}
