//! The block layer's counters for the devices below the files of a run.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use derive_more::Add;
use serde::{Deserialize, Serialize};

/// The block layer's counters for a device since it appeared (`Documentation/block/stat.rst` of
/// the kernel).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Add)]
pub struct DeviceCounters {
    /// Reads completed, after merging.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Milliseconds that reads took, summed over all of them.
    #[serde(default)]
    pub reading_ms: u64,
    /// Writes completed, after merging.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// The same for writes.
    #[serde(default)]
    pub writing_ms: u64,
    /// Milliseconds with at least one request in flight.
    pub busy_ms: u64,
    /// Milliseconds in flight summed over all requests; divided by elapsed time, the mean queue
    /// depth.
    pub queued_ms: u64,
}

impl DeviceCounters {
    /// The counts since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            reads: self.reads.wrapping_sub(earlier.reads),
            read_bytes: self.read_bytes.wrapping_sub(earlier.read_bytes),
            reading_ms: self.reading_ms.wrapping_sub(earlier.reading_ms),
            writes: self.writes.wrapping_sub(earlier.writes),
            written_bytes: self.written_bytes.wrapping_sub(earlier.written_bytes),
            writing_ms: self.writing_ms.wrapping_sub(earlier.writing_ms),
            busy_ms: self.busy_ms.wrapping_sub(earlier.busy_ms),
            queued_ms: self.queued_ms.wrapping_sub(earlier.queued_ms),
        }
    }

    /// Parses the single line of a `stat` file in sysfs.
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<u64> =
            line.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect();
        let [
            reads,
            _,
            read_sectors,
            reading_ms,
            writes,
            _,
            written_sectors,
            writing_ms,
            _,
            busy_ms,
            queued_ms,
            ..,
        ] = fields.as_slice()
        else {
            return None;
        };
        Some(Self {
            reads: *reads,
            read_bytes: read_sectors << 9,
            reading_ms: *reading_ms,
            writes: *writes,
            written_bytes: written_sectors << 9,
            writing_ms: *writing_ms,
            busy_ms: *busy_ms,
            queued_ms: *queued_ms,
        })
    }
}

/// The block device under a file or folder, its counters held open for cheap reading.
#[derive(Debug)]
pub struct BlockDevice {
    name: String,
    /// None if the device does not count, as a multipath head of older kernels.
    stat: Option<File>,
}

impl BlockDevice {
    /// The device that holds `path`; `None` for a file system without a local block device, such
    /// as NFS, overlay or tmpfs.
    pub fn behind(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        // A block device node stands for itself.
        let is_device = metadata.mode() & libc::S_IFMT == libc::S_IFBLK;
        let device = if is_device { metadata.rdev() } else { metadata.dev() };
        Self::of_number(device)
    }

    /// The device with the given number.
    fn of_number(device: u64) -> Option<Self> {
        let (major, minor) = (libc::major(device), libc::minor(device));
        let folder = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
        // The queue belongs to the whole disk; a partition's counters lack queue time on some
        // kernels, so the disk's are read.
        let is_partition = folder.join("partition").exists();
        Self::in_folder(if is_partition { folder.parent()? } else { &folder })
    }

    /// The device with the kernel's name `name`.
    pub(super) fn named(name: &str) -> Option<Self> {
        // A slash in a name is an exclamation mark in sysfs.
        Self::in_folder(&Path::new("/sys/class/block").join(name.replace('/', "!")))
    }

    /// The device described by `folder` in sysfs.
    fn in_folder(folder: &Path) -> Option<Self> {
        let own = File::open(folder.join("stat")).ok()?;
        let iostats = fs::read_to_string(folder.join("queue/iostats")).unwrap_or_default();
        let stat = (iostats.trim() != "0").then_some(own);
        Some(Self { name: folder.file_name()?.to_string_lossy().replace('!', "/"), stat })
    }

    /// The kernel's name, `nvme0n1`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The current counters; `None` if the device does not count (`queue/iostats` is 0).
    pub fn counters(&self) -> Option<DeviceCounters> {
        let mut line = [0u8; 512];
        let len = self.stat.as_ref()?.read_at(&mut line, 0).ok()?;
        DeviceCounters::parse(std::str::from_utf8(&line[..len]).ok()?)
    }
}

/// The distinct block devices under several files or folders.
#[derive(Debug, Default)]
pub struct BlockDevices(Vec<BlockDevice>);

impl BlockDevices {
    /// The devices behind `paths`, without duplicates.
    pub fn behind<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Self {
        let mut devices: Vec<BlockDevice> = Vec::new();
        for device in paths.into_iter().filter_map(BlockDevice::behind) {
            if devices.iter().all(|known| known.name != device.name) {
                devices.push(device);
            }
        }
        Self(devices)
    }

    /// Names of the devices.
    pub fn names(&self) -> Vec<String> {
        self.0.iter().map(|device| device.name.clone()).collect()
    }

    /// The sum of all counters; `None` if there is no device, or one does not count.
    pub fn counters(&self) -> Option<DeviceCounters> {
        let mut counters = self.0.iter().map(BlockDevice::counters);
        let first = counters.next()??;
        counters.try_fold(first, |sum, next| Some(sum + next?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_read_by_its_documented_columns() {
        let line = "  10  1  2048  5  20  2  4096  7  3  30  40  0 0 0 0 0 0\n";
        let counters = DeviceCounters::parse(line).unwrap();
        assert_eq!((counters.reads, counters.read_bytes), (10, 2048 * 512));
        assert_eq!((counters.writes, counters.written_bytes), (20, 4096 * 512));
        assert_eq!((counters.reading_ms, counters.writing_ms), (5, 7));
        assert_eq!((counters.busy_ms, counters.queued_ms), (30, 40));
        assert_eq!(DeviceCounters::parse("1 2 3"), None);
    }

    /// A device in sysfs at `folder` that read `sectors`, with these `iostats`.
    fn device(folder: &Path, sectors: u64, iostats: &str) {
        fs::create_dir_all(folder.join("queue")).unwrap();
        let line = format!("1 0 {sectors} 1 0 0 0 0 0 1 1");
        fs::write(folder.join("stat"), line).unwrap();
        fs::write(folder.join("queue/iostats"), iostats).unwrap();
    }

    #[test]
    fn a_device_that_does_not_count_is_unknown() {
        let sys = tempfile::tempdir().unwrap();
        let read = |name: &str| {
            BlockDevice::in_folder(&sys.path().join(name)).unwrap().counters().map(|c| c.read_bytes)
        };
        device(&sys.path().join("vda"), 8, "1\n");
        device(&sys.path().join("vdb"), 8, "0\n");
        assert_eq!((read("vda"), read("vdb")), (Some(4096), None));
        // A multipath head that leaves counting to its paths.
        device(&sys.path().join("nvme0n1"), 0, "0\n");
        assert_eq!(read("nvme0n1"), None);
    }

    #[test]
    fn no_device_is_behind_procfs() {
        assert!(BlockDevice::behind(Path::new("/proc/self/stat")).is_none());
    }
}
