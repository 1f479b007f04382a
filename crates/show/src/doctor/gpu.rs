//! GPUs, their drivers and libraries, and the platform between GPU and storage.

use stormlp_core::facts::Availability;
use stormlp_core::machine::{Fact, GpuFacts, LibraryCandidate, LibraryFacts, Machine, PciGpu};
use stormlp_core::path::PathKind;
use stormlp_core::units::ByteSize;

use super::{shown, size, yes_no};
use crate::document::{Document, Facts};

pub(super) fn section(machine: &Machine, document: &mut Document) {
    let gpu = &machine.gpu;
    let facts = &mut document.details("GPUs and direct storage", None).facts;
    for device in &machine.host.accelerators {
        let memory = device
            .memory_bytes
            .map_or_else(|| "memory unknown".to_string(), |b| ByteSize(b).to_string());
        let address = device.pci_address.as_deref().unwrap_or("PCI address unknown");
        let part = device.part.map_or_else(String::new, |part| {
            format!(", {}: BAR1 and telemetry below are the whole GPU's", part.words())
        });
        facts.add(
            format!("cuda:{}", device.index),
            format!("{}, {memory}, {address}{part}", device.name),
        );
    }
    match &gpu.devices {
        Fact::Known(devices) if devices.is_empty() => facts.add("PCI", "no NVIDIA GPU on the bus"),
        Fact::Known(devices) => devices.iter().for_each(|device| pci(device, facts)),
        Fact::Unknown(reason) => facts.add("PCI", format!("unknown ({reason})")),
    }
    drivers(gpu, facts);
    library("CUDA driver library", &gpu.cuda, facts);
    // A missing library, or a GPU on the bus, is already reported.
    let host = &machine.host;
    if let Some(problem) = &host.cuda_problem
        && gpu.cuda.found_at.known().is_some()
        && host.hidden_gpus.is_none()
    {
        facts.add("CUDA", format!("shows no device: {problem}"));
    }
    match (&gpu.cufile.version, machine.host.support(PathKind::Gds)) {
        // The path already shows the full reason.
        (Fact::Unknown(told), Availability::Unavailable { fact, .. }) if *told == fact => {
            facts.add("libcufile", "none that works: see the path gds");
        }
        _ => library("libcufile", &gpu.cufile, facts),
    }
    for candidate in &gpu.cufile_candidates {
        facts.add("", self::candidate(candidate));
    }
    for said in &gpu.cufile_says {
        facts.add("", said);
    }
    platform(gpu, facts);
}

fn pci(device: &PciGpu, facts: &mut Facts) {
    let node = device.numa_node.map_or_else(|| "unknown".to_string(), |node| node.to_string());
    facts.add(
        &device.pci_address,
        format!("{}, NUMA node {node}, BAR1 {}", shown(&device.name), size(&device.bar1_bytes)),
    );
    facts.add(
        "",
        format!(
            "driver {}, peer-to-peer memory {}, link {}",
            shown(&device.driver),
            size(&device.p2p_memory_bytes),
            shown(&device.link)
        ),
    );
}

fn drivers(gpu: &GpuFacts, facts: &mut Facts) {
    let flavour = match &gpu.driver_open {
        Fact::Known(true) => ", open kernel module",
        Fact::Known(false) => ", proprietary kernel module",
        Fact::Unknown(_) => "",
    };
    facts.add("NVIDIA driver", format!("{}{flavour}", shown(&gpu.driver_version)));
    if let Fact::Known(words) = &gpu.driver_registry
        && !words.is_empty()
    {
        facts.add("driver registry", words);
    }
    facts.add(
        "nvidia-fs",
        match &gpu.nvidia_fs {
            Fact::Known(version) => version.clone(),
            Fact::Unknown(reason) => format!("not loaded ({reason})"),
        },
    );
}

fn library(name: &str, library: &LibraryFacts, facts: &mut Facts) {
    let value = match (&library.version, &library.found_at) {
        (version, Fact::Known(path)) => format!("{} from {}", shown(version), path.display()),
        (Fact::Known(version), Fact::Unknown(_)) => version.clone(),
        (Fact::Unknown(reason), Fact::Unknown(_)) => format!("none: {reason}"),
    };
    facts.add(name, value);
}

/// A libcufile with its version, and why it is taken or not.
fn candidate(candidate: &LibraryCandidate) -> String {
    let version = candidate.version.as_deref().unwrap_or("of unknown version");
    let cuda = candidate.cuda_major.map_or_else(String::new, |major| format!(" (CUDA {major})"));
    format!(
        "{}: {version}{cuda}, {}, from {}: {}",
        if candidate.taken { "taken" } else { "not taken" },
        candidate.path.display(),
        candidate.origin,
        candidate.why
    )
}

fn platform(gpu: &GpuFacts, facts: &mut Facts) {
    facts.add("kernel P2PDMA for cuFile", yes_no(&gpu.kernel_p2pdma));
    let groups = |groups| match groups {
        0 => "does not translate (no groups)".to_string(),
        groups => format!("{groups} groups"),
    };
    facts.add("IOMMU", shown(&gpu.iommu_groups.clone().map(groups)));
    let redirecting = |bridges: Vec<String>| match bridges.as_slice() {
        [] => "no bridge redirects".to_string(),
        bridges => bridges.join(", "),
    };
    facts.add("ACS", shown(&gpu.acs_redirecting.clone().map(redirecting)));
}
