//! How a run went, as the end of its command.

use std::path::Path;

use stormlp_core::failure::Failure;
use stormlp_core::report::Ending;

use super::KvcacheReport;

/// The outcome of a finished report, which is `saved` there.
///
/// # Errors
/// Why the run ended early.
pub fn outcome(report: &KvcacheReport, saved: Option<&Path>) -> Result<(), Failure> {
    match &report.ending {
        Ending::Complete => Ok(()),
        Ending::Stopped | Ending::Unfinished => {
            let kept = match saved {
                Some(path) => format!("is in {}", path.display()),
                None => "could not be saved".to_string(),
            };
            Err(Failure::stopped(format!("stopped; what was measured {kept}")))
        }
        Ending::Failed(note) => Err(Failure::of_run(note, "")),
    }
}
