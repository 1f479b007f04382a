//! Rules of editions and comparability classes: EDN-01 to EDN-04. They are about runs with a stamp, and
//! about manifests; the tools that made the published results of v3.0 wrote neither.

use serde_json::Value;

use super::classes::{self, CHECKED, EDITIONS};
use super::core_config::{self, UNKNOWN};
use super::leaf::{LeafKind, plain};
use super::rule::{Finding, failed, or_passed, passed, passed_open, unknown, wish};
use super::survey::Submission;
use super::tree::join;

const STAMP_AGAIN: &str = "copy provenance.json again as mlpstorage wrote it";

/// A run of any benchmark, and its stamp.
struct Stamped<'a> {
    path: &'a str,
    stamp: &'a Value,
    /// Family and model.
    workload: (&'a str, &'a str),
    accelerator: Option<String>,
    is_closed: bool,
    parameters: &'a Value,
    /// A run of the benchmark, not of `datagen` or `datasize`.
    is_run: bool,
}

impl Stamped<'_> {
    /// The edition that it declares; `None` where it is unknown.
    fn edition(&self) -> Option<String> {
        Some(&self.stamp["rules_edition"])
            .filter(|edition| !edition.is_null())
            .map(plain)
            .filter(|edition| edition != UNKNOWN)
    }

    /// The hash of its stamp; `None` where its family has none.
    fn hash(&self) -> Option<&str> {
        self.stamp["core_config"]["hash"].as_str().filter(|hash| *hash != UNKNOWN)
    }
}

/// All runs, those without a stamp too.
fn runs(submission: &Submission) -> Vec<Stamped<'_>> {
    let mut found = Vec::new();
    for group in &submission.groups {
        found.extend(group.leaves().filter(|leaf| !leaf.is_of_stormlp()).map(|leaf| Stamped {
            path: &leaf.path,
            stamp: leaf.provenance.value(),
            workload: (group.category.name(), &group.model),
            accelerator: leaf.named_accelerator(),
            is_closed: group.division_of(leaf) == Some("closed"),
            parameters: &leaf.metadata.value()["parameters"],
            is_run: matches!(leaf.kind, LeafKind::Run | LeafKind::Checkpoint),
        }));
    }
    found.extend(submission.other_runs.iter().map(|run| Stamped {
        path: &run.path,
        stamp: run.provenance.value(),
        workload: (run.benchmark, &run.model),
        accelerator: None,
        is_closed: run.is_closed(),
        parameters: &run.metadata.value()["parameters"],
        is_run: run.command == "run",
    }));
    found
}

fn stamped(submission: &Submission) -> impl Iterator<Item = Stamped<'_>> {
    runs(submission).into_iter().filter(|run| run.stamp.is_object())
}

/// Without a stamp, the rules have nothing to say.
fn or_nothing(submission: &Submission, faults: Vec<Finding>, fact: &str) -> Vec<Finding> {
    match stamped(submission).count() {
        0 => faults,
        _ => or_passed(faults, "", fact),
    }
}

/// EDN-01: the edition that a stamp or a manifest declares is known.
pub(super) fn known_edition(submission: &Submission) -> Vec<Finding> {
    let declared =
        stamped(submission).filter_map(|run| Some((run.path.to_string(), run.edition()?)));
    let manifests = submission.organisations().into_iter().filter_map(|organisation| {
        let path = join(&organisation, "submission.yaml");
        let edition = submission.tree.yaml(&path).value()["rules_edition"].clone();
        (!edition.is_null() && edition != UNKNOWN).then(|| (path, plain(&edition)))
    });
    let unknown =
        declared.chain(manifests).filter(|(_, edition)| !EDITIONS.contains(&edition.as_str()));
    let fault = |(path, edition): (String, String)| {
        let fact = format!("it declares the edition {edition}; known are {}", EDITIONS.join(", "));
        failed(path, fact, STAMP_AGAIN)
    };
    or_nothing(submission, unknown.map(fault).collect(), "every declared edition is known")
}

/// EDN-02: a closed run executed the workload of a comparability class.
pub(super) fn comparable(submission: &Submission) -> Vec<Finding> {
    let mut findings = Vec::new();
    for run in runs(submission).into_iter().filter(|run| run.is_run) {
        let (family, model) = run.workload;
        let computed = core_config::hash(family, run.parameters);
        let class = |hash: &str, edition: &str| {
            classes::find(run.workload, run.accelerator.as_deref(), hash, edition)
        };
        let edition = run.edition().unwrap_or_else(|| submission.edition.to_string());
        let Some(hash) = run.hash() else {
            // Without a stamp, the parameters may show a class; nothing is wrong otherwise.
            if let Some(class) = class(&computed, &edition).filter(|_| run.is_closed) {
                findings.push(passed(run.path, format!("{} by its parameters", class.name)));
            }
            continue;
        };
        if computed != hash && computed != UNKNOWN {
            let fact = format!("its stamp has {hash}; its parameters have {computed}");
            findings.push(wish(run.path, fact, STAMP_AGAIN));
        }
        if !EDITIONS.contains(&edition.as_str()) {
            continue;
        }
        let on = run.accelerator.as_deref().map_or(String::new(), |name| format!(" on {name}"));
        findings.push(match class(hash, &edition) {
            Some(class) if run.is_closed => passed(run.path, class.name),
            _ if run.is_closed => {
                let fact = format!(
                    "{hash} is not a comparability class of {family} {model}{on} in v{edition}"
                );
                failed(run.path, fact, "run the workload as the edition has it, or submit to open")
            }
            // Results of different divisions never compare.
            _ => passed_open(run.path, format!("{hash}: open results have no class")),
        });
    }
    findings
}

/// EDN-03: DLIO's commit is one that the edition lists.
pub(super) fn dlio_revision(submission: &Submission) -> Vec<Finding> {
    let faults = stamped(submission).filter(|run| run.is_run).filter_map(|run| {
        let (edition, commit) = (run.edition()?, run.stamp["dlio"]["commit"].as_str()?);
        let is_listed = commit == UNKNOWN || classes::accepts_dlio(&edition, commit);
        let fact = format!("it ran DLIO {commit}, which v{edition} does not list");
        let remedy = "run with the DLIO that mlpstorage's lock file names";
        (!is_listed).then(|| failed(run.path, fact, remedy))
    });
    or_nothing(submission, faults.collect(), "every commit of DLIO is listed")
}

/// EDN-04: the checker has rules of the edition that a stamp declares.
pub(super) fn checked_edition(submission: &Submission) -> Vec<Finding> {
    let faults = stamped(submission).filter_map(|run| {
        let edition = run.edition().filter(|edition| EDITIONS.contains(&edition.as_str()))?;
        let fact = format!("the newest checker has rules of v{CHECKED}, none of v{edition}");
        let remedy = "check it with the tool of its edition";
        (edition != CHECKED).then(|| failed(run.path, fact, remedy))
    });
    or_nothing(submission, faults.collect(), "the checker has rules of every declared edition")
}

/// A tree of v1.0 has no rules here, and its files would break all of them.
pub(super) fn unsupported(submission: &Submission) -> Vec<Finding> {
    let shown = submission.unsupported.as_deref().unwrap_or_default();
    let fact = "edition not supported: only v1.0 has such a file, and the rules here are of v2.0 and \
                v3.0";
    let remedy = "check it with the benchmark.sh of v1.0, or choose rules with --edition";
    vec![unknown(shown, fact, remedy)]
}
