//! Every rule on a tree, the broken ones first.

use stormlp_model::submission::{
    CheckReport, Finding, NOTICE, Official, RuleResult, Shape, Verdict,
};
use stormlp_model::units::counted;

use crate::document::Document;

/// What a check came to; rules that passed are listed where `all` is asked for.
pub fn check(report: &CheckReport, tree: &str, all: bool) -> Document {
    let mut document = Document::new(headline(report, tree));
    if report.rehearsal.is_some() {
        document.mark = Some("REHEARSAL".to_string());
    }
    let facts = &mut document.facts;
    facts.add(
        "rules",
        format!(
            "MLPerf Storage v{} ({})",
            report.edition, report.edition_from
        ),
    );
    facts.add(
        "tree",
        match report.shape {
            Shape::Package => "a package: closed/ and open/",
            Shape::Results => "a folder of results, no package",
        },
    );
    facts.add(
        "results",
        match report.results.is_empty() {
            true => "none".to_string(),
            false => report.results.join(", "),
        },
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
        let rules: Vec<&Finding> = report
            .rules
            .iter()
            .filter(|rule| rule.result == result)
            .collect();
        if rules.is_empty() || result == RuleResult::Passed && !all {
            continue;
        }
        let section = document.section(title, None);
        for rule in rules {
            section.lines.extend(lines(rule));
        }
    }
    let last = document.section("", None);
    last.lines.push(NOTICE.to_string());
    document
}

fn headline(report: &CheckReport, tree: &str) -> String {
    let failed = report
        .rules
        .iter()
        .filter(|rule| rule.result == RuleResult::Failed);
    let mut ids: Vec<&str> = failed.map(|rule| rule.id.as_str()).collect();
    ids.dedup();
    match report.verdict {
        Verdict::Invalid => format!(
            "{tree}: INVALID by the rules of v{}: {}",
            report.edition,
            ids.join(", ")
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

/// A rule in the form of the official checker's messages, and below it what to do.
fn lines(rule: &Finding) -> Vec<String> {
    let path = match rule.path.as_str() {
        "" => "the tree",
        path => path,
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
