//! The request for a prediction: the options of `stormlp plan`, not validated yet.

use std::path::PathBuf;

use stormlp_core::numbers::{whole, within};
use stormlp_core::path::PathKind;
use stormlp_core::profile::Profile;
use stormlp_core::units::{parse_seconds, parse_some_bytes};
use stormlp_training::plan::client::Client;
use stormlp_training::plan::distribution::Distribution;
use stormlp_training::plan::request::RunLength;

/// Upper end of the search.
pub const MAX_ACCELERATORS: u32 = 100_000;

/// Options of a prediction. `None` falls back to the workload, then to the default.
#[derive(Debug, Clone, PartialEq, Default, clap::Args)]
#[command(next_help_heading = "Workload")]
pub struct SizingRequest {
    /// A built-in workload (see `stormlp workloads`), or a YAML file in MLPerf Storage or DLIO
    /// format
    #[arg(value_name = "WORKLOAD", required_unless_present = "list_storage")]
    pub workload: Option<String>,

    /// Figures such as read=14.5GB/s,latency=80us (object stores: connection=90MB/s,connections=64, too),
    /// a preset name, or a saved `stormlp gds` report
    #[arg(long, value_name = "STORAGE", required_unless_present = "list_storage")]
    pub storage: Option<String>,

    /// Accelerator to emulate [default: h100, or the workload's]
    #[arg(long, value_name = "NAME")]
    pub accelerator: Option<String>,

    /// Total number of accelerators [default: the most that reach the threshold]
    #[arg(short = 'n', long, value_name = "N",
        value_parser = whole::<u32>(1..=u64::from(MAX_ACCELERATORS)))]
    pub accelerators: Option<u32>,

    /// Rules for read order, read pattern and metrics [default: the workload's edition]
    #[arg(long = "edition", value_name = "1.0|2.0|3.0|native", value_parser = Profile::of_edition)]
    pub profile: Option<Profile>,

    /// Emulated compute time per step, such as 162ms, or in DLIO's format
    #[arg(long = "compute-time", value_name = "TIME")]
    pub compute: Option<Distribution>,

    /// Epochs and steps.
    #[command(flatten)]
    pub length: RunLength,

    /// Read path: buffered uses the page cache, cpu and gds bypass it, s3 reads objects
    /// [default: buffered, cpu if the workload sets odirect, or s3 with connection=]
    #[arg(long, value_name = "PATH")]
    pub path: Option<PathKind>,

    /// Workload parameters to override, as in mlpstorage: reader.batch_size=8
    #[arg(long, value_name = "KEY=VALUE", num_args = 1..)]
    pub params: Vec<String>,

    /// Number of hosts [default: 1, or as many as --accelerators-per-host requires]
    #[arg(long, value_name = "N",
        value_parser = whole::<u32>(1..=u64::from(MAX_ACCELERATORS)), help_heading = "Hosts")]
    pub hosts: Option<u32>,

    /// Maximum number of accelerators per host
    #[arg(long, value_name = "N",
        value_parser = whole::<u32>(1..=u64::from(MAX_ACCELERATORS)), help_heading = "Hosts")]
    pub accelerators_per_host: Option<u32>,

    /// Memory per host, which determines the dataset size
    /// [default: this host's, or its cgroup limit if lower]
    #[arg(long = "host-memory", value_name = "SIZE",
        value_parser = parse_some_bytes, help_heading = "Hosts")]
    pub host_memory_bytes: Option<u64>,

    /// Most bytes per second that a host reads through its page cache, such as 30GB/s, or none
    /// [default: 20GiB/s, about what published hosts with local drives and the official client
    /// read; none with link=, --accelerators-per-host, --client none, a host cost, or a path that
    /// bypasses the page cache]
    #[arg(long, value_name = "RATE", value_parser = parse_host_rate,
        help_heading = "Hosts")]
    pub host_rate: Option<HostRate>,

    /// CPUs per host, which share the CPU cost of reading [default: one for each reader]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=65_536),
        help_heading = "Hosts")]
    pub host_cpus: Option<u32>,

    /// Duration of each step's barrier [default: 0]
    #[arg(long = "barrier", value_name = "TIME",
        value_parser = parse_seconds, help_heading = "Hosts")]
    pub barrier_seconds: Option<f64>,

    /// Measured host cost: a saved report of `stormlp train WORKLOAD --path null` on such a
    /// host; the two options below override it
    #[arg(long, value_name = "REPORT", conflicts_with = "client", help_heading = "Hosts")]
    pub host_cost: Option<PathBuf>,

    /// Time per step besides loading and compute, as shown by `stormlp train --path null`
    /// [default: 0, or DLIO's with --client dlio]
    #[arg(long = "host-cost-per-step", value_name = "TIME",
        value_parser = parse_seconds, help_heading = "Hosts")]
    pub host_cost_per_step_seconds: Option<f64>,

    /// CPU time of reader threads per GiB [default: 0, or DLIO's with --client dlio]
    #[arg(long = "host-cost-per-gib", value_name = "TIME",
        value_parser = parse_seconds, help_heading = "Hosts")]
    pub host_cost_per_gib_seconds: Option<f64>,

    /// Add the cost of the official client, unless set by the two options above: a FILE that
    /// `stormlp calibrate-dlio` saved on such a host, dlio for what the workload's format cost on another
    /// machine (two CPUs of an AMD EPYC, Python 3.11), or none for hosts that cost nothing
    /// [default: none, with the official client's cost in the range]
    #[arg(long, value_name = "FILE|dlio|none", help_heading = "Hosts")]
    pub client: Option<Client>,

    /// Checkpoint size, or a model such as llama3-70b [default: the workload's checkpoint, if any]
    #[arg(long, value_name = "SIZE|MODEL", help_heading = "Checkpoints")]
    pub checkpoint: Option<String>,

    /// Mean time between failures of the whole job, such as 12h
    #[arg(long = "mtbf", value_name = "TIME",
        value_parser = within(parse_seconds, 1e-3..=1e9, "1ms or more"), help_heading = "Checkpoints")]
    pub mtbf_seconds: Option<f64>,
}

/// `--host-rate`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HostRate {
    /// Bytes per second of one host.
    Most(f64),
    /// Hosts do not limit what they read.
    Unlimited,
}

/// Parses `--host-rate`.
fn parse_host_rate(text: &str) -> Result<HostRate, String> {
    if text == "none" {
        Ok(HostRate::Unlimited)
    } else {
        super::parse::rate(text).map(HostRate::Most)
    }
}

impl SizingRequest {
    /// Number of accelerators that the requested hosts have room for, if both numbers are given.
    pub fn room(&self) -> Option<u32> {
        let (hosts, of_one) = self.hosts.zip(self.accelerators_per_host)?;
        Some(hosts.saturating_mul(of_one))
    }
}
