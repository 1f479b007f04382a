//! What a plan answers: plain data, all of it predicted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::checkpoint::CheckpointTimes;
use super::prediction::{LimitedBy, Prediction, StoragePart};
use super::storage::StorageModel;
use stormlp_core::profile::Profile;
use stormlp_training::plan::datasize::DataSize;

/// The answer of `stormlp plan`; its JSON is these fields.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SizingAnswer {
    /// Always false: all of it was simulated.
    pub measured: bool,
    /// The workload.
    pub workload: String,
    /// The emulated accelerator.
    pub accelerator: String,
    /// Whose order and formulas.
    pub profile: Profile,
    /// The accelerators that AU and throughput are of: those that were asked about, else the most
    /// that meet the threshold, or 1 where none do.
    pub accelerators: u32,
    /// Whether that many were asked about.
    pub asked: bool,
    /// Hosts that they are on.
    pub hosts: u32,
    /// AU by the profile.
    pub au_percent: f64,
    /// AU to reach.
    pub threshold_percent: f64,
    /// Whether it is reached.
    pub meets_threshold: bool,
    /// Samples per second of all accelerators.
    pub samples_per_second: f64,
    /// The same in MiB/s by the configured record length.
    pub mib_per_second: f64,
    /// MiB/s that are read: fewer where a workload reads only some of the columns.
    pub read_mib_per_second: f64,
    /// The most accelerators that meet the threshold; 0 where even one misses it.
    pub largest_accelerators: u32,
    /// Whether storage could feed more of them: something else ends the search before.
    pub is_lower_bound: bool,
    /// What keeps one more from meeting it; of a number that was asked about, what limits those.
    pub limited_by: LimitedBy,
    /// Which part of storage that is, where it is storage.
    pub storage_part: Option<StoragePart>,
    /// What ended the search.
    pub search_limited_by: LimitedBy,
    /// Devices that the number that was asked about needs at least; `None` where none was asked
    /// about, or no number of devices that was tried is enough.
    pub needed_devices: Option<u32>,
    /// Hosts that it needs at least, as far as anything tells.
    pub needed_hosts: Option<u32>,
    /// Devices that were tried at the most, where none of them were enough.
    pub tried_devices: Option<u32>,
    /// Storage, as figures that can be typed again.
    pub storage: String,
    /// Where they are from.
    pub storage_source: String,
    /// The same as numbers.
    pub storage_model: StorageModel,
    /// The dataset that the rules ask for.
    pub dataset: DataSize,
    /// Memory of one host that they go by.
    pub host_memory_bytes: u64,
    /// Time of one run.
    pub run_seconds: f64,
    /// What the accelerators that AU is of come to.
    pub prediction: Prediction,
    /// Checkpoints, where the job writes any.
    pub checkpoint: Option<CheckpointTimes>,
    /// Counts of accelerators that were simulated, in order.
    pub over_accelerators: Vec<AtCount>,
    /// Numbers of devices that were simulated, in order, each with the most accelerators.
    pub over_devices: Vec<AtDevices>,
    /// What all of it takes for granted.
    pub assumptions: Vec<String>,
    /// How far the model was from what was measured.
    pub model_error: String,
}

/// A count of accelerators.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AtCount {
    /// The count.
    pub accelerators: u32,
    /// AU by the profile.
    pub au_percent: f64,
    /// Samples per second of all of them.
    pub samples_per_second: f64,
    /// The same in MiB/s by the configured record length.
    pub mib_per_second: f64,
    /// MiB/s that are read.
    pub read_mib_per_second: f64,
    /// What limits them.
    pub limited_by: LimitedBy,
    /// Which part of storage that is, where it is storage.
    pub storage_part: Option<StoragePart>,
    /// Whether AU reaches the threshold.
    pub meets: bool,
    /// Whether it does so only by what was read before the first step: storage feeds fewer.
    pub rests_on_read_ahead: bool,
}

/// A number of devices.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AtDevices {
    /// The number.
    pub devices: u32,
    /// The most accelerators that meet the threshold; 0 where even one misses it.
    pub largest_accelerators: u32,
    /// Their MiB/s; of one accelerator where even that misses.
    pub mib_per_second: f64,
    /// MiB/s that are read, of as many.
    pub read_mib_per_second: f64,
    /// What keeps one more from meeting it.
    pub limited_by: LimitedBy,
    /// Which part of storage that is, where it is storage.
    pub storage_part: Option<StoragePart>,
}

impl AtCount {
    /// What was predicted of so many.
    pub fn of(accelerators: u32, prediction: &Prediction, threshold_percent: f64) -> Self {
        Self {
            accelerators,
            au_percent: prediction.au_percent,
            samples_per_second: prediction.samples_per_second,
            mib_per_second: prediction.mib_per_second,
            read_mib_per_second: prediction.read_mib_per_second,
            limited_by: prediction.limited_by,
            storage_part: prediction.storage_part(),
            meets: prediction.au_percent >= threshold_percent,
            rests_on_read_ahead: false,
        }
    }
}
