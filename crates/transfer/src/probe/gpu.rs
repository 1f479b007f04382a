//! NVIDIA GPUs and their kernel drivers, from the PCI bus and `/proc/driver`.
//!
//! The bus shows a GPU even without a driver, which is exactly when the doctor is needed.

use stormlp_core::machine::{Fact, PciGpu};

use super::block::pci_folder;
use super::root::Root;

/// PCI vendor number of NVIDIA.
const NVIDIA: &str = "0x10de";
/// First two digits of the PCI class of display controllers, 3D controllers included.
const DISPLAY: &str = "0x03";
/// BAR1 is the second of the regions in a device's `resource` file. Its line varies: BAR0, the
/// registers, is 32 bits wide up to Ampere, and needs two lines from Hopper on.
const BAR1: usize = 1;

/// The NVIDIA GPUs on the PCI bus.
pub(crate) fn devices(root: &Root) -> Fact<Vec<PciGpu>> {
    root.names("/sys/bus/pci/devices").map(|addresses| {
        addresses
            .iter()
            .filter(|address| is_gpu(root, address))
            .map(|address| device(root, address))
            .collect()
    })
}

/// Files of NVIDIA's drivers, which also serve GPUs that are not on the PCI bus: a Jetson's, and
/// Windows' below a Linux that it runs.
const DRIVER_FILES: [&str; 4] =
    ["/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/nvhost-ctrl", "/dev/dxg"];

/// That this machine has no NVIDIA GPU, in words; `None` if it may have one.
pub(crate) fn no_device(root: &Root) -> Option<String> {
    let none_on_bus = devices(root).known().is_some_and(Vec::is_empty);
    let has_driver = DRIVER_FILES.iter().any(|path| root.exists(path));
    (none_on_bus && !has_driver)
        .then(|| "this machine has no NVIDIA GPU: none on the PCI bus, and no driver".to_string())
}

fn is_gpu(root: &Root, address: &str) -> bool {
    let has = |name: &str, start: &str| {
        let text = root.text(pci_folder(address).join(name));
        text.known().is_some_and(|text| text.starts_with(start))
    };
    has("vendor", NVIDIA) && has("class", DISPLAY)
}

/// The GPU at a PCI address.
pub(crate) fn device(root: &Root, address: &str) -> PciGpu {
    let folder = pci_folder(address);
    let text = |name: &str| root.text(folder.join(name));
    let driver = root
        .canonical(folder.join("driver"))
        .and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let link = text("current_link_speed")
        .and_then(|speed| text("current_link_width").map(|width| format!("{speed} x{width}")));
    PciGpu {
        pci_address: address.to_string(),
        name: name(root, address),
        driver: driver.map_or_else(|| Fact::unknown("no driver is bound to it"), Fact::Known),
        numa_node: root
            .number::<i64>(folder.join("numa_node"))
            .known()
            .and_then(|&node| u32::try_from(node).ok()),
        bar1_bytes: bar_bytes(&text("resource"), BAR1),
        p2p_memory_bytes: root.number(folder.join("p2pmem/size")),
        link,
    }
}

/// Whether a GPU may offer memory for peer-to-peer DMA: not if the kernel shows none.
pub(crate) fn may_offer_memory(root: &Root, gpu: &PciGpu) -> bool {
    match gpu.p2p_memory_bytes {
        Fact::Known(bytes) => bytes > 0,
        Fact::Unknown(_) => root.exists(pci_folder(&gpu.pci_address).join("p2pmem/size")),
    }
}

/// The product name, which only the driver knows.
fn name(root: &Root, address: &str) -> Fact<String> {
    let path = format!("/proc/driver/nvidia/gpus/{address}/information");
    root.text(&path).and_then(|text| {
        match text.lines().find_map(|line| line.strip_prefix("Model:")) {
            Some(model) => Fact::Known(model.trim().to_string()),
            None => Fact::unknown(format!("{path}: no `Model:`")),
        }
    })
}

/// Size of a region: its line in `resource` holds first address, last address and flags; unused
/// lines are zeros.
fn bar_bytes(resource: &Fact<String>, bar: usize) -> Fact<u64> {
    resource.clone().and_then(|text| {
        let hex = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
        let range = |line: &str| {
            let mut words = line.split_whitespace();
            Some((hex(words.next()?)?, hex(words.next()?)?))
        };
        let mut regions = text.lines().filter_map(range).filter(|(first, last)| last > first);
        match regions.nth(bar) {
            Some((first, last)) if last < u64::MAX => Fact::Known(last - first + 1),
            _ => Fact::unknown(format!("`resource` shows no BAR{bar}")),
        }
    })
}

pub(crate) fn driver_version(root: &Root) -> Fact<String> {
    root.text("/proc/driver/nvidia/version").and_then(|text| {
        let version = text
            .lines()
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'));
        match version {
            Some(version) => Fact::Known(version.to_string()),
            None => Fact::unknown("/proc/driver/nvidia/version names no version"),
        }
    })
}

pub(crate) fn driver_open(root: &Root) -> Fact<bool> {
    root.text("/proc/driver/nvidia/version").map(|text| text.contains("Open Kernel Module"))
}

/// The driver's `RegistryDwords`, empty if none were given.
pub(crate) fn driver_registry(root: &Root) -> Fact<String> {
    let path = "/proc/driver/nvidia/params";
    root.text(path).and_then(|text| {
        match text.lines().find_map(|line| line.strip_prefix("RegistryDwords:")) {
            Some(words) => Fact::Known(words.trim().trim_matches('"').to_string()),
            None => Fact::unknown(format!("{path}: no `RegistryDwords:`")),
        }
    })
}

pub(crate) fn nvidia_fs(root: &Root) -> Fact<String> {
    let version = root.text("/proc/driver/nvidia-fs/version");
    // `version: 2.17.5` or just the number.
    version.map(|text| text.split_whitespace().last().unwrap_or_default().to_string())
}

#[cfg(test)]
mod tests {
    use super::super::testing::Tree;
    use super::*;
    use proptest::prelude::*;

    const GPU: &str = "sys/bus/pci/devices/0000:3b:00.0";

    fn server() -> Tree {
        Tree::new()
            .file(&format!("{GPU}/vendor"), "0x10de\n")
            .file(&format!("{GPU}/class"), "0x030200\n")
            .file(&format!("{GPU}/device"), "0x2335\n")
            .file(&format!("{GPU}/numa_node"), "0\n")
            .file(
                &format!("{GPU}/resource"),
                "0x00000000d8000000 0x00000000d8ffffff 0x0000000000040200\n\
                 0x0000204000000000 0x0000207fffffffff 0x000000000014220c\n\
                 0x0000000000000000 0x0000000000000000 0x0000000000000000\n",
            )
            .file(&format!("{GPU}/p2pmem/size"), "0\n")
            .folder("sys/bus/pci/drivers/nvidia")
            .link(&format!("{GPU}/driver"), "/sys/bus/pci/drivers/nvidia")
            .file("sys/bus/pci/devices/0000:3c:00.0/vendor", "0x10de\n")
            .file("sys/bus/pci/devices/0000:3c:00.0/class", "0x068000\n")
            .file(
                "proc/driver/nvidia/version",
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release\n\
                 GCC version:  gcc version 12.2.0\n",
            )
            .file(
                "proc/driver/nvidia/params",
                "EnableMSI: 1\nRegistryDwords: \"RMForceStaticBar1=1;\"\n",
            )
            .file(
                "proc/driver/nvidia/gpus/0000:3b:00.0/information",
                "Model: \t\t NVIDIA H200\nIRQ: 17\n",
            )
            .file("proc/driver/nvidia-fs/version", "version: 2.17.5\n")
            .file("proc/driver/nvidia-fs/devcount", "gpu:8 nvme:4\n")
    }

    #[test]
    fn a_gpu_is_distinguished_from_its_neighbours_on_the_bus() {
        let tree = server();
        let devices = devices(&tree.root());
        let [gpu] = devices.known().unwrap().as_slice() else {
            unreachable!("an NVSwitch is not a GPU: {devices:?}")
        };
        assert_eq!(gpu.name, Fact::Known("NVIDIA H200".to_string()));
        assert_eq!(gpu.bar1_bytes, Fact::Known(256 << 30));
        assert_eq!(gpu.driver, Fact::Known("nvidia".to_string()));
        assert_eq!(gpu.numa_node, Some(0));
        assert_eq!(gpu.p2p_memory_bytes, Fact::Known(0));
        assert!(gpu.link.known().is_none());
    }

    #[test]
    fn the_facts_of_the_bus_vary_with_the_generation() {
        let bars = [
            "0x00000000f6000000 0x00000000f6ffffff 0x0000000000040200\n",
            "0x0000383000000000 0x00003837ffffffff 0x000000000014220c\n",
        ];
        let zeroes = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n";
        let of = |node: &str, resource: &str| {
            let tree = Tree::new()
                .file(&format!("{GPU}/numa_node"), node)
                .file(&format!("{GPU}/resource"), resource)
                .file(&format!("{GPU}/current_link_speed"), "32.0 GT/s PCIe\n")
                .file(&format!("{GPU}/current_link_width"), "16\n");
            device(&tree.root(), "0000:3b:00.0")
        };
        let gpu = of("1\n", &bars.concat());
        assert_eq!((gpu.numa_node, gpu.bar1_bytes), (Some(1), Fact::Known(32 << 30)));
        assert_eq!(gpu.link, Fact::Known("32.0 GT/s PCIe x16".to_string()));
        let hopper = of("-1\n", &[bars[0], zeroes, bars[1]].concat());
        assert_eq!((hopper.numa_node, hopper.bar1_bytes), (None, Fact::Known(32 << 30)));
        assert!(of("-1\n", "nonsense").bar1_bytes.known().is_none());
    }

    #[test]
    fn the_drivers_are_read() {
        let tree = server();
        let root = tree.root();
        assert_eq!(driver_version(&root), Fact::Known("570.124.06".to_string()));
        assert_eq!(driver_open(&root), Fact::Known(true));
        assert!(driver_registry(&root).known().unwrap().starts_with("RMForceStaticBar1"));
        assert_eq!(nvidia_fs(&root).known().unwrap(), "2.17.5");
    }

    #[test]
    fn a_machine_without_any_device_is_recognised() {
        let bus = || Tree::new().file("sys/bus/pci/devices/0000:01:00.0/vendor", "0x8086\n");
        assert!(no_device(&bus().root()).is_some());
        assert_eq!(no_device(&bus().file("dev/dxg", "").root()), None);
        assert_eq!(no_device(&server().root()), None);
        // The bus is not visible.
        assert_eq!(no_device(&Tree::new().root()), None);
    }

    proptest! {
        #[test]
        fn no_resource_file_makes_it_panic(text in "[0-9a-fx \\n]{0,120}", bar in 0usize..8) {
            let _ = bar_bytes(&Fact::Known(text), bar);
        }
    }

    #[test]
    fn without_a_driver_the_missing_file_is_the_reason() {
        let tree = Tree::new();
        assert!(
            matches!(driver_version(&tree.root()), Fact::Unknown(why) if why.contains("/proc/driver/nvidia/version"))
        );
        assert!(nvidia_fs(&tree.root()).known().is_none());
    }
}
