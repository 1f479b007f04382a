//! Rules of folders and names above the runs: 1.1 and 2.1.1 to 2.1.12.

use std::collections::BTreeSet;
use std::fmt::Display;

use super::leaf::{Leaf, plain};
use super::rule::{
    Finding, Official, PUT_TOGETHER, advice, failed, or_passed, package_rule, passed,
};
use super::survey::{Category, DIVISIONS, PHASES, RunGroup, Submission, TreeShape};
use super::systems;
use super::tree::{Tree, join, last};
use stormlp_checkpoint::plan::builtin;
use stormlp_core::names::nearest;
use stormlp_core::profile::Profile;
use stormlp_training::plan::rules::closed_workloads;
use strum::VariantNames as _;

fn rename(name: &str) -> String {
    format!("rename it to {name}; names are case-sensitive")
}

/// 1.1: only the official tool makes submissions.
pub(super) fn made_by_the_tool(submission: &Submission) -> Vec<Finding> {
    let (of_stormlp, others): (Vec<&Leaf>, Vec<&Leaf>) =
        submission.leaves().partition(|leaf| leaf.made_by_stormlp());
    let Some(first) = of_stormlp.first() else {
        if others.is_empty() {
            let remedy = "name a folder that mlpstorage or DLIO wrote";
            return vec![failed("", "there is no run folder", remedy)];
        }
        let fact = "mlpstorage and DLIO do not sign their files: who wrote them cannot be proven";
        let remedy = "there is no fix; keep the results folders as mlpstorage wrote them";
        return vec![advice("", fact, remedy)];
    };
    let claims = |leaf: &&Leaf| leaf.verification().is_some_and(|verdict| verdict != "rehearsal");
    let claiming = of_stormlp.iter().filter(|leaf| claims(leaf));
    let mut faults: Vec<Finding> = claiming
        .map(|leaf| {
            let verdict = plain(&leaf.metadata.value["verification"]);
            let fact = format!("stormlp made it, but its verification is {verdict}");
            failed(leaf, fact, "remove it: stormlp's runs are never submissions")
        })
        .collect();
    if !others.is_empty() {
        let all = of_stormlp.len() + others.len();
        let fact = format!("stormlp made {} of {all} runs", of_stormlp.len());
        let remedy = "remove them: only runs of mlpstorage may be submitted";
        faults.push(failed(first, fact, remedy));
    }
    if faults.is_empty() {
        let fact = "stormlp made all runs, and only mlpstorage makes submissions";
        faults.push(advice("", fact, "run the campaign with mlpstorage"));
    }
    faults
}

/// 2.1.1: organisations' names.
pub(super) fn submitter(submission: &Submission) -> Vec<Finding> {
    package_rule(submission, |faults| {
        let organisations = submission.organisations();
        let safe = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        for path in organisations.iter().filter(|path| !last(path).chars().all(safe)) {
            let name = last(path);
            let fact = format!("`{name}` has characters besides letters, digits, `.`, `_` and `-`");
            faults.push(failed(path, fact, "replace each of them by a `-`"));
        }
        if organisations.is_empty() {
            faults.push(failed("", "there is no organisation's folder", "add closed/ORGANISATION"));
        }
        organisations.join(", ")
    })
}

/// 2.1.2: the folders at the top of a package are closed/, open/ and pools of source images. The
/// tools put files next to them: tables, and the mark of `mlpstorage init`.
pub(super) fn top_level(submission: &Submission) -> Vec<Finding> {
    let tree = &submission.tree;
    package_rule(submission, |faults| {
        let names = tree.folders("");
        for name in &names {
            if DIVISIONS.contains(name) || is_pool(tree, name) {
                continue;
            }
            let lower = name.to_ascii_lowercase();
            faults.push(if DIVISIONS.contains(&lower.as_str()) {
                failed(name, format!("`{name}`"), rename(&lower))
            } else {
                let fact = format!("`{name}` is neither closed nor open");
                failed(name, fact, "move it out of the package")
            });
        }
        names.join(", ")
    })
}

/// Whether the folder `name` at the top of a package holds images of source code. In v3.0 as
/// published, each organisation has one.
fn is_pool(tree: &Tree, name: &str) -> bool {
    let is_image = |folder: &&str| folder.starts_with("code-");
    name == "code-images"
        || tree.get(&join(name, ".mlps-image-pool")).is_some()
        || tree.folders(name).iter().any(is_image)
}

/// 2.1.5: an organisation's folders.
pub(super) fn subdirectories(submission: &Submission) -> Vec<Finding> {
    let wanted = ["results", "systems"];
    package_rule(submission, |faults| {
        for organisation in submission.organisations() {
            faults.extend(wrong_folders(submission, &organisation, &wanted, &wanted));
        }
        wanted.join(" and ")
    })
}

/// Faults of the folders in `path`: those that are `needed`, and those that are not `known`.
fn wrong_folders(
    submission: &Submission,
    path: &str,
    needed: &[&str],
    known: &[&str],
) -> Vec<Finding> {
    let found = submission.tree.folders(path);
    let missing = needed.iter().filter(|name| !found.contains(name)).map(|name| {
        let remedy = "add the folder that mlpstorage wrote";
        failed(join(path, name), format!("there is no folder {name}"), remedy)
    });
    let extra = found.iter().filter(|name| !known.contains(name));
    missing.chain(extra.map(|name| unexpected(&join(path, name), name, known))).collect()
}

/// 2.1.8: results/ holds systems, each named after its description.
pub(super) fn results(submission: &Submission) -> Vec<Finding> {
    package_rule(submission, |faults| {
        let mut systems = Vec::new();
        for organisation in submission.organisations() {
            let folder = join(&organisation, "results");
            let found = submission.tree.folders(&folder);
            if found.is_empty() {
                faults.push(failed(&folder, "no system has results", "add results/SYSTEM"));
            }
            let wrong = found
                .iter()
                .filter_map(|system| systems::misnamed(submission, &organisation, system));
            faults.extend(wrong);
            systems.extend(found.into_iter().map(str::to_string));
        }
        systems.join(", ")
    })
}

/// 2.1.9: all runs of a system have the same hosts, as described.
pub(super) fn identical(submission: &Submission) -> Vec<Finding> {
    let groups = submission.groups.iter();
    let systems: BTreeSet<Option<&str>> = groups.map(|group| group.system.as_deref()).collect();
    let findings = systems.into_iter().flat_map(|system| {
        let is_its = move |group: &&RunGroup| group.system.as_deref() == system;
        let groups = || submission.groups.iter().filter(is_its);
        let runs: Vec<&Leaf> = groups().flat_map(|group| &group.runs).collect();
        let undescribed = groups().flat_map(|group| systems::unlike_described(submission, group));
        let faults = differing(&runs).into_iter().chain(undescribed);
        or_passed(
            faults,
            system.unwrap_or_default(),
            "all runs have the same CPUs and memory per host",
        )
    });
    findings.collect()
}

/// The kernel reserves a little memory, a different amount at each boot.
const SAME_MEMORY: f64 = 0.01;

/// Runs with hosts unlike the first run's.
fn differing(runs: &[&Leaf]) -> Vec<Finding> {
    let remedy = "name another configuration as another system";
    let mut faults = Vec::new();
    for key in ["host_processor_name", "host_cpu_count"] {
        let fact = |leaf: &Leaf| {
            let value = leaf.summary.value.get(key)?;
            Some(plain(value.get(0).unwrap_or(value)))
        };
        faults.extend(unlike_the_first(runs, (key, remedy), fact, |a, b| a == b));
    }
    let memory = |leaf: &Leaf| {
        let hosts = leaf.figure("num_hosts").filter(|hosts| *hosts > 0.0)?;
        Some((leaf.memory_gib()? / hosts * 100.0).round() / 100.0)
    };
    let alike = |a: &f64, b: &f64| (a - b).abs() <= SAME_MEMORY * a.max(*b);
    faults.extend(unlike_the_first(runs, ("memory per host (GiB)", remedy), memory, alike));
    faults
}

/// The leaves with a fact unlike the first leaf's that has one.
fn unlike_the_first<T: Display>(
    leaves: &[&Leaf],
    (what, remedy): (&str, &str),
    fact: impl Fn(&Leaf) -> Option<T>,
    alike: impl Fn(&T, &T) -> bool,
) -> Vec<Finding> {
    let mut facts = leaves.iter().filter_map(|leaf| Some((*leaf, fact(leaf)?)));
    let Some((first, usual)) = facts.next() else { return Vec::new() };
    let others = facts.filter(|(_, fact)| !alike(fact, &usual));
    let fault = |(leaf, fact): (&Leaf, T)| {
        failed(leaf, format!("{what} is {fact}; in {} it is {usual}", first.path), remedy)
    };
    others.map(fault).collect()
}

/// 2.1.10: a system's folders are benchmarks.
pub(super) fn categories(submission: &Submission) -> Vec<Finding> {
    package_rule(submission, |faults| {
        for organisation in submission.organisations() {
            let results = join(&organisation, "results");
            for system in submission.tree.folders(&results) {
                let system = join(&results, system);
                faults.extend(wrong_folders(submission, &system, &[], Category::VARIANTS));
            }
        }
        "no unknown benchmark".to_string()
    })
}

/// 2.1.11 and 2.1.21: the edition has the workload.
pub(super) fn workloads(_: &Submission, group: &RunGroup) -> Vec<Finding> {
    let mut known: Vec<&str> = match group.category {
        Category::Training => closed_workloads(Profile::V3).map(|(model, _)| model).collect(),
        _ => builtin::names().collect(),
    };
    known.dedup();
    vec![if known.contains(&group.model.as_str()) {
        passed(group, &group.model)
    } else {
        unexpected(&group.path, &group.model, &known)
    }]
}

fn unexpected(path: &str, name: &str, known: &[&str]) -> Finding {
    let remedy = nearest(name, known.iter().copied())
        .map_or_else(|| "move it out of the package".to_string(), rename);
    failed(path, format!("`{name}` is not one of {}", known.join(", ")), remedy)
}

/// 2.1.12: the phases of a training workload.
pub(super) fn phases(submission: &Submission, group: &RunGroup) -> Vec<Finding> {
    if submission.shape == TreeShape::Results {
        return vec![advice(group, "a results folder, not a package", PUT_TOGETHER)];
    }
    let faults = wrong_folders(submission, &group.path, &PHASES, &PHASES).into_iter();
    // The official text asks for three phases, the official checker for two.
    let faults = faults.map(|fault| match last(&fault.path) {
        "datasize" => fault.officially(Official::Warns),
        _ => fault,
    });
    or_passed(faults, group, PHASES.join(", "))
}
