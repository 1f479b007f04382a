//! What storage does by several operations on a file.

use std::io;
use std::path::{Path, PathBuf};

use stormlp_core::facts::Identity;
use stormlp_core::impairment::StorageOperation as Call;
use stormlp_core::location::names_object;

use super::found::{Kind, RecordedState};
use super::handle::{Access, Durability};
use super::holes;
use super::interface::Storage;
use super::reach::parent;
use crate::error::TransferError;
use crate::page_cache::Residency;

/// The current state of a file that was recorded.
pub(super) fn left<S: Storage + ?Sized>(
    storage: &S,
    path: &Path,
    bytes: Option<u64>,
    made: Option<Identity>,
) -> Result<RecordedState, TransferError> {
    let found = match storage.look(path) {
        // The kernel was never asked, since there is a link on the way.
        Err(error) if error.was_not_asked() => {
            return Ok(RecordedState::Other("behind a link".to_string()));
        }
        found => found?,
    };
    let Some(found) = found else {
        return Ok(RecordedState::Nothing);
    };
    let other_size = bytes.filter(|bytes| *bytes != found.bytes);
    Ok(match other_size {
        _ if found.kind != Kind::File || found.link => {
            RecordedState::Other(found.what().to_string())
        }
        _ if found.bytes == 0 => RecordedState::Same(found),
        Some(bytes) => {
            RecordedState::Other(format!("a file of {} bytes, not of {bytes}", found.bytes))
        }
        None if found.is_another(made) => RecordedState::Other(match bytes {
            Some(_) => "another file of the same size".to_string(),
            None => "another file".to_string(),
        }),
        None => RecordedState::Same(found),
    })
}

/// How many of the first `bytes` of a file are in holes.
pub(super) fn hole_bytes<S: Storage + ?Sized>(
    storage: &S,
    path: &Path,
    bytes: u64,
) -> Result<u64, TransferError> {
    if names_object(path) {
        return Ok(0);
    }
    storage.pass(Call::Holes, path, 0)?;
    let holes = storage.open(path, Access::Read, false).and_then(|file| {
        holes::hole_bytes(&file, bytes)
            .map_err(|source| TransferError::file("find holes in", path, source))
    });
    match holes {
        Err(error) if !error.is_device_failure() => Ok(0),
        holes => holes,
    }
}

/// The contents of a small file.
pub(super) fn read_text<S: Storage + ?Sized>(
    storage: &S,
    path: &Path,
) -> Result<Option<String>, TransferError> {
    if let Some(buckets) = storage.objects(path)? {
        return buckets.read_text(path);
    }
    let file = match storage.open(path, Access::Read, false) {
        Err(error) if error.is_not_found() => return Ok(None),
        opened => opened?,
    };
    let (mut content, mut filled) = (Vec::new(), 0);
    loop {
        content.resize(filled + (64 << 10), 0);
        match storage.read_at(&file, path, filled as u64, &mut content[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    content.truncate(filled);
    let text = String::from_utf8(content).map_err(|error| {
        TransferError::file("read", path, io::Error::new(io::ErrorKind::InvalidData, error))
    });
    text.map(Some)
}

/// Writes a small file by way of another one.
pub(super) fn write_by<S: Storage + ?Sized>(
    storage: &S,
    temporary: &Path,
    path: &Path,
    content: &[u8],
    durability: Durability,
) -> Result<(), TransferError> {
    // One PUT is atomic, and needs no temporary name.
    if let Some(buckets) = storage.objects(path)? {
        return buckets.write(path, content);
    }
    let write = || {
        let file = storage.open(temporary, Access::Create, false)?;
        storage.write_at(&file, temporary, 0, content)?;
        if durability != Durability::Unsynced {
            storage.sync(&file, temporary)?;
        }
        storage.rename(temporary, path)
    };
    write().map_err(|error| {
        storage.discard(temporary);
        error.on(path)
    })?;
    match durability {
        Durability::Certain => storage.sync_folder(parent(path)),
        Durability::Whole | Durability::Unsynced => Ok(()),
    }
}

/// The path itself, or its nearest existing parent.
pub(super) fn nearest<S: Storage + ?Sized>(
    storage: &S,
    path: &Path,
) -> Result<PathBuf, TransferError> {
    if names_object(path) {
        return Ok(path.to_path_buf());
    }
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    for path in absolute.ancestors() {
        match storage.look(path) {
            // Whoever goes on names the link.
            Err(error) if error.is_link() => {}
            found => {
                if found?.is_some() {
                    return Ok(path.to_path_buf());
                }
            }
        }
    }
    Ok(PathBuf::from("/"))
}

/// The total page cache residency of several files.
pub(super) fn cached<S: Storage + ?Sized>(
    storage: &S,
    paths: &mut dyn Iterator<Item = &Path>,
) -> Result<Option<Residency>, TransferError> {
    let mut sum: Option<Residency> = None;
    for path in paths {
        // Objects are in no cache of this machine; the endpoint's own is unknown.
        if names_object(path) {
            return Ok(None);
        }
        match storage.residency(path) {
            Err(error) if error.is_permission_denied() => return Ok(None),
            told => {
                let told = told?;
                sum = Some(sum.map_or(told, |sum| sum.plus(told)));
            }
        }
    }
    Ok(sum)
}

/// Removes files or objects.
pub(super) fn remove_all<S: Storage + ?Sized>(
    storage: &S,
    paths: &[PathBuf],
) -> Result<u64, TransferError> {
    let (objects, files): (Vec<_>, Vec<_>) =
        paths.iter().cloned().partition(|path| names_object(path));
    let mut removed = 0;
    for file in &files {
        removed += u64::from(storage.remove(file)?);
    }
    match objects.first().map_or(Ok(None), |first| storage.objects(first))? {
        Some(buckets) => Ok(removed + buckets.remove_all(&objects)?),
        None => Ok(removed),
    }
}
