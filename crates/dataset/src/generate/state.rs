//! State of a file that a manifest or journal lists. Only files that are still as they were made
//! are ever removed or replaced: anything else may be someone's data.

use std::path::Path;

use stormlp_transfer::TransferError;
use stormlp_transfer::storage::{Facts, Kind, Left, Storage};

use super::verify::checksum_of;
use crate::manifest::{ManifestFile, crc64_text};

/// State of a listed file.
#[derive(Debug)]
pub enum State {
    /// There is no entry under its name.
    Gone,
    /// It has its bytes; here is its current listing.
    Whole(ManifestFile),
    /// It is empty.
    Empty,
    /// It is the original file, but truncated or altered: what it is now.
    Damaged(String),
    /// A different entry is under its name: what it is.
    Foreign(String),
}

/// State of `file` in its dataset's folder, without its side files. Size and change time suffice;
/// if the change time differs (a copied folder), the checksum decides.
///
/// # Errors
/// If storage does not provide it.
pub fn state_of(
    storage: &dyn Storage,
    folder: &Path,
    file: &ManifestFile,
) -> Result<State, TransferError> {
    let path = folder.join(&file.name);
    let found = match storage.left(&path, Some(file.bytes), None)? {
        Left::Nothing => return Ok(State::Gone),
        Left::Same(found) => found,
        Left::Other(what) => {
            let found = storage.look(&path).ok().flatten();
            return Ok(if found.is_some_and(|found| is_the_file(file, &found)) {
                State::Damaged(what)
            } else {
                State::Foreign(what)
            });
        }
    };
    if found.bytes != file.bytes {
        return Ok(State::Empty);
    }
    if found.changed_ns != file.changed_ns && crc64_text(checksum_of(storage, &path)?) != file.crc64
    {
        let what = "a file of other content".to_string();
        return Ok(if is_the_file(file, &found) {
            State::Damaged(what)
        } else {
            State::Foreign(what)
        });
    }
    Ok(State::Whole(ManifestFile {
        changed_ns: found.changed_ns,
        identity: Some(found.identity),
        ..file.clone()
    }))
}

/// Whether the file found is the original one, whatever its content now.
fn is_the_file(file: &ManifestFile, found: &Facts) -> bool {
    found.kind == Kind::File && !found.link && file.identity == Some(found.identity)
}
