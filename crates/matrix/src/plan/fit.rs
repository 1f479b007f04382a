//! How large the files of a preset are: as large as the storage is fast.
//!
//! A timed cell that goes over its files more than once reads from whatever cache lies on the way.
//! So the files hold what a cell moves in its time, as far as the links of the disks allow; but
//! writing them must not take longer than the measuring.

use std::path::Path;

use super::choice::Span;
use super::request::MatrixRequest;
use super::resolve::ASSUMED_BYTES_PER_SECOND;
use stormlp_core::facts::HostFacts;

/// Of the time that the cells take, how much writing the files may take, at
/// [`ASSUMED_BYTES_PER_SECOND`].
const SHARE_FOR_WRITING: f64 = 0.5;

/// What the files of `request` in `folder` should hold together, in bytes; `None` where the
/// request does not ask for files that fit, or its cells have no time of their own.
pub(super) fn of(request: &MatrixRequest, facts: &HostFacts, folder: &Path) -> Option<u64> {
    let Span::Seconds(seconds) = request.span else {
        return None;
    };
    if !request.fit_files {
        return None;
    }
    let seconds = seconds + request.warmup_seconds;
    let storage = facts.storage.iter();
    let mut of_folder = storage.filter(|storage| storage.paths.iter().any(|path| path == folder));
    let link = of_folder.find_map(|storage| storage.link_bytes_per_second());
    let rate = link.map_or(ASSUMED_BYTES_PER_SECOND, |rate| rate as f64);
    let cells: f64 = [
        request.paths.paths().len(),
        request.ops.len(),
        request.io_sizes.len(),
        request.threads.len(),
        request.queue_depths.len(),
        request.repeat as usize,
    ]
    .into_iter()
    .map(|count| count as f64)
    .product();
    let writable = cells * seconds * SHARE_FOR_WRITING * ASSUMED_BYTES_PER_SECOND;
    Some((rate * seconds).min(writable) as u64)
}
