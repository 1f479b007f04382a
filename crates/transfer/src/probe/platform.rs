//! Between GPU and storage: IOMMU, the kernel's peer-to-peer DMA.

use std::fs::File;
use std::io::{BufRead, BufReader};

use stormlp_core::machine::Fact;

use super::root::{Root, plain};

/// The symbol that cuFile requires for the kernel's peer-to-peer DMA.
const P2PDMA_SYMBOL: &str = "p2pdma_pgmap_ops";

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

#[cfg(test)]
mod tests {
    use super::super::testing::Tree;
    use super::*;

    #[test]
    fn the_kernels_symbols_are_searched_whole() {
        let with = Tree::new().file("proc/kallsyms", "0000 T a\n0000 d p2pdma_pgmap_ops\t[x]\n");
        assert_eq!(kernel_p2pdma(&with.root()), Fact::Known(true));
        let without = Tree::new().file("proc/kallsyms", "0000 d my_p2pdma_pgmap_ops_2\n");
        assert_eq!(kernel_p2pdma(&without.root()), Fact::Known(false));
        assert!(kernel_p2pdma(&Tree::new().root()).known().is_none());
    }
}
