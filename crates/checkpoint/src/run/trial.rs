//! A short write trial of storage, used to make a scaled run last about a minute.

use std::path::Path;
use std::time::{Duration, Instant};

use stormlp_core::pattern::Pattern;
use stormlp_transfer::TransferError;
use stormlp_transfer::storage::{Access, Storage, TRIAL_PREFIX};

/// Size of one write.
const CHUNK_BYTES: usize = 4 << 20;
/// Maximum bytes that the trial writes; it also never uses more than a quarter of the free space.
const MOST_BYTES: u64 = 256 << 20;
/// Upper bound on the duration of the trial.
const LONGEST: Duration = Duration::from_secs(1);

/// Writes a file in `folder` for at most a second and syncs it. The file is removed.
///
/// # Returns
/// Bytes per second, including the sync.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn write_rate(storage: &dyn Storage, folder: &Path) -> Result<f64, TransferError> {
    let path = folder.join(format!("{TRIAL_PREFIX}{}", std::process::id()));
    let mut content = vec![0; CHUNK_BYTES];
    Pattern::new(0, 0).fill(0, &mut content);
    let most_bytes =
        storage.space(folder)?.map_or(MOST_BYTES, |space| MOST_BYTES.min(space.free_bytes / 4));
    let file = storage.open(&path, Access::Create, false)?;
    // An unlinked file is freed when this process exits, however it ends.
    storage.remove(&path)?;
    let start = Instant::now();
    let mut bytes = 0;
    while bytes < most_bytes && start.elapsed() < LONGEST {
        storage.write_at(&file, &path, bytes, &content)?;
        bytes += CHUNK_BYTES as u64;
    }
    storage.sync(&file, &path)?;
    Ok(bytes as f64 / start.elapsed().as_secs_f64())
}
