//! Marks of stormlp: no file of a rehearsal may pass for one of the official tool's.

use serde_json::Value;

use super::tree::{Content, Entry, Tree, join, last};
use crate::python_json;

/// The organisation in the tree of a rehearsal.
pub(super) const REHEARSAL_ORGANISATION: &str = "stormlp-rehearsal";

/// What shows that stormlp made the run folder `path`: the first marked file.
pub(super) fn in_folder(tree: &Tree, path: &str) -> Option<String> {
    tree.files(path).into_iter().find_map(|name| {
        let mark = of(name, tree.get(&join(path, name))?)?;
        Some(format!("{name}: {mark}"))
    })
}

/// All marked files and folders except those that `is_known`.
pub(super) fn elsewhere(
    tree: &Tree,
    is_known: impl Fn(&str) -> bool,
) -> Vec<(String, &'static str)> {
    let others = tree.iter().filter(|(path, _)| !is_known(path));
    let marked = others.filter_map(|(path, entry)| Some((path.to_string(), of(path, entry)?)));
    marked.collect()
}

/// The mark of the entry at `path`.
fn of(path: &str, entry: &Entry) -> Option<&'static str> {
    let content = match entry {
        Entry::Folder if last(path) == REHEARSAL_ORGANISATION => return Some("its name"),
        Entry::File { content, .. } => content,
        Entry::Folder | Entry::Other => return None,
    };
    match content {
        Content::Head(text) => of_lines(text, path.ends_with(".csv")),
        Content::Text(text) if path.ends_with(".json") => {
            // Letters may be escaped.
            let may = ["stormlp", "rehearsal", "\\u"];
            let lower = text.to_ascii_lowercase();
            let may_be = may.iter().any(|word| lower.contains(word));
            may_be
                .then(|| python_json::parse(text).ok())
                .flatten()
                .and_then(|value| of_json(&value))
        }
        _ => None,
    }
}

/// Logs are marked in their first line, tables in the first cell of a row. Blanks, quotes and a byte
/// order mark before it do not hide the mark.
fn of_lines(text: &str, is_table: bool) -> Option<&'static str> {
    let plain = |line: &str| {
        let line = line.trim_start_matches(|c: char| c.is_whitespace() || "\u{feff}\"".contains(c));
        line.to_ascii_lowercase().replace('"', "")
    };
    let mut lines = text.lines().map(plain).filter(|line| !line.is_empty());
    if is_table {
        let is_row =
            |line: String| line.split(',').next().is_some_and(|cell| cell.trim() == "rehearsal");
        return lines.any(is_row).then_some("a row is a REHEARSAL");
    }
    let first = lines.next()?;
    first.starts_with("rehearsal by stormlp").then_some("its first line")
}

fn of_json(value: &Value) -> Option<&'static str> {
    if let Some(entries) = value.as_array() {
        return entries.iter().find_map(of_json);
    }
    let is = |value: &Value, word: &str| {
        let text = value.as_str().unwrap_or_default();
        text.trim().eq_ignore_ascii_case(word)
    };
    if is(&value["generator"], "stormlp") {
        Some("generator is stormlp")
    } else if is(&value["verification"], "rehearsal") {
        Some("verification is REHEARSAL")
    } else if value["stormlp"].is_object() || value["metric"]["stormlp"].is_object() {
        Some("it has stormlp's entry")
    } else if is(&value["tool"]["name"], "stormlp") {
        Some("its tool is stormlp")
    } else {
        None
    }
}
