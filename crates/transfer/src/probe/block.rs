//! Block devices below a file system: through partitions, md and device mapper to the members.
//!
//! `/sys/dev/block/MAJOR:MINOR` is a link to the device's folder; a partition lies inside its
//! disk's folder, md and dm devices list theirs under `slaves/`.

use std::path::{Path, PathBuf};

use stormlp_core::facts::{DeviceOfStorage, QueueOfStorage};
use stormlp_core::machine::{BlockDevice, Fact, PcieLink};

use super::memory::chosen;
use super::mounts::Mount;
use super::root::Root;

/// A deeper stack indicates a loop in a synthetic tree.
const DEEPEST: u32 = 8;

/// The devices below the device with this number, itself first.
pub(crate) fn below(root: &Root, number: &str) -> Fact<Vec<BlockDevice>> {
    let link = Path::new("/sys/dev/block").join(number);
    match root.canonical(&link) {
        Some(folder) => {
            let mut found = Vec::new();
            collect(root, &folder, 0, &mut found);
            Fact::Known(found)
        }
        None => Fact::unknown(format!("{} does not exist", link.display())),
    }
}

/// The devices below a mount with a file system that has no device number (btrfs, NFS, …).
pub(crate) fn below_mount(root: &Root, mount: &Mount) -> Fact<Vec<BlockDevice>> {
    let Some(name) = mount.source.strip_prefix("/dev/") else {
        return Fact::unknown(format!(
            "{} from `{}` has no local block device",
            mount.kind, mount.source
        ));
    };
    let names = match mount.kind.as_str() {
        "btrfs" => btrfs_members(root, name),
        _ => vec![name.to_string()],
    };
    let mut found = Vec::new();
    for name in &names {
        let class = Path::new("/sys/class/block").join(name.replace('/', "!"));
        if let Some(folder) = root.canonical(class) {
            collect(root, &folder, 0, &mut found);
        }
    }
    if found.is_empty() {
        return Fact::unknown(format!("{} is not in /sys/class/block", mount.source));
    }
    Fact::Known(found)
}

/// All devices of the btrfs file system that `name` belongs to.
fn btrfs_members(root: &Root, name: &str) -> Vec<String> {
    let systems = Path::new("/sys/fs/btrfs");
    root.names(systems)
        .unwrap_or(Vec::new())
        .iter()
        .map(|uuid| root.names(systems.join(uuid).join("devices")))
        .filter_map(|members| members.known().cloned())
        .find(|members| members.iter().any(|member| member == name))
        .unwrap_or_else(|| vec![name.to_string()])
}

/// Adds the device in `folder` and its members; a device reached twice is listed once.
fn collect(root: &Root, folder: &Path, depth: u32, found: &mut Vec<BlockDevice>) {
    let name = name_of(folder);
    if depth > DEEPEST || found.iter().any(|device| device.facts.name == name) {
        return;
    }
    let members = members(root, folder);
    let names = members.iter().map(|member| name_of(member)).collect();
    found.push(BlockDevice { depth, members: names, facts: device(root, folder) });
    for member in members {
        collect(root, &member, depth + 1, found);
    }
}

/// Folders of the devices that make up this one.
fn members(root: &Root, folder: &Path) -> Vec<PathBuf> {
    if root.exists(folder.join("partition")) {
        return folder.parent().map(Path::to_path_buf).into_iter().collect();
    }
    let slaves = folder.join("slaves");
    root.names(&slaves)
        .unwrap_or(Vec::new())
        .iter()
        .filter_map(|name| root.canonical(slaves.join(name)))
        .collect()
}

/// The kernel's name of the device in a folder, with slashes as in `/dev`.
fn name_of(folder: &Path) -> String {
    folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().replace('!', "/"))
}

/// The type of a device that is part of a disk.
pub(crate) const PARTITION: &str = "partition";

fn kind(root: &Root, folder: &Path) -> &'static str {
    match () {
        () if root.exists(folder.join("partition")) => PARTITION,
        () if root.exists(folder.join("md")) => "md",
        () if root.exists(folder.join("dm")) => "dm",
        () if name_of(folder).starts_with("loop") => "loop",
        () => "disk",
    }
}

fn device(root: &Root, folder: &Path) -> DeviceOfStorage {
    let kind = kind(root, folder);
    let text = |name: &str| root.text(folder.join(name)).ok().filter(|text| !text.is_empty());
    let pci_address = pci_address(folder);
    let link = pcie_link(root, folder, kind, pci_address.as_deref());
    DeviceOfStorage {
        name: name_of(folder),
        kind: kind.to_string(),
        layout: match kind {
            "md" => text("md/level"),
            // `LVM-…`, `CRYPT-LUKS2-…`, `mpath-…`: the rest is an identifier.
            "dm" => {
                text("dm/uuid").map(|uuid| uuid.split('-').next().unwrap_or_default().to_string())
            }
            "loop" => text("loop/backing_file"),
            _ => None,
        },
        model: text("device/model"),
        // NVMe uses one name, SCSI and SATA the other.
        firmware: text("device/firmware_rev").or_else(|| text("device/rev")),
        // The kernel counts in sectors of 512 bytes, regardless of the device's block size.
        size_bytes: root.number::<u64>(folder.join("size")).map(|sectors| sectors * 512).ok(),
        queue: (kind != PARTITION).then(|| queue(root, &folder.join("queue"))),
        numa_node: numa_node(root, folder, pci_address.as_deref()),
        pcie_link: link.map(|link| link.to_string()),
        pci_address,
    }
}

fn queue(root: &Root, folder: &Path) -> QueueOfStorage {
    let number = |name: &str| root.number(folder.join(name)).ok();
    QueueOfStorage {
        scheduler: root
            .text(folder.join("scheduler"))
            .map(|text| chosen(&text).unwrap_or(&text).to_string())
            .ok(),
        nr_requests: number("nr_requests"),
        read_ahead_kb: number("read_ahead_kb"),
        max_sectors_kb: number("max_sectors_kb"),
        max_hw_sectors_kb: number("max_hw_sectors_kb"),
        nomerges: root.number(folder.join("nomerges")).ok(),
        rotational: root.number::<u8>(folder.join("rotational")).map(|value| value != 0).ok(),
        write_cache: root.text(folder.join("write_cache")).ok(),
        wbt_lat_usec: root.number(folder.join("wbt_lat_usec")).ok(),
    }
}

/// The innermost PCI address in the path of a device's folder.
pub(crate) fn pci_address(folder: &Path) -> Option<String> {
    folder
        .components()
        .rev()
        .map(|part| part.as_os_str().to_string_lossy())
        .find(|name| is_pci_address(name))
        .map(|name| name.into_owned())
}

/// Whether `text` looks like `0000:3b:00.0`.
pub(crate) fn is_pci_address(text: &str) -> bool {
    let hex = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_hexdigit());
    let parts: Vec<&str> = text.split([':', '.']).collect();
    parts.len() == 4
        && parts.iter().all(|part| hex(part))
        && [parts[0].len() >= 4, parts[1].len() == 2, parts[2].len() == 2, parts[3].len() == 1]
            .iter()
            .all(|&fits| fits)
}

/// The NUMA node: the device's, or its PCI function's; the kernel reports -1 for unknown.
fn numa_node(root: &Root, folder: &Path, pci_address: Option<&str>) -> Option<u32> {
    let own = root.number::<i64>(folder.join("device/numa_node"));
    let pci = pci_address.map(|address| root.number::<i64>(pci_folder(address).join("numa_node")));
    [Some(own), pci]
        .into_iter()
        .flatten()
        .filter_map(|fact| fact.known().and_then(|&node| u32::try_from(node).ok()))
        .next()
}

/// The link of an NVMe disk, which is a PCI function. Disks that share a controller have no
/// separate link.
fn pcie_link(
    root: &Root,
    folder: &Path,
    kind: &str,
    pci_address: Option<&str>,
) -> Option<PcieLink> {
    let is_nvme = kind == "disk" && name_of(folder).starts_with("nvme");
    let pci = pci_folder(pci_address.filter(|_| is_nvme)?);
    let speed = root.text(pci.join("current_link_speed")).ok()?;
    Some(PcieLink { speed, lanes: root.number(pci.join("current_link_width")).ok()? })
}

pub(crate) fn pci_folder(address: &str) -> PathBuf {
    Path::new("/sys/bus/pci/devices").join(address)
}

#[cfg(test)]
mod tests {
    use super::super::testing::Tree;
    use super::*;

    const NVME: &str = "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/nvme/nvme0/nvme0n1";

    /// An md device of one partition and one whole disk, under a logical volume.
    fn machine() -> Tree {
        let other = "sys/devices/pci0000:5d/0000:5d:00.0/0000:5e:00.0/nvme/nvme1/nvme1n1";
        Tree::new()
            .file(&format!("{NVME}/dev"), "259:0\n")
            .file(&format!("{NVME}/size"), "2000\n")
            .file(&format!("{NVME}/device/model"), "Fast SSD   \n")
            .file(&format!("{NVME}/device/firmware_rev"), "GDC5602Q\n")
            .file(&format!("{NVME}/queue/scheduler"), "[none] mq-deadline\n")
            .file(&format!("{NVME}/queue/nomerges"), "0\n")
            .file(&format!("{NVME}/queue/wbt_lat_usec"), "-1\n")
            .file(&format!("{NVME}/nvme0n1p1/dev"), "259:1\n")
            .file(&format!("{NVME}/nvme0n1p1/partition"), "1\n")
            .file(&format!("{other}/dev"), "259:2\n")
            .file("sys/bus/pci/devices/0000:3b:00.0/numa_node", "1\n")
            .file("sys/bus/pci/devices/0000:3b:00.0/current_link_speed", "16.0 GT/s PCIe\n")
            .file("sys/bus/pci/devices/0000:3b:00.0/current_link_width", "4\n")
            .file("sys/bus/pci/devices/0000:5e:00.0/numa_node", "-1\n")
            .file("sys/devices/virtual/block/md0/md/level", "raid0\n")
            .link("sys/devices/virtual/block/md0/slaves/nvme0n1p1", &format!("/{NVME}/nvme0n1p1"))
            .link("sys/devices/virtual/block/md0/slaves/nvme1n1", &format!("/{other}"))
            .file("sys/devices/virtual/block/dm-0/dm/uuid", "LVM-abc\n")
            .link("sys/devices/virtual/block/dm-0/slaves/md0", "/sys/devices/virtual/block/md0")
            .link("sys/dev/block/259:0", &format!("/{NVME}"))
            .link("sys/dev/block/253:0", "/sys/devices/virtual/block/dm-0")
            .link("sys/class/block/nvme1n1", &format!("/{other}"))
    }

    #[test]
    fn a_stack_is_followed_to_its_members() {
        let tree = machine();
        let devices = below(&tree.root(), "253:0");
        let lines: Vec<String> = devices
            .known()
            .unwrap()
            .iter()
            .map(|d| format!("{} {} {} {:?}", d.depth, d.facts.name, d.facts.kind, d.facts.layout))
            .collect();
        assert_eq!(
            lines,
            [
                "0 dm-0 dm Some(\"LVM\")",
                "1 md0 md Some(\"raid0\")",
                "2 nvme0n1p1 partition None",
                "3 nvme0n1 disk None",
                "2 nvme1n1 disk None",
            ]
        );
    }

    #[test]
    fn queue_settings_come_from_the_disk_or_are_unknown() {
        let tree = machine();
        let devices = below(&tree.root(), "253:0");
        let devices = devices.known().unwrap();
        let named = |name: &str| devices.iter().map(|d| &d.facts).find(|d| d.name == name).unwrap();
        let disk = named("nvme0n1");
        let queue = disk.queue.as_ref().unwrap();
        assert_eq!(queue.scheduler.as_deref(), Some("none"));
        assert_eq!(queue.nomerges, Some(0));
        assert_eq!((queue.wbt_lat_usec, queue.read_ahead_kb), (None, None));
        assert_eq!(disk.size_bytes, Some(1_024_000));
        assert_eq!(disk.pci_address.as_deref(), Some("0000:3b:00.0"));
        assert_eq!(disk.numa_node, Some(1));
        assert_eq!(disk.firmware.as_deref(), Some("GDC5602Q"));
        assert_eq!(disk.pcie_link.as_deref(), Some("PCIe 16.0 GT/s x4"));
        let other = named("nvme1n1");
        assert!(other.pcie_link.is_none() && other.firmware.is_none());
        assert_eq!(other.numa_node, None);
        assert!(named("nvme0n1p1").queue.is_none());
    }

    #[test]
    fn storage_without_a_device_is_reported() {
        let tree = machine();
        let mount = |kind: &str, source: &str| Mount {
            number: "0:50".to_string(),
            root: "/".into(),
            point: "/mnt".into(),
            options: String::new(),
            kind: kind.to_string(),
            source: source.to_string(),
            super_options: String::new(),
        };
        let nfs = below_mount(&tree.root(), &mount("nfs4", "filer:/vol"));
        assert!(matches!(nfs, Fact::Unknown(why) if why.contains("filer:/vol")));
        let btrfs = below_mount(&tree.root(), &mount("btrfs", "/dev/nvme1n1"));
        assert_eq!(btrfs.known().unwrap()[0].facts.name, "nvme1n1");
        assert!(below(&tree.root(), "9:9").known().is_none());
    }

    #[test]
    fn pci_addresses_are_distinguished_from_folders() {
        assert!(is_pci_address("0000:3b:00.0"));
        assert!(is_pci_address("10000:01:00.1"));
        for no in ["pci0000:3a", "nvme0", "0000:3b:00", "", "0000:3b:00.g"] {
            assert!(!is_pci_address(no), "{no}");
        }
    }
}
