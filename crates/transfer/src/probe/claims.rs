//! Who uses a block device, and what it contains: must be known before it is overwritten.
//!
//! The kernel reports the users: the mount table, the list of swap areas, the `holders` of each
//! device, and finally an exclusive open, which fails for anything that claims a device, in other
//! containers too. A disk and its partitions are treated as one: writing the disk writes them all,
//! and a partition of a disk that is in use as a whole is in use.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use stormlp_core::machine::{DeviceClaims, Fact, Signature};

use super::block::{device, members, name_of};
use super::mounts::{self, Mount};
use super::root::{Root, plain};
use super::signature::signatures;

/// The kernel's folder of block devices.
const BLOCKS: &str = "/sys/class/block";

/// A device, the disk it is part of, or one of its partitions.
struct Relative {
    name: String,
    number: String,
    folder: PathBuf,
    /// The range (start and length) of its bytes on the examined device; `None` for the disk that
    /// a partition is on.
    part: Option<(u64, u64)>,
}

/// Everything that speaks against overwriting the device at `path`.
pub(crate) fn claims(root: &Root, path: &Path) -> DeviceClaims {
    let number = match number(path) {
        Ok(number) => number,
        Err(error) => return unexamined(plain(&error)),
    };
    let mut found = of_number(root, &number);
    if found.unexamined.is_some() {
        return found;
    }
    if found.users.is_empty() && is_held(path) {
        let user = "another program or the kernel uses it (an exclusive open fails)";
        found.users.push(user.to_string());
    }
    match File::open(path).and_then(|file| marks(root, &number, &file)) {
        Ok(signatures) => found.signatures = signatures,
        Err(error) => found.unexamined = Some(plain(&error)),
    }
    found
}

fn unexamined(reason: String) -> DeviceClaims {
    DeviceClaims { unexamined: Some(reason), ..DeviceClaims::default() }
}

/// Whether the device with this number is read-only in the kernel, however it is opened.
pub(crate) fn is_read_only(root: &Root, number: &str) -> bool {
    let flag = Path::new("/sys/dev/block").join(number).join("ro");
    root.number::<u8>(flag) == Fact::Known(1)
}

/// The number of the device at `path`, in the kernel's format.
pub(crate) fn number(path: &Path) -> io::Result<String> {
    let number = fs::metadata(path)?.rdev();
    Ok(format!("{}:{}", libc::major(number), libc::minor(number)))
}

/// The users of a regular file as a device.
pub(crate) fn of_file(root: &Root, path: &Path) -> DeviceClaims {
    let mut users = Vec::new();
    for (name, backing) in loops(root) {
        if !is_same_file(path, &root.path(&backing)) {
            continue;
        }
        users.push(format!("it is behind {name}"));
        let number = root.text(Path::new(BLOCKS).join(&name).join("dev"));
        let of_loop = number.known().map(|number| of_number(root, number));
        users.extend(of_loop.into_iter().flat_map(|claims| claims.users));
    }
    let areas = root.text("/proc/swaps").unwrap_or(String::new());
    let mut areas = areas.lines().skip(1);
    let is_area = |line: &str| {
        let area = line.split_whitespace().next().map(mounts::unescape);
        area.is_some_and(|area| is_same_file(path, &root.path(area)))
    };
    if areas.any(is_area) {
        users.push("it is swap space".to_string());
    }
    DeviceClaims { users, ..DeviceClaims::default() }
}

/// Whether two paths lead to the same file, through any links and mounts.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let of = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
    match (of(one), of(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

/// Whether the device is claimed exclusively.
fn is_held(path: &Path) -> bool {
    let exclusive = (File::options().read(true).custom_flags(libc::O_EXCL)).open(path);
    exclusive.is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY))
}

/// The users of the device with this number according to the kernel's files.
fn of_number(root: &Root, number: &str) -> DeviceClaims {
    let found = mounts::mounts(root).and_then(|mounts| users(root, number, &mounts, &[]));
    match found {
        Fact::Known(users) => DeviceClaims { users, ..DeviceClaims::default() },
        Fact::Unknown(reason) => unexamined(reason),
    }
}

/// The users of a device, except the loop devices in `above`, through which it is examined.
fn users(root: &Root, number: &str, mounts: &[Mount], above: &[&str]) -> Fact<Vec<String>> {
    let family = match family(root, number) {
        Fact::Known(family) => family,
        Fact::Unknown(reason) => return Fact::Unknown(reason),
    };
    let mut all = Vec::new();
    for one in &family {
        all.extend(mounted(root, one, mounts));
        all.extend(swapped(root, one));
        all.extend(held(root, one));
        all.extend(looped(root, one, above));
        match shown(root, one, mounts, above) {
            Fact::Known(users) => all.extend(users),
            unknown => return unknown,
        }
    }
    Fact::Known(all)
}

/// The device itself, its partitions, and the disk that contains it.
fn family(root: &Root, number: &str) -> Fact<Vec<Relative>> {
    let link = Path::new("/sys/dev/block").join(number);
    let Some(folder) = root.canonical(&link) else {
        return Fact::unknown(format!("{} does not exist", link.display()));
    };
    let bytes = |folder: &Path, name: &str| {
        let sectors = root.number::<u64>(folder.join(name));
        sectors.map(|sectors| sectors.saturating_mul(512))
    };
    let relative = |folder: PathBuf, part| Relative {
        name: name_of(&folder),
        number: root.text(folder.join("dev")).unwrap_or(String::new()),
        folder,
        part,
    };
    let size = match bytes(&folder, "size") {
        Fact::Known(size) => size,
        Fact::Unknown(reason) => return Fact::Unknown(reason),
    };
    let mut family = Vec::new();
    for name in root.names(&folder).unwrap_or(Vec::new()) {
        let inner = folder.join(name);
        if root.exists(inner.join("partition")) {
            let part =
                bytes(&inner, "start").known().copied().zip(bytes(&inner, "size").known().copied());
            let Some(part) = part else {
                return Fact::unknown(format!("{} does not report its position", inner.display()));
            };
            family.push(relative(inner, Some(part)));
        }
    }
    if root.exists(folder.join("partition")) {
        family.extend(members(root, &folder).into_iter().map(|disk| relative(disk, None)));
    }
    family.insert(0, relative(folder, Some((0, size))));
    Fact::Known(family)
}

/// Where it is mounted. A file system on several devices has its own number and names one of them
/// as its source.
fn mounted(root: &Root, one: &Relative, mounts: &[Mount]) -> Vec<String> {
    let is_source = |mount: &&Mount| {
        mount.number == one.number
            || (mount.source.starts_with("/dev/") && is(root, one, &mount.source))
    };
    let words = |mount: &Mount| {
        format!("{} is mounted at {} ({})", one.name, mount.point.display(), mount.kind)
    };
    // Bind mounts list the same file system repeatedly.
    mounts.iter().find(is_source).map(words).into_iter().collect()
}

/// Whether a path of the machine refers to the device: by number if the node exists, otherwise by
/// name.
fn is(root: &Root, one: &Relative, path: &str) -> bool {
    let node = root.canonical(path);
    let name = node.as_deref().unwrap_or(Path::new(path)).strip_prefix("/dev");
    name.is_ok_and(|name| name.to_string_lossy().replace('!', "/") == one.name)
}

fn swapped(root: &Root, one: &Relative) -> Option<String> {
    let areas = root.text("/proc/swaps").unwrap_or(String::new());
    let mut paths = areas.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    paths
        .any(|path| is(root, one, &mounts::unescape(path)))
        .then(|| format!("{} is swap space", one.name))
}

/// Devices built on it: md arrays, logical volumes, encrypted and multipath devices.
fn held(root: &Root, one: &Relative) -> Vec<String> {
    let holders = one.folder.join("holders");
    let words = |name: &String| {
        let folder = root.canonical(holders.join(name));
        let layout = folder.and_then(|folder| device(root, &folder, 0, &[]).layout);
        match layout {
            Some(layout) => format!("{} is part of {name} ({layout})", one.name),
            None => format!("{} is part of {name}", one.name),
        }
    };
    root.names(&holders).unwrap_or(Vec::new()).iter().map(words).collect()
}

/// Loop devices that expose it under another name without claiming it.
fn looped(root: &Root, one: &Relative, above: &[&str]) -> Vec<String> {
    (loops(root).into_iter())
        .filter(|(name, backing)| !above.contains(&name.as_str()) && is(root, one, backing))
        .map(|(name, _)| format!("{} is behind {name}", one.name))
        .collect()
}

/// Who else uses what a loop device exposes: other loop devices over the same file, or the users
/// of the underlying device. None of them claims the loop device itself.
fn shown(root: &Root, one: &Relative, mounts: &[Mount], above: &[&str]) -> Fact<Vec<String>> {
    let loops = loops(root);
    let own = loops.iter().find(|(name, _)| *name == one.name);
    let Some((name, backing)) = own.filter(|(name, _)| !above.contains(&name.as_str())) else {
        return Fact::Known(Vec::new());
    };
    if let Some(number) = number_of(root, backing) {
        return users(root, &number, mounts, &[above, &[name.as_str()]].concat());
    }
    let shows_it = |(other, file): &&(String, String)| {
        // For a deleted file only its name is known.
        let same = file == backing || is_same_file(&root.path(file), &root.path(backing));
        other != name && same
    };
    let words = |(other, _): &(String, String)| format!("{other} uses the same file, {backing}");
    Fact::Known(loops.iter().filter(shows_it).map(words).collect())
}

/// The number of the device whose node is at a path of the machine; `None` for a file.
fn number_of(root: &Root, path: &str) -> Option<String> {
    let node = root.canonical(path);
    let name = node
        .as_deref()
        .unwrap_or(Path::new(path))
        .strip_prefix("/dev")
        .ok()?
        .to_str()?
        .replace('/', "!");
    let number = root.text(Path::new(BLOCKS).join(name).join("dev"));
    number.known().cloned()
}

/// The loop devices with their backing files.
fn loops(root: &Root) -> Vec<(String, String)> {
    let names = root.names(BLOCKS).unwrap_or(Vec::new()).into_iter();
    let backed = |name: String| {
        let file = root.text(Path::new(BLOCKS).join(&name).join("loop/backing_file"));
        let backing = file.known()?.clone();
        Some((name, backing))
    };
    (names.filter(|name| name.starts_with("loop"))).filter_map(backed).collect()
}

/// The signatures on the device and on its partitions.
fn marks(root: &Root, number: &str, file: &File) -> io::Result<Vec<Signature>> {
    let mut found = Vec::new();
    for one in family(root, number).unwrap_or(Vec::new()) {
        let Some((start, size)) = one.part else {
            continue;
        };
        let names = signatures(file, start, size)?;
        found.extend(
            names
                .into_iter()
                .map(|name| Signature { name: name.to_string(), device: one.name.clone() }),
        );
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::super::testing::Tree;
    use super::*;

    const DISK: &str = "sys/devices/virtual/block/sdb";

    /// A disk of 4 MiB with two partitions of 1 MiB.
    fn machine(mounts: &str, swaps: &str) -> Tree {
        let part = |tree: Tree, number: u32| {
            let folder = format!("{DISK}/sdb{number}");
            tree.file(&format!("{folder}/partition"), number.to_string())
                .file(&format!("{folder}/dev"), format!("8:{}", 16 + number))
                .file(&format!("{folder}/start"), (2048 * number).to_string())
                .file(&format!("{folder}/size"), "2048")
                .folder(&format!("{folder}/holders"))
                .link(&format!("sys/dev/block/8:{}", 16 + number), &format!("/{folder}"))
        };
        let disk = Tree::new()
            .file(&format!("{DISK}/dev"), "8:16")
            .file(&format!("{DISK}/size"), "8192")
            .folder(&format!("{DISK}/holders"))
            .link("sys/dev/block/8:16", &format!("/{DISK}"))
            .file("proc/self/mountinfo", mounts)
            .file("proc/swaps", format!("Filename Type Size Used Priority\n{swaps}"));
        part(part(disk, 1), 2)
    }

    fn users(tree: &Tree, number: &str) -> Vec<String> {
        let found = of_number(&tree.root(), number);
        assert_eq!(found.unexamined, None);
        found.users
    }

    #[test]
    fn a_mounted_partition_is_in_use_and_so_is_its_disk_but_not_its_neighbour() {
        let tree = machine("36 1 8:17 / /data rw - xfs /dev/sdb1 rw", "");
        for number in ["8:17", "8:16"] {
            assert_eq!(users(&tree, number), ["sdb1 is mounted at /data (xfs)"]);
        }
        assert!(users(&tree, "8:18").is_empty());
    }

    #[test]
    fn a_partition_of_a_disk_mounted_as_a_whole_is_in_use() {
        let tree = machine("36 1 8:16 / /data rw - xfs /dev/sdb rw", "");
        assert_eq!(users(&tree, "8:18"), ["sdb is mounted at /data (xfs)"]);
    }

    #[test]
    fn a_file_system_with_its_own_device_number_is_recognised_by_its_source() {
        let tree = machine("36 1 0:50 / /pool rw - btrfs /dev/sdb2 rw", "");
        assert_eq!(users(&tree, "8:16"), ["sdb2 is mounted at /pool (btrfs)"]);
        assert!(users(&tree, "8:17").is_empty());
    }

    #[test]
    fn swap_arrays_volumes_and_loops_are_users() {
        let tree = machine("", "/dev/sdb1 partition 1 0 -2\n")
            .file("sys/devices/virtual/block/dm-3/dm/uuid", "LVM-abc\n")
            .link(&format!("{DISK}/sdb2/holders/dm-3"), "/sys/devices/virtual/block/dm-3")
            .file("sys/devices/virtual/block/loop4/loop/backing_file", "/dev/sdb\n")
            .link("sys/class/block/loop4", "/sys/devices/virtual/block/loop4");
        assert_eq!(
            users(&tree, "8:16"),
            ["sdb is behind loop4", "sdb1 is swap space", "sdb2 is part of dm-3 (LVM)"]
        );
    }

    #[test]
    fn a_file_behind_a_loop_device_or_in_swap_is_in_use_under_any_name() {
        let image = "/images/disk.img";
        let tree =
            machine("36 1 7:4 / /data rw - ext4 /dev/loop4 rw", "/images/swap file 1 0 -2\n")
                .file("images/disk.img", "x")
                .file("images/swap", "x")
                .file("images/other", "x")
                .file("sys/devices/virtual/block/loop4/loop/backing_file", format!("{image}\n"))
                .file("sys/devices/virtual/block/loop4/dev", "7:4")
                .file("sys/devices/virtual/block/loop4/size", "8")
                .link("sys/dev/block/7:4", "/sys/devices/virtual/block/loop4")
                .link("sys/class/block/loop4", "/sys/devices/virtual/block/loop4");
        let root = tree.root();
        fs::hard_link(root.path(image), root.path("/images/linked")).unwrap();
        let users = |path: &str| of_file(&root, &root.path(path)).users;
        for name in [image, "/images/linked"] {
            let told = ["it is behind loop4", "loop4 is mounted at /data (ext4)"];
            assert_eq!(users(name), told);
        }
        assert_eq!(users("/images/swap"), ["it is swap space"]);
        assert!(users("/images/other").is_empty());
    }

    /// Adds a loop device backed by `backing`.
    fn with_loop(tree: Tree, index: u32, backing: &str) -> Tree {
        let folder = format!("sys/devices/virtual/block/loop{index}");
        tree.file(&format!("{folder}/loop/backing_file"), backing)
            .file(&format!("{folder}/dev"), format!("7:{index}"))
            .file(&format!("{folder}/size"), "8")
            .link(&format!("sys/dev/block/7:{index}"), &format!("/{folder}"))
            .link(&format!("sys/class/block/loop{index}"), &format!("/{folder}"))
    }

    #[test]
    fn a_second_loop_device_over_a_file_is_a_user_of_it() {
        let mut tree = machine("", "").file("images/disk.img", "x");
        let removed = "/images/gone (deleted)";
        let backings = ["/images/disk.img", "/images/linked", removed, removed, "/images/other"];
        for (index, backing) in (1..).zip(backings) {
            tree = with_loop(tree, index, backing);
        }
        let root = tree.root();
        fs::hard_link(root.path("/images/disk.img"), root.path("/images/linked")).unwrap();
        assert_eq!(users(&tree, "7:1"), ["loop2 uses the same file, /images/disk.img"]);
        assert_eq!(users(&tree, "7:2"), ["loop1 uses the same file, /images/linked"]);
        assert_eq!(users(&tree, "7:3"), ["loop4 uses the same file, /images/gone (deleted)"]);
        assert!(users(&tree, "7:5").is_empty());
    }

    #[test]
    fn the_users_of_the_device_below_a_loop_device_are_its_own() {
        let tree = machine("36 1 8:17 / /data rw - xfs /dev/sdb1 rw", "")
            .link("sys/class/block/sdb", &format!("/{DISK}"))
            .link("sys/class/block/sdb2", &format!("/{DISK}/sdb2"));
        let tree = with_loop(with_loop(tree, 1, "/dev/sdb"), 2, "/dev/loop1");
        let tree = with_loop(with_loop(tree, 3, "/dev/sdb2"), 4, "/dev/loop1");
        assert_eq!(
            users(&tree, "7:2"),
            ["loop1 is behind loop4", "sdb1 is mounted at /data (xfs)", "sdb2 is behind loop3"]
        );
    }

    #[test]
    fn a_device_is_read_only_if_the_kernel_reports_it() {
        let tree = machine("", "")
            .file(&format!("{DISK}/ro"), "1\n")
            .file(&format!("{DISK}/sdb1/ro"), "0\n");
        let read_only = ["8:16", "8:17", "8:18"].map(|number| is_read_only(&tree.root(), number));
        assert_eq!(read_only, [true, false, false]);
    }

    #[test]
    fn an_unreadable_device_is_never_called_free() {
        let tree = Tree::new().file("proc/self/mountinfo", "");
        let found = of_number(&tree.root(), "8:16");
        assert!(found.unexamined.unwrap().contains("/sys/dev/block/8:16"));
        let tree = machine("", "");
        fs::remove_file(tree.root().path("/proc/self/mountinfo")).unwrap();
        let found = of_number(&tree.root(), "8:16");
        assert!(found.unexamined.unwrap().contains("mountinfo"));
    }

    #[test]
    fn marks_of_the_disk_and_of_its_partitions_are_distinguished() {
        let tree = machine("", "");
        let file = tempfile::tempfile().unwrap();
        file.set_len(4 << 20).unwrap();
        file.write_all_at(b"EFI PART", 512).unwrap();
        file.write_all_at(b"XFSB", 1 << 20).unwrap();
        let of = |number: &str, file: &File| -> Vec<String> {
            let found = marks(&tree.root(), number, file).unwrap();
            let words = found.into_iter().map(|mark| format!("{} on {}", mark.name, mark.device));
            words.collect()
        };
        assert_eq!(of("8:16", &file), ["gpt on sdb", "xfs on sdb1"]);
    }
}
