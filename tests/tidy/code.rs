//! The lines of code of a crate: `src` without blank lines, comments and tests.
//!
//! `cargo fmt` decides where an item ends: at the first line as far to the left as its head that
//! closes what the head opened.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::{files, read, root};

/// A file of `crates/*/src` that is not a file of tests.
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    /// Its lines of code, with their numbers.
    pub(crate) lines: Vec<(usize, String)>,
}

impl Source {
    /// The folder below `crates`.
    pub(crate) fn crate_name(&self) -> &str {
        let mut parts = self.path.iter().skip_while(|part| *part != "crates").skip(1);
        parts.next().and_then(|name| name.to_str()).unwrap_or("stormlp")
    }

    /// The path as a reader of the repository knows it.
    pub(crate) fn name(&self) -> String {
        self.path.strip_prefix(root()).unwrap_or(&self.path).display().to_string()
    }
}

/// All sources of the crates and the build script.
pub(crate) fn sources() -> &'static [Source] {
    static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(read_sources);
    &SOURCES
}

fn read_sources() -> Vec<Source> {
    let mut all = Vec::new();
    let mut tests = BTreeSet::new();
    let paths = files("crates", "rs").into_iter().filter(|path| is_source(path));
    for path in paths.chain([root().join("build.rs")]) {
        let (lines, modules) = without_tests(&read(&path));
        modules.iter().for_each(|module| add_module(&mut tests, &path, false, module));
        all.push(Source { path, lines });
    }
    all.retain(|source| !tests.contains(&source.path));
    for source in &mut all {
        source.lines.retain(|(_, line)| {
            let line = line.trim();
            !line.is_empty() && !line.starts_with("//")
        });
    }
    all
}

fn is_source(path: &Path) -> bool {
    path.strip_prefix(root().join("crates"))
        .is_ok_and(|inside| inside.iter().nth(1).is_some_and(|folder| folder == "src"))
}

/// A module in a separate file: its name, and its file where an attribute names it.
#[derive(Debug, PartialEq)]
struct Module {
    name: String,
    file: Option<String>,
}

/// Marks the files of a module of tests, and of all modules that it declares. Modules of a file
/// that an attribute names, or of `mod.rs`, lie next to it; modules of any other file lie in a
/// folder of its name.
fn add_module(tests: &mut BTreeSet<PathBuf>, parent: &Path, named: bool, module: &Module) {
    let beside = parent.parent().unwrap();
    let stem = parent.file_stem().unwrap();
    let is_root = named || ["mod", "lib", "main"].iter().any(|root| stem == *root);
    let folder = if is_root { beside.to_path_buf() } else { beside.join(stem) };
    let candidates = match &module.file {
        Some(file) => vec![beside.join(file)],
        None => {
            vec![
                folder.join(format!("{}.rs", module.name)),
                folder.join(&module.name).join("mod.rs"),
            ]
        }
    };
    for path in candidates.into_iter().filter(|path| path.is_file()) {
        let text = read(&path);
        if tests.insert(path.clone()) {
            let lines: Vec<&str> = text.lines().collect();
            let heads = (0..lines.len()).filter_map(|at| module_at(&lines, at));
            heads.for_each(|inner| add_module(tests, &path, module.file.is_some(), &inner));
        }
    }
}

/// The module that line `at` declares to be in another file.
fn module_at(lines: &[&str], at: usize) -> Option<Module> {
    let head = lines[at].trim_start();
    let name = match head.split_once("mod ")? {
        ("", name) => name,
        (visibility, name) if visibility.starts_with("pub") => name,
        _ => return None,
    };
    let name = name.strip_suffix(';')?.to_string();
    let attributes =
        lines[..at].iter().rev().take_while(|line| line.trim_start().starts_with("#["));
    let file = attributes
        .filter_map(|line| line.trim().strip_prefix("#[path = \"")?.strip_suffix("\"]"))
        .map(str::to_string)
        .next();
    Some(Module { name, file })
}

/// The numbered lines of `text` outside items of tests, and the modules of tests in other files.
fn without_tests(text: &str) -> (Vec<(usize, String)>, Vec<Module>) {
    let lines: Vec<&str> = text.lines().collect();
    let within = begins_in_string(text);
    let shape: Vec<&str> =
        lines.iter().zip(&within).map(|(line, within)| if *within { "" } else { line }).collect();
    let (mut kept, mut modules) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < lines.len() {
        let line = shape[at].trim_start();
        if line != "#[cfg(test)]" && !line.starts_with("#[cfg(all(test,") {
            kept.push((at + 1, lines[at].to_string()));
            at += 1;
            continue;
        }
        let attribute =
            |line: &str| line.trim_start().starts_with("#[") || line.trim().starts_with("//");
        let head = (at..lines.len()).find(|i| !attribute(lines[*i])).unwrap_or(at);
        modules.extend(module_at(&shape, head));
        at = end_of_item(&shape, head) + 1;
    }
    (kept, modules)
}

/// The last line of the item with its head in line `at`. Lines within strings are to be blank.
pub(crate) fn end_of_item(lines: &[&str], at: usize) -> usize {
    let head = lines[at].trim_end();
    if head.ends_with([';', ',', '}']) {
        return at;
    }
    let indent = head.len() - head.trim_start().len();
    (at + 1..lines.len())
        .find(|i| {
            let line = lines[*i].trim_end();
            let level = line.len() - line.trim_start().len() == indent;
            level
                && line.trim_start().starts_with(['}', ')', ']'])
                && line.ends_with(['}', ';', ','])
        })
        .unwrap_or(lines.len() - 1)
}

/// Whether each line of `text` begins within a string.
fn begins_in_string(text: &str) -> Vec<bool> {
    let mut marks = vec![false];
    let mut rest = text;
    // The end that the open string waits for; a plain string's is a quotation mark.
    let mut open: Option<String> = None;
    while let Some(c) = rest.chars().next() {
        let mut step = c.len_utf8();
        match &open {
            Some(end) if end == "\"" && c == '\\' && !rest[1..].starts_with('\n') => {
                step += rest[1..].chars().next().map_or(0, char::len_utf8);
            }
            Some(end) if rest.starts_with(end.as_str()) => {
                step = end.len();
                open = None;
            }
            Some(_) => {}
            None if rest.starts_with("//") => step = rest.find('\n').unwrap_or(rest.len()),
            None if c == '"' => open = Some("\"".to_string()),
            None if rest.starts_with("r\"") || rest.starts_with("r#") => {
                let hashes = rest[1..].chars().take_while(|c| *c == '#').count();
                if rest[1 + hashes..].starts_with('"') {
                    open = Some(format!("\"{}", "#".repeat(hashes)));
                    step = 2 + hashes;
                }
            }
            // A character, not a lifetime.
            None if rest.starts_with("'\"'") => step = 3,
            None if rest.starts_with("'\\") => {
                step = 2 + rest[2..].chars().next().map_or(0, char::len_utf8)
            }
            None => {}
        }
        if rest[..step].ends_with('\n') {
            marks.push(open.is_some());
        }
        rest = &rest[step..];
    }
    marks
}

#[test]
fn an_attribute_of_tests_ends_with_its_item() {
    let text = r##"use a::B;
#[cfg(test)]
use a::{
    C,
};
fn one() {}
#[cfg(test)]
fn two(
    a: u32,
) -> u32
where
    B: C,
{
    if a == 1 {
        3
    } else {
        4
    }
}
struct Three {
    #[cfg(test)]
    four: u32,
    five: u32,
}
#[cfg(test)]
#[path = "six_tests.rs"]
mod six;
fn seven() {}
#[cfg(test)]
mod eight {
    const TEXT: &str = r#"{ '"':
}
"#;
    const MORE: &str = "\\
}
";
}
fn nine() {}
"##;
    let (kept, modules) = without_tests(text);
    let kept: Vec<&str> = kept.iter().map(|(_, line)| line.as_str()).collect();
    let three = ["struct Three {", "    five: u32,", "}"];
    let expected = [&["use a::B;", "fn one() {}"], &three[..], &["fn seven() {}", "fn nine() {}"]];
    let expected = expected.concat();
    assert_eq!(kept, expected);
    assert_eq!(modules, [Module { name: "six".into(), file: Some("six_tests.rs".into()) }]);
}
