//! Page cache state of a checkpoint before its restore.

use crate::report::CacheBefore;

use super::super::error::CheckpointError;
use super::{COLD_SHARE, Run};

impl Run<'_> {
    /// Drops a checkpoint from the page cache if requested, and measures the pages that remain.
    /// `None` if residency is not known.
    pub(super) fn prepare_cache(&self, step: u32) -> Result<Option<CacheBefore>, CheckpointError> {
        let (plan, storage) = (self.stage.plan, self.stage.storage);
        let written = self.tasks(step, 0);
        // With several hosts, each has the files that it wrote in its cache, but reads another
        // host's.
        let tasks = match self.stage.hosts {
            Some(_) => self.tasks(step, plan.rank_shift),
            None => Vec::new(),
        };
        let tasks = if tasks.is_empty() { &written } else { &tasks };
        let files = || tasks.iter().flat_map(|task| &task.files);
        if plan.request.is_cold() {
            for file in written.iter().flat_map(|task| &task.files).chain(files()) {
                storage.drop_cached(&file.path)?;
            }
            if let Some(hosts) = self.stage.hosts {
                // Processes on one host share a cache, and pages that one of them still writes back
                // cannot be dropped.
                hosts.meet(&|| true)?;
                for file in files() {
                    storage.drop_cached(&file.path)?;
                }
            }
        }
        let mut paths = files().map(|file| file.path.as_path());
        let Some(residency) = storage.cached(&mut paths)? else {
            return Ok(None);
        };
        let (share, files) = (residency.share(), files().count() as u64);
        if plan.request.is_cold() && plan.path().uses_page_cache() && share > COLD_SHARE {
            return Err(CheckpointError::StillCached { step, share: share * 100.0 });
        }
        Ok(Some(CacheBefore { share, dropped: plan.request.is_cold(), files }))
    }
}
