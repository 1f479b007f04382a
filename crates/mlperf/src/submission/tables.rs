//! Rules of what the report generator puts together: LEAF-01 and RPT-01.

use std::collections::BTreeSet;

use super::rule::{Finding, failed, or_passed};
use super::survey::Submission;
use super::tree::{Parsed, join, last, parent};
use stormlp_core::units::counted;

/// LEAF-01: a run of a KV cache or a vector database has one metadata file, without which nothing
/// shows what it is.
pub(super) fn identified(submission: &Submission) -> Vec<Finding> {
    let mut findings = Vec::new();
    for run in submission.other_runs.iter().filter(|run| run.command == "run") {
        let names = &run.metadata_names;
        let fault = (names.len() != 1).then(|| {
            let fact = match names.len() {
                0 => "it has no metadata; the report drops the run".to_string(),
                _ => format!("{} metadata files: {}", names.len(), names.join(", ")),
            };
            let wanted = format!("{}_{}_metadata.json", run.benchmark, last(&run.path));
            failed(run, fact, format!("keep {wanted} alone, as mlpstorage wrote it"))
        });
        findings.extend(or_passed(fault, run, "one metadata file"));
    }
    findings
}

/// RPT-01: an organisation's table and those of its workloads have the same public IDs.
pub(super) fn rollup(submission: &Submission) -> Vec<Finding> {
    let mut findings = Vec::new();
    for organisation in submission.organisations() {
        let results = join(&organisation, "results");
        let path = join(&results, "results.json");
        let mut faults = Vec::new();
        let Some(rolled) = public_ids(submission, &path, &mut faults) else {
            findings.extend(faults);
            continue;
        };
        let below = format!("{results}/");
        let tables = submission.tree.iter().map(|(path, _)| path).filter(|path| {
            last(path) == "results.json" && path.starts_with(&below) && parent(path) != results
        });
        let mut ids = BTreeSet::new();
        for table in tables {
            ids.extend(public_ids(submission, table, &mut faults).unwrap_or_default());
        }
        let mut fault = |missing: Vec<&String>, fact: &str| {
            if let Some(first) = missing.first() {
                let rows = counted(missing.len() as u64, "row");
                let remedy = "run `mlpstorage reports reportgen` again on the whole tree";
                faults.push(failed(&path, format!("{rows} {fact}, {first} first"), remedy));
            }
        };
        fault(rolled.difference(&ids).collect(), "in no workload's table");
        fault(ids.difference(&rolled).collect(), "of workloads' tables are missing");
        findings.extend(or_passed(faults, path, "the tables have the same public IDs"));
    }
    findings
}

/// The public IDs of a table; `None` without one, or where it cannot be read.
fn public_ids(
    submission: &Submission,
    path: &str,
    faults: &mut Vec<Finding>,
) -> Option<BTreeSet<String>> {
    let file = match submission.tree.json(path) {
        Parsed::Absent => return None,
        // Rule of the report itself: it names what is wrong with a workload's.
        Parsed::Broken { .. } if path.matches('/').count() > 3 => return None,
        Parsed::Broken { why, .. } => {
            let remedy = "run `mlpstorage reports reportgen` again on the whole tree";
            faults.push(failed(path, format!("it cannot be used: {why}"), remedy));
            return None;
        }
        Parsed::Found { value, .. } => value,
    };
    let rows = file.as_array()?.iter();
    let ids = rows.filter_map(|row| row["Public ID"].as_str()).filter(|id| !id.is_empty());
    Some(ids.map(str::to_string).collect())
}
