//! The table of a workload's keys: what each sets, and which one was meant.

use serde_yaml::Value;

use super::KeyNote;
use super::field::{Field, count, number, text, wants};
use super::read::Contents;
use super::write::line;
use crate::names::distance;

/// The keys of one kind of workload.
pub struct Table<W: 'static> {
    /// Every key. They are set and written in this order, whatever the file's.
    pub keys: &'static [Key<W>],
    /// Other names of whole sections at the top; an empty one stands for the file itself.
    pub section_aliases: &'static [(&'static str, &'static str)],
}

/// Where in a workload a value is.
type PlaceIn<W> = fn(&mut W) -> &mut dyn Field;

/// A key: its path, `reader.batch_size`, and what it does.
pub enum Key<W: 'static> {
    /// It is the value at this place.
    Used(&'static str, PlaceIn<W>),
    /// It is the value at this place; a count above this is refused.
    UpTo(&'static str, u64, PlaceIn<W>),
    /// It is the value at this place; a whole number below zero says that nothing is set.
    OrMinusOne(&'static str, PlaceIn<W>),
    /// It is read by this; what it sets is written under another key.
    SetBy(&'static str, fn(&mut W, &Value) -> Result<(), String>),
    /// The same as another key.
    Alias(&'static str, &'static str),
    /// Nothing, for this reason, whatever lies below it.
    Ignored(&'static str, &'static str),
    /// Nothing here, for this reason; it is written for other programs to read.
    ForOthers(&'static str, &'static str, fn(&W) -> Value),
    /// It may only be this word, for this reason.
    OnlyAs(&'static str, &'static str, &'static str),
}

impl<W> Key<W> {
    /// Its path.
    pub(super) fn path(&self) -> &'static str {
        match *self {
            Self::Used(path, _) | Self::UpTo(path, ..) | Self::OrMinusOne(path, _) => path,
            Self::SetBy(path, _) | Self::Alias(path, _) | Self::Ignored(path, _) => path,
            Self::ForOthers(path, ..) | Self::OnlyAs(path, ..) => path,
        }
    }

    /// Sets what `value` says; an empty one is one that was not given.
    pub(super) fn set(&self, workload: &mut W, value: &Value) -> Result<(), String> {
        if value.is_null() {
            return Ok(());
        }
        match *self {
            Self::Used(_, place) => place(workload).read(value),
            Self::UpTo(_, most, _) if count(value).is_some_and(|count| count > most) => {
                Err(wants(value, &format!("it may be {most} at most")))
            }
            Self::UpTo(_, _, place) => place(workload).read(value),
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

    /// The place that it is the value of.
    pub(super) fn place<'w>(&self, workload: &'w mut W) -> Option<&'w mut dyn Field> {
        match *self {
            Self::Used(_, place) | Self::UpTo(_, _, place) | Self::OrMinusOne(_, place) => {
                Some(place(workload))
            }
            _ => None,
        }
    }

    /// What is written of `workload`, null for nothing. It is lent to be changed, as places are,
    /// and stays as it is.
    pub(super) fn value(&self, workload: &mut W) -> Value {
        if let Self::ForOthers(_, _, value) = *self {
            return value(workload);
        }
        self.place(workload).map_or(Value::Null, |place| place.write())
    }

    /// Why it changes nothing.
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

/// What a name in a section stands for.
pub(super) enum Target<W: 'static> {
    /// A section, by its path.
    Section(String),
    /// A key.
    Leaf(&'static Key<W>),
}

impl<W> Table<W> {
    /// The keys of `contents` that change nothing.
    pub fn without_effect(&self, contents: &Contents) -> Vec<KeyNote> {
        let given = self.keys.iter().filter(|key| contents.has(key.path()));
        given
            .filter_map(|key| {
                Some(KeyNote {
                    key: key.path().to_string(),
                    value: contents.values.get(key.path()).map(line).unwrap_or_default(),
                    reason: key.no_effect()?.to_string(),
                })
            })
            .collect()
    }

    /// What `name` in `section` stands for, where it has `value`.
    pub(super) fn look_up(&self, section: &str, name: &str, value: &Value) -> Option<Target<W>> {
        let path = match self.section_alias(name).filter(|_| section.is_empty()) {
            Some("") => return Some(Target::Section(String::new())),
            Some(of) => of.to_string(),
            None => join(section, name),
        };
        let is_section = self.keys.iter().any(|key| key.is_below(&path));
        // `model` is a section or, up to v1.0, the model's name.
        if is_section && (value.is_mapping() || value.is_null()) {
            return Some(Target::Section(path));
        }
        match self.at(&path) {
            Some(key) => Some(Target::Leaf(key)),
            None => is_section.then_some(Target::Section(path)),
        }
    }

    /// The key at a dotted path, as `--params` has it; Hydra's `++workload.` in front is allowed.
    pub(super) fn by_path(&self, path: &str) -> Option<&'static Key<W>> {
        let path = path.trim_start_matches('+');
        let path = path.strip_prefix("workload.").unwrap_or(path);
        match path.split_once('.') {
            Some((section, rest)) => {
                self.at(&join(self.section_alias(section).unwrap_or(section), rest))
            }
            None => self.at(path),
        }
    }

    /// The key that `key` is another name of, or itself.
    pub(super) fn target(&self, key: &'static Key<W>) -> &'static Key<W> {
        match *key {
            Key::Alias(_, of) => self.at(of).unwrap_or(key),
            _ => key,
        }
    }

    /// What to say of a key that is none.
    pub(super) fn unknown(&self, path: &str) -> String {
        match self.nearest(path) {
            Some(meant) => format!("unknown key `{path}`; did you mean `{meant}`?"),
            None => {
                format!("unknown key `{path}`: neither MLPerf Storage nor DLIO has one like it")
            }
        }
    }

    /// The known key that `path` was probably meant to be: by edits of its last part, those of the
    /// same section first. `None` where every key is too far away to have been meant.
    pub fn nearest(&self, path: &str) -> Option<&'static str> {
        let (section, name) = split(path);
        let keys =
            self.keys.iter().filter(|key| !matches!(key, Key::Alias(..))).filter_map(|key| {
                let (of, last) = split(key.path());
                let section_cost = if of == section { 0 } else { 2 };
                Some((distance(name, last)? + section_cost, key.path()))
            });
        // Sections count as well, so that `readr` finds `reader`.
        let sections = self.keys.iter().filter_map(|key| {
            let (first, _) = key.path().split_once('.').filter(|_| section.is_empty())?;
            Some((distance(name, first)?, first))
        });
        sections.chain(keys).min_by_key(|(cost, _)| *cost).map(|(_, path)| path)
    }

    /// Keys that lead nowhere or stand twice.
    #[cfg(any(test, feature = "fixtures"))]
    pub fn mistakes(&self) -> Vec<&'static str> {
        let is_used = |of| matches!(self.at(of), Some(key) if matches!(key, Key::Used(..)));
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

/// The path of `name` in `section`.
fn join(section: &str, name: &str) -> String {
    if section.is_empty() { name.to_string() } else { format!("{section}.{name}") }
}
