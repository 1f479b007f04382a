//! How many of a cell's bytes came from or went to storage, for rows, notes and headers.

use crate::plan::{CacheState, Fsync, MatrixPlan, MatrixReport, Reach};
use stormlp_core::units::ByteSize;

use super::compare::{reaches, reads_holes};
use super::group::{CellGroup, groups};
use stormlp_show::numbers::percent;

/// Device share of a row's bytes over its repetitions.
pub(super) fn device_share(plan: &MatrixPlan, group: &CellGroup<'_>) -> String {
    let shares: Option<Vec<f64>> =
        reaches(plan, group).map(|(_, _, reach)| reach.device_share).collect();
    match shares.as_deref() {
        None | Some([]) => "-".to_string(),
        // Device counters include other processes: others used the devices as well.
        Some(_) if reaches(plan, group).any(|(_, _, reach)| reach.includes_background()) => {
            "> 100 %".to_string()
        }
        Some(shares) => percent(shares.iter().sum::<f64>() / shares.len() as f64),
    }
}

/// Farthest from 1 that the share of the bytes that devices moved may be, to go without saying.
const CLOSE: f64 = 0.02;

/// Whether devices moved all bytes of a row and no others, as far as counters show.
pub(super) fn is_all_of_storage(plan: &MatrixPlan, group: &CellGroup<'_>) -> bool {
    remarks(plan, group).is_empty()
        && reaches(plan, group).all(|(_, _, reach)| {
            reach.device_share.is_none_or(|share| (share - 1.0).abs() <= CLOSE)
        })
}

/// Notes below the table where a row's rate is not a storage rate, each once.
pub(super) fn remarks(plan: &MatrixPlan, group: &CellGroup<'_>) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    if let Some(share) = plan.hole_share().filter(|_| reads_holes(plan, group)) {
        let share = percent(share);
        notes.push(format!("{share} of its files is holes, which are not read from any device"));
    }
    for (_, _, reach) in reaches(plan, group) {
        if let Some(note) = remark(plan, reach)
            && !notes.contains(&note)
        {
            notes.push(note);
        }
    }
    notes
}

fn remark(plan: &MatrixPlan, reach: Reach) -> Option<String> {
    let share = match reach.device_share {
        Some(_) => "`device` is the share that the block device moved",
        None => "no block device shows the share of storage",
    };
    let stayed = reach.is_mostly_memory() || reach.device_share.is_none() && !reach.synced;
    let meant = plan.request.cache == CacheState::Warm && reach.through_cache;
    if reach.is_write {
        (reach.through_cache && stayed)
            .then(|| format!("most of it stayed in the page cache; {share}"))
    } else {
        (reach.is_again() && !meant)
            .then(|| format!("it covered its files more than once; {share}"))
    }
}

/// When cells sync their writes; `None` if no cell writes files.
pub(super) fn fsync_words(plan: &MatrixPlan) -> Option<&'static str> {
    plan.writing_cells().next().filter(|_| !plan.request.uses_objects())?;
    Some(match plan.request.fsync {
        Fsync::Auto => {
            "writes through the page cache end with one, within the measured time; direct ones do not"
        }
        Fsync::None => "none: what was written may not have reached storage",
        Fsync::End => "every writing cell ends with one, within the measured time",
    })
}

/// The same in one word, equal for matrices with the same sync behaviour.
pub(crate) fn fsync_setting(plan: &MatrixPlan) -> &'static str {
    let synced: Vec<bool> = plan.writing_cells().map(|cell| cell.fsync).collect();
    match (synced.contains(&true), synced.contains(&false)) {
        (false, _) => "off",
        (true, false) => "on",
        (true, true) => "through the page cache",
    }
}

/// How much of the data written through the page cache had reached storage when each cell ended,
/// for a format without a column for it.
pub(super) fn reached(report: &MatrixReport) -> Vec<String> {
    let line = |group: &CellGroup<'_>| -> Vec<String> {
        let name = format!("{} {}", group.key.path, group.key.words());
        let cells = reaches(&report.plan, group);
        let writes = cells.filter(|(_, _, reach)| reach.is_write && reach.through_cache);
        writes
            .map(|(_, numbers, reach)| {
                let wrote = ByteSize(numbers.bytes);
                match reach.device_bytes.map(ByteSize) {
                    Some(bytes) => format!(
                        "{name}: of {wrote} written, {bytes} had reached {} when the time ended",
                        numbers.device_names.join(", ")
                    ),
                    None => format!(
                        "{name}: {wrote} written; no block device shows how much reached storage"
                    ),
                }
            })
            .collect()
    };
    groups(report).iter().flat_map(line).collect()
}
