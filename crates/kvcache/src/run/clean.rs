//! Removes the objects that stormlp made, and nothing else.

use std::path::{Path, PathBuf};

use stormlp_transfer::storage::{LOCK_NAME, Storage};

use super::error::KvcacheError;
use super::folder::{Own, abort_uploads, contents};
use crate::plan::{MARKER_NAME, names_object_of_a_run};

/// What was removed, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CleanedFolder {
    /// Objects.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What is not stormlp's: each path, and why it is left if it could be taken for an object.
    pub left: Vec<String>,
    /// Uploads of objects that killed runs left.
    pub uploads: u64,
}

/// Removes the objects in `folder`, and the folder itself if it is then empty; `dry_run` only counts
/// them.
///
/// # Errors
/// If another run uses the folder, or something of stormlp's cannot be removed.
pub fn clean(
    storage: &dyn Storage,
    folder: &Path,
    dry_run: bool,
) -> Result<CleanedFolder, KvcacheError> {
    storage.hold(folder);
    // A lock is a file; a dry run must not create one.
    let lock = if dry_run { None } else { Some(storage.lock(folder)?) };
    let mut cleaned =
        CleanedFolder { uploads: abort_uploads(storage, folder, dry_run)?, ..Default::default() };
    let (mut objects, mut others) = (Vec::new(), Vec::new());
    for (entry, own) in contents(storage, folder)? {
        let path = folder.join(&entry.name);
        match own {
            Own::Object => {
                objects.push(path);
                cleaned.files += 1;
                cleaned.bytes += entry.facts.bytes;
            }
            Own::Other => others.push(path),
            Own::Not => cleaned.left.push(match entry.text().is_some_and(names_object_of_a_run) {
                true => {
                    format!("{} with the name of an object but other content", path.display())
                }
                false => path.display().to_string(),
            }),
        }
    }
    if !dry_run {
        storage.remove_all(&objects)?;
    }
    // The marker goes last, and stays as long as it may be needed to know what is stormlp's.
    if !dry_run && cleaned.left.is_empty() {
        let is_last = |path: &PathBuf| path.ends_with(MARKER_NAME) || path.ends_with(LOCK_NAME);
        others.sort_by_key(is_last);
        for path in &others {
            storage.remove(path)?;
        }
        storage.remove(&folder.join(LOCK_NAME))?;
        let _ = storage.remove_folder(folder);
    }
    drop(lock);
    Ok(cleaned)
}
