//! A short trial of storage: how fast it writes, so that a scaled run ends in about a minute.

use std::path::Path;
use std::time::{Duration, Instant};

use stormlp_core::pattern::Pattern;
use stormlp_transfer::TransferError;
use stormlp_transfer::storage::{Access, Storage};

/// Bytes of one write.
const CHUNK_BYTES: usize = 4 << 20;
/// Bytes the trial writes at most; never more than a quarter of what is free.
const MOST_BYTES: u64 = 256 << 20;
/// How long it writes at most.
const LONGEST: Duration = Duration::from_secs(1);

/// Writes a file in `folder` for at most a second, syncs it; it is gone when this ends.
///
/// # Returns
/// Bytes per second, the sync included.
///
/// # Errors
/// When the file cannot be written.
pub fn write_rate(storage: &dyn Storage, folder: &Path) -> Result<f64, TransferError> {
    let path = folder.join(format!(".stormlp-trial-{}", std::process::id()));
    let mut content = vec![0; CHUNK_BYTES];
    Pattern::new(0, 0).fill(0, &mut content);
    let most_bytes = MOST_BYTES.min(storage.space(folder)?.free_bytes / 4);
    let file = storage.open(&path, Access::Create, false)?;
    // Without its name it is gone with this process, however that ends.
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
