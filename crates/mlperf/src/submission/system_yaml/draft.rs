//! A draft of a system description: every field of the schema, the client's from this machine.

use std::fmt::Write as _;

use serde_json::{Value, json};
use stormlp_core::machine::{Drive, Link, SystemFacts};

use super::schema::{BLANK, FieldKind, ROOT, SchemaField};

/// The draft, with comments at fields to fill in.
pub fn draft(facts: &SystemFacts, notice: &str) -> String {
    let mut lines = YamlLines(String::new());
    lines.line(0, "# A draft of a system description for MLPerf Storage v3.0, made by stormlp.");
    lines.line(0, &format!("# {notice}"));
    lines.line(
        0,
        &format!("# {BLANK} marks what only you know; fields that do not apply are left out."),
    );
    lines.line(
        0,
        "# `stormlp submission describe --check FILE` lists what is still wrong, by field",
    );
    lines.line(0, "# and line.");
    let known = json!({"system_under_test": {"clients": [client(facts)]}});
    lines.section(0, &ROOT, &known);
    lines.0
}

/// Facts of this machine about a client. `null` fields are left out of the draft.
fn client(facts: &SystemFacts) -> Value {
    let text = |text: &Option<String>| {
        let text = text.as_deref().map(str::trim).filter(|text| !text.is_empty())?;
        Some(Value::from(text))
    };
    let pairs = |pairs: &[(String, String)]| -> Value {
        pairs.iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
    };
    known([
        ("quantity", Some(1.into())),
        (
            "chassis",
            Some(known([
                ("model_name", text(&facts.model)),
                ("cpu_model", text(&facts.cpu_model)),
                ("cpu_qty", facts.sockets.map(Value::from)),
                ("cpu_cores", facts.cores.map(Value::from)),
                ("memory_capacity", facts.memory_gib.map(Value::from)),
            ])),
        ),
        (
            "operating_system",
            Some(known([("name", text(&facts.os_name)), ("version", text(&facts.os_version))])),
        ),
        ("environment", Some(pairs(&facts.environment))),
        ("sysctl", Some(pairs(&facts.sysctl))),
        ("networking", (!facts.links.is_empty()).then(|| facts.links.iter().map(link).collect())),
        ("drives", (!facts.drives.is_empty()).then(|| facts.drives.iter().map(drive).collect())),
    ])
}

/// A section of the fields that are known.
fn known<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let fields = fields.into_iter();
    Value::Object(fields.filter_map(|(name, value)| Some((name.to_string(), value?))).collect())
}

fn link(link: &Link) -> Value {
    let (state, speed, traffic) = match link.is_up {
        true => ("up", link.gbit_per_second.map(Value::from), None),
        false => ("down", Some(Value::Null), Some(Value::Null)),
    };
    known([
        ("unit_count", Some(link.count.into())),
        ("type", Some(link.kind.into())),
        ("state", Some(state.into())),
        ("speed", speed),
        ("traffic", traffic),
    ])
}

fn drive(drive: &Drive) -> Value {
    // A virtual machine's drive may claim to be rotational.
    let is_disk = drive.rotational && drive.interface != "other";
    known([
        ("unit_count", Some(drive.count.into())),
        ("interface", Some(drive.interface.into())),
        ("capacity_in_GB", Some(drive.capacity_gb.max(1).into())),
        ("vendor_name", drive.vendor.as_deref().map(Value::from)),
        ("model_name", drive.model.as_deref().map(Value::from)),
        ("media_type", is_disk.then(|| "HDD".into())),
    ])
}

/// The draft, line by line.
struct YamlLines(String);

impl YamlLines {
    fn line(&mut self, depth: usize, text: &str) {
        let _ = writeln!(self.0, "{:width$}{text}", "", width = depth * 2);
    }

    fn pair(&mut self, depth: usize, key: &str, value: &str, note: &str) {
        let value = if value.is_empty() { String::new() } else { format!(" {value}") };
        match note {
            "" => self.line(depth, &format!("{key}:{value}")),
            note => self.line(depth, &format!("{key}:{value}  # {note}")),
        }
    }

    /// The fields of a section with the `known` values.
    fn section(&mut self, depth: usize, fields: &[SchemaField], known: &Value) {
        for field in fields {
            self.field(depth, &field.name, field, known);
        }
    }

    /// A field under `key`, which is its name, after a dash where it is the first of a list's entry.
    fn field(&mut self, depth: usize, key: &str, field: &SchemaField, known: &Value) {
        let (known, note) = (known.get(&*field.name), &*field.note);
        if known.is_some_and(Value::is_null) {
            return;
        }
        let note_or_words =
            |kind: &FieldKind| if note.is_empty() { words(kind) } else { note.to_string() };
        match &field.kind {
            FieldKind::Section { fields, .. } => {
                self.pair(depth, key, "", note);
                self.section(depth + 1, fields, known.unwrap_or(&Value::Null));
            }
            FieldKind::List { of, .. } => {
                let FieldKind::Section { fields, .. } = &**of else {
                    return self.pair(depth, key, &format!("[{BLANK}]"), &note_or_words(of));
                };
                let blank = [Value::Null];
                let entries = known.and_then(Value::as_array).map_or(&blank[..], Vec::as_slice);
                if entries.is_empty() {
                    return self.pair(depth, key, "[]", note);
                }
                self.pair(depth, key, "", note);
                for entry in entries {
                    self.entry(depth + 1, fields, entry);
                }
            }
            kind => match known {
                Some(value) => self.pair(depth, key, &shown(kind, value), note),
                None => self.pair(depth, key, BLANK, &note_or_words(kind)),
            },
        }
    }

    /// An entry of a list: its first field follows the dash.
    fn entry(&mut self, depth: usize, fields: &[SchemaField], known: &Value) {
        let Some((first, others)) = fields.split_first() else { return };
        self.field(depth, &format!("- {}", first.name), first, known);
        self.section(depth + 1, others, known);
    }
}

/// The words that a field may have.
fn words(kind: &FieldKind) -> String {
    match kind {
        FieldKind::Bool => "true, false".to_string(),
        FieldKind::Choice(names) => names.join(", "),
        _ => String::new(),
    }
}

/// A known value: JSON is YAML, and the words of a choice need no quotes.
fn shown(kind: &FieldKind, value: &Value) -> String {
    match (kind, value.as_str()) {
        (FieldKind::Choice(_), Some(word)) => word.to_string(),
        _ => value.to_string(),
    }
}
