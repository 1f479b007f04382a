//! JSON by way of a [`Value`], so that the many types of reports are compiled for one serializer and
//! one deserializer. The text is the same.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Error, Value};
use sha2::{Digest as _, Sha256};

use crate::printable::hex;

/// A value in one line.
///
/// # Errors
/// If it is not plain data.
pub fn compact<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(&serde_json::to_value(value)?)
}

/// A value with a line for each field.
///
/// # Errors
/// If it is not plain data.
pub fn indented<T: Serialize + ?Sized>(value: &T) -> Result<String, Error> {
    serde_json::to_string_pretty(&serde_json::to_value(value)?)
}

/// The output of [`compact`] or [`indented`].
///
/// # Errors
/// If it is not JSON, or not a `T`.
pub fn read<T: DeserializeOwned>(json: &[u8]) -> Result<T, Error> {
    serde_json::from_value(serde_json::from_slice::<Value>(json)?)
}

/// The field of a saved report that holds the digest of its other fields; the last one.
const DIGEST: &str = "digest";

/// Whether a saved report is as stormlp wrote it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Integrity {
    /// It was not saved yet, or it matches its digest.
    #[default]
    Intact,
    /// It does not match this digest.
    Changed(String),
    /// It has no digest.
    NoDigest,
}

impl Integrity {
    /// The doubt about the report that a reader has to know, if any.
    pub fn doubt(&self) -> Option<&'static str> {
        match self {
            Self::Intact => None,
            Self::Changed(_) => Some("was changed after it was written"),
            Self::NoDigest => Some("has no digest"),
        }
    }
}

/// A report as a JSON object, with a digest of all other fields as its last field. A report that
/// does not match the digest it was read with keeps that one, or none.
///
/// # Errors
/// If it is not plain data.
pub fn sealed<T: Serialize + ?Sized>(report: &T, integrity: &Integrity) -> Result<Value, Error> {
    let mut value = serde_json::to_value(report)?;
    match integrity {
        Integrity::Intact => value[DIGEST] = digest(&value).into(),
        Integrity::Changed(found) => value[DIGEST] = found.as_str().into(),
        Integrity::NoDigest => {}
    }
    Ok(value)
}

/// Removes the digest of a report, and compares it with the other fields.
pub fn unseal(value: &mut Value) -> Integrity {
    let found = value.as_object_mut().and_then(|fields| fields.shift_remove(DIGEST));
    match found {
        None => Integrity::NoDigest,
        Some(found) if found == digest(value) => Integrity::Intact,
        Some(Value::String(found)) => Integrity::Changed(found),
        Some(other) => Integrity::Changed(other.to_string()),
    }
}

/// SHA-256 of the canonical form of a value, as `sha256:` and hexadecimal digits.
fn digest(value: &Value) -> String {
    let hash = Sha256::digest(canonical(value));
    format!("sha256:{}", hex(&hash))
}

/// The canonical form of RFC 8785: no white space, the fields of an object in the order of their
/// names, every number as the shortest text of its double. Whatever order or notation a tool that
/// rewrites JSON prefers, the form is the same.
fn canonical(value: &Value) -> String {
    match value {
        Value::Number(number) => number.as_f64().map_or(number.to_string(), canonical_number),
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(canonical).collect();
            format!("[{}]", values.join(","))
        }
        Value::Object(fields) => {
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_by_cached_key(|(name, _)| name.encode_utf16().collect::<Vec<u16>>());
            let name = |name: &String| Value::from(name.as_str());
            let fields: Vec<String> = (fields.into_iter())
                .map(|(key, value)| format!("{}:{}", name(key), canonical(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Null | Value::Bool(_) | Value::String(_) => value.to_string(),
    }
}

fn canonical_number(number: f64) -> String {
    match number.abs() {
        0.0 => "0".to_string(),
        small if small < 1e-6 => format!("{number:e}"),
        large if large >= 1e21 => format!("{number:e}").replace('e', "e+"),
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// Any JSON value, with the numbers of reports and the extremes of their notations.
    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            any::<f64>()
                .prop_filter("JSON has no others", |one| one.is_finite())
                .prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec((".*", inner), 0..5)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    /// The value as a program may rewrite it: fields in reverse order, every number as a double with
    /// 17 digits, as `jq` 1.6 prints them.
    fn rewritten(value: &Value) -> String {
        match value {
            Value::Number(number) => format!("{:.16e}", number.as_f64().unwrap()),
            Value::Array(values) => {
                let values: Vec<String> = values.iter().map(rewritten).collect();
                format!("[ {} ]", values.join(" ,\n"))
            }
            Value::Object(fields) => {
                let fields = fields.iter().rev();
                let fields: Vec<String> = fields
                    .map(|(key, value)| format!("{} : {}", json!(key), rewritten(value)))
                    .collect();
                format!("{{ {} }}", fields.join(" ,\n"))
            }
            other => other.to_string(),
        }
    }

    proptest! {
        #[test]
        fn rewriting_json_does_not_change_its_canonical_form(value in values()) {
            let form = canonical(&value);
            let again: Value = serde_json::from_str(&rewritten(&value)).unwrap();
            prop_assert_eq!(canonical(&again), form.clone());
            let read: Value = serde_json::from_str(&form).unwrap();
            prop_assert_eq!(canonical(&read), form);
        }

        #[test]
        fn another_value_does_not_match_the_digest(value in values(), other in values()) {
            let mut report = sealed(&json!({ "figure": value }), &Integrity::Intact).unwrap();
            prop_assert_eq!(unseal(&mut report.clone()), Integrity::Intact);
            report["figure"] = other.clone();
            let is_same = canonical(&value) == canonical(&other);
            prop_assert_eq!(unseal(&mut report) == Integrity::Intact, is_same);
        }
    }

    #[test]
    fn the_canonical_form_is_that_of_rfc_8785() {
        let value = json!({
            "numbers": [333_333_333.333_333_3, 1e30, 4.5, 2e-3, 1e-27, 1.0, -0.0, 1e21, 1e20, 1e-6],
            "\u{20ac}": "\u{20ac}$\u{f}\nA'B\"\\\\\"/",
            "1": null,
            "\r": true,
        });
        assert_eq!(
            canonical(&value),
            "{\"\\r\":true,\"1\":null,\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27,1,0,1e+21,\
             100000000000000000000,0.000001],\"\u{20ac}\":\"\u{20ac}$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}"
        );
    }
}
