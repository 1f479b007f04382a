//! The outcome of a simulated run. None of it was measured.

use serde::{Deserialize, Serialize};
pub use stormlp_training::plan::find_max::Limit as LimitedBy;
use stormlp_training::report::WaitingSeconds;

/// The limiting part of storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum StoragePart {
    /// Bandwidth or IOPS of the devices: more devices help.
    Devices,
    /// The network link of each host: more devices do not help.
    Link,
    /// The connections of each host to an object store: more of them, or faster ones, help.
    Connections,
    /// Latency of reads: neither devices nor links are busy most of the time.
    Latency,
}

/// A part of storage that is busy for less of the time is not the limit.
pub(crate) const BUSY_PERCENT: f64 = 50.0;

/// The outcome of a simulated run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// AU as defined by the plan's profile, averaged over accelerators and epochs.
    pub au_percent: f64,
    /// Samples per second of all accelerators, as defined by the same profile.
    pub samples_per_second: f64,
    /// The same in MiB/s, based on the configured record length.
    pub mib_per_second: f64,
    /// MiB/s actually read from storage and page cache: lower if a workload reads only some of the
    /// columns.
    pub read_mib_per_second: f64,
    /// Simulated duration of the run.
    pub run_seconds: f64,
    /// The main cause of the accelerators' waits.
    pub limited_by: LimitedBy,
    /// Utilisation of the devices' bandwidth or IOPS.
    pub storage_busy_percent: f64,
    /// Utilisation of the hosts' network links; 0 without a network.
    pub link_busy_percent: f64,
    /// Utilisation of the hosts' connections to an object store; 0 without a limit on their number.
    #[serde(default)]
    pub connections_busy_percent: f64,
    /// Utilisation of the hosts' rate of reading; 0 without a limit.
    pub host_busy_percent: f64,
    /// Share of bytes read from the page cache.
    pub cached_percent: f64,
    /// The accelerators' waits by cause, as in a report.
    pub waiting_seconds: WaitingSeconds,
    /// AU of each epoch.
    pub epoch_au_percent: Vec<f64>,
    /// Number of simulated events.
    pub events: u64,
}

impl Prediction {
    /// The limiting part of storage; `None` if storage is not the limit.
    pub fn storage_part(&self) -> Option<StoragePart> {
        let parts = [
            (self.storage_busy_percent, StoragePart::Devices),
            (self.link_busy_percent, StoragePart::Link),
            (self.connections_busy_percent, StoragePart::Connections),
        ];
        // The first of those that are as busy.
        let busiest = parts.into_iter().rev().max_by(|one, other| one.0.total_cmp(&other.0));
        let busiest = busiest.filter(|(busy, _)| *busy >= BUSY_PERCENT);
        let part = busiest.map_or(StoragePart::Latency, |(_, part)| part);
        (self.limited_by == LimitedBy::Storage).then_some(part)
    }
}
