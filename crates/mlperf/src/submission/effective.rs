//! The parameters that a run had by its metadata and Hydra's `config.yaml`: not everything that
//! changes a workload is listed as an override.

use serde_json::Value;

use super::leaf::{Leaf, plain};

/// A parameter of a run.
pub(super) struct Parameter {
    /// `reader.batch_size`.
    pub(super) key: String,
    /// Its value as it would be typed.
    pub(super) value: String,
    /// The file that has it.
    pub(super) from: &'static str,
}

/// The parameters in metadata and `config.yaml`, without lists and nulls.
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
            if !found.iter().any(|other| other.key == key && other.value == value) {
                found.push(Parameter { key: key.to_string(), value, from });
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

/// Whether two values are the same in any spelling.
pub(super) fn alike(a: &str, b: &str) -> bool {
    let numbers = a.parse::<f64>().ok().zip(b.parse::<f64>().ok());
    match numbers {
        Some((a, b)) => a == b,
        None => a.eq_ignore_ascii_case(b),
    }
}
