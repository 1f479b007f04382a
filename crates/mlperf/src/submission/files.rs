//! Files and moments of runs: the rules from 2.1.13 to 2.1.26.

use std::collections::BTreeSet;

use super::leaf::Leaf;
use super::moment;
use super::rule::{Official, Outcome, or_passed};
use super::survey::{Category, Edition, Group, Shape, Submission};
use super::tree::{Entry, join, last, parent, rank_of};
use stormlp_core::units::{counted, format_duration};
use stormlp_training::plan::rules::CLOSED_RUNS;

/// Files of a configuration folder.
const CONFIGS: [&str; 3] = ["config.yaml", "hydra.yaml", "overrides.yaml"];

/// No run has more.
const MOST_RANKS: u64 = 1 << 20;

/// Moments of files are taken by different clocks and rounded.
const CLOCK_SECONDS: f64 = 1.0;

/// 2.1.13: one generation, named for its moment.
pub(super) fn one_datagen(submission: &Submission, group: &Group) -> Vec<Outcome> {
    let folder = join(&group.path, "datagen");
    if group.datagen.is_empty() {
        let why = "no folder of the generation of the dataset is there";
        return vec![match submission.shape {
            Shape::Package => {
                Outcome::failed(&folder, why, "add what `mlpstorage … datagen` wrote")
            }
            Shape::Results => Outcome::noted(&folder, why, "add it to the package"),
        }];
    }
    let mut faults = misnamed(&group.datagen);
    faults.extend(no_runs(submission, &folder, &group.datagen));
    if group.datagen.len() > 1 {
        faults.push(Outcome::failed(
            &folder,
            counted(group.datagen.len() as u64, "generation"),
            "keep the one that wrote the dataset that the runs read",
        ));
    }
    or_passed(faults, &folder, || group.datagen[0].name().to_string())
}

/// Leaves that are not named for a moment.
fn misnamed(leaves: &[Leaf]) -> Vec<Outcome> {
    let wrong = leaves.iter().filter(|leaf| moment::of_folder(leaf.name()).is_none());
    wrong
        .map(|leaf| {
            let what = format!("`{}` is no moment as YYYYMMDD_HHmmss", leaf.name());
            Outcome::failed(&leaf.path, what, "give it back the name that mlpstorage gave it")
        })
        .collect()
}

/// Folders beside the runs in `folder` that are none.
fn no_runs(submission: &Submission, folder: &str, runs: &[Leaf]) -> Vec<Outcome> {
    let names = submission.tree.folders(folder).into_iter();
    let others = names.filter(|name| runs.iter().all(|leaf| leaf.name() != *name));
    let faults = others.map(|name| {
        let what = "it is no run: no file of one is in it, and its name is no moment";
        Outcome::failed(&join(folder, name), what, "take it out of the package")
    });
    faults.collect()
}

/// 2.1.14: files of a generation.
pub(super) fn datagen_files(submission: &Submission, group: &Group) -> Vec<Outcome> {
    files_of(submission, &group.datagen, "training_datagen", &group.path)
}

/// 2.1.19 and 2.1.25: files of a run.
pub(super) fn run_files(submission: &Submission, group: &Group) -> Vec<Outcome> {
    let stem = match group.category {
        Category::Training => "training_run",
        Category::Checkpointing => "checkpointing_run",
    };
    files_of(submission, &group.runs, stem, &group.path)
}

fn files_of(submission: &Submission, leaves: &[Leaf], stem: &str, path: &str) -> Vec<Outcome> {
    let mut faults = Vec::new();
    for leaf in leaves {
        let files = submission.tree.files(&leaf.path);
        let mut needed = vec![
            format!("{stem}.stdout.log"),
            format!("{stem}.stderr.log"),
            "dlio.log".to_string(),
        ];
        // DLIO writes none when it only generates.
        if !stem.ends_with("datagen") {
            needed.push("summary.json".to_string());
            faults.extend(files_of_ranks(leaf, &files));
        }
        for name in needed.iter().filter(|name| !files.contains(&name.as_str())) {
            let place = join(&leaf.path, name);
            faults.push(if leaf.is_of_stormlp() && name.ends_with(".log") {
                Outcome::noted(
                    &place,
                    "it is not there; a rehearsal has one without DLIO's output",
                    "copy it from what `stormlp submission rehearse` wrote",
                )
            } else {
                missing_file(&files, &place, name)
            });
        }
        if leaf.metadata_names.is_empty() {
            let name = "metadata.json";
            let fault = missing_file(&files, &join(&leaf.path, name), name);
            faults.push(fault.officially(Official::Silent));
        }
    }
    or_passed(faults, path, || counted(leaves.len() as u64, "folder"))
}

/// A number of ranks that a run may have had; of others it is told that they are none.
pub(super) fn whole_ranks(told: f64) -> Option<u64> {
    let possible = told >= 1.0 && told <= MOST_RANKS as f64 && told.fract() == 0.0;
    possible.then_some(told as u64)
}

/// Each rank writes two files. The official checker asks for one of each kind, of any rank.
fn files_of_ranks(leaf: &Leaf, files: &[&str]) -> Vec<Outcome> {
    let Some(ranks) = whole_ranks(leaf.figure("num_accelerators").unwrap_or(1.0)) else {
        return Vec::new();
    };
    let mut faults = Vec::new();
    for end in ["_output.json", "_per_epoch_stats.json"] {
        let known: BTreeSet<u64> = files.iter().filter_map(|name| rank_of(name, end)).collect();
        let first = format!("0{end}");
        if known.is_empty() {
            faults.push(missing_file(files, &join(&leaf.path, &first), &first));
            continue;
        }
        let missing: Vec<u64> = (0..ranks).filter(|rank| !known.contains(rank)).collect();
        if let Some(rank) = missing.first() {
            faults.push(
                Outcome::failed(
                    &join(&leaf.path, &format!("{rank}{end}")),
                    format!(
                        "{} of {ranks} ranks have no such file, rank {rank} first",
                        missing.len()
                    ),
                    "add the files of every rank, from the host that it ran on",
                )
                .officially(Official::Silent),
            );
        }
        let beyond = known.iter().find(|rank| **rank >= ranks);
        if let Some(rank) = beyond.filter(|_| leaf.figure("num_accelerators").is_some()) {
            faults.push(
                Outcome::failed(
                    &join(&leaf.path, &format!("{rank}{end}")),
                    format!("the run had {}", counted(ranks, "rank")),
                    "take all files of the run as they were written, from one run",
                )
                .officially(Official::Silent),
            );
        }
    }
    faults
}

/// What to say of a file that is not there: a similar name may be the same file.
fn missing_file(files: &[&str], place: &str, name: &str) -> Outcome {
    let alike = files.iter().find(|file| {
        file.eq_ignore_ascii_case(name)
            || stormlp_core::names::distance(file, name).is_some_and(|d| d <= 2)
    });
    match alike {
        Some(other) => Outcome::failed(
            place,
            format!("it is not there; `{other}` is"),
            format!("if it is the same file, give it back its name {name}"),
        ),
        None => Outcome::failed(
            place,
            "it is not there",
            "copy it from the results folder that the tool wrote; without it, run again",
        ),
    }
}

/// 2.1.15: configuration of a generation.
pub(super) fn datagen_config(submission: &Submission, group: &Group) -> Vec<Outcome> {
    configs_of(submission, &group.datagen, &group.path)
}

/// 2.1.20 and 2.1.26: configuration of a run.
pub(super) fn run_config(submission: &Submission, group: &Group) -> Vec<Outcome> {
    configs_of(submission, &group.runs, &group.path)
}

fn configs_of(submission: &Submission, leaves: &[Leaf], path: &str) -> Vec<Outcome> {
    let mut faults = Vec::new();
    for leaf in leaves {
        let folder = join(&leaf.path, "dlio_config");
        if !submission.tree.is_folder(&folder) {
            let bare = submission.tree.is_folder(&join(&leaf.path, ".hydra"));
            let what = if bare {
                "it is .hydra here, as DLIO alone leaves it"
            } else {
                "the folder is not there"
            };
            faults.push(Outcome::failed(&folder, what, "only mlpstorage's runs have it"));
            continue;
        }
        let files = submission.tree.names(&folder);
        let missing = CONFIGS.iter().filter(|name| !files.contains(name));
        faults.extend(missing.map(|name| missing_file(&files, &join(&folder, name), name)));
        let beside = files.iter().filter(|name| !CONFIGS.contains(name));
        faults.extend(beside.map(|name| {
            let what = format!("nothing but {} belongs there", CONFIGS.join(", "));
            Outcome::failed(&join(&folder, name), what, "remove it")
        }));
    }
    or_passed(faults, path, || CONFIGS.join(", "))
}

/// 2.1.16 and 2.1.22: the report of the report generator.
pub(super) fn results_json(submission: &Submission, group: &Group) -> Vec<Outcome> {
    let folder = match group.category {
        Category::Training => group.run_folder(),
        Category::Checkpointing => group.path.clone(),
    };
    let path = join(&folder, "results.json");
    let command = "run `mlpstorage reports reportgen` on the whole tree";
    vec![match submission.tree.get(&path) {
        Some(Entry::File { .. }) => Outcome::passed(&path, "it is there"),
        Some(_) => Outcome::failed(&path, "it is no regular file", command),
        None if submission.shape == Shape::Results => {
            Outcome::noted(&path, "a folder of results, no package", command)
        }
        None => Outcome::failed(&path, "it is not there", command),
    }]
}

/// 2.1.17: a warm-up and five runs.
pub(super) fn run_count(submission: &Submission, group: &Group) -> Vec<Outcome> {
    let wanted = CLOSED_RUNS as usize + 1;
    let folder = group.run_folder();
    let mut faults = misnamed(&group.runs);
    // DLIO alone leaves runs of anything beside each other.
    if last(&folder) == "run" {
        faults.extend(no_runs(submission, &folder, &group.runs));
    }
    let found = group.runs.len();
    if found != wanted {
        let what = format!(
            "{} ({}); it is a warm-up and {CLOSED_RUNS} scored runs",
            counted(found as u64, "run"),
            names(group)
        );
        let remedy = if found > wanted {
            format!("keep {wanted} that follow each other, and no others")
        } else {
            format!("run {} more, one after the other", wanted - found)
        };
        faults.push(Outcome::failed(&folder, what, remedy));
    }
    or_passed(faults, &folder, || format!("warm-up {}", names(group)))
}

fn names(group: &Group) -> String {
    let names: Vec<&str> = group.runs.iter().map(Leaf::name).collect();
    names.join(", ")
}

/// 2.1.18: less than one run lies between two neighbours.
pub(super) fn gaps(_: &Submission, group: &Group) -> Vec<Outcome> {
    let folder = group.run_folder();
    let mut faults = Vec::new();
    let mut runs: Vec<(&Leaf, f64, f64)> = Vec::new();
    for leaf in &group.runs {
        match leaf.span() {
            Some((start, end)) if end > start => runs.push((leaf, start, end)),
            Some(_) => faults.push(Outcome::failed(
                &leaf.path,
                "summary.json says that it ended before it began",
                "check the clock of the host, and run again",
            )),
            None => faults.push(Outcome::unknown(
                &leaf.path,
                "no start and end in summary.json",
                "take summary.json as DLIO wrote it",
            )),
        }
    }
    let Some(shortest) = runs.iter().map(|(_, start, end)| end - start).reduce(f64::min) else {
        return or_passed(faults, &folder, || "no run to compare".to_string());
    };
    let mut longest = 0.0f64;
    for pair in runs.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        let gap = after.1 - before.2;
        longest = longest.max(gap);
        if let Some(fault) = gap_fault(before, after, gap, shortest) {
            faults.push(fault);
        }
    }
    or_passed(faults, &folder, || {
        format!(
            "at most {} between two runs; the shortest run took {}",
            format_duration(longest),
            format_duration(shortest)
        )
    })
}

/// What is wrong between two runs. The official checker measures from name to name, and allows
/// twice the shortest run.
fn gap_fault(
    before: &(&Leaf, f64, f64),
    after: &(&Leaf, f64, f64),
    gap: f64,
    shortest: f64,
) -> Option<Outcome> {
    let (first, second) = (before.0.name(), after.0.name());
    let names = moment::of_folder(second).zip(moment::of_folder(first));
    let apart = names.map(|(second, first)| second - first);
    let official = apart.is_some_and(|apart| apart >= 2.0 * shortest);
    if gap < -CLOCK_SECONDS {
        return Some(Outcome::failed(
            &after.0.path,
            format!("it began {} before {first} had ended", format_duration(-gap)),
            "runs follow each other: check the clock, or run again",
        ));
    }
    if gap < shortest && !official {
        return None;
    }
    let what = if gap < shortest {
        format!(
            "{} from name to name, and the official checker allows less than {} (twice the shortest run)",
            format_duration(apart.unwrap_or(gap)),
            format_duration(2.0 * shortest)
        )
    } else {
        format!(
            "{} after {first} had ended; it must be less than the shortest run, {}",
            format_duration(gap),
            format_duration(shortest)
        )
    };
    let remedy = "run all six again without a pause, or keep six that follow each other";
    let found = Outcome::failed(&after.0.path, what, remedy);
    Some(if official {
        found.officially(Official::Same)
    } else {
        found.officially(Official::Silent)
    })
}

/// 2.1.23: one invocation, or one that writes and one that reads.
pub(super) fn checkpoint_count(submission: &Submission, group: &Group) -> Vec<Outcome> {
    let mut faults = misnamed(&group.runs);
    if last(parent(&group.path)) == "checkpointing" {
        faults.extend(no_runs(submission, &group.path, &group.runs));
    }
    let found = group.runs.len();
    if submission.edition == Edition::V3 && !(1..=2).contains(&found) {
        faults.push(Outcome::failed(
            &group.path,
            format!("{}: {}", counted(found as u64, "run"), names(group)),
            "keep the run that wrote and read, or the one that wrote and the one that read",
        ));
    }
    or_passed(faults, &group.path, || names(group))
}
