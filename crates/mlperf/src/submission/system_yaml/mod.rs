//! The system description of v3.0: its schema, and the faults of a file by field and line.

mod draft;
mod schema;

use std::fmt;

use serde::Serialize;
use serde_yaml::Value;

use stormlp_core::names::unknown_among;
use stormlp_core::workload_file::place::{TextPlace, find, of_error};

pub use draft::draft;
use schema::{BLANK, FieldKind, ROOT, SchemaField};

/// Only this many faults are listed.
const MOST_FAULTS: usize = 200;
/// Bytes that are read to find the lines of faults: each has the text read from its start.
const MOST_READ: usize = 16 << 20;

/// A fault of a description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct YamlFault {
    /// The field: `system_under_test.clients[0].chassis.cpu_qty`.
    pub field: String,
    /// Its line, from 1; its section's line if it is missing.
    pub line: Option<usize>,
    /// The fault.
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
    let mut walk = Checker { text, file: &file, faults: Vec::new() };
    walk.section("", &file, &ROOT, false);
    relations(&file["system_under_test"], &mut walk);
    walk.faults
}

struct Checker<'a> {
    text: &'a str,
    file: &'a Value,
    faults: Vec<YamlFault>,
}

impl Checker<'_> {
    /// Adds a fault of `field`, at its key or at its value.
    fn fault(&mut self, field: &str, at_key: bool, message: String, is_blank: bool) {
        if self.faults.len() >= MOST_FAULTS {
            return;
        }
        let place = TextPlace { entries: self.positions(field), at_key };
        let is_short = self.faults.len() * self.text.len() <= MOST_READ;
        self.faults.push(YamlFault {
            field: field.to_string(),
            line: is_short.then(|| find(self.text, &place)).flatten().map(|(line, _)| line),
            message,
            is_blank,
        });
    }

    /// The position in each section and list on the way to `field`; a missing field has its
    /// section's position.
    fn positions(&self, field: &str) -> Vec<usize> {
        let mut here = self.file;
        let mut positions = Vec::new();
        for part in field.split(['.', '[']).filter(|part| !part.is_empty()) {
            let next = match (here, part.strip_suffix(']')) {
                (Value::Sequence(list), Some(index)) => {
                    index.parse().ok().and_then(|index: usize| Some((index, list.get(index)?)))
                }
                (Value::Mapping(map), None) => {
                    let mut entries = map.iter().enumerate();
                    let found = entries.find(|(_, (key, _))| key.as_str() == Some(part));
                    found.map(|(index, (_, value))| (index, value))
                }
                _ => None,
            };
            let Some((index, value)) = next else { break };
            positions.push(index);
            here = value;
        }
        positions
    }

    /// A section of these fields; if it `is_loose`, it may have further ones.
    fn section(&mut self, path: &str, value: &Value, fields: &[SchemaField], is_loose: bool) {
        let Some(entries) = value.as_mapping() else {
            let message = format!("expected a section, found {}", shown(value));
            return self.fault(path, false, message, value.is_null());
        };
        for (name, value) in entries {
            let name = name.as_str().map_or_else(|| shown(name), str::to_string);
            let place = below(path, &name);
            match fields.iter().find(|field| field.name == name) {
                Some(field) if value.is_null() && !field.required => {}
                Some(field) => self.value(&place, value, &field.kind),
                None if is_loose || self.faults.len() >= MOST_FAULTS => {}
                None => {
                    let names: Vec<&str> = fields.iter().map(|field| &*field.name).collect();
                    let message = unknown_among(&names, "a field of this section", &name);
                    self.fault(&place, true, message, false);
                }
            }
        }
        let is_missing =
            |field: &&SchemaField| field.required && !entries.contains_key(&*field.name);
        for field in fields.iter().filter(is_missing) {
            self.fault(&below(path, &field.name), true, "it is required".to_string(), true);
        }
    }

    fn value(&mut self, path: &str, value: &Value, kind: &FieldKind) {
        let blank = value.is_null() || value.as_str() == Some(BLANK);
        let is_text = |is: &dyn Fn(&str) -> bool| value.as_str().is_some_and(is);
        let (is_right, wanted) = match kind {
            FieldKind::Section { fields, is_loose } => {
                return self.section(path, value, fields, *is_loose);
            }
            FieldKind::List { least, of } => return self.list(path, value, *least, of),
            FieldKind::Text => (is_text(&|text| !blank && !text.is_empty()), "a text".to_string()),
            FieldKind::Bool => (truth(value).is_some(), "true or false".to_string()),
            FieldKind::Count { least } => (
                whole(value).is_some_and(|count| count >= *least),
                format!("a whole number, {least} or more"),
            ),
            FieldKind::Capacity => (
                float(value).is_some_and(|tib| (1.0..1e15).contains(&tib)),
                "a number of TiB, 1 or more; fractions are allowed".to_string(),
            ),
            FieldKind::Choice(names) => {
                let is_right = is_text(&|text| names.iter().any(|name| name == text));
                (is_right, format!("one of {}", names.join(", ")))
            }
        };
        let message = match blank {
            _ if is_right => return,
            true => format!("not filled in: expected {wanted}"),
            false => format!("expected {wanted}, found {}", shown(value)),
        };
        self.fault(path, false, message, blank);
    }

    fn list(&mut self, path: &str, value: &Value, least: usize, of: &FieldKind) {
        let Some(entries) = value.as_sequence() else {
            let message = format!("expected a list, found {}", shown(value));
            return self.fault(path, false, message, value.is_null());
        };
        if entries.len() < least {
            self.fault(path, false, format!("expected at least {least} entry"), true);
        }
        for (index, entry) in entries.iter().enumerate() {
            self.value(&format!("{path}[{index}]"), entry, of);
        }
    }
}

fn below(path: &str, name: &str) -> String {
    match path {
        "" => name.to_string(),
        path => format!("{path}.{name}"),
    }
}

/// A whole number. The official tool accepts one in quotes, too.
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

/// True or false in the words that the official tool accepts: YAML 1.1's, which this reader leaves
/// as text, and its schema library's.
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

/// Rules about several fields. As in the official tool, rules within a section are checked once its
/// fields are right, and rules over several sections once all fields are.
fn relations(system: &Value, walk: &mut Checker<'_>) {
    let all_right = walk.faults.is_empty();
    solution(&system["solution"], walk);
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

    /// Adds a fault of a field below `system_under_test`.
    fn say(&mut self, path: &str, message: impl Into<String>) {
        self.fault(&format!("system_under_test.{path}"), true, message.into(), false);
    }
}

fn solution(solution: &Value, walk: &mut Checker<'_>) {
    let architecture = &solution["architecture"];
    let none = |key: &str| architecture[key].as_str() == Some("n/a");
    if walk.is_right("solution.architecture")
        && none("client_footprint") != none("client_installation")
    {
        let path = "solution.architecture.client_installation";
        walk.say(path, "either both client_footprint and client_installation are n/a, or neither");
    }
    let capabilities = &solution["capabilities"];
    let is = |key: &str| truth(&capabilities[key]) == Some(true);
    let both = is("simultaneous_write") && is("simultaneous_read");
    let none = whole(&capabilities["remap_time_in_seconds"]) == Some(0);
    if walk.is_right("solution.capabilities") && both != none {
        let path = "solution.capabilities.remap_time_in_seconds";
        walk.say(path, "it must be 0 where reads and writes may be simultaneous, and nowhere else");
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
    let mut fields = Vec::new();
    for (path, node) in nodes(system) {
        for field in ["rack_units", "power"] {
            let is_there = !node["chassis"][field].is_null();
            fields.push((format!("{path}.chassis.{field}"), is_there));
        }
    }
    if is_cloud {
        for field in ["product_switches", "rack_power_supplies"] {
            fields.push((field.to_string(), entries(&system[field]).next().is_some()));
        }
    } else {
        fields.push(("total_rack_units".to_string(), !system["total_rack_units"].is_null()));
        for (index, switch) in entries(&system["product_switches"]).enumerate() {
            fields.push((format!("product_switches[{index}].power"), !switch["power"].is_null()));
        }
    }
    let must = if is_cloud { "a cloud deployment must not" } else { "an onprem deployment must" };
    for (place, _) in fields.iter().filter(|(_, is_there)| *is_there == is_cloud) {
        walk.say(place, format!("{must} have it"));
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
