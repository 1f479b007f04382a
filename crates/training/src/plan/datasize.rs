//! Required dataset size: the one function used by sizing, running and validation.
//!
//! MLPerf Storage requires five times the clients' memory, so that the page cache cannot hold the
//! data, and 500 steps per epoch, so that averages are meaningful. See the dataset size rule in
//! MLPerf Storage's benchmark rules, and mlpstorage's `datasize` command.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::generate::default_folder;
use super::workload::Workload;
use crate::plan::train_plan::TrainPlan;
use stormlp_core::facts::HostFacts;
use stormlp_core::host_spec::{HostSpec, host_count};
use stormlp_core::location::Location;
use stormlp_core::numbers::whole;
use stormlp_core::profile::Profile;

/// Minimum steps per epoch, in every edition.
pub const MIN_STEPS: u64 = 500;
/// Minimum ratio of dataset size to the total memory of all clients.
pub const MEMORY_MULTIPLE: u64 = 5;
/// MLPerf recommends subfolders above this many files per folder.
const FILES_PER_SUBFOLDER: u64 = 10_000;

/// Options of `stormlp datasize`. `None` falls back to the workload or this host.
#[derive(Debug, Clone, PartialEq, clap::Args)]
pub struct SizeOptions {
    /// A built-in workload (see `stormlp workloads`), or a YAML file of MLPerf Storage or DLIO
    #[arg(value_name = "WORKLOAD")]
    pub workload: String,

    /// Accelerator to emulate [default: h100, or the workload's]
    #[arg(long, value_name = "NAME")]
    pub accelerator: Option<String>,

    /// Number of accelerators on all hosts together
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1,
        value_parser = whole::<u32>(1..))]
    pub accelerators: u32,

    /// Number of hosts, or their names: 8, or h1,h2
    #[arg(long, value_name = "N|NAMES", default_value_t = 1, value_parser = host_count)]
    pub hosts: u32,

    /// Memory per host, such as memory=1TiB [default: this host's, or its cgroup limit if lower]
    #[arg(long, value_name = "memory=SIZE")]
    pub host: Option<HostSpec>,

    /// MLPerf Storage edition: 1.0, 2.0 round down, 3.0, native up [default: the workload's]
    #[arg(long = "edition", value_name = "1.0|2.0|3.0|native", value_parser = Profile::of_edition)]
    pub profile: Option<Profile>,

    /// Intended dataset folder [default: ./stormlp-data/WORKLOAD]
    #[arg(short = 'd', long, value_name = "DIR",
        value_parser = str::parse::<Location>)]
    pub dir: Option<Location>,

    /// Override a key of the workload, such as reader.batch_size=8; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub params: Vec<String>,
}

impl SizeOptions {
    /// The inputs of the calculation for `workload`.
    pub fn request(&self, workload: &Workload, host_memory_bytes: u64) -> SizeRequest {
        let profile = workload.profile(self.profile);
        SizeRequest {
            hosts: u64::from(self.hosts),
            host_memory_bytes,
            ..SizeRequest::of(workload, profile, u64::from(self.accelerators))
        }
    }

    /// The intended folder of the dataset.
    pub fn folder(&self, workload: &Workload) -> PathBuf {
        let named = self.dir.as_ref().map(|folder| folder.folder().to_path_buf());
        named.unwrap_or_else(|| default_folder(workload))
    }
}

/// The inputs of the dataset size calculation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SizeRequest {
    /// Emulated accelerators in total.
    pub accelerators: u64,
    /// Hosts.
    pub hosts: u64,
    /// Memory per host in bytes.
    pub host_memory_bytes: u64,
    /// Samples per step per accelerator.
    pub batch_size: u64,
    /// Samples per file.
    pub samples_per_file: u64,
    /// Configured bytes per sample.
    pub sample_bytes: f64,
    /// The edition that defines the rounding.
    pub profile: Profile,
}

/// Which bound determined the size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Binding {
    /// Five times the memory of all hosts.
    Memory,
    /// 500 steps per epoch.
    Steps,
}

/// The required dataset size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DataSize {
    /// Number of files.
    pub files: u64,
    /// Total bytes of all samples.
    pub bytes: u64,
    /// Recommended subfolders; 0 for none.
    pub subfolders: u64,
    /// Steps per epoch of each accelerator.
    pub steps_per_epoch: u64,
    /// Which bound determined the size.
    pub binding: Binding,
    /// Files required by the memory bound.
    pub files_for_memory: u64,
    /// Files required by the step bound.
    pub files_for_steps: u64,
}

/// Why the size cannot be calculated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SizeError(String);

impl SizeRequest {
    /// The size request for the dataset of `plan` on one host.
    pub fn of_plan(plan: &TrainPlan, host: &HostFacts) -> Self {
        Self {
            accelerators: u64::from(plan.accelerators),
            hosts: 1,
            host_memory_bytes: host.usable_memory_bytes(),
            batch_size: u64::from(plan.batch_size),
            samples_per_file: plan.data.samples_per_file,
            sample_bytes: plan.data.sample_bytes,
            profile: plan.profile,
        }
    }

    /// The size request for `workload` under `profile`.
    pub fn of(workload: &Workload, profile: Profile, accelerators: u64) -> Self {
        Self {
            accelerators,
            hosts: 1,
            host_memory_bytes: 0,
            batch_size: u64::from(workload.reader.batch_size),
            samples_per_file: workload.dataset.num_samples_per_file,
            sample_bytes: workload.dataset.record_length_bytes,
            profile,
        }
    }
}

/// Calculates the required dataset size.
///
/// Up to v2.0 both bounds are rounded down; v3.0 and `native` round up. v0.5 and v1.0 round the
/// samples down before the files. The official tool's results are the test vectors.
///
/// # Errors
/// When the numbers exceed any possible storage.
pub fn datasize(request: &SizeRequest) -> Result<DataSize, SizeError> {
    let memory_bytes = u128::from(MEMORY_MULTIPLE)
        * u128::from(request.host_memory_bytes)
        * u128::from(request.hosts);
    let per_file = u128::from(request.samples_per_file);
    // Record lengths in MLPerf's files have two decimals, so hundredths are exact.
    let record_hundredths = (request.sample_bytes * 100.0).round() as u128;
    let memory_hundredths = memory_bytes * 100;
    let step_samples =
        u128::from(MIN_STEPS) * u128::from(request.accelerators) * u128::from(request.batch_size);
    let (for_memory, for_steps) = match request.profile {
        Profile::V1 => (memory_hundredths / record_hundredths / per_file, step_samples / per_file),
        Profile::V2 => {
            (memory_hundredths / (record_hundredths * per_file), step_samples / per_file)
        }
        Profile::V3 | Profile::Native => (
            memory_hundredths.div_ceil(record_hundredths * per_file),
            step_samples.div_ceil(per_file),
        ),
    };
    // Rounding down can leave a small dataset without any files.
    let files = for_memory.max(for_steps).max(1);
    let bytes = files
        .checked_mul(per_file)
        .and_then(|samples| samples.checked_mul(record_hundredths))
        .map(|hundredths| hundredths / 100)
        .filter(|bytes| *bytes < 1 << 63)
        .ok_or_else(|| SizeError("the dataset would have more than 2^63 bytes".to_string()))?;
    // All are below `bytes`, which fits.
    let files = files as u64;
    Ok(DataSize {
        files,
        bytes: bytes as u64,
        subfolders: if files > FILES_PER_SUBFOLDER { files / FILES_PER_SUBFOLDER } else { 0 },
        steps_per_epoch: steps_per_epoch(
            files,
            request.samples_per_file,
            request.batch_size,
            request.accelerators,
        ),
        binding: if for_memory > for_steps { Binding::Memory } else { Binding::Steps },
        files_for_memory: for_memory as u64,
        files_for_steps: for_steps as u64,
    })
}

/// Steps per epoch of each accelerator: `floor(files × samples / batch / accelerators)`, DLIO's
/// `training_steps` up to v2.0.
pub fn steps_per_epoch(files: u64, samples_per_file: u64, batch: u64, accelerators: u64) -> u64 {
    let samples = u128::from(files) * u128::from(samples_per_file);
    let step = u128::from(batch.max(1)) * u128::from(accelerators.max(1));
    u64::try_from(samples / step).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::plan::catalog;
    use stormlp_core::names::VariantArray;
    use stormlp_core::units::GIB;

    fn size(name: &str, acc: &str, profile: Profile, gib: u64, hosts: u64, n: u64) -> DataSize {
        let entry = catalog::find(name, Some(acc)).unwrap();
        let workload = entry.workload(&[]).unwrap();
        datasize(&SizeRequest {
            hosts,
            host_memory_bytes: gib * GIB,
            ..SizeRequest::of(&workload, profile, n)
        })
        .unwrap()
    }

    #[test]
    fn v2_gives_what_mlpstorage_gave() {
        use Binding::{Memory, Steps};
        for (name, acc, gib, hosts, n, files, bytes, binding) in [
            ("unet3d", "h100", 64, 1, 8, 28_000, 4_104_817_584_000, Steps),
            ("unet3d", "a100", 128, 2, 16, 56_000, 8_209_635_168_000, Steps),
            ("unet3d", "h100", 1006, 1, 8, 36_841, 5_400_913_736_148, Memory),
            ("resnet50", "h100", 64, 1, 8, 2395, 343_538_195_430, Memory),
            ("resnet50", "h100", 64, 1, 16, 2557, 366_775_434_536, Steps),
            ("resnet50", "h100", 384, 1, 67, 14_372, 2_061_516_052_076, Memory),
            ("cosmoflow", "h100", 64, 1, 8, 121_477, 343_595_993_822, Memory),
            ("cosmoflow", "h100", 64, 1, 16, 121_477, 343_595_993_822, Memory),
        ] {
            let got = size(name, acc, Profile::V2, gib, hosts, n);
            assert_eq!((got.files, got.binding), (files, binding), "{name} {gib} GiB {n}");
            assert!(got.bytes.abs_diff(bytes) <= 1, "{name}: {} {bytes}", got.bytes);
        }
    }

    #[test]
    fn v1_gives_what_benchmark_sh_gave() {
        for (name, acc, gib, hosts, n, files) in [
            ("unet3d", "h100", 64, 1, 8, 28_000),
            ("unet3d", "a100", 128, 2, 16, 56_000),
            ("resnet50", "h100", 64, 1, 8, 2395),
            ("resnet50", "h100", 64, 1, 16, 2557),
            ("cosmoflow", "h100", 64, 1, 8, 121_477),
        ] {
            assert_eq!(size(name, acc, Profile::V1, gib, hosts, n).files, files);
        }
    }

    #[test]
    fn v3_rounds_up() {
        use Binding::{Memory, Steps};
        for (name, acc, gib, n, files, binding) in [
            ("unet3d", "b200", 64, 8, 28_000, Steps),
            ("unet3d", "b200", 1006, 8, 36_842, Memory),
            ("retinanet", "b200", 64, 8, 1_063_911, Memory),
            ("resnet50", "h100", 64, 8, 2396, Memory),
            ("resnet50", "h100", 64, 16, 2558, Steps),
        ] {
            let got = size(name, acc, Profile::V3, gib, 1, n);
            assert_eq!((got.files, got.binding), (files, binding), "{name}");
        }
    }

    #[test]
    fn rounding_down_costs_resnet50_a_step() {
        let v2 = size("resnet50", "h100", Profile::V2, 64, 1, 16);
        assert_eq!(v2.steps_per_epoch, 499);
        assert_eq!(size("resnet50", "h100", Profile::V3, 64, 1, 16).steps_per_epoch, 500);
    }

    #[test]
    fn more_than_any_storage_has_is_refused() {
        let unet3d = catalog::find("unet3d", None).unwrap().workload(&[]).unwrap();
        let request = SizeRequest {
            hosts: 4_000_000_000,
            host_memory_bytes: u64::MAX,
            ..SizeRequest::of(&unet3d, Profile::V2, 1)
        };
        let error = datasize(&request).unwrap_err();
        assert_eq!(error.to_string(), "the dataset would have more than 2^63 bytes");
    }

    proptest! {
        #[test]
        fn more_never_needs_less(
            n in 1u64..2000, hosts in 1u64..64, memory in 0u64..1 << 44, batch in 1u64..1000,
            per_file in 1u64..5000, sample in 1.0f64..1e9, which in 0usize..4,
        ) {
            let request = SizeRequest {
                accelerators: n, hosts, host_memory_bytes: memory, batch_size: batch,
                samples_per_file: per_file, sample_bytes: sample, profile: Profile::VARIANTS[which],
            };
            let size = datasize(&request).unwrap();
            let more = datasize(&SizeRequest { accelerators: n + 1, ..request }).unwrap();
            let larger = datasize(&SizeRequest { host_memory_bytes: memory * 2, ..request }).unwrap();
            prop_assert!(more.files >= size.files && larger.files >= size.files);
            if request.profile.reshuffles() {
                prop_assert!(size.steps_per_epoch >= MIN_STEPS);
                let least = (size.bytes as f64) * (1.0 + 1e-9) + sample;
                prop_assert!(least >= (5 * memory * hosts) as f64 * (1.0 - 0.01 / sample));
            }
        }
    }
}
