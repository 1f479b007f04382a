//! One-line descriptions of a run's storage: file system, disks, topology.

use stormlp_core::facts::{DeviceOfStorage, HostFacts, QueueOfStorage, StorageOfRun};
use stormlp_core::units::ByteSize;

use crate::document::Facts;

/// Whether the majority of `bytes` came from the page cache. Low block device traffic proves it.
/// High traffic does not prove the opposite, as it includes other processes' reads: so page cache
/// residency before the run counts as well. A device without any traffic, although hardly anything was
/// resident, does not count its traffic.
pub fn is_from_memory(bytes: f64, device_bytes: Option<f64>, cached_share: Option<f64>) -> bool {
    let counts = |device: f64| device > 0.0 || cached_share.is_none_or(|share| share > 0.01);
    device_bytes.is_some_and(|device| device < bytes / 2.0 && counts(device))
        || cached_share.is_some_and(|share| share > 0.5)
}

/// Adds a line for each storage used by the run, as far as the kernel reports it, and what the
/// environment changed.
pub fn describe(host: &HostFacts, facts: &mut Facts) {
    if !host.environment.is_empty() {
        facts.add("environment", host.environment.join(" "));
    }
    for (index, storage) in host.storage.iter().enumerate() {
        let words = words(storage);
        if !words.is_empty() {
            facts.add(if index == 0 { "storage" } else { "" }, words);
        }
    }
}

/// Adds one line per group of devices with equal queue settings: `scheduler none, nr_requests
/// 1023`.
pub(crate) fn queues(host: &HostFacts, facts: &mut Facts) {
    let mut alike: Vec<(String, Vec<&str>)> = Vec::new();
    let devices = host.storage.iter().flat_map(|storage| &storage.devices);
    for device in devices {
        let Some(set) = device.queue.as_ref().map(settings) else {
            continue;
        };
        match alike.iter_mut().find(|(words, _)| *words == set) {
            Some((_, names)) if names.contains(&device.name.as_str()) => {}
            Some((_, names)) => names.push(&device.name),
            None if set.is_empty() => {}
            None => alike.push((set, vec![&device.name])),
        }
    }
    for (set, names) in alike {
        let queues = if names.len() == 1 { "queue" } else { "queues" };
        facts.add(format!("{queues} of {}", names.join(", ")), set);
    }
}

/// Queue settings under their `/sys` names, so that they can be looked up.
pub(crate) fn settings(queue: &QueueOfStorage) -> String {
    let number = |number: Option<u32>| number.map(|number| number.to_string());
    let parts = [
        ("scheduler", queue.scheduler.clone()),
        ("nr_requests", number(queue.nr_requests)),
        ("read_ahead_kb", number(queue.read_ahead_kb)),
        ("max_sectors_kb", number(queue.max_sectors_kb)),
        ("max_hw_sectors_kb", number(queue.max_hw_sectors_kb)),
        ("nomerges", number(queue.nomerges.map(u32::from))),
        ("rotational", number(queue.rotational.map(u32::from))),
        ("write_cache", queue.write_cache.clone()),
        ("wbt_lat_usec", queue.wbt_lat_usec.map(|us| us.to_string())),
    ];
    let known = parts.into_iter().filter_map(|(name, value)| Some(format!("{name} {}", value?)));
    known.collect::<Vec<_>>().join(", ")
}

/// `xfs on md0 (raid0): 4 × Fast SSD 3.84 TB, firmware 1.0.2, PCIe 16.0 GT/s x4`.
fn words(storage: &StorageOfRun) -> String {
    let mut disks: Vec<(String, Vec<&str>)> = Vec::new();
    let mut carriers = Vec::new();
    for device in &storage.devices {
        if device.kind != "disk" {
            let layout = device.layout.as_ref();
            let layout = layout.map_or(String::new(), |layout| format!(" ({layout})"));
            carriers.push(format!("{}{layout}", device.name));
            continue;
        }
        let told = disk(device);
        match disks.iter_mut().find(|(words, _)| *words == told) {
            Some((_, names)) => names.push(&device.name),
            None => disks.push((told, vec![&device.name])),
        }
    }
    let disks = disks.into_iter().map(|(told, names)| match names.len() {
        1 => format!("{}{told}", names[0]),
        count => format!("{count} disks ({}){told}", names.join(", ")),
    });
    let parts = storage.file_system.iter().cloned().chain(carriers).chain(disks);
    parts.collect::<Vec<_>>().join(" on ")
}

/// The known properties of a disk, without its name.
fn disk(device: &DeviceOfStorage) -> String {
    let size = device.size_bytes.filter(|bytes| *bytes > 0);
    let parts = [
        device.model.clone(),
        size.map(|bytes| ByteSize(bytes).to_string()),
        device.firmware.as_ref().map(|text| format!("firmware {text}")),
        device.pcie_link.clone(),
    ];
    parts.into_iter().flatten().map(|part| format!(", {part}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ssd(name: &str) -> DeviceOfStorage {
        DeviceOfStorage {
            name: name.to_string(),
            kind: "disk".to_string(),
            model: Some("Fast SSD".to_string()),
            firmware: Some("1.0.2".to_string()),
            size_bytes: Some(4 << 40),
            pcie_link: Some("PCIe 16.0 GT/s x4".to_string()),
            ..DeviceOfStorage::default()
        }
    }

    fn told(file_system: Option<&str>, devices: Vec<DeviceOfStorage>) -> String {
        words(&StorageOfRun {
            file_system: file_system.map(str::to_string),
            devices,
            ..StorageOfRun::default()
        })
    }

    #[test]
    fn equal_disks_are_described_together() {
        let raid = DeviceOfStorage {
            name: "md0".to_string(),
            kind: "md".to_string(),
            layout: Some("raid0".to_string()),
            ..DeviceOfStorage::default()
        };
        assert_eq!(
            told(Some("xfs"), vec![raid, ssd("nvme0n1"), ssd("nvme1n1")]),
            "xfs on md0 (raid0) on 2 disks (nvme0n1, nvme1n1), Fast SSD, 4 TiB, firmware 1.0.2, \
             PCIe 16.0 GT/s x4"
        );
    }

    #[test]
    fn equal_queue_settings_are_described_together() {
        let set = |name: &str, scheduler: Option<&str>| DeviceOfStorage {
            queue: Some(QueueOfStorage {
                scheduler: scheduler.map(str::to_string),
                nr_requests: scheduler.map(|_| 1023),
                rotational: scheduler.map(|_| false),
                ..QueueOfStorage::default()
            }),
            ..ssd(name)
        };
        let none = Some("none");
        let devices = vec![
            set("md0", None),
            set("nvme0n1", none),
            set("nvme1n1", none),
            set("sda", Some("bfq")),
            ssd("old"),
        ];
        let mut host = stormlp_fixtures::host();
        host.storage = vec![StorageOfRun { devices, ..StorageOfRun::default() }];
        let mut facts = Facts::default();
        queues(&host, &mut facts);
        let told =
            |scheduler: &str| format!("scheduler {scheduler}, nr_requests 1023, rotational 0");
        let expected = [
            ("queues of nvme0n1, nvme1n1".to_string(), told("none")),
            ("queue of sda".to_string(), told("bfq")),
        ];
        assert_eq!(facts.0, expected);
    }

    #[test]
    fn unknown_facts_are_omitted() {
        let virtual_disk = DeviceOfStorage {
            name: "vda".to_string(),
            kind: "disk".to_string(),
            ..DeviceOfStorage::default()
        };
        assert_eq!(told(Some("ext4"), vec![virtual_disk]), "ext4 on vda");
        assert_eq!(told(Some("tmpfs"), Vec::new()), "tmpfs");
        assert_eq!(told(None, Vec::new()), "");
    }
}
