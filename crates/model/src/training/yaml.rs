//! Reads a workload file into a flat list of values by the table of keys, with the line and
//! column of every fault.
//!
//! The walk is done by serde visitors, because only inside them does the YAML reader still know
//! where it is. It stops at a fault; the fault is noted and the file is read again past it, so
//! that all faults are told at once.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize as _;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_yaml::Value;

use super::keys::{self, Effect, Key, Kind, Target};
use super::values;

/// More faults than this are not worth reading.
const MAX_FAULTS: usize = 20;

/// One thing wrong with a workload file or a `--params`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Line, from 1; `None` for `--params`.
    pub line: Option<usize>,
    /// Column, from 1.
    pub column: Option<usize>,
    /// What is wrong and what to write instead.
    pub message: String,
}

/// A workload that cannot be read: everything that is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadError {
    /// The file's name, or `--params`.
    pub source_name: String,
    /// What is wrong, in the file's order; never empty.
    pub faults: Vec<Fault>,
}

impl WorkloadError {
    /// Faults of `source_name` that have no place in a text.
    pub(super) fn of(source_name: &str, messages: Vec<String>) -> Self {
        let fault = |message| Fault {
            line: None,
            column: None,
            message,
        };
        Self {
            source_name: source_name.to_string(),
            faults: messages.into_iter().map(fault).collect(),
        }
    }
}

impl std::error::Error for WorkloadError {}

impl fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{}", self.source_name)?;
            if let (Some(line), Some(column)) = (fault.line, fault.column) {
                write!(f, ":{line}:{column}")?;
            }
            write!(f, ": {}", fault.message)?;
        }
        Ok(())
    }
}

/// Values by the path of their key, aliases resolved; ignored keys are kept with `Null`.
pub(super) type Values = BTreeMap<&'static str, Value>;

/// What a file says, and in which words: the words tell its edition.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Its values.
    pub(super) values: Values,
    /// Its keys as they are written, aliases and all; `model` where that is a name alone.
    pub(super) written: BTreeSet<&'static str>,
}

/// Reads `text`, the file `source_name`.
///
/// # Errors
/// With every unknown key and every value of a wrong kind, or the first fault of YAML itself.
pub(super) fn read(text: &str, source_name: &str) -> Result<Contents, WorkloadError> {
    let mut faults: Vec<Fault> = Vec::new();
    let mut tolerated = BTreeSet::new();
    loop {
        let walk = Walk {
            contents: RefCell::default(),
            fault: RefCell::default(),
            tolerated: &tolerated,
        };
        let seed = Section {
            path: String::new(),
            walk: &walk,
        };
        let result = seed.deserialize(serde_yaml::Deserializer::from_str(text));
        let Err(error) = result else {
            if faults.is_empty() {
                return Ok(walk.contents.into_inner());
            }
            break;
        };
        let noted = walk.fault.into_inner();
        // What was read of a text that is no YAML is not worth a word.
        if noted.is_none() && is_no_yaml(text) {
            faults.clear();
        }
        faults.push(fault_of(
            &error,
            noted.as_ref().map(|(_, message)| message.as_str()),
        ));
        match noted {
            Some((place, _)) if faults.len() < MAX_FAULTS => {
                if !tolerated.insert(place) {
                    break;
                }
            }
            _ => break,
        }
    }
    faults.sort_by_key(|fault| (fault.line, fault.column));
    Err(WorkloadError {
        source_name: source_name.to_string(),
        faults,
    })
}

fn is_no_yaml(text: &str) -> bool {
    serde::de::IgnoredAny::deserialize(serde_yaml::Deserializer::from_str(text)).is_err()
}

fn fault_of(error: &serde_yaml::Error, noted: Option<&str>) -> Fault {
    let location = error.location();
    Fault {
        line: location.as_ref().map(serde_yaml::Location::line),
        column: location.as_ref().map(serde_yaml::Location::column),
        message: noted.map_or_else(|| without_place(&error.to_string()), str::to_string),
    }
}

/// The reader's own message without the place at its end, which stands before it already.
fn without_place(message: &str) -> String {
    match message.rsplit_once(" at line ") {
        Some((text, place)) if place.contains(" column ") => text.to_string(),
        _ => message.to_string(),
    }
}

/// What to say of a key that is none.
pub(super) fn unknown(path: &str) -> String {
    match keys::nearest(path) {
        Some(meant) => format!("unknown key `{path}`; did you mean `{meant}`?"),
        None => format!("unknown key `{path}`: neither MLPerf Storage nor DLIO has one like it"),
    }
}

/// Sets `key` to a value that was checked.
pub(super) fn store(values: &mut Values, key: &'static Key, value: Value) {
    let path = match key.effect {
        Effect::Alias(of) => of,
        _ => key.path,
    };
    if !value.is_null() || matches!(key.effect, Effect::Ignored(_)) {
        values.insert(path, value);
    }
}

struct Walk<'a> {
    contents: RefCell<Contents>,
    /// Where the walk stopped and why.
    fault: RefCell<Option<(String, String)>>,
    /// Places whose faults are known already.
    tolerated: &'a BTreeSet<String>,
}

impl Walk<'_> {
    /// Notes a fault at `place` and stops the walk, unless it is known already.
    fn stop<E: serde::de::Error>(&self, place: &str, message: String) -> Result<(), E> {
        if self.tolerated.contains(place) {
            return Ok(());
        }
        *self.fault.borrow_mut() = Some((place.to_string(), message.clone()));
        Err(E::custom(message))
    }
}

/// A section of the file, or the whole of it (path empty).
struct Section<'a> {
    path: String,
    walk: &'a Walk<'a>,
}

impl<'de> DeserializeSeed<'de> for Section<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Section<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str("the sections of a workload (`model:`, `dataset:`, `reader:` …)")
        } else {
            write!(f, "the keys of `{}`", self.path)
        }
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        // Up to v1.0 the model was its name alone.
        if self.path == "model" {
            let name = Value::String(text.to_string());
            let mut contents = self.walk.contents.borrow_mut();
            contents.values.insert("model.name", name);
            contents.written.insert("model");
            return Ok(());
        }
        let message = format!("found `{text}`, expected {}", ExpectedOf(&self));
        self.walk.stop(&self.path, message)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        loop {
            let name = map.next_key_seed(Name {
                section: &self.path,
                walk: self.walk,
                seen: &mut seen,
            })?;
            match name {
                None => return Ok(()),
                Some(None) => {
                    map.next_value::<serde::de::IgnoredAny>()?;
                }
                Some(Some(Target::Section(path))) => map.next_value_seed(Section {
                    path,
                    walk: self.walk,
                })?,
                Some(Some(Target::Leaf(key))) => map.next_value_seed(Leaf {
                    key,
                    walk: self.walk,
                })?,
            }
        }
    }
}

struct ExpectedOf<'a, 'b>(&'a Section<'b>);

impl fmt::Display for ExpectedOf<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }
}

/// The name of a key; `None` for one whose fault is known already.
struct Name<'a> {
    section: &'a str,
    walk: &'a Walk<'a>,
    seen: &'a mut BTreeSet<String>,
}

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Option<Target>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<Target>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a key")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Self::Value, E> {
        let path = keys::join(self.section, name);
        if !self.seen.insert(name.to_string()) {
            let place = format!("{path} again");
            self.walk.stop(&place, format!("`{path}` is set twice"))?;
            return Ok(None);
        }
        match keys::look_up(self.section, name) {
            Some(target) => Ok(Some(target)),
            None => {
                self.walk.stop(&path, unknown(&path))?;
                Ok(None)
            }
        }
    }
}

/// The value of a key.
struct Leaf<'a> {
    key: &'static Key,
    walk: &'a Walk<'a>,
}

impl Leaf<'_> {
    fn take<E: serde::de::Error>(&self, value: Value) -> Result<(), E> {
        match values::check(self.key, value) {
            Ok(value) => {
                let mut contents = self.walk.contents.borrow_mut();
                contents.written.insert(self.key.path);
                store(&mut contents.values, self.key, value);
                Ok(())
            }
            Err(message) => self.walk.stop(self.key.path, message),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Leaf<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.key.kind == Kind::Any {
            serde::de::IgnoredAny::deserialize(deserializer)?;
            return self.take(Value::Null);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Leaf<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the value of `{}`", self.key.path)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        self.take(Value::Null)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        self.take(Value::Bool(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.take(Value::from(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        self.take(Value::from(value))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        self.take(Value::from(value))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<(), E> {
        self.take(Value::String(value.to_string()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        let value = Value::deserialize(serde::de::value::SeqAccessDeserializer::new(seq));
        self.take(value.map_err(A::Error::custom)?)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        let value = Value::deserialize(serde::de::value::MapAccessDeserializer::new(map));
        self.take(value.map_err(A::Error::custom)?)
    }
}
