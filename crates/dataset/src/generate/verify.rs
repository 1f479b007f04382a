//! Verification of a dataset: every file against its manifest, or against its format if there is
//! none. No file is written. And the state of a file that a manifest or journal lists: only files
//! that are still as they were made are ever removed or replaced, any other file may be user data.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::report::Verification;
use crc_fast::Digest;
use stormlp_core::event::{Event, Observer, Unit};
use stormlp_core::facts::FoundFile;
use stormlp_core::failure::Failure;
use stormlp_core::note::{Cause, Note};
use stormlp_core::stop::StopToken;
use stormlp_core::units::counted;
use stormlp_transfer::TransferError;
use stormlp_transfer::storage::{Access, Facts, Kind, RecordedState, Storage, left_to_remove};

use super::error::GenerateError;
use super::plan::GeneratePlan;
use super::sink::CHECKSUM;
use super::thread_group;
use crate::format::FormatError;
use crate::inventory;
use crate::manifest::{ManifestFile, Record, crc64_text};

/// Bytes read at a time.
const READ_BYTES: usize = 1 << 20;

/// Checks every file of the plan's dataset.
///
/// # Errors
/// If the manifest cannot be read or belongs to another dataset, or if the user stops. Files that are
/// bad, missing or could not be read are not an error here: they are listed.
pub fn verify(
    plan: &GeneratePlan,
    observer: &dyn Observer,
    stop: &StopToken,
) -> Result<Verification, GenerateError> {
    plan.storage.hold(&plan.folder);
    if !plan.storage.is_folder(&plan.folder).map_err(GenerateError::setup)? {
        let fact = format!("{} does not exist", plan.folder.display());
        return Err(GenerateError::machine(fact, ""));
    }
    let record = Record::load(&*plan.storage, &plan.folder)?;
    if let Some(record) = &record
        && record.head.recipe != plan.manifest_head().recipe
    {
        return Err(plan.another(&record.head));
    }
    let files = plan.dataset.files();
    observer.event(&Event::PhaseStarted {
        label: format!("verifying {}", counted(files, "file")),
        total: Some(files),
        unit: Unit::Files,
    });
    let bytes = AtomicU64::new(0);
    let faults: Mutex<Vec<(u64, Fault)>> = Mutex::default();
    let checked = thread_group::each_file(plan, observer, stop, |index| {
        match check_file(plan, record.as_ref(), index) {
            Ok(read) => {
                bytes.fetch_add(read, Ordering::Relaxed);
            }
            Err(fault) => {
                faults.lock().unwrap_or_else(PoisonError::into_inner).push((index, fault));
            }
        }
    });
    observer.event(&Event::PhaseFinished);
    let checked = checked?;
    let mut faults = faults.into_inner().unwrap_or_else(PoisonError::into_inner);
    if stop.is_stopped() {
        let bad = faults.len();
        return Err(GenerateError::Stopped {
            what: format!("{checked} of {files} files checked, {bad} of them bad"),
            wrote: false,
        });
    }
    faults.sort_unstable_by_key(|(index, _)| *index);
    let mut found = Verification {
        files,
        bytes: bytes.into_inner(),
        by_checksum: record.is_some(),
        warnings: plan.storage.warnings(),
        ..Verification::default()
    };
    for (_, fault) in faults {
        match fault {
            Fault::Bad(what) => found.faults.push(what),
            Fault::Missing(name) => found.missing.push(name),
            Fault::Unread(why) => found.unread.push(why),
        }
    }
    Ok(found)
}

/// Why a file is not known to be good.
#[derive(Debug)]
pub(super) enum Fault {
    /// It differs from the file that was made: how.
    Bad(String),
    /// There is no file of this name.
    Missing(String),
    /// It could not be read, so its content is unknown.
    Unread(Note<Cause>),
}

impl Fault {
    /// The reason why the file of this name could not be examined or read.
    fn of_transfer(name: &str, error: TransferError) -> Self {
        let what = format!("{name}: {}", error.reason());
        match error {
            error if error.is_not_found() => Self::Missing(name.to_string()),
            // A link, a folder, or another object than the one of the list.
            error if error.was_not_asked() || error.is_of_other_data() => Self::Bad(what),
            error => {
                let Note { kind, remedy, .. } = Failure::from(error).note;
                Self::Unread(Note::new(kind, what, remedy))
            }
        }
    }

    /// The fault of a file's format, or the reason why it could not be read.
    fn of_format(error: &FormatError) -> Self {
        match error {
            FormatError::Read { file, source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Self::Missing(file.clone())
            }
            error => error.unread().map_or_else(|| Self::Bad(error.to_string()), Self::Unread),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bad(what) => f.write_str(what),
            Self::Missing(name) => write!(f, "{name} is missing"),
            Self::Unread(why) => f.write_str(&why.fact),
        }
    }
}

/// The number of bytes read of file `index`, or its fault.
fn check_file(plan: &GeneratePlan, record: Option<&Record>, index: u64) -> Result<u64, Fault> {
    let name = plan.dataset.path(index);
    let path = plan.folder.join(&name);
    let storage = &*plan.storage;
    let told = |error| Fault::of_transfer(&name, error);
    let found = storage.found(&path).map_err(told)?.bytes;
    let Some(record) = record else {
        return check_framing(plan, index, &name, found);
    };
    let Some(file) = record.files.get(&name) else {
        let what = format!("{name}: the run that made the dataset did not finish it");
        return Err(Fault::Bad(what));
    };
    check_listed(storage, &plan.folder, file)?;
    check_side_files(storage, &plan.folder, file)?;
    Ok(found)
}

/// Checks a listed file by size and checksum.
fn check_listed(storage: &dyn Storage, folder: &Path, file: &ManifestFile) -> Result<(), Fault> {
    let ManifestFile { name, bytes, crc64, .. } = file;
    let path = folder.join(name);
    let told = |error| Fault::of_transfer(name, error);
    let found = storage.found(&path).map_err(told)?.bytes;
    if found != *bytes {
        let what = format!("{name}: it has {found} bytes, but was made with {bytes}");
        return Err(Fault::Bad(what));
    }
    let crc = crc64_text(checksum_of(storage, &path).map_err(told)?);
    if crc != *crc64 {
        let what = format!("{name}: its content has changed: checksum {crc}, expected {crc64}");
        return Err(Fault::Bad(what));
    }
    Ok(())
}

/// Checks the index files of a data file.
pub(super) fn check_side_files(
    storage: &dyn Storage,
    folder: &Path,
    file: &ManifestFile,
) -> Result<(), Fault> {
    file.side_files.iter().try_for_each(|side| check_listed(storage, folder, side))
}

/// Without a manifest: checks the format's framing and index, the number of samples and the
/// expected size.
pub(super) fn check_framing(
    plan: &GeneratePlan,
    index: u64,
    name: &str,
    bytes: u64,
) -> Result<u64, Fault> {
    let file = FoundFile { name: name.to_string(), bytes };
    let layout = inventory::inspect(&*plan.storage, &plan.folder, &plan.dataset, &file)
        .map_err(|error| Fault::of_format(&error))?;
    let samples = plan.dataset.recipe().samples_per_file;
    if layout.samples != samples {
        let found = layout.samples;
        let what = format!("{name}: it contains {found} samples, but the workload has {samples}");
        return Err(Fault::Bad(what));
    }
    let expected = plan.dataset.expected_bytes(index);
    if plan.dataset.sizes_are_exact() && bytes != expected {
        let what = format!("{name}: it has {bytes} bytes, but the workload expects {expected}");
        return Err(Fault::Bad(what));
    }
    Ok(0)
}

/// The checksum of a file, read from storage: its cached pages are dropped first.
fn checksum_of(storage: &dyn Storage, path: &Path) -> Result<u64, TransferError> {
    // If no page can be dropped, the cache is as good a source as any.
    let _ = storage.drop_cached(path);
    let file = storage.handle(path, Access::Read, false)?;
    let mut digest = Digest::new(CHECKSUM);
    let (mut buffer, mut offset) = (vec![0; READ_BYTES], 0);
    loop {
        let read = storage.read_from(&file, path, offset, &mut buffer)?;
        if read == 0 {
            return Ok(digest.finalize());
        }
        digest.update(&buffer[..read]);
        offset += read as u64;
    }
}

/// State of a listed file.
#[derive(Debug)]
pub enum FileState {
    /// There is no entry under its name.
    Gone,
    /// It has its bytes; here is its current listing.
    Whole(ManifestFile),
    /// It is empty.
    Empty,
    /// It is the original file, but truncated or altered: its description now.
    Damaged(String),
    /// A different entry is under its name: its description.
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
) -> Result<FileState, TransferError> {
    let path = folder.join(&file.name);
    let found = match storage.left(&path, Some(file.bytes), None)? {
        RecordedState::Nothing => return Ok(FileState::Gone),
        RecordedState::Same(found) => found,
        RecordedState::Other(what) => {
            let found = match storage.look(&path) {
                // Behind a link, which is not followed.
                Err(error) if error.was_not_asked() => None,
                found => found?,
            };
            return Ok(if found.is_some_and(|found| is_the_file(file, &found)) {
                FileState::Damaged(what)
            } else {
                FileState::Foreign(what)
            });
        }
    };
    if found.bytes != file.bytes {
        return Ok(FileState::Empty);
    }
    // Objects have no time of change, but an identity that changes with their content.
    let timeless = found.changed_ns == 0 && file.identity != Some(found.identity);
    if (found.changed_ns != file.changed_ns || timeless)
        && crc64_text(checksum_of(storage, &path)?) != file.crc64
    {
        let what = "a file of other content".to_string();
        return Ok(if is_the_file(file, &found) {
            FileState::Damaged(what)
        } else {
            FileState::Foreign(what)
        });
    }
    Ok(FileState::Whole(ManifestFile {
        changed_ns: found.changed_ns,
        identity: Some(found.identity),
        ..file.clone()
    }))
}

/// The state of a listed file before it is removed, without its side files, by a list with these
/// `owners`. A copied dataset has other identities, but the checksums of its list and, if `is_named`,
/// the names of that list's dataset.
///
/// # Errors
/// As [`state_of`].
pub fn removable(
    (storage, folder): (&dyn Storage, &Path),
    owners: &[u32],
    file: &ManifestFile,
    is_named: bool,
) -> Result<RecordedState, TransferError> {
    let (bytes, made) = match state_of(storage, folder, file)? {
        FileState::Gone => return Ok(RecordedState::Nothing),
        FileState::Damaged(what) | FileState::Foreign(what) => {
            return Ok(RecordedState::Other(what));
        }
        FileState::Empty => (0, file.identity),
        FileState::Whole(now) if is_named => (now.bytes, now.identity),
        FileState::Whole(_) => (file.bytes, file.identity),
    };
    left_to_remove(storage, owners, &folder.join(&file.name), (Some(bytes), made))
}

/// Whether the file found is the original one, whatever its content now.
fn is_the_file(file: &ManifestFile, found: &Facts) -> bool {
    found.kind == Kind::File && !found.link && file.identity == Some(found.identity)
}
