//! The kernel's treatment of files, names and folders.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;
use crate::storage::temporary_name;
use crate::storage::{Disk, Durability, Storage as _};

#[test]
fn an_atomic_write_leaves_no_temporary_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    Disk.write(&path, b"one", Durability::Certain).unwrap();
    Disk.write(&path, b"two", Durability::Whole).unwrap();
    assert_eq!(Disk.read_text(&path).unwrap().unwrap(), "two");
    assert_eq!(Disk.list(folder.path()).unwrap().len(), 1);
    assert_eq!(Disk.read_text(&temporary_name(&path)).unwrap(), None);
}

#[test]
fn preallocated_files_have_their_size_and_too_large_ones_fail() {
    let file = tempfile::NamedTempFile::new_in(".").unwrap();
    Disk.preallocate(file.as_file(), file.path(), 1 << 20).unwrap();
    assert_eq!(file.as_file().metadata().unwrap().len(), 1 << 20);
    let error = Disk.preallocate(file.as_file(), file.path(), 1 << 60).unwrap_err();
    assert!(matches!(error.errno(), Some(libc::ENOSPC | libc::EFBIG)), "{error}");
}

#[test]
fn errors_name_the_file() {
    let error = Disk.open(Path::new("/no/such/file"), Access::Read, false).unwrap_err();
    assert!(error.to_string().starts_with("open /no/such/file: "), "{error}");
    assert!(error.is_not_found());
}

#[test]
fn links_are_recognised_and_followed() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), "four").unwrap();
    symlink("a", folder.path().join("b")).unwrap();
    symlink("nowhere", folder.path().join("c")).unwrap();
    let entries = Disk.list(folder.path()).unwrap();
    let seen: Vec<_> = entries
        .iter()
        .map(|e| (e.text().unwrap(), e.is_file(), e.facts.bytes, e.facts.link))
        .collect();
    assert_eq!(seen, [("a", true, 4, false), ("b", true, 4, true), ("c", false, 0, true)]);
    assert_eq!(Disk.look(&folder.path().join("c")).unwrap(), None);
    assert_eq!(Disk.look(&folder.path().join("d")).unwrap(), None);
    assert!(!Disk.remove_folder(folder.path()).unwrap());
}

#[test]
fn files_that_were_removed_while_open_are_not_listed() {
    let folder = tempfile::tempdir().unwrap();
    for name in [".nfs0000000000a1b2c300000001", ".fuse_hidden0000000300000001", ".nfs-notes"] {
        fs::write(folder.path().join(name), "x").unwrap();
    }
    let entries = Disk.list(folder.path()).unwrap();
    let names: Vec<_> = entries.iter().map(|entry| entry.text().unwrap()).collect();
    assert_eq!(names, [".nfs-notes"]);
}

#[test]
fn beneath_an_open_folder_links_are_neither_followed_nor_replaced() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let precious = other.path().join("precious");
    fs::write(&precious, "mine").unwrap();
    symlink(other.path(), folder.path().join("train")).unwrap();
    symlink(&precious, folder.path().join("a")).unwrap();
    symlink(&precious, temporary_name(&folder.path().join("b"))).unwrap();
    Disk.hold(folder.path());
    let path = |name: &str| folder.path().join(name);
    for access in [Access::Read, Access::ReadWrite, Access::Create] {
        for name in ["a", "train/precious", "train/new"] {
            let error = Disk.open(&path(name), access, false).unwrap_err();
            assert!(error.to_string().contains("the path contains a link"), "{error}");
        }
    }
    let error = Disk.write(&path("b"), b"x", Durability::Certain);
    assert!(error.is_err());
    assert!(Disk.rename(&path("train/precious"), &path("c")).is_err());
    assert!(Disk.remove(&path("train/precious")).is_err());
    assert!(Disk.make_folder(&path("train/sub")).is_err());
    assert!(Disk.list(&path("train")).is_err());
    let kind = |name: &str| Disk.look(&path(name)).unwrap().unwrap().kind;
    assert_eq!((kind("a"), kind("train")), (Kind::Link, Kind::Link));
    let listed = Disk.list(folder.path()).unwrap();
    assert!(listed.iter().all(|entry| entry.facts.kind == Kind::Link));
    assert_eq!(fs::read_to_string(&precious).unwrap(), "mine");
    assert_eq!(fs::read_dir(other.path()).unwrap().count(), 1);
}

#[test]
fn a_created_file_is_new() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("mine"), "mine").unwrap();
    fs::hard_link(path("mine"), path("a")).unwrap();
    drop(Disk.open(&path("a"), Access::Create, false).unwrap());
    assert_eq!(fs::read_to_string(path("mine")).unwrap(), "mine");
    assert_eq!(fs::metadata(path("a")).unwrap().len(), 0);
    symlink("mine", path("b")).unwrap();
    assert!(Disk.open(&path("b"), Access::Create, false).is_err());
    assert_eq!(fs::read_to_string(path("mine")).unwrap(), "mine");
}

#[test]
fn special_files_are_refused_without_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    for (path, said) in [
        (path.as_path(), "a pipe or a socket"),
        (Path::new("/dev/null"), "a device"),
        // Without a controlling terminal it cannot be opened.
        (Path::new("/dev/tty"), "a device"),
        (folder.path(), "folder"),
    ] {
        for access in [Access::Read, Access::ReadWrite, Access::Create] {
            let error = Disk.open(path, access, false).unwrap_err().to_string();
            let directory = said == "folder" && error.contains("directory");
            let device = access == Access::Create && error.contains("no file");
            assert!(error.contains(said) || directory || device, "{access:?}: {error}");
        }
    }
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    for access in [Access::Read, Access::ReadWrite, Access::Create] {
        let file = Disk.open(&file, access, false).unwrap();
        let flags = rustix::fs::fcntl_getfl(&file).unwrap();
        let left_over = OFlags::NONBLOCK | OFlags::NOFOLLOW;
        assert!(!flags.intersects(left_over), "{access:?}: {flags:?}");
    }
}

#[test]
fn a_file_keeps_its_identity_under_another_name_and_gives_it_to_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let identity = |name: &str| Disk.found(&path(name)).unwrap().identity;
    fs::write(path("a"), "x").unwrap();
    let before = identity("a");
    Disk.rename(&path("a"), &path("b")).unwrap();
    fs::write(path("b"), "longer").unwrap();
    assert_eq!(identity("b"), before);
    fs::write(path("a"), "x").unwrap();
    assert_ne!(identity("a"), before);
}
