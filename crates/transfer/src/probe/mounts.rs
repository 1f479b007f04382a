//! `/proc/self/mountinfo`: mount points, sources and options.

use std::path::{Path, PathBuf};

use stormlp_core::machine::Fact;

use super::root::Root;

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Device number, `254:0`; major 0 without a block device.
    pub(crate) number: String,
    /// The mounted folder of the file system; `/` unless it is a bind mount or a container.
    pub(crate) root: PathBuf,
    /// The mount point.
    pub(crate) point: PathBuf,
    /// Options of this mount.
    pub(crate) options: String,
    /// Type of the file system.
    pub(crate) kind: String,
    /// Device or server.
    pub(crate) source: String,
    /// Options of the file system, the same for all its mounts.
    pub(crate) super_options: String,
}

/// All mounts, in the kernel's order: later ones hide earlier ones at the same place.
pub(crate) fn mounts(root: &Root) -> Fact<Vec<Mount>> {
    root.text("/proc/self/mountinfo").map(|text| text.lines().filter_map(parse).collect())
}

/// The mount that holds `path`, an absolute path without links: the deepest, and the last of
/// these.
pub(crate) fn holding<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.point))
        .max_by_key(|mount| mount.point.components().count())
}

/// Parses `36 35 98:0 /root /point rw,noatime shared:1 - ext4 /dev/vda rw,errors=continue`.
fn parse(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(2);
    let mut right = right.split(' ');
    let mut take = || left.next().map(unescape);
    Some(Mount {
        number: take()?,
        root: take()?.into(),
        point: take()?.into(),
        options: take()?,
        kind: right.next().map(unescape)?,
        source: right.next().map(unescape)?,
        super_options: right.next().map(unescape).unwrap_or_default(),
    })
}

/// The kernel escapes blank, tab, line break and backslash as `\040` and the like.
pub(crate) fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while let Some(&byte) = bytes.get(i) {
        let octal = (byte == b'\\')
            .then(|| text.get(i + 1..i + 4))
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match octal {
            Some(decoded) => {
                out.push(decoded);
                i += 4;
            }
            None => {
                out.push(byte);
                i += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TABLE: &str = "\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,data=ordered
40 27 0:50 / /mnt/my\\040disk rw shared:5 master:2 - xfs /dev/md0 rw,sunit=128
41 27 0:51 / /mnt rw - tmpfs tmpfs rw";

    fn table() -> Vec<Mount> {
        TABLE.lines().map(|line| parse(line).unwrap()).collect()
    }

    #[test]
    fn a_path_belongs_to_the_deepest_mount() {
        let mounts = table();
        let kind = |path: &str| holding(&mounts, Path::new(path)).unwrap().kind.clone();
        assert_eq!(kind("/home"), "ext4");
        assert_eq!(kind("/mnt/my disk/data"), "xfs");
        assert_eq!(kind("/mnt/other"), "tmpfs");
        assert_eq!(kind("/mntx"), "ext4");
    }

    #[test]
    fn optional_fields_and_escapes_are_read() {
        let mount = &table()[1];
        assert_eq!(mount.source, "/dev/md0");
        assert_eq!(mount.super_options, "rw,sunit=128");
        assert_eq!(mount.point, Path::new("/mnt/my disk"));
    }

    #[test]
    fn the_last_of_two_mounts_at_one_place_wins() {
        let twice = "1 0 0:1 / /d rw - ext4 a rw\n2 1 0:2 / /d rw - xfs b rw";
        let mounts: Vec<Mount> = twice.lines().filter_map(parse).collect();
        assert_eq!(holding(&mounts, Path::new("/d/x")).unwrap().kind, "xfs");
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(line in "[ -~\\\\ü]{0,80}") {
            let _ = parse(&line);
            let _ = unescape(&line);
        }
    }
}
