//! The files that may be removed: anybody can write a list of the files in a folder, with their names
//! and sizes, so that it counts only for files which it identifies, and only for its owner's.

use std::path::Path;

use stormlp_core::facts::{Identity, keeps_inode_numbers};
use stormlp_core::location::names_object;

use super::disk;
use super::found::RecordedState;
use super::interface::Storage;
use crate::error::TransferError;
use crate::probe;

/// The owners of these lists in a folder, other than the user who runs this.
pub fn other_owners(storage: &dyn Storage, folder: &Path, lists: &[&str]) -> Vec<u32> {
    let user = rustix::process::geteuid().as_raw();
    let owner = |list: &&str| Some(storage.look(&folder.join(list)).ok()??.owner);
    lists.iter().filter_map(owner).filter(|owner| *owner != user).collect()
}

/// [`Storage::left`] before the file is removed, by a list with these [`other_owners`]. A file with
/// neither the identity `made` nor the mark of [`Storage::create`] is [`RecordedState::Other`], unless
/// its file system keeps no identities. One of unknown size may be empty: then a kill came before
/// its mark.
///
/// # Errors
/// As [`Storage::left`].
pub fn left_to_remove(
    storage: &dyn Storage,
    owners: &[u32],
    path: &Path,
    (bytes, made): (Option<u64>, Option<Identity>),
) -> Result<RecordedState, TransferError> {
    let left = storage.left(path, bytes, made)?;
    let RecordedState::Same(found) = &left else { return Ok(left) };
    let is_made = made.is_some_and(|made| made.may_be(found.identity))
        || (bytes.is_none() && found.bytes == 0);
    let keeps_identities = || {
        let fs = probe::filesystem(path);
        names_object(path) || fs.known().is_none_or(|fs| keeps_inode_numbers(&fs.kind))
    };
    // A killed save has recorded no identities yet.
    let is_of_save = || {
        let name = path.to_str().unwrap_or_default();
        made.is_none() && name.trim_end_matches(".partial").ends_with("_states.pt")
    };
    let is_known = || !keeps_identities() || (is_of_save() && disk::keeps_no_marks(path));
    let what = if owners.iter().any(|owner| *owner != found.owner) {
        "of another user than its list"
    } else if !is_made && !storage.is_marked(path)? && !is_known() {
        "a file that its list does not identify"
    } else {
        return Ok(left);
    };
    Ok(RecordedState::Other(what.to_string()))
}
