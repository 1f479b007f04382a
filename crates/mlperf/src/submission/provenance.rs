//! Rules of provenance: stamps of runs, an organisation's manifest, and the marks of a rehearsal.

use std::collections::BTreeSet;

use super::leaf::{Leaf, plain};
use super::marks::REHEARSAL_ORGANISATION;
use super::object;
use super::rule::{COPY_FROM_RESULTS, Finding, failed, or_passed};
use super::survey::{RunGroup, Submission};
use super::tree::{Content, Entry, Parsed, join, last};

const STAMP: &str = "mlps-run-provenance/1";
const MANIFEST: &str = "mlps-submission-manifest/1";
/// The file of a run that names the image of the source that ran.
const POINTER: &str = ".mlps-code-image";

/// PROV-01: a run has the stamp that its metadata names, with the image that it ran.
pub(super) fn stamps(submission: &Submission, group: &RunGroup) -> Vec<Finding> {
    let mut faults = Vec::new();
    for leaf in group.leaves() {
        let named = leaf.metadata.value()["provenance_file"].as_str();
        if let Some(name) = named.filter(|_| !leaf.provenance.is_found()) {
            let place = join(&leaf.path, last(name));
            faults.push(failed(
                place,
                "the metadata names it, but it is missing",
                COPY_FROM_RESULTS,
            ));
        }
        if !leaf.provenance.is_found() || leaf.is_of_stormlp() {
            continue;
        }
        let stamp = leaf.provenance.value();
        let path = leaf.provenance.path().unwrap_or(&leaf.path);
        if stamp["schema"] != STAMP {
            let fact = format!("its schema is {}, not {STAMP}", plain(&stamp["schema"]));
            faults.push(failed(path, fact, "copy it again as mlpstorage wrote it"));
        }
        faults.extend(object::library_fault(leaf, path));
        let stamped = stamp["tool"]["code_image"].as_str().and_then(digits);
        let pointed = image_of(submission, leaf);
        if let (Some(stamped), Some(pointed)) = (&stamped, &pointed)
            && !stamped.starts_with(pointed.as_str())
            && !pointed.starts_with(stamped.as_str())
        {
            let fact = format!("it names the image {stamped}, {POINTER} names {pointed}");
            faults.push(failed(path, fact, "copy both again as mlpstorage wrote them"));
        }
    }
    or_passed(faults, group, "every stamp that the metadata names exists")
}

/// The hash of a run's image by its pointer, maybe its first digits alone, as in `code-01234567`.
pub(super) fn image_of(submission: &Submission, leaf: &Leaf) -> Option<String> {
    image_at(submission, &leaf.path)
}

/// The same of the run in the folder `path`.
pub(super) fn image_at(submission: &Submission, path: &str) -> Option<String> {
    let Some(Entry::File { content: Content::Head(text), .. }) =
        submission.tree.get(&join(path, POINTER))
    else {
        return None;
    };
    digits(text)
}

/// The hexadecimal digits of a hash in `md5-tree-v2:0123…` or `code-01234567`.
fn digits(text: &str) -> Option<String> {
    let words = text.split(|c: char| !c.is_ascii_hexdigit());
    let hash = words.filter(|word| word.len() >= 8).max_by_key(|word| word.len())?;
    Some(hash.to_ascii_lowercase())
}

/// PROV-02: an organisation's manifest lists its runs, of its edition.
pub(super) fn manifest(submission: &Submission) -> Vec<Finding> {
    let mut findings = Vec::new();
    for organisation in submission.organisations() {
        let path = join(&organisation, "submission.yaml");
        let mut faults = Vec::new();
        let mut fault = |fact: String| {
            faults.push(failed(&path, fact, "run `mlpstorage reports reportgen` again"))
        };
        let file = match submission.tree.yaml(&path) {
            Parsed::Absent => continue,
            Parsed::Broken { why, .. } => {
                fault(format!("it cannot be used: {why}"));
                findings.extend(faults);
                continue;
            }
            Parsed::Found { value, .. } => value,
        };
        if file["schema"] != MANIFEST {
            fault(format!("its schema is {}, not {MANIFEST}", plain(&file["schema"])));
        }
        let below = format!("{organisation}/");
        let leaves = || {
            let leaves = submission.leaves();
            leaves.filter_map(|leaf| Some((leaf, leaf.path.strip_prefix(&below)?)))
        };
        let found: BTreeSet<&str> = leaves().map(|(_, path)| path).collect();
        let runs = file["runs"].as_array().into_iter().flatten();
        let listed: BTreeSet<&str> = runs.filter_map(|run| run["leaf"].as_str()).collect();
        if let Some(leaf) = found.difference(&listed).next() {
            fault(format!("it does not list {leaf}"));
        }
        // Runs of benchmarks that are not checked exist without being found.
        let is_missing = |leaf: &&&str| submission.tree.get(&join(&organisation, leaf)).is_none();
        if let Some(leaf) = listed.difference(&found).find(is_missing) {
            fault(format!("it lists {leaf}, which is missing"));
        }
        let declared = plain(&file["rules_edition"]);
        let others = leaves().find_map(|(leaf, _)| {
            let stamped = &leaf.provenance.value()["rules_edition"];
            let differs = !stamped.is_null() && plain(stamped) != declared;
            differs.then(|| (leaf, plain(stamped)))
        });
        if let Some((leaf, stamped)) = others {
            fault(format!("rules_edition is {declared}, {} is stamped {stamped}", leaf.path));
        }
        findings.extend(or_passed(faults, path, "it lists the runs of the tree"));
    }
    findings
}

const REHEARSE_AGAIN: &str =
    "copy it again as `stormlp submission rehearse` wrote it, or rehearse again";

/// The marks of a rehearsed result: a stamp in each run, and a table. Other results have none.
pub(super) fn rehearsal(submission: &Submission, group: &RunGroup) -> Vec<Finding> {
    if !group.path.split('/').any(|part| part == REHEARSAL_ORGANISATION) {
        return Vec::new();
    }
    let stamped = group.runs.iter().chain(&group.datagen);
    let stamps = stamped.filter_map(|leaf| {
        let fact = stamp_fault(leaf)?;
        Some(failed(join(&leaf.path, "provenance.json"), fact, REHEARSE_AGAIN))
    });
    let table = join(&group.run_folder(), "results.csv");
    let fault = table_fault(submission.tree.get(&table));
    let fault = fault.map(|fact| failed(table, fact, REHEARSE_AGAIN));
    or_passed(stamps.chain(fault), group, "stamps and results.csv name stormlp")
}

fn stamp_fault(leaf: &Leaf) -> Option<String> {
    match &leaf.provenance {
        Parsed::Absent => Some("it is missing".to_string()),
        Parsed::Broken { why, .. } => Some(format!("it cannot be used: {why}")),
        Parsed::Found { value, .. } => {
            let tool = &value["tool"]["name"];
            (tool != "stormlp").then(|| format!("its tool is {}, not stormlp", plain(tool)))
        }
    }
}

/// What is wrong with a rehearsal's table; each row must bear its mark.
fn table_fault(entry: Option<&Entry>) -> Option<String> {
    let text = match entry {
        Some(Entry::File { content: Content::Head(text), .. }) => text,
        Some(Entry::File { content: Content::Unreadable(why), .. }) => {
            return Some(format!("it cannot be read: {why}"));
        }
        Some(_) => return Some("it is not a regular file".to_string()),
        None => return Some("it is missing".to_string()),
    };
    let rows = || text.lines().skip(1).filter(|row| !row.trim().is_empty());
    let mark = format!("REHEARSAL,{REHEARSAL_ORGANISATION},REHEARSAL,");
    if rows().next().is_none() {
        return Some("it has no row".to_string());
    }
    let marked = rows().all(|row| row.starts_with(&mark));
    (!marked).then(|| "a row lacks the mark REHEARSAL".to_string())
}
