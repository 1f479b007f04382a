//! The share of a run's data in the page cache, sampled occasionally.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::Pace;
use crate::page_cache::{self, Residency};

/// More files would take longer without improving the estimate.
const MOST_FILES: usize = 64;

#[derive(Debug)]
pub(super) struct CachedData {
    files: Vec<(File, PathBuf)>,
    /// A file's pages are counted one by one.
    pace: Pace,
}

impl CachedData {
    /// Files evenly spread over `paths`; `None` if the kernel cannot report each with a single
    /// call.
    pub(super) fn of(paths: &[&Path]) -> Option<Self> {
        let step = paths.len().div_ceil(MOST_FILES).max(1);
        let open = |path: &&Path| Some((File::open(path).ok()?, path.to_path_buf()));
        let files: Vec<(File, PathBuf)> =
            paths.iter().step_by(step).map(open).collect::<Option<_>>()?;
        let data = Self { files, pace: Pace::default() };
        data.share().map(|_| data)
    }

    /// The cached share, at most once a second unless requested `now`; otherwise NaN.
    pub(super) fn read(&self, now: bool) -> f64 {
        let share = self.pace.is_due(now).then(|| self.share()).flatten();
        share.unwrap_or(f64::NAN)
    }

    fn share(&self) -> Option<f64> {
        let files = self.files.iter();
        let told: Vec<Residency> = files
            .map(|(file, path)| page_cache::residency_at_once(file, path))
            .collect::<Option<_>>()?;
        told.into_iter().reduce(Residency::plus).map(Residency::share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_covers_all_files_and_is_sampled_rarely() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let paths: Vec<PathBuf> = (0..200).map(|n| folder.path().join(n.to_string())).collect();
        paths.iter().for_each(|path| std::fs::write(path, [1; 9000]).unwrap());
        let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        let Some(data) = CachedData::of(&paths) else {
            stormlp_fixtures::skipped("the kernel has no cachestat", "use Linux 6.5 or later");
            return;
        };
        assert!(data.files.len() <= MOST_FILES);
        assert!(data.read(false) > 0.9);
        assert!(data.read(false).is_nan(), "a second is not over");
        for (file, path) in &data.files {
            page_cache::drop_file(file, path).unwrap();
        }
        assert!(data.read(true) < 0.1);
        assert!(CachedData::of(&[]).is_none());
        assert!(CachedData::of(&[&*folder.path().join("none")]).is_none());
    }
}
