//! Reads and writes the value types that only training workload files have.

use serde_yaml::{Mapping, Value};

use super::distribution::Distribution;
use super::workload::{DataLoader, Shuffle, Workload};
use stormlp_core::workload_file::{Field, number, shown, text, wants};

impl Field for Shuffle {
    fn read(&mut self, value: &Value) -> Result<(), String> {
        let name = text(value).map(|name| name.to_ascii_lowercase());
        *self = match name.as_deref() {
            Some("off" | "false" | "no") => Self::Off,
            Some("seed") => Self::Seed,
            Some("random") => Self::Random,
            _ => return Err(wants(value, "write off, seed or random")),
        };
        Ok(())
    }

    fn write(&self) -> Value {
        <&str>::from(*self).into()
    }
}

impl Field for DataLoader {
    fn read(&mut self, value: &Value) -> Result<(), String> {
        *self = match text(value).as_deref() {
            Some("tensorflow") => Self::Tensorflow,
            Some("pytorch" | "dali" | "native_dali") => Self::Pytorch,
            Some("synthetic") => {
                let why = "which does not read: leave it out and run with --path null";
                return Err(format!(" is `synthetic`, {why}"));
            }
            _ => return Err(wants(value, "use tensorflow, pytorch or dali")),
        };
        Ok(())
    }

    fn write(&self) -> Value {
        <&str>::from(*self).into()
    }
}

impl Field for Distribution {
    fn read(&mut self, value: &Value) -> Result<(), String> {
        *self = Self::from_yaml(value).map_err(|why| format!(": {why}"))?;
        Ok(())
    }

    /// Seconds, or DLIO's map with `type` for drawn values.
    fn write(&self) -> Value {
        match self {
            Self::Constant { seconds } => seconds.write(),
            drawn => serde_yaml::to_value(drawn).expect("plain values are YAML"),
        }
    }

    fn parts(&self) -> &'static [&'static str] {
        &["type", "mean", "stdev", "min", "max", "scale"]
    }

    /// Merges `parts` over the existing time, unless they use another distribution.
    fn with_parts(&self, there: Option<&Value>, parts: Mapping) -> Value {
        let mut whole = match there {
            Some(Value::Mapping(map)) => map.clone(),
            Some(number) if !number.is_null() => {
                Mapping::from_iter([("mean".into(), number.clone())])
            }
            _ => Mapping::new(),
        };
        let kind = |map: &Mapping| {
            map.get("type")
                .and_then(text)
                .map_or_else(|| "normal".to_string(), |kind| kind.to_ascii_lowercase())
        };
        if parts.contains_key("type") && kind(&parts) != kind(&whole) {
            whole.clear();
        }
        whole.extend(parts);
        Value::Mapping(whole)
    }
}

impl Distribution {
    /// Reads seconds, or a map with `type` and DLIO's parameters for it.
    ///
    /// # Errors
    /// Describes the error and the valid forms.
    pub fn from_yaml(value: &Value) -> Result<Self, String> {
        let found = match value {
            Value::Mapping(map) => from_map(map)?,
            _ => number(value).map(Self::constant).ok_or_else(|| {
                let shown = shown(value);
                format!("{shown} is not a time: use seconds, or a map with `type`")
            })?,
        };
        found.fault().map_or(Ok(found), Err)
    }
}

fn from_map(map: &Mapping) -> Result<Distribution, String> {
    let kind = match map.get("type") {
        Some(value) => text(value).ok_or("`type` is not a word")?.to_ascii_lowercase(),
        // Without a type DLIO takes a mean; with a `stdev`, it is a Gaussian.
        None if map.contains_key("stdev") => "normal".to_string(),
        None => "constant".to_string(),
    };
    let mut map = map.clone();
    map.insert("type".into(), kind.clone().into());
    serde_yaml::from_value(map.into()).map_err(|error| format!("{kind}: {error}"))
}

/// The older form of a Gaussian: a number with its standard deviation under a separate key.
pub(super) fn add_stdev(time: &mut Distribution, value: &Value) -> Result<(), String> {
    let mut stdev = 0.0;
    stdev.read(value)?;
    if let Distribution::Constant { seconds: mean } = *time
        && stdev > 0.0
    {
        *time = Distribution::Normal { mean, stdev };
    }
    Ok(())
}

/// `dataset.record_element_type`, of which only the size matters.
pub(super) fn element_type(workload: &mut Workload, value: &Value) -> Result<(), String> {
    let name = text(value).unwrap_or_default();
    let bits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    workload.dataset.record_element_bytes = match (&name[..name.len() - bits.len()], bits) {
        ("uint" | "int", "8") | ("bool", "") => 1,
        ("uint" | "int" | "float" | "bfloat", "16") => 2,
        ("uint" | "int" | "float", "32") => 4,
        ("uint" | "int" | "float", "64") => 8,
        _ => return Err(wants(value, "write a numpy type such as uint8 or float32")),
    };
    Ok(())
}
