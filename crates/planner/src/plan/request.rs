//! The request for a prediction: the options of `stormlp plan`, not validated yet.

use stormlp_core::host_spec::{HostSpec, host_count};
use stormlp_core::numbers::{whole, within};
use stormlp_core::path::PathKind;
use stormlp_core::profile::Profile;
use stormlp_core::units::parse_seconds;
use stormlp_training::plan::distribution::Distribution;
use stormlp_training::plan::request::RunLength;

use super::overhead::Overhead;

/// Upper end of the search.
pub const MAX_ACCELERATORS: u32 = 100_000;

/// Options of a prediction. `None` falls back to the workload, then to the default.
#[derive(Debug, Clone, PartialEq, Default, clap::Args)]
#[command(next_help_heading = "Workload")]
pub struct SizingRequest {
    /// A built-in workload (see `stormlp workloads`), or a YAML file of MLPerf Storage or DLIO
    #[arg(value_name = "WORKLOAD")]
    pub workload: Option<String>,

    /// Figures such as 4x:read=14.5GB/s,latency=80us, a drive, list for all drives, or a report
    #[arg(long, value_name = "STORAGE")]
    pub storage: Option<String>,

    /// Accelerator to emulate [default: h100, or the workload's]
    #[arg(long, value_name = "NAME")]
    pub accelerator: Option<String>,

    /// Number of accelerators on all hosts together [default: the maximum]
    #[arg(short = 'n', long, value_name = "N",
        value_parser = whole::<u32>(1..=u64::from(MAX_ACCELERATORS)))]
    pub accelerators: Option<u32>,

    /// MLPerf Storage edition for reads and metrics [default: the workload's]
    #[arg(long = "edition", value_name = "1.0|2.0|3.0|native", value_parser = Profile::of_edition)]
    pub profile: Option<Profile>,

    /// Compute time per step: 162ms, or as in DLIO
    #[arg(long = "compute-time", value_name = "TIME")]
    pub compute: Option<Distribution>,

    /// Epochs and steps.
    #[command(flatten)]
    pub length: RunLength,

    /// Path: buffered, cpu, gds or s3 [default: the workload's, or s3 with connection=]
    #[arg(long, value_name = "PATH")]
    pub path: Option<PathKind>,

    /// Override a key of the workload, such as reader.batch_size=8; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub params: Vec<String>,

    /// Number of hosts, or their names: 8, or h1,h2 [default: 1, or by accelerators=]
    #[arg(long, value_name = "N|NAMES", value_parser = host_count, help_heading = "Hosts")]
    pub hosts: Option<u32>,

    /// Each host, such as memory=1TiB,cpus=104,read=30GB/s,accelerators=8 [default: memory of this one]
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Hosts")]
    pub host: Option<HostSpec>,

    /// Overhead of MLPerf's Python client: FILE of calibrate-dlio, dlio, none, or step=0.7ms,gib=0.9s
    #[arg(long, value_name = "OVERHEAD", help_heading = "Hosts")]
    pub client_overhead: Option<Overhead>,

    /// Checkpoint size, or a model such as llama3-70b [default: the workload's]
    #[arg(long, value_name = "SIZE|MODEL", help_heading = "Checkpoints")]
    pub checkpoint: Option<String>,

    /// Mean time between failures of the whole job, such as 12h
    #[arg(long = "mtbf", value_name = "TIME",
        value_parser = within(parse_seconds, 1e-3..=1e9, "1ms or more"), help_heading = "Checkpoints")]
    pub mtbf_seconds: Option<f64>,
}

impl SizingRequest {
    /// The equipment of one host; all of it is unknown unless it was given.
    pub fn host_spec(&self) -> HostSpec {
        self.host.unwrap_or_default()
    }

    /// Sets the maximum bytes per second that a host reads; `None` for no limit.
    pub(crate) fn set_host_rate(&mut self, rate: Option<f64>) {
        self.host.get_or_insert_default().read_bytes_per_second = rate.or(Some(f64::INFINITY));
    }

    /// Number of accelerators that the requested hosts have room for, if both numbers are given.
    pub fn room(&self) -> Option<u32> {
        let (hosts, of_one) = self.hosts.zip(self.host_spec().accelerators)?;
        Some(hosts.saturating_mul(of_one))
    }
}
