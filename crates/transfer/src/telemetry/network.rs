//! Bytes over network interfaces and over the ports of RDMA adapters, which no interface counts.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use stormlp_core::machine::Fact;

use crate::probe::root::Root;

/// InfiniBand counts data in words of four bytes (`port_rcv_data` of the kernel's
/// `sysfs-class-infiniband`).
const INFINIBAND_WORD_BYTES: f64 = 4.0;

/// An interface or a port, with its counters held open for cheap reading.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) name: String,
    received: File,
    sent: File,
    unit_bytes: f64,
}

impl Port {
    /// All that are up. Which of them carries a file system depends on routing, so each is sampled
    /// under its name; the loopback interface is excluded.
    pub(super) fn all(root: &Root) -> Vec<Self> {
        let mut ports = Self::interfaces(root);
        ports.extend(Self::adapters(root));
        ports
    }

    fn interfaces(root: &Root) -> Vec<Self> {
        let class = Path::new("/sys/class/net");
        let names = root.names(class).unwrap_or(Vec::new());
        let followed = names.into_iter().filter(|name| {
            let state = root.text(class.join(name).join("operstate"));
            name != "lo" && matches!(&state, Fact::Known(state) if state != "down")
        });
        let open = |name: String| {
            let counters = class.join(&name).join("statistics");
            Some(Self {
                received: File::open(root.path(counters.join("rx_bytes"))).ok()?,
                sent: File::open(root.path(counters.join("tx_bytes"))).ok()?,
                unit_bytes: 1.0,
                name,
            })
        };
        followed.filter_map(open).collect()
    }

    fn adapters(root: &Root) -> Vec<Self> {
        let class = Path::new("/sys/class/infiniband");
        let mut found = Vec::new();
        for adapter in root.names(class).unwrap_or(Vec::new()) {
            let ports = class.join(&adapter).join("ports");
            for number in root.names(&ports).unwrap_or(Vec::new()) {
                let counters = ports.join(&number).join("counters");
                let open = |name: &str| File::open(root.path(counters.join(name))).ok();
                let both = open("port_rcv_data").zip(open("port_xmit_data"));
                found.extend(both.map(|(received, sent)| Self {
                    name: format!("{adapter}/{number}"),
                    received,
                    sent,
                    unit_bytes: INFINIBAND_WORD_BYTES,
                }));
            }
        }
        found
    }

    /// Bytes received and sent since the interface came up.
    pub(super) fn now(&self) -> Option<(f64, f64)> {
        let number = |file: &File| {
            let mut text = [0u8; 32];
            let len = file.read_at(&mut text, 0).ok()?;
            let count: u64 = std::str::from_utf8(&text[..len]).ok()?.trim().parse().ok()?;
            Some(count as f64 * self.unit_bytes)
        };
        Some((number(&self.received)?, number(&self.sent)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::testing::Tree;

    #[test]
    fn interfaces_that_are_up_are_monitored_and_infiniband_counts_words() {
        let mut tree = Tree::new();
        for (name, state) in [("lo", "unknown"), ("eth0", "up"), ("eth1", "down")] {
            let folder = format!("sys/class/net/{name}");
            tree = tree.file(&format!("{folder}/operstate"), state);
            tree = tree.file(&format!("{folder}/statistics/rx_bytes"), "100");
            tree = tree.file(&format!("{folder}/statistics/tx_bytes"), "7");
        }
        let counters = "sys/class/infiniband/mlx5_0/ports/1/counters";
        let tree = tree
            .file(&format!("{counters}/port_rcv_data"), "1000")
            .file(&format!("{counters}/port_xmit_data"), "10");
        let ports = Port::all(&tree.root());
        let seen: Vec<_> = ports.iter().map(|port| (port.name.as_str(), port.now())).collect();
        let expected = [("eth0", Some((100.0, 7.0))), ("mlx5_0/1", Some((4000.0, 40.0)))];
        assert_eq!(seen, expected);
    }
}
