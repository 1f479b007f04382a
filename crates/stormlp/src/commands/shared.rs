//! Tests whether all processes share a folder.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use stormlp_core::group::{Member, SharedFolder};
use stormlp_transfer::storage::{Disk, Durability, Storage as _};

use crate::hosts;
use crate::session::Session;
use stormlp_core::failure::Failure;

/// Time until a file from another host is visible: NFS attribute caches are valid for seconds.
const SEEN_WITHIN: Duration = Duration::from_secs(5);
/// Polling interval.
const LOOK: Duration = Duration::from_millis(50);

/// Tests whether all `members` see a file that the first of them writes to `folder`.
///
/// # Errors
/// If the other processes cannot be reached.
pub(super) fn look(
    folder: &Path,
    members: &[Member],
    session: &Session,
) -> Result<SharedFolder, Failure> {
    let group = &*session.group;
    let name = format!(".stormlp-seen-by-all-{}", std::process::id());
    let written = group.leads() && {
        let path = folder.join(&name);
        Disk.write(&path, name.as_bytes(), Durability::Whole).is_ok()
    };
    let path = folder.to_path_buf();
    // The writer announces the file name; other processes' values are ignored.
    let answers = hosts::exchange(group, &written.then_some(name))?;
    let Some(name) = answers.into_iter().next().flatten() else {
        return Ok(SharedFolder::NotTried { path });
    };
    let file = folder.join(&name);
    let seen = hosts::exchange(group, &is_seen(&file, &name))?;
    if group.leads() {
        let _ = fs::remove_file(&file);
    }
    Ok(match seen.iter().position(|seen| !seen) {
        None => SharedFolder::Shared { path },
        Some(blind) => SharedFolder::NotShared { path, blind: members[blind].name(members) },
    })
}

/// Whether a file with this content becomes visible in time.
fn is_seen(file: &Path, words: &str) -> bool {
    let begun = Instant::now();
    while begun.elapsed() <= SEEN_WITHIN {
        if fs::read(file).is_ok_and(|bytes| bytes == words.as_bytes()) {
            return true;
        }
        thread::sleep(LOOK);
    }
    false
}
