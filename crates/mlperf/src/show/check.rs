//! What a check of a tree found, failures first.

use crate::submission::FindingKind::{Advice, Failed, Passed, PassedOpen, Unknown, Warned};
use crate::submission::{CheckReport, FindingKind, NOTICE, Official, RuleFinding};
use crate::submission::{TreeShape, TreeVerdict};
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
    let shape = match report.shape {
        TreeShape::Package => "a package: closed/ and open/",
        TreeShape::Results => "a results folder, not a package",
    };
    facts.add("tree", shape);
    let results = report.results.join(", ");
    facts.add("results", if results.is_empty() { "none" } else { &results });
    if let Some(mark) = &report.rehearsal {
        facts.add("rehearsal", format!("stormlp made {mark}"));
    }
    let of = |kinds: [FindingKind; 2]| -> Vec<&RuleFinding> {
        report.rules.iter().filter(|rule| kinds.contains(&rule.finding.kind)).collect()
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
    let failed = report.rules.iter().filter(|rule| rule.finding.kind == Failed);
    let mut ids: Vec<&str> = failed.map(|rule| rule.id).collect();
    ids.dedup();
    match report.verdict {
        TreeVerdict::Invalid => {
            format!("{tree}: INVALID by the rules of v3.0: {}", ids.join(", "))
        }
        TreeVerdict::Incomplete => {
            format!("{tree}: INCOMPLETE: cannot check {}", report.blocked_by.join(", "))
        }
        TreeVerdict::Open => {
            format!("{tree}: every rule that can be checked is met; open division")
        }
        TreeVerdict::Closed => {
            format!("{tree}: every rule that can be checked is met; closed division")
        }
        TreeVerdict::Rehearsal => {
            format!("{tree}: runs of stormlp that break none of the rules; not a submission")
        }
    }
}

/// Findings that differ in their places alone, together.
fn grouped<'a>(rules: &[&'a RuleFinding]) -> Vec<Vec<&'a RuleFinding>> {
    fn parts(rule: &RuleFinding) -> (&str, &str, &str, Official) {
        (rule.id, &rule.finding.fact, &rule.finding.remedy, rule.official)
    }
    let mut groups: Vec<Vec<&RuleFinding>> = Vec::new();
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
fn lines(rule: &RuleFinding, others: usize) -> Vec<String> {
    let finding = &rule.finding;
    let path = match (finding.path.as_str(), others) {
        ("", _) => "the tree".to_string(),
        (path, 0) => path.to_string(),
        (path, others) => format!("{path} and {}", counted(others as u64, "more place")),
    };
    let official = match rule.official {
        Official::Fails => "official checker: fails",
        Official::Warns => "official checker: warns",
        Official::Silent => "official checker: silent",
    };
    let first = format!("[{} {}] {path}: {}", rule.id, rule.name, finding.fact);
    let second = match (finding.kind, finding.remedy.as_str()) {
        (Passed | PassedOpen, _) => return vec![format!("{first}  ({official})")],
        (_, "") => format!("    {official}"),
        (_, remedy) => format!("    {remedy} ({official})"),
    };
    vec![first, second]
}
