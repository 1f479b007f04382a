//! Files that no tool writes. They break no rule, and should not be submitted.

use std::collections::BTreeSet;

use super::leaf::is_metadata;
use super::rule::{Finding, advice, or_passed};
use super::survey::{OTHER_BENCHMARKS, Submission, TreeShape};
use super::tree::{Entry, is_in_image, last, parent, rank_of};

/// Files of a run.
const OF_A_RUN: [&str; 8] = [
    "summary.json",
    "dlio.log",
    "provenance.json",
    "fs_separation.json",
    "mlpstorage.log",
    "mlpstorage.errors.log",
    "datagen-manifest.json",
    "iostat.json",
];
/// Ends of the names of other files of a run.
const ENDS: [&str; 5] = [".stdout.log", ".stderr.log", "timeseries.json", "_report.txt", ".pfw"];
/// Folders of a run.
const FOLDERS: [&str; 3] = ["dlio_config", "collector-staging", ".hydra"];
/// Files above the runs.
const ABOVE: [&str; 6] = [
    "results.json",
    "results.csv",
    "submission.yaml",
    "public_ids.json",
    "mlperf-results.yaml",
    "results.xlsx",
];
/// An organisation's folders that have other rules, or none.
const OTHER_FOLDERS: [&str; 3] = ["systems", "code", "generation_logs"];
/// Only this many are listed.
const MOST_LISTED: usize = 20;

/// Files that neither the official tool nor DLIO writes in their place.
pub(super) fn strays(submission: &Submission) -> Vec<Finding> {
    let found = paths(submission);
    let fact = "neither mlpstorage nor DLIO writes such a file here";
    let listed = found.iter().take(MOST_LISTED);
    let listed = listed.map(|path| advice(path, fact, "move it out of the package"));
    let more = found.len().saturating_sub(MOST_LISTED);
    let rest = (more > 0)
        .then(|| advice("", format!("{more} more such files"), "move them out of the package"));
    or_passed(listed.chain(rest), "", "all files are written by the tools")
}

pub(super) fn paths(submission: &Submission) -> Vec<&str> {
    let leaves: BTreeSet<&str> = submission.leaves().map(|leaf| leaf.path.as_str()).collect();
    let files = submission.tree.iter().filter(|(_, entry)| !matches!(entry, Entry::Folder));
    let paths = files.map(|(path, _)| path);
    paths.filter(|path| is_stray(submission.shape, path, &leaves)).collect()
}

fn is_stray(shape: TreeShape, path: &str, leaves: &BTreeSet<&str>) -> bool {
    let is_hidden = |part: &str| part.starts_with('.') && !FOLDERS.contains(&part);
    if is_in_image(path) || path.split('/').any(is_hidden) {
        return false;
    }
    let (name, folder) = (last(path), parent(path));
    if leaves.contains(folder) {
        let known = OF_A_RUN.contains(&name)
            || is_metadata(name)
            || ENDS.iter().any(|end| name.ends_with(end))
            || name == "per_epoch_stats.json"
            || rank_of(name, "_output.json").is_some()
            || rank_of(name, "_per_epoch_stats.json").is_some();
        return !known;
    }
    // Folders of a run: another rule checks what dlio_config holds.
    if leaves.contains(parent(folder)) {
        return !FOLDERS.contains(&last(folder));
    }
    // closed/ORGANISATION/FOLDER
    let other = path.split('/').nth(2);
    let is_elsewhere = other.is_some_and(|folder| OTHER_FOLDERS.contains(&folder))
        || path.split('/').any(|part| OTHER_BENCHMARKS.contains(&part));
    // Another rule checks the top of a package.
    let is_top = shape == TreeShape::Package && folder.is_empty();
    !is_elsewhere && !is_top && !ABOVE.contains(&name) && !name.ends_with(".md")
}
