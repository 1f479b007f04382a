//! The description of a system that v3.0 asks for: its schema, and what is wrong with a file by
//! field and line.

mod cross;
mod draft;
mod schema;

use std::fmt;

use serde::Serialize;
use serde_yaml::{Mapping, Value};

use stormlp_core::names::unknown_among;
use stormlp_core::workload_file::place::{Place, find, of_error};

pub use draft::draft;
use schema::{Field, Kind, ROOT};

/// What stands where a person has to write something.
pub const BLANK: &str = "FILL_IN";
/// More faults than this are not worth reading.
const MOST_FAULTS: usize = 200;

/// One thing that is wrong with a description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct YamlFault {
    /// The field: `system_under_test.clients[0].chassis.cpu_qty`.
    pub field: String,
    /// Its line, from 1; that of its section where it is missing.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// Nobody has written it yet.
    pub is_blank: bool,
}

impl fmt::Display for YamlFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        match self.field.as_str() {
            "" => f.write_str(&self.message),
            field => write!(f, "{field}: {}", self.message),
        }
    }
}

/// Everything that is wrong with the description `text`.
pub fn faults(text: &str) -> Vec<YamlFault> {
    let file: Value = match serde_yaml::from_str(text) {
        Ok(file) => file,
        Err(error) => {
            let fault = of_error(&error);
            return vec![YamlFault {
                field: String::new(),
                line: fault.place.map(|(line, _)| line),
                message: fault.message,
                is_blank: false,
            }];
        }
    };
    let mut walk = Walk { text, file: &file, at: Vec::new(), faults: Vec::new() };
    walk.section("", &file, ROOT);
    if walk.faults.is_empty() {
        cross::rules(&file["system_under_test"], &mut walk);
    }
    walk.faults
}

/// A walk through a file.
struct Walk<'a> {
    text: &'a str,
    file: &'a Value,
    /// Which entry of each section and list leads to where it is.
    at: Vec<usize>,
    faults: Vec<YamlFault>,
}

impl Walk<'_> {
    fn fault(&mut self, field: &str, at_key: bool, message: String, is_blank: bool) {
        if self.faults.len() >= MOST_FAULTS {
            return;
        }
        let place = Place { entries: self.at.clone(), at_key };
        self.faults.push(YamlFault {
            field: field.to_string(),
            line: find(self.text, &place).map(|(line, _)| line),
            message,
            is_blank,
        });
    }

    fn section(&mut self, path: &str, value: &Value, fields: &[Field]) {
        let Some(entries) = value.as_mapping() else {
            let message = format!("found {}, and it takes a section", shown(value));
            return self.fault(path, false, message, value.is_null());
        };
        for (index, (name, value)) in entries.iter().enumerate() {
            self.at.push(index);
            let name = name.as_str().map_or_else(|| shown(name), str::to_string);
            let place = below(path, &name);
            match fields.iter().find(|field| field.name == name) {
                Some(field) if value.is_null() && !field.required => {}
                Some(field) => self.value(&place, value, &field.kind),
                None => {
                    let names: Vec<&str> = fields.iter().map(|field| field.name).collect();
                    let message = unknown_among(&names, "a field of this section", &name);
                    self.fault(&place, true, message, false);
                }
            }
            self.at.pop();
        }
        self.missing(path, entries, fields);
    }

    fn missing(&mut self, path: &str, entries: &Mapping, fields: &[Field]) {
        let is_there = |field: &Field| entries.contains_key(field.name);
        for field in fields.iter().filter(|field| field.required && !is_there(field)) {
            let place = below(path, field.name);
            self.fault(&place, true, "it is required".to_string(), true);
        }
    }

    fn value(&mut self, path: &str, value: &Value, kind: &Kind) {
        let blank = value.is_null() || value.as_str() == Some(BLANK);
        let wanted = match kind {
            Kind::Section(fields) => return self.section(path, value, fields),
            Kind::Loose(fields) => return self.loose(path, value, fields),
            Kind::List { least, of } => return self.list(path, value, *least, of),
            Kind::Text if !blank && value.as_str().is_some_and(|text| !text.is_empty()) => return,
            Kind::Text => "a text".to_string(),
            Kind::Bool if value.is_bool() => return,
            Kind::Bool => "true or false".to_string(),
            Kind::Count { least } => match whole(value) {
                Some(count) if count >= *least => return,
                _ => format!("a whole number of {least} or more"),
            },
            Kind::Choice(names) => match value.as_str() {
                Some(text) if names.contains(&text) => return,
                Some(text) if !blank => {
                    let message = unknown_among(names, "one of its values", text);
                    return self.fault(path, false, message, false);
                }
                _ => one_of(names),
            },
        };
        let message = if blank {
            format!("not filled in: it takes {wanted}")
        } else {
            format!("found {}, and it takes {wanted}", shown(value))
        };
        self.fault(path, false, message, blank);
    }

    /// A section that may have other fields too.
    fn loose(&mut self, path: &str, value: &Value, fields: &[Field]) {
        let Some(entries) = value.as_mapping() else {
            return self.section(path, value, fields);
        };
        for (index, (name, value)) in entries.iter().enumerate() {
            let known = fields.iter().find(|field| name.as_str() == Some(field.name));
            let Some(field) = known.filter(|field| field.required || !value.is_null()) else {
                continue;
            };
            self.at.push(index);
            self.value(&below(path, field.name), value, &field.kind);
            self.at.pop();
        }
        self.missing(path, entries, fields);
    }

    fn list(&mut self, path: &str, value: &Value, least: usize, of: &Kind) {
        let Some(entries) = value.as_sequence() else {
            let message = format!("found {}, and it takes a list", shown(value));
            return self.fault(path, false, message, value.is_null());
        };
        if entries.len() < least {
            let entries = if least == 1 { "entry" } else { "entries" };
            self.fault(path, false, format!("it takes {least} {entries} or more"), true);
        }
        for (index, entry) in entries.iter().enumerate() {
            self.at.push(index);
            self.value(&format!("{path}[{index}]"), entry, of);
            self.at.pop();
        }
    }
}

/// `a`, `a or b`, `a, b or c`.
fn one_of(names: &[&str]) -> String {
    match names.split_last() {
        Some((last, [])) => (*last).to_string(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

fn below(path: &str, name: &str) -> String {
    match path {
        "" => name.to_string(),
        path => format!("{path}.{name}"),
    }
}

fn whole(value: &Value) -> Option<i64> {
    let number = value.as_i64();
    number.or_else(|| {
        let number = value.as_f64()?;
        (number.fract() == 0.0 && number.abs() < 1e15).then_some(number as i64)
    })
}

/// A value in one line.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_string(),
        Value::String(text) => format!("`{text}`"),
        Value::Mapping(_) => "a section".to_string(),
        Value::Sequence(_) => "a list".to_string(),
        Value::Bool(it) => it.to_string(),
        Value::Number(it) => it.to_string(),
        Value::Tagged(_) => "a tagged value".to_string(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests;
