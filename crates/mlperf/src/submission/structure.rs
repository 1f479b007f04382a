//! Folders and names, above the runs: the rules from 2.1.1 to 2.1.12.

use super::leaf::{Leaf, plain};
use super::provenance;
use super::rule::{Outcome, or_passed};
use super::survey::{Category, DIVISIONS, Edition, Group, OTHER_BENCHMARKS, Shape, Submission};
use super::tree::{CODE_HASH, Form, Part, Tree, join, last, parent};
use stormlp_checkpoint::plan::builtin;
use stormlp_core::units::counted;
use stormlp_training::plan::rules::closed_workloads;

/// What only a package has is not looked for in a folder of results.
pub(super) fn of_package(
    submission: &Submission,
    check: impl FnOnce(&mut Vec<Outcome>) -> String,
) -> Vec<Outcome> {
    if submission.shape == Shape::Results {
        return vec![Outcome::noted(
            "",
            "a folder of results without closed/ or open/ above it",
            "check the whole package once it is put together",
        )];
    }
    let mut faults = Vec::new();
    let evidence = check(&mut faults);
    or_passed(faults, "", || evidence)
}

fn rename(what: &str) -> String {
    format!("rename it to {what}; names are case-sensitive")
}

/// 1.1: only the official tool makes submissions.
pub(super) fn made_by_the_tool(submission: &Submission) -> Vec<Outcome> {
    let marked: Vec<_> =
        submission.leaves().filter_map(|leaf| Some((leaf, leaf.mark.as_deref()?))).collect();
    let all = submission.leaves().count();
    if marked.is_empty() {
        return unmarked(submission, all);
    }
    let contradicting = marked.iter().filter(|(leaf, _)| {
        let verification = leaf.verification();
        verification.is_some_and(|verdict| verdict != "rehearsal")
    });
    let mut faults: Vec<Outcome> = contradicting
        .map(|(leaf, mark)| {
            let verdict = plain(&leaf.metadata.value()["verification"]);
            Outcome::failed(
                &leaf.path,
                format!("stormlp made it ({mark}), and its verification says {verdict}"),
                "remove it: what stormlp makes is a rehearsal and never part of a submission",
            )
        })
        .collect();
    if marked.len() < all {
        faults.push(Outcome::failed(
            &marked[0].0.path,
            format!("{} of {all} folders of runs are stormlp's ({})", marked.len(), marked[0].1),
            "take rehearsed runs out: only what mlpstorage ran may be submitted",
        ));
    }
    if !faults.is_empty() {
        return faults;
    }
    vec![Outcome::noted(
        "",
        "a rehearsal: all of it was made by stormlp, and only mlpstorage makes submissions",
        "run the campaign with mlpstorage (`stormlp submission plan` has its command lines)",
    )]
}

/// The same of a tree none of whose runs is stormlp's.
fn unmarked(submission: &Submission, leaves: usize) -> Vec<Outcome> {
    if leaves == 0 {
        return vec![Outcome::failed(
            "",
            "no folder of a run is there",
            "name a folder that mlpstorage, DLIO or `stormlp submission rehearse` wrote",
        )];
    }
    let marks = submission.marks_elsewhere();
    let faults: Vec<Outcome> = marks
        .iter()
        .map(|(path, mark)| {
            Outcome::failed(
                path,
                format!("stormlp made it ({mark}), and the runs do not say so"),
                "take it out: only what mlpstorage made of these runs may be submitted",
            )
        })
        .collect();
    if faults.is_empty() {
        vec![Outcome::noted(
            "",
            "files of mlpstorage and DLIO bear no signature: who wrote them cannot be proven",
            "nothing mends it; keep the results folders as mlpstorage wrote them",
        )]
    } else {
        faults
    }
}

/// 2.1.1: names of organisations.
pub(super) fn submitter(submission: &Submission) -> Vec<Outcome> {
    of_package(submission, |faults| {
        let organisations = submission.organisations();
        let fits = |name: &str| {
            let safe = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            name.chars().all(safe)
        };
        for path in organisations.iter().filter(|path| !fits(last(path))) {
            faults.push(Outcome::failed(
                path,
                format!(
                    "`{}` has characters besides letters, digits, `.`, `_` and `-`",
                    last(path)
                ),
                "put a `-` for each of them",
            ));
        }
        if organisations.is_empty() {
            faults.push(Outcome::failed(
                "",
                "no organisation has a folder",
                "add closed/ORGANISATION",
            ));
        }
        organisations.join(", ")
    })
}

/// 2.1.2: what lies at the top.
pub(super) fn top_level(submission: &Submission) -> Vec<Outcome> {
    let (tree, is_v3) = (&submission.tree, submission.edition == Edition::V3);
    of_package(submission, |faults| {
        let names = tree.names("");
        for name in &names {
            let lower = name.to_ascii_lowercase();
            let pool = is_v3
                && (*name == "code-images" || tree.get(&join(name, ".mlps-image-pool")).is_some());
            if DIVISIONS.contains(name) || pool {
                continue;
            }
            // The guidelines of v2.0 spell them with capitals.
            if DIVISIONS.contains(&lower.as_str()) {
                if is_v3 {
                    faults.push(Outcome::failed(name, format!("`{name}`"), rename(&lower)));
                }
                continue;
            }
            faults.push(Outcome::failed(
                name,
                format!("`{name}` is neither closed nor open"),
                "move it out of the package",
            ));
        }
        names.join(", ")
    })
}

/// 2.1.5: what an organisation has.
pub(super) fn subdirectories(submission: &Submission) -> Vec<Outcome> {
    // Only the official tool has source code to show.
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
                        let place = join(&organisation, other);
                        Outcome::failed(&place, format!("`{other}` for `{name}`"), rename(name))
                    }
                    None => Outcome::failed(
                        &organisation,
                        format!("no folder {name}"),
                        format!("add {organisation}/{name}"),
                    ),
                });
            }
            let beside = found.iter().filter(|name| {
                let expected = wanted.iter().any(|other| other.eq_ignore_ascii_case(name));
                // Where code lies has changed; both ways are taken.
                !expected && !["code", "generation_logs"].contains(name)
            });
            for name in beside {
                faults.push(Outcome::failed(
                    &join(&organisation, name),
                    format!("`{name}` is not one of {}", wanted.join(", ")),
                    "move it out of the package",
                ));
            }
        }
        wanted.join(" and ")
    })
}

/// 2.1.6: the source that ran is what its record says, and every run names one that is there.
pub(super) fn code(submission: &Submission) -> Vec<Outcome> {
    if submission.rehearsal().is_some() {
        return vec![Outcome::noted(
            "",
            "a rehearsal has no image of mlpstorage's source, and the official checker fails it \
             for that",
            "mlpstorage captures one in every run",
        )];
    }
    let tree = &submission.tree;
    of_package(submission, |faults| {
        let records: Vec<&str> =
            tree.iter().map(|(path, _)| path).filter(|path| last(path) == CODE_HASH).collect();
        let mut hashes = Vec::new();
        for path in &records {
            match tree.part(path, Form::Json) {
                Part::Absent => {}
                Part::Found { value, .. } => {
                    let hash = value["hash"].as_str().unwrap_or_default();
                    faults.extend(image_fault(tree, path, hash));
                    hashes.push(hash.to_string());
                }
                Part::Broken { why, .. } => faults.push(Outcome::failed(
                    path,
                    format!("it cannot be used: {why}"),
                    "copy the image again as mlpstorage captured it",
                )),
            }
        }
        if hashes.is_empty() && submission.edition == Edition::V3 {
            faults.push(Outcome::failed(
                "",
                "no image of the source that ran (.code-hash.json) is there, or none can be read",
                "add code-images/ of the results folder that mlpstorage wrote",
            ));
            return String::new();
        }
        for leaf in submission.leaves() {
            let Some(named) = provenance::image_of(submission, leaf) else {
                continue;
            };
            let is_it =
                |hash: &String| hash.starts_with(&named) || named.starts_with(hash.as_str());
            if !hashes.iter().any(is_it) {
                faults.push(Outcome::failed(
                    &leaf.path,
                    format!("it ran the source {named}, of which no image is there"),
                    "add its image from code-images/ of the results folder",
                ));
            }
        }
        format!(
            "{}: names, records and digests agree; MLCommons pins no digest",
            counted(records.len() as u64, "image")
        )
    })
}

/// What is wrong with an image whose record says `hash`.
fn image_fault(tree: &Tree, path: &str, hash: &str) -> Option<Outcome> {
    let image = parent(path);
    let short = last(image).strip_prefix("code-");
    if hash.len() != 32 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Some(Outcome::failed(
            path,
            format!("`hash` is `{hash}`, which is no MD5 of 32 digits"),
            "take the image of the run again with mlpstorage",
        ));
    }
    if short.is_some_and(|short| !hash.starts_with(short)) {
        return Some(Outcome::failed(
            path,
            format!("the folder is {}, its hash {hash}", last(image)),
            "give back to the image the name that mlpstorage gave it",
        ));
    }
    match tree.digest(image) {
        None => Some(Outcome::unknown(
            image,
            "its files cannot be read, or are far too large for source",
            "copy it again from the results folder that mlpstorage wrote",
        )),
        Some(digest) => (!digest.eq_ignore_ascii_case(hash)).then(|| {
            Outcome::failed(
                image,
                format!("its files come to {digest}, its record says {hash}"),
                "copy the image again as mlpstorage captured it: no file changed, added or missing",
            )
        }),
    }
}

/// 2.1.8: results are those of systems.
pub(super) fn results(submission: &Submission) -> Vec<Outcome> {
    of_package(submission, |faults| {
        let mut systems = Vec::new();
        for organisation in submission.organisations() {
            let folder = join(&organisation, "results");
            let found = submission.tree.folders(&folder);
            if found.is_empty() {
                faults.push(Outcome::failed(
                    &folder,
                    "no system has results",
                    "add results/SYSTEM",
                ));
            }
            systems.extend(found.into_iter().map(str::to_string));
        }
        systems.join(", ")
    })
}

/// 2.1.9: all runs of a system are of the same system.
pub(super) fn identical(submission: &Submission) -> Vec<Outcome> {
    let mut systems: Vec<&str> = Vec::new();
    for group in &submission.groups {
        let system = group.system.as_deref().unwrap_or("");
        if !systems.contains(&system) {
            systems.push(system);
        }
    }
    let mut outcomes = Vec::new();
    for system in systems {
        let groups = submission.groups.iter();
        let mine: Vec<&Group> =
            groups.filter(|group| group.system.as_deref().unwrap_or("") == system).collect();
        let faults = differing(&mine);
        outcomes.extend(or_passed(faults, system, || {
            "processors and memory of a host are the same in all runs".to_string()
        }));
    }
    outcomes
}

/// The kernel takes a little memory for itself, a different amount at each start.
const SAME_MEMORY: f64 = 0.01;

/// Runs whose hosts are not those of the first run.
fn differing(groups: &[&Group]) -> Vec<Outcome> {
    let runs: Vec<&Leaf> = groups.iter().flat_map(|group| &group.runs).collect();
    let mut faults = Vec::new();
    for key in ["host_processor_name", "host_cpu_count"] {
        let fact = |leaf: &Leaf| {
            let value = leaf.summary.value().get(key)?;
            Some(plain(value.get(0).unwrap_or(value)))
        };
        faults.extend(unlike_the_first(&runs, key, fact, |a, b| a == b));
    }
    let memory = |leaf: &Leaf| {
        let hosts = leaf.figure("num_hosts").filter(|hosts| *hosts > 0.0)?;
        Some(Gib(leaf.memory_gib()? / hosts))
    };
    let alike = |a: &Gib, b: &Gib| (a.0 - b.0).abs() <= SAME_MEMORY * a.0.max(b.0);
    let what = "memory of a host";
    faults.extend(unlike_the_first(&runs, what, memory, alike));
    faults
}

/// A size in words.
struct Gib(f64);

impl std::fmt::Display for Gib {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{:.1} GiB", self.0)
    }
}

/// Runs that say of `what` something else than the first that says anything.
fn unlike_the_first<T: std::fmt::Display>(
    runs: &[&Leaf],
    what: &str,
    fact: impl Fn(&Leaf) -> Option<T>,
    alike: impl Fn(&T, &T) -> bool,
) -> Vec<Outcome> {
    let mut told = runs
        .iter()
        .filter_map(|leaf| Some((*leaf, fact(leaf)?)))
        .collect::<Vec<(&Leaf, T)>>()
        .into_iter();
    let Some((first, usual)) = told.next() else {
        return Vec::new();
    };
    let others = told.filter(|(_, fact)| !alike(fact, &usual));
    let faults = others.map(|(leaf, fact)| {
        Outcome::failed(
            &leaf.path,
            format!("{what} is {fact}; in {} it is {usual}", first.path),
            "give what was measured on another configuration a system name of its own",
        )
    });
    faults.collect()
}

/// 2.1.10: what a system has results of.
pub(super) fn categories(submission: &Submission) -> Vec<Outcome> {
    let known = ["training", "checkpointing", "vector_database", "kv_cache"];
    of_package(submission, |faults| {
        for system in system_folders(submission) {
            for name in submission.tree.folders(&system) {
                if !known.contains(&name) {
                    faults.push(unexpected(&join(&system, name), name, &known));
                }
            }
        }
        "training, checkpointing and nothing unknown".to_string()
    })
}

/// 2.1.11 and 2.1.21: workloads that an edition has.
pub(super) fn workloads(submission: &Submission, group: &Group) -> Vec<Outcome> {
    let known: Vec<&str> = match group.category {
        Category::Training => {
            closed_workloads(submission.edition.profile()).map(|(model, _)| model).collect()
        }
        Category::Checkpointing => builtin::names().collect(),
    };
    let spelt = group.model.replace('_', "-");
    let fits = known.contains(&group.model.as_str())
        || submission.edition == Edition::V2 && known.contains(&spelt.as_str());
    if fits {
        vec![Outcome::passed(&group.path, group.model.clone())]
    } else {
        vec![unexpected(&group.path, &group.model, &known)]
    }
}

fn unexpected(path: &str, name: &str, known: &[&str]) -> Outcome {
    let mut choice: Vec<&str> = Vec::new();
    for name in known {
        if !choice.contains(name) {
            choice.push(name);
        }
    }
    let meant = stormlp_core::names::nearest(name, choice.iter().copied());
    let remedy = match meant {
        Some(meant) => rename(meant),
        None => "move it out of the package".to_string(),
    };
    Outcome::failed(path, format!("`{name}` is none of {}", choice.join(", ")), remedy)
}

/// 2.1.12: the phases of a training workload.
pub(super) fn phases(submission: &Submission, group: &Group) -> Vec<Outcome> {
    if submission.shape == Shape::Results {
        return vec![Outcome::noted(
            &group.path,
            "a folder of results, no package",
            "check the whole package once it is put together",
        )];
    }
    let known = ["datasize", "datagen", "run"];
    let found = submission.tree.folders(&group.path);
    let mut faults = Vec::new();
    for name in known.iter().filter(|name| !found.contains(name)) {
        let fault = Outcome::failed(
            &join(&group.path, name),
            format!("no folder {name}"),
            format!("add what `mlpstorage … {name}` wrote"),
        );
        // The text asks for three phases, the code for two.
        faults.push(if *name == "datasize" {
            fault.officially(super::rule::Official::Silent)
        } else {
            fault
        });
    }
    for name in found.iter().filter(|name| !known.contains(name)) {
        faults.push(unexpected(&join(&group.path, name), name, &known));
    }
    or_passed(faults, &group.path, || found.join(", "))
}

/// 5 and 6: other benchmarks are not looked into.
pub(super) fn others(submission: &Submission) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for (path, _) in submission.tree.iter() {
        let name = last(path);
        if OTHER_BENCHMARKS.contains(&name) && submission.tree.is_folder(path) {
            outcomes.push(Outcome::unknown(
                path,
                format!("results of {name} are not looked into"),
                "`mlpstorage validate` looks into some of them",
            ));
        }
    }
    outcomes
}

fn system_folders(submission: &Submission) -> Vec<String> {
    let organisations = submission.organisations().into_iter();
    organisations
        .flat_map(|organisation| {
            let results = join(&organisation, "results");
            let systems = submission.tree.folders(&results).into_iter();
            systems.map(|name| join(&results, name)).collect::<Vec<String>>()
        })
        .collect()
}
