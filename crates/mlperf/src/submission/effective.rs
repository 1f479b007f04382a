//! The parameters that a run had, whoever set them: what the metadata and Hydra's `config.yaml` say
//! of the workload as it ran. Not everything that changes a workload is listed as an override.

use serde_json::Value;

use super::leaf::{Leaf, plain};

/// A parameter of a run.
pub(super) struct Parameter {
    /// `reader.batch_size`.
    pub(super) key: String,
    /// Its value, as an option would say it.
    pub(super) value: String,
    /// What says so.
    pub(super) from: &'static str,
}

/// What metadata and `config.yaml` say of the workload. Lists and what is not set are left out.
pub(super) fn parameters(leaf: &Leaf) -> Vec<Parameter> {
    let metadata = leaf.metadata.value();
    let config = leaf.config.value();
    let of_workload = |value: &'_ Value| {
        if value["workload"].is_object() { value["workload"].clone() } else { value.clone() }
    };
    let sources = [
        ("config.yaml", of_workload(config)),
        ("the metadata", of_workload(&metadata["parameters"])),
        ("the metadata", of_workload(&metadata["combined_params"])),
        ("the metadata", of_workload(&metadata["yaml_params"])),
    ];
    let mut found: Vec<Parameter> = Vec::new();
    for (from, value) in &sources {
        flatten(value, "", &mut |key, value| {
            let value = plain(value);
            let is_known = |other: &Parameter| other.key == key && other.value == value;
            if !found.iter().any(is_known) {
                let key = key.to_string();
                found.push(Parameter { key, value, from });
            }
        });
    }
    found
}

/// Calls `each` with every single value below `value` and its dotted key.
pub(super) fn flatten(value: &Value, above: &str, each: &mut dyn FnMut(&str, &Value)) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let key = match above {
            "" => name.clone(),
            above => format!("{above}.{name}"),
        };
        match value {
            Value::Object(_) => flatten(value, &key, each),
            Value::Array(_) | Value::Null => {}
            value => each(&key, value),
        }
    }
}

/// Whether two values are the same, however they are spelt.
pub(super) fn alike(a: &str, b: &str) -> bool {
    let numbers = a.parse::<f64>().ok().zip(b.parse::<f64>().ok());
    match numbers {
        Some((a, b)) => a == b,
        None => a.eq_ignore_ascii_case(b),
    }
}
