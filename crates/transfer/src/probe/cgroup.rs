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

/// The CPU quota of this process in CPUs, if its group has one.
pub(crate) fn cpu_quota(root: &Root) -> Option<f64> {
    let v2 = lowest(root, Version::Two, |folder| {
        let text = root.text(folder.join("cpu.max"));
        let (quota, period) = text.known()?.split_once(' ')?;
        ratio(quota.parse().ok()?, period.parse().ok()?)
    });
    let v1 = lowest(root, Version::One("cpu"), |folder| {
        let quota = root.number(folder.join("cpu.cfs_quota_us"));
        let period = root.number(folder.join("cpu.cfs_period_us"));
        ratio(*quota.known()?, *period.known()?)
    });
    v1.into_iter().chain(v2).min_by(f64::total_cmp)
}

fn ratio(quota: f64, period: f64) -> Option<f64> {
    (quota > 0.0 && period > 0.0).then(|| quota / period)
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
            .file("sys/fs/cgroup/slurm/job7/cpu.max", "150000 100000");
        assert_eq!(memory_limit_bytes(&tree.root()), Some(1 << 30));
        assert_eq!(cpu_quota(&tree.root()), Some(1.5));
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
        assert_eq!(cpu_quota(&tree.root()), None);
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
