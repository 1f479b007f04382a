//! Measurements as rows for programs: one for each cell, epoch or checkpoint.
//!
//! A column is a name and the path of its value in the report, so that CSV and JSON always agree.

use serde::Serialize;
use serde_json::Value;
use stormlp_core::printable::printable;

/// A table of plain values; column names include the unit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Records {
    /// The columns; new ones are only added at the end.
    pub columns: Vec<&'static str>,
    /// The rows; unmeasured values are null.
    pub rows: Vec<Vec<Value>>,
}

impl Records {
    /// One row for each of `units`. A path that begins with `/` refers to the unit, any other to
    /// `report`, which should not contain the units: as JSON, each unit needs many times the memory
    /// of a row.
    pub fn new(
        report: &impl Serialize,
        units: impl IntoIterator<Item = Value>,
        columns: &[(&'static str, &'static str)],
    ) -> Self {
        // A report is plain data and always serialises to JSON.
        let report = serde_json::to_value(report).unwrap_or_default();
        let value = |unit: &Value, place: &str| {
            if place.starts_with('/') {
                unit.pointer(place).cloned().unwrap_or_default()
            } else {
                report.pointer(&format!("/{place}")).cloned().unwrap_or_default()
            }
        };
        let row = |unit: Value| columns.iter().map(|(_, place)| value(&unit, place)).collect();
        Self {
            columns: columns.iter().map(|(name, _)| *name).collect(),
            rows: units.into_iter().map(row).collect(),
        }
    }

    /// The rows as fields of CSV; unmeasured values are empty.
    pub fn text(&self) -> impl Iterator<Item = Vec<String>> {
        self.rows.iter().map(|row| row.iter().map(field).collect())
    }
}

/// A value as a field. A text that a spreadsheet would read as a formula follows a `'`, which marks
/// it as text there; names of hosts, files and tags come from outside.
fn field(value: &Value) -> String {
    let text = plain(value);
    let is_formula = value.is_string() && text.starts_with(['=', '+', '-', '@']);
    let mark = if is_formula { "'" } else { "" };
    format!("{mark}{}", printable(&text))
}

/// A value without quotes; `null` is empty.
pub fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => {
            number.as_f64().map_or(String::new(), |n| n.to_string())
        }
        // Tags.
        Value::Object(fields) => {
            let words = fields.iter().map(|(key, value)| format!("{key}={}", plain(value)));
            words.collect::<Vec<String>>().join(" ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_text_and_numbers_stay_numbers() {
        for formula in ["=1+1", "+1", "-1", "@SUM(A1)"] {
            assert_eq!(field(&formula.into()), format!("'{formula}"));
        }
        for (value, text) in [(Value::from(-1.5), "-1.5"), ("a=b".into(), "a=b")] {
            assert_eq!(field(&value), text);
        }
        assert_eq!(field(&Value::Null), "");
        assert_eq!(field(&serde_json::json!({"lab": "2", "ssd": "new"})), "lab=2 ssd=new");
    }
}
