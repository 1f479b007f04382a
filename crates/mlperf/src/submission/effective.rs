//! The parameters that a run had by its metadata and Hydra's `config.yaml`: not everything that
//! changes a workload is listed as an override.

use serde_json::Value;

use super::leaf::{Leaf, plain};
use super::rule::Finding;

/// A parameter of a run: its key, `reader.batch_size`, its value as it would be typed, and the file that
/// has it.
type Parameter = (String, String, &'static str);

/// The findings of `judge` about the keys that were set, and of the parameters that differ from the
/// workload without an override.
pub(super) fn findings(
    leaf: &Leaf,
    judge: impl Fn(&str, &str) -> Option<Finding>,
    differs: impl Fn(&str, &str) -> bool,
) -> Vec<Finding> {
    let set = leaf.overrides.iter().filter_map(|(key, value)| judge(key, value));
    let changed = parameters(leaf).into_iter().filter_map(|(key, value, from)| {
        let is_set = leaf.set(&key).is_some_and(|set| alike(set, &value));
        let found = judge(&key, &value).filter(|_| !is_set && differs(&key, &value))?;
        Some(Finding { fact: format!("{} by {from}", found.fact), ..found })
    });
    set.chain(changed).collect()
}

/// The parameters in metadata and `config.yaml`, without lists and nulls.
fn parameters(leaf: &Leaf) -> Vec<Parameter> {
    let metadata = &leaf.metadata.value;
    let mut found: Vec<Parameter> = Vec::new();
    for (from, value) in [
        ("config.yaml", &leaf.config.value),
        ("the metadata", &metadata["parameters"]),
        ("the metadata", &metadata["combined_params"]),
        ("the metadata", &metadata["yaml_params"]),
    ] {
        let workload = &value["workload"];
        let value = if workload.is_object() { workload } else { value };
        flatten(value, "", &mut |key, value| {
            let value = plain(value);
            if !found.iter().any(|(known, same, _)| known == key && *same == value) {
                found.push((key.to_string(), value, from));
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
