//! How a run went, as the end of its command.

use std::path::Path;

use stormlp_core::failure::Failure;
use stormlp_core::report::Ending;

use super::TrainReport;

/// The exit code for a finished report.
///
/// # Errors
/// With exit code 6 if AU missed its threshold, 5 if storage failed, 130 if the user stopped it.
pub fn outcome(report: &TrainReport, path: Option<&Path>) -> Result<(), Failure> {
    let saved = kept(path);
    match &report.ending {
        Ending::Stopped | Ending::Unfinished => {
            Err(Failure::stopped(format!("stopped by the user; {saved}")))
        }
        Ending::Failed(note) => Err(Failure::of_run(note, &saved)),
        Ending::Complete if report.results.meets_threshold => Ok(()),
        Ending::Complete => Err(Failure::missed_target(format!(
            "AU {:.2} % is below the {:.1} % that {} requires",
            report.results.mean.au_percent.profile,
            report.plan.metric.threshold_percent,
            report.plan.workload
        ))),
    }
}

/// Where the results are saved.
pub(crate) fn kept(path: Option<&Path>) -> String {
    match path {
        Some(path) => format!("what was measured is saved in {}", path.display()),
        None => "what was measured could not be saved".to_string(),
    }
}
