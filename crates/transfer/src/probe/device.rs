//! A block device that is about to be overwritten: held exclusively, so that no other program can
//! use it meanwhile, and examined by util-linux, which knows its contents.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use stormlp_core::machine::{DeviceContent, Fact, UNKNOWN_CONTENT};

use super::root::{Root, plain};

/// How much of either end has to be zero where no program can tell what a device carries.
const END_BYTES: u64 = 1 << 20;

/// The devices that this process has opened exclusively, until it ends.
static HELD: Mutex<BTreeMap<PathBuf, File>> = Mutex::new(BTreeMap::new());

/// Whether the device at `path` is read-only in the kernel, however it is opened.
pub(crate) fn is_read_only(root: &Root, path: &Path) -> bool {
    let flag = kernel_folder(path).map(|folder| root.number::<u8>(folder.join("ro")));
    flag.is_ok_and(|flag| flag == Fact::Known(1))
}

/// The kernel's folder of the device at `path`.
fn kernel_folder(path: &Path) -> io::Result<PathBuf> {
    let number = fs::metadata(path)?.rdev();
    let number = format!("{}:{}", libc::major(number), libc::minor(number));
    Ok(Path::new("/sys/dev/block").join(number))
}

/// Opens the device at `path` exclusively for the rest of the process, and finds its contents.
pub(crate) fn examine(root: &Root, path: &Path) -> DeviceContent {
    let examined = hold(path).and_then(|device| {
        let mut search = std::env::var_os("PATH").unwrap_or_default();
        // Where the programs are, which the path of other users than root may not name.
        search.push(":/usr/sbin:/sbin");
        match contents(&search, &nodes(root, path)) {
            Some(names) => Ok(names),
            None if are_ends_zero(&device)? => Ok(Vec::new()),
            None => Ok(vec![UNKNOWN_CONTENT.to_string()]),
        }
    });
    match examined {
        Ok(names) => DeviceContent::Carries(names),
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => DeviceContent::InUse,
        Err(error) => DeviceContent::Unexamined(plain(&error)),
    }
}

/// Opens a device so that it cannot be mounted or become part of another meanwhile. The kernel
/// refuses one that is, also in another container, and a disk with such a partition.
fn hold(path: &Path) -> io::Result<File> {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(device) = held.get(path) {
        return device.try_clone();
    }
    let device = File::options().read(true).custom_flags(libc::O_EXCL).open(path)?;
    held.insert(path.to_path_buf(), device.try_clone()?);
    Ok(device)
}

/// The device and its partitions, as far as they have names below `/dev`.
fn nodes(root: &Root, path: &Path) -> Vec<PathBuf> {
    let folder = kernel_folder(path).ok().and_then(|folder| root.canonical(folder));
    let inner = |folder: PathBuf| {
        let names = root.names(&folder).unwrap_or(Vec::new()).into_iter();
        names.filter(move |name| root.exists(folder.join(name).join("partition")))
    };
    let parts = folder.into_iter().flat_map(inner).map(|name| Path::new("/dev").join(name));
    [path.to_path_buf()].into_iter().chain(parts.filter(|part| part.exists())).collect()
}

/// The file systems, partition tables and members of larger devices on `nodes`, each name once;
/// `None` if no program in the folders of `search` can tell.
fn contents(search: &OsStr, nodes: &[PathBuf]) -> Option<Vec<String>> {
    let run = |program: &str, options: &[&str], nodes: &[PathBuf]| -> Option<Output> {
        let mut command = Command::new(program);
        command.env("PATH", search).env("LC_ALL", "C").args(options).args(nodes).output().ok()
    };
    let by_wipefs = || {
        let output = run("wipefs", &["--no-act", "--json"], nodes)?;
        output.status.success().then(|| signatures(&output.stdout)).flatten()
    };
    let by_blkid = || {
        let of_each = nodes.iter().map(|node| {
            let output = run("blkid", &["-p", "-o", "export"], std::slice::from_ref(node))?;
            match output.status.code()? {
                0 => Some(types(&String::from_utf8_lossy(&output.stdout))),
                // It found no signature.
                2 => Some(Vec::new()),
                _ => None,
            }
        });
        Some(of_each.collect::<Option<Vec<_>>>()?.concat())
    };
    let mut names = by_wipefs().or_else(by_blkid)?;
    names.sort();
    names.dedup();
    Some(names)
}

/// The types that `wipefs --json` lists; it does not print if there are none.
fn signatures(printed: &[u8]) -> Option<Vec<String>> {
    if printed.trim_ascii().is_empty() {
        return Some(Vec::new());
    }
    let listing: serde_json::Value = serde_json::from_slice(printed).ok()?;
    let types = listing["signatures"].as_array()?.iter().map(|one| one["type"].as_str());
    types.map(|name| name.map(str::to_string)).collect()
}

/// The types that `blkid -p -o export` prints.
fn types(printed: &str) -> Vec<String> {
    let named = |line: &str| {
        let (key, name) = line.split_once('=')?;
        matches!(key, "TYPE" | "PTTYPE").then(|| name.to_string())
    };
    printed.lines().filter_map(named).collect()
}

/// Whether the first and the last bytes of a device are all zero.
fn are_ends_zero(mut device: &File) -> io::Result<bool> {
    let size = io::Seek::seek(&mut device, io::SeekFrom::End(0))?;
    let mut end = vec![0; END_BYTES.min(size) as usize];
    for offset in [0, size - end.len() as u64] {
        device.read_exact_at(&mut end, offset)?;
        if end.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const GPT: &str = r#"{"signatures": [
        {"device":"sdb", "offset":"0x200", "type":"gpt", "uuid":null, "label":null},
        {"device":"sdb", "offset":"0xfffe00", "type":"gpt", "uuid":null, "label":null},
        {"device":"sdb1", "offset":"0x438", "type":"ext4", "uuid":null, "label":null}]}"#;

    /// The findings on a device with these programs, each a script.
    fn found(programs: &[(&str, &str)]) -> Option<Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        for (name, script) in programs {
            let path = folder.path().join(name);
            fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        contents(folder.path().as_os_str(), &[PathBuf::from("/dev/sdb")])
    }

    #[test]
    fn wipefs_names_what_is_on_a_device_and_its_partitions() {
        let wipefs = format!("echo '{GPT}'");
        assert_eq!(found(&[("wipefs", &wipefs)]).unwrap(), ["ext4", "gpt"]);
        assert_eq!(found(&[("wipefs", "true")]), Some(Vec::new()));
        let empty = r#"echo '{"signatures": []}'"#;
        assert_eq!(found(&[("wipefs", empty), ("blkid", "echo TYPE=xfs")]), Some(Vec::new()));
    }

    #[test]
    fn blkid_answers_where_wipefs_does_not() {
        let blkid = ("blkid", "echo DEVNAME=/dev/sdb; echo PTTYPE=dos; echo TYPE=xfs");
        for wipefs in ["exit 1", "echo '{'", r#"echo '{"signatures": [{}]}'"#, "echo '[]'"] {
            assert_eq!(found(&[("wipefs", wipefs), blkid]).unwrap(), ["dos", "xfs"], "{wipefs}");
        }
        assert_eq!(found(&[blkid]).unwrap(), ["dos", "xfs"]);
        assert_eq!(found(&[("blkid", "exit 2")]), Some(Vec::new()));
        // Several file systems that exclude each other.
        assert_eq!(found(&[("blkid", "exit 8")]), None);
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn a_device_of_unknown_content_is_free_only_if_both_ends_are_zero() {
        let file = tempfile::tempfile().unwrap();
        let is_zero = || are_ends_zero(&file).unwrap();
        assert!(is_zero());
        file.set_len(8 * END_BYTES).unwrap();
        file.write_all_at(b"x", 4 * END_BYTES).unwrap();
        assert!(is_zero());
        file.write_all_at(b"x", 8 * END_BYTES - 1).unwrap();
        assert!(!is_zero());
        file.write_all_at(b"\0", 8 * END_BYTES - 1).unwrap();
        file.write_all_at(b"x", END_BYTES - 1).unwrap();
        assert!(!is_zero());
    }
}
