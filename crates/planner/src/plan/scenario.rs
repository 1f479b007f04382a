//! What a run is simulated on: hosts, the barrier between them, storage.

use serde::{Deserialize, Serialize};

use super::storage::StorageModel;

/// Hosts and storage. How many accelerators there are, and what the client costs, the plan says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scenario {
    /// Hosts that train together, 1 or more.
    pub hosts: u32,
    /// What the barrier of each step takes after the last accelerator has come.
    pub barrier_seconds: f64,
    /// Standard deviation of the bytes of a sample, as the workload's files are drawn; 0 where all
    /// are alike.
    pub sample_stdev_bytes: f64,
    /// Whether reads bypass the page cache.
    pub direct: bool,
    /// What they read from.
    pub storage: StorageModel,
    /// What of it the accelerators have, where they stand for more of them.
    pub shares: Shares,
    /// So many events are worth the time: reads are cut into parts until there are about as many.
    pub events: u64,
}

/// What some accelerators have of what all have; 1 where they are all.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// Of bandwidth, operations and queue of all devices.
    pub storage: f64,
    /// Of the network of each host.
    pub link: f64,
}

/// Where reads can be cut into parts, the requests of many readers take turns at storage as they do
/// in reality.
const EVENTS: u64 = 2_000_000;

impl Scenario {
    /// One host with this storage, and nothing that takes time but reads.
    pub fn of(storage: StorageModel) -> Self {
        Self {
            hosts: 1,
            barrier_seconds: 0.0,
            sample_stdev_bytes: 0.0,
            direct: false,
            storage,
            shares: Shares { storage: 1.0, link: 1.0 },
            events: EVENTS,
        }
    }

    /// Accelerators of each host, where `accelerators` are dealt as evenly as can be; the last
    /// hosts may have fewer.
    pub fn accelerators_per_host(&self, accelerators: u32) -> u32 {
        accelerators.div_ceil(self.hosts.max(1)).max(1)
    }

    /// The host, from 0, of the accelerator with this rank.
    pub fn host_of(&self, rank: u32, accelerators: u32) -> u32 {
        rank / self.accelerators_per_host(accelerators)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accelerators_are_dealt_in_blocks() {
        let scenario = Scenario { hosts: 3, ..Scenario::of(StorageModel::of_bandwidth(1e9)) };
        let hosts: Vec<u32> = (0..8).map(|rank| scenario.host_of(rank, 8)).collect();
        assert_eq!(hosts, [0, 0, 0, 1, 1, 1, 2, 2]);
        assert_eq!(scenario.accelerators_per_host(2), 1);
    }
}
