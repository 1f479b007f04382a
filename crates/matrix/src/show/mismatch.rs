//! Wrong data, found with `--verify`: the answer before all others.

use crate::plan::MatrixReport;
use stormlp_core::note::DATA_MISMATCH;
use stormlp_core::units::counted;

/// Where data differ first, and in how many blocks; `None` if none did.
pub(super) fn headline(report: &MatrixReport) -> Option<String> {
    let verified = || report.results.cells.iter().filter_map(|cell| cell.verification.as_ref());
    let first = verified().find_map(|one| one.first.as_ref())?;
    // Cells read the same files, so what they found cannot be added up.
    let found = || verified().map(|one| one.mismatched_transfers).filter(|blocks| *blocks > 0);
    let cells = found().count() as u64;
    let blocks = counted(found().max().unwrap_or(0), "bad block");
    let blocks = match cells {
        0 | 1 => blocks,
        _ => format!("up to {blocks} in each of {cells} cells"),
    };
    Some(format!(
        "{DATA_MISMATCH} {} at offset {}: read 0x{}, expected 0x{}; {} until the threads stopped",
        first.file.display(),
        first.offset_bytes,
        first.found,
        first.expected,
        blocks
    ))
}
