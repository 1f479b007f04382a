//! The position of a key or value in a text.
//!
//! The YAML reader reports line and column only in errors, so a position is found by navigating
//! there and failing.

use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use super::fault::WorkloadFault;

/// A location in a parsed file.
pub struct TextPlace {
    /// The entry index at each level of sections and lists, outermost first.
    pub entries: Vec<usize>,
    /// Whether it is the last entry's key rather than its value.
    pub at_key: bool,
}

/// Line and column of `place` in `text`, from 1.
pub fn find(text: &str, place: &TextPlace) -> Option<(usize, usize)> {
    let steps = Steps { entries: &place.entries, at_key: place.at_key };
    let stopped = steps.deserialize(serde_yaml::Deserializer::from_str(text));
    stopped.err().and_then(|error| line_and_column(&error))
}

/// A YAML syntax error.
pub fn of_error(error: &serde_yaml::Error) -> WorkloadFault {
    let place = line_and_column(error);
    let mut message = error.to_string();
    for kind in [" as u128", " as i128"] {
        let nothing_holds_it = format!("{kind}, expected any YAML value");
        message = message.replace(&nothing_holds_it, ", which is out of range");
    }
    WorkloadFault {
        place,
        message: match place {
            // The position is already shown in front.
            Some((line, column)) => {
                message.replacen(&format!(" at line {line} column {column}"), "", 1)
            }
            None => message,
        },
    }
}

fn line_and_column(error: &serde_yaml::Error) -> Option<(usize, usize)> {
    let location = error.location()?;
    Some((location.line(), location.column()))
}

struct Steps<'a> {
    entries: &'a [usize],
    at_key: bool,
}

impl<'de> DeserializeSeed<'de> for Steps<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// Anything other than a section or list fails by itself, which ends the descent.
impl<'de> Visitor<'de> for Steps<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a section")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        if let Some((entry, rest)) = self.entries.split_first() {
            for _ in 0..*entry {
                map.next_entry::<IgnoredAny, IgnoredAny>()?;
            }
            let at_key = self.at_key && rest.is_empty();
            let steps = Steps { entries: rest, at_key: self.at_key };
            if at_key {
                map.next_key_seed(steps)?;
            } else {
                map.next_key::<IgnoredAny>()?;
                map.next_value_seed(steps)?;
            }
        }
        Err(A::Error::custom("here"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        if let Some((entry, rest)) = self.entries.split_first() {
            for _ in 0..*entry {
                list.next_element::<IgnoredAny>()?;
            }
            list.next_element_seed(Steps { entries: rest, at_key: self.at_key })?;
        }
        Err(A::Error::custom("here"))
    }
}
