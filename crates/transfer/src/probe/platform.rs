//! Between GPU and storage: IOMMU, PCI access control, the kernel's peer-to-peer DMA.

use std::fs::File;
use std::io::{BufRead, BufReader};

use stormlp_core::machine::Fact;

use super::block::pci_folder;
use super::root::{Root, plain};

/// The symbol that cuFile requires for the kernel's peer-to-peer DMA.
const P2PDMA_SYMBOL: &str = "p2pdma_pgmap_ops";
/// The ID of access control services among PCIe's extended capabilities.
const ACS: u32 = 0x000d;
/// Offset of PCIe's extended capabilities.
const EXTENDED: usize = 0x100;
/// First two digits of the PCI class of bridges between PCI buses.
const PCI_BRIDGE: &str = "0x0604";

/// Whether the kernel has cuFile's symbol for peer-to-peer DMA.
pub(crate) fn kernel_p2pdma(root: &Root) -> Fact<bool> {
    let path = "/proc/kallsyms";
    let file = match File::open(root.path(path)) {
        Ok(file) => file,
        Err(error) => return Fact::unknown(format!("{path}: {}", plain(&error))),
    };
    let mut lines = BufReader::new(file).lines().map_while(Result::ok).peekable();
    if lines.peek().is_none() {
        return Fact::unknown(format!("{path} is empty"));
    }
    Fact::Known(lines.any(|line| line.split_whitespace().nth(2) == Some(P2PDMA_SYMBOL)))
}

/// The number of IOMMU groups.
pub(crate) fn iommu_groups(root: &Root) -> Fact<u32> {
    root.names("/sys/kernel/iommu_groups")
        .map(|names| u32::try_from(names.len()).unwrap_or(u32::MAX))
}

/// The bridges with access control that redirects peer-to-peer requests to the root complex, each
/// with its control bits in the notation of `lspci`.
pub(crate) fn acs_redirecting(root: &Root) -> Fact<Vec<String>> {
    root.names("/sys/bus/pci/devices").and_then(|addresses| {
        let mut redirecting = Vec::new();
        for address in &addresses {
            let folder = pci_folder(address);
            let class = root.text(folder.join("class")).unwrap_or(String::new());
            if !class.starts_with(PCI_BRIDGE) {
                continue;
            }
            let config = std::fs::read(root.path(folder.join("config"))).unwrap_or_default();
            // The kernel shows unprivileged users only the first 64 bytes.
            if config.len() <= 64 {
                return Fact::unknown("reading the PCI configuration of bridges needs root");
            }
            if let Some(bits) = acs_control(&config).and_then(redirect_bits) {
                redirecting.push(format!("{address} {bits}"));
            }
        }
        Fact::Known(redirecting)
    })
}

/// The ACS control register in a PCI configuration space.
///
/// An extended capability starts with a word of ID (16 bits), version (4) and offset of the next
/// one (12); PCI Express Base Specification, "Extended Capabilities".
fn acs_control(config: &[u8]) -> Option<u16> {
    let mut at = EXTENDED;
    // Capabilities are at least four bytes long: more steps than that indicate a loop.
    for _ in 0..(4096 - EXTENDED) / 4 {
        let word = config.get(at..at + 4)?;
        let header = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        if header & 0xffff == ACS {
            let control = config.get(at + 6..at + 8)?;
            return Some(u16::from_le_bytes([control[0], control[1]]));
        }
        at = (header >> 20) as usize;
        if at < EXTENDED {
            return None;
        }
    }
    None
}

/// The bits that redirect requests and completions, in the notation of `lspci -vv`.
fn redirect_bits(control: u16) -> Option<String> {
    let names: Vec<&str> = [(2, "ReqRedir+"), (3, "CmpltRedir+")]
        .into_iter()
        .filter(|(bit, _)| control & (1 << bit) != 0)
        .map(|(_, name)| name)
        .collect();
    (!names.is_empty()).then(|| names.join(" "))
}

#[cfg(test)]
mod tests {
    use super::super::testing::Tree;
    use super::*;
    use proptest::prelude::*;

    /// A configuration space with AER at 0x100 and ACS at 0x148.
    fn config(control: u16) -> Vec<u8> {
        let mut config = vec![0u8; 4096];
        config[0x100..0x104].copy_from_slice(&(0x0001u32 | 1 << 16 | 0x148 << 20).to_le_bytes());
        config[0x148..0x14c].copy_from_slice(&(ACS | 1 << 16).to_le_bytes());
        config[0x14e..0x150].copy_from_slice(&control.to_le_bytes());
        config
    }

    fn bridges(config: Vec<u8>) -> Fact<Vec<String>> {
        let tree = Tree::new()
            .file("sys/bus/pci/devices/0000:00:01.0/class", "0x060400\n")
            .file("sys/bus/pci/devices/0000:00:01.0/config", config);
        acs_redirecting(&tree.root())
    }

    #[test]
    fn a_bridge_that_redirects_is_named() {
        let found = bridges(config(0b1_1101));
        assert!(found.known().unwrap()[0].ends_with(" ReqRedir+ CmpltRedir+"));
        assert_eq!(bridges(config(0b1_0001)), Fact::Known(Vec::new()));
    }

    #[test]
    fn without_rights_it_is_unknown_not_absent() {
        assert!(matches!(bridges(vec![0; 64]), Fact::Unknown(why) if why.contains("root")));
    }

    #[test]
    fn the_kernels_symbols_are_searched_whole() {
        let with = Tree::new().file("proc/kallsyms", "0000 T a\n0000 d p2pdma_pgmap_ops\t[x]\n");
        assert_eq!(kernel_p2pdma(&with.root()), Fact::Known(true));
        let without = Tree::new().file("proc/kallsyms", "0000 d my_p2pdma_pgmap_ops_2\n");
        assert_eq!(kernel_p2pdma(&without.root()), Fact::Known(false));
        assert!(kernel_p2pdma(&Tree::new().root()).known().is_none());
    }

    proptest! {
        #[test]
        fn no_configuration_space_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..1024)) {
            let _ = acs_control(&bytes);
        }
    }
}
