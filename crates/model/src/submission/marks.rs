//! What says that stormlp made a file: no file of a rehearsal may pass for one of the official tool.

use serde_json::Value;

use super::REHEARSAL_ORGANISATION;
use super::tree::{Content, Entry, Tree, join, last};
use crate::python_json;

/// How the folder `path`, a run's, is known to be stormlp's: by the first of its files that says so.
pub(super) fn in_folder(tree: &Tree, path: &str) -> Option<String> {
    tree.files(path).into_iter().find_map(|name| {
        let mark = of(name, tree.get(&join(path, name))?)?;
        Some(format!("{name}: {mark}"))
    })
}

/// Every file and folder that bears a mark, but those that `is_known`.
pub(super) fn elsewhere(
    tree: &Tree,
    is_known: impl Fn(&str) -> bool,
) -> Vec<(String, &'static str)> {
    let others = tree.iter().filter(|(path, _)| !is_known(path));
    let marked = others.filter_map(|(path, entry)| Some((path.to_string(), of(path, entry)?)));
    marked.collect()
}

/// How what lies at `path` says that stormlp made it.
fn of(path: &str, entry: &Entry) -> Option<&'static str> {
    let content = match entry {
        Entry::Folder if last(path) == REHEARSAL_ORGANISATION => return Some("its name"),
        Entry::File { content, .. } => content,
        Entry::Folder | Entry::Other => return None,
    };
    match content {
        Content::Head(text) => of_lines(text),
        Content::Text(text) if path.ends_with(".json") => {
            // Letters may be written as escapes.
            let may = ["stormlp", "REHEARSAL", "\\u"];
            let told = may.iter().any(|word| text.contains(word));
            told.then(|| python_json::parse(text).ok())
                .flatten()
                .and_then(|value| of_json(&value))
        }
        _ => None,
    }
}

/// Logs say it in their first line, tables in the first cell of a row.
fn of_lines(text: &str) -> Option<&'static str> {
    let is_log = text.starts_with("REHEARSAL by stormlp");
    let is_table = text.lines().any(|line| line.starts_with("REHEARSAL,"));
    match (is_log, is_table) {
        (true, _) => Some("its first line"),
        (_, true) => Some("a row is a REHEARSAL"),
        _ => None,
    }
}

fn of_json(value: &Value) -> Option<&'static str> {
    if let Some(entries) = value.as_array() {
        return entries.iter().find_map(of_json);
    }
    let verification = value["verification"].as_str().unwrap_or_default();
    if value["generator"] == "stormlp" {
        Some("generator is stormlp")
    } else if verification.eq_ignore_ascii_case("rehearsal") {
        Some("verification is REHEARSAL")
    } else if value["stormlp"].is_object() {
        Some("it has stormlp's entry")
    } else if value["tool"]["name"] == "stormlp" {
        Some("its tool is stormlp")
    } else {
        None
    }
}
