//! Rules of folders and names above the runs: 2.1.1 to 2.1.12.

use super::edition::Edition;
use super::leaf::{Leaf, plain};
use super::pool;
use super::provenance;
use super::rule::{Finding, Official, or_passed, unlike_the_first};
use super::rule::{advice, failed, passed};
use super::survey::{Category, DIVISIONS, PHASES, RunGroup, Submission, TreeShape};
use super::systems;
use super::tree::{CODE_HASH, Parsed, join, last, parent};
use stormlp_checkpoint::plan::builtin;
use stormlp_core::names::nearest;
use stormlp_core::units::counted;
use stormlp_training::plan::rules::closed_workloads;

const PUT_TOGETHER: &str = "check the whole package once it is put together";

/// A rule about a package; a results folder on its own is not checked. `check` adds faults, and
/// returns the fact that stands where there are none.
pub(super) fn of_package(
    submission: &Submission,
    check: impl FnOnce(&mut Vec<Finding>) -> String,
) -> Vec<Finding> {
    if submission.shape == TreeShape::Results {
        let fact = "a results folder without closed/ or open/ above it";
        return vec![advice("", fact, PUT_TOGETHER)];
    }
    let mut faults = Vec::new();
    let fact = check(&mut faults);
    or_passed(faults, "", fact)
}

fn rename(name: &str) -> String {
    format!("rename it to {name}; names are case-sensitive")
}

/// 1.1: only the official tool makes submissions.
pub(super) fn made_by_the_tool(submission: &Submission) -> Vec<Finding> {
    let all = submission.leaves().count();
    let marked: Vec<_> =
        submission.leaves().filter_map(|leaf| Some((leaf, leaf.mark.as_deref()?))).collect();
    let Some((first, mark)) = marked.first() else {
        return unmarked(submission, all);
    };
    let claims = |leaf: &Leaf| leaf.verification().is_some_and(|verdict| verdict != "rehearsal");
    let contradicting = marked.iter().filter(|(leaf, _)| claims(leaf));
    let mut faults: Vec<Finding> = contradicting
        .map(|(leaf, mark)| {
            let verdict = plain(&leaf.metadata.value()["verification"]);
            let fact = format!("stormlp made it ({mark}), but its verification is {verdict}");
            failed(leaf, fact, "remove it: stormlp's runs are rehearsals, never submissions")
        })
        .collect();
    if marked.len() < all {
        let fact = format!("{} of {all} run folders are stormlp's ({mark})", marked.len());
        let remedy = "remove rehearsed runs: only runs of mlpstorage may be submitted";
        faults.push(failed(first, fact, remedy));
    }
    if faults.is_empty() {
        let fact = "a rehearsal: stormlp made all of it, and only mlpstorage makes submissions";
        let remedy = "run the campaign with mlpstorage";
        faults.push(advice("", fact, remedy));
    }
    faults
}

/// The same where no run is stormlp's.
fn unmarked(submission: &Submission, leaves: usize) -> Vec<Finding> {
    if leaves == 0 && submission.other_runs.is_empty() {
        let remedy = "name a folder that mlpstorage or DLIO wrote";
        return vec![failed("", "there is no run folder", remedy)];
    }
    let marks = submission.marks_elsewhere();
    if marks.is_empty() {
        let fact = "mlpstorage and DLIO do not sign their files: who wrote them cannot be proven";
        let remedy = "there is no fix; keep the results folders as mlpstorage wrote them";
        return vec![advice("", fact, remedy)];
    }
    let fault = |(path, mark): (String, &str)| {
        let fact = format!("stormlp made it ({mark}), but the runs are not stormlp's");
        failed(path, fact, "remove it: only mlpstorage's files of these runs may be submitted")
    };
    marks.into_iter().map(fault).collect()
}

/// 2.1.1: organisations' names.
pub(super) fn submitter(submission: &Submission) -> Vec<Finding> {
    of_package(submission, |faults| {
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

/// 2.1.2: the folders at the top of a package are closed/, open/ and pools of source images. The tools
/// put files beside them: tables, and the mark of `mlpstorage init`.
pub(super) fn top_level(submission: &Submission) -> Vec<Finding> {
    let (tree, is_v3) = (&submission.tree, submission.edition == Edition::V3);
    let pools = pool::pools(tree);
    of_package(submission, |faults| {
        let names = tree.folders("");
        for name in &names {
            let lower = name.to_ascii_lowercase();
            if DIVISIONS.contains(name) || is_v3 && pools.contains(name) {
                continue;
            }
            if !DIVISIONS.contains(&lower.as_str()) {
                let fact = format!("`{name}` is neither closed nor open");
                faults.push(failed(name, fact, "move it out of the package"));
            } else if is_v3 {
                // The guidelines of v2.0 spell them with capitals.
                faults.push(failed(name, format!("`{name}`"), rename(&lower)));
            }
        }
        names.join(", ")
    })
}

/// 2.1.5: an organisation's folders.
pub(super) fn subdirectories(submission: &Submission) -> Vec<Finding> {
    // A rehearsal has no source code.
    let needs_code = submission.edition == Edition::V2 && submission.rehearsal().is_none();
    let wanted: &[&str] =
        if needs_code { &["code", "results", "systems"] } else { &["results", "systems"] };
    of_package(submission, |faults| {
        for organisation in submission.organisations() {
            let found = submission.tree.folders(&organisation);
            for name in wanted.iter().filter(|name| !found.contains(name)) {
                let alike = found.iter().find(|other| other.eq_ignore_ascii_case(name));
                faults.push(match alike {
                    Some(other) => {
                        let fact = format!("`{other}` instead of `{name}`");
                        failed(join(&organisation, other), fact, rename(name))
                    }
                    None => {
                        let remedy = format!("add {organisation}/{name}");
                        failed(&organisation, format!("there is no folder {name}"), remedy)
                    }
                });
            }
            let is_extra = |name: &&&str| {
                let expected = wanted.iter().any(|other| other.eq_ignore_ascii_case(name));
                // Folders of v2.0's packages; a rehearsal of one has no code.
                let is_v2 = submission.edition == Edition::V2;
                !(expected || is_v2 && ["code", "generation_logs"].contains(name))
            };
            for name in found.iter().filter(is_extra) {
                let fact = format!("`{name}` is not one of {}", wanted.join(", "));
                faults.push(failed(join(&organisation, name), fact, "move it out of the package"));
            }
        }
        wanted.join(" and ")
    })
}

/// 2.1.6: images of the source code match their records, and each run's image is there.
pub(super) fn code(submission: &Submission) -> Vec<Finding> {
    if submission.rehearsal().is_some() {
        let fact = "a rehearsal has no image of mlpstorage's source; the official checker fails it";
        return vec![advice("", fact, "mlpstorage captures one in every run")];
    }
    let tree = &submission.tree;
    of_package(submission, |faults| {
        let records: Vec<&str> =
            tree.iter().map(|(path, _)| path).filter(|path| last(path) == CODE_HASH).collect();
        let mut hashes = Vec::new();
        for path in &records {
            match tree.json(path) {
                Parsed::Absent => {}
                Parsed::Found { value, .. } => {
                    let hash = value["hash"].as_str().unwrap_or_default();
                    faults.extend(image_fault(path, hash));
                    hashes.push(hash.to_string());
                }
                Parsed::Broken { why, .. } => {
                    let remedy = "copy the image again as mlpstorage captured it";
                    faults.push(failed(path, format!("it cannot be used: {why}"), remedy));
                }
            }
        }
        if hashes.is_empty() && submission.edition == Edition::V3 {
            let fact = "there is no readable image of the source that ran (.code-hash.json)";
            let remedy = "add code-images/ of the results folder that mlpstorage wrote";
            faults.push(failed("", fact, remedy));
            return String::new();
        }
        for leaf in submission.leaves() {
            let Some(named) = provenance::image_of(submission, leaf) else {
                continue;
            };
            let is_it =
                |hash: &String| hash.starts_with(&named) || named.starts_with(hash.as_str());
            if !hashes.iter().any(is_it) {
                let fact = format!("it ran the source {named}, and its image is missing");
                let remedy = "add its image from code-images/ of the results folder";
                faults.push(failed(leaf, fact, remedy));
            }
        }
        let images = counted(records.len() as u64, "image");
        format!("{images}: names and records agree")
    })
}

/// What is wrong with the image whose record at `path` has `hash`.
fn image_fault(path: &str, hash: &str) -> Option<Finding> {
    let image = parent(path);
    let name = last(image);
    if hash.len() != 32 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let fact = format!("`hash` is `{hash}`, not an MD5 of 32 digits");
        return Some(failed(path, fact, "capture the image of the run again with mlpstorage"));
    }
    if name.strip_prefix("code-").is_some_and(|short| !hash.starts_with(short)) {
        let fact = format!("the folder is {name}, its hash {hash}");
        return Some(failed(path, fact, "restore the name that mlpstorage gave the image"));
    }
    None
}

/// 2.1.8: results/ holds systems, whose descriptions name them.
pub(super) fn results(submission: &Submission) -> Vec<Finding> {
    of_package(submission, |faults| {
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

/// 2.1.9: all runs of a system have the same hosts.
pub(super) fn identical(submission: &Submission) -> Vec<Finding> {
    let mut systems: Vec<&str> = Vec::new();
    for group in &submission.groups {
        let system = group.system.as_deref().unwrap_or("");
        if !systems.contains(&system) {
            systems.push(system);
        }
    }
    let findings = systems.into_iter().flat_map(|system| {
        let groups = submission.groups.iter();
        let mine = groups.filter(|group| group.system.as_deref().unwrap_or("") == system);
        let runs: Vec<&Leaf> = mine.flat_map(|group| &group.runs).collect();
        let mine = submission.groups.iter();
        let mine = mine.filter(|group| group.system.as_deref().unwrap_or("") == system);
        let undescribed = mine.flat_map(|group| systems::unlike_described(submission, group));
        let faults = differing(&runs).into_iter().chain(undescribed);
        or_passed(faults, system, "all runs have the same CPUs and memory per host")
    });
    findings.collect()
}

/// The kernel takes a little memory for itself, a different amount at each boot.
const SAME_MEMORY: f64 = 0.01;

/// Runs whose hosts are unlike those of the first run.
fn differing(runs: &[&Leaf]) -> Vec<Finding> {
    let remedy = "name another configuration as another system";
    let mut faults = Vec::new();
    for key in ["host_processor_name", "host_cpu_count"] {
        let fact = |leaf: &Leaf| {
            let value = leaf.summary.value().get(key)?;
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

/// 2.1.10: a system's folders are benchmarks.
pub(super) fn categories(submission: &Submission) -> Vec<Finding> {
    let known = ["training", "checkpointing", "vector_database", "kv_cache"];
    of_package(submission, |faults| {
        for organisation in submission.organisations() {
            let results = join(&organisation, "results");
            for system in submission.tree.folders(&results) {
                let system = join(&results, system);
                let names = submission.tree.folders(&system).into_iter();
                let unknown = names.filter(|name| !known.contains(name));
                faults.extend(unknown.map(|name| unexpected(&join(&system, name), name, &known)));
            }
        }
        "training, checkpointing and nothing unknown".to_string()
    })
}

/// 2.1.11 and 2.1.21: the edition has the workload.
pub(super) fn workloads(submission: &Submission, group: &RunGroup) -> Vec<Finding> {
    let known: Vec<&str> = match group.category {
        Category::Training => {
            closed_workloads(submission.edition.profile()).map(|(model, _)| model).collect()
        }
        Category::Checkpointing => builtin::names().collect(),
    };
    let spelt = group.model.replace('_', "-");
    let fits = known.contains(&group.model.as_str())
        || submission.edition == Edition::V2 && known.contains(&spelt.as_str());
    vec![if fits {
        passed(group, &group.model)
    } else {
        unexpected(&group.path, &group.model, &known)
    }]
}

fn unexpected(path: &str, name: &str, known: &[&str]) -> Finding {
    let mut choice: Vec<&str> = Vec::new();
    for name in known {
        if !choice.contains(name) {
            choice.push(name);
        }
    }
    let remedy = nearest(name, choice.iter().copied())
        .map_or_else(|| "move it out of the package".to_string(), rename);
    failed(path, format!("`{name}` is not one of {}", choice.join(", ")), remedy)
}

/// 2.1.12: the phases of a training workload.
pub(super) fn phases(submission: &Submission, group: &RunGroup) -> Vec<Finding> {
    if submission.shape == TreeShape::Results {
        return vec![advice(group, "a results folder, not a package", PUT_TOGETHER)];
    }
    let found = submission.tree.folders(&group.path);
    let mut faults = Vec::new();
    for name in PHASES.iter().filter(|name| !found.contains(name)) {
        let remedy = format!("add the folder that `mlpstorage … {name}` wrote");
        let fact = format!("there is no folder {name}");
        let fault = failed(join(&group.path, name), fact, remedy);
        // The official text asks for three phases, the official checker for two.
        let only_warns = *name == "datasize";
        faults.push(if only_warns { fault.officially(Official::Warns) } else { fault });
    }
    let unknown = found.iter().filter(|name| !PHASES.contains(name));
    faults.extend(unknown.map(|name| unexpected(&join(&group.path, name), name, &PHASES)));
    or_passed(faults, group, found.join(", "))
}
