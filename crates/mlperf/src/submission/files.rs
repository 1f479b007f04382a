//! Rules of files and times of runs: 2.1.13 to 2.1.26.

use std::collections::BTreeSet;

use super::leaf::{Leaf, LeafKind};
use super::rule::{Finding, Official, advice, failed, or_passed, passed, unknown, wish};
use super::survey::{Category, RunGroup, Submission, TreeShape};
use super::timestamp;
use super::tree::{Entry, join, last, parent, rank_of};
use stormlp_core::names::distance;
use stormlp_core::units::{counted, format_duration};
use stormlp_training::plan::rules::CLOSED_RUNS;

/// Files of a configuration folder.
const CONFIGS: [&str; 3] = ["config.yaml", "hydra.yaml", "overrides.yaml"];
/// No run has more.
const MOST_RANKS: u64 = 1 << 20;
/// Times in files come from different clocks and are rounded.
const CLOCK_SECONDS: f64 = 1.0;

/// 2.1.13: one `datagen` run, named after its time.
pub(super) fn one_datagen(submission: &Submission, group: &RunGroup) -> Vec<Finding> {
    let folder = join(&group.path, "datagen");
    let Some(first) = group.datagen.first() else {
        let fact = "there is no datagen run";
        return vec![match submission.shape {
            TreeShape::Package => {
                failed(folder, fact, "add the folder that `mlpstorage … datagen` wrote")
            }
            TreeShape::Results => advice(folder, fact, "add it to the package"),
        }];
    };
    let mut faults = misplaced(submission, Some(&folder), &group.datagen);
    if group.datagen.len() > 1 {
        let fact = counted(group.datagen.len() as u64, "datagen run");
        faults.push(failed(&folder, fact, "keep the one that wrote the dataset of the runs"));
    }
    or_passed(faults, folder, first.name())
}

/// Folders in `folder` that are not named after a time, or are none of the `runs`; without a
/// separate folder, runs may share one with other files.
fn misplaced(submission: &Submission, folder: Option<&str>, runs: &[Leaf]) -> Vec<Finding> {
    let wrong = runs.iter().filter(|leaf| timestamp::folder_time(leaf.name()).is_none());
    let wrong = wrong.map(|leaf| {
        let fact = format!("`{}` is not a time in the form YYYYMMDD_HHmmss", leaf.name());
        failed(leaf, fact, "restore the name that mlpstorage gave it")
    });
    let names = folder.into_iter().flat_map(|folder| submission.tree.folders(folder));
    let others = names.filter(|name| runs.iter().all(|leaf| leaf.name() != *name));
    let fact = "it is not a run: it has no file of one, and its name is not a time";
    let others = others.map(|name| {
        failed(join(folder.unwrap_or_default(), name), fact, "move it out of the package")
    });
    wrong.chain(others).collect()
}

/// 2.1.14, 2.1.19 and 2.1.25: files of `leaves`.
pub(super) fn files(submission: &Submission, group: &RunGroup, leaves: &[Leaf]) -> Vec<Finding> {
    let mut faults = Vec::new();
    for leaf in leaves {
        let files = submission.tree.files(&leaf.path);
        let is_datagen = leaf.kind == LeafKind::Datagen;
        let stem =
            format!("{}_{}", group.category.name(), if is_datagen { "datagen" } else { "run" });
        let (out, err) = (format!("{stem}.stdout.log"), format!("{stem}.stderr.log"));
        let mut needed = vec![out.as_str(), err.as_str(), "dlio.log"];
        // DLIO writes no summary when it only generates.
        if !is_datagen {
            needed.push("summary.json");
            faults.extend(rank_files(leaf, &files));
        }
        for name in needed.into_iter().filter(|name| !files.contains(name)) {
            faults.push(if leaf.made_by_stormlp() && name.ends_with(".log") {
                let fact = "it is missing: stormlp writes no log of DLIO";
                advice(join(&leaf.path, name), fact, "run it with mlpstorage")
            } else {
                missing_file(&files, &leaf.path, name)
            });
        }
        if leaf.metadata_names.is_empty() {
            let fault = missing_file(&files, &leaf.path, "metadata.json");
            faults.push(fault.officially(Official::Warns));
        }
    }
    or_passed(faults, group, counted(leaves.len() as u64, "folder"))
}

/// A number of ranks that a run can have.
pub(super) fn whole_ranks(count: f64) -> Option<u64> {
    let possible = (1.0..=MOST_RANKS as f64).contains(&count) && count.fract() == 0.0;
    possible.then_some(count as u64)
}

/// Each rank writes two files. The official checker asks for one of each kind, of any rank.
fn rank_files(leaf: &Leaf, files: &[&str]) -> Vec<Finding> {
    let Some(ranks) = whole_ranks(leaf.figure("num_accelerators").unwrap_or(1.0)) else {
        return Vec::new();
    };
    let mut faults = Vec::new();
    for end in ["_output.json", "_per_epoch_stats.json"] {
        let known: BTreeSet<u64> = files.iter().filter_map(|name| rank_of(name, end)).collect();
        if known.is_empty() {
            faults.push(missing_file(files, &leaf.path, &format!("0{end}")));
            continue;
        }
        let missing: Vec<u64> = (0..ranks).filter(|rank| !known.contains(rank)).collect();
        if let Some(rank) = missing.first() {
            let place = join(&leaf.path, &format!("{rank}{end}"));
            let fact =
                format!("{} of {ranks} ranks have no such file, rank {rank} first", missing.len());
            let remedy = "add the files of every rank, from the host that it ran on";
            faults.push(wish(place, fact, remedy));
        }
    }
    faults
}

/// The finding on the missing file `name` of `folder`; one with a similar name may be the same.
fn missing_file(files: &[&str], folder: &str, name: &str) -> Finding {
    let is_alike = |file: &&&str| {
        file.eq_ignore_ascii_case(name)
            || distance(file, name).is_some_and(|distance| distance <= 2)
    };
    let place = join(folder, name);
    match files.iter().find(is_alike) {
        Some(other) => {
            let remedy = format!("if it is the same file, rename it to {name}");
            failed(place, format!("it is missing; there is `{other}`"), remedy)
        }
        None => {
            let remedy =
                "copy it from the results folder that the tool wrote; without it, run again";
            failed(place, "it is missing", remedy)
        }
    }
}

/// 2.1.15, 2.1.20 and 2.1.26: configuration of `leaves`.
pub(super) fn configs(submission: &Submission, group: &RunGroup, leaves: &[Leaf]) -> Vec<Finding> {
    let mut faults = Vec::new();
    for leaf in leaves {
        let folder = join(&leaf.path, "dlio_config");
        if !submission.tree.is_folder(&folder) {
            let fact = if submission.tree.is_folder(&join(&leaf.path, ".hydra")) {
                "it is .hydra here, as DLIO alone leaves it"
            } else {
                "the folder is missing"
            };
            faults.push(failed(folder, fact, "run with mlpstorage, which writes it"));
            continue;
        }
        let files = submission.tree.names(&folder);
        let missing = CONFIGS.iter().filter(|name| !files.contains(name));
        faults.extend(missing.map(|name| missing_file(&files, &folder, name)));
        let fact = format!("only {} belong here", CONFIGS.join(", "));
        let others = files.iter().filter(|name| !CONFIGS.contains(name));
        faults.extend(others.map(|name| failed(join(&folder, name), &fact, "remove it")));
    }
    or_passed(faults, group, CONFIGS.join(", "))
}

/// 2.1.16 and 2.1.22: the report generator's report.
pub(super) fn results_json(submission: &Submission, group: &RunGroup) -> Vec<Finding> {
    let folder = match group.category {
        Category::Training => group.run_folder(),
        _ => group.path.clone(),
    };
    let path = join(&folder, "results.json");
    let command = "run `mlpstorage reports reportgen` on the whole tree";
    vec![match submission.tree.get(&path) {
        Some(Entry::Folder | Entry::Other) => failed(path, "it is not a regular file", command),
        Some(_) => passed(path, "it exists"),
        None if submission.shape == TreeShape::Results => {
            advice(path, "a results folder, not a package", command)
        }
        None => failed(path, "it is missing", command),
    }]
}

/// 2.1.17: a warm-up and five scored runs.
pub(super) fn run_count(submission: &Submission, group: &RunGroup) -> Vec<Finding> {
    let wanted = CLOSED_RUNS as usize + 1;
    let folder = group.run_folder();
    // DLIO alone puts runs of all kinds next to each other.
    let own = Some(folder.as_str()).filter(|folder| last(folder) == "run");
    let mut faults = misplaced(submission, own, &group.runs);
    if group.runs.iter().any(|leaf| leaf.path.is_empty()) {
        let fact = format!("a single run; a result has a warm-up and {CLOSED_RUNS} scored runs");
        faults.push(unknown(group, fact, "check the folder that holds all runs of the result"));
        return faults;
    }
    let found = group.runs.len();
    if found != wanted {
        let runs = counted(found as u64, "run");
        let fact = format!(
            "{runs} ({}); a result has a warm-up and {CLOSED_RUNS} scored runs",
            names(group)
        );
        let remedy = if found > wanted {
            format!("keep {wanted} consecutive runs only")
        } else {
            format!("run {} more, one after the other", wanted - found)
        };
        faults.push(failed(&folder, fact, remedy));
    }
    or_passed(faults, folder, format!("warm-up {}", names(group)))
}

fn names(group: &RunGroup) -> String {
    group.runs.iter().map(Leaf::name).collect::<Vec<&str>>().join(", ")
}

/// 2.1.18: less than one run lies between two consecutive runs.
pub(super) fn gaps(_: &Submission, group: &RunGroup) -> Vec<Finding> {
    let mut faults = Vec::new();
    let mut runs: Vec<(&Leaf, f64, f64)> = Vec::new();
    for leaf in &group.runs {
        match leaf.span() {
            Some((start, end)) if end > start => runs.push((leaf, start, end)),
            Some(_) => {
                let fact = "it ended before it began, by summary.json";
                faults.push(failed(leaf, fact, "check the clock of the host, and run again"));
            }
            None => {
                let fact = "summary.json states no start and end";
                faults.push(unknown(leaf, fact, "copy summary.json again as DLIO wrote it"));
            }
        }
    }
    let shortest = runs.iter().map(|(_, start, end)| end - start).reduce(f64::min).unwrap_or(0.0);
    faults.extend(runs.windows(2).filter_map(|pair| gap_fault(pair[0], pair[1], shortest)));
    let fact = format!("gaps are shorter than the shortest run, {}", format_duration(shortest));
    or_passed(faults, group.run_folder(), fact)
}

/// The fault between two runs, if any. The official checker measures from name to name, and allows
/// twice the shortest run.
fn gap_fault(
    (before, _, end): (&Leaf, f64, f64),
    (after, start, _): (&Leaf, f64, f64),
    shortest: f64,
) -> Option<Finding> {
    let (first, gap) = (before.name(), start - end);
    if gap < -CLOCK_SECONDS {
        let fact = format!("it began {} before {first} ended", format_duration(-gap));
        let remedy = "runs must not overlap: check the clock, or run again";
        return Some(failed(after, fact, remedy));
    }
    let names = timestamp::folder_time(after.name()).zip(timestamp::folder_time(first));
    let apart = names.map(|(second, first)| second - first);
    let remedy = "repeat all six runs without a pause, or keep six consecutive runs";
    if let Some(apart) = apart.filter(|apart| *apart >= 2.0 * shortest) {
        let [apart, most] = [apart, 2.0 * shortest].map(format_duration);
        let fact = format!("{apart} from name to name; it must be less than {most}");
        return Some(failed(after, fact, remedy));
    }
    let [gap, least] = [gap, shortest].map(|seconds| (seconds, format_duration(seconds)));
    let fact = format!("{} after {first} ended; it must be less than {}", gap.1, least.1);
    (gap.0 >= least.0).then(|| wish(after, fact, remedy))
}

/// 2.1.23: one run, or one that writes and one that reads.
pub(super) fn checkpoint_count(submission: &Submission, group: &RunGroup) -> Vec<Finding> {
    let path = group.path.as_str();
    let own = Some(path).filter(|path| last(parent(path)) == "checkpointing");
    let mut faults = misplaced(submission, own, &group.runs);
    let found = group.runs.len();
    if !(1..=2).contains(&found) {
        let fact = format!("{}: {}", counted(found as u64, "run"), names(group));
        let remedy =
            "keep the run that wrote and read, or the one that wrote and the one that read";
        faults.push(failed(group, fact, remedy));
    }
    or_passed(faults, group, names(group))
}
