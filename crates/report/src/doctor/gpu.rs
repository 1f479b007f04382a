//! GPUs, their drivers and libraries, and the platform between GPU and storage.

use stormlp_model::facts::Availability;
use stormlp_model::machine::{Fact, GpuFacts, LibraryFacts, Machine, PciGpu};
use stormlp_model::path::PathKind;
use stormlp_model::units::ByteSize;

use super::lines::Lines;
use super::{shown, size, yes_no};

pub(super) fn section(machine: &Machine, lines: &mut Lines) {
    let gpu = &machine.gpu;
    lines.heading("GPUs and direct storage");
    for device in &machine.host.accelerators {
        let memory = device
            .memory_bytes
            .map_or_else(|| "memory unknown".to_string(), |b| ByteSize(b).to_string());
        let address = device
            .pci_address
            .as_deref()
            .unwrap_or("PCI address unknown");
        lines.row(
            &format!("cuda:{}", device.index),
            format!("{}, {memory}, {address}", device.name),
        );
    }
    match &gpu.devices {
        Fact::Known(devices) if devices.is_empty() => lines.row("PCI", "no NVIDIA GPU on the bus"),
        Fact::Known(devices) => devices.iter().for_each(|device| pci(device, lines)),
        Fact::Unknown(reason) => lines.row("PCI", format!("unknown ({reason})")),
    }
    drivers(gpu, lines);
    library("CUDA driver library", &gpu.cuda, lines);
    match (&gpu.cufile.version, machine.host.support(PathKind::Gds)) {
        // The whole story stands with the path already.
        (Fact::Unknown(told), Availability::Unavailable { reason, .. }) if *told == reason => {
            lines.row("libcufile", "none that works: see the path gds");
        }
        _ => library("libcufile", &gpu.cufile, lines),
    }
    for said in &gpu.cufile_says {
        lines.row("", said);
    }
    platform(gpu, lines);
}

fn pci(device: &PciGpu, lines: &mut Lines) {
    let node = device
        .numa_node
        .map_or_else(|| "unknown".to_string(), |node| node.to_string());
    lines.row(
        &device.pci_address,
        format!(
            "{}, NUMA node {node}, BAR1 {}",
            shown(&device.name),
            size(&device.bar1_bytes)
        ),
    );
    lines.row(
        "",
        format!(
            "driver {}, peer-to-peer memory {}, link {}",
            shown(&device.driver),
            size(&device.p2p_memory_bytes),
            shown(&device.link)
        ),
    );
}

fn drivers(gpu: &GpuFacts, lines: &mut Lines) {
    let flavour = match &gpu.driver_open {
        Fact::Known(true) => ", open kernel module",
        Fact::Known(false) => ", proprietary kernel module",
        Fact::Unknown(_) => "",
    };
    lines.row(
        "NVIDIA driver",
        format!("{}{flavour}", shown(&gpu.driver_version)),
    );
    if let Fact::Known(words) = &gpu.driver_registry
        && !words.is_empty()
    {
        lines.row("driver registry", words);
    }
    lines.row(
        "nvidia-fs",
        match &gpu.nvidia_fs {
            Fact::Known(module) => {
                format!(
                    "{}, devices: {}",
                    module.version,
                    shown(&module.device_count)
                )
            }
            Fact::Unknown(reason) => format!("not loaded ({reason})"),
        },
    );
}

fn library(name: &str, library: &LibraryFacts, lines: &mut Lines) {
    let value = match (&library.version, &library.found_at) {
        (version, Fact::Known(path)) => format!("{} from {}", shown(version), path.display()),
        (Fact::Known(version), Fact::Unknown(_)) => version.clone(),
        (Fact::Unknown(reason), Fact::Unknown(_)) => format!("none: {reason}"),
    };
    lines.row(name, value);
}

fn platform(gpu: &GpuFacts, lines: &mut Lines) {
    lines.row("kernel P2PDMA for cuFile", yes_no(&gpu.kernel_p2pdma));
    let arguments = match gpu.iommu_arguments.known() {
        Some(words) if !words.is_empty() => format!("; kernel arguments: {words}"),
        _ => String::new(),
    };
    let iommu = match &gpu.iommu_groups {
        Fact::Known(0) => "does not translate (no groups)".to_string(),
        Fact::Known(groups) => format!("{groups} groups"),
        Fact::Unknown(reason) => format!("unknown ({reason})"),
    };
    lines.row("IOMMU", format!("{iommu}{arguments}"));
    lines.row(
        "ACS",
        match &gpu.acs_redirecting {
            Fact::Known(bridges) if bridges.is_empty() => "no bridge redirects".to_string(),
            Fact::Known(bridges) => bridges
                .iter()
                .map(|bridge| format!("{} {}", bridge.pci_address, bridge.bits))
                .collect::<Vec<_>>()
                .join(", "),
            Fact::Unknown(reason) => format!("unknown ({reason})"),
        },
    );
}
