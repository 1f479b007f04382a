//! The system on which a run is simulated: hosts, barrier and storage.

use serde::{Deserialize, Serialize};

use super::storage::StorageModel;

/// Hosts and storage. The number of accelerators and the client's cost are part of the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scenario {
    /// Number of hosts, at least 1.
    pub hosts: u32,
    /// Maximum bytes per second that a host reads, from storage and page cache together.
    pub host_bytes_per_second: Option<f64>,
    /// Duration of each step's barrier once the last accelerator has arrived.
    pub barrier_seconds: f64,
    /// Standard deviation of sample sizes in bytes; 0 if all are alike.
    pub sample_stdev_bytes: f64,
    /// Whether reads bypass the page cache.
    pub direct: bool,
    /// Whether reads are requests for objects; then they bypass the page cache, too.
    pub objects: bool,
    /// The storage.
    pub storage: StorageModel,
    /// The simulated accelerators' share of it, if they represent more accelerators.
    pub shares: Shares,
    /// Epochs that are not simulated, since they are like the last.
    pub more_like_last: u32,
    /// Target number of events: reads are split into parts until there are about as many.
    pub events: u64,
}

/// The share of some accelerators in the resources of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// Share of bandwidth, IOPS and queue of all devices.
    pub storage: f64,
    /// Share of each host and its network.
    pub link: f64,
}

/// With reads split into parts, requests of many readers interleave as on real storage.
const EVENTS: u64 = 2_000_000;

impl Scenario {
    /// One host with this storage, where only reads cost time.
    pub fn of(storage: StorageModel) -> Self {
        Self {
            hosts: 1,
            host_bytes_per_second: None,
            barrier_seconds: 0.0,
            sample_stdev_bytes: 0.0,
            direct: false,
            objects: false,
            storage,
            shares: Shares { storage: 1.0, link: 1.0 },
            more_like_last: 0,
            events: EVENTS,
        }
    }

    /// Accelerators per host if `accelerators` are distributed in blocks; the last hosts may have
    /// fewer.
    pub fn accelerators_per_host(&self, accelerators: u32) -> u32 {
        accelerators.div_ceil(self.hosts.max(1)).max(1)
    }
}
