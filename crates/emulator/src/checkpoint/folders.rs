//! The directories of a run: scanned before it, locked during it, markers written around every
//! save, and removed only where a marker says that stormlp made what is there.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use stormlp_model::checkpoint::{
    CheckpointFacts, CheckpointPlan, FolderFacts, FoundFile, MARKER_NAME, MarkedFile, Marker,
    SavedPart, step_folder, step_of,
};
use stormlp_model::facts::Availability;
use stormlp_transfer::TransferError;
use stormlp_transfer::storage::{self, Access, FolderLock, LOCK_NAME};

use super::error::CheckpointError;

/// How closely directories are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Nothing is touched; whether a directory can be written is not known then.
    Only,
    /// A file that is gone at once is made in each, to know whether that and `O_DIRECT` work.
    AndTry,
}

/// Looks at the directories and at what lies in them; none of it is changed.
///
/// # Errors
/// When a directory that is there cannot be read.
pub fn scan(folders: &[PathBuf], look: Look) -> Result<CheckpointFacts, TransferError> {
    let mut facts = CheckpointFacts::default();
    for (index, path) in folders.iter().enumerate() {
        facts.folders.push(folder_facts(path, look)?);
        if path.is_dir() {
            facts.saved.extend(saved_parts(index, path)?);
        }
    }
    Ok(facts)
}

/// The nearest folder at or above `path` that is there.
fn existing(path: &Path) -> PathBuf {
    let mut current = path;
    loop {
        if current.exists() {
            return current.to_path_buf();
        }
        match current.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => current = parent,
            _ => return PathBuf::from("."),
        }
    }
}

fn folder_facts(path: &Path, look: Look) -> Result<FolderFacts, TransferError> {
    let nearest = existing(path);
    let metadata = fs::metadata(&nearest)
        .map_err(|source| TransferError::file("look at", &nearest, source))?;
    let writable = if !metadata.is_dir() {
        Availability::unavailable(
            format!("{} is no folder", nearest.display()),
            "use --dir with a folder",
        )
    } else if look == Look::Only {
        Availability::Available
    } else if let Err(error) = try_file(&nearest) {
        Availability::unavailable(
            error.to_string(),
            "change its permissions, or use another --dir",
        )
    } else {
        Availability::Available
    };
    Ok(FolderFacts {
        path: path.to_path_buf(),
        direct: match look {
            Look::Only => Availability::Available,
            Look::AndTry => direct_support(&nearest, &writable),
        },
        writable,
        free_bytes: storage::space(&nearest)?.free_bytes,
        file_system_id: metadata.dev(),
    })
}

/// Whether a file can be made in a folder: tried, with a file that is gone at once.
fn try_file(folder: &Path) -> std::io::Result<()> {
    let probe = probe_name(folder);
    fs::File::options()
        .write(true)
        .create_new(true)
        .open(&probe)?;
    fs::remove_file(&probe)
}

/// A name for a trial file that no other run takes.
fn probe_name(folder: &Path) -> PathBuf {
    folder.join(format!(".stormlp-trial-{}", std::process::id()))
}

/// Whether files in a folder take `O_DIRECT`: tried.
fn direct_support(folder: &Path, writable: &Availability) -> Availability {
    if !writable.is_available() {
        // Reading may still work; what opens the files will tell.
        return Availability::Available;
    }
    let probe = probe_name(folder);
    let opened = storage::open(&probe, Access::Create, true);
    let _ = fs::remove_file(&probe);
    match opened {
        Err(error) if storage::is_direct_refused(&error) => {
            Availability::unavailable(error.to_string(), "use --path buffered")
        }
        _ => Availability::Available,
    }
}

/// Every checkpoint folder in a directory.
fn saved_parts(index: usize, directory: &Path) -> Result<Vec<SavedPart>, TransferError> {
    let read = |path: &Path| {
        fs::read_dir(path)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|source| TransferError::file("read the folder", path, source))
    };
    let mut parts = Vec::new();
    for entry in read(directory)? {
        let name = entry.file_name();
        let Some(step) = name.to_str().and_then(step_of) else {
            continue;
        };
        let folder = entry.path();
        let marker = fs::read_to_string(folder.join(MARKER_NAME)).ok();
        let mut files = Vec::new();
        if folder.is_dir() {
            for file in read(&folder)? {
                if let (Ok(metadata), Ok(name)) = (file.metadata(), file.file_name().into_string())
                    && metadata.is_file()
                    && name != MARKER_NAME
                {
                    files.push(FoundFile {
                        name,
                        bytes: metadata.len(),
                    });
                }
            }
        }
        parts.push(SavedPart {
            step,
            folder: index,
            marker: marker.map(|text| Marker::parse(&text)),
            files,
        });
    }
    parts.sort_by_key(|part| part.step);
    Ok(parts)
}

/// Makes the directories and keeps other runs out of them.
pub(super) fn enter(folders: &[PathBuf]) -> Result<Vec<FolderLock>, CheckpointError> {
    folders
        .iter()
        .map(|folder| {
            fs::create_dir_all(folder)
                .map_err(|source| TransferError::file("make the folder", folder, source))?;
            Ok(FolderLock::take(folder)?)
        })
        .collect()
}

/// The marker of a plan's checkpoint in one of its directories.
fn marker(plan: &CheckpointPlan, folder: usize, complete: bool) -> Marker {
    let (format_version, made_by) = Marker::version();
    let ranks = plan.ranks.iter().filter(|rank| rank.folder == folder);
    Marker {
        format_version,
        made_by,
        complete,
        crash_safe: plan.fsync != stormlp_model::checkpoint::FsyncPolicy::None,
        model: plan.model.clone(),
        layout: plan.layout,
        full_layers: plan.scaling.full_layers,
        ranks: plan.scaling.ranks,
        full_ranks: plan.scaling.full_ranks,
        content: plan.content,
        files: ranks
            .flat_map(|rank| {
                rank.files.iter().map(|file| MarkedFile {
                    rank: rank.rank,
                    name: file.name.clone(),
                    bytes: file.bytes,
                })
            })
            .collect(),
    }
}

/// Makes the folders of checkpoint `step`, empty but for a marker that says "incomplete". A
/// checkpoint of that number that stormlp made before goes away; anything else is in the way.
pub(super) fn begin(plan: &CheckpointPlan, step: u32) -> Result<(), CheckpointError> {
    for (index, directory) in plan.folders.iter().enumerate() {
        let folder = directory.join(step_folder(step));
        if folder.exists() {
            remove_folder(&folder)?;
        }
        fs::create_dir(&folder)
            .map_err(|source| TransferError::file("make the folder", &folder, source))?;
        write_marker(&folder, &marker(plan, index, false))?;
        storage::sync_folder(directory)?;
    }
    Ok(())
}

/// Says that checkpoint `step` is whole.
pub(super) fn complete(plan: &CheckpointPlan, step: u32) -> Result<(), CheckpointError> {
    for (index, directory) in plan.folders.iter().enumerate() {
        write_marker(
            &directory.join(step_folder(step)),
            &marker(plan, index, true),
        )?;
    }
    Ok(())
}

fn write_marker(folder: &Path, marker: &Marker) -> Result<(), CheckpointError> {
    let path = folder.join(MARKER_NAME);
    storage::write_atomically(&path, marker.to_json().as_bytes())
        .map_err(|error| CheckpointError::on(&path, error))
}

/// Removes what a save that did not end left under temporary names.
pub(super) fn sweep(plan: &CheckpointPlan, step: u32) {
    for rank in &plan.ranks {
        let folder = plan.folders[rank.folder].join(step_folder(step));
        for file in &rank.files {
            // Most were never made or have their final name already.
            let _ = fs::remove_file(storage::temporary_name(&folder.join(&file.name)));
        }
    }
}

/// Removes checkpoint `step` from all directories of the plan.
pub(super) fn remove(plan: &CheckpointPlan, step: u32) -> Result<(), CheckpointError> {
    for directory in &plan.folders {
        let folder = directory.join(step_folder(step));
        if folder.exists() {
            remove_folder(&folder)?;
        }
    }
    Ok(())
}

/// Removes a checkpoint folder that a marker says stormlp made: the files it lists, under final
/// and temporary names, the marker last. Whatever else lies there stays, and the folder with it.
///
/// # Errors
/// When there is no marker, or something cannot be removed.
fn remove_folder(folder: &Path) -> Result<u64, CheckpointError> {
    let in_the_way = || CheckpointError::InTheWay {
        path: folder.to_path_buf(),
    };
    let path = folder.join(MARKER_NAME);
    let text = fs::read_to_string(&path).map_err(|_| in_the_way())?;
    let mut marker = Marker::parse(&text).map_err(|_| in_the_way())?;
    if marker.complete {
        // From here on it is not whole, whatever happens in between.
        marker.complete = false;
        write_marker(folder, &marker)?;
    }
    let mut removed_bytes = 0;
    for file in &marker.files {
        let path = folder.join(&file.name);
        for path in [storage::temporary_name(&path), path] {
            let bytes = fs::symlink_metadata(&path).map_or(0, |metadata| metadata.len());
            match fs::remove_file(&path) {
                Ok(()) => removed_bytes += bytes,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(source) => return Err(TransferError::file("remove", path, source).into()),
            }
        }
    }
    let _ = fs::remove_file(storage::temporary_name(&path));
    let foreign = fs::read_dir(folder)
        .map(|entries| {
            entries
                .flatten()
                .any(|entry| entry.file_name() != MARKER_NAME)
        })
        .map_err(|source| TransferError::file("read the folder", folder, source))?;
    if foreign {
        return Err(in_the_way());
    }
    fs::remove_file(&path).map_err(|source| TransferError::file("remove", &path, source))?;
    fs::remove_dir(folder).map_err(|source| TransferError::file("remove", folder, source))?;
    Ok(removed_bytes)
}

/// What was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cleaned {
    /// Checkpoint folders.
    pub checkpoints: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// Checkpoint folders that stayed because they hold something stormlp did not make.
    pub left: u64,
}

/// Removes every checkpoint in `directory` that a marker says stormlp made, and the directory
/// itself when nothing else is in it. Anything without a marker stays.
///
/// # Errors
/// When another run uses the directory, or something of stormlp's cannot be removed.
pub fn clean(directory: &Path) -> Result<Cleaned, CheckpointError> {
    let mut cleaned = Cleaned::default();
    if !directory.is_dir() {
        return Ok(cleaned);
    }
    let lock = FolderLock::take(directory)?;
    for part in saved_parts(0, directory)? {
        match remove_folder(&directory.join(step_folder(part.step))) {
            Ok(bytes) => {
                cleaned.checkpoints += 1;
                cleaned.bytes += bytes;
            }
            Err(CheckpointError::InTheWay { .. }) => cleaned.left += 1,
            Err(error) => return Err(error),
        }
    }
    drop(lock);
    if cleaned.left == 0 {
        let only_lock = fs::read_dir(directory)
            .is_ok_and(|mut entries| entries.all(|e| e.is_ok_and(|e| e.file_name() == LOCK_NAME)));
        if only_lock {
            let _ = fs::remove_file(directory.join(LOCK_NAME));
            let _ = fs::remove_dir(directory);
        }
    }
    Ok(cleaned)
}
