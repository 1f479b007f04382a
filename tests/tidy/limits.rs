//! The size of the house: the counts here only ever go down. If you need room, remove something
//! first; raise a limit in a separate commit that names the benefit.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::code::{Source, end_of_item, sources};
use crate::{assert_none, documentation_pages, files, help, read, root};

/// Lines of code of each crate.
const CRATES: &[(&str, usize)] = &[
    ("checkpoint", 6401),
    ("core", 6592),
    ("dataset", 5799),
    ("hosts", 3030),
    ("kvcache", 6922),
    ("matrix", 8721),
    ("mlperf", 5061),
    ("planner", 4098),
    ("show", 5699),
    ("stormlp", 6588),
    ("training", 12190),
    ("transfer", 14952),
];
/// Lines of code of all crates.
const ALL_CRATES: usize = 86053;
/// Options that `--help` lists, `--help` itself included, for each command and subcommand.
const OPTIONS: &[(&str, usize)] = &[
    ("calibrate-dlio", 9),
    ("checkpoint", 37),
    ("clean", 2),
    ("compare", 16),
    ("datagen", 15),
    ("datasize", 9),
    ("doctor", 3),
    ("gds", 39),
    ("gdsio", 2),
    ("generate", 1),
    ("generate completions", 1),
    ("generate man", 1),
    ("kvcache", 1),
    ("kvcache mlperf", 23),
    ("kvcache replay", 28),
    ("kvcache serving", 31),
    ("kvcache size", 4),
    ("launch", 1),
    ("plan", 20),
    ("report", 7),
    ("report show", 6),
    ("submission", 1),
    ("submission check", 3),
    ("submission describe", 4),
    ("train", 37),
    ("workloads", 3),
    ("workloads list", 2),
    ("workloads show", 1),
];
/// Options that no help lists.
const HIDDEN_OPTIONS: usize = 2;
/// Definitions of macros.
const MACROS: usize = 6;
/// Words of each page.
const WORDS: &[(&str, usize)] = &[
    ("CHANGELOG.md", 344),
    ("CONTRIBUTING.md", 799),
    ("README.md", 634),
    ("docs/architecture.md", 1454),
    ("docs/checkpoint.md", 1312),
    ("docs/compare.md", 1096),
    ("docs/gds.md", 2116),
    ("docs/hosts.md", 1209),
    ("docs/install.md", 488),
    ("docs/kvcache.md", 1927),
    ("docs/objects.md", 1207),
    ("docs/results.md", 1822),
    ("docs/sizing.md", 1228),
    ("docs/submission.md", 1245),
    ("docs/training.md", 1921),
    ("docs/troubleshooting.md", 997),
    ("docs/validation.md", 1578),
];
/// Foreign crates that ours name.
const DIRECT_DEPENDENCIES: usize = 49;
/// Packages in `Cargo.lock`.
const LOCKED_PACKAGES: usize = 289;
/// Functions of more than [`LONG_FUNCTION`] lines of code.
const LONG_FUNCTIONS: usize = 10;
const LONG_FUNCTION: usize = 60;
/// Groups of files that import each other.
const CIRCLES: usize = 0;
/// Names that more than one type bears.
const SHARED_NAMES: usize = 101;

const REMEDY: &str =
    "remove something, or raise the limit in a commit of its own that says what it buys";

/// Compares each counted thing with its limit.
fn hold(what: &str, counted: &BTreeMap<String, usize>, limits: &[(&str, usize)]) {
    let limits: BTreeMap<&str, usize> = limits.iter().copied().collect();
    let mut complaints = Vec::new();
    for (name, count) in counted {
        match limits.get(name.as_str()) {
            None => complaints.push(format!("(\"{name}\", {count}) has no limit")),
            Some(limit) if count > limit => {
                complaints.push(format!("{name}: {count} {what}, limit {limit}"));
            }
            Some(_) => {}
        }
    }
    let gone = limits.keys().filter(|name| !counted.contains_key(**name));
    complaints.extend(gone.map(|name| format!("{name} has a limit and is not there")));
    assert_none(&format!("too many {what}: {REMEDY}"), &complaints);
}

fn hold_one(what: &str, names: &[String], limit: usize) {
    let count = names.len();
    let list = names.join("\n  ");
    assert!(count <= limit, "{count} {what}, limit {limit}: {REMEDY}\n  {list}");
}

#[test]
fn crates_keep_to_their_lines() {
    let mut lines = BTreeMap::new();
    for source in sources() {
        *lines.entry(source.crate_name().to_string()).or_insert(0) += source.lines.len();
    }
    hold("lines of code", &lines, CRATES);
    let all: usize = lines.values().sum();
    assert!(all <= ALL_CRATES, "{all} lines of code, limit {ALL_CRATES}: {REMEDY}");
}

#[test]
fn code_is_formatted_as_everywhere() {
    let settings = read("rustfmt.toml");
    let expected = ["max_width = 100", "use_small_heuristics = \"Max\""];
    let settings: Vec<&str> = settings.lines().filter(|line| !line.trim().is_empty()).collect();
    assert_eq!(settings, expected, "longer lines are no fewer lines");
    let skip = ["rustfmt", "::skip"].concat();
    let mut complaints = Vec::new();
    for source in sources() {
        for (number, line) in &source.lines {
            if line.contains(&skip) {
                complaints.push(format!("{}:{number}: {}", source.name(), line.trim()));
            }
        }
    }
    assert_none("code that a reader has to expand", &complaints);
}

/// All commands and subcommands, each as its words.
fn all_commands() -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut to_visit = vec![Vec::new()];
    while let Some(words) = to_visit.pop() {
        let text = help(&words.iter().map(String::as_str).collect::<Vec<_>>());
        for name in crate::commands_in(&text) {
            let mut words: Vec<String> = words.clone();
            words.push(name);
            to_visit.push(words);
        }
        if !words.is_empty() {
            found.push(words);
        }
    }
    found.sort();
    found
}

#[test]
fn commands_keep_to_their_options() {
    let is_option = |line: &&str| {
        let name = line.trim_start();
        let name = name
            .strip_prefix('-')
            .and_then(|rest| rest.split_once(", ").filter(|(short, _)| short.len() == 1))
            .map_or(name, |rest| rest.1);
        line.starts_with("  ") && !line.starts_with("          ") && name.starts_with("--")
    };
    let mut counted = BTreeMap::new();
    for words in all_commands() {
        let text = help(&words.iter().map(String::as_str).collect::<Vec<_>>());
        counted.insert(words.join(" "), text.lines().filter(is_option).count());
    }
    hold("options", &counted, OPTIONS);
}

/// Where a line of code contains `text`.
fn places_of(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources() {
        let lines = source.lines.iter().filter(|(_, line)| line.contains(text));
        found.extend(lines.map(|(number, _)| format!("{}:{number}", source.name())));
    }
    found
}

#[test]
fn options_are_listed() {
    hold_one("hidden options", &places_of("hide = true"), HIDDEN_OPTIONS);
}

#[test]
fn tables_are_not_hidden_in_macros() {
    hold_one("macros", &places_of(&["macro_", "rules!"].concat()), MACROS);
}

#[test]
fn pages_keep_to_their_words() {
    let count = |(name, text): (String, String)| (name, text.split_whitespace().count());
    let words = documentation_pages().into_iter().map(count).collect();
    hold("words", &words, WORDS);
}

#[test]
fn dependencies_are_few() {
    let mut named = BTreeSet::new();
    for manifest in files("crates", "toml").into_iter().chain([root().join("Cargo.toml")]) {
        let mut depends = false;
        for line in read(&manifest).lines() {
            if line.starts_with('[') {
                depends =
                    line.starts_with("[dependencies") || line.starts_with("[dev-dependencies");
            } else if depends && line.starts_with(|c: char| c.is_ascii_lowercase()) {
                let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
                if !name.starts_with("stormlp") {
                    named.insert(name.to_string());
                }
            }
        }
    }
    let named: Vec<String> = named.into_iter().collect();
    hold_one("direct dependencies", &named, DIRECT_DEPENDENCIES);
    let lock = read("Cargo.lock");
    let packages = lock.lines().filter(|line| *line == "[[package]]").count();
    assert!(packages <= LOCKED_PACKAGES, "{packages} packages, limit {LOCKED_PACKAGES}: {REMEDY}");
}

#[test]
fn functions_fit_a_screen() {
    let mut long = Vec::new();
    for source in sources() {
        let lines: Vec<&str> = source.lines.iter().map(|(_, line)| line.as_str()).collect();
        for (at, line) in lines.iter().enumerate() {
            let head = line.trim_start();
            let is_function = head.starts_with("fn ")
                || (head.starts_with("pub")
                    || head.starts_with("const ")
                    || head.starts_with("unsafe ")
                    || head.starts_with("async ")
                    || head.starts_with("extern "))
                    && head.contains(" fn ");
            if is_function {
                let length = end_of_item(&lines, at) - at + 1;
                if length > LONG_FUNCTION {
                    long.push(format!("{}:{}: {length} lines", source.name(), source.lines[at].0));
                }
            }
        }
    }
    hold_one(&format!("functions over {LONG_FUNCTION} lines"), &long, LONG_FUNCTIONS);
}

/// The modules of one crate by their paths: `plan::resolve` is `plan/resolve.rs`.
fn modules(sources: &[&Source]) -> BTreeMap<Vec<String>, PathBuf> {
    let place = |source: &&Source| {
        let inside = source.path.strip_prefix(root().join("crates")).ok()?;
        let mut parts: Vec<String> = inside
            .with_extension("")
            .iter()
            .skip(2)
            .map(|part| part.to_string_lossy().into())
            .collect();
        if parts.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
            parts.pop();
        }
        Some((parts, source.path.clone()))
    };
    sources.iter().filter_map(place).collect()
}

/// The paths that `use` lines name, groups unfolded: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn unfold(text: &str) -> Vec<String> {
    let Some(open) = text.find('{') else {
        return vec![text.split(" as ").next().unwrap_or_default().trim().to_string()];
    };
    let inside = &text[open + 1..text.rfind('}').unwrap_or(text.len())];
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (i, c) in inside.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inside[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&inside[start..]);
    let parts = parts.into_iter().map(str::trim).filter(|part| !part.is_empty());
    parts.flat_map(|part| unfold(&format!("{}{part}", text[..open].trim()))).collect()
}

/// The files that each file of a crate imports from.
fn imports(sources: &[&Source]) -> BTreeMap<PathBuf, BTreeSet<PathBuf>> {
    let modules = modules(sources);
    let mut all = BTreeMap::new();
    for (place, path) in &modules {
        let source = sources.iter().find(|source| source.path == *path).unwrap();
        let lines: Vec<&str> = source.lines.iter().map(|(_, line)| line.as_str()).collect();
        let mut targets = BTreeSet::new();
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.starts_with("use ")) {
            let end = end_of_item(&lines, at);
            let text = lines[at..=end].join(" ");
            let text = text.trim_start_matches("use ").trim_end_matches(';');
            for used in unfold(
                text.strip_prefix(line.split("use ").next().unwrap_or_default()).unwrap_or(text),
            ) {
                let mut parts: Vec<&str> = used.split("::").collect();
                let mut from: Vec<String> = match parts[0] {
                    "crate" => Vec::new(),
                    "super" | "self" => place.clone(),
                    _ => continue,
                };
                while let Some(first) = parts.first().copied() {
                    match first {
                        "super" => drop(from.pop()),
                        "crate" | "self" => {}
                        _ => break,
                    }
                    parts.remove(0);
                }
                from.extend(parts.iter().map(|part| (*part).to_string()));
                while !from.is_empty() && !modules.contains_key(&from) {
                    from.pop();
                }
                targets.extend(modules.get(&from).filter(|target| *target != path).cloned());
            }
        }
        all.insert(path.clone(), targets);
    }
    all
}

/// The files that can be reached from `start`.
fn reached(start: &Path, imports: &BTreeMap<PathBuf, BTreeSet<PathBuf>>) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut to_visit = vec![start.to_path_buf()];
    while let Some(path) = to_visit.pop() {
        for target in imports.get(&path).into_iter().flatten() {
            if found.insert(target.clone()) {
                to_visit.push(target.clone());
            }
        }
    }
    found
}

#[test]
fn files_import_each_other_in_one_direction() {
    let sources = sources();
    let names: BTreeSet<&str> = sources.iter().map(Source::crate_name).collect();
    let mut circles = BTreeSet::new();
    for name in names {
        let own: Vec<&Source> =
            sources.iter().filter(|source| source.crate_name() == name).collect();
        let imports = imports(&own);
        let reached: BTreeMap<&PathBuf, _> =
            imports.keys().map(|path| (path, reached(path, &imports))).collect();
        for (path, targets) in &reached {
            if targets.contains(*path) {
                let circle: Vec<String> = targets
                    .iter()
                    .filter(|other| reached.get(other).is_some_and(|back| back.contains(*path)))
                    .map(|file| file.strip_prefix(root()).unwrap().display().to_string())
                    .collect();
                circles.insert(circle.join(", "));
            }
        }
    }
    hold_one(
        "circles of files that import each other",
        &circles.into_iter().collect::<Vec<_>>(),
        CIRCLES,
    );
}

#[test]
fn a_name_is_one_type() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources() {
        for (number, line) in &source.lines {
            let head =
                line.strip_prefix("pub ").or(line.strip_prefix("pub(crate) ")).unwrap_or(line);
            let head = head.strip_prefix("pub(super) ").unwrap_or(head);
            let kinds = ["struct ", "enum ", "trait ", "type "];
            if let Some(rest) = kinds.iter().find_map(|kind| head.strip_prefix(kind)) {
                let name = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
                places
                    .entry(name.to_string())
                    .or_default()
                    .push(format!("{}:{number}", source.name()));
            }
        }
    }
    let shared = places.iter().filter(|(_, places)| places.len() > 1);
    let shared: Vec<String> =
        shared.map(|(name, places)| format!("{name}: {}", places.join(", "))).collect();
    hold_one("names of more than one type", &shared, SHARED_NAMES);
}
