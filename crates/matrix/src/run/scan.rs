//! Scans the folders and files of a request before a matrix runs.

use std::path::Path;

use crate::plan::{
    DataManifest, FileFacts, FileKind, JobRequest, JobTarget, MANIFEST_NAME, MatrixRequest,
    TargetFolder, TargetInventory, TargetPlace,
};
use stormlp_core::facts::{Availability, FoundFile};
use stormlp_core::location::names_object;
use stormlp_core::machine::{DirectSupport, Fact};
use stormlp_core::pattern::{Pattern, stream_of};
use stormlp_transfer::storage::{Access, Kind, Storage, dead_link};
use stormlp_transfer::{TransferError, probe};

/// Default `O_DIRECT` alignment if the file system does not report it: a sector.
const USUAL_ALIGNMENT_BYTES: u64 = 512;

/// Number of places sampled to check a file for the pattern, and bytes read at each.
const PLACES: u64 = 64;
const PLACE_BYTES: usize = 4096;

/// Examines every folder and file of a request once. A missing folder can be created if at most
/// `makes` trailing path components are missing.
///
/// # Errors
/// If one of them, or the contents of a folder of stormlp's, cannot be examined.
pub(super) fn inventory(
    storage: &dyn Storage,
    request: &MatrixRequest,
    makes: usize,
) -> Result<TargetInventory, TransferError> {
    let mut inventory = TargetInventory::default();
    for job in &request.jobs {
        match &job.target {
            JobTarget::Folder(path) if inventory.folder(path).is_none() => {
                inventory.folders.push(match names_object(path) {
                    true => prefix(storage, path)?,
                    false => folder(storage, path, makes)?,
                });
            }
            // The plan refuses it.
            JobTarget::File(path) if names_object(path) => {}
            JobTarget::File(path) if inventory.file(path).is_none() => {
                let mut facts = file(storage, path, request.writes())?;
                if request.verifies_existing_data() && facts.readable.is_available() {
                    facts.holds_pattern = holds_pattern(storage, request, job, facts.bytes)?;
                }
                inventory.files.push(facts);
            }
            JobTarget::Folder(_) | JobTarget::File(_) => {}
        }
    }
    Ok(inventory)
}

/// Whether the parent of the last `makes` components of `path` exists; the default folders are
/// created from scratch.
fn has_parent(path: &Path, makes: usize) -> bool {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let above = absolute.ancestors().nth(makes);
    path.starts_with("stormlp-data") || above.is_some_and(Path::exists)
}

fn folder(storage: &dyn Storage, path: &Path, makes: usize) -> Result<TargetFolder, TransferError> {
    // Files in it will be written, so no component may be a link to another place.
    storage.hold(path);
    let there = storage.nearest(path)?;
    let exists = std::path::absolute(path).is_ok_and(|path| path == there);
    let is_folder = storage.found(&there)?.kind == Kind::Folder;
    let direct = probe::direct_io(&there);
    let writable = match (dead_link(path), is_folder, &direct) {
        (Some(link), ..) => Availability::unavailable(
            format!("{} is a link that does not lead to a folder", link.display()),
            "remove the link, or use another --dir",
        ),
        // A mistyped mount point must not fill the disk below it.
        _ if !exists && !has_parent(path, makes) => Availability::unavailable(
            format!("neither {} nor its parent folder exists", path.display()),
            "correct the name, or create the folder first with `mkdir -p`",
        ),
        (None, false, _) => Availability::unavailable(
            format!("{} is not a folder", there.display()),
            "use another --dir",
        ),
        (None, true, Fact::Unknown(reason)) => Availability::unavailable(
            reason.as_str(),
            "use another --dir, on a file system where you may create files",
        ),
        (None, true, Fact::Known(_)) => Availability::Available,
    };
    let place = place(storage, &there, writable, direct)?;
    let mut folder = TargetFolder::empty(path.to_path_buf(), exists, place);
    if exists && is_folder {
        list(storage, &mut folder)?;
    }
    Ok(folder)
}

/// A prefix of objects: there is no folder to create, and no room to run out of.
fn prefix(storage: &dyn Storage, path: &Path) -> Result<TargetFolder, TransferError> {
    let place = TargetPlace {
        writable: Availability::Available,
        free_bytes: storage.space(path)?.map(|space| space.free_bytes),
        file_system_id: 0,
        file_system: Some("s3".to_string()),
        direct: Availability::unavailable("objects have no O_DIRECT", "leave it out"),
        direct_alignment_bytes: USUAL_ALIGNMENT_BYTES,
    };
    let mut folder = TargetFolder::empty(path.to_path_buf(), true, place);
    list(storage, &mut folder)?;
    Ok(folder)
}

/// The file system at `there`, which exists.
fn place(
    storage: &dyn Storage,
    there: &Path,
    writable: Availability,
    direct: Fact<DirectSupport>,
) -> Result<TargetPlace, TransferError> {
    let alignment = |support: &DirectSupport| match support.offset_align_bytes.known() {
        None | Some(0) => USUAL_ALIGNMENT_BYTES,
        Some(bytes) => u64::from(*bytes),
    };
    let (direct, direct_alignment_bytes) = match direct {
        Fact::Known(support) if support.honoured => (Availability::Available, alignment(&support)),
        Fact::Known(support) => (
            Availability::unavailable(support.tried, "use a file system with O_DIRECT"),
            USUAL_ALIGNMENT_BYTES,
        ),
        Fact::Unknown(reason) => {
            (Availability::unavailable(reason, "see `stormlp doctor DIR`"), USUAL_ALIGNMENT_BYTES)
        }
    };
    Ok(TargetPlace {
        writable,
        free_bytes: storage.space(there)?.map(|space| space.free_bytes),
        file_system_id: storage.found(there)?.file_system_id,
        file_system: probe::filesystem(there).known().map(|fs| fs.kind.clone()),
        direct,
        direct_alignment_bytes,
    })
}

/// Reads the manifest of a folder, or why it is unusable.
fn read_manifest(storage: &dyn Storage, folder: &mut TargetFolder) -> Result<(), TransferError> {
    let manifest = match storage.read_text(&folder.path.join(MANIFEST_NAME)) {
        // It could be read but is not text, or not a file.
        Err(error) if error.was_not_asked() => Err(error.to_string()),
        text => text?.map(|text| DataManifest::parse(&text)).transpose(),
    };
    match manifest {
        Ok(manifest) => folder.manifest = manifest,
        Err(problem) => folder.manifest_problem = Some(problem),
    }
    Ok(())
}

/// Lists the manifest, the regular files and the other entries of a folder.
fn list(storage: &dyn Storage, folder: &mut TargetFolder) -> Result<(), TransferError> {
    read_manifest(storage, folder)?;
    for entry in storage.list(&folder.path)? {
        let (regular, facts) = (entry.is_file(), entry.facts);
        // Files of a matrix have valid UTF-8 names.
        let Ok(name) = entry.name.into_string() else {
            continue;
        };
        let bytes = facts.bytes;
        let listed = folder.manifest.as_ref().and_then(|made| made.file(&name));
        // A truncated file is still the created one, and an empty file has no data to lose.
        let another = listed.filter(|listed| bytes != 0 && facts.is_another(listed.identity));
        let other = match another {
            _ if !regular => Some(facts.what().to_string()),
            Some(listed) if listed.bytes != bytes => {
                Some(format!("another file, of {bytes} bytes"))
            }
            _ => None,
        };
        if let Some(what) = other {
            folder.others.insert(name, what);
            continue;
        }
        if another.is_some() {
            folder.copies.push(name.clone());
        }
        // Other files are never read.
        if listed.is_some() {
            let holes = storage.hole_bytes(&folder.path.join(&name), bytes)?;
            folder.hole_bytes.insert(name.clone(), holes);
        }
        folder.files.push(FoundFile { name, bytes });
    }
    Ok(())
}

fn file(storage: &dyn Storage, path: &Path, writes: bool) -> Result<FileFacts, TransferError> {
    let found = storage.look(path)?;
    let kind = found.map_or(FileKind::Missing, |found| kind(found.kind));
    let parent = storage.nearest(path.parent().unwrap_or(Path::new(".")))?;
    let (direct, readable, writable) = match kind {
        FileKind::Missing => {
            let direct = probe::direct_io(&parent);
            let usable = match &direct {
                Fact::Unknown(reason) => {
                    Availability::unavailable(reason.as_str(), "use a folder you may write to")
                }
                Fact::Known(_) => parent_exists(storage, path)?,
            };
            (direct, usable.clone(), usable)
        }
        _ => {
            let readable = opens(storage, path, Access::Read)?;
            (probe::direct_io(path), readable, writable(storage, path, kind)?)
        }
    };
    let mut place = place(storage, &parent, writable, direct)?;
    if matches!(kind, FileKind::BlockDevice | FileKind::Other) {
        place.file_system = None;
    }
    let bytes = found.map_or(0, |found| found.bytes);
    let is_regular = kind == FileKind::Regular;
    Ok(FileFacts {
        path: path.to_path_buf(),
        kind,
        bytes,
        hole_bytes: if is_regular { storage.hole_bytes(path, bytes)? } else { 0 },
        marked: is_regular && storage.is_marked(path)?,
        readable,
        place,
        holds_pattern: None,
        device: (writes && kind == FileKind::BlockDevice).then(|| probe::device_content(path)),
    })
}

/// Whether at least half of the sampled places hold the pattern of the request; `None` if the file
/// is empty. A corrupt file written for verification holds it in nearly all places, whereas a write
/// of other data may have left it in the first.
fn holds_pattern(
    storage: &dyn Storage,
    request: &MatrixRequest,
    job: &JobRequest,
    bytes: u64,
) -> Result<Option<bool>, TransferError> {
    let path = job.target.path();
    let file = storage.open(path, Access::Read, false)?;
    let pattern = Pattern::new(request.tune.seed, stream_of(path));
    let start = job.offset_bytes.min(bytes);
    let end = start + (request.file_size_bytes.unwrap_or(bytes)).min(bytes - start);
    let step = ((end - start) / PLACES).max(PLACE_BYTES as u64);
    let mut piece = vec![0; PLACE_BYTES];
    let (mut places, mut holding) = (0, 0);
    for offset in (start..end).step_by(step as usize) {
        let read = storage.read_at(&file, path, offset, &mut piece)?;
        if read == 0 {
            break;
        }
        places += 1;
        holding += u64::from(pattern.check(offset, &piece[..read]).is_ok());
    }
    Ok((places > 0).then_some(2 * holding >= places))
}

fn kind(kind: Kind) -> FileKind {
    match kind {
        Kind::File => FileKind::Regular,
        Kind::BlockDevice => FileKind::BlockDevice,
        Kind::Nothing => FileKind::Missing,
        Kind::Folder | Kind::Link | Kind::Other => FileKind::Other,
    }
}

/// Files are created, but their folder must exist.
fn parent_exists(storage: &dyn Storage, path: &Path) -> Result<Availability, TransferError> {
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    Ok(if storage.is_folder(parent)? {
        Availability::Available
    } else {
        Availability::unavailable(
            format!("folder {} does not exist", parent.display()),
            "create the folder, or correct the name",
        )
    })
}

/// Whether it can be written: opening a read-only device for writing may succeed nevertheless.
fn writable(
    storage: &dyn Storage,
    path: &Path,
    kind: FileKind,
) -> Result<Availability, TransferError> {
    if kind == FileKind::BlockDevice && probe::device_is_read_only(path) {
        return Ok(Availability::unavailable(
            "it is read-only",
            format!(
                "lift that with `blockdev --setrw {}` if the device allows it, or name another",
                path.display()
            ),
        ));
    }
    opens(storage, path, Access::ReadWrite)
}

fn opens(
    storage: &dyn Storage,
    path: &Path,
    access: Access,
) -> Result<Availability, TransferError> {
    match storage.open(path, access, false) {
        Ok(_) => Ok(Availability::Available),
        Err(error) if error.is_device_failure() => Err(error),
        Err(error) => Ok(Availability::unavailable(
            error.reason(),
            "change its permissions, or run as a user who may open it",
        )),
    }
}
