//! User-defined tags of runs: `--tag KEY=VALUE`, saved in the report and used as filters.

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::printable::printable;

/// The tags of a run by key.
pub type Tags = BTreeMap<String, String>;

/// Longer keys and values do not fit a list.
const MOST_CHARACTERS: usize = 100;

/// A single tag as typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    /// Letters, digits, `_`, `-` and `.`.
    pub key: String,
    /// Any single-line text.
    pub value: String,
}

impl FromStr for Tag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shown = printable(text);
        let (key, value) = text
            .split_once('=')
            .ok_or_else(|| format!("`{shown}` is not a tag: use KEY=VALUE, such as site=lab2"))?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if key.is_empty() || !key.chars().all(is_plain) {
            return Err(format!(
                "`{}` is not a valid tag key: use letters, digits, `_`, `-` and `.`",
                printable(key)
            ));
        }
        if value.is_empty() || printable(value) != value {
            return Err(format!("`{shown}` is not a tag: its value must be a single line of text"));
        }
        if [key, value].iter().any(|part| part.chars().count() > MOST_CHARACTERS) {
            return Err(format!(
                "a tag's key and value may have at most {MOST_CHARACTERS} characters each"
            ));
        }
        Ok(Self { key: key.to_string(), value: value.to_string() })
    }
}

/// Collects the tags by key.
///
/// # Errors
/// If a key occurs twice with different values.
pub fn collect(tags: &[Tag]) -> Result<Tags, String> {
    let mut collected = Tags::new();
    for Tag { key, value } in tags {
        let before = collected.insert(key.clone(), value.clone());
        if before.is_some_and(|before| before != *value) {
            return Err(format!("the tag `{key}` is given twice, with different values"));
        }
    }
    Ok(collected)
}

/// All tags in one line: `lab=2 ssd=new`.
pub fn words(tags: &Tags) -> String {
    let words = tags.iter().map(|(key, value)| format!("{key}={value}"));
    words.collect::<Vec<String>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_a_plain_key_and_a_line_of_text() {
        let tag: Tag = "site=lab 2=b".parse().unwrap();
        assert_eq!((&*tag.key, &*tag.value), ("site", "lab 2=b"));
        for wrong in ["site", "=x", "a b=x", "site=", "site=a\nb", "é=x"] {
            assert!(wrong.parse::<Tag>().is_err(), "{wrong}");
        }
        let long = format!("site={}", "x".repeat(101));
        assert!(long.parse::<Tag>().unwrap_err().contains("at most 100"));
    }

    #[test]
    fn a_key_has_one_value() {
        let tags = |words: &[&str]| {
            let tags: Vec<Tag> = words.iter().map(|word| word.parse().unwrap()).collect();
            collect(&tags)
        };
        assert_eq!(words(&tags(&["b=2", "a=1", "b=2"]).unwrap()), "a=1 b=2");
        assert!(tags(&["a=1", "a=2"]).unwrap_err().contains("`a`"));
    }
}
