//! The table of a workload's keys: the effect of each, and suggestions for misspelt keys.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_yaml::{Mapping, Value};

use super::field::{Field, line, number, text, wants};
use crate::names::distance;

/// The keys of one kind of workload.
pub struct Table<W: 'static> {
    /// Every key. They are set and written in this order, regardless of the file's order.
    pub keys: &'static [Key<W>],
    /// Aliases of top-level sections; an empty one stands for the file itself.
    pub section_aliases: &'static [(&'static str, &'static str)],
}

/// Returns the place of a value in a workload.
type PlaceIn<W> = fn(&mut W) -> &mut dyn Field;

/// A key: its path, `reader.batch_size`, and its effect.
pub enum Key<W: 'static> {
    /// The value at this place.
    Used(&'static str, PlaceIn<W>),
    /// The value at this place, which is at least and at most these numbers.
    Within(&'static str, f64, f64, PlaceIn<W>),
    /// The value at this place; a negative integer means unset.
    OrMinusOne(&'static str, PlaceIn<W>),
    /// Read by this function; the resulting value is written under another key.
    SetBy(&'static str, fn(&mut W, &Value) -> Result<(), String>),
    /// An alias of another key.
    Alias(&'static str, &'static str),
    /// Ignored, for this reason, including everything below it.
    Ignored(&'static str, &'static str),
    /// Unused here, for this reason; it is written for other programs to read.
    ForOthers(&'static str, &'static str, fn(&W) -> Value),
    /// Only this word is allowed, for this reason.
    OnlyAs(&'static str, &'static str, &'static str),
}

impl<W> Key<W> {
    /// Its path.
    pub(super) fn path(&self) -> &'static str {
        match *self {
            Self::Used(path, _) | Self::Within(path, ..) | Self::OrMinusOne(path, _) => path,
            Self::SetBy(path, _) | Self::Alias(path, _) | Self::Ignored(path, _) => path,
            Self::ForOthers(path, ..) | Self::OnlyAs(path, ..) => path,
        }
    }

    /// Sets `value`; an empty one is treated as not given.
    pub(super) fn set(&self, workload: &mut W, value: &Value) -> Result<(), String> {
        if value.is_null() {
            return Ok(());
        }
        match *self {
            Self::Used(_, place) => place(workload).read(value),
            Self::Within(_, least, most, _)
                if number(value).is_some_and(|number| !(least..=most).contains(&number)) =>
            {
                Err(wants(value, &format!("it must be {least} to {most}")))
            }
            Self::Within(.., place) => place(workload).read(value),
            Self::OrMinusOne(..) if number(value).is_some_and(|n| n < 0.0 && n.fract() == 0.0) => {
                Ok(())
            }
            Self::OrMinusOne(_, place) => {
                let read = place(workload).read(value);
                read.map_err(|why| format!("{why}, or -1 for none"))
            }
            Self::SetBy(_, set) => set(workload, value),
            Self::OnlyAs(_, only, why) if text(value).as_deref() != Some(only) => {
                Err(wants(value, why))
            }
            _ => Ok(()),
        }
    }

    /// The place that holds its value.
    pub(super) fn place<'w>(&self, workload: &'w mut W) -> Option<&'w mut dyn Field> {
        match *self {
            Self::Used(_, place) | Self::Within(.., place) | Self::OrMinusOne(_, place) => {
                Some(place(workload))
            }
            _ => None,
        }
    }

    /// The value written for `workload`, null if unset. The workload is borrowed mutably because
    /// places require it, but is not modified.
    pub(super) fn value(&self, workload: &mut W) -> Value {
        if let Self::ForOthers(_, _, value) = *self {
            return value(workload);
        }
        self.place(workload).map_or(Value::Null, |place| place.write())
    }

    /// Why it has no effect.
    pub(super) fn no_effect(&self) -> Option<&'static str> {
        match *self {
            Self::Ignored(_, why) | Self::ForOthers(_, why, _) => Some(why),
            _ => None,
        }
    }

    fn is_below(&self, section: &str) -> bool {
        let rest = self.path().strip_prefix(section);
        rest.is_some_and(|rest| rest.starts_with('.'))
    }
}

/// The contents of a file and `--params`, including the spelling of keys, which reveals a file's
/// edition.
#[derive(Debug, Default)]
pub struct Contents {
    /// Values by key path, with aliases resolved.
    pub(super) values: BTreeMap<&'static str, Value>,
    /// The file's keys as written, including aliases.
    pub written: BTreeSet<&'static str>,
}

impl Contents {
    /// Whether the key `path` is present.
    pub fn has(&self, path: &str) -> bool {
        self.values.contains_key(path)
    }

    /// Whether any key of `section` is present.
    pub fn has_section(&self, section: &str) -> bool {
        let mut sections = self.values.keys().filter_map(|path| path.split_once('.'));
        sections.any(|(of, _)| of == section)
    }
}

/// A key that was accepted but has no effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyNote {
    /// The key's path, `reader.pin_memory`.
    pub key: String,
    /// Its value, in one line.
    pub value: String,
    /// Why it has no effect.
    pub reason: String,
}

/// A value in one line without credentials.
fn public_line(value: &Value) -> String {
    let mut value = value.clone();
    remove_secrets(&mut value);
    line(&value)
}

/// Removes what clients of storage call their credentials, on every level.
fn remove_secrets(value: &mut Value) {
    match value {
        Value::Mapping(options) => {
            options.retain(|name, _| !text(name).is_some_and(|name| is_secret(&name)));
            options.values_mut().for_each(remove_secrets);
        }
        Value::Sequence(values) => values.iter_mut().for_each(remove_secrets),
        _ => {}
    }
}

/// Whether an option with this name holds a credential.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == "key"
        || ["access_key", "secret", "token", "password"].iter().any(|one| name.contains(one))
}

/// The target of a name in a section.
pub(super) enum KeyOrSection<W: 'static> {
    /// A section, by its path.
    Section(String),
    /// A key.
    Leaf(&'static Key<W>),
}

impl<W> Table<W> {
    /// The keys of `contents` that have no effect.
    pub fn without_effect(&self, contents: &Contents) -> Vec<KeyNote> {
        let given = self.keys.iter().filter(|key| contents.has(key.path()));
        given
            .filter_map(|key| {
                Some(KeyNote {
                    key: key.path().to_string(),
                    value: contents.values.get(key.path()).map(public_line).unwrap_or_default(),
                    reason: key.no_effect()?.to_string(),
                })
            })
            .collect()
    }

    /// Resolves `name` in `section`, given its `value`.
    pub(super) fn look_up(
        &self,
        section: &str,
        name: &str,
        value: &Value,
    ) -> Option<KeyOrSection<W>> {
        let path = match self.section_alias(name).filter(|_| section.is_empty()) {
            Some("") => return Some(KeyOrSection::Section(String::new())),
            Some(of) => of.to_string(),
            None => join(section, name),
        };
        let is_section = self.keys.iter().any(|key| key.is_below(&path));
        // `model` is a section or, up to v1.0, the model's name.
        if is_section && (value.is_mapping() || value.is_null()) {
            return Some(KeyOrSection::Section(path));
        }
        match self.at(&path) {
            Some(key) => Some(KeyOrSection::Leaf(key)),
            None => is_section.then_some(KeyOrSection::Section(path)),
        }
    }

    /// The key at a dotted path, as in `--params`; a leading `++workload.` (Hydra) is allowed.
    pub(super) fn by_path(&self, path: &str) -> Option<&'static Key<W>> {
        let path = path.trim_start_matches('+');
        let path = path.strip_prefix("workload.").unwrap_or(path);
        let path = match path.split_once('.') {
            Some((section, rest)) => join(self.section_alias(section).unwrap_or(section), rest),
            None => path.to_string(),
        };
        // Keys below one without effect have none either: options of storage clients.
        let above = || self.at(path.rsplit_once('.')?.0);
        self.at(&path).or_else(|| above().filter(|key| matches!(key, Key::Ignored(..))))
    }

    /// The key that `key` is an alias of, or `key` itself.
    pub(super) fn target(&self, key: &'static Key<W>) -> &'static Key<W> {
        match *key {
            Key::Alias(_, of) => self.at(of).unwrap_or(key),
            _ => key,
        }
    }

    /// The error message for an unknown key.
    pub(super) fn unknown(&self, path: &str) -> String {
        match self.nearest(path) {
            Some(meant) => format!("unknown key `{path}`; did you mean `{meant}`?"),
            None => format!("unknown key `{path}`, and no known key is similar"),
        }
    }

    /// The known key that `path` was probably meant to be: by the edit distance of its last part,
    /// preferring keys of the same section. `None` if every key is too far away.
    pub fn nearest(&self, path: &str) -> Option<&'static str> {
        let (section, name) = split(path);
        let keys =
            self.keys.iter().filter(|key| !matches!(key, Key::Alias(..))).filter_map(|key| {
                let (of, last) = split(key.path());
                let section_cost = if of == section { 0 } else { 2 };
                Some((distance(name, last)? + section_cost, key.path()))
            });
        // Sections are included, so that `readr` finds `reader`.
        let sections = self.keys.iter().filter_map(|key| {
            let (first, _) = key.path().split_once('.').filter(|_| section.is_empty())?;
            Some((distance(name, first)?, first))
        });
        sections.chain(keys).min_by_key(|(cost, _)| *cost).map(|(_, path)| path)
    }

    /// Keys with a dangling alias, and duplicate keys.
    pub fn mistakes(&self) -> Vec<&'static str> {
        let is_used =
            |of| matches!(self.at(of), Some(key) if matches!(key, Key::Used(..) | Key::Within(..)));
        let is_wrong = |key: &&Key<W>| {
            let twice = self.keys.iter().filter(|other| other.path() == key.path());
            twice.count() > 1 || matches!(key, Key::Alias(_, of) if !is_used(of))
        };
        let wrong = self.keys.iter().filter(is_wrong);
        wrong.map(|key| key.path()).collect()
    }

    fn at(&self, path: &str) -> Option<&'static Key<W>> {
        self.keys.iter().find(|key| key.path() == path)
    }

    fn section_alias(&self, name: &str) -> Option<&'static str> {
        let found = self.section_aliases.iter().find(|(alias, _)| *alias == name);
        found.map(|(_, section)| *section)
    }
}

/// The section and the last part of a path.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('.').unwrap_or(("", path))
}

fn join(section: &str, name: &str) -> String {
    if section.is_empty() { name.to_string() } else { format!("{section}.{name}") }
}

impl<W: Clone> Table<W> {
    /// Path and value of every key set in `workload`, in the table's order.
    pub fn values(&self, workload: &W) -> Vec<(&'static str, Value)> {
        let mut workload = workload.clone();
        let values = self.keys.iter().map(|key| (key.path(), key.value(&mut workload)));
        values.filter(|(_, value)| !value.is_null()).collect()
    }
}

/// Nests `values` in the sections given by their paths.
pub fn sections(values: Vec<(&'static str, Value)>) -> Mapping {
    let mut file = Mapping::new();
    for (path, value) in values {
        let mut names = path.split('.');
        let last = names.next_back().unwrap_or(path);
        let section = names.fold(&mut file, |section, name| {
            let inner = section.entry(name.into()).or_insert_with(|| Mapping::new().into());
            // A table never writes a key and a section with the same name.
            inner.as_mapping_mut().expect("a section")
        });
        section.insert(last.into(), value);
    }
    file
}
