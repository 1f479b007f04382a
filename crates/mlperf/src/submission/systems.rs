//! Descriptions of systems: rules 2.1.7 to 2.1.9, 4.7.3 and 4.7.4.

use super::figures::{number, rounded, shown};
use super::leaf::plain;
use super::rule::{Finding, failed, package_rule};
use super::survey::{RunGroup, Submission};
use super::system_yaml::{self, YamlFault};
use super::tree::{Entry, Tree, join};

/// 2.1.7: each system has a description and a PDF.
pub(super) fn systems(submission: &Submission) -> Vec<Finding> {
    let tree = &submission.tree;
    package_rule(submission, |faults| {
        for organisation in submission.organisations() {
            let results = tree.folders(&join(&organisation, "results"));
            let folder = join(&organisation, "systems");
            for system in &results {
                let [yaml, pdf] =
                    ["yaml", "pdf"].map(|end| join(&folder, &format!("{system}.{end}")));
                let remedy = "start with `stormlp submission describe`, or copy mlpstorage's";
                faults.extend(unusable(tree, &yaml).map(|fact| failed(&yaml, fact, remedy)));
                let remedy = "write it: cover page and power table";
                faults.extend(pdf_fault(tree, &pdf).map(|fact| failed(&pdf, fact, remedy)));
            }
            let known = |name: &str| {
                let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
                name.ends_with(".md") || results.contains(&stem)
            };
            let files = tree.names(&folder).into_iter();
            faults.extend(files.filter(|name| !known(name)).map(|name| {
                let fact = "no system of this name has results";
                failed(join(&folder, name), fact, "name it as the folder in results/, or remove it")
            }));
        }
        faults.extend(described(submission, DESCRIPTIONS));
        "each system has its description".to_string()
    })
}

/// Why the file at `path` cannot be used.
fn unusable(tree: &Tree, path: &str) -> Option<String> {
    match tree.fault(path) {
        Some(why) => Some(format!("it cannot be used: {why}")),
        None => tree.get(path).is_none().then(|| "it is missing".to_string()),
    }
}

/// The fault of the PDF, as far as its start shows one.
fn pdf_fault(tree: &Tree, path: &str) -> Option<String> {
    unusable(tree, path).or_else(|| match tree.get(path) {
        Some(Entry::Text(head)) if head.contains("%PDF") => None,
        _ => Some("it is not a PDF".to_string()),
    })
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

/// The faults of all descriptions that break `rule`.
fn described(submission: &Submission, rule: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for organisation in submission.organisations() {
        let folder = join(&organisation, "systems");
        let names = submission.tree.files(&folder).into_iter();
        for yaml in names.filter(|name| name.ends_with(".yaml")).map(|name| join(&folder, name)) {
            let Some(Entry::Text(text)) = submission.tree.get(&yaml) else {
                continue;
            };
            let faults =
                system_yaml::faults(text).into_iter().filter(|fault| rule_of(fault) == rule);
            let remedy = "`stormlp submission describe --check FILE` lists every field";
            findings.extend(faults.map(|fault| failed(&yaml, fault.to_string(), remedy)));
        }
    }
    findings
}

/// 4.7.3: each description states the time for remapping, 0 only if none is needed.
pub(super) fn remap_time(submission: &Submission) -> Vec<Finding> {
    package_rule(submission, |faults| {
        faults.extend(described(submission, REMAP_TIME));
        "descriptions state the time for remapping".to_string()
    })
}

/// 4.7.4: each description says whether hosts may read and write at the same time.
pub(super) fn capabilities(submission: &Submission) -> Vec<Finding> {
    package_rule(submission, |faults| {
        faults.extend(described(submission, CAPABILITIES));
        "descriptions say what hosts may do at the same time".to_string()
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
    let name = description.value["system_under_test"]["solution"]["submission_name"].as_str()?;
    let fact = format!("its submission_name is {name}, the folder of its results {system}");
    (name != system).then(|| failed(yaml, fact, "give both the same name"))
}

/// The official checker lets memory differ by this share from the description: the kernel does not
/// count all of it.
const MEMORY_SHARE: f64 = 0.1;

/// 2.1.9: runs on other hosts than the description of their system has.
pub(super) fn unlike_described(submission: &Submission, group: &RunGroup) -> Vec<Finding> {
    let system = submission.description(group);
    let clients = system["clients"].as_array().map_or(&[][..], Vec::as_slice);
    let count: Option<f64> = clients.iter().map(|client| number(&client["quantity"])).sum();
    let memory = match clients {
        [one] => number(&one["chassis"]["memory_capacity"]).filter(|stated| *stated > 0.0),
        // Which host has which memory is not known.
        _ => None,
    };
    let multi_host = &system["solution"]["capabilities"]["multi_host"];
    let is_single = system_yaml::truth_of(&plain(multi_host)) == Some(false);
    let mut faults = Vec::new();
    for leaf in &group.runs {
        let Some(hosts) = leaf.figure("num_hosts").filter(|hosts| *hosts > 0.0) else { continue };
        let of_hosts = format!("num_hosts is {}", shown(hosts));
        let each = leaf.memory_gib().map(|all| all / hosts).zip(memory);
        let facts = [
            count.filter(|count| *count > 0.0 && *count != hosts).map(|count| {
                format!("{of_hosts}; the description of its system has {}", shown(count))
            }),
            (is_single && hosts > 1.0)
                .then(|| format!("{of_hosts}, and multi_host of its system is false")),
            each.filter(|(each, stated)| (each / stated - 1.0).abs() > MEMORY_SHARE).map(
                |(each, stated)| {
                    let (each, stated) = (rounded(each), shown(stated));
                    format!("hosts have {each} GiB of memory; the description has {stated}")
                },
            ),
        ];
        let remedy = "describe the clients of the runs, or name this as another system";
        faults.extend(facts.into_iter().flatten().map(|fact| failed(leaf, fact, remedy)));
    }
    faults
}
