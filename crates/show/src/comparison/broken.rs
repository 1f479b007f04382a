//! Combinations that worked in the baseline and are broken now: without figures, they have no
//! verdict.

use stormlp_core::report::Ending;

use super::Named;
use crate::shown::{Subject, status};

/// Combinations measured by every baseline report but missing from a current one, and current runs
/// that did not complete although the baseline's did.
pub(super) fn broken(baseline: &[Named<'_>], now: &[Named<'_>]) -> Vec<String> {
    let mut told = Vec::new();
    let whole = |named: &Named<'_>| *named.report.ending() == Ending::Complete;
    if baseline.iter().all(whole) {
        let cut = now.iter().filter(|named| !whole(named));
        told.extend(cut.map(|named| {
            let status = status(named.report.ending());
            format!("{} is {status}, but the baseline is complete", named.name)
        }));
    }
    let before: Vec<Vec<Subject>> = baseline.iter().map(|one| one.report.subjects()).collect();
    let worked = |subject: &str| {
        before.iter().all(|cells| {
            let mut of = cells.iter().filter(|(name, _)| name == subject).peekable();
            of.peek().is_some() && of.all(|(_, fault)| fault.is_none())
        })
    };
    for named in now {
        let mut seen: Vec<String> = Vec::new();
        for (subject, fault) in named.report.subjects() {
            let Some(fault) = fault.filter(|_| !seen.contains(&subject) && worked(&subject)) else {
                continue;
            };
            told.push(format!("failed now: {subject}: {fault} ({})", named.name));
            seen.push(subject);
        }
    }
    told
}
