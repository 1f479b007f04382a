//! Stamps of runs, the manifest of an organisation, and the images of source code that they name.

use std::collections::BTreeSet;

use super::leaf::{Leaf, plain};
use super::rule::{Outcome, or_passed};
use super::survey::{Group, Submission};
use super::tree::{Content, Entry, Form, Part, join, last};

const STAMP: &str = "mlps-run-provenance/1";
const MANIFEST: &str = "mlps-submission-manifest/1";

/// PROV-01: a stamp is there where one was promised, and names the image of its run.
pub(super) fn stamps(submission: &Submission, group: &Group) -> Vec<Outcome> {
    let mut faults = Vec::new();
    for leaf in group.leaves() {
        let promised = leaf.metadata.value()["provenance_file"].as_str();
        if let Some(name) = promised.filter(|_| !leaf.provenance.is_found()) {
            faults.push(Outcome::failed(
                &join(&leaf.path, last(name)),
                "the metadata names it, and it is not there",
                "copy it from the results folder that mlpstorage wrote",
            ));
        }
        if !leaf.provenance.is_found() || leaf.is_of_stormlp() {
            continue;
        }
        let stamp = leaf.provenance.value();
        let path = leaf.provenance.path().unwrap_or(&leaf.path);
        if stamp["schema"] != STAMP {
            faults.push(Outcome::failed(
                path,
                format!("its schema is {}, not {STAMP}", plain(&stamp["schema"])),
                "take it as mlpstorage wrote it",
            ));
        }
        let stamped = stamp["tool"]["code_image"].as_str().and_then(digits);
        let pointed = image_of(submission, leaf);
        if let (Some(stamped), Some(pointed)) = (&stamped, &pointed)
            && !stamped.starts_with(pointed.as_str())
            && !pointed.starts_with(stamped.as_str())
        {
            faults.push(Outcome::failed(
                path,
                format!("it names the image {stamped}, {POINTER} names {pointed}"),
                "take both as mlpstorage wrote them",
            ));
        }
    }
    or_passed(faults, &group.path, || "stamps are there where one was promised".to_string())
}

/// The file of a run that names the image of the source that ran.
const POINTER: &str = ".mlps-code-image";

/// The hash that a run's pointer names; its first digits alone, as in `code-01234567`, will do.
pub(super) fn image_of(submission: &Submission, leaf: &Leaf) -> Option<String> {
    let Some(Entry::File { content: Content::Head(text), .. }) =
        submission.tree.get(&join(&leaf.path, POINTER))
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

/// PROV-02: the manifest of an organisation lists the runs that are there, of its edition.
pub(super) fn manifest(submission: &Submission) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    let again = "run `mlpstorage reports reportgen` again";
    for organisation in submission.organisations() {
        let path = join(&organisation, "submission.yaml");
        let file = match submission.tree.part(&path, Form::Yaml) {
            Part::Absent => continue,
            Part::Broken { why, .. } => {
                let evidence = format!("it cannot be used: {why}");
                outcomes.push(Outcome::failed(&path, evidence, again));
                continue;
            }
            Part::Found { value, .. } => value,
        };
        let mut faults = Vec::new();
        if file["schema"] != MANIFEST {
            let evidence = format!("its schema is {}, not {MANIFEST}", plain(&file["schema"]));
            faults.push(Outcome::failed(&path, evidence, again));
        }
        let below = format!("{organisation}/");
        let leaves = || {
            let leaves = submission.leaves();
            leaves.filter_map(|leaf| Some((leaf, leaf.path.strip_prefix(&below)?)))
        };
        let found: BTreeSet<&str> = leaves().map(|(_, path)| path).collect();
        let runs = file["runs"].as_array().into_iter().flatten();
        let listed: BTreeSet<&str> = runs.filter_map(|run| run["leaf"].as_str()).collect();
        // What lies in benchmarks that are not looked into cannot be compared.
        let unknown = |leaf: &&&str| submission.tree.get(&join(&organisation, leaf)).is_none();
        if let Some(leaf) = found.difference(&listed).next() {
            let evidence = format!("it does not list {leaf}");
            faults.push(Outcome::failed(&path, evidence, again));
        }
        if let Some(leaf) = listed.difference(&found).find(unknown) {
            let evidence = format!("it lists {leaf}, which is not there");
            faults.push(Outcome::failed(&path, evidence, again));
        }
        let declared = &file["rules_edition"];
        let other = leaves().find(|(leaf, _)| {
            let stamped = &leaf.provenance.value()["rules_edition"];
            !stamped.is_null() && plain(stamped) != plain(declared)
        });
        if let Some((leaf, _)) = other {
            let evidence = format!(
                "rules_edition is {}, {} is stamped {}",
                plain(declared),
                leaf.path,
                plain(&leaf.provenance.value()["rules_edition"])
            );
            faults.push(Outcome::failed(&path, evidence, again));
        }
        outcomes
            .extend(or_passed(faults, &path, || "it lists the runs that are there".to_string()));
    }
    outcomes
}
