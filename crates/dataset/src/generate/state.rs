//! What is left of a file that a manifest or journal lists. Only what is still as it was made is
//! ever removed or replaced: anything else may be somebody's data.

use std::path::Path;

use stormlp_transfer::TransferError;
use stormlp_transfer::storage::{Facts, Kind, Left, Storage};

use super::verify::checksum_of;
use crate::manifest::{ManifestFile, crc64_text};

/// What is left of a listed file.
#[derive(Debug)]
pub enum State {
    /// Nothing lies under its name.
    Gone,
    /// It has its bytes; so it is listed by now.
    Whole(ManifestFile),
    /// Nothing is in it.
    Empty,
    /// It is the file that was made, but it was cut off or altered: what it is now.
    Damaged(String),
    /// Something else lies under its name, and what.
    Foreign(String),
}

/// What is left of `file`, but not of its side files, in its dataset's folder. Size and time of change suffice; where the time
/// is another (a copied folder), the checksum decides.
///
/// # Errors
/// When storage does not say.
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

/// Whether what was found is the very file that was made, whatever it holds now.
fn is_the_file(file: &ManifestFile, found: &Facts) -> bool {
    found.kind == Kind::File && !found.link && file.identity == Some(found.identity)
}
