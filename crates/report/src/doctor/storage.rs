//! The storage behind the folder: file system, `O_DIRECT`, block devices.

use stormlp_model::machine::{
    BlockDevice, DirectSupport, Fact, Filesystem, Machine, QueueFacts, StorageFacts,
};
use stormlp_model::units::ByteSize;

use super::lines::Lines;
use super::{shown, size, yes_no};

pub(super) fn section(machine: &Machine, lines: &mut Lines) {
    let storage = &machine.storage;
    lines.heading(&format!("Storage behind {}", storage.directory.display()));
    examined(storage, lines);
    match &storage.filesystem {
        Fact::Known(filesystem) => describe(filesystem, lines),
        Fact::Unknown(reason) => lines.row("file system", format!("unknown ({reason})")),
    }
    match &storage.direct_io {
        Fact::Known(support) => direct(support, lines),
        Fact::Unknown(reason) => lines.row("O_DIRECT", format!("unknown ({reason})")),
    }
    match &storage.devices {
        Fact::Known(devices) => devices.iter().for_each(|device| block(device, lines)),
        Fact::Unknown(reason) => lines.row("block devices", format!("none to be seen ({reason})")),
    }
}

/// Says which folder was looked at, where it is not the one that was asked about.
fn examined(storage: &StorageFacts, lines: &mut Lines) {
    match &storage.examined {
        Fact::Known(path) if *path == storage.directory => {}
        Fact::Known(path) => lines.row("looked at", path.display().to_string()),
        Fact::Unknown(reason) => lines.row("looked at", format!("nothing ({reason})")),
    }
}

fn describe(filesystem: &Filesystem, lines: &mut Lines) {
    lines.row(
        "file system",
        format!(
            "{} (magic {:#x}) on {} from {}",
            filesystem.kind,
            filesystem.magic,
            filesystem.mount_point.display(),
            filesystem.source
        ),
    );
    lines.row(
        "mount options",
        format!(
            "{} / {}",
            filesystem.mount_options, filesystem.super_options
        ),
    );
    lines.row(
        "space",
        format!(
            "{} free of {}",
            ByteSize(filesystem.free_bytes),
            ByteSize(filesystem.total_bytes)
        ),
    );
}

fn direct(support: &DirectSupport, lines: &mut Lines) {
    let verdict = if support.honoured { "works" } else { "refused" };
    lines.row("O_DIRECT", format!("{verdict} ({})", support.tried));
    let bytes = |fact: &Fact<u32>| shown(&fact.clone().map(|n| format!("{n} B")));
    let (memory, offset) = (&support.memory_align_bytes, &support.offset_align_bytes);
    lines.row(
        "alignment asked for",
        match (memory, offset) {
            (Fact::Unknown(reason), _) => format!("unknown ({reason})"),
            _ => format!("memory {}, offset {}", bytes(memory), bytes(offset)),
        },
    );
}

fn block(device: &BlockDevice, lines: &mut Lines) {
    let indent = "  ".repeat(device.depth as usize);
    let mut words = vec![device.kind.name().to_string(), size(&device.size_bytes)];
    words.extend(device.layout.clone());
    if let Fact::Known(model) = &device.model {
        words.push(model.clone());
    }
    if let Some(address) = &device.pci_address {
        words.push(format!("PCI {address}"));
    }
    words.push(match device.numa_node {
        Some(node) => format!("NUMA node {node}"),
        None => "NUMA node unknown".to_string(),
    });
    if !device.members.is_empty() {
        words.push(format!("on {}", device.members.join(" ")));
    }
    lines.row(&format!("{indent}{}", device.name), words.join(", "));
    if let Some(queue) = &device.queue {
        for line in settings(queue) {
            lines.row("", line);
        }
    }
}

/// The queue's settings under the names that `/sys` gives them, so that they can be looked up.
fn settings(queue: &QueueFacts) -> [String; 3] {
    [
        format!(
            "logical_block_size {} B, physical_block_size {} B, rotational {}, write_cache {}",
            brief(&queue.logical_block_bytes),
            brief(&queue.physical_block_bytes),
            brief(&Fact::Known(yes_no(&queue.rotational))),
            brief(&queue.write_cache)
        ),
        format!(
            "scheduler {}, nr_requests {}, nomerges {}, io_poll {}, wbt_lat_usec {}",
            brief(&queue.scheduler),
            brief(&queue.nr_requests),
            brief(&queue.nomerges),
            brief(&Fact::Known(yes_no(&queue.io_poll))),
            brief(&queue.wbt_latency_us)
        ),
        format!(
            "read_ahead_kb {}, max_sectors_kb {} (hardware {}), max_segments {}",
            brief(&queue.read_ahead_kib),
            brief(&queue.max_sectors_kib),
            brief(&queue.max_hw_sectors_kib),
            brief(&queue.max_segments)
        ),
    ]
}

/// A setting in a row of many; the reason why it is unknown is in the JSON.
fn brief<T: std::fmt::Display>(fact: &Fact<T>) -> String {
    fact.known()
        .map_or_else(|| "unknown".to_string(), T::to_string)
}
