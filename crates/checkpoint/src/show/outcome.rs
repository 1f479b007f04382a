//! A report as one line of a list: its figure and its verdict.

use crate::plan::{Arithmetic, StreamKnee};
use crate::report::headline_arithmetic;
use crate::report::{CheckpointReport, PhaseSummary};

use stormlp_show::document::Quantity;
use stormlp_show::outcome::Outcome;

/// Rate of the saves, or of the restores if there are no saves, by the profile's arithmetic.
pub(super) fn outcome(report: &CheckpointReport, status: String) -> Outcome {
    let summary = &report.results.summary;
    let rate = |summary: &PhaseSummary| {
        let pair = match headline_arithmetic(report) {
            Arithmetic::MlperfRules => summary.mlperf_rules,
            Arithmetic::Dlio => summary.dlio,
            Arithmetic::AllRanks => summary.all_ranks,
        };
        Quantity::higher(pair.gib_per_second.mean, "GiB/s")
    };
    // A search result stands for all of its runs; the summary covers only the last run with that
    // many streams.
    let find = report.results.find_knee.as_ref();
    let knee = |knee: &StreamKnee| Quantity::higher(knee.gib_per_second, "GiB/s");
    let save_knee = find.and_then(|find| find.save.as_ref());
    let restore_knee = find.and_then(|find| find.restore.as_ref());
    let (what, figure) = match (&summary.save, &summary.restore) {
        _ if save_knee.is_some() => ("saved at", save_knee.map(knee)),
        _ if restore_knee.is_some() => ("restored at", restore_knee.map(knee)),
        (Some(save), _) => ("saved at", Some(rate(save))),
        (None, Some(restore)) => ("restored at", Some(rate(restore))),
        (None, None) => ("", None),
    };
    Outcome { what, figure, verdict: status }
}
