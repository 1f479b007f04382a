//! The page cache before an epoch: how much of the dataset lies there, and getting it out.

use stormlp_transfer::page_cache::{self, Method};
use stormlp_transfer::storage::{self, Access};

use super::error::TrainError;
use super::source::DataFile;

/// Looking at every file of a large dataset would take longer than an epoch; so many, evenly
/// spread, tell the share well enough.
const LOOK_AT_FILES: usize = 4096;

/// What of the dataset lay in the page cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cached {
    /// Share of the bytes looked at, 0 to 1; `None` where the kernel does not tell this user.
    pub(super) share: Option<f64>,
    /// Files looked at.
    pub(super) files: usize,
    pub(super) method: Option<Method>,
}

/// How much of the files is in the page cache.
pub(super) fn look(files: &[DataFile]) -> Result<Cached, TrainError> {
    let step = files.len().div_ceil(LOOK_AT_FILES).max(1);
    let (mut cached, mut total, mut looked, mut method) = (0u64, 0u64, 0, None);
    for file in files.iter().step_by(step) {
        let named = |source| TrainError::Read {
            path: file.path.clone(),
            source,
        };
        let open = storage::open(&file.path, Access::Read, false).map_err(named)?;
        let residency = match page_cache::residency(&open, &file.path) {
            Ok(residency) => residency,
            Err(error) if error.is_permission_denied() => {
                return Ok(Cached {
                    share: None,
                    files: looked,
                    method: None,
                });
            }
            Err(error) => return Err(named(error)),
        };
        cached += residency.cached_bytes;
        total += residency.total_bytes;
        looked += 1;
        method = Some(residency.method);
    }
    Ok(Cached {
        share: Some(cached as f64 / total.max(1) as f64),
        files: looked,
        method,
    })
}

/// Drops all files from the page cache; needs no privilege.
pub(super) fn drop_all(files: &[DataFile]) -> Result<(), TrainError> {
    for file in files {
        let named = |source| TrainError::Read {
            path: file.path.clone(),
            source,
        };
        let open = storage::open(&file.path, Access::Read, false).map_err(named)?;
        page_cache::drop_file(&open, &file.path).map_err(named)?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn dropped_files_are_seen_to_be_gone() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let files: Vec<DataFile> = (0..3)
            .map(|number| {
                let path = folder.path().join(number.to_string());
                std::fs::write(&path, vec![1; 100_000]).unwrap();
                DataFile {
                    path,
                    bytes: 100_000,
                }
            })
            .collect();
        assert!(look(&files).unwrap().share.unwrap() > 0.9);
        drop_all(&files).unwrap();
        let cached = look(&files).unwrap();
        assert!(cached.share.unwrap() < 0.1, "{cached:?}");
        assert_eq!(cached.files, 3);
    }
}
