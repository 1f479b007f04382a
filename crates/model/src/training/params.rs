//! `--params key=value`: keys of a workload set from the command line, as mlpstorage takes them.
//!
//! A time may be given by its parts, `train.computation_time.mean=0.1`, which are put together
//! before they are checked, so that their order does not matter.

use std::collections::BTreeMap;

use serde_yaml::{Mapping, Value};

use super::keys::{self, Key, Kind};
use super::values;
use super::yaml::{self, Values, WorkloadError};

/// Parts of times, by the key of the time.
type Parts = BTreeMap<&'static str, (&'static Key, Mapping)>;

/// Sets each `key=value` of `params`, later ones over earlier ones.
///
/// # Errors
/// With everything that is wrong: no `=`, an unknown key, a value of another kind.
pub(super) fn set(values: &mut Values, params: &[String]) -> Result<(), WorkloadError> {
    let mut parts = Parts::new();
    let mut messages = Vec::new();
    for param in params {
        if let Err(message) = set_one(values, &mut parts, param) {
            messages.push(message);
        }
    }
    for (key, part) in parts.into_values() {
        let whole = joined(values.get(key.path), part);
        match values::check(key, whole) {
            Ok(value) => yaml::store(values, key, value),
            Err(message) => messages.push(message),
        }
    }
    if messages.is_empty() {
        return Ok(());
    }
    Err(WorkloadError::of("--params", messages))
}

fn set_one(values: &mut Values, parts: &mut Parts, param: &str) -> Result<(), String> {
    let (path, text) = param
        .split_once('=')
        .ok_or_else(|| format!("`{param}` is not key=value"))?;
    let path = path.trim();
    let value: Value = serde_yaml::from_str(text).map_err(|error| format!("`{param}`: {error}"))?;
    if let Some(key) = keys::by_path(path) {
        let value = values::check(key, value)?;
        parts.remove(key.path);
        yaml::store(values, key, value);
        return Ok(());
    }
    let (key, part) = time_part(path).ok_or_else(|| yaml::unknown(path))?;
    let (_, found) = parts
        .entry(key.path)
        .or_insert_with(|| (key, Mapping::new()));
    found.insert(part.into(), value);
    Ok(())
}

/// The time and the part of it that `train.computation_time.mean` names.
fn time_part(path: &str) -> Option<(&'static Key, &str)> {
    let (time, part) = path.rsplit_once('.')?;
    let key = keys::by_path(time).filter(|key| key.kind == Kind::Time)?;
    values::TIME_PARTS.contains(&part).then_some((key, part))
}

/// `parts` over the time that is there, unless they are of another distribution.
fn joined(there: Option<&Value>, parts: Mapping) -> Value {
    let mut whole = match there {
        Some(Value::Mapping(map)) => map.clone(),
        Some(number) if !number.is_null() => Mapping::from_iter([("mean".into(), number.clone())]),
        _ => Mapping::new(),
    };
    let kind = |map: &Mapping| {
        map.get("type")
            .and_then(values::text)
            .map_or_else(|| "normal".to_string(), |kind| kind.to_ascii_lowercase())
    };
    if parts.contains_key("type") && kind(&parts) != kind(&whole) {
        whole.clear();
    }
    whole.extend(parts);
    Value::Mapping(whole)
}
