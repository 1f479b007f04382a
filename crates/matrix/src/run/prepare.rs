//! Preparations before the first cell and before each cell: folders, files, page cache.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::plan::{
    CacheState, CellPlan, ContentState, DataManifest, FileAction, FilePlan, ListedFile,
    MANIFEST_NAME, MatrixPlan,
};
use stormlp_core::distinct::distinct;
use stormlp_core::event::{Event, Observer};
use stormlp_core::facts::{Identity, keeps_inode_numbers};
use stormlp_core::location::names_object;
use stormlp_core::stop::StopToken;
use stormlp_core::units::counted;
use stormlp_core::warning::{Warning, WarningKind};
use stormlp_transfer::TransferError;
use stormlp_transfer::page_cache::Residency;
use stormlp_transfer::storage::{
    Access, Durability, FolderLock, LockError, RecordedState, Storage,
};

use super::error::MatrixError;
use super::layout::lay_out;

/// Read size for loading a file into the page cache.
const WARM_BYTES: usize = 1 << 20;

/// The locked folders of a matrix, with their manifests.
pub struct Folders {
    storage: Arc<dyn Storage>,
    locks: Vec<FolderLock>,
    manifests: Vec<DataManifest>,
}

impl Folders {
    /// Creates and locks the folders of a plan and reads their manifests.
    pub(crate) fn enter(storage: Arc<dyn Storage>, plan: &MatrixPlan) -> Result<Self, MatrixError> {
        let mut folders = Self { storage, locks: Vec::new(), manifests: Vec::new() };
        for (index, folder) in plan.folders.iter().enumerate() {
            let folder = folder.folder();
            folders.storage.hold(folder);
            folders.storage.make_folder(folder)?;
            let changes = |file: &FilePlan| {
                file.folder == Some(index) && (plan.writes() || file.action != FileAction::Use)
            };
            match folders.storage.lock(folder) {
                Ok(lock) => folders.locks.push(lock),
                // A read-only folder cannot be changed by other programs meanwhile, nor by this
                // run.
                Err(LockError::File(error))
                    if !error.is_device_failure() && !plan.files.iter().any(changes) => {}
                Err(error) => return Err(error.into()),
            }
            let manifest = read_manifest(&*folders.storage, folder)?;
            folders.manifests.push(manifest);
        }
        for file in plan.files.iter().filter(|_| plan.writes()) {
            folders.check_puts(file)?;
        }
        Ok(folders)
    }

    /// The recorded identity of a file.
    fn made(&self, file: &FilePlan) -> Option<Identity> {
        let manifest = &self.manifests[file.folder?];
        manifest.file(&file_name(&file.path))?.identity
    }

    /// Refuses to overwrite something that replaced a file of a folder.
    fn check(&self, file: &FilePlan) -> Result<(), MatrixError> {
        if file.folder.is_none() {
            return Ok(());
        }
        // A truncated file is still the created one, so its size does not matter.
        match self.storage.left(&file.path, None, self.made(file))? {
            RecordedState::Nothing | RecordedState::Same(_) => Ok(()),
            RecordedState::Other(found) => {
                Err(MatrixError::Replaced { path: file.path.clone(), found })
            }
        }
    }

    /// Refuses to put objects where foreign ones are.
    fn check_puts(&self, file: &FilePlan) -> Result<(), MatrixError> {
        for (path, left) in self.storage.puts(&file.path)? {
            if let RecordedState::Other(found) = left {
                return Err(MatrixError::Replaced { path, found });
            }
        }
        Ok(())
    }

    /// Lists files about to be created, by name only until they exist, so that those left by a
    /// killed run are recognised as stormlp's.
    fn announce(&mut self, plan: &MatrixPlan, files: &[&FilePlan]) -> Result<(), MatrixError> {
        for file in files {
            self.check(file)?;
            self.set(file, Some((ContentState::Unwritten, None)));
        }
        self.save(plan, files)
    }

    /// Records the new contents or the removal of files; crash-safe.
    pub(crate) fn note(
        &mut self,
        plan: &MatrixPlan,
        files: &[&FilePlan],
        content: Option<ContentState>,
    ) -> Result<(), MatrixError> {
        for file in files {
            let Some(content) = content else {
                self.set(file, None);
                continue;
            };
            self.check(file)?;
            let keeps = file.file_system.as_deref().is_none_or(keeps_inode_numbers);
            let found = self.storage.look(&file.path)?.filter(|_| keeps);
            self.set(file, Some((content, found.map(|f| f.identity))));
        }
        self.save(plan, files)
    }

    /// Sets or removes the entry of a file in its folder's manifest.
    fn set(&mut self, file: &FilePlan, entry: Option<(ContentState, Option<Identity>)>) {
        let Some(folder) = file.folder else {
            return;
        };
        let name = file_name(&file.path);
        let manifest = &mut self.manifests[folder];
        match entry {
            Some((content, identity)) => {
                manifest.set(ListedFile { name, bytes: file.bytes, content, identity })
            }
            None => manifest.remove(&name),
        }
    }

    /// Writes the manifests of these files' folders once each, as each needs one or more syncs.
    fn save(&self, plan: &MatrixPlan, files: &[&FilePlan]) -> Result<(), MatrixError> {
        let folders: BTreeSet<usize> = files.iter().filter_map(|file| file.folder).collect();
        for folder in folders {
            let path = plan.folders[folder].join(MANIFEST_NAME);
            let text = self.manifests[folder].to_json();
            self.storage.write(&path, text.as_bytes(), Durability::Certain)?;
        }
        Ok(())
    }
}

/// The manifest of a folder, or a new one.
fn read_manifest(storage: &dyn Storage, folder: &Path) -> Result<DataManifest, MatrixError> {
    let path = folder.join(MANIFEST_NAME);
    match storage.read_text(&path)? {
        Some(text) => {
            DataManifest::parse(&text).map_err(|reason| MatrixError::Manifest { path, reason })
        }
        None => Ok(DataManifest::default()),
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Creates the files that the plan says. `false` if the user stopped it.
pub(crate) fn make_files(
    plan: &MatrixPlan,
    folders: &mut Folders,
    observer: &dyn Observer,
    stop: &StopToken,
) -> Result<bool, MatrixError> {
    let storage = &*Arc::clone(&folders.storage);
    let of = |action| -> Vec<&FilePlan> {
        plan.files.iter().filter(|file| file.action == action).collect()
    };
    let (allocate, fill) = (of(FileAction::Allocate), of(FileAction::Fill));
    // Their previous contents are no longer valid.
    folders.announce(plan, &allocate)?;
    // Objects have no reserved room.
    for file in allocate.into_iter().filter(|file| !names_object(&file.path)) {
        storage.create(&file.path, file.bytes, false).inspect_err(|_| {
            // Without its blocks the file is useless.
            storage.discard(&file.path);
        })?;
    }
    if fill.is_empty() {
        return Ok(true);
    }
    folders.announce(plan, &fill)?;
    let finished: Vec<AtomicBool> = fill.iter().map(|_| AtomicBool::new(false)).collect();
    let (seed, engine) = (plan.request.tune.seed, plan.engine);
    let laid_out = lay_out(storage, &fill, (seed, engine), observer, stop, &finished);
    let (mut whole, mut gone) = (Vec::new(), Vec::new());
    for (file, finished) in fill.into_iter().zip(finished) {
        if finished.into_inner() {
            whole.push(file);
        } else if storage.look(&file.path)?.is_none() {
            gone.push(file);
        }
    }
    folders.note(plan, &whole, Some(ContentState::Pattern { seed: plan.request.tune.seed }))?;
    folders.note(plan, &gone, None)?;
    laid_out
}

/// Removes the created files if the plan says so. A replaced file is kept and reported; its folder
/// still lists it, so that later runs and `clean` recognise it.
pub(crate) fn remove_files(
    plan: &MatrixPlan,
    folders: &mut Folders,
) -> Result<Option<Warning>, MatrixError> {
    if !plan.request.remove {
        return Ok(None);
    }
    let ours = |file: &&FilePlan| file.created_by_stormlp;
    let (mut gone, mut left) = (Vec::new(), Vec::new());
    for file in plan.files.iter().filter(ours) {
        let made = folders.made(file);
        let path = &file.path;
        let puts = folders.storage.puts(path)?.into_iter();
        let (ours, others): (Vec<_>, Vec<_>) =
            puts.partition(|(_, left)| matches!(left, RecordedState::Same(_)));
        let ours: Vec<_> = ours.into_iter().map(|(path, _)| path).collect();
        folders.storage.remove_all(&ours)?;
        for (path, other) in others {
            if let RecordedState::Other(what) = other {
                left.push(format!("{} is {what}", path.display()));
            }
        }
        match folders.storage.left(path, Some(file.bytes), made)? {
            RecordedState::Nothing => {}
            RecordedState::Same(_) => drop(folders.storage.remove(path)?),
            RecordedState::Other(what) => {
                left.push(format!("{} is {what}", path.display()));
                continue;
            }
        }
        gone.push(file);
    }
    folders.note(plan, &gone, None)?;
    Ok((!left.is_empty()).then(|| {
        Warning::new(
            WarningKind::NotRemoved,
            format!("{}, which stormlp did not create: it was not removed", left.join("; ")),
            "move it away if it is yours, or remove it",
        )
    }))
}

/// Page cache residency of several files; `None` if the kernel does not report it.
pub(crate) fn residency<'a>(
    storage: &dyn Storage,
    files: impl IntoIterator<Item = &'a FilePlan>,
) -> Option<Residency> {
    let mut paths = files.into_iter().map(|file| file.path.as_path());
    storage.cached(&mut paths).ok().flatten()
}

/// The distinct files of a cell.
pub(crate) fn files_of<'a>(plan: &'a MatrixPlan, cell: &CellPlan) -> Vec<&'a FilePlan> {
    let workers = plan.thread_groups[cell.thread_group].workers.iter();
    let files = distinct(workers.map(|worker| worker.file));
    files.into_iter().map(|index| &plan.files[index]).collect()
}

/// Brings the page cache into the state requested for a cell.
pub(crate) fn set_cache(
    storage: &dyn Storage,
    state: CacheState,
    files: &[&FilePlan],
    observer: &dyn Observer,
) -> Result<(), TransferError> {
    match state {
        CacheState::AsIs => {}
        CacheState::Cold => {
            for file in files {
                storage.drop_cached(&file.path)?;
            }
        }
        CacheState::Warm => {
            let cold: Vec<_> = files
                .iter()
                .filter(|file| residency(storage, [**file]).is_none_or(|r| r.share() < 1.0))
                .collect();
            if !cold.is_empty() {
                observer.event(&Event::Note {
                    message: format!("reading {} once", counted(cold.len() as u64, "file")),
                });
            }
            let mut buffer = vec![0; WARM_BYTES];
            for file in cold {
                let opened = storage.open(&file.path, Access::Read, false)?;
                let mut offset = 0;
                while offset < file.bytes {
                    match storage.read_at(&opened, &file.path, offset, &mut buffer)? {
                        0 => break,
                        read => offset += read as u64,
                    }
                }
            }
        }
    }
    Ok(())
}
