//! The page cache before an epoch: how much of the dataset lies there, and getting it out.

use stormlp_transfer::page_cache::{Method, Residency};
use stormlp_transfer::storage::Storage;

use super::error::TrainError;
use super::source::DataFile;

/// Looking at every file of a large dataset would take longer than an epoch; so many, evenly
/// spread, tell the share well enough.
const LOOK_AT_FILES: usize = 4096;

/// What of the dataset lay in the page cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cached {
    /// Share of the bytes looked at, 0 to 1; `None` where the kernel does not tell this user.
    pub(super) share: Option<f64>,
    /// Files looked at.
    pub(super) files: usize,
    pub(super) method: Option<Method>,
}

/// How much of the files is in the page cache.
pub(super) fn look(storage: &dyn Storage, files: &[DataFile]) -> Result<Cached, TrainError> {
    let step = files.len().div_ceil(LOOK_AT_FILES).max(1);
    let looked = || files.iter().step_by(step);
    let residency =
        storage.cached(&mut looked().map(|file| file.path.as_path())).map_err(TrainError::Path)?;
    Ok(Cached {
        share: residency.map(Residency::share),
        files: looked().len(),
        method: residency.map(|residency| residency.method),
    })
}

/// Drops all files from the page cache; needs no privilege. Those that are not there are left alone:
/// each has to be synced first, which takes longer than all else.
pub(super) fn drop_all(storage: &dyn Storage, files: &[DataFile]) -> Result<(), TrainError> {
    for file in files {
        let residency = storage.residency(&file.path);
        if residency.is_ok_and(|residency| residency.cached_bytes == 0) {
            continue;
        }
        let dropped = storage.drop_cached(&file.path);
        dropped.map_err(|source| TrainError::Read { path: file.path.clone(), source })?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
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
        assert!(look(&Disk, &files).unwrap().share.unwrap() > 0.9);
        drop_all(&Disk, &files).unwrap();
        let cached = look(&Disk, &files).unwrap();
        assert!(cached.share.unwrap() < 0.1, "{cached:?}");
        assert_eq!(cached.files, 3);
    }
}
