//! Limits of this process's control group, versions 1 and 2.
//!
//! A container sees its group as the root of the mount, a plain process sees the whole tree; and a
//! limit of a parent applies to its children. So every folder from the group up to the mount is
//! read, and the lowest limit counts.

use std::path::{Path, PathBuf};

use super::mounts::{Mount, mounts};
use super::root::Root;

/// The lowest memory limit in bytes that applies to this process.
pub(crate) fn memory_limit_bytes(root: &Root) -> Option<u64> {
    let v2 = lowest(root, Version::Two, |folder| {
        root.number(folder.join("memory.max")).known().copied()
    });
    let v1 = lowest(root, Version::One("memory"), |folder| {
        root.number(folder.join("memory.limit_in_bytes"))
            .known()
            .copied()
            // Version 1 writes "no limit" as the largest multiple of a page.
            .filter(|&limit: &u64| limit < 1 << 62)
    });
    v1.into_iter().chain(v2).min()
}

/// A limit of this process's control group, or of a parent, on CPU time or a block device.
#[derive(Debug)]
pub(crate) struct Limit {
    /// In words: `0.20 CPUs (cpu.max)`, `reads of vda at 50.0 MB/s (io.max)`.
    pub(crate) name: String,
    /// The file with its use, the device's number there, and the key of the count.
    used: (PathBuf, String, &'static str),
    /// Seconds of the limit that each count stands for.
    seconds: f64,
}

impl Limit {
    /// How long it has been in full use so far, in seconds: periods in which the CPU quota was
    /// exhausted, or the time that the bytes or requests take at the limit.
    pub(crate) fn used_seconds(&self, root: &Root) -> Option<f64> {
        let (file, device, key) = &self.used;
        Some(number(root.text(file).known()?, device, key)? * self.seconds)
    }
}

/// Version, words and unit of a limit, its file and key, file and key of its use.
type DeviceLimit = (Version, &'static str, &'static str, [&'static str; 2], [&'static str; 2]);

/// The limits of block devices. Version 1 has a file for each.
const OF_DEVICES: [DeviceLimit; 8] = [
    (V2, "reads of", "MB/s", ["io.max", "rbps"], ["io.stat", "rbytes"]),
    (V2, "writes to", "MB/s", ["io.max", "wbps"], ["io.stat", "wbytes"]),
    (V2, "reads of", "IOPS", ["io.max", "riops"], ["io.stat", "rios"]),
    (V2, "writes to", "IOPS", ["io.max", "wiops"], ["io.stat", "wios"]),
    (V1, "reads of", "MB/s", ["blkio.throttle.read_bps_device", ""], [V1_BYTES, "Read"]),
    (V1, "writes to", "MB/s", ["blkio.throttle.write_bps_device", ""], [V1_BYTES, "Write"]),
    (V1, "reads of", "IOPS", ["blkio.throttle.read_iops_device", ""], [V1_COUNT, "Read"]),
    (V1, "writes to", "IOPS", ["blkio.throttle.write_iops_device", ""], [V1_COUNT, "Write"]),
];
const V1: Version = Version::One("blkio");
const V2: Version = Version::Two;
const V1_BYTES: &str = "blkio.throttle.io_service_bytes";
const V1_COUNT: &str = "blkio.throttle.io_serviced";

/// All limits on CPU time and block devices that apply to this process.
pub(crate) fn limits(root: &Root) -> Vec<Limit> {
    let mut found = Vec::new();
    let text = |folder: &Path, file: &str| root.text(folder.join(file)).unwrap_or(String::new());
    for (version, file) in [(V2, "cpu.max"), (Version::One("cpu"), "cpu.cfs_quota_us")] {
        for folder in folders(root, version) {
            let words = [file, "cpu.cfs_period_us"].map(|file| text(&folder, file)).join(" ");
            let mut values = words.split(' ').map_while(|word| word.parse::<f64>().ok());
            let (quota, period) = (values.next().unwrap_or(0.0), values.next().unwrap_or(0.0));
            let name = format!("{:.2} CPUs ({file})", quota / period);
            let used = (folder.join("cpu.stat"), String::new(), "nr_throttled");
            let limit = Limit { name, used, seconds: period / 1e6 };
            found.extend(Some(limit).filter(|_| quota > 0.0 && period > 0.0));
        }
    }
    for (version, words, unit, [file, key], [used, used_key]) in OF_DEVICES {
        for folder in folders(root, version) {
            let text = text(&folder, file);
            for device in text.lines().filter_map(|line| line.split(' ').next()) {
                let key = if key.is_empty() { device } else { key };
                let Some(most) = number(&text, device, key) else { continue };
                let name = root.canonical(format!("/sys/dev/block/{device}"));
                let name = name.as_deref().and_then(Path::file_name).unwrap_or(device.as_ref());
                let shown = if unit == "IOPS" { most } else { most / 1e6 };
                found.push(Limit {
                    name: format!("{words} {} at {shown:.1} {unit} ({file})", name.display()),
                    used: (folder.join(used), device.to_string(), used_key),
                    seconds: 1.0 / most.max(1.0),
                });
            }
        }
    }
    found
}

/// How long a CPU quota has held threads of this process's control group back so far, in seconds,
/// added up over CPUs; 0 without a quota.
pub(crate) fn throttled_seconds(root: &Root) -> f64 {
    let files = [(V2, "throttled_usec", 1e6), (Version::One("cpu"), "throttled_time", 1e9)];
    let held = files.into_iter().flat_map(|(version, key, of_second)| {
        let folders = folders(root, version).into_iter();
        let stat =
            folders.filter_map(move |folder| root.text(folder.join("cpu.stat")).known().cloned());
        stat.filter_map(move |text| Some(number(&text, "", key)? / of_second))
    });
    held.fold(0.0, f64::max)
}

/// The number after `key` in the line of `device`, or in any line if that is empty; its words are
/// separated by blanks or `=`.
fn number(text: &str, device: &str, key: &str) -> Option<f64> {
    text.lines().find_map(|line| {
        let mut words = line.split([' ', '=']);
        let is_its = device.is_empty() || line.split(' ').next() == Some(device);
        is_its.then(|| words.find(|word| *word == key)).flatten()?;
        words.next()?.parse().ok()
    })
}

#[derive(Debug, Clone, Copy)]
enum Version {
    /// A separate hierarchy for the controller of this name.
    One(&'static str),
    /// The unified hierarchy.
    Two,
}

/// The lowest value that `read` finds in the group's folder and its parents.
fn lowest<T: PartialOrd>(
    root: &Root,
    version: Version,
    read: impl Fn(&Path) -> Option<T>,
) -> Option<T> {
    folders(root, version)
        .iter()
        .filter_map(|folder| read(folder))
        .reduce(|a, b| if b < a { b } else { a })
}

/// The folders of this process's group, innermost first.
fn folders(root: &Root, version: Version) -> Vec<PathBuf> {
    let table = mounts(root).unwrap_or(Vec::new());
    let Some(mount) = table.iter().rev().find(|mount| carries(mount, version)) else {
        return Vec::new();
    };
    let groups = root.text("/proc/self/cgroup").unwrap_or(String::new());
    let group = groups.lines().find_map(|line| group_of(line, version));
    let below = group
        .as_deref()
        .and_then(|group| {
            Path::new(group)
                .strip_prefix(&mount.root)
                .ok()
                .or_else(|| group.strip_prefix('/').map(Path::new))
        })
        .unwrap_or(Path::new(""));
    // A group outside the container's view has no folder here; the mount's still counts.
    mount
        .point
        .join(below)
        .ancestors()
        .take_while(|folder| folder.starts_with(&mount.point))
        .map(Path::to_path_buf)
        .collect()
}

fn carries(mount: &Mount, version: Version) -> bool {
    match version {
        Version::Two => mount.kind == "cgroup2",
        Version::One(controller) => {
            mount.kind == "cgroup" && mount.super_options.split(',').any(|o| o == controller)
        }
    }
}

/// The group in a line of `/proc/self/cgroup`: `4:memory:/group`, or `0::/group` in version 2.
fn group_of(line: &str, version: Version) -> Option<String> {
    let mut fields = line.splitn(3, ':');
    let (id, controllers, group) = (fields.next()?, fields.next()?, fields.next()?);
    let ours = match version {
        Version::Two => id == "0" && controllers.is_empty(),
        Version::One(controller) => controllers.split(',').any(|name| name == controller),
    };
    ours.then(|| group.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::testing::Tree;
    use super::*;

    #[test]
    fn a_parents_limit_holds_in_version_2() {
        let tree = Tree::new()
            .file("proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw")
            .file("proc/self/cgroup", "0::/slurm/job7")
            .file("sys/fs/cgroup/slurm/memory.max", "1073741824")
            .file("sys/fs/cgroup/slurm/job7/memory.max", "max")
            .file("sys/fs/cgroup/slurm/job7/cpu.max", "150000 100000")
            .file("sys/fs/cgroup/slurm/job7/cpu.stat", "nr_periods 43\nnr_throttled 42")
            .file("sys/fs/cgroup/slurm/cpu.max", "max 100000")
            .file("sys/fs/cgroup/slurm/io.max", "254:0 rbps=50000000 wbps=max riops=max wiops=400")
            .file("sys/fs/cgroup/slurm/io.stat", "8:0 rbytes=1\n254:0 rbytes=100000000 wios=8")
            .folder("sys/devices/virtual/block/vda")
            .link("sys/dev/block/254:0", "/sys/devices/virtual/block/vda");
        assert_eq!(memory_limit_bytes(&tree.root()), Some(1 << 30));
        assert_eq!(
            used(&tree),
            [
                ("1.50 CPUs (cpu.max)".to_string(), Some(4.2)),
                ("reads of vda at 50.0 MB/s (io.max)".to_string(), Some(2.0)),
                ("writes to vda at 400.0 IOPS (io.max)".to_string(), Some(0.02)),
            ]
        );
    }

    /// The limits with their use.
    fn used(tree: &Tree) -> Vec<(String, Option<f64>)> {
        let root = tree.root();
        let rounded = |seconds: f64| (seconds * 1e6).round() / 1e6;
        let used = |limit: Limit| {
            let seconds = limit.used_seconds(&root).map(rounded);
            (limit.name, seconds)
        };
        limits(&root).into_iter().map(used).collect()
    }

    #[test]
    fn limits_of_version_1_are_read_with_their_use() {
        let throttle = |name: &str| format!("sys/fs/cgroup/blkio/blkio.throttle.{name}");
        let tree = Tree::new()
            .file(
                "proc/self/mountinfo",
                "35 31 0:32 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                 36 31 0:33 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio",
            )
            .file("proc/self/cgroup", "4:cpu:/\n5:blkio:/")
            .file("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "20000")
            .file("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000")
            .file("sys/fs/cgroup/cpu/cpu.stat", "nr_periods 9\nnr_throttled 5\nthrottled_time 1")
            .file(&throttle("read_bps_device"), "8:0 1000000")
            .file(&throttle("io_service_bytes"), "8:0 Read 3000000\n8:0 Write 5\nTotal 3000005");
        assert_eq!(
            used(&tree),
            [
                ("0.20 CPUs (cpu.cfs_quota_us)".to_string(), Some(0.5)),
                (
                    "reads of 8:0 at 1.0 MB/s (blkio.throttle.read_bps_device)".to_string(),
                    Some(3.0)
                ),
            ]
        );
    }

    #[test]
    fn the_time_that_a_quota_held_threads_is_read_in_both_versions() {
        let v2 = Tree::new()
            .file("proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw")
            .file("proc/self/cgroup", "0::/job")
            .file("sys/fs/cgroup/job/cpu.stat", "usage_usec 9\nthrottled_usec 2500000");
        assert_eq!(throttled_seconds(&v2.root()), 2.5);
        let v1 = Tree::new()
            .file(
                "proc/self/mountinfo",
                "35 31 0:32 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu",
            )
            .file("proc/self/cgroup", "4:cpu:/")
            .file("sys/fs/cgroup/cpu/cpu.stat", "nr_throttled 5\nthrottled_time 1500000000");
        assert_eq!(throttled_seconds(&v1.root()), 1.5);
        assert_eq!(throttled_seconds(&Tree::new().root()), 0.0);
    }

    #[test]
    fn a_container_of_version_1_sees_its_group_at_the_mount() {
        let tree = Tree::new()
            .file(
                "proc/self/mountinfo",
                "35 31 0:32 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory",
            )
            .file("proc/self/cgroup", "4:memory:/docker/abc\n1:cpu:/docker/abc")
            .file("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912");
        assert_eq!(memory_limit_bytes(&tree.root()), Some(512 << 20));
        assert!(limits(&tree.root()).is_empty());
    }

    #[test]
    fn no_limit_is_reported_as_none() {
        let tree = Tree::new()
            .file(
                "proc/self/mountinfo",
                "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory",
            )
            .file("proc/self/cgroup", "4:memory:/")
            .file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
        assert_eq!(memory_limit_bytes(&tree.root()), None);
        assert_eq!(memory_limit_bytes(&Tree::new().root()), None);
    }
}
