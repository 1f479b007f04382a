//! Findings of the check of a tree, failures first.

use crate::submission::FindingKind::{Advice, Failed, Passed, PassedOpen, Unknown, Warned};
use crate::submission::TreeVerdict;
use crate::submission::{CheckReport, Finding, FindingKind, NOTICE, Official};
use stormlp_core::units::counted;

use stormlp_show::document::Document;

/// The sections: fact, title and kinds of findings.
const SECTIONS: [(&str, &str, [FindingKind; 2]); 4] = [
    ("passed", "Passed", [Passed, PassedOpen]),
    ("failed", "Failed", [Failed, Failed]),
    ("warnings", "Warnings: the verdict does not depend on them", [Warned, Warned]),
    ("cannot be checked", "Cannot be checked", [Unknown, Advice]),
];

/// The report; rules that passed are listed with `all` only.
pub fn check(report: &CheckReport, tree: &str, all: bool) -> Document {
    let mut document = Document::new(headline(report, tree));
    if report.rehearsal.is_some() {
        document.mark = Some("REHEARSAL".to_string());
    }
    let facts = &mut document.brief;
    facts.add("edition", format!("{} ({})", report.edition, report.edition_from));
    let results = report.results.join(", ");
    facts.add("results", if results.is_empty() { "none" } else { &results });
    if let Some(mark) = &report.rehearsal {
        facts.add("rehearsal", format!("stormlp made {mark}"));
    }
    let of = |kinds: [FindingKind; 2]| -> Vec<&Finding> {
        report.rules.iter().filter(|rule| kinds.contains(&rule.kind)).collect()
    };
    for (name, _, kinds) in SECTIONS {
        facts.add(name, counted(of(kinds).len() as u64, "place"));
    }
    let [passed, failed, warned, unknown] = SECTIONS;
    let listed = [failed, unknown, warned].into_iter().chain(all.then_some(passed));
    for (_, title, kinds) in listed.filter(|(_, _, kinds)| !of(*kinds).is_empty()) {
        let section = document.section(title, None);
        for alike in grouped(&of(kinds)) {
            section.lines.extend(lines(alike[0], alike.len() - 1));
        }
    }
    document.section("", None).lines.push(NOTICE.to_string());
    document
}

fn headline(report: &CheckReport, tree: &str) -> String {
    let failed = report.rules.iter().filter(|rule| rule.kind == Failed);
    let mut ids: Vec<&str> = failed.map(|rule| rule.id).collect();
    ids.dedup();
    let met = "every rule that can be checked is met";
    let verdict = match report.verdict {
        TreeVerdict::Invalid => format!("INVALID by the rules of v3.0: {}", ids.join(", ")),
        TreeVerdict::Incomplete => {
            format!("INCOMPLETE: cannot check {}", report.blocked_by.join(", "))
        }
        TreeVerdict::Open => format!("{met}; open division"),
        TreeVerdict::Closed => format!("{met}; closed division"),
        TreeVerdict::Rehearsal => {
            "runs of stormlp that break none of the rules; not a submission".to_string()
        }
    };
    format!("{tree}: {verdict}")
}

/// Findings that differ in their places alone, together.
fn grouped<'a>(rules: &[&'a Finding]) -> Vec<Vec<&'a Finding>> {
    let parts = |rule: &'a Finding| (rule.id, &rule.fact, &rule.remedy, rule.official);
    let mut groups: Vec<Vec<&Finding>> = Vec::new();
    for rule in rules {
        match groups.iter_mut().find(|group| parts(group[0]) == parts(rule)) {
            Some(group) => group.push(rule),
            None => groups.push(vec![rule]),
        }
    }
    groups
}

/// A finding in the form of the official checker's messages, and its remedy below. The same holds at
/// so many `others`.
fn lines(rule: &Finding, others: usize) -> Vec<String> {
    let path = match (rule.path.as_str(), others) {
        ("", _) => "the tree".to_string(),
        (path, 0) => path.to_string(),
        (path, others) => format!("{path} and {}", counted(others as u64, "more place")),
    };
    let official = match rule.official {
        Some(Official::Fails) => "fails",
        Some(Official::Warns) => "warns",
        Some(Official::Silent) | None => "silent",
    };
    let official = format!("official checker: {official}");
    let first = format!("[{} {}] {path}: {}", rule.id, rule.name, rule.fact);
    let second = match (rule.kind, rule.remedy.as_str()) {
        (Passed | PassedOpen, _) => return vec![format!("{first}  ({official})")],
        (_, "") => format!("    {official}"),
        (_, remedy) => format!("    {remedy} ({official})"),
    };
    vec![first, second]
}
