//! The options of `stormlp train`, the workload they name, and their conversion to a request.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use serde::Deserialize;
use stormlp_core::numbers::whole;
use stormlp_core::path::PathKind;
use stormlp_core::profile::Profile;
use stormlp_core::shell::shell_word;
use stormlp_core::transport::{DeviceId, EngineChoice, Pages};
use stormlp_core::units::{ByteSize, parse_duration};
use stormlp_mlperf::submission::plan::usual_accelerator;
use stormlp_mlperf::submission::{Edition, SCORED_RUNS};
use stormlp_training::plan::catalog;
use stormlp_training::plan::client::{Client, ClientCost};
use stormlp_training::plan::distribution::Distribution;
use stormlp_training::plan::request::{MAX_RUNS, StorageKind, TrainRequest};
use stormlp_training::plan::workload::Workload;

use crate::commands::submission::other_edition;
use crate::commands::threads::check_cufile;
use crate::commands::workload_args::{ReaderArgs, StepArgs};
use crate::commands::workloads::{self, parse_folder, parse_some_bytes};
use stormlp_core::failure::Failure;

/// The workload options.
#[derive(Debug, Args)]
#[command(next_help_heading = "The workload")]
pub(crate) struct WorkloadArgs {
    /// A built-in workload (see `stormlp workloads`), or a YAML file in MLPerf Storage or DLIO
    /// format
    #[arg(value_name = "WORKLOAD")]
    pub(crate) workload: String,

    /// Accelerator to emulate: v100, a100, h100, b200, mi355 [default: h100, or the workload's]
    #[arg(long, value_name = "NAME")]
    accelerator: Option<String>,

    /// Total number of accelerators [default: 1]
    #[arg(short = 'n', long, value_name = "N", value_parser = whole::<u32>(1..))]
    accelerators: Option<u32>,

    /// Rules for read order, read pattern and metrics [default: the workload's edition]
    #[arg(long, value_name = "v1|v2|v3|native")]
    profile: Option<Profile>,

    /// Emulated compute time per step, such as 162ms (plain numbers are seconds), or in DLIO's
    /// format, '{type: normal, mean: 0.3, stdev: 0.02}'
    #[arg(long, value_name = "TIME", value_parser = parse_compute)]
    compute_time: Option<Distribution>,

    /// Add the cost of the official client, so that AU predicts its result: dlio or none
    #[arg(long, value_name = "dlio|none", default_value = "none")]
    client: Client,

    /// DLIO's overhead per step [default: 1.25ms, an estimate from another host]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    client_step: Option<Duration>,

    /// CPU time of DLIO's workers per GiB [default: 0.9s, an estimate from another host]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    client_cpu_per_gib: Option<Duration>,

    /// Accelerator description file: name, computation_time, batch_size
    #[arg(long, value_name = "FILE", conflicts_with = "accelerator")]
    accelerator_profile: Option<PathBuf>,

    #[command(flatten)]
    steps: StepArgs,

    /// Number of scored runs; several are preceded by an unscored warm-up run, like MLPerf's 5
    /// [default: 1; 5 with --closed]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=u64::from(MAX_RUNS)))]
    runs: Option<u32>,

    /// Enforce MLPerf's closed rules, and list all violations
    #[arg(long)]
    closed: bool,

    /// Seed for shuffling
    #[arg(long, value_name = "N", value_parser = whole::<u64>(..))]
    seed: Option<u64>,

    /// Workload parameters to override, as in mlpstorage: reader.read_threads=8
    #[arg(long, value_name = "KEY=VALUE", num_args = 1..)]
    params: Vec<String>,
}

impl WorkloadArgs {
    /// The cost of the requested client.
    fn client_cost(&self) -> Result<Option<ClientCost>, Failure> {
        let (step, cpu) = (self.client_step, self.client_cpu_per_gib);
        if self.client == Client::None {
            return match step.or(cpu) {
                None => Ok(None),
                Some(_) => Err(Failure::usage(
                    "--client-step and --client-cpu-per-gib have no effect without --client dlio",
                )),
            };
        }
        let usual = ClientCost::DLIO;
        Ok(Some(ClientCost {
            step_seconds: step.map_or(usual.step_seconds, |step| step.as_secs_f64()),
            cpu_seconds_per_gib: cpu.map_or(usual.cpu_seconds_per_gib, |cpu| cpu.as_secs_f64()),
            estimated: step.is_none() || cpu.is_none(),
            ..usual
        }))
    }

    /// The requested edition.
    pub(crate) fn profile(&self) -> Option<Profile> {
        self.profile
    }

    /// Sets the accelerator and the profile of `edition`; without one, those of v3.0 if no others
    /// were requested and that edition has the workload.
    ///
    /// # Errors
    /// If another profile was requested.
    pub(crate) fn keep_edition(&mut self, edition: Option<Edition>) -> Result<(), Failure> {
        let usual = usual_accelerator(edition.unwrap_or(Edition::V3));
        let named = self.accelerator.is_some() || self.accelerator_profile.is_some();
        let open = edition.is_some() || self.profile.is_none();
        if open && !named && catalog::find(&self.workload, Some(usual)).is_ok() {
            self.accelerator = Some(usual.to_string());
        }
        match (edition, self.profile) {
            (Some(edition), Some(profile)) if edition.profile() != profile => {
                Err(other_edition(&format!("--profile {profile}"), edition))
            }
            (Some(edition), _) => {
                self.profile = Some(edition.profile());
                Ok(())
            }
            (None, _) => Ok(()),
        }
    }

    /// Sets the number of runs to that of an MLPerf result, unless another was requested.
    pub(crate) fn score_as_mlperf(&mut self) {
        self.runs.get_or_insert(SCORED_RUNS);
    }

    /// The options of `stormlp datagen`, except the number of files, that generate the dataset for
    /// `request`.
    pub(super) fn datagen_options(&self, request: &TrainRequest) -> String {
        let samples = request.samples_per_file;
        let samples = samples.map(|samples| format!(" --samples-per-file {samples}"));
        let profile = request.profile;
        let profile = profile.map(|profile| format!(" --profile {profile}"));
        let mut options: String = [samples, profile].into_iter().flatten().collect();
        let of_files = |param: &&String| param.starts_with("dataset.");
        let keys: Vec<_> = self.params.iter().filter(of_files).collect();
        if !keys.is_empty() {
            let keys: Vec<_> = keys.into_iter().map(|key| shell_word(key)).collect();
            options.push_str(&format!(" --params {}", keys.join(" ")));
        }
        options
    }

    /// Whether `--params` sets the key `path`.
    pub(crate) fn sets(&self, path: &str) -> bool {
        workloads::sets(&self.params, path)
    }
}

/// The dataset options.
#[derive(Debug, Args)]
#[command(next_help_heading = "The dataset")]
pub(crate) struct DataArgs {
    /// Dataset folder, with samples in train/ and valid/ [default: ./stormlp-data/WORKLOAD]
    #[arg(long, value_name = "DIR", value_parser = parse_folder)]
    pub(crate) data_dir: Option<PathBuf>,

    /// Number of training files to use
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..))]
    files: Option<u64>,

    /// Samples per file
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..=u64::from(u32::MAX)))]
    samples_per_file: Option<u64>,

    /// Generate the dataset if the folder is empty, in any folder
    #[arg(long)]
    pub(crate) generate: bool,

    /// Generate the dataset required by MLPerf's rules for this host, not a starter dataset
    #[arg(long)]
    pub(crate) full: bool,
}

/// The I/O options.
#[derive(Debug, Args)]
#[command(next_help_heading = "Reading")]
pub(crate) struct ReadArgs {
    /// Path: buffered and cpu read to host memory; page-cache, cpu-gpu and cpu-async-gpu to GPU
    /// memory, or host memory that emulates it; gds requires libcufile (see `stormlp doctor`); null
    /// is --storage null [default: buffered, or cpu if the workload sets odirect]
    #[arg(long, value_name = "PATH")]
    path: Option<PathKind>,

    /// Accelerator memory: cuda:0, or host for emulation in host memory [default: the first GPU,
    /// else host]
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceId>,

    /// null does no I/O and needs no dataset: it shows this host's upper limit for the workload
    #[arg(long, value_name = "real|null", default_value = "real")]
    storage: Storage,

    /// Fail if path gds falls back to another path
    #[arg(long)]
    require_gds: bool,

    /// cuFile statistics level for the whole run, which costs time: 0 is off, 3 reports routes
    /// [default: routes of the first transfers only]
    #[arg(long, value_name = "LEVEL", value_parser = whole::<u8>(0..=3))]
    cufile_stats: Option<u8>,

    /// Drop files from the page cache before each epoch, and verify it
    #[arg(long)]
    cold: bool,

    #[command(flatten)]
    reader: ReaderArgs,

    /// Read size for record files; split into chunks of up to 256K through the page cache and 1M
    /// with O_DIRECT [default: the workload's, else TensorFlow's 256K, or 1M with O_DIRECT, which
    /// has no read-ahead]
    #[arg(long, value_name = "SIZE", value_parser = parse_some_bytes)]
    transfer_size: Option<ByteSize>,

    /// I/O engine: auto, uring, tokio-uring, psync
    #[arg(long, value_name = "NAME", default_value = "auto")]
    engine: EngineChoice,

    /// Page size for buffers in host memory: huge (if available) or small [default: huge]
    #[arg(long, value_name = "SIZE")]
    pages: Option<Pages>,

    /// I/O threads of this process [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=1024))]
    threads: Option<u32>,

    /// Memory limit of the run [default: this host's memory, or its cgroup limit]
    #[arg(long, value_name = "SIZE", value_parser = parse_some_bytes)]
    memory_limit: Option<ByteSize>,

    /// Folder for checkpoints written during training
    #[arg(long, value_name = "DIR", value_parser = parse_folder)]
    checkpoint_folder: Option<PathBuf>,
}

impl ReadArgs {
    /// Null storage reads nothing, so options for reading have no effect.
    fn check_null(&self, data: &DataArgs) -> Result<(), Failure> {
        let vain = match self.path {
            Some(path) if path != PathKind::Null => format!("--path {path}"),
            _ if self.engine != EngineChoice::Auto => "--engine".to_string(),
            _ if self.transfer_size.is_some() => "--transfer-size".to_string(),
            _ if self.device.is_some() => "--device".to_string(),
            _ if self.pages.is_some() => "--pages".to_string(),
            _ if self.require_gds => "--require-gds".to_string(),
            _ if self.cufile_stats.is_some() => "--cufile-stats".to_string(),
            _ if self.cold => "--cold".to_string(),
            _ if data.data_dir.is_some() => "--data-dir".to_string(),
            _ if data.generate => "--generate".to_string(),
            _ if data.full => "--full".to_string(),
            _ if self.checkpoint_folder.is_some() => "--checkpoint-folder".to_string(),
            _ => return Ok(()),
        };
        Err(Failure::usage(format!(
            "null storage reads and writes nothing, so {vain} would have no effect: leave out one of them"
        )))
    }
}

/// The source of a run's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Storage {
    /// From the dataset.
    Real,
    /// From nowhere.
    Null,
}

/// `--accelerator-profile`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AcceleratorFile {
    name: String,
    computation_time: serde_yaml::Value,
    batch_size: Option<u32>,
}

pub(crate) fn parse_compute(text: &str) -> Result<Distribution, String> {
    if text.trim_start().starts_with('{') {
        let value = serde_yaml::from_str(text).map_err(|error| error.to_string())?;
        return Distribution::from_yaml(&value);
    }
    let time: Duration = parse_duration(text).map_err(|error| error.to_string())?;
    Distribution::from_yaml(&time.as_secs_f64().into())
}

/// The named workload, with `--params` applied.
///
/// # Errors
/// With exit code 3 if there is no such workload or its file is invalid, 4 if the file cannot be
/// read.
pub(crate) fn workload(args: &WorkloadArgs) -> Result<Workload, Failure> {
    workloads::load(&args.workload, args.accelerator.as_deref(), &args.params)
}

/// Converts the options to a request.
///
/// # Errors
/// If the accelerator's file cannot be used.
pub(crate) fn request(
    workload: &WorkloadArgs,
    data: &DataArgs,
    read: &ReadArgs,
) -> Result<TrainRequest, Failure> {
    if read.storage == Storage::Null || read.path == Some(PathKind::Null) {
        read.check_null(data)?;
    }
    if read.device.is_some() && !read.path.is_some_and(PathKind::ends_in_accelerator) {
        let path = read.path.unwrap_or(PathKind::Buffered);
        return Err(Failure::usage(format!(
            "--device has no effect with --path {path}, which ends in host memory: name another \
             path, or leave --device out"
        )));
    }
    let path = read.path.unwrap_or(PathKind::Buffered);
    check_cufile(path, read.require_gds, read.cufile_stats)?;
    let mut request = TrainRequest {
        profile: workload.profile,
        accelerators: workload.accelerators,
        batch_size: workload.steps.batch_size,
        read_threads: read.reader.read_threads,
        prefetch: read.reader.prefetch,
        epochs: workload.steps.epochs,
        steps: workload.steps.steps,
        files: data.files,
        samples_per_file: data.samples_per_file,
        compute: workload.compute_time,
        client: workload.client_cost()?,
        seed: workload.seed,
        // 32 bits, which every JSON reader preserves.
        drawn_seed: RandomState::new().build_hasher().finish() >> 32,
        data_dir: data.data_dir.clone().map(Into::into),
        path: read.path,
        engine: read.engine,
        device: read.device,
        pages: read.pages.unwrap_or_default(),
        require_gds: read.require_gds,
        cufile_stats: read.cufile_stats,
        cold: read.cold,
        storage: match read.storage {
            Storage::Real => StorageKind::Real,
            Storage::Null => StorageKind::Null,
        },
        transfer_size: read.transfer_size.map(ByteSize::bytes),
        runs: workload.runs,
        closed: workload.closed,
        threads: read.threads,
        memory_limit_bytes: read.memory_limit.map(ByteSize::bytes),
        checkpoint_folder: read.checkpoint_folder.clone().map(Into::into),
        ..TrainRequest::default()
    };
    if let Some(path) = &workload.accelerator_profile {
        let file = accelerator_file(path)?;
        request.accelerator = Some(file.name);
        request.batch_size = request.batch_size.or(file.batch_size);
        if request.compute.is_none() {
            let compute = Distribution::from_yaml(&file.computation_time);
            request.compute = Some(compute.map_err(|fault| {
                Failure::no_plan(anyhow::anyhow!("{}: computation_time: {fault}", path.display()))
            })?);
        }
    }
    Ok(request)
}

fn accelerator_file(path: &Path) -> Result<AcceleratorFile, Failure> {
    let text = workloads::read_text(path, "accelerator profile")?;
    serde_yaml::from_str(&text)
        .with_context(|| format!("{} describes no accelerator", path.display()))
        .map_err(|error| {
            Failure::no_plan(error).with_help(
                "it needs `name: …` and `computation_time: SECONDS`, and may have `batch_size: N`",
            )
        })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn compute_times_are_durations_or_dlios_distributions() {
        let ms = parse_compute("162ms").unwrap();
        assert_eq!(ms, Distribution::constant(0.162));
        assert_eq!(parse_compute("0.162").unwrap(), ms);
        assert_eq!(
            parse_compute("{type: normal, mean: 0.3, stdev: 0.02}").unwrap(),
            Distribution::Normal { mean: 0.3, stdev: 0.02 }
        );
        assert!(parse_compute("{type: normal, mean: -1, stdev: 0}").is_err());
        assert!(parse_compute("fast").is_err());
        let error = parse_compute("{type: zipf, mean: 1}").unwrap_err();
        assert!(error.contains("`normal`, `uniform`, `gamma`"), "{error}");
    }
}
