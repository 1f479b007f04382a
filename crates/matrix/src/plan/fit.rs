//! File sizes of presets, scaled to the speed of the storage.
//!
//! A timed cell that reads its files more than once may be served by a cache. So the files hold
//! what a cell moves in its time, as far as disk link speeds allow; but writing them must not take
//! longer than the measurements.

use std::path::Path;

use super::choice::Span;
use super::request::MatrixRequest;
use super::resolve::ASSUMED_BYTES_PER_SECOND;
use stormlp_core::facts::HostFacts;

/// Maximum time for writing the files as a share of the cells' time, at
/// [`ASSUMED_BYTES_PER_SECOND`].
const SHARE_FOR_WRITING: f64 = 0.5;

/// Total size in bytes for the files of `request` in `folder`; `None` if the request does not ask
/// for fitted files or its cells have no fixed duration.
pub(super) fn of(request: &MatrixRequest, facts: &HostFacts, folder: &Path) -> Option<u64> {
    let Span::Seconds(seconds) = request.span() else {
        return None;
    };
    if request.preset.is_none() {
        return None;
    }
    let seconds = seconds + request.warmup_seconds;
    let storage = facts.storage.iter();
    let mut of_folder = storage.filter(|storage| storage.paths.iter().any(|path| path == folder));
    let link = of_folder.find_map(|storage| storage.link_bytes_per_second());
    let rate = link.map_or(ASSUMED_BYTES_PER_SECOND, |rate| rate as f64);
    let cells: f64 = [
        request.paths().len(),
        request.ops.len(),
        request.io_sizes.len(),
        request.threads.len(),
        request.queue_depths.len(),
        request.repeat() as usize,
    ]
    .into_iter()
    .map(|count| count as f64)
    .product();
    let writable = cells * seconds * SHARE_FOR_WRITING * ASSUMED_BYTES_PER_SECOND;
    Some((rate * seconds).min(writable) as u64)
}
