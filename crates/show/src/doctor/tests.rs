//! The complete output for a fictitious server, so that wording changes show up in review.

use std::path::PathBuf;

use stormlp_core::facts::{
    AcceleratorFacts, Availability, DeviceOfStorage, HostFacts, PathSupport, QueueOfStorage,
};
use stormlp_core::machine::{
    BlockDevice, BuildFacts, DirectSupport, Fact, Filesystem, GpuFacts, LibraryFacts, Machine,
    MemoryFacts, NumaNode, PciGpu, ProcessorFacts, StorageFacts,
};
use stormlp_core::path::PathKind;
use stormlp_core::units::{GIB, TIB};

use super::document;

/// The output at page width.
fn text(machine: &Machine) -> String {
    crate::text::render(&document(machine), Some(110))
}

fn known(text: &str) -> Fact<String> {
    Fact::Known(text.to_string())
}

fn host() -> HostFacts {
    let cufile = Availability::unavailable("libcufile.so.0 was not found", "install gds-tools");
    let support = |path: PathKind| PathSupport {
        path,
        availability: if path.needs_cufile() { cufile.clone() } else { Availability::Available },
    };
    HostFacts {
        hostname: "dgx".into(),
        kernel: "6.8.0".into(),
        cpu_model: "Big CPU".into(),
        cpus: 96,
        memory_bytes: 2 * TIB,
        memory_limit_bytes: Some(512 * GIB),
        group_limits: vec!["48.00 CPUs (cpu.max)".to_string()],
        open_files_limit: 1024,
        accelerators: vec![AcceleratorFacts {
            index: 0,
            name: "NVIDIA H200".into(),
            pci_address: Some("0000:3b:00.0".into()),
            numa_node: Some(0),
            pcie_link: None,
            memory_bytes: Some(140 * GIB),
            bar1_bytes: Some(256 * GIB),
            free_memory_bytes: None,
            part: None,
        }],
        paths: PathKind::ALL.into_iter().map(support).collect(),
        stormlp_version: "1.2.3".into(),
        ..stormlp_fixtures::host()
    }
}

fn gpu() -> GpuFacts {
    GpuFacts {
        devices: Fact::Known(vec![PciGpu {
            pci_address: "0000:3b:00.0".into(),
            name: known("NVIDIA H200"),
            driver: known("nvidia"),
            numa_node: Some(0),
            bar1_bytes: Fact::Known(256 * GIB),
            p2p_memory_bytes: Fact::Known(0),
            link: known("32.0 GT/s PCIe x16"),
        }]),
        driver_version: known("570.124.06"),
        driver_open: Fact::Known(true),
        driver_registry: known(""),
        cuda: LibraryFacts {
            version: known("12.8"),
            found_at: Fact::Known(PathBuf::from("libcuda.so.1")),
        },
        cufile: LibraryFacts {
            version: Fact::unknown("libcufile.so.0 was not found"),
            found_at: Fact::unknown("libcufile.so.0 was not found"),
        },
        cufile_candidates: Vec::new(),
        cufile_says: Vec::new(),
        nvidia_fs: Fact::unknown("/proc/driver/nvidia-fs/version: no such file"),
        kernel_p2pdma: Fact::Known(true),
        iommu_groups: Fact::Known(0),
        acs_redirecting: Fact::Known(vec!["0000:3a:00.0 ReqRedir+ CmpltRedir+".into()]),
    }
}

fn disk(name: &str, depth: u32, kind: &str) -> BlockDevice {
    let queue = QueueOfStorage {
        scheduler: Some("none".into()),
        nr_requests: Some(1023),
        read_ahead_kb: Some(128),
        max_sectors_kb: Some(1280),
        max_hw_sectors_kb: Some(2048),
        nomerges: Some(0),
        rotational: Some(false),
        write_cache: Some("write through".into()),
        wbt_lat_usec: None,
    };
    let facts = DeviceOfStorage {
        name: name.into(),
        kind: kind.into(),
        layout: None,
        model: Some("Fast SSD".into()),
        firmware: Some("1.0.2".into()),
        size_bytes: Some(4 * TIB),
        queue: (kind != "partition").then_some(queue),
        numa_node: Some(1),
        pci_address: Some("0000:5e:00.0".into()),
        pcie_link: Some("PCIe 16.0 GT/s x4".into()),
    };
    BlockDevice { depth, members: Vec::new(), facts }
}

fn storage() -> StorageFacts {
    let mut part = disk("nvme0n1p1", 0, "partition");
    part.members = vec!["nvme0n1".into()];
    part.facts.model = None;
    part.facts.firmware = None;
    part.facts.pcie_link = None;
    StorageFacts {
        directory: "data".into(),
        examined: Fact::Known("/mnt/data".into()),
        filesystem: Fact::Known(Filesystem {
            kind: "ext4".into(),
            mount_point: "/mnt".into(),
            source: "/dev/nvme0n1p1".into(),
            mount_options: "rw,noatime".into(),
            super_options: "rw".into(),
            total_bytes: 4 * TIB,
            free_bytes: TIB,
        }),
        direct_io: Fact::Known(DirectSupport {
            honoured: true,
            tried: "write of 4096 bytes with O_DIRECT: 4096 bytes".into(),
            offset_align_bytes: Fact::Known(512),
        }),
        devices: Fact::Known(vec![part, disk("nvme0n1", 1, "disk")]),
    }
}

fn server() -> Machine {
    let mut machine = Machine {
        format_version: 1,
        host: host(),
        build: BuildFacts { target: "x86_64 gnu".into(), statically_linked: false },
        processors: ProcessorFacts {
            online: known("0-95"),
            numa_nodes: Fact::Known(vec![NumaNode {
                node: 0,
                cpus: "0-95".into(),
                memory_bytes: Fact::Known(2 * TIB),
            }]),
        },
        memory: MemoryFacts {
            available_bytes: Fact::Known(TIB),
            transparent_huge_pages: known("madvise"),
            huge_page_bytes: Fact::Known(2 << 20),
            huge_pages_total: Fact::Known(0),
            huge_pages_free: Fact::Known(0),
        },
        gpu: gpu(),
        storage: storage(),
        warnings: Vec::new(),
    };
    machine.warnings = machine.advice();
    machine
}

#[test]
fn without_a_gpu_memory_is_reported_as_emulated() {
    let mut machine = server();
    machine.host.accelerators.clear();
    assert!(text(&machine).contains("emulated with host memory"));
}

#[test]
fn the_reason_for_no_cuda_device_is_reported_if_the_bus_has_none() {
    let mut machine = server();
    machine.host.accelerators.clear();
    machine.gpu.devices = Fact::Known(Vec::new());
    machine.host.cuda_problem = Some("802: start nvidia-fabricmanager".to_string());
    let text = text(&machine);
    assert!(text.contains("shows no device: 802: start nvidia-fabricmanager"), "{text}");
}

#[test]
fn a_static_build_reports_what_it_cannot_open() {
    let mut machine = server();
    machine.build.statically_linked = true;
    machine.warnings = machine.advice();
    let text = text(&machine);
    assert!(text.contains("static: opens no libraries"), "{text}");
    assert!(text.contains("cannot open libcuda"), "{text}");
}

/// The advice added by the `change` to the server.
fn advised(change: impl FnOnce(&mut Machine)) -> Vec<String> {
    let before = server().advice();
    let mut machine = server();
    change(&mut machine);
    let after = machine.advice().into_iter();
    after.filter(|warning| !before.contains(warning)).map(|warning| warning.to_string()).collect()
}

#[test]
fn each_trouble_has_one_piece_of_advice() {
    let refused = DirectSupport {
        honoured: false,
        tried: "open with O_DIRECT: EINVAL".into(),
        offset_align_bytes: Fact::unknown("refused"),
    };
    let found = advised(|machine| machine.storage.direct_io = Fact::Known(refused));
    assert!(found.len() == 1 && found[0].contains("EINVAL"), "{found:?}");
    let found = advised(|machine| {
        machine.host.io_uring = Availability::unavailable("EPERM", "ask the container's owner");
    });
    assert!(found.len() == 1 && found[0].contains("ask the container's owner"), "{found:?}");
    let found = advised(|machine| machine.host.locked_memory_limit_bytes = Some(64 << 10));
    assert!(found.len() == 1 && found[0].contains("64 KiB"), "{found:?}");
    let found = advised(|machine| machine.memory.transparent_huge_pages = known("never"));
    assert!(found.len() == 1 && found[0].contains("huge pages"), "{found:?}");
    let found = advised(|machine| machine.host.release_build = false);
    assert!(found.len() == 1 && found[0].contains("--release"), "{found:?}");
}

#[test]
fn a_folder_that_cannot_be_written_to_is_advised_on_as_such() {
    let found = advised(|machine| {
        machine.storage.direct_io = Fact::unknown("cannot make a file in data: permission denied");
    });
    assert!(found.len() == 1 && found[0].contains("choose a writable folder"), "{found:?}");
}

#[test]
fn a_good_machine_gets_no_advice() {
    let mut machine = server();
    machine.gpu.nvidia_fs = known("2.24");
    machine.gpu.acs_redirecting = Fact::Known(Vec::new());
    if let Fact::Known(filesystem) = &mut machine.storage.filesystem {
        filesystem.super_options = "rw,data=ordered".into();
    }
    assert_eq!(machine.advice(), []);
}

/// A fictitious server, for the tests of every renderer.
pub(crate) fn sample() -> crate::document::Document {
    document(&server())
}
