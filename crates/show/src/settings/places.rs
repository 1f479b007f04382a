//! The settings of a plan by place.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

/// Prefix of a setting's place in a report.
const PLAN: &str = "plan.";

/// Whether `place` is that of a plan field, or within it.
pub(super) fn is_within(place: &str, field: &str) -> bool {
    let place = place.strip_prefix(PLAN).unwrap_or(place);
    let rest = place.strip_prefix(field);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

pub(super) fn in_plan(plan: &impl Serialize, apart: &[&str]) -> BTreeMap<String, String> {
    // A plan was read from JSON or will be saved as such.
    let plan = serde_json::to_value(plan).unwrap_or_default();
    let mut found: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    collect(&plan, "", apart, &mut found);
    let places = found.into_iter();
    places.map(|(place, values)| (format!("{PLAN}{place}"), words(&values))).collect()
}

/// Counts every value by place; the entries of a list share a place.
fn collect(
    value: &Value,
    place: &str,
    apart: &[&str],
    found: &mut BTreeMap<String, BTreeMap<String, usize>>,
) {
    if apart.contains(&place) {
        return;
    }
    let word = match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let inner = match place {
                    "" => key.clone(),
                    place => format!("{place}.{key}"),
                };
                collect(value, &inner, apart, found);
            }
            return;
        }
        Value::Array(values) => {
            for value in values {
                collect(value, place, apart, found);
            }
            return;
        }
        Value::Null => "none".to_string(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let values = found.entry(place.to_string()).or_default();
    *values.entry(word).or_default() += 1;
}

/// `uring`, or `2 × psync, 6 × uring`.
fn words(values: &BTreeMap<String, usize>) -> String {
    let counted = values.iter().map(|(value, count)| match count {
        1 => value.clone(),
        count => format!("{count} × {value}"),
    });
    counted.collect::<Vec<String>>().join(", ")
}
