//! Threads for blocking operations (opening, preallocating, syncing, renaming, closing), so
//! that the threads that move bytes never stall one rank's data on another rank's `fsync`.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::plan::FileFraming;
use crate::report::PartSeconds;
use stormlp_core::location::names_object;
use stormlp_hosts::fault::Fault;
use stormlp_transfer::TransferError;
use stormlp_transfer::storage::{Access, Handle, Storage, temporary_name};
use stormlp_transfer::thread_group::guarded;

use super::error::CheckpointError;

/// One file of a rank.
#[derive(Debug, Clone)]
pub(super) struct FileTask {
    /// Its final path.
    pub(super) path: PathBuf,
    /// Its size in bytes.
    pub(super) bytes: u64,
    /// Its key in the content.
    pub(super) key: u64,
    /// Framing overlaid on the content; `None` if there is none or it is not needed.
    pub(super) framing: Option<Arc<FileFraming>>,
}

/// A job for a rank.
pub(super) struct FileRequest {
    /// The mover's index of the rank, returned with the answer.
    pub(super) rank: usize,
    /// The job.
    pub(super) job: FileJob,
    /// Receives the answer.
    pub(super) reply: Sender<FileReply>,
}

/// A blocking_pool's jobs.
pub(super) enum FileJob {
    /// Creates (and preallocates) a file under its temporary name.
    Create { task: FileTask, direct: bool },
    /// Opens a file and checks its size.
    Open { task: FileTask, direct: bool },
    /// Sets the size of written files, syncs and renames them to their final names, and syncs the
    /// folder after the rank's last files.
    Finish { files: Vec<(Handle, FileTask)>, sync: bool, last: bool },
    /// Closes a file.
    Close(Handle),
}

impl FileJob {
    fn run(
        self,
        storage: &dyn Storage,
        parts: &mut PartSeconds,
    ) -> Result<Option<(Handle, Handle)>, CheckpointError> {
        match self {
            Self::Create { task, direct } => {
                timed(&mut parts.open_seconds, || create(storage, &task, direct)).map(Some)
            }
            Self::Open { task, direct } => {
                timed(&mut parts.open_seconds, || open(storage, &task, direct)).map(Some)
            }
            Self::Finish { files, sync, last } => {
                finish(storage, files, sync, last, parts).map(|()| None)
            }
            Self::Close(file) => {
                timed(&mut parts.close_seconds, || drop(file));
                Ok(None)
            }
        }
    }
}

/// The result of a request.
pub(super) struct FileReply {
    /// The mover's index of the rank.
    pub(super) rank: usize,
    /// Breakdown of the time.
    pub(super) parts: PartSeconds,
    /// The file, twice: one handle for the path, one to finish it with. `None` for the other jobs.
    pub(super) result: Result<Option<(Handle, Handle)>, CheckpointError>,
}

/// Serves requests until there are none left.
pub(super) fn serve(storage: &dyn Storage, requests: &Mutex<Receiver<FileRequest>>) {
    loop {
        let next = requests.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(FileRequest { rank, job, reply }) = next else {
            return;
        };
        let mut parts = PartSeconds::default();
        // The mover waits for an answer to every request, so a panic becomes one too.
        let result = guarded("blocking_pool", || job.run(storage, &mut parts))
            .unwrap_or_else(|panic| Err(panic.into()));
        // A mover that gave up no longer receives.
        let _ = reply.send(FileReply { rank, parts, result });
    }
}

/// Runs `work` and adds its time to `seconds`.
fn timed<T>(seconds: &mut f64, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    *seconds += start.elapsed().as_secs_f64();
    result
}

fn twice(file: Handle, path: &Path) -> Result<(Handle, Handle), CheckpointError> {
    let other = file.try_clone().map_err(|source| TransferError::file("open", path, source))?;
    Ok((file, other))
}

fn create(
    storage: &dyn Storage,
    task: &FileTask,
    direct: bool,
) -> Result<(Handle, Handle), CheckpointError> {
    if names_object(&task.path) {
        return twice(storage.handle(&task.path, Access::Create, false)?, &task.path);
    }
    let temporary = temporary_name(&task.path);
    let file = storage
        .create(&temporary, task.bytes, direct)
        .map_err(|error| Fault::on(&temporary, error))?;
    twice(file.into(), &temporary)
}

fn open(
    storage: &dyn Storage,
    task: &FileTask,
    direct: bool,
) -> Result<(Handle, Handle), CheckpointError> {
    let file = storage.handle(&task.path, Access::Read, direct)?;
    let found = match &file {
        Handle::Object(object) => object.bytes().unwrap_or_default(),
        Handle::File(file) => file
            .metadata()
            .map_err(|source| TransferError::file("get the size of", &task.path, source))?
            .len(),
    };
    if found != task.bytes {
        return Err(CheckpointError::Short {
            path: task.path.clone(),
            found,
            expected: task.bytes,
        });
    }
    twice(file, &task.path)
}

/// Finishes written files, in order.
fn finish(
    storage: &dyn Storage,
    files: Vec<(Handle, FileTask)>,
    sync: bool,
    last: bool,
    parts: &mut PartSeconds,
) -> Result<(), CheckpointError> {
    let folder = files.last().and_then(|(_, task)| task.path.parent().map(Path::to_path_buf));
    for (file, task) in files {
        let file = match file {
            Handle::File(file) => file,
            Handle::Object(object) => {
                // An object is there, and as safe as the store makes it, once its upload is completed.
                if let Some(upload) = object.upload() {
                    timed(&mut parts.fsync_seconds, || upload.complete())
                        .map_err(|error| Fault::on(&task.path, error))?;
                }
                continue;
            }
        };
        let temporary = temporary_name(&task.path);
        // Direct writes end on whole blocks, so the file is truncated to its true size.
        timed(&mut parts.transfer_seconds, || file.set_len(task.bytes))
            .map_err(|source| TransferError::file("set the size of", &temporary, source))
            .map_err(|error| Fault::on(&task.path, error))?;
        if sync {
            timed(&mut parts.fsync_seconds, || storage.sync(&file, &temporary))
                .map_err(|source| Fault::on_sync(&task.path, source))?;
        }
        timed(&mut parts.close_seconds, || drop(file));
        timed(&mut parts.rename_seconds, || storage.rename(&temporary, &task.path))?;
    }
    if let (true, true, Some(folder)) = (sync, last, folder) {
        timed(&mut parts.rename_seconds, || storage.sync_folder(&folder))?;
    }
    Ok(())
}
