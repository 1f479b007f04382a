//! Checks the sources against the rules of `docs/architecture.md`: the layers, `unsafe` in two
//! crates, module headers, lengths, and documentation in step with the program. Rules that clippy
//! can check are in `clippy.toml` and in the lints of `Cargo.toml`.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

mod code;
mod limits;

/// The longest a source file may be, in lines.
const FILE_LINES: usize = 600;
/// Which crates of the workspace each crate may use.
const LAYERS: [(&str, &[&str]); 11] = [
    ("core", &[]),
    ("transfer", &["core"]),
    ("hosts", &["core", "transfer"]),
    ("dataset", &["core", "transfer"]),
    ("show", &["core"]),
    ("matrix", &["core", "transfer", "hosts", "show"]),
    ("checkpoint", &["core", "transfer", "hosts", "show"]),
    ("kvcache", &["core", "transfer", "hosts", "show"]),
    ("training", &["core", "transfer", "hosts", "show", "dataset"]),
    ("planner", &["core", "transfer", "show", "dataset", "matrix", "training"]),
    ("mlperf", &["core", "transfer", "show", "training", "checkpoint", "kvcache"]),
];
/// Crates with the rooms `plan`, `run` and `show`.
const LANES: [&str; 4] = ["matrix", "checkpoint", "kvcache", "training"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All files below `folder` with this extension.
fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Every source file of ours: crates, tests, benches.
fn sources() -> Vec<(PathBuf, String)> {
    ["crates", "tests", "benches"]
        .iter()
        .flat_map(|folder| files(folder, "rs"))
        .map(|path| {
            let text = read(&path);
            (path, text)
        })
        .collect()
}

/// Fails with all of `complaints`, not just the first.
fn assert_none(rule: &str, complaints: &[String]) {
    assert!(complaints.is_empty(), "{rule}:\n  {}", complaints.join("\n  "));
}

/// Where code below `folder` contains one of `words`.
fn uses(folder: &str, words: &[&str]) -> Vec<String> {
    let folder = root().join(folder);
    let mut found = Vec::new();
    for source in code::sources().iter().filter(|source| source.path.starts_with(&folder)) {
        for (number, line) in &source.lines {
            for word in words.iter().filter(|word| line.contains(*word)) {
                found.push(format!("{}:{number}: {word}", source.name()));
            }
        }
    }
    found
}

#[test]
fn crates_use_only_the_layers_below_them() {
    let mut complaints = Vec::new();
    for (name, allowed) in LAYERS {
        let manifest = read(format!("crates/{name}/Cargo.toml"));
        let section = manifest
            .split("[dependencies]")
            .nth(1)
            .unwrap_or_default()
            .split("\n[")
            .next()
            .unwrap_or_default();
        for line in section.lines() {
            let Some(used) = line.strip_prefix("stormlp-") else {
                continue;
            };
            let used = used.split(['.', ' ', '=']).next().unwrap_or_default();
            if !allowed.contains(&used) {
                complaints.push(format!("{name} uses {used}"));
            }
        }
    }
    assert_none("layers", &complaints);
}

#[test]
fn unsafe_code_lives_in_two_crates_alone() {
    // Of `hosts` only the files that call foreign libraries, or inherit a descriptor.
    let speaks_c = ["mpi/mod.rs", "mpi/library.rs", "pmix.rs", "pmi1.rs"];
    let mut complaints = uses("crates/hosts/src", &["unsafe "]);
    complaints.retain(|place| !speaks_c.iter().any(|name| place.contains(name)));
    let safe = LAYERS
        .map(|(name, _)| name)
        .into_iter()
        .filter(|name| !["transfer", "hosts"].contains(name));
    let roots = safe.map(|name| format!("crates/{name}/src/lib.rs"));
    for root_file in roots.chain(["crates/stormlp/src/main.rs".to_string()]) {
        if !read(&root_file).contains("#![forbid(unsafe_code)]") {
            complaints.push(format!("{root_file}: no #![forbid(unsafe_code)]"));
        }
    }
    assert_none("unsafe", &complaints);
}

#[test]
fn each_room_keeps_to_its_own_business() {
    let impure = [
        "std::fs",
        "std::thread",
        "std::env",
        "std::net",
        "std::process",
        "Instant::now",
        "SystemTime",
    ];
    let prints = ["println!", "eprintln!"];
    let plans = LANES.map(|lane| format!("crates/{lane}/src/plan"));
    let shows = LANES.map(|lane| format!("crates/{lane}/src/show"));
    let runs = LANES.map(|lane| format!("crates/{lane}/src/run"));
    let mut complaints = uses("crates/core/src", &impure);
    complaints.extend(uses("crates/core/src", &prints));
    // Text and facts in, values out.
    for folder in plans.iter().chain(&shows).map(String::as_str).chain(["crates/show/src"]) {
        complaints.extend(uses(folder, &impure));
        complaints.extend(uses(folder, &prints));
    }
    for folder in &runs {
        complaints.extend(uses(folder, &["std::env"]));
        complaints.extend(uses(folder, &prints));
    }
    complaints.extend(uses("crates/dataset/src", &["cudarc", "libloading", "/dev/"]));
    // Files are reached through `Storage` alone; a `File` may be held and handed on.
    let calls = ["fs::{", "fs::self", "fs::read", "fs::write", "fs::metadata", "fs::create_dir"];
    let more = ["fs::remove", "fs::rename", " File::open", " File::create", "File::options"];
    for folder in
        runs.iter().map(String::as_str).chain(["crates/dataset/src", "crates/planner/src"])
    {
        complaints.extend(uses(folder, &calls));
        complaints.extend(uses(folder, &more));
    }
    assert_none("rooms do only what they are for", &complaints);
}

#[test]
fn rooms_use_only_what_they_may() {
    let mut complaints = Vec::new();
    for lane in LANES {
        let moving = ["stormlp_transfer", "stormlp_hosts", "crate::run", "crate::show"];
        complaints.extend(uses(&format!("crates/{lane}/src/plan"), &moving));
        let measuring = ["stormlp_transfer", "crate::run"];
        complaints.extend(uses(&format!("crates/{lane}/src/show"), &measuring));
        complaints
            .extend(uses(&format!("crates/{lane}/src/run"), &["stormlp_show", "crate::show"]));
    }
    assert_none("rooms use each other in one direction", &complaints);
}

#[test]
fn texts_speak_of_the_project_alone() {
    // References that only the author of a line could follow: folders of their machines, pages that
    // are not in the repository, numbers of a tracker. Spelt apart, as above.
    let words = [["/ro", "ot/"], ["/wo", "rk/"], ["shared", "/spec"], ["issue", " #"]]
        .map(|parts| parts.concat());
    let numbered = |line: &str| {
        (line.split("issue ").skip(1)).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let folders = ["crates", "tests", "benches", "fuzz", "docs", "configs"];
    let kinds = ["rs", "md", "yaml", "toml", "py", "snap"];
    let below = folders.iter().flat_map(|folder| kinds.iter().flat_map(|kind| files(folder, kind)));
    let above =
        ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Cargo.toml", ".ci/run", ".ci/full"]
            .map(|name| root().join(name));
    let mut complaints = Vec::new();
    for path in below.chain(above) {
        for (i, line) in read(&path).lines().enumerate() {
            let lower = line.to_lowercase();
            if numbered(&lower) || words.iter().any(|word| lower.contains(word.as_str())) {
                complaints.push(format!("{}:{}: {}", path.display(), i + 1, line.trim()));
            }
        }
    }
    assert_none("words of a place outside the project", &complaints);
}

#[test]
fn every_module_states_its_purpose() {
    let complaints: Vec<String> = sources()
        .iter()
        .filter(|(_, text)| !text.starts_with("//! "))
        .map(|(path, _)| path.display().to_string())
        .collect();
    assert_none("files that do not begin with //!", &complaints);
}

#[test]
fn files_fit_a_reader() {
    let mut complaints = Vec::new();
    for (path, text) in sources() {
        let lines = text.lines().count();
        if lines > FILE_LINES {
            complaints.push(format!("{}: {lines} lines", path.display()));
        }
    }
    assert_none("too long", &complaints);
}

/// The commands that a help lists.
fn commands_in(help: &str) -> Vec<String> {
    let lists = help.split("ommands:\n").skip(1);
    lists
        .flat_map(|list| list.lines().take_while(|line| line.starts_with("  ")))
        .filter(|line| !line.starts_with("    "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_string)
        .collect()
}

fn help(words: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_stormlp")).args(words).arg("--help").output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Every page for users and developers, by its name.
fn documentation_pages() -> Vec<(String, String)> {
    let above = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| root().join(name));
    let pages = above.into_iter().chain(files("docs", "md"));
    let name = |page: &Path| page.strip_prefix(root()).unwrap().display().to_string();
    pages.map(|page| (name(&page), read(&page))).collect()
}

#[test]
fn every_command_is_documented_and_shows_three_examples() {
    let documentation: String = documentation_pages().into_iter().map(|(_, text)| text).collect();
    let mut complaints = Vec::new();
    let commands = commands_in(&help(&[]));
    assert!(commands.contains(&"doctor".to_string()), "{commands:?}");
    for command in commands {
        if !documentation.contains(&format!("stormlp {command}")) {
            complaints.push(format!("`stormlp {command}` is not in README.md or docs/"));
        }
        let help = help(&[&command]);
        let examples = help.split("Examples:").nth(1).unwrap_or_default();
        let shown =
            examples.lines().filter(|line| line.trim_start().starts_with("stormlp ")).count();
        if shown < 3 {
            complaints.push(format!("`stormlp {command} --help` ends with {shown} examples"));
        }
    }
    assert_none("commands", &complaints);
}

#[test]
fn every_exit_code_is_documented() {
    let name = "docs/troubleshooting.md";
    let page = read(name);
    let codes: Vec<u8> = read("crates/core/src/note.rs")
        .lines()
        .filter_map(|line| line.split_once(" => ")?.1.strip_suffix(',')?.parse().ok())
        .collect();
    assert_eq!(codes, [1, 2, 3, 4, 5, 6, 7, 130]);
    let missing: Vec<String> = std::iter::once(0)
        .chain(codes)
        .filter(|code| !page.contains(&format!("| {code} |")))
        .map(|code| code.to_string())
        .collect();
    assert_none(&format!("exit codes missing in {name}"), &missing);
    let help = help(&[]);
    let listed = help.split("Exit codes:").nth(1).unwrap_or_default();
    let digits = listed.split(|c: char| !c.is_ascii_digit());
    let listed: Vec<u8> = digits.filter_map(|code| code.parse().ok()).collect();
    assert_eq!(listed, [0, 1, 2, 3, 4, 5, 6, 7, 130], "{help}");
}

#[test]
fn the_sample_in_the_readme_is_a_whole_screen() {
    let readme = read("README.md");
    let samples: Vec<&str> =
        readme.split("```text\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(samples.len(), 1);
    for sample in samples {
        let lines = sample.lines().count();
        let widest = sample.lines().map(|line| line.chars().count()).max();
        assert!(lines <= 24 && widest <= Some(80), "{lines}, {widest:?}: {sample}");
        assert!(!sample.contains('…'), "something is left out: {sample}");
    }
}

/// The rows and columns of a screen of `gds`: its column heads, the first word of each line above and
/// below them, and the end of its answer. Footnotes, warnings and figures depend on the machine.
fn shape(screen: &str) -> Vec<String> {
    let lines = screen.lines().filter(|line| !line.starts_with(['$', '[']));
    let lines: Vec<&str> = lines.filter(|line| !line.starts_with("    ")).collect();
    let (answer, above) = lines.split_last().unwrap();
    let heads = above.iter().find(|line| line.contains("GiB/s")).unwrap();
    let mut shape = vec![heads.split_whitespace().collect::<Vec<_>>().join(" ")];
    let first_words = above.iter().filter_map(|line| line.split_whitespace().next());
    shape.extend(first_words.filter(|word| *word != "warning:").map(str::to_string));
    shape.push(answer[answer.find('(').unwrap()..].replace(|c: char| c.is_ascii_digit(), ""));
    shape
}

#[test]
fn the_sample_in_the_readme_is_drawn_as_today() {
    let readme = read("README.md");
    let sample = readme.split("```text\n").nth(1).unwrap().split("\n```").next().unwrap();
    let folder = "crates/stormlp/src/any_report/tests/snapshots";
    let snapshot = read(format!("{folder}/stormlp__any_report__tests__documents__gds_screen.snap"));
    let drawn = snapshot.splitn(3, "---\n").nth(2).unwrap().trim_end();
    assert_eq!(shape(sample), shape(drawn), "record it again: benches/record_sample.py");
}

#[test]
fn words_are_those_of_the_field() {
    // Odd words, in place of the usual one. Spelt apart, so that this list is none.
    let odd = [
        ["foreto", "ld", "predicted"],
        ["forete", "ll", "predict"],
        ["for gra", "nted", "assumed"],
        ["times fas", "ter", "N × the throughput of"],
        ["whil", "st", "while"],
        ["there", "of", "of it"],
        ["albe", "it", "although"],
        ["when", "ce", "from where"],
        ["like", "wise", "also, the same"],
        ["thu", "s", "so"],
        ["hen", "ce", "so"],
        ["there", "by", "by this"],
        ["where", "by", "by which"],
        ["hither", "to", "so far"],
        ["le", "st", "so that not"],
        ["upo", "n", "on"],
        ["sha", "ll", "must, will"],
        ["oug", "ht", "should"],
        ["at ha", "nd", "available"],
        ["thanks ", "to", "by, because of"],
        ["gave ba", "ck", "returned"],
        ["goes as ", "well", "also possible"],
        ["sign of ", "life", "heartbeat"],
    ]
    .map(|[one, two, usual]| ([one, two].concat(), usual));
    let below = ["crates", "docs", "configs", "examples"];
    let kinds = ["rs", "md", "yaml", "snap"];
    let below = below.iter().flat_map(|folder| kinds.iter().flat_map(|kind| files(folder, kind)));
    let above = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| root().join(name));
    let mut complaints = Vec::new();
    for path in below.chain(above) {
        for (i, line) in read(&path).lines().enumerate() {
            let lower = line.to_lowercase();
            let words: Vec<&str> = lower.split(|c: char| !c.is_alphabetic()).collect();
            let line = words.join(" ");
            for (word, usual) in &odd {
                if format!(" {line} ").contains(&format!(" {word} ")) {
                    complaints.push(format!("{}:{}: {word}: {usual}", path.display(), i + 1));
                }
            }
        }
    }
    assert_none("odd words", &complaints);
}

#[test]
fn the_changelog_has_a_place_for_the_next_entry() {
    assert!(read("CHANGELOG.md").contains("\n## [Unreleased]\n"));
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut complaints = Vec::new();
    let pages = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| root().join(name));
    for page in pages.into_iter().chain(files("docs", "md")) {
        let text = read(&page);
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = target.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            if !page.parent().unwrap().join(target).exists() {
                complaints.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert_none("broken links", &complaints);
}
