//! Recommendations derived from the facts of a machine: the few things worth changing before
//! measuring.

use super::Machine;
use super::fact::Fact;
use super::storage::DirectSupport;
use crate::facts::Availability;
use crate::path::PathKind;
use crate::placement::{self, Placement};
use crate::transport::DeviceId;
use crate::units::{ByteSize, MIB};
use crate::warning::{Warning, WarningKind};

/// Locked memory below this cannot hold the buffers of a common matrix cell.
const SMALL_LOCKED_LIMIT: u64 = 64 * MIB;

impl Machine {
    /// Everything worth changing on this machine, most important first.
    pub fn advice(&self) -> Vec<Warning> {
        let mut found = Advice(Vec::new());
        build(self, &mut found);
        storage(self, &mut found);
        let gpu = self.host.accelerators.first();
        let gpu = gpu.map(|gpu| DeviceId::nvidia(gpu.index));
        found.0.extend(placement::warnings(&Placement::default(), gpu, &self.host));
        host(self, &mut found);
        if let Some(hidden) = &self.host.hidden_gpus {
            let remedy = "fix the NVIDIA driver; runs that end in accelerator memory are refused \
                          without --device host";
            found.add(WarningKind::KnownIssue, hidden.words(), remedy);
        }
        let gpus = self.gpu.devices.known().is_some_and(|gpus| !gpus.is_empty());
        if gpus || self.host.support(PathKind::Gds).is_available() {
            direct_storage(self, &mut found);
        }
        found.0
    }
}

/// The changes worth making, so far.
struct Advice(Vec<Warning>);

impl Advice {
    fn add(&mut self, kind: WarningKind, fact: impl Into<String>, remedy: &str) {
        self.0.push(Warning::new(kind, fact, remedy));
    }
}

fn build(machine: &Machine, found: &mut Advice) {
    found.0.extend(machine.host.debug_build());
    if machine.build.statically_linked {
        found.add(
            WarningKind::NoEffect,
            "this is a static build: it cannot open libcuda, libcufile or any other library",
            "use the dynamically linked build on hosts with GPUs",
        );
    }
}

fn storage(machine: &Machine, found: &mut Advice) {
    let storage = &machine.storage;
    let directory = storage.directory.display();
    if let Fact::Known(filesystem) = &storage.filesystem
        && crate::facts::keeps_files_in_memory(&filesystem.kind)
    {
        found.add(
            WarningKind::FitsInMemory,
            format!("{directory} is on a {}, which keeps its files in memory", filesystem.kind),
            "no I/O there reaches a device; choose a folder on the storage under test",
        );
    }
    match &storage.direct_io {
        Fact::Unknown(reason) => {
            let remedy = "choose a writable folder, or a file or device that you may read";
            let fact = format!("O_DIRECT could not be tried: {reason}");
            found.add(WarningKind::NotDirect, fact, remedy);
        }
        Fact::Known(DirectSupport { honoured: false, tried, .. }) => found.add(
            WarningKind::NotDirect,
            format!("O_DIRECT is refused in {directory} ({tried})"),
            "the direct paths would go through the page cache there",
        ),
        Fact::Known(_) => {}
    }
}

fn host(machine: &Machine, found: &mut Advice) {
    if let Availability::Unavailable { fact, remedy } = &machine.host.io_uring {
        let fact = format!("io_uring cannot be used: {fact}");
        found.add(WarningKind::EngineFellBack, fact, remedy);
    }
    if machine.memory.transparent_huge_pages == Fact::Known("never".to_string())
        && machine.memory.huge_pages_free.known().is_none_or(|&free| free == 0)
    {
        found.add(
            WarningKind::Buffers,
            "there are no huge pages, transparent or reserved",
            "`echo madvise > /sys/kernel/mm/transparent_hugepage/enabled` as root",
        );
    }
    if let Some(limit) = machine.host.locked_memory_limit_bytes
        && limit < SMALL_LOCKED_LIMIT
    {
        found.add(
            WarningKind::Buffers,
            format!("only {} of memory may be locked", ByteSize(limit)),
            "without root, larger buffers stay unregistered; `ulimit -l unlimited` fixes that",
        );
    }
}

/// The causes that prevent the GPUs from reaching storage without the CPU.
fn direct_storage(machine: &Machine, found: &mut Advice) {
    let gpu = &machine.gpu;
    let peer_to_peer = gpu.devices.known().is_some_and(|gpus| {
        gpus.iter().any(|gpu| gpu.p2p_memory_bytes.known().is_some_and(|&bytes| bytes > 0))
    });
    if gpu.nvidia_fs.known().is_none() && !peer_to_peer {
        found.add(
            WarningKind::KnownIssue,
            "neither nvidia-fs nor PCI peer-to-peer memory is available",
            "cuFile can only run in compatibility mode: load nvidia-fs, or the open driver with a \
             static BAR1, and set properties.use_pci_p2pdma and block.nvme.use_pci_p2pdma in \
             cufile.json",
        );
    }
    if let Fact::Known(bridges) = &gpu.acs_redirecting
        && !bridges.is_empty()
    {
        found.add(
            WarningKind::KnownIssue,
            format!("PCI bridges that redirect peer-to-peer requests (ACS): {}", bridges.len()),
            "direct transfers cross the root complex; disable ACS in the firmware",
        );
    }
    if let Fact::Known(filesystem) = &machine.storage.filesystem
        && filesystem.kind == "ext4"
        && !filesystem.super_options.split(',').any(|option| option == "data=ordered")
    {
        found.add(
            WarningKind::KnownIssue,
            "ext4 is mounted without `data=ordered` among its options",
            "cuFile uses its direct path on ext4 only when the option is given at mount",
        );
    }
}
