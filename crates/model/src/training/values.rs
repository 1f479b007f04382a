//! Whether a value is of the kind its key takes, and what it is then.

use std::str::FromStr as _;

use serde_yaml::{Mapping, Value};

use super::distribution::Distribution;
use super::keys::{Effect, Key, Kind};
use super::workload::{ElementType, ParquetColumn, Shuffle};

/// The parts that a time may have in DLIO's form.
pub(super) const TIME_PARTS: [&str; 8] = [
    "type", "mean", "stdev", "min", "max", "shape", "scale", "lam",
];

/// Checks `value` for `key` and brings it to the form the other functions here read. `Null`
/// always passes: an empty value is one that was not given.
pub(super) fn check(key: &Key, value: Value) -> Result<Value, String> {
    if value.is_null() {
        return Ok(value);
    }
    let bad = |wants: &str| Err(format!("`{}` is {}: {wants}", key.path, shown(&value)));
    match key.kind {
        Kind::Any => Ok(Value::Null),
        Kind::Bool => boolean(&value).map_or_else(|| bad("write True or False"), |b| Ok(b.into())),
        Kind::Count => {
            count(&value).map_or_else(|| bad("write a whole number from 0"), |n| Ok(n.into()))
        }
        Kind::OptionalCount => match number(&value) {
            Some(n) if n < 0.0 && n.fract() == 0.0 => Ok(Value::Null),
            _ => count(&value).map_or_else(
                || bad("write a whole number, or -1 for none"),
                |n| Ok(n.into()),
            ),
        },
        Kind::Number => match number(&value) {
            Some(n) if n >= 0.0 => Ok(n.into()),
            _ => bad("write a number from 0"),
        },
        Kind::Text => text(&value).map_or_else(
            || bad("write a word"),
            |text| match key.effect {
                Effect::OnlyAs(only, why) if text != only => {
                    Err(format!("`{}` is `{text}`: {why}; leave it out", key.path))
                }
                _ => Ok(Value::String(text)),
            },
        ),
        Kind::Time => match distribution(&value) {
            Ok(_) => Ok(value),
            Err(why) => Err(format!("`{}`: {why}", key.path)),
        },
        Kind::Shuffle => {
            shuffle(&value).map_or_else(|| bad("write off, seed or random"), |_| Ok(value.clone()))
        }
        Kind::Counts => counts(&value).map_or_else(
            || bad("write a list of whole numbers"),
            |_| Ok(value.clone()),
        ),
        Kind::Columns => match columns(&value) {
            Ok(_) => Ok(value),
            Err(why) => Err(format!("`{}`: {why}", key.path)),
        },
    }
}

/// A value as an error message shows it.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "empty".to_string(),
        Value::Bool(b) => format!("`{b}`"),
        Value::Number(n) => format!("`{n}`"),
        Value::String(s) => format!("`{s}`"),
        Value::Sequence(_) => "a list".to_string(),
        Value::Mapping(_) => "a section".to_string(),
        Value::Tagged(_) => "a tagged value".to_string(),
    }
}

pub(super) fn boolean(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(b) => Some(*b),
        Value::String(s) => match s.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" => Some(true),
            "false" | "no" | "off" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// A finite number; YAML 1.1's `1_000_000` too.
pub(super) fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Number(n) => n.as_f64(),
        Value::String(s) => s.replace('_', "").parse().ok(),
        _ => None,
    };
    number.filter(|n| n.is_finite())
}

pub(super) fn count(value: &Value) -> Option<u64> {
    if let Some(n) = value.as_u64() {
        return Some(n);
    }
    // 2^53: beyond it a float is no longer exact.
    number(value)
        .filter(|n| *n >= 0.0 && n.fract() == 0.0 && *n <= 9_007_199_254_740_992.0)
        .map(|n| n as u64)
}

pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(s) => Some(s.clone()),
        Value::Number(n) => Some(n.to_string()),
        Value::Bool(b) => Some(b.to_string()),
        _ => None,
    }
}

pub(super) fn shuffle(value: &Value) -> Option<Shuffle> {
    match text(value)?.to_ascii_lowercase().as_str() {
        "off" | "false" | "no" => Some(Shuffle::Off),
        "seed" => Some(Shuffle::Seed),
        "random" => Some(Shuffle::Random),
        _ => None,
    }
}

pub(super) fn counts(value: &Value) -> Option<Vec<u64>> {
    value.as_sequence()?.iter().map(count).collect()
}

impl Distribution {
    /// Seconds, or a map with `type` and the parameters that DLIO gives it.
    ///
    /// # Errors
    /// What is wrong with it, and what would be right.
    pub fn from_yaml(value: &Value) -> Result<Self, String> {
        distribution(value)
    }
}

/// Seconds, or one of DLIO's distributions.
pub(super) fn distribution(value: &Value) -> Result<Distribution, String> {
    let found = match value {
        Value::Mapping(map) => from_map(map)?,
        _ => match number(value) {
            Some(seconds) => Distribution::constant(seconds),
            None => {
                return Err(format!(
                    "{} is no time: write seconds, or a map with `type`",
                    shown(value)
                ));
            }
        },
    };
    match found.fault() {
        Some(fault) => Err(fault),
        None => Ok(found),
    }
}

fn from_map(map: &Mapping) -> Result<Distribution, String> {
    let kind = match map.get("type") {
        Some(value) => text(value)
            .ok_or("`type` is not a word")?
            .to_ascii_lowercase(),
        // Without a type DLIO takes a mean, and a stdev beside it makes it a Gaussian.
        None if map.contains_key("stdev") => "normal".to_string(),
        None => "constant".to_string(),
    };
    let names: &[&str] = match kind.as_str() {
        "normal" => &["mean", "stdev"],
        "uniform" => &["min", "max"],
        "gamma" => &["shape", "scale"],
        "exponential" => &["scale"],
        "poisson" => &["lam"],
        "constant" => &["mean"],
        _ => {
            return Err(format!(
                "`{kind}` is no distribution: use normal, uniform, gamma, exponential or poisson"
            ));
        }
    };
    if let Some(name) = map
        .keys()
        .filter_map(|key| key.as_str())
        .find(|name| *name != "type" && !names.contains(name))
    {
        return Err(format!(
            "{kind} has no `{name}`: it takes {}",
            names.join(" and ")
        ));
    }
    let get = |name: &str| {
        map.get(name)
            .and_then(number)
            .ok_or_else(|| format!("{kind} needs the number `{name}`"))
    };
    Ok(match kind.as_str() {
        "normal" => Distribution::Normal {
            mean: get("mean")?,
            stdev: get("stdev")?,
        },
        "uniform" => Distribution::Uniform {
            min: get("min")?,
            max: get("max")?,
        },
        "gamma" => Distribution::Gamma {
            shape: get("shape")?,
            scale: get("scale")?,
        },
        "exponential" => Distribution::Exponential {
            scale: get("scale")?,
        },
        "poisson" => Distribution::Poisson { lam: get("lam")? },
        _ => Distribution::constant(get("mean")?),
    })
}

/// `dataset.parquet.columns`: maps with `name`, `dtype`, `size`, `read` (True when left out).
pub(super) fn columns(value: &Value) -> Result<Vec<ParquetColumn>, String> {
    let list = value.as_sequence().ok_or("write a list of columns")?;
    list.iter().map(column).collect()
}

fn column(value: &Value) -> Result<ParquetColumn, String> {
    let map = value
        .as_mapping()
        .ok_or("a column is a map with `name` and `dtype`")?;
    let name = map
        .get("name")
        .and_then(text)
        .ok_or("a column has no `name`")?;
    let mut column = ParquetColumn {
        dtype: ElementType::Uint8,
        size: 1,
        read: true,
        name,
    };
    for (key, value) in map {
        let name = &column.name;
        match key.as_str() {
            Some("name") => {}
            Some("dtype" | "type") => {
                let word = text(value).ok_or_else(|| format!("`dtype` of {name} is no word"))?;
                column.dtype = ElementType::from_str(&word).map_err(|e| format!("{name}: {e}"))?;
            }
            Some("size") => {
                column.size = count(value)
                    .filter(|size| *size > 0)
                    .ok_or_else(|| format!("`size` of {name} is no whole number from 1"))?;
            }
            Some("read") => {
                column.read = boolean(value)
                    .ok_or_else(|| format!("`read` of {name} is neither True nor False"))?;
            }
            _ => return Err(format!("column {name} has an unknown key {}", shown(key))),
        }
    }
    Ok(column)
}
