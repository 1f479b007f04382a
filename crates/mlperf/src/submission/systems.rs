//! Descriptions of systems: rule 2.1.7.

use super::rule::Outcome;
use super::structure::of_package;
use super::survey::{Edition, Submission};
use super::system_yaml;
use super::tree::{Content, Entry, Form, Part, Tree, join};
use stormlp_core::units::counted;

/// 2.1.7: descriptions of systems.
pub(super) fn systems(submission: &Submission) -> Vec<Outcome> {
    let is_rehearsal = submission.rehearsal().is_some();
    let mut unknown = Vec::new();
    let mut outcomes = of_package(submission, |faults| {
        for organisation in submission.organisations() {
            let results = submission.tree.folders(&join(&organisation, "results"));
            let folder = join(&organisation, "systems");
            for system in &results {
                system_files(submission, &folder, system, is_rehearsal, faults, &mut unknown);
            }
            let known = |name: &str| {
                let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
                name.ends_with(".md") || results.contains(&stem)
            };
            let files = submission.tree.names(&folder).into_iter();
            for name in files.filter(|name| !known(name)) {
                faults.push(Outcome::failed(
                    &join(&folder, name),
                    "it describes no system that has results",
                    "name it as the folder below results/ is, or remove it",
                ));
            }
        }
        "each system has its description".to_string()
    });
    outcomes.extend(unknown);
    outcomes
}

fn system_files(
    submission: &Submission,
    folder: &str,
    system: &str,
    is_rehearsal: bool,
    faults: &mut Vec<Outcome>,
    unknown: &mut Vec<Outcome>,
) {
    let tree = &submission.tree;
    let yaml = join(folder, &format!("{system}.yaml"));
    let pdf = join(folder, &format!("{system}.pdf"));
    let is_v3 = submission.edition == Edition::V3;
    let json = join(folder, &format!("{system}.json"));
    let described = match tree.part(&yaml, Form::Yaml) {
        Part::Absent if !is_v3 => tree.part(&json, Form::Json),
        found => found,
    };
    let remedy = "start with `stormlp submission system-yaml`, or copy mlpstorage's";
    match described {
        Part::Absent => faults.push(Outcome::failed(&yaml, "it is not there", remedy)),
        // What is wrong in the text itself is told by field and line below.
        Part::Broken { path, .. } if is_v3 && tree.fault(&path).is_none() => {}
        Part::Broken { path, why } => {
            let evidence = format!("it cannot be used: {why}");
            faults.push(Outcome::failed(&path, evidence, remedy));
        }
        Part::Found { path, value } if !is_v3 && !value.is_object() => {
            faults.push(Outcome::failed(&path, "it describes nothing", remedy));
        }
        Part::Found { .. } => {}
    }
    let remedy = "write it: cover page and power table";
    match pdf_fault(tree, &pdf) {
        Some(_) if is_rehearsal && tree.get(&pdf).is_none() => {
            unknown.push(Outcome::noted(&pdf, "a rehearsal has none", remedy));
        }
        Some(what) => faults.push(Outcome::failed(&pdf, what, remedy)),
        None => {}
    }
    if let Some(Entry::File { content: Content::Text(text), .. }) = tree.get(&yaml)
        && is_v3
    {
        let check = "`stormlp submission system-yaml --check FILE` tells each field alone";
        let found = system_yaml::faults(text).into_iter();
        let (blank, wrong): (Vec<_>, Vec<_>) =
            found.partition(|fault| is_rehearsal && fault.is_blank);
        if let Some(first) = blank.first() {
            let what =
                format!("{} not filled in yet, as {first}", counted(blank.len() as u64, "field"));
            unknown.push(Outcome::noted(&yaml, what, check));
        }
        faults.extend(wrong.iter().map(|fault| Outcome::failed(&yaml, fault.to_string(), check)));
    }
}

/// What is wrong with the PDF of a system, as far as its beginning tells.
fn pdf_fault(tree: &Tree, path: &str) -> Option<String> {
    if let Some(why) = tree.fault(path) {
        return Some(format!("it cannot be used: {why}"));
    }
    match tree.get(path) {
        None => Some("it is not there".to_string()),
        Some(Entry::File { content: Content::Head(head), .. }) if head.contains("%PDF") => None,
        Some(_) => Some("it is no PDF".to_string()),
    }
}
