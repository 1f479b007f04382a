//! A tree of files as plain data: the entries, and the content read of them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::figures::{EpochFigures, EpochTimes, epoch_figures, epoch_times};
use crate::python_json;

/// The entries below a folder by relative path (`closed/org/systems`); the folder itself is the
/// empty path.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tree {
    name: String,
    entries: BTreeMap<String, Entry>,
}

/// An entry of a tree, and the content read of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// A folder.
    Folder,
    /// A link, a device or a socket; not followed, not opened.
    Other,
    /// A file that the rules only need to exist.
    NotRead,
    /// The text of a file, or its beginning.
    Text(String),
    /// The figures of `N_output.json`, which is too long to keep.
    Rank(Vec<EpochFigures>),
    /// The times of `N_per_epoch_stats.json`.
    Stats(Vec<EpochTimes>),
    /// A file that MLCommons' staff emptied before publishing, because of its size.
    Pruned,
    /// A file that could not be read, or does not match its name: why.
    Unreadable(String),
}

/// A JSON or YAML file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parsed {
    /// Where it is; `None` where it does not exist.
    pub path: Option<String>,
    /// Its content; `null` where it was not parsed.
    pub value: Value,
    /// Why it cannot be used.
    pub fault: Option<String>,
}

/// How much of a file to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadDepth {
    /// No content; it only has to exist.
    Nothing,
    /// This many bytes from its start.
    Head(u64),
    /// All of it.
    All,
    /// All of it, to keep its figures alone: `N_output.json` grows with the steps of a run.
    Figures,
}

/// All that is left of a file that MLCommons' staff pruned.
const PRUNED: &str = "PRUNED BY STAFF";
/// Ends of the names of per-rank files.
const OUTPUT: &str = "_output.json";
const STATS: &str = "per_epoch_stats.json";
/// A PDF names its format at its start, and logs must be readable.
const HEAD_BYTES: u64 = 1 << 10;
/// Logs may hold a `df` table near their start.
const LOG_BYTES: u64 = 1 << 20;

/// How much of the file at `path` the rules need.
pub fn wanted(path: &str) -> ReadDepth {
    let name = last(path);
    if is_in_image(path) {
        return ReadDepth::Nothing;
    }
    let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
    if rank_of(name, OUTPUT).is_some() || name.ends_with(STATS) || is_cache_rank(name) {
        ReadDepth::Figures
    } else if ends(&["_run.stdout.log"]) {
        ReadDepth::Head(LOG_BYTES)
    } else if ends(&[".log", ".pdf"]) {
        ReadDepth::Head(HEAD_BYTES)
    } else if ends(&["timeseries.json"]) || !ends(&[".json", ".yaml", ".yml"]) {
        ReadDepth::Nothing
    } else {
        ReadDepth::All
    }
}

/// Whether this is the name of a rank's results of a KV cache.
fn is_cache_rank(name: &str) -> bool {
    name.starts_with("kvcache_results_") && name.ends_with(".json")
}

/// The summary of a rank of a KV cache, without the latencies of its requests.
fn cache_summary(text: &str) -> Result<String, String> {
    let file = python_json::parse(text).map_err(|error| error.to_string())?;
    Ok(serde_json::json!({"summary": file["summary"]}).to_string())
}

/// The rank in a name such as `3_output.json`.
pub(super) fn rank_of(name: &str, end: &str) -> Option<u64> {
    let digits = name.strip_suffix(end)?;
    let rank: u64 = digits.parse().ok()?;
    // No tool writes `007` or `+7`.
    (rank.to_string() == digits).then_some(rank)
}

/// Whether `path` lies in an image of source code, which may hold files of any name.
pub(super) fn is_in_image(path: &str) -> bool {
    let folders = parent(path).split('/');
    // Systems may have any name; their folders lie below results/.
    let mut above = folders.enumerate().take_while(|(_, name)| *name != "results");
    above.any(|(depth, name)| match name.strip_prefix("code-") {
        Some("images") => depth == 0,
        Some(hash) => hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => name == "code" && depth <= 2,
    })
}

impl Entry {
    /// What to keep of `text`, the content of the file at `path`.
    pub fn of(path: &str, text: String) -> Self {
        if text.trim() == PRUNED {
            return Self::Pruned;
        }
        let kept = match wanted(path) {
            ReadDepth::Nothing => Ok(Self::NotRead),
            ReadDepth::Head(_) | ReadDepth::All => Ok(Self::Text(text)),
            ReadDepth::Figures if is_cache_rank(last(path)) => cache_summary(&text).map(Self::Text),
            ReadDepth::Figures if path.ends_with(STATS) => epoch_times(&text).map(Self::Stats),
            ReadDepth::Figures => epoch_figures(&text).map(Self::Rank),
        };
        kept.unwrap_or_else(Self::Unreadable)
    }
}

impl Tree {
    /// An empty tree below a folder of this name.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_string(), ..Self::default() }
    }

    /// The name of its folder; empty where it is not known.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds the entry at `path`.
    pub fn add(&mut self, path: impl Into<String>, entry: Entry) {
        self.entries.insert(path.into(), entry);
    }

    /// Paths and entries, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(path, entry)| (path.as_str(), entry))
    }

    /// The entry at `path`.
    pub fn get(&self, path: &str) -> Option<&Entry> {
        self.entries.get(path)
    }

    /// Whether `path` is a folder.
    pub fn is_folder(&self, path: &str) -> bool {
        path.is_empty() || matches!(self.get(path), Some(Entry::Folder))
    }

    /// The names in the folder `path`, sorted, without hidden ones.
    pub fn names(&self, path: &str) -> Vec<&str> {
        let prefix = join(path, "");
        let below = self.entries.range(prefix.clone()..);
        let below = below.map_while(|(path, _)| path.strip_prefix(&prefix));
        below
            .filter(|name| !name.is_empty() && !name.contains('/') && !name.starts_with('.'))
            .collect()
    }

    /// The names of the folders in the folder `path`.
    pub fn folders(&self, path: &str) -> Vec<&str> {
        let is_folder = |name: &&str| self.is_folder(&join(path, name));
        self.names(path).into_iter().filter(is_folder).collect()
    }

    /// The names in the folder `path` that are not folders.
    pub fn files(&self, path: &str) -> Vec<&str> {
        let is_file = |name: &&str| !self.is_folder(&join(path, name));
        self.names(path).into_iter().filter(is_file).collect()
    }

    /// Why the entry at `path` cannot be used as a file.
    pub(super) fn fault(&self, path: &str) -> Option<&str> {
        match self.get(path)? {
            Entry::Folder => Some("it is a folder"),
            Entry::Other => Some("it is a link or another special file"),
            Entry::Unreadable(why) => Some(why),
            _ => None,
        }
    }

    /// The JSON file at `path`, as Python writes it.
    pub fn json(&self, path: &str) -> Parsed {
        self.parse(path, |text| python_json::parse(text).map_err(|error| error.to_string()))
    }

    /// The YAML file at `path`.
    pub fn yaml(&self, path: &str) -> Parsed {
        self.parse(path, |text| stormlp_core::yaml::read(text).map_err(|error| error.to_string()))
    }

    fn parse(&self, path: &str, parse: impl Fn(&str) -> Result<Value, String>) -> Parsed {
        let parsed = match self.get(path) {
            None | Some(Entry::Pruned) => return Parsed::default(),
            Some(Entry::Text(text)) => parse(text),
            Some(_) => Err(self.fault(path).unwrap_or("it was not read").to_string()),
        };
        let (value, fault) = match parsed {
            Ok(value) => (value, None),
            Err(why) => (Value::Null, Some(why)),
        };
        Parsed { path: Some(path.to_string()), value, fault }
    }
}

impl Parsed {
    /// Whether it was parsed.
    pub fn is_found(&self) -> bool {
        self.path.is_some() && self.fault.is_none()
    }
}

/// `folder/name`.
pub fn join(folder: &str, name: &str) -> String {
    match folder {
        "" => name.to_string(),
        folder => format!("{folder}/{name}"),
    }
}

/// The last name of a path.
pub fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The folder that holds `path`.
pub fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_and_systems_differ_by_their_place() {
        for inside in [
            "code-images/code-01234567/a.json",
            "closed/acme/code/x.json",
            "acme/code-01234567/results/x.json",
        ] {
            assert!(is_in_image(inside), "{inside}");
        }
        for outside in [
            "closed/acme/results/code-fast/training/unet3d/run/summary.json",
            "code-fast/training/unet3d/run/20260601_100000/summary.json",
            "closed/acme/results/code/training/x.json",
            "code-images.json",
        ] {
            assert!(!is_in_image(outside), "{outside}");
        }
    }

    #[test]
    fn names_belong_to_one_folder() {
        let mut tree = Tree::default();
        for path in ["a", "a/b", "a/b/c", "a-b", "a/.hidden", "ab"] {
            tree.add(path, Entry::Folder);
        }
        tree.add("a/file", Entry::NotRead);
        assert_eq!(tree.names(""), ["a", "a-b", "ab"]);
        assert_eq!(tree.folders("a"), ["b"]);
        assert_eq!(tree.files("a"), ["file"]);
        assert!(tree.names("nowhere").is_empty());
    }
}
