//! What a simulated run comes to. Nothing here was measured.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::Display;

use stormlp_training::report::WaitingSeconds;

/// What keeps accelerators from computing, or more of them from being fed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Display, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum LimitedBy {
    /// Storage, or the network before it.
    Storage,
    /// The host: its work on each step and each byte, too few workers.
    Client,
    /// Memory of the host: the page cache serves what storage does not.
    Memory,
    /// Waiting for each other.
    Barrier,
    /// Nothing: they compute all the time.
    Nothing,
}

/// Which part of storage it is that limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StoragePart {
    /// Bandwidth or operations of the devices: more of them give more.
    Devices,
    /// The network link of each host: more devices change nothing.
    Link,
    /// What one read after the other takes: neither devices nor links are busy most of the time.
    Latency,
}

/// A part of storage that is taken for less of the time is not what limits.
const BUSY_PERCENT: f64 = 50.0;

/// What a simulated run comes to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prediction {
    /// AU by the plan's profile, the mean over accelerators and epochs.
    pub au_percent: f64,
    /// Samples per second of all accelerators, by the same profile.
    pub samples_per_second: f64,
    /// The same in MiB/s of the configured record length.
    pub mib_per_second: f64,
    /// MiB/s that are read, of storage and page cache: fewer where a workload reads only some of the
    /// columns.
    pub read_mib_per_second: f64,
    /// Simulated time of the run.
    pub run_seconds: f64,
    /// What the accelerators waited for most.
    pub limited_by: LimitedBy,
    /// Share of the run in which the devices' bandwidth or operations were taken.
    pub storage_busy_percent: f64,
    /// Share of the run in which the busiest host's network was taken; 0 without one.
    pub link_busy_percent: f64,
    /// Share of the bytes that came from the page cache.
    pub cached_percent: f64,
    /// What the accelerators waited for, as a run's report divides it.
    pub waiting_seconds: WaitingSeconds,
    /// AU of each epoch.
    pub epoch_au_percent: Vec<f64>,
    /// Events that were simulated.
    pub events: u64,
    /// What the simulation took for granted.
    pub assumptions: Vec<String>,
}

impl Prediction {
    /// Which part of storage limits; `None` where something else does.
    pub fn storage_part(&self) -> Option<StoragePart> {
        let (device, link) = (self.storage_busy_percent, self.link_busy_percent);
        (self.limited_by == LimitedBy::Storage).then_some(match device.max(link) >= BUSY_PERCENT {
            false => StoragePart::Latency,
            true if link > device => StoragePart::Link,
            true => StoragePart::Devices,
        })
    }
}
