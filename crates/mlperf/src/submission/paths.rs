//! Where data and results lie: in different folders, and on different file systems.

use serde_json::Value;

use super::leaf::Leaf;
use super::rule::Outcome;
use super::survey::{Category, Group, Submission};
use super::tree::{Content, Entry, Tree, join};

/// Kinds of storage that are files; of others there is no file system.
const FILES: [&str; 3] = ["local_fs", "parallel_fs", "direct_fs"];

/// The argument that names where the data lie.
fn data_key(group: &Group) -> &'static str {
    match group.category {
        Category::Training => "data_dir",
        Category::Checkpointing => "checkpoint_folder",
    }
}

/// 3.4.1 and 4.4.1: data and results go to different folders.
pub(super) fn paths(_: &Submission, group: &Group) -> Vec<Outcome> {
    let key = data_key(group);
    let outcomes = group.runs.iter().map(|leaf| {
        let (data, results) = (leaf.argument(key), leaf.argument("results_dir"));
        match (data.as_str(), results.as_str()) {
            (Some(data), Some(results)) => Outcome::of(
                data.trim_end_matches('/') != results.trim_end_matches('/'),
                &leaf.path,
                format!("{key} {data}, results_dir {results}"),
                "put the results elsewhere, and run again",
            ),
            // Without any metadata the file that is missing is told.
            _ if !leaf.metadata.is_found() => {
                let (why, remedy) = (
                    "there is no metadata that can be read",
                    "copy it from the results folder that mlpstorage wrote",
                );
                Outcome::unknown(&leaf.path, why, remedy)
            }
            (data, results) => {
                let missing: Vec<&str> = [(key, data), ("results_dir", results)]
                    .iter()
                    .filter(|(_, value)| value.is_none())
                    .map(|(key, _)| *key)
                    .collect();
                Outcome::lacking(
                    leaf.is_of_stormlp(),
                    leaf.metadata.path().unwrap_or(&leaf.path),
                    format!("args has no {}; both must be set", missing.join(" and no ")),
                    "set both, and run again",
                )
            }
        }
    });
    outcomes.collect()
}

/// 3.4.2 and 4.4.2: and on different file systems, by the probe of mlpstorage or by a table of `df`
/// in the log.
pub(super) fn file_systems(submission: &Submission, group: &Group) -> Vec<Outcome> {
    let outcomes = group.runs.iter().map(|leaf| {
        let kind = leaf.parameter("storage", "storage_type").as_str();
        if let Some(kind) = kind.filter(|kind| !FILES.contains(kind)) {
            let evidence = format!("storage_type is {kind}: no file system");
            return Outcome::passed(&leaf.path, evidence);
        }
        let place = join(&leaf.path, "fs_separation.json");
        let remedy = "put the results on another file system, and run again";
        match leaf.separation.value()["same_filesystem"].as_bool() {
            Some(same) => Outcome::of(
                !same,
                &leaf.path,
                format!("fs_separation.json: same_filesystem is {same}"),
                remedy,
            ),
            None if leaf.separation.is_found() => Outcome::failed(
                &place,
                "it has no same_filesystem",
                "take it as mlpstorage wrote it",
            ),
            None => match by_df(&submission.tree, leaf, data_key(group)) {
                Some((same, evidence)) => Outcome::of(!same, &leaf.path, evidence, remedy),
                None => Outcome::lacking(
                    leaf.is_of_stormlp(),
                    &place,
                    "it is not there, and no table of df in the log tells",
                    "take it as mlpstorage wrote it; without it, run again",
                ),
            },
        }
    });
    outcomes.collect()
}

/// Whether data and results are on one file system by the table of `df` in the log, and how that is
/// known. A path that lies below none of its mount points counts as apart.
fn by_df(tree: &Tree, leaf: &Leaf, key: &str) -> Option<(bool, String)> {
    let name = tree.files(&leaf.path).into_iter();
    let mut logs = name.filter(|name| name.ends_with("_run.stdout.log"));
    let Some(Entry::File { content: Content::Head(log), .. }) =
        tree.get(&join(&leaf.path, logs.next()?))
    else {
        return None;
    };
    let mut lines = log.lines();
    lines.find(|line| line.starts_with("Filesystem") && line.contains("Mounted on"))?;
    let rows = lines.take_while(|line| !line.trim().is_empty());
    let mounts: Vec<&str> = rows.filter_map(|row| row.split_whitespace().last()).collect();
    let mount = |path: &Value| {
        let path = path.as_str()?;
        let below = |mount: &&&str| {
            let mount = mount.trim_end_matches('/');
            let rest = path.strip_prefix(mount);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let fits = mounts.iter().filter(below);
        fits.max_by_key(|mount| mount.len()).copied()
    };
    let (data, results) = (mount(leaf.argument(key)), mount(leaf.argument("results_dir")));
    let shown = |mount: Option<&str>| mount.unwrap_or("none of its mounts").to_string();
    let evidence = format!("df in the log: data on {}, results on {}", shown(data), shown(results));
    Some((data.is_some() && data == results, evidence))
}
