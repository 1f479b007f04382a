//! The files below `~/.aws`: sections of `key = value`, and indented keys below an empty one.

use std::collections::BTreeMap;

/// The keys of each section. A nested key is `outer.inner`.
#[derive(Debug, Default)]
pub(super) struct Ini(BTreeMap<String, BTreeMap<String, String>>);

impl Ini {
    /// Reads a file; lines that are neither section nor key are skipped, as the AWS tools do.
    pub(super) fn parse(text: &str) -> Self {
        let mut sections: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        let (mut section, mut outer) = (String::new(), String::new());
        for line in text.trim_start_matches('\u{feff}').lines() {
            let trimmed = line.trim();
            if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
                continue;
            }
            if let Some(name) = trimmed.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
                section = name.trim().to_string();
                outer.clear();
                continue;
            }
            let Some((key, value)) = trimmed.split_once('=') else {
                continue;
            };
            let (key, value) = (key.trim().to_ascii_lowercase(), value.trim().to_string());
            let nested = line.starts_with([' ', '\t']) && !outer.is_empty();
            let full = if nested { format!("{outer}.{key}") } else { key.clone() };
            if !nested {
                outer = if value.is_empty() { key } else { String::new() };
            }
            sections.entry(section.clone()).or_default().insert(full, value);
        }
        Self(sections)
    }

    /// The value of a key in the first of `sections` that is there, unless it is empty.
    pub(super) fn get(&self, sections: &[&str], key: &str) -> Option<&str> {
        let found = sections.iter().find_map(|section| self.0.get(*section))?;
        found.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }
}
