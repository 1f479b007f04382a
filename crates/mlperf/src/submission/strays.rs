//! Files that no rule knows of. They break none, and should not be sent.

use std::collections::BTreeSet;

use super::leaf::is_metadata;
use super::rule::{Outcome, or_passed};
use super::survey::{OTHER_BENCHMARKS, Shape, Submission};
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
/// What names of files of a run end with.
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
/// Folders of an organisation that have rules of their own, or none.
const OTHER_FOLDERS: [&str; 3] = ["systems", "code", "generation_logs"];
/// So many are named.
const MOST_NAMED: usize = 20;

/// Files that neither the official tool nor DLIO writes, where they lie.
pub(super) fn strays(submission: &Submission) -> Vec<Outcome> {
    let found = paths(submission);
    let mut notes: Vec<Outcome> = found
        .iter()
        .take(MOST_NAMED)
        .map(|path| {
            Outcome::noted(
                path,
                "neither mlpstorage nor DLIO writes such a file here",
                "take it out of the package",
            )
        })
        .collect();
    if found.len() > MOST_NAMED {
        let evidence = format!("{} more such files", found.len() - MOST_NAMED);
        notes.push(Outcome::noted("", evidence, "take them out of the package"));
    }
    or_passed(notes, "", || "no file but those that tools write".to_string())
}

/// The paths of them.
pub(super) fn paths(submission: &Submission) -> Vec<&str> {
    let leaves: BTreeSet<&str> = submission.leaves().map(|leaf| leaf.path.as_str()).collect();
    let files = submission.tree.iter().filter(|(_, entry)| !matches!(entry, Entry::Folder));
    let paths = files.map(|(path, _)| path);
    paths.filter(|path| is_stray(submission.shape, path, &leaves)).collect()
}

fn is_stray(shape: Shape, path: &str, leaves: &BTreeSet<&str>) -> bool {
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
    // A folder of a run's folder: what dlio_config holds has a rule of its own.
    if leaves.contains(parent(folder)) {
        return !FOLDERS.contains(&last(folder));
    }
    // closed/ORGANISATION/FOLDER
    let other = path.split('/').nth(2);
    let is_elsewhere = other.is_some_and(|folder| OTHER_FOLDERS.contains(&folder))
        || path.split('/').any(|part| OTHER_BENCHMARKS.contains(&part));
    // What lies at the top of a package has a rule of its own.
    let is_top = shape == Shape::Package && folder.is_empty();
    !is_elsewhere && !is_top && !ABOVE.contains(&name) && !name.ends_with(".md")
}
