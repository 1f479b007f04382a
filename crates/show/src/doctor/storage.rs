//! The storage behind the folder: file system, `O_DIRECT`, block devices.

use stormlp_core::machine::{BlockDevice, DirectSupport, Fact, Filesystem, Machine, StorageFacts};
use stormlp_core::units::ByteSize;

use super::shown;
use crate::document::{Document, Facts};
use crate::storage::settings;

pub(super) fn section(machine: &Machine, document: &mut Document) {
    let storage = &machine.storage;
    let title = format!("Storage behind {}", storage.directory.display());
    let (mut facts, mut details) = (Facts::default(), Facts::default());
    examined(storage, &mut facts);
    match &storage.filesystem {
        Fact::Known(filesystem) => describe(filesystem, &mut facts, &mut details),
        Fact::Unknown(reason) => facts.add("file system", format!("unknown ({reason})")),
    }
    match &storage.direct_io {
        Fact::Known(support) => direct(support, &mut facts, &mut details),
        Fact::Unknown(reason) => facts.add("O_DIRECT", format!("unknown ({reason})")),
    }
    match &storage.devices {
        Fact::Known(devices) => devices.iter().for_each(|device| block(device, &mut details)),
        Fact::Unknown(reason) => facts.add("block devices", format!("none visible ({reason})")),
    }
    document.section(&title, None).facts = facts;
    if !details.0.is_empty() {
        document.details("Mount and block devices", None).facts = details;
    }
}

/// Shows which folder was examined, if it differs from the requested one.
fn examined(storage: &StorageFacts, facts: &mut Facts) {
    if storage.examined.known() != Some(&storage.directory) {
        facts.add(
            "checked",
            shown(&storage.examined.clone().map(|path| path.display().to_string())),
        );
    }
}

fn describe(filesystem: &Filesystem, facts: &mut Facts, details: &mut Facts) {
    facts.add(
        "file system",
        format!(
            "{} on {} from {}",
            filesystem.kind,
            filesystem.mount_point.display(),
            filesystem.source
        ),
    );
    details.add(
        "mount options",
        format!("{} / {}", filesystem.mount_options, filesystem.super_options),
    );
    facts.add(
        "space",
        format!("{} free of {}", ByteSize(filesystem.free_bytes), ByteSize(filesystem.total_bytes)),
    );
}

fn direct(support: &DirectSupport, facts: &mut Facts, details: &mut Facts) {
    let verdict = if support.honoured { "works" } else { "refused" };
    facts.add("O_DIRECT", format!("{verdict} ({})", support.tried));
    details.add(
        "alignment asked for",
        shown(&support.offset_align_bytes.clone().map(|bytes| format!("{bytes} B"))),
    );
}

fn block(device: &BlockDevice, facts: &mut Facts) {
    let indent = "  ".repeat(device.depth as usize);
    let of_device = &device.facts;
    let size = of_device.size_bytes.map(|bytes| ByteSize(bytes).to_string());
    let mut words =
        vec![of_device.kind.clone(), size.unwrap_or_else(|| "size unknown".to_string())];
    words.extend(of_device.layout.clone());
    words.extend(of_device.model.clone());
    words.extend(of_device.firmware.iter().map(|firmware| format!("firmware {firmware}")));
    words.extend(of_device.pci_address.iter().map(|address| format!("PCI {address}")));
    words.extend(of_device.pcie_link.clone());
    words.push(match of_device.numa_node {
        Some(node) => format!("NUMA node {node}"),
        None => "NUMA node unknown".to_string(),
    });
    if !device.members.is_empty() {
        words.push(format!("on {}", device.members.join(" ")));
    }
    facts.add(format!("{indent}{}", of_device.name), words.join(", "));
    if let Some(queue) = &of_device.queue {
        facts.add("", settings(queue));
    }
}
