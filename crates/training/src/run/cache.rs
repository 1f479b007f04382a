//! The page cache before an epoch: measures the cached share of the dataset, and evicts it.

use stormlp_transfer::page_cache::Residency;
use stormlp_transfer::storage::Storage;

use super::error::TrainError;
use super::source::DataFile;

/// Checking every file of a large dataset would be slower than an epoch; this many, evenly spaced,
/// give a good estimate.
const LOOK_AT_FILES: usize = 4096;

/// The share of the files' bytes in the page cache, 0 to 1; `None` if the kernel does not report it to
/// this user.
pub(super) fn look(storage: &dyn Storage, files: &[DataFile]) -> Result<Option<f64>, TrainError> {
    let step = files.len().div_ceil(LOOK_AT_FILES).max(1);
    let mut looked = files.iter().step_by(step).map(|file| file.path.as_path());
    Ok(storage.cached(&mut looked)?.map(Residency::share))
}

/// Evicts all files from the page cache; needs no privileges. Uncached files are skipped: each
/// would have to be synced first, which dominates the time.
pub(super) fn drop_all(storage: &dyn Storage, files: &[DataFile]) -> Result<(), TrainError> {
    for file in files {
        let residency = storage.residency(&file.path).ok().flatten();
        if residency.is_some_and(|residency| residency.cached_bytes == 0) {
            continue;
        }
        let dropped = storage.drop_cached(&file.path);
        dropped.map_err(|source| TrainError::Read { path: file.path.clone(), source })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use stormlp_transfer::storage::Disk;

    #[test]
    fn dropped_files_are_seen_to_be_gone() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let files: Vec<DataFile> = (0..3)
            .map(|number| {
                let path = folder.path().join(number.to_string());
                std::fs::write(&path, vec![1; 100_000]).unwrap();
                DataFile { path, bytes: 100_000 }
            })
            .collect();
        assert!(look(&Disk, &files).unwrap().unwrap() > 0.9);
        drop_all(&Disk, &files).unwrap();
        let cached = look(&Disk, &files).unwrap();
        assert!(cached.unwrap() < 0.1, "{cached:?}");
    }
}
