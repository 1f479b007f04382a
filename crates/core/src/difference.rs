//! Differences between values that must match: between two hosts, in one line, or between two runs.

use serde::Serialize;
use serde_json::{Map, Value};

/// A value that hosts compare, and its name.
pub type ConsistencyField = (String, String);

/// The fields of a value except those in `apart`, each given as `key` or, for a nested field,
/// `key.key`. Everything not listed is compared, so a new field cannot be forgotten.
pub fn fields_but<T: Serialize>(value: &T, apart: &[&str]) -> Map<String, Value> {
    let mut fields = match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    for path in apart {
        match path.split_once('.') {
            None => drop(fields.remove(*path)),
            Some((key, inner)) => {
                let outer = fields.get_mut(key).and_then(Value::as_object_mut);
                outer.and_then(|fields| fields.remove(inner));
            }
        }
    }
    fields
}

/// Describes in one line how two hosts differ in `what`. For values that are objects or lists in
/// JSON, only the first difference is reported.
pub fn to_text(what: &str, (one, of_one): (&str, &str), (other, of_other): (&str, &str)) -> String {
    let (what, of_one, of_other) = first_of(what, of_one, of_other);
    format!("the hosts differ in the {what}: {one} has {of_one}, {other} has {of_other}")
}

/// The first difference of `what`: its place, and both values there.
pub fn first_of(what: &str, of_one: &str, of_other: &str) -> (String, String, String) {
    let [first, second] = [of_one, of_other].map(|text| serde_json::from_str::<Value>(text).ok());
    let narrowed = first.zip(second).and_then(|(first, second)| {
        let mut place = Vec::new();
        let (first, second) = narrow(&first, &second, &mut place);
        let (first, second) = (text(first), text(second));
        (!place.is_empty()).then(|| (format!("{what} at `{}`", place.join(".")), first, second))
    });
    narrowed.unwrap_or_else(|| (what.to_string(), of_one.to_string(), of_other.to_string()))
}

/// Narrows `one` and `other` down to the first values that differ, and `place` to their location.
fn narrow<'v>(one: &'v Value, other: &'v Value, place: &mut Vec<String>) -> (&'v Value, &'v Value) {
    const MISSING: &Value = &Value::Null;
    let found = match (one, other) {
        (Value::Object(of_one), Value::Object(of_other)) => {
            let keys = of_one.keys().chain(of_other.keys());
            let get = |fields: &'v serde_json::Map<String, Value>, key| {
                fields.get(key).unwrap_or(MISSING)
            };
            let mut pairs = keys.map(|key| (key.clone(), get(of_one, key), get(of_other, key)));
            pairs.find(|(_, one, other)| one != other)
        }
        (Value::Array(of_one), Value::Array(of_other)) => {
            let get = |values: &'v [Value], nth| values.get(nth).unwrap_or(MISSING);
            let all = 0..of_one.len().max(of_other.len());
            let mut pairs = all.map(|nth| (nth.to_string(), get(of_one, nth), get(of_other, nth)));
            pairs.find(|(_, one, other)| one != other)
        }
        _ => None,
    };
    match found {
        None => (one, other),
        Some((key, one, other)) => {
            place.push(key);
            narrow(one, other, place)
        }
    }
}

/// A value in human-readable form.
pub fn text(value: &Value) -> String {
    match value {
        // Some options have a value called `none`.
        Value::Null => "nothing".to_string(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(one: &str, other: &str) -> String {
        to_text("setting", ("a", one), ("b", other))
    }

    #[test]
    fn only_differences_are_reported() {
        assert_eq!(
            told("true", "false"),
            "the hosts differ in the setting: a has true, b has false"
        );
        assert_eq!(
            told(
                r#"{"wait":null,"numa":"auto","cpus":"0"}"#,
                r#"{"wait":null,"numa":"auto","cpus":null}"#
            ),
            "the hosts differ in the setting at `cpus`: a has 0, b has nothing"
        );
        assert_eq!(
            told(r#"[{"x":[1,2]}]"#, r#"[{"x":[1,2,3]}]"#),
            "the hosts differ in the setting at `0.x.2`: a has nothing, b has 3"
        );
        assert_eq!(told("[1]", "none"), "the hosts differ in the setting: a has [1], b has none");
    }
}
