//! How many of a cell's bytes came from or went to storage, for rows and headers.

use crate::plan::{Fsync, MatrixPlan};

use super::compare::reaches;
use super::group::CellGroup;
use stormlp_show::numbers::percent;

/// Device share of a row's bytes over its repetitions.
pub(super) fn device_share(plan: &MatrixPlan, group: &CellGroup<'_>) -> String {
    let shares: Option<Vec<f64>> = reaches(plan, group).map(|reach| reach.device_share).collect();
    match shares.as_deref() {
        None | Some([]) => "-".to_string(),
        // Device counters include other processes: other programs used the devices as well.
        Some(_) if reaches(plan, group).any(|reach| reach.includes_background()) => {
            "> 100 %".to_string()
        }
        Some(shares) => percent(shares.iter().sum::<f64>() / shares.len() as f64),
    }
}

/// Farthest from 1 that the share of the bytes that devices moved may be, to go without saying.
const CLOSE: f64 = 0.02;

/// Whether devices moved exactly the bytes of a row, as far as counters show.
pub(super) fn is_all_of_storage(plan: &MatrixPlan, group: &CellGroup<'_>) -> bool {
    reaches(plan, group).all(|reach| {
        reach.of_memory.is_none()
            && reach.device_share.is_none_or(|share| (share - 1.0).abs() <= CLOSE)
    })
}

/// When cells sync their writes; `None` if no cell writes files.
pub(super) fn fsync_words(plan: &MatrixPlan) -> Option<&'static str> {
    plan.writing_cells().next().filter(|_| !plan.request.uses_objects())?;
    Some(match plan.request.fsync {
        Fsync::Auto => {
            "writes through the page cache end with one, within the measured time; direct ones do not"
        }
        Fsync::None => "none: the data may not have reached storage",
        Fsync::End => "every writing cell ends with one, within the measured time",
    })
}
