//! The directories of a run: scanned before it, locked during it, markers written around every
//! save, and removed only where a marker says that stormlp made what is there.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use stormlp_model::checkpoint::{
    CheckpointFacts, CheckpointPlan, FolderFacts, FoundFile, MARKER_NAME, MarkedFile, Marker,
    SavedPart, step_folder, step_of,
};
use stormlp_model::facts::Availability;
use stormlp_model::location::Location;
use stormlp_transfer::storage::{self, Access, FolderLock, LOCK_NAME};
use stormlp_transfer::{TransferError, probe};

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
pub fn scan(folders: &[Location], look: Look) -> Result<CheckpointFacts, TransferError> {
    let mut facts = CheckpointFacts::default();
    for (index, path) in folders.iter().map(Location::folder).enumerate() {
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
        path: path.into(),
        direct: match look {
            Look::Only => Availability::Available,
            Look::AndTry => direct_support(&nearest, &writable),
        },
        writable,
        free_bytes: storage::space(&nearest)?.free_bytes,
        file_system_id: metadata.dev(),
        file_system: probe::filesystem(&nearest)
            .known()
            .map(|fs| fs.kind.clone()),
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
        let marker = marker.map(|text| Marker::parse(&text));
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
            foreign: match &marker {
                Some(Ok(marker)) => foreign(&folder, marker)?,
                _ => None,
            },
            marker,
            files,
        });
    }
    parts.sort_by_key(|part| part.step);
    Ok(parts)
}

/// Makes the directories and keeps other runs out of them.
pub(super) fn enter(folders: &[Location]) -> Result<Vec<FolderLock>, CheckpointError> {
    folders
        .iter()
        .map(Location::folder)
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
/// checkpoint of that number that stormlp made before goes away; anything else is in the way, and
/// then nothing at all is touched.
pub(super) fn begin(plan: &CheckpointPlan, step: u32) -> Result<(), CheckpointError> {
    for made in made_before(plan, step)? {
        made.remove()?;
    }
    for (index, directory) in plan.folders.iter().enumerate() {
        let folder = directory.join(step_folder(step));
        make_folder(&folder, &marker(plan, index, false))?;
        storage::sync_folder(directory.folder())?;
    }
    Ok(())
}

/// Makes a checkpoint's folder with its marker in it. A folder of that name is never without:
/// nobody could tell then who made it.
fn make_folder(folder: &Path, marker: &Marker) -> Result<(), CheckpointError> {
    let husk = storage::temporary_name(folder);
    remove_husk(&husk)?;
    let make = || -> Result<(), CheckpointError> {
        fs::create_dir(&husk)
            .map_err(|source| TransferError::file("make the folder", folder, source))?;
        write_marker(&husk, marker)?;
        fs::rename(&husk, folder)
            .map_err(|source| TransferError::file("make the folder", folder, source))?;
        Ok(())
    };
    make().inspect_err(|_| {
        // What is left of the attempt is of no use to anyone.
        let _ = remove_husk(&husk);
    })
}

/// Removes a checkpoint's folder under its temporary name, in which there is a marker at most. A
/// run that was killed may have left one.
fn remove_husk(husk: &Path) -> Result<(), CheckpointError> {
    let marker = husk.join(MARKER_NAME);
    let removed = [storage::temporary_name(&marker), marker]
        .into_iter()
        .map(fs::remove_file)
        .chain(std::iter::once_with(|| fs::remove_dir(husk)));
    for result in removed {
        match result {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(TransferError::file("remove", husk, error).into());
            }
            _ => {}
        }
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

/// Writes a marker so that it survives a crash, unless it says that the files themselves need
/// not: then "complete" is not made to last longer than they.
fn write_marker(folder: &Path, marker: &Marker) -> Result<(), CheckpointError> {
    let path = folder.join(MARKER_NAME);
    let text = marker.to_json();
    let written = match marker.complete && !marker.crash_safe {
        true => storage::replace(&path, text.as_bytes()),
        false => storage::write_atomically(&path, text.as_bytes()),
    };
    written.map_err(|error| CheckpointError::on(&path, error))
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

/// Removes checkpoint `step` from all directories of the plan; when something of others lies in
/// one of them, nothing at all.
pub(super) fn remove(plan: &CheckpointPlan, step: u32) -> Result<(), CheckpointError> {
    for made in made_before(plan, step)? {
        if let Some(path) = made.remove()?.left {
            return Err(CheckpointError::InTheWay { path });
        }
    }
    Ok(())
}

/// The folders of checkpoint `step` in all directories of the plan; nothing is touched.
///
/// # Errors
/// When one of them, or something in it, was not made by stormlp, or belongs to another job.
fn made_before(plan: &CheckpointPlan, step: u32) -> Result<Vec<Made>, CheckpointError> {
    let mut all = Vec::new();
    for directory in &plan.folders {
        let folder = directory.join(step_folder(step));
        if fs::symlink_metadata(&folder).is_err() {
            continue;
        }
        let made = Made::look(&folder)?;
        if let Some(name) = foreign(&folder, &made.marker)? {
            return Err(CheckpointError::InTheWay {
                path: folder.join(name),
            });
        }
        if let Some(other) = plan.of_another_job(&made.marker) {
            return Err(CheckpointError::Another {
                path: folder,
                other,
            });
        }
        all.push(made);
    }
    Ok(all)
}

/// Something in a checkpoint's folder that its marker does not list: by name.
fn foreign(folder: &Path, marker: &Marker) -> Result<Option<String>, TransferError> {
    let listed = marker.files.iter().map(|file| file.name.as_str());
    let own: HashSet<OsString> = listed
        .chain([MARKER_NAME])
        .flat_map(|name| {
            let name = Path::new(name);
            [name.into(), storage::temporary_name(name).into_os_string()]
        })
        .collect();
    let read = |error| TransferError::file("read the folder", folder, error);
    for entry in fs::read_dir(folder).map_err(read)? {
        let name = entry.map_err(read)?.file_name();
        if !own.contains(&name) {
            return Ok(Some(name.to_string_lossy().into_owned()));
        }
    }
    Ok(None)
}

/// A checkpoint's folder that a marker says stormlp made.
struct Made {
    folder: PathBuf,
    marker: Marker,
}

impl Made {
    /// Reads the marker of a folder.
    ///
    /// # Errors
    /// When there is none, or none that can be used.
    fn look(folder: &Path) -> Result<Self, CheckpointError> {
        let in_the_way = || CheckpointError::InTheWay {
            path: folder.to_path_buf(),
        };
        let text = fs::read_to_string(folder.join(MARKER_NAME)).map_err(|_| in_the_way())?;
        Ok(Self {
            folder: folder.to_path_buf(),
            marker: Marker::parse(&text).map_err(|_| in_the_way())?,
        })
    }

    /// Removes the files that the marker lists, under final and temporary names, and the folder
    /// last. Whatever else lies there stays, and the folder and its marker with it.
    ///
    /// # Errors
    /// When something cannot be removed.
    fn remove(mut self) -> Result<Removed, CheckpointError> {
        let folder = &self.folder;
        if self.marker.complete {
            // From here on it is not whole, whatever happens in between.
            self.marker.complete = false;
            write_marker(folder, &self.marker)?;
        }
        let mut removed = Removed::default();
        for file in &self.marker.files {
            let path = folder.join(&file.name);
            for path in [storage::temporary_name(&path), path] {
                let bytes = fs::symlink_metadata(&path).map_or(0, |metadata| metadata.len());
                match fs::remove_file(&path) {
                    Ok(()) => {
                        removed.files += 1;
                        removed.bytes += bytes;
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                    Err(source) => return Err(TransferError::file("remove", path, source).into()),
                }
            }
        }
        if let Some(name) = foreign(folder, &self.marker)? {
            removed.left = Some(folder.join(name));
            return Ok(removed);
        }
        // A folder of this name is never without its marker, so it gets another name first.
        let husk = storage::temporary_name(folder);
        remove_husk(&husk)?;
        fs::rename(folder, &husk)
            .map_err(|source| TransferError::file("remove", folder, source))?;
        remove_husk(&husk)?;
        Ok(removed)
    }
}

/// What was removed of one checkpoint's folder.
#[derive(Default)]
struct Removed {
    files: u64,
    bytes: u64,
    /// Something that stormlp did not make; the folder stayed for it.
    left: Option<PathBuf>,
}

/// What was removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cleaned {
    /// Checkpoint folders.
    pub checkpoints: u64,
    /// Files of checkpoints, also of folders that stayed.
    pub files: u64,
    /// Bytes of those files.
    pub bytes: u64,
    /// What stormlp did not make, for each checkpoint folder that stayed: the folder itself where
    /// nothing says that stormlp made it.
    pub left: Vec<PathBuf>,
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
        let folder = directory.join(step_folder(part.step));
        match Made::look(&folder).and_then(Made::remove) {
            Ok(removed) => {
                cleaned.files += removed.files;
                cleaned.bytes += removed.bytes;
                match removed.left {
                    Some(path) => cleaned.left.push(path),
                    None => cleaned.checkpoints += 1,
                }
            }
            Err(CheckpointError::InTheWay { path }) => cleaned.left.push(path),
            Err(error) => return Err(error),
        }
    }
    for husk in husks(directory)? {
        // One with something of others in it stays, as its folder would.
        let _ = remove_husk(&husk);
    }
    drop(lock);
    if cleaned.left.is_empty() {
        let only_lock = fs::read_dir(directory)
            .is_ok_and(|mut entries| entries.all(|e| e.is_ok_and(|e| e.file_name() == LOCK_NAME)));
        if only_lock {
            let _ = fs::remove_file(directory.join(LOCK_NAME));
            let _ = fs::remove_dir(directory);
        }
    }
    Ok(cleaned)
}

/// Folders of checkpoints under their temporary names.
fn husks(directory: &Path) -> Result<Vec<PathBuf>, TransferError> {
    let read = |error| TransferError::file("read the folder", directory, error);
    let mut husks = Vec::new();
    for entry in fs::read_dir(directory).map_err(read)? {
        let name = entry.map_err(read)?.file_name();
        let inner = name
            .to_str()
            .and_then(|name| name.strip_prefix('.')?.strip_suffix(".partial"));
        if inner.and_then(step_of).is_some() {
            husks.push(directory.join(name));
        }
    }
    Ok(husks)
}
