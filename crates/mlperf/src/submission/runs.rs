//! stormlp's rules: runs that cannot be read or placed, or that are of another edition, and
//! mlpstorage's verdict on each run.

use std::collections::BTreeMap;

use super::leaf::{LeafKind, NEWEST};
use super::rule::{COPY_METADATA, Finding, failed, or_passed, passed_open, unknown};
use super::survey::{RunGroup, Submission, UNKNOWN_EDITION, is_elsewhere};
use super::tree::{ReadDepth, wanted};

/// Files that the rules need can be used.
pub(super) fn readable(submission: &Submission) -> Vec<Finding> {
    let tree = &submission.tree;
    // No rule needs other files, and a link among them may lead anywhere.
    let is_needed = |path: &str| {
        !is_elsewhere(path) && !tree.is_folder(path) && wanted(path) != ReadDepth::Nothing
    };
    let paths = tree.iter().map(|(path, _)| path).filter(|path| is_needed(path));
    let mut unusable: BTreeMap<&str, &str> =
        paths.filter_map(|path| Some((path, tree.fault(path)?))).collect();
    let leaves = submission.leaves().filter(|leaf| !is_elsewhere(&leaf.path));
    for (path, why) in leaves.flat_map(|leaf| &leaf.unusable) {
        unusable.insert(path, why);
    }
    let faults = unusable.into_iter().map(|(path, why)| {
        failed(path, format!("it cannot be used: {why}"), "copy it again from where it was written")
    });
    or_passed(faults, "", "the content of every file matches its name")
}

/// Every run folder belongs to one result.
pub(super) fn placed(submission: &Submission) -> Vec<Finding> {
    let faults = submission.others.iter().map(|leaf| {
        let fact = "no file shows which result this folder belongs to";
        failed(leaf, fact, "remove it, or move it to where mlpstorage wrote it")
    });
    or_passed(faults, "", "every run folder belongs to one result")
}

/// All runs are of the edition that the rules belong to.
pub(super) fn edition(submission: &Submission) -> Vec<Finding> {
    let (edition, from) = (&submission.edition, &submission.edition_from);
    if edition == UNKNOWN_EDITION {
        let fact = format!("no file shows that the runs are of v{NEWEST}");
        return vec![unknown("", fact, "add fs_separation.json or provenance.json of each run")];
    }
    if edition != NEWEST {
        let fact =
            format!("not checked: the runs are of v{edition} ({from}), the rules of v{NEWEST}");
        return vec![unknown("", fact, "check it with the tool of its edition")];
    }
    let others = submission.leaves().filter_map(|leaf| {
        // The files may be of one edition, and the accelerator of another.
        let all = [leaf.edition(), leaf.edition_of_accelerator()].into_iter().flatten();
        Some((leaf, all.into_iter().find(|(edition, _)| edition != NEWEST)?))
    });
    let faults = others.map(|(leaf, (edition, from))| {
        let fact = format!("it is a run of v{edition} ({from}); other runs are of v{NEWEST}");
        failed(leaf, fact, "remove it: different editions are different submissions")
    });
    or_passed(faults, "", format!("all runs are of v{NEWEST}"))
}

/// mlpstorage's verdict on each run fits the division.
pub(super) fn verification(_: &Submission, group: &RunGroup) -> Vec<Finding> {
    let leaves = group.leaves().filter(|leaf| !leaf.made_by_stormlp());
    let findings = leaves.filter_map(|leaf| {
        let path = leaf.metadata.path.as_deref().unwrap_or(&leaf.path);
        let found = &leaf.metadata.value["verification"];
        match (leaf.verification().as_deref(), group.division.as_deref()) {
            (Some("invalid"), _) => {
                let remedy = "its log has the reason; fix it, and run again";
                Some(failed(path, "mlpstorage marked it INVALID", remedy))
            }
            (Some("open"), Some("closed")) => {
                let remedy = "submit the result to open, or run again within the closed rules";
                Some(failed(path, "mlpstorage marked it OPEN, but it is in closed/", remedy))
            }
            (Some("open"), None) => Some(passed_open(path, "mlpstorage marked it OPEN")),
            (Some("open" | "closed"), _) => None,
            (Some(_), _) | (None, _) => {
                let ran = matches!(leaf.kind, LeafKind::Run | LeafKind::Checkpoint);
                let fact = format!("its verification is {found}, not a verdict of mlpstorage");
                // Another rule reports a file that is missing or broken.
                (leaf.metadata.is_found() && (ran || !found.is_null()))
                    .then(|| unknown(path, fact, COPY_METADATA))
            }
        }
    });
    or_passed(findings, group, "mlpstorage's verdicts agree")
}

/// 5: results of vector databases are not checked.
pub(super) fn vector_databases(_: &Submission, group: &RunGroup) -> Vec<Finding> {
    let fact = format!("not checked: {} is a result of a vector database", group.model);
    vec![unknown(group, fact, "run `mlpstorage validate`")]
}
