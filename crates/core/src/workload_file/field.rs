//! The value of a key: read from and written to YAML.

use std::str::FromStr;

use serde_yaml::{Mapping, Value};

use crate::names::Named;

/// 2^53: up to there every integer is exact as a float.
const MOST_EXACT: f64 = 9_007_199_254_740_992.0;

/// A value in a workload.
///
/// `read` fails with the rest of a sentence that begins with the key, as [`wants`] produces.
pub trait Field {
    /// Sets this from `value`, which is not null.
    fn read(&mut self, value: &Value) -> Result<(), String>;

    /// The value in the form accepted by `read`; null if its key is omitted.
    fn write(&self) -> Value;

    /// The parts that `--params` may set individually.
    fn parts(&self) -> &'static [&'static str] {
        &[]
    }

    /// The existing value `_there` with `parts` set.
    fn with_parts(&self, _there: Option<&Value>, parts: Mapping) -> Value {
        Value::Mapping(parts)
    }
}

/// Sets `place` to the parsed `value`, or states what was expected.
pub(crate) fn set<T>(
    place: &mut T,
    value: &Value,
    found: Option<T>,
    what: &str,
) -> Result<(), String> {
    *place = found.ok_or_else(|| wants(value, what))?;
    Ok(())
}

impl Field for bool {
    fn read(&mut self, value: &Value) -> Result<(), String> {
        set(self, value, boolean(value), "write True or False")
    }

    fn write(&self) -> Value {
        (*self).into()
    }
}

impl Field for u64 {
    fn read(&mut self, value: &Value) -> Result<(), String> {
        set(self, value, count(value), "write a whole number from 0")
    }

    fn write(&self) -> Value {
        (*self).into()
    }
}

impl Field for u32 {
    fn read(&mut self, value: &Value) -> Result<(), String> {
        let mut wide = 0u64;
        wide.read(value)?;
        *self = u32::try_from(wide)
            .map_err(|_| wants(value, &format!("it may be {} at most", u32::MAX)))?;
        Ok(())
    }

    fn write(&self) -> Value {
        (*self).into()
    }
}

impl Field for f64 {
    fn read(&mut self, value: &Value) -> Result<(), String> {
        let found = number(value).filter(|n| *n >= 0.0);
        set(self, value, found, "write a number from 0")
    }

    /// Integral values are written without a decimal point: readers expect sizes to be counts.
    fn write(&self) -> Value {
        if *self >= 0.0 && self.fract() == 0.0 && *self < MOST_EXACT {
            (*self as u64).into()
        } else {
            (*self).into()
        }
    }
}

impl Field for String {
    fn read(&mut self, value: &Value) -> Result<(), String> {
        set(self, value, text(value), "write a word")
    }

    fn write(&self) -> Value {
        self.clone().into()
    }
}

impl Field for Vec<u64> {
    fn read(&mut self, value: &Value) -> Result<(), String> {
        let found = value.as_sequence().and_then(|list| list.iter().map(count).collect());
        set(self, value, found, "write a list of whole numbers")
    }

    fn write(&self) -> Value {
        match self[..] {
            [] => Value::Null,
            _ => self.clone().into(),
        }
    }
}

impl<T: Field + Default> Field for Option<T> {
    fn read(&mut self, value: &Value) -> Result<(), String> {
        self.insert(T::default()).read(value)
    }

    fn write(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::write)
    }
}

impl<T: Named + FromStr<Err = String> + Into<&'static str> + Copy> Field for T {
    fn read(&mut self, value: &Value) -> Result<(), String> {
        let name = text(value).ok_or_else(|| wants(value, "write a word"))?;
        *self = (name.to_ascii_lowercase().parse()).map_err(|error| format!(": {error}"))?;
        Ok(())
    }

    fn write(&self) -> Value {
        let name: &'static str = (*self).into();
        name.into()
    }
}

/// The error that something is `value`, and the expected kind.
pub fn wants(value: &Value, what: &str) -> String {
    format!(" is {}: {what}", shown(value))
}

/// A value as an error message shows it.
pub fn shown(value: &Value) -> String {
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

/// `True`, `False`, and YAML 1.1's `yes`, `no`, `on`, `off`.
pub(crate) fn boolean(value: &Value) -> Option<bool> {
    match text(value)?.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some(true),
        "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// A finite number, including YAML 1.1's `1_000_000`.
pub fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Number(n) => n.as_f64(),
        Value::String(s) => s.replace('_', "").parse().ok(),
        _ => None,
    };
    number.filter(|n| n.is_finite())
}

/// A non-negative integer.
pub fn count(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        number(value)
            .filter(|n| *n >= 0.0 && n.fract() == 0.0 && *n <= MOST_EXACT)
            .map(|n| n as u64)
    })
}

/// A word, or a value that can be read as one.
pub fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(s) => Some(s.clone()),
        Value::Number(n) => Some(n.to_string()),
        Value::Bool(b) => Some(b.to_string()),
        _ => None,
    }
}

/// A value in one line, as JSON, which is valid YAML.
pub fn line(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => serde_json::to_string(other).expect("plain values are JSON"),
    }
}
