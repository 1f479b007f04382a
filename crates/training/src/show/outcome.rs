//! Summarises a report for a list: its figure and its verdict.

use crate::report::TrainReport;
use stormlp_core::report::Ending;

use stormlp_show::document::Quantity;
use stormlp_show::outcome::Outcome;

pub(super) fn outcome(report: &TrainReport, status: String) -> Outcome {
    let results = &report.results;
    if let Some(find) = &results.find_max {
        let largest = f64::from(find.largest_accelerators);
        let bound = if find.is_lower_bound { "at least" } else { "at most" };
        return Outcome {
            what: "accelerators",
            figure: (!find.tried.is_empty()).then(|| Quantity::higher(largest, "accelerators")),
            verdict: match report.ending {
                Ending::Complete => {
                    format!("{bound} so many meet {:.1} %", report.plan.metric.threshold_percent)
                }
                _ => status,
            },
        };
    }
    let is_measured = !results.scored_epochs().is_empty();
    let verb = if results.meets_threshold { "meets" } else { "misses" };
    Outcome {
        what: "AU",
        figure: is_measured.then(|| Quantity::higher(results.mean.au_percent.profile, "%")),
        verdict: match report.ending {
            Ending::Complete => format!("{verb} {:.1} %", report.plan.metric.threshold_percent),
            _ => status,
        },
    }
}
