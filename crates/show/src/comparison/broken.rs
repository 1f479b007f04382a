//! What worked in the baseline and broke now: it has no figures, so no verdict tells of it.

use stormlp_core::matrix::CellReport;
use stormlp_core::report::{AnyReport, Ending};

use super::Named;
use crate::matrix::subject;

/// Combinations that every report of the baseline measured and one of now did not, and runs of now
/// that did not end where those of the baseline did.
pub(super) fn broken(baseline: &[Named<'_>], now: &[Named<'_>]) -> Vec<String> {
    let mut told = Vec::new();
    let whole = |named: &Named<'_>| *named.report.ending() == Ending::Complete;
    if baseline.iter().all(whole) {
        let cut = now.iter().filter(|named| !whole(named));
        told.extend(cut.map(|named| {
            let status = crate::status(named.report);
            format!("{} is {status}, and the baseline complete", named.name)
        }));
    }
    let before: Vec<Vec<(String, Option<String>)>> =
        baseline.iter().map(|one| cells(one.report)).collect();
    let worked = |subject: &str| {
        before.iter().all(|cells| {
            let mut of = cells.iter().filter(|(name, _)| name == subject).peekable();
            of.peek().is_some() && of.all(|(_, fault)| fault.is_none())
        })
    };
    for named in now {
        let mut seen: Vec<String> = Vec::new();
        for (subject, fault) in cells(named.report) {
            let Some(fault) = fault.filter(|_| !seen.contains(&subject) && worked(&subject)) else {
                continue;
            };
            told.push(format!("failed now: {subject}: {fault} ({})", named.name));
            seen.push(subject);
        }
    }
    told
}

/// The combination of every cell that was planned, and why it has no numbers, where it has none.
fn cells(report: &AnyReport) -> Vec<(String, Option<String>)> {
    let AnyReport::Gds(report) = report else {
        return Vec::new();
    };
    let done = &report.results.cells;
    let planned = report.plan.cells.iter().enumerate();
    let left_out = planned.filter(|(index, _)| done.iter().all(|cell| cell.cell != *index)).map(
        |(index, planned)| {
            let cell = CellReport::without_numbers(index, planned, "it did not run");
            (subject(report, &cell), cell.reason)
        },
    );
    let done = done.iter().map(|cell| {
        let reason = cell.reason.clone().unwrap_or_default();
        let fault = cell.result().is_none().then_some(reason);
        (subject(report, cell), fault)
    });
    done.chain(left_out).collect()
}
