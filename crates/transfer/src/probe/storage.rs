//! The storage behind a folder. These calls reach the file system, and a dead server can block
//! them forever: they run on a separate thread with a time limit.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::fs::{FileType, Stat, major, minor};
use stormlp_core::facts::StorageOfRun;
use stormlp_core::machine::{BlockDevice, DeviceContent, Fact, Filesystem, StorageFacts};

use super::root::{Root, plain};
use super::{block, device, direct, mounts};
use crate::error::THREADS_HELP;

/// How long a file system may take to respond.
const PATIENCE: Duration = Duration::from_secs(5);

/// Everything about the storage behind `directory`.
pub(crate) fn facts(root: &Root, directory: &Path) -> StorageFacts {
    let (inner_root, inner_directory) = (root.clone(), directory.to_path_buf());
    within(PATIENCE, move || gather(&inner_root, &inner_directory)).unwrap_or_else(|reason| {
        StorageFacts {
            directory: directory.to_path_buf(),
            examined: Fact::unknown(&reason),
            filesystem: Fact::unknown(&reason),
            direct_io: Fact::unknown(&reason),
            devices: Fact::unknown(&reason),
        }
    })
}

/// The metadata of a path, or an error if there is no timely response.
pub(crate) fn metadata(path: &Path) -> io::Result<fs::Metadata> {
    let path = path.to_path_buf();
    within(PATIENCE, move || fs::metadata(path)).unwrap_or_else(|late| Err(io::Error::other(late)))
}

/// The file system behind `directory`.
pub(crate) fn filesystem(root: &Root, directory: &Path) -> Fact<Filesystem> {
    let (root, directory) = (root.clone(), directory.to_path_buf());
    within(PATIENCE, move || nearest(&directory).and_then(|path| filesystem_of(&root, &path)))
        .unwrap_or_else(Fact::unknown)
}

/// The block devices behind `directory`, or below it if it is a block device itself.
pub(crate) fn devices(root: &Root, directory: &Path) -> Fact<Vec<BlockDevice>> {
    let (root, directory) = (root.clone(), directory.to_path_buf());
    within(PATIENCE, move || nearest(&directory).and_then(|path| devices_of(&root, &path)))
        .unwrap_or_else(Fact::unknown)
}

/// The content of the block device at `path`, which is held from now on.
pub(crate) fn device_content(root: &Root, path: &Path) -> DeviceContent {
    let (root, path) = (root.clone(), path.to_path_buf());
    within(PATIENCE, move || device::examine(&root, &path))
        .unwrap_or_else(DeviceContent::Unexamined)
}

/// The storage behind `path` as in reports: known facts, without reasons for the unknown ones.
pub(crate) fn of_run(root: &Root, path: &Path) -> StorageOfRun {
    let filesystem =
        if is_block_device(path) { None } else { filesystem(root, path).known().cloned() };
    let devices = devices(root, path).unwrap_or(Vec::new());
    StorageOfRun {
        paths: vec![path.to_path_buf()],
        file_system: filesystem.as_ref().map(|system| system.kind.clone()),
        mount_options: filesystem
            .map(|system| format!("{}; {}", system.mount_options, system.super_options)),
        devices: (devices.into_iter())
            .map(|device| device.facts)
            .filter(|device| device.kind != block::PARTITION)
            .collect(),
    }
}

/// Whether a path is itself a block device, so that the file system of its node is irrelevant.
fn is_block_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    path.metadata().is_ok_and(|found| found.file_type().is_block_device())
}

fn gather(root: &Root, directory: &Path) -> StorageFacts {
    let examined = nearest(directory);
    StorageFacts {
        directory: directory.to_path_buf(),
        // The node of a device is in an unrelated file system.
        filesystem: examined.clone().and_then(|path| match is_block_device(&path) {
            true => Fact::unknown("this is a block device"),
            false => filesystem_of(root, &path),
        }),
        direct_io: examined.clone().and_then(|path| direct::probe(&path)),
        devices: examined.clone().and_then(|path| devices_of(root, &path)),
        examined,
    }
}

/// Runs `work` on a separate thread, which is abandoned if it does not return.
fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new()
        .name("probe".to_string())
        .spawn(move || {
            // After the time limit the receiver is gone, and the result is dropped.
            let _ = sender.send(work());
        })
        .map_err(|error| format!("cannot start a thread for the probe: {error}; {THREADS_HELP}"))?;
    receiver
        .recv_timeout(limit)
        .map_err(|_| format!("the file system did not respond within {} s", limit.as_secs()))
}

/// The folder itself, or its nearest existing parent, with links resolved.
pub(crate) fn nearest(directory: &Path) -> Fact<PathBuf> {
    let absolute = match std::path::absolute(directory) {
        Ok(path) => path,
        Err(error) => return Fact::unknown(format!("{}: {error}", directory.display())),
    };
    for path in absolute.ancestors() {
        match path.canonicalize() {
            Ok(real) => return Fact::Known(real),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Fact::unknown(format!("{}: {}", path.display(), plain(&error)));
            }
        }
    }
    Fact::unknown(format!("{} does not exist", directory.display()))
}

fn filesystem_of(root: &Root, path: &Path) -> Fact<Filesystem> {
    let stat = match rustix::fs::statfs(path) {
        Ok(stat) => stat,
        Err(error) => {
            return Fact::unknown(format!("statfs {}: {}", path.display(), plain(&error.into())));
        }
    };
    mounts::mounts(root).and_then(|table| match mounts::holding(&table, path) {
        Some(mount) => {
            let block_bytes = u64::try_from(stat.f_frsize).unwrap_or(0);
            Fact::Known(Filesystem {
                kind: mount.kind.clone(),
                mount_point: mount.point.clone(),
                source: mount.source.clone(),
                mount_options: mount.options.clone(),
                super_options: mount.super_options.clone(),
                total_bytes: stat.f_blocks.saturating_mul(block_bytes),
                free_bytes: stat.f_bavail.saturating_mul(block_bytes),
            })
        }
        None => Fact::unknown(format!("no mount contains {}", path.display())),
    })
}

fn devices_of(root: &Root, path: &Path) -> Fact<Vec<BlockDevice>> {
    let stat = match rustix::fs::stat(path) {
        Ok(stat) => stat,
        Err(error) => {
            return Fact::unknown(format!("stat {}: {}", path.display(), plain(&error.into())));
        }
    };
    let number = device_number(&stat);
    if major(number) != 0 {
        return block::below(root, &format!("{}:{}", major(number), minor(number)));
    }
    mounts::mounts(root).and_then(|table| match mounts::holding(&table, path) {
        Some(mount) => block::below_mount(root, mount),
        None => Fact::unknown(format!("no mount contains {}", path.display())),
    })
}

/// The device that contains a path, or the device that it is.
fn device_number(stat: &Stat) -> u64 {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::BlockDevice => stat.st_rdev,
        _ => stat.st_dev,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_that_hangs_is_not_waited_for() {
        let (_keep, never) = mpsc::channel::<()>();
        let answer = within(Duration::from_millis(20), move || never.recv());
        assert!(answer.unwrap_err().contains("did not respond"));
    }

    #[test]
    fn a_missing_folder_is_judged_by_its_parent() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::system();
        let missing = folder.path().join("not/there/yet");
        let found = facts(&root, &missing);
        assert_eq!(found.directory, missing);
        assert_eq!(found.examined, Fact::Known(folder.path().canonicalize().unwrap()));
        let filesystem = found.filesystem.known().unwrap();
        assert!(!filesystem.kind.is_empty());
        assert!(filesystem.free_bytes <= filesystem.total_bytes);
        assert!(found.direct_io.known().is_some());
    }
}
