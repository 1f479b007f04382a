//! Descriptions of systems: rules 2.1.7 to 2.1.9, 4.7.3 and 4.7.4.

use super::edition::Edition;
use super::figures::{number, rounded, shown};
use super::leaf::plain;
use super::object;
use super::rule::{Finding, advice, failed};
use super::structure::of_package;
use super::survey::{RunGroup, Submission};
use super::system_yaml::{self, YamlFault};
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
    let remedy = "`stormlp submission system-yaml --check FILE` lists every field";
    let is_rehearsal = submission.rehearsal().is_some();
    let (blank, wrong): (Vec<_>, Vec<_>) =
        faults_of(submission, &yaml).into_iter().partition(|fault| is_rehearsal && fault.is_blank);
    if let Some(first) = blank.first() {
        let count = counted(blank.len() as u64, "field");
        let fact = format!("{count} not filled in yet, such as {first}");
        notes.push(advice(&yaml, fact, remedy));
    }
    let wrong = wrong.iter().filter(|fault| rule_of(fault) == DESCRIPTIONS);
    faults.extend(wrong.map(|fault| failed(&yaml, fault.to_string(), remedy)));
}

const DESCRIPTIONS: &str = "2.1.7";
const REMAP_TIME: &str = "4.7.3";
const CAPABILITIES: &str = "4.7.4";

/// The rule that a fault of a description breaks, as the official checker assigns it.
fn rule_of(fault: &YamlFault) -> &'static str {
    match fault.field.strip_prefix("system_under_test.solution.capabilities") {
        Some("" | ".remap_time_in_seconds") => REMAP_TIME,
        Some(".multi_host" | ".simultaneous_write" | ".simultaneous_read") => CAPABILITIES,
        _ => DESCRIPTIONS,
    }
}

/// The faults of the description `yaml`; v2.0 has no schema.
fn faults_of(submission: &Submission, yaml: &str) -> Vec<YamlFault> {
    match submission.tree.get(yaml) {
        Some(Entry::File { content: Content::Text(text), .. })
            if submission.edition == Edition::V3 =>
        {
            system_yaml::faults(text)
        }
        _ => Vec::new(),
    }
}

/// 4.7.3: each description has the time that remapping takes, 0 exactly where none is needed.
pub(super) fn remap_time(submission: &Submission) -> Vec<Finding> {
    declared(submission, REMAP_TIME, "descriptions have the time that remapping takes")
}

/// 4.7.4: each description says whether hosts may read and write at the same time.
pub(super) fn capabilities(submission: &Submission) -> Vec<Finding> {
    declared(submission, CAPABILITIES, "descriptions say what hosts may do at the same time")
}

fn declared(submission: &Submission, rule: &str, fact: &str) -> Vec<Finding> {
    let is_rehearsal = submission.rehearsal().is_some();
    of_package(submission, |faults| {
        for organisation in submission.organisations() {
            let folder = join(&organisation, "systems");
            let names = submission.tree.files(&folder).into_iter();
            for yaml in names.filter(|name| name.ends_with(".yaml")).map(|name| join(&folder, name))
            {
                let found = faults_of(submission, &yaml).into_iter();
                // Another rule counts what a rehearsal has not filled in.
                let found = found.filter(|fault| !(is_rehearsal && fault.is_blank));
                let remedy = "`stormlp submission system-yaml --check FILE` lists every field";
                let of_rule = found.filter(|fault| rule_of(fault) == rule);
                faults.extend(of_rule.map(|fault| failed(&yaml, fault.to_string(), remedy)));
            }
        }
        fact.to_string()
    })
}

/// 2.1.8: the fault where the description of `system` has another name.
pub(super) fn misnamed(
    submission: &Submission,
    organisation: &str,
    system: &str,
) -> Option<Finding> {
    let yaml = join(organisation, &format!("systems/{system}.yaml"));
    let description = submission.tree.yaml(&yaml);
    let name = description.value()["system_under_test"]["solution"]["submission_name"].as_str()?;
    let fact = format!("its submission_name is {name}, the folder of its results {system}");
    let is_wrong = name != system && submission.rehearsal().is_none();
    is_wrong.then(|| failed(yaml, fact, "give both the same name"))
}

/// The official checker lets memory differ by this share from what is described: the kernel does not
/// count all of it.
const MEMORY_SHARE: f64 = 0.1;

/// 2.1.9: runs on other hosts than the description of their system has. A rehearsal's is a draft.
pub(super) fn unlike_described(submission: &Submission, group: &RunGroup) -> Vec<Finding> {
    if submission.rehearsal().is_some() {
        return Vec::new();
    }
    let description = object::description(submission, group);
    let system = &description["system_under_test"];
    let clients = system["clients"].as_array().map_or(&[][..], Vec::as_slice);
    let count: Option<f64> = clients.iter().map(|client| number(&client["quantity"])).sum();
    let memory = match clients {
        [one] => number(&one["chassis"]["memory_capacity"]),
        // Which host has which memory is not known.
        _ => None,
    };
    let multi_host = &system["solution"]["capabilities"]["multi_host"];
    let is_single = system_yaml::truth_of(&plain(multi_host)) == Some(false);
    let mut faults = Vec::new();
    for leaf in &group.runs {
        let Some(hosts) = leaf.figure("num_hosts").filter(|hosts| *hosts > 0.0) else { continue };
        let mut fault = |fact: String| {
            let remedy = "describe the clients of the runs, or name this as another system";
            faults.push(failed(leaf, fact, remedy));
        };
        if let Some(count) = count.filter(|count| *count > 0.0 && *count != hosts) {
            let (hosts, count) = (shown(hosts), shown(count));
            fault(format!("num_hosts is {hosts}; the description of its system has {count}"));
        }
        if is_single && hosts > 1.0 {
            let hosts = shown(hosts);
            fault(format!("num_hosts is {hosts}, and multi_host of its system is false"));
        }
        let each = leaf.memory_gib().map(|all| all / hosts);
        if let Some((each, stated)) = each.zip(memory.filter(|stated| *stated > 0.0))
            && (each / stated - 1.0).abs() > MEMORY_SHARE
        {
            let (each, stated) = (rounded(each), shown(stated));
            fault(format!(
                "hosts have {each} GiB of memory; the description of its system has {stated}"
            ));
        }
    }
    faults
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
