//! Wrong data, found with `--verify`: the answer before all else.

use crate::plan::MatrixReport;
use crate::report::FileMismatch;
use stormlp_core::note::DATA_MISMATCH;
use stormlp_core::units::counted;

/// Maximum number of further places in the sentence; the report lists all.
const MOST_OTHERS: usize = 3;

/// Where data differ first, and in how many blocks; `None` if none did.
pub(super) fn headline(report: &MatrixReport) -> Option<String> {
    let verified = || report.results.cells.iter().filter_map(|cell| cell.verification.as_ref());
    let (first, others) = verified().find_map(|one| one.mismatches.split_first())?;
    // Cells read the same files, so their findings cannot be added up.
    let found = || verified().map(|one| one.mismatches.len() as u64).filter(|blocks| *blocks > 0);
    let (cells, most) = (found().count(), found().max().unwrap_or(0));
    let up_to = if found().min() == Some(most) { "" } else { "up to " };
    let blocks = match counted(most, "bad block") {
        blocks if cells == 1 => blocks,
        blocks => format!("{up_to}{blocks} in each of {cells} cells"),
    };
    Some(format!(
        "{DATA_MISMATCH} {} at offset {}: read 0x{}, expected 0x{}; {blocks} until the threads \
         stopped{}",
        first.file.display(),
        first.offset_bytes,
        first.found,
        first.expected,
        also(first, others)
    ))
}

/// Where other threads found wrong data: `; also at offset 4096`.
fn also(first: &FileMismatch, others: &[FileMismatch]) -> String {
    if others.is_empty() {
        return String::new();
    }
    let place = |one: &FileMismatch| match one.file == first.file {
        true => format!("offset {}", one.offset_bytes),
        false => format!("offset {} of {}", one.offset_bytes, one.file.display()),
    };
    let told: Vec<String> = others.iter().take(MOST_OTHERS).map(place).collect();
    let more = match others.len().saturating_sub(MOST_OTHERS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("; also at {}{more}", told.join(", "))
}
