//! Kernel information on the direct routes: the statistics of nvidia-fs, and whether PCI
//! peer-to-peer DMA is supported.

use stormlp_core::machine::Fact;

use super::version::LibraryVersion;
use crate::probe::root::Root;
use crate::probe::{gpu, platform};

/// The statistics file of nvidia-fs.
const STATISTICS: &str = "/proc/driver/nvidia-fs/stats";
/// Whether it counts reads and writes; off by default.
const SWITCH: &str = "/sys/module/nvidia_fs/parameters/rw_stats_enabled";
/// How to enable counting.
pub(crate) const TO_ENABLE: &str =
    "echo 1 | sudo tee /sys/module/nvidia_fs/parameters/rw_stats_enabled";

/// The counts of nvidia-fs; host-wide, including other processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NvidiaFsCounts {
    /// The driver is not loaded.
    Absent,
    /// It is loaded but does not count reads and writes.
    NotCounting,
    /// It counts.
    Counting(NvfsCounts),
}

/// Reads and writes through nvidia-fs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct NvfsCounts {
    /// The number of operations.
    pub(crate) operations: u64,
    /// Their size in whole MiB; `None` if the driver does not report it.
    pub(crate) mebibytes: Option<u64>,
}

impl NvidiaFsCounts {
    /// The current state on this machine.
    pub(crate) fn now() -> Self {
        Self::below(&Root::system())
    }

    /// The current state, with `/proc` and `/sys` below `root`.
    pub(crate) fn below(root: &Root) -> Self {
        let text = match root.text(STATISTICS) {
            Fact::Known(text) => text,
            Fact::Unknown(_) if root.exists("/sys/module/nvidia_fs") => return Self::NotCounting,
            Fact::Unknown(_) => return Self::Absent,
        };
        let switch = root.text(SWITCH);
        if matches!(switch.known().map(String::as_str), Some("0" | "N")) {
            return Self::NotCounting;
        }
        counts(&text).map_or(Self::NotCounting, Self::Counting)
    }

    /// The counts since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        match (self, earlier) {
            (Self::Counting(now), Self::Counting(then)) => Self::Counting(NvfsCounts {
                operations: now.operations.saturating_sub(then.operations),
                mebibytes: (now.mebibytes.zip(then.mebibytes))
                    .map(|(now, then)| now.saturating_sub(then)),
            }),
            // Enabled meanwhile: the counts are incomplete.
            (Self::Counting(_), _) => Self::NotCounting,
            (other, _) => other,
        }
    }

    /// The number of counted operations.
    pub(crate) fn operations(self) -> Option<u64> {
        match self {
            Self::Counting(counts) => Some(counts.operations),
            Self::Absent | Self::NotCounting => None,
        }
    }
}

/// The `n=` and `readMiB=` of the lines `Reads` and `Writes`; `None` if counting is off.
fn counts(text: &str) -> Option<NvfsCounts> {
    if text.lines().any(|line| line.starts_with("IO stats: Disabled")) {
        return None;
    }
    let values = |name: &str| {
        text.lines().find_map(|line| {
            let (label, values) = line.split_once(':')?;
            let counts = label.trim() == name && values.trim().starts_with("n=");
            counts.then_some(values)
        })
    };
    let value = |values: &str, key: &str| {
        let mut words = values.split_whitespace();
        words.find_map(|word| word.strip_prefix(key)?.parse::<u64>().ok())
    };
    let (reads, writes) = (values("Reads")?, values("Writes")?);
    Some(NvfsCounts {
        operations: value(reads, "n=")?.checked_add(value(writes, "n=")?)?,
        mebibytes: value(reads, "readMiB=")
            .zip(value(writes, "writeMiB="))
            .and_then(|(read, written)| read.checked_add(written)),
    })
}

/// Why no transfer can have used PCI peer-to-peer DMA; `None` if that is not certain.
/// `switched_on` is the library's setting `use_pci_p2pdma`.
pub(super) fn no_p2pdma(
    root: &Root,
    version: LibraryVersion,
    switched_on: Option<bool>,
) -> Option<String> {
    if !version.has_p2pdma() {
        return Some(format!("libcufile {version} has no peer-to-peer DMA"));
    }
    if !version.counts_routes() && switched_on == Some(false) {
        return Some("use_pci_p2pdma is off".to_string());
    }
    if platform::kernel_p2pdma(root) == Fact::Known(false) {
        return Some("the kernel has no p2pdma_pgmap_ops".to_string());
    }
    // On Grace the CPU reaches the GPU's memory through C2C, without p2pmem.
    let gpus = if cfg!(target_arch = "aarch64") { Fact::unknown("") } else { gpu::devices(root) };
    let none_offers = gpus.known().is_some_and(|gpus| {
        !gpus.is_empty() && gpus.iter().all(|gpu| !gpu::may_offer_memory(root, gpu))
    });
    none_offers.then(|| "no GPU offers memory for it (p2pmem/size)".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "GDS Version: 1.7.0.149\nIO stats: Enabled, peer IO stats: Enabled\n\
        Reads\t\t\t: n=12 ok=12 err=0 readMiB=3 io_state_err=0\n\
        Reads\t\t\t: Bandwidth(MiB/s)=0 Avg-Latency(usec)=0\n\
        Sparse Reads\t: n=99 io=0\n\
        Writes\t\t\t: n=4 ok=4 err=0 writeMiB=5 io_state_err=0\n";

    /// A machine with these files.
    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name.trim_start_matches('/'));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let root = Root::at(folder.path());
        (folder, root)
    }

    fn driver(files: &[(&str, &str)]) -> NvidiaFsCounts {
        let (_folder, root) = machine(files);
        NvidiaFsCounts::below(&root)
    }

    #[test]
    fn the_drivers_counts_are_read_where_it_counts() {
        let counted = NvidiaFsCounts::Counting(NvfsCounts { operations: 16, mebibytes: Some(8) });
        assert_eq!(driver(&[(STATISTICS, TEXT), (SWITCH, "1\n")]), counted);
        assert_eq!(driver(&[(STATISTICS, TEXT)]), counted);
        let off = driver(&[(STATISTICS, TEXT), (SWITCH, "0\n")]);
        assert_eq!(off, NvidiaFsCounts::NotCounting);
        let disabled = TEXT.replace("Enabled", "Disabled");
        assert_eq!(driver(&[(STATISTICS, &disabled)]), NvidiaFsCounts::NotCounting);
        let strange = driver(&[(STATISTICS, "what is this")]);
        assert_eq!(strange, NvidiaFsCounts::NotCounting);
        // As in a container without the driver's files.
        assert_eq!(driver(&[(SWITCH, "1\n")]), NvidiaFsCounts::NotCounting);
        assert_eq!(driver(&[("/proc/cpuinfo", "")]), NvidiaFsCounts::Absent);
    }

    #[test]
    fn only_counts_from_the_start_are_complete() {
        let counting =
            |operations| NvidiaFsCounts::Counting(NvfsCounts { operations, mebibytes: None });
        assert_eq!(counting(9).since(counting(4)).operations(), Some(5));
        assert_eq!(counting(9).since(NvidiaFsCounts::NotCounting).operations(), None);
        assert_eq!(NvidiaFsCounts::Absent.since(NvidiaFsCounts::Absent), NvidiaFsCounts::Absent);
    }

    #[test]
    fn peer_to_peer_dma_is_ruled_out_only_if_certain() {
        let kernel = |symbols: &str| machine(&[("/proc/kallsyms", symbols)]);
        let version = LibraryVersion::from_number;
        let (_with, with) = kernel("0 d p2pdma_pgmap_ops\n");
        let (_without, without) = kernel("0 T start_kernel\n");
        let (_unknown, unknown) = machine(&[]);
        let certain = |root, number, on| no_p2pdma(root, version(number), on).is_some();
        assert!(certain(&with, 1120, None), "the library is too old");
        assert!(certain(&with, 1140, Some(false)), "it is off");
        assert!(!certain(&with, 1140, Some(true)));
        assert!(!certain(&with, 1130, None));
        // Later libraries have more switches than this one.
        assert!(!certain(&with, 1200, Some(false)));
        assert!(certain(&without, 1200, Some(true)));
        assert!(!certain(&unknown, 1200, None));
        let gpus = |offered: &[Option<&str>]| {
            let mut files = vec![("/proc/kallsyms".to_string(), "0 d p2pdma_pgmap_ops\n")];
            for (slot, size) in offered.iter().enumerate() {
                let folder = format!("/sys/bus/pci/devices/0000:0{slot}:00.0");
                files.push((format!("{folder}/vendor"), "0x10de\n"));
                files.push((format!("{folder}/class"), "0x030200\n"));
                files.extend(size.map(|size| (format!("{folder}/p2pmem/size"), size)));
            }
            let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
            machine(&files)
        };
        let (_none, none) = gpus(&[None, Some("0\n")]);
        let (_one, one) = gpus(&[Some("0\n"), Some("1073741824\n")]);
        assert!(certain(&none, 1130, None) && certain(&none, 1200, Some(true)));
        assert!(!certain(&one, 1130, None));
    }
}
