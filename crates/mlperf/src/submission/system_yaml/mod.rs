//! The system description of v3.0: its schema, and the faults of a file by field and line.

mod draft;
mod schema;

use std::fmt;

use serde::Serialize;
use serde_yaml::{Mapping, Value};

use stormlp_core::names::unknown_among;
use stormlp_core::workload_file::place::{TextPlace, find, of_error};

pub use draft::draft;
use schema::{BLANK, FieldKind, ROOT, SchemaField};

/// Only this many faults are listed.
const MOST_FAULTS: usize = 200;

/// A fault of a description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct YamlFault {
    /// The field: `system_under_test.clients[0].chassis.cpu_qty`.
    pub field: String,
    /// Its line, from 1; that of its section where it is missing.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// It has not been filled in yet.
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

/// All faults of the description `text`.
pub fn faults(text: &str) -> Vec<YamlFault> {
    let file: Value = match stormlp_core::yaml::read(text) {
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
    let mut walk = Checker { text, file: &file, at: Vec::new(), faults: Vec::new() };
    walk.section("", &file, ROOT);
    relations(&file["system_under_test"], &mut walk);
    walk.faults
}

struct Checker<'a> {
    text: &'a str,
    file: &'a Value,
    /// The position in each section and list on the way to the current value.
    at: Vec<usize>,
    faults: Vec<YamlFault>,
}

impl Checker<'_> {
    fn fault(&mut self, field: &str, at_key: bool, message: String, is_blank: bool) {
        if self.faults.len() >= MOST_FAULTS {
            return;
        }
        let place = TextPlace { entries: self.at.clone(), at_key };
        self.faults.push(YamlFault {
            field: field.to_string(),
            line: find(self.text, &place).map(|(line, _)| line),
            message,
            is_blank,
        });
    }

    fn section(&mut self, path: &str, value: &Value, fields: &[SchemaField]) {
        let Some(entries) = value.as_mapping() else {
            let message = format!("expected a section, found {}", shown(value));
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

    fn missing(&mut self, path: &str, entries: &Mapping, fields: &[SchemaField]) {
        let is_there = |field: &SchemaField| entries.contains_key(field.name);
        for field in fields.iter().filter(|field| field.required && !is_there(field)) {
            let place = below(path, field.name);
            self.fault(&place, true, "it is required".to_string(), true);
        }
    }

    fn value(&mut self, path: &str, value: &Value, kind: &FieldKind) {
        let blank = value.is_null() || value.as_str() == Some(BLANK);
        let wanted = match kind {
            FieldKind::Section(fields) => return self.section(path, value, fields),
            FieldKind::Loose(fields) => return self.loose(path, value, fields),
            FieldKind::List { least, of } => return self.list(path, value, *least, of),
            FieldKind::Text if !blank && value.as_str().is_some_and(|text| !text.is_empty()) => {
                return;
            }
            FieldKind::Text => "a text".to_string(),
            FieldKind::Bool if truth(value).is_some() => return,
            FieldKind::Bool => "true or false".to_string(),
            FieldKind::Count { least } => match whole(value) {
                Some(count) if count >= *least => return,
                _ => format!("a whole number, {least} or more"),
            },
            FieldKind::Capacity if float(value).is_some_and(|tib| (1.0..1e15).contains(&tib)) => {
                return;
            }
            FieldKind::Capacity => "a number of TiB, 1 or more; fractions are allowed".to_string(),
            FieldKind::Choice(names) => match value.as_str() {
                Some(text) if names.contains(&text) => return,
                Some(text) if !blank => {
                    let message = unknown_among(names, "one of its values", text);
                    return self.fault(path, false, message, false);
                }
                _ => one_of(names),
            },
        };
        let message = if blank {
            format!("not filled in: expected {wanted}")
        } else {
            format!("expected {wanted}, found {}", shown(value))
        };
        self.fault(path, false, message, blank);
    }

    /// A section that may have other fields.
    fn loose(&mut self, path: &str, value: &Value, fields: &[SchemaField]) {
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

    fn list(&mut self, path: &str, value: &Value, least: usize, of: &FieldKind) {
        let Some(entries) = value.as_sequence() else {
            let message = format!("expected a list, found {}", shown(value));
            return self.fault(path, false, message, value.is_null());
        };
        if entries.len() < least {
            let entries = if least == 1 { "entry" } else { "entries" };
            self.fault(path, false, format!("expected at least {least} {entries}"), true);
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

/// A whole number. The official tool takes one in quotes, too.
fn whole(value: &Value) -> Option<i64> {
    let number = value.as_i64();
    number.or_else(|| {
        let number = float(value)?;
        (number.fract() == 0.0 && number.abs() < 1e15).then_some(number as i64)
    })
}

/// A number, in quotes or not.
fn float(value: &Value) -> Option<f64> {
    let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
    number.filter(|number: &f64| number.is_finite())
}

/// True or false.
fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(it) => Some(*it),
        Value::Number(it) => truth_of(&it.to_string()),
        Value::String(text) => truth_of(text),
        _ => None,
    }
}

/// True or false in the words that the official tool takes for it: those of YAML 1.1, which this reader
/// leaves as text, and those of its schema's library.
pub(super) fn truth_of(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "on" | "1" | "1.0" => Some(true),
        "false" | "f" | "no" | "n" | "off" | "0" | "0.0" => Some(false),
        _ => None,
    }
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

/// Rules about several fields. As in the official tool, those of a section are looked at once its own
/// fields are right, and those over several sections once all fields are.
fn relations(system: &Value, walk: &mut Checker<'_>) {
    let all_right = walk.faults.is_empty();
    if walk.is_right("solution.architecture") {
        architecture(system, walk);
    }
    if walk.is_right("solution.capabilities") {
        capabilities(system, walk);
    }
    for (path, node) in nodes(system) {
        ports(&format!("{path}.networking"), &node["networking"], walk);
        power(&format!("{path}.chassis.power"), &node["chassis"]["power"], walk);
    }
    for (index, switch) in entries(&system["product_switches"]).enumerate() {
        let path = format!("product_switches[{index}]");
        ports(&format!("{path}.ports"), &switch["ports"], walk);
        power(&format!("{path}.power"), &switch["power"], walk);
    }
    for (index, supply) in entries(&system["rack_power_supplies"]).enumerate() {
        power(&format!("rack_power_supplies[{index}]"), supply, walk);
    }
    if all_right {
        deployment(system, walk);
        rack_units(system, walk);
        networking(system, walk);
    }
}

fn entries(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_sequence().into_iter().flatten()
}

/// Product nodes and clients, with their paths.
fn nodes(system: &Value) -> Vec<(String, &Value)> {
    let of = |name: &'static str| {
        let nodes = entries(&system[name]).enumerate();
        nodes.map(move |(index, node)| (format!("{name}[{index}]"), node))
    };
    of("product_nodes").chain(of("clients")).collect()
}

impl Checker<'_> {
    /// Whether the section at `path` below `system_under_test` has no fault so far.
    fn is_right(&self, path: &str) -> bool {
        let section = format!("system_under_test.{path}");
        let is_in = |field: &str| {
            let below = field.strip_prefix(&section);
            below.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        !self.faults.iter().any(|fault| is_in(&fault.field))
    }

    /// Adds a fault of a field below `system_under_test`; the names in `path` lead to its line.
    fn say(&mut self, path: &str, message: impl Into<String>) {
        let mut here = &self.file["system_under_test"];
        let mut steps = vec![0];
        for part in path.split(['.', '[']).filter(|part| !part.is_empty()) {
            let step = match (here, part.strip_suffix(']')) {
                (Value::Sequence(_), Some(index)) => index.parse().ok(),
                (Value::Mapping(map), None) => {
                    map.keys().position(|key| key.as_str() == Some(part))
                }
                _ => None,
            };
            // A missing field is reported at its section.
            let Some(step) = step else { break };
            steps.push(step);
            here = match here {
                Value::Mapping(map) => map.values().nth(step).unwrap_or(&Value::Null),
                list => &list[step],
            };
        }
        self.at = steps;
        self.fault(&format!("system_under_test.{path}"), true, message.into(), false);
        self.at.clear();
    }
}

fn architecture(system: &Value, walk: &mut Checker<'_>) {
    let architecture = &system["solution"]["architecture"];
    let none = |key: &str| architecture[key].as_str() == Some("n/a");
    if none("client_footprint") != none("client_installation") {
        let path = "solution.architecture.client_installation";
        walk.say(path, "either both client_footprint and client_installation are n/a, or neither");
    }
}

fn capabilities(system: &Value, walk: &mut Checker<'_>) {
    let all = &system["solution"]["capabilities"];
    let is = |key: &str| truth(&all[key]) == Some(true);
    let both = is("simultaneous_write") && is("simultaneous_read");
    let none = whole(&all["remap_time_in_seconds"]) == Some(0);
    let path = "solution.capabilities.remap_time_in_seconds";
    match (both, none) {
        (true, false) => walk.say(path, "it must be 0 where reads and writes may be simultaneous"),
        (false, true) => {
            walk.say(path, "it must be above 0 unless reads and writes may be simultaneous")
        }
        _ => {}
    }
}

fn ports(path: &str, ports: &Value, walk: &mut Checker<'_>) {
    for (index, port) in entries(ports).enumerate() {
        if port["state"].as_str() != Some("up") {
            continue;
        }
        let place = format!("{path}[{index}]");
        if !walk.is_right(&place) {
            continue;
        }
        if port["speed"].is_null() {
            walk.say(&place, "speed is required where state is up");
        }
        if entries(&port["traffic"]).next().is_none() {
            walk.say(&place, "traffic needs an entry where state is up");
        }
    }
}

fn power(path: &str, power: &Value, walk: &mut Checker<'_>) {
    let installed = entries(&power["psus_configured"])
        .filter_map(|supply| whole(&supply["unit_count"]))
        .fold(0i64, i64::saturating_add);
    if let Some(active) = whole(&power["min_psus_active"])
        && walk.is_right(path)
        && active > installed
    {
        let message = format!("{active} active of {installed} installed");
        walk.say(&format!("{path}.min_psus_active"), message);
    }
}

/// Fields of on-premises deployments that a cloud does not have.
fn deployment(system: &Value, walk: &mut Checker<'_>) {
    let is_cloud = system["deployment"].as_str() == Some("cloud");
    for (path, node) in nodes(system) {
        for field in ["rack_units", "power"] {
            let place = format!("{path}.chassis.{field}");
            match (is_cloud, node["chassis"][field].is_null()) {
                (true, false) => walk.say(&place, "a cloud deployment must not have it"),
                (false, true) => walk.say(&place, "an onprem deployment must have it"),
                _ => {}
            }
        }
    }
    if is_cloud {
        for field in ["product_switches", "rack_power_supplies"] {
            if entries(&system[field]).next().is_some() {
                walk.say(field, "a cloud deployment must not have it");
            }
        }
        return;
    }
    if system["total_rack_units"].is_null() {
        walk.say("total_rack_units", "an onprem deployment must have it");
    }
    for (index, switch) in entries(&system["product_switches"]).enumerate() {
        if switch["power"].is_null() {
            let place = format!("product_switches[{index}].power");
            walk.say(&place, "an onprem deployment must have it");
        }
    }
}

/// The sum over the product, without clients.
fn rack_units(system: &Value, walk: &mut Checker<'_>) {
    let Some(stated) = whole(&system["total_rack_units"]) else {
        return;
    };
    let times = |units: &Value, count: &Value| {
        whole(units).unwrap_or(0).saturating_mul(whole(count).unwrap_or(0))
    };
    let nodes = entries(&system["product_nodes"])
        .map(|node| times(&node["chassis"]["rack_units"], &node["quantity"]));
    let switches = entries(&system["product_switches"])
        .map(|switch| times(&switch["rack_units"], &switch["unit_count"]));
    let sum = nodes.chain(switches).fold(0i64, i64::saturating_add);
    if sum != stated {
        let message = format!("it is {stated}; the sum of product nodes and switches is {sum}");
        walk.say("total_rack_units", message);
    }
}

fn networking(system: &Value, walk: &mut Checker<'_>) {
    let location = system["solution"]["architecture"]["storage_location"].as_str();
    if location == Some("local") {
        if entries(&system["product_switches"]).next().is_some() {
            walk.say("product_switches", "local storage must not have it");
        }
        return;
    }
    let is_onprem = system["deployment"].as_str() == Some("onprem");
    if is_onprem && entries(&system["product_nodes"]).next().is_none() {
        let message =
            "onprem, storage outside the clients must be listed: the report sums its power";
        walk.say("product_nodes", message);
    }
    for (path, node) in nodes(system) {
        if entries(&node["networking"]).next().is_none() {
            walk.say(&format!("{path}.networking"), "remote storage needs a network");
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
