//! The fields of a system description of v3.0, as listed in `configs/submission/system.yaml`.

use std::sync::LazyLock;

use serde_yaml::{Mapping, Value};

/// Marks a field that a person has to fill in.
pub(super) const BLANK: &str = "FILL_IN";

/// A field of a section.
pub(super) struct SchemaField {
    pub(super) name: String,
    pub(super) required: bool,
    pub(super) kind: FieldKind,
    /// A comment for a draft, if the name does not explain it.
    pub(super) note: String,
}

/// The value of a field.
pub(super) enum FieldKind {
    /// A non-empty text.
    Text,
    Bool,
    /// A whole number.
    Count {
        least: i64,
    },
    /// A size in TiB, of 1 or more; fractions are allowed.
    Capacity,
    /// One of these words.
    Choice(Vec<String>),
    /// A section of these fields; if it `is_loose`, it may have further ones.
    Section {
        fields: Vec<SchemaField>,
        is_loose: bool,
    },
    /// A list of at least so many entries.
    List {
        least: usize,
        of: Box<FieldKind>,
    },
}

/// The fields of a whole file.
pub(super) static ROOT: LazyLock<Vec<SchemaField>> = LazyLock::new(|| {
    let text = include_str!("../../../../../configs/submission/system.yaml");
    // It is part of the program, so it can be read.
    fields(&serde_yaml::from_str(text).unwrap_or_default())
});

fn fields(section: &Mapping) -> Vec<SchemaField> {
    let texts = section.iter().filter_map(|(key, value)| Some((key.as_str()?, value)));
    let fields = texts.filter(|(key, _)| *key != "note").map(|(key, value)| {
        let name = key.trim_end_matches(['?', '+', '*']);
        let marks = &key[name.len()..];
        let (kind, note) = kind(value, marks);
        let (name, note) = (name.to_string(), note.unwrap_or_default().to_string());
        SchemaField { name, required: !marks.contains('?'), kind, note }
    });
    fields.collect()
}

/// The kind and the note of a field.
fn kind<'a>(value: &'a Value, marks: &str) -> (FieldKind, Option<&'a str>) {
    match value {
        Value::Mapping(section) => {
            let note = section.get("note").and_then(Value::as_str);
            (FieldKind::Section { fields: fields(section), is_loose: marks.contains('*') }, note)
        }
        Value::Sequence(list) => {
            let (of, note) = match &list[..] {
                [note, of] => (of, note.as_str()),
                other => (other.first().unwrap_or(&Value::Null), None),
            };
            let of = Box::new(kind(of, marks).0);
            (FieldKind::List { least: usize::from(marks.contains('+')), of }, note)
        }
        scalar => {
            let text = scalar.as_str().unwrap_or_default();
            let (name, note) = match text.split_once("; ") {
                Some((name, note)) => (name, Some(note)),
                None => (text, None),
            };
            let kind = match name {
                "text" => FieldKind::Text,
                "bool" => FieldKind::Bool,
                "count" => FieldKind::Count { least: 1 },
                "amount" => FieldKind::Count { least: 0 },
                "capacity" => FieldKind::Capacity,
                words => FieldKind::Choice(words.split(" | ").map(str::to_string).collect()),
            };
            (kind, note)
        }
    }
}
