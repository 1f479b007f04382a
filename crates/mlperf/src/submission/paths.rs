//! Rules of folders of data and results: separate, and on separate file systems.

use serde_json::Value;

use super::leaf::Leaf;
use super::rule::{COPY_FROM_RESULTS, Finding, Official, advice, failed, holds, passed, unknown};
use super::survey::{Category, RunGroup, Submission};
use super::tree::{Entry, Tree, join};

/// The argument that names the folder of the data.
fn data_key(group: &RunGroup) -> &'static str {
    match group.category {
        Category::Training => "data_dir",
        Category::Checkpointing => "checkpoint_folder",
        Category::KvCache | Category::VectorDatabase => "cache_dir",
    }
}

/// Types of storage that are file systems.
const FILE_SYSTEMS: [&str; 3] = ["local_fs", "parallel_fs", "direct_fs"];

/// Objects are in no folder and on no file system: there is no folder to compare. Where the run
/// does not show its storage, the system's description does.
fn on_objects(submission: &Submission, group: &RunGroup, leaf: &Leaf) -> Option<Finding> {
    let kind = leaf.set("storage.storage_type");
    let fact = match kind.or_else(|| leaf.parameter("storage", "storage_type").as_str()) {
        Some(kind) if FILE_SYSTEMS.contains(&kind) => return None,
        Some(kind) => format!("storage_type is {kind}"),
        None => {
            let system = submission.description(group);
            let is_object = system["solution"]["architecture"]["benchmark_API"] == "object";
            is_object.then(|| "benchmark_API of the system is object".to_string())?
        }
    };
    Some(passed(leaf, format!("{fact}, not a file system")))
}

/// A failure in the official tool's files; stormlp's runs need not have it.
fn lacking(leaf: &Leaf, at: &str, fact: String, remedy: &str) -> Finding {
    if leaf.made_by_stormlp() { advice(at, fact, remedy) } else { failed(at, fact, remedy) }
}

/// 3.4.1, 4.4.1 and 6.4.1: data and results have separate folders.
pub(super) fn paths(submission: &Submission, group: &RunGroup) -> Vec<Finding> {
    let key = data_key(group);
    let findings = group.runs.iter().map(|leaf| {
        if let Some(finding) = on_objects(submission, group, leaf) {
            return finding;
        }
        let named = [key, "results_dir"].map(|key| (key, leaf.argument(key).as_str()));
        match named {
            [(_, Some(data)), (_, Some(results))] => {
                let separate = data.trim_end_matches('/') != results.trim_end_matches('/');
                let fact = format!("{key} {data}, results_dir {results}");
                holds(separate, leaf, fact, "choose another folder for results, and run again")
            }
            // Another rule reports missing metadata.
            _ if !leaf.metadata.is_found() => {
                unknown(leaf, "there is no readable metadata", COPY_FROM_RESULTS)
            }
            _ => {
                let missing = named.iter().filter(|(_, value)| value.is_none());
                let missing: Vec<&str> = missing.map(|(key, _)| *key).collect();
                let place = leaf.metadata.path.as_deref().unwrap_or(&leaf.path);
                let fact = format!("args has no {}; both must be set", missing.join(" and no "));
                lacking(leaf, place, fact, "set both, and run again")
            }
        }
    });
    findings.collect()
}

/// 3.4.2 and 4.4.2: and separate file systems, by mlpstorage's probe or a `df` table in the log.
pub(super) fn file_systems(submission: &Submission, group: &RunGroup) -> Vec<Finding> {
    let remedy = "put the results on another file system, and run again";
    let findings = group.runs.iter().map(|leaf| {
        if let Some(finding) = on_objects(submission, group, leaf) {
            return finding;
        }
        let place = join(&leaf.path, "fs_separation.json");
        if let Some(same) = leaf.separation.value["same_filesystem"].as_bool() {
            let fact = format!("fs_separation.json: same_filesystem is {same}");
            return holds(!same, leaf, fact, remedy);
        }
        if leaf.separation.is_found() {
            let fact = "it has no same_filesystem";
            return failed(place, fact, "copy it again as mlpstorage wrote it");
        }
        match by_df(&submission.tree, leaf, data_key(group)) {
            Some((same, fact)) => holds(!same, leaf, fact, remedy),
            None => {
                let fact = "it is missing, and the log has no df table".to_string();
                let remedy = "copy it from the results folder; without it, run again";
                // Tools before v3.0's last did not write it.
                let fault = lacking(leaf, &place, fact, remedy);
                fault.officially(Official::Warns)
            }
        }
    });
    findings.collect()
}

/// Whether data and results are on one file system by the `df` table in the log, in words too. A
/// path below none of its mount points counts as separate.
fn by_df(tree: &Tree, leaf: &Leaf, key: &str) -> Option<(bool, String)> {
    let name = tree.files(&leaf.path).into_iter();
    let mut logs = name.filter(|name| name.ends_with("_run.stdout.log"));
    let Some(Entry::Text(log)) = tree.get(&join(&leaf.path, logs.next()?)) else {
        return None;
    };
    let mut lines = log.lines();
    lines.find(|line| line.starts_with("Filesystem") && line.contains("Mounted on"))?;
    let rows = lines.take_while(|line| !line.trim().is_empty());
    let mounts: Vec<&str> = rows.filter_map(|row| row.split_whitespace().last()).collect();
    let mount = |path: &Value| {
        let path = path.as_str()?;
        let holds_path = |mount: &&&str| {
            let rest = path.strip_prefix(mount.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        mounts.iter().filter(holds_path).max_by_key(|mount| mount.len()).copied()
    };
    let [data, results] = [key, "results_dir"].map(|key| mount(leaf.argument(key)));
    let shown = |mount: Option<&str>| mount.unwrap_or("none of its mounts").to_string();
    let fact = format!("df in the log: data on {}, results on {}", shown(data), shown(results));
    Some((data.is_some() && data == results, fact))
}
