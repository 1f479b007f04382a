//! The machine as a client of a storage system: model, processors, links, drives.

use std::collections::BTreeSet;

use stormlp_core::machine::Fact;
use stormlp_core::machine::{Drive, Link, SystemFacts};
use stormlp_core::units::GIB;

use super::root::Root;
use super::{cpu, memory};

/// Kernel settings that affect storage and networks.
const SETTINGS: [&str; 9] = [
    "vm.dirty_background_ratio",
    "vm.dirty_ratio",
    "vm.min_free_kbytes",
    "vm.swappiness",
    "vm.vfs_cache_pressure",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
];

/// The facts about this machine.
pub fn system_facts() -> SystemFacts {
    gather(&Root::system())
}

fn gather(root: &Root) -> SystemFacts {
    let (sockets, cores) = processors(root);
    SystemFacts {
        model: known(root.text("/sys/class/dmi/id/product_name")),
        cpu_model: known(cpu::model(root)),
        sockets,
        cores,
        memory_gib: Some(memory::total_bytes(root).div_ceil(GIB)).filter(|gib| *gib > 0),
        os_name: release(root, "NAME"),
        os_version: release(root, "VERSION_ID"),
        links: links(root),
        drives: drives(root),
        sysctl: settings(root),
        environment: Vec::new(),
    }
}

fn known(fact: Fact<String>) -> Option<String> {
    match fact {
        Fact::Known(text) if !text.is_empty() => Some(text),
        _ => None,
    }
}

/// The number of processors and of cores in total; kernels of some architectures do not number
/// them.
fn processors(root: &Root) -> (Option<u32>, Option<u32>) {
    let Some(text) = known(root.text("/proc/cpuinfo")) else {
        return (None, None);
    };
    let (mut sockets, mut cores) = (BTreeSet::new(), BTreeSet::new());
    for cpu in text.split("\n\n") {
        let value = |wanted: &str| {
            let mut lines = cpu.lines().filter_map(|line| line.split_once(':'));
            lines.find_map(|(key, value)| (key.trim() == wanted).then(|| value.trim().to_string()))
        };
        if let Some(socket) = value("physical id") {
            cores.insert((socket.clone(), value("core id")));
            sockets.insert(socket);
        }
    }
    let count = |count: usize| u32::try_from(count).ok().filter(|count| *count > 0);
    (count(sockets.len()), count(cores.len()))
}

/// A value from `/etc/os-release`, unquoted.
fn release(root: &Root, key: &str) -> Option<String> {
    let text = known(root.text("/etc/os-release"))?;
    let mut lines = text.lines().filter_map(|line| line.split_once('='));
    let value = lines.find_map(|(name, value)| (name == key).then(|| value.to_string()))?;
    Some(value.trim_matches(['"', '\'']).to_string())
}

/// Links backed by a device, grouped by equal properties.
fn links(root: &Root) -> Vec<Link> {
    let mut links: Vec<Link> = Vec::new();
    for name in root.names("/sys/class/net").unwrap_or(Vec::new()) {
        let folder = format!("/sys/class/net/{name}");
        if !root.exists(format!("{folder}/device")) {
            continue;
        }
        // The kernel's hardware type numbers.
        let kind = match root.number::<u32>(format!("{folder}/type")).unwrap_or(0) {
            1 => "ethernet",
            32 => "infiniband",
            _ => "other",
        };
        let is_up = known(root.text(format!("{folder}/operstate"))).as_deref() == Some("up");
        let mbit = root.number::<i64>(format!("{folder}/speed")).unwrap_or(-1);
        let gbit = u32::try_from(mbit / 1000).ok().filter(|gbit| is_up && *gbit > 0);
        let alike = links
            .iter_mut()
            .find(|link| (link.kind, link.is_up, link.gbit_per_second) == (kind, is_up, gbit));
        match alike {
            Some(link) => link.count += 1,
            None => links.push(Link { kind, is_up, gbit_per_second: gbit, count: 1 }),
        }
    }
    links
}

/// Drives, grouped by equal properties; virtual devices of the kernel (md, device mapper, loops)
/// are excluded.
fn drives(root: &Root) -> Vec<Drive> {
    let mut drives: Vec<Drive> = Vec::new();
    for name in root.names("/sys/block").unwrap_or(Vec::new()) {
        let folder = format!("/sys/block/{name}");
        let sectors = root.number::<u64>(format!("{folder}/size")).unwrap_or(0);
        if !root.exists(format!("{folder}/device")) || sectors == 0 || name.starts_with("sr") {
            continue;
        }
        let vendor = known(root.text(format!("{folder}/device/vendor")));
        let interface = match (name.starts_with("nvme"), vendor.as_deref()) {
            (true, _) => "nvme",
            (false, Some("ATA")) => "sata",
            _ => "other",
        };
        let drive = Drive {
            // A PCI ID or a bus type is not a vendor name.
            vendor: vendor.filter(|vendor| vendor != "ATA" && !vendor.starts_with("0x")),
            model: known(root.text(format!("{folder}/device/model"))),
            interface,
            rotational: root.number::<u8>(format!("{folder}/queue/rotational")).unwrap_or(0) == 1,
            capacity_gb: sectors.saturating_mul(512) / 1_000_000_000,
            count: 1,
        };
        let alike = drives.iter_mut().find(|other| Drive { count: 1, ..(*other).clone() } == drive);
        match alike {
            Some(other) => other.count += 1,
            None => drives.push(drive),
        }
    }
    drives
}

fn settings(root: &Root) -> Vec<(String, String)> {
    let read = |name: &&str| {
        let value = known(root.text(format!("/proc/sys/{}", name.replace('.', "/"))))?;
        let value: Vec<&str> = value.split_whitespace().collect();
        Some(((*name).to_string(), value.join(" ")))
    };
    SETTINGS.iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn equal_parts_are_counted_and_unknown_ones_left_blank() {
        let folder = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let cpu = |socket: u32, core: u32| {
            format!("model name : cpu\nphysical id : {socket}\ncore id : {core}\n")
        };
        let cpus = [cpu(0, 0), cpu(0, 1), cpu(0, 0), cpu(1, 0)];
        put("proc/cpuinfo", &cpus.join("\n"));
        put("etc/os-release", "NAME=\"Big Linux\"\nVERSION_ID='24.04'\n");
        for name in ["eth0", "eth1"] {
            put(&format!("sys/class/net/{name}/device/x"), "");
            put(&format!("sys/class/net/{name}/type"), "1");
            put(&format!("sys/class/net/{name}/operstate"), "up");
            put(&format!("sys/class/net/{name}/speed"), "100000");
        }
        put("sys/class/net/lo/operstate", "up");
        for name in ["nvme0n1", "nvme1n1"] {
            put(&format!("sys/block/{name}/device/model"), "D7");
            put(&format!("sys/block/{name}/size"), "15002931888");
        }
        put("sys/block/loop0/size", "10");
        put("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n");
        let facts = gather(&Root::at(folder.path()));
        assert_eq!((facts.sockets, facts.cores), (Some(2), Some(3)));
        assert_eq!(facts.os_name.as_deref(), Some("Big Linux"));
        assert_eq!(facts.os_version.as_deref(), Some("24.04"));
        assert_eq!((facts.links.len(), facts.links[0].count), (1, 2));
        assert_eq!(facts.links[0].gbit_per_second, Some(100));
        assert_eq!((facts.drives.len(), facts.drives[0].count), (1, 2));
        assert_eq!(facts.drives[0].capacity_gb, 7681);
        assert_eq!(facts.model, None);
        let setting = ("net.ipv4.tcp_rmem".to_string(), "4096 131072 6291456".to_string());
        assert_eq!(facts.sysctl, [setting]);
    }
}
