//! Descriptions of systems: rule 2.1.7.

use super::edition::Edition;
use super::rule::{Finding, advice, failed};
use super::structure::of_package;
use super::survey::Submission;
use super::system_yaml;
use super::tree::{Content, Entry, Parsed, Tree, join};
use stormlp_core::units::counted;

/// 2.1.7: each system has a description and a PDF.
pub(super) fn systems(submission: &Submission) -> Vec<Finding> {
    let mut notes = Vec::new();
    let mut findings = of_package(submission, |faults| {
        for organisation in submission.organisations() {
            let results = submission.tree.folders(&join(&organisation, "results"));
            let folder = join(&organisation, "systems");
            for system in &results {
                let place = join(&folder, system);
                description(submission, &place, faults, &mut notes);
                pdf(submission, &place, faults, &mut notes);
            }
            let known = |name: &str| {
                let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
                name.ends_with(".md") || results.contains(&stem)
            };
            let files = submission.tree.names(&folder).into_iter();
            faults.extend(files.filter(|name| !known(name)).map(|name| {
                let fact = "no system of this name has results";
                failed(join(&folder, name), fact, "name it as the folder in results/, or remove it")
            }));
        }
        "each system has its description".to_string()
    });
    findings.extend(notes);
    findings
}

/// The description at `place` with its extension; `notes` are what a rehearsal may lack.
fn description(
    submission: &Submission,
    place: &str,
    faults: &mut Vec<Finding>,
    notes: &mut Vec<Finding>,
) {
    let (tree, is_v3) = (&submission.tree, submission.edition == Edition::V3);
    let yaml = format!("{place}.yaml");
    let described = match tree.yaml(&yaml) {
        Parsed::Absent if !is_v3 => tree.json(&format!("{place}.json")),
        found => found,
    };
    let remedy = "start with `stormlp submission system-yaml`, or copy mlpstorage's";
    match described {
        Parsed::Absent => faults.push(failed(&yaml, "it is missing", remedy)),
        // Errors in the text itself are reported by field and line below.
        Parsed::Broken { path, .. } if is_v3 && tree.fault(&path).is_none() => {}
        Parsed::Broken { path, why } => {
            faults.push(failed(path, format!("it cannot be used: {why}"), remedy));
        }
        Parsed::Found { path, value } if !is_v3 && !value.is_object() => {
            faults.push(failed(path, "it describes nothing", remedy));
        }
        Parsed::Found { .. } => {}
    }
    if let Some(Entry::File { content: Content::Text(text), .. }) = tree.get(&yaml)
        && is_v3
    {
        let remedy = "`stormlp submission system-yaml --check FILE` lists every field";
        let is_rehearsal = submission.rehearsal().is_some();
        let found = system_yaml::faults(text).into_iter();
        let (blank, wrong): (Vec<_>, Vec<_>) =
            found.partition(|fault| is_rehearsal && fault.is_blank);
        if let Some(first) = blank.first() {
            let count = counted(blank.len() as u64, "field");
            let fact = format!("{count} not filled in yet, such as {first}");
            notes.push(advice(&yaml, fact, remedy));
        }
        faults.extend(wrong.iter().map(|fault| failed(&yaml, fault.to_string(), remedy)));
    }
}

/// The PDF at `place` with its extension.
fn pdf(submission: &Submission, place: &str, faults: &mut Vec<Finding>, notes: &mut Vec<Finding>) {
    let (tree, path) = (&submission.tree, format!("{place}.pdf"));
    let remedy = "write it: cover page and power table";
    match pdf_fault(tree, &path) {
        Some(_) if submission.rehearsal().is_some() && tree.get(&path).is_none() => {
            notes.push(advice(&path, "a rehearsal has none", remedy));
        }
        Some(fact) => faults.push(failed(&path, fact, remedy)),
        None => {}
    }
}

/// What is wrong with the PDF, as far as its start shows.
fn pdf_fault(tree: &Tree, path: &str) -> Option<String> {
    if let Some(why) = tree.fault(path) {
        return Some(format!("it cannot be used: {why}"));
    }
    match tree.get(path) {
        None => Some("it is missing".to_string()),
        Some(Entry::File { content: Content::Head(head), .. }) if head.contains("%PDF") => None,
        Some(_) => Some("it is not a PDF".to_string()),
    }
}
