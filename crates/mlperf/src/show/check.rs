//! Every rule on a tree, the broken ones first.

use crate::submission::{CheckReport, Finding, NOTICE, Official, RuleResult, Shape, Verdict};
use stormlp_core::units::counted;

use stormlp_show::document::Document;

/// What a check came to; rules that passed are listed where `all` is asked for.
pub fn check(report: &CheckReport, tree: &str, all: bool) -> Document {
    let mut document = Document::new(headline(report, tree));
    if report.rehearsal.is_some() {
        document.mark = Some("REHEARSAL".to_string());
    }
    let facts = &mut document.facts;
    facts.add("rules", format!("MLPerf Storage v{} ({})", report.edition, report.edition_from));
    facts.add(
        "tree",
        match report.shape {
            Shape::Package => "a package: closed/ and open/",
            Shape::Results => "a folder of results, no package",
        },
    );
    facts.add(
        "results",
        if report.results.is_empty() { "none".to_string() } else { report.results.join(", ") },
    );
    if let Some(mark) = &report.rehearsal {
        facts.add("rehearsal", format!("stormlp made it ({mark})"));
    }
    let of = |result| counted(report.count(result) as u64, "place");
    facts.add("passed", of(RuleResult::Passed));
    facts.add("failed", of(RuleResult::Failed));
    facts.add("cannot be checked", of(RuleResult::NotCheckable));
    for (result, title) in [
        (RuleResult::Failed, "Failed"),
        (RuleResult::NotCheckable, "Cannot be checked"),
        (RuleResult::Passed, "Passed"),
    ] {
        let rules: Vec<&Finding> =
            report.rules.iter().filter(|rule| rule.result == result).collect();
        if rules.is_empty() || result == RuleResult::Passed && !all {
            continue;
        }
        let section = document.section(title, None);
        for alike in grouped(&rules) {
            section.lines.extend(lines(alike[0], alike.len() - 1));
        }
    }
    let last = document.section("", None);
    last.lines.push(NOTICE.to_string());
    document
}

fn headline(report: &CheckReport, tree: &str) -> String {
    let failed = report.rules.iter().filter(|rule| rule.result == RuleResult::Failed);
    let mut ids: Vec<&str> = failed.map(|rule| rule.id.as_str()).collect();
    ids.dedup();
    match report.verdict {
        Verdict::Invalid => {
            format!("{tree}: INVALID by the rules of v{}: {}", report.edition, ids.join(", "))
        }
        Verdict::Incomplete => format!(
            "{tree}: INCOMPLETE: it does not tell whether it keeps {} of v{}",
            report.held_up_by.join(", "),
            report.edition
        ),
        Verdict::Open => format!("{tree}: no rule is broken that can be checked; open division"),
        Verdict::Closed => {
            format!("{tree}: no rule is broken that can be checked; closed division")
        }
        Verdict::Rehearsal => {
            format!("{tree}: a rehearsal that breaks no rule it can keep; no submission")
        }
    }
}

/// Findings that differ in their places alone, together.
fn grouped<'a>(rules: &[&'a Finding]) -> Vec<Vec<&'a Finding>> {
    let alike = |a: &Finding, b: &Finding| {
        (&a.id, &a.evidence, &a.remedy, a.official) == (&b.id, &b.evidence, &b.remedy, b.official)
    };
    let mut groups: Vec<Vec<&Finding>> = Vec::new();
    for rule in rules {
        let mut known = groups.iter_mut();
        match known.find(|group| alike(group[0], rule)) {
            Some(group) => group.push(rule),
            None => groups.push(vec![rule]),
        }
    }
    groups
}

/// A rule in the form of the official checker's messages, and below it what to do; it says the same
/// of so many other places.
fn lines(rule: &Finding, others: usize) -> Vec<String> {
    let path = match (rule.path.as_str(), others) {
        ("", _) => "the tree".to_string(),
        (path, 0) => path.to_string(),
        (path, others) => format!("{path} and {} more", counted(others as u64, "place")),
    };
    let official = match rule.official {
        Official::Same => "official checker: same",
        Official::Silent => "official checker: silent",
        Official::Stricter => "official checker: stricter",
    };
    let first = format!("[{} {}] {path}: {}", rule.id, rule.name, rule.evidence);
    let second = match (rule.result, rule.remedy.as_str()) {
        (RuleResult::Passed, _) => return vec![format!("{first}  ({official})")],
        (_, "") => format!("    {official}"),
        (_, remedy) => format!("    {remedy} ({official})"),
    };
    vec![first, second]
}
