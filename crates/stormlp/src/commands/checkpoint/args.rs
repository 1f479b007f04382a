//! What can be typed after `stormlp checkpoint`, and the request it makes.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::{Path, PathBuf};

use stormlp_checkpoint::plan::{
    CheckpointProfile, CheckpointRequest, CheckpointWorkload, Container, FsyncPolicy, Mode,
    ScaleChoice, builtin, parse,
};
use stormlp_core::names::file_name;
use stormlp_core::path::PathKind;
use stormlp_core::transport::{DeviceId, EngineChoice, Pages};
use stormlp_core::units::{ByteSize, parse_duration};
use stormlp_mlperf::submission::Edition;

use crate::commands::deliver::OutputArgs;
use crate::commands::detached::DetachedArgs;
use crate::commands::numbers::whole;
use crate::commands::submission::{self, RehearsedTree};
use crate::commands::threads::{ThreadArgs, check_cufile};
use crate::commands::workloads::read_text;
use crate::exit::Failure;
use crate::hosts::Needs;

/// Arguments of `stormlp checkpoint`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp checkpoint llama3-70b                          what fits here in about a minute
  stormlp checkpoint llama3-405b --dry-run               files and bytes of all 512 ranks
  stormlp checkpoint llama3-8b --scale 1 --dir /mnt/ckpt --cold --path cpu
                                                         the full run, restored from storage
  stormlp checkpoint llama3-8b --find-knee --path cpu --dir /mnt/ckpt
                                                         how few streams bring the bandwidth
  mpirun -n 4 --map-by ppr:1:node --bind-to none stormlp checkpoint llama3-70b --dir /shared/ckpt
                                                         its ranks dealt to four hosts
  stormlp checkpoint llama3-8b --dir /mnt/own --start-at 14:30:05 --run-id night
                                                         on each host, without a launcher: each has
                                                         checkpoints of its own; `report merge` puts
                                                         their reports together

Sizes: K, M, G are powers of 1024, kB, MB, GB powers of 1000. The report is saved under
./stormlp-results (see --results-dir); checkpoints stay until --clean or `stormlp clean` removes them.")]
pub(crate) struct Args {
    /// llama3-8b, llama3-70b, llama3-405b, llama3-1t, or a workload file in DLIO format
    #[arg(value_name = "MODEL|FILE.yaml")]
    pub(super) model: String,

    /// Print the plan per rank and file, and exit
    #[arg(long, conflicts_with = "mlperf_output")]
    pub(super) dry_run: bool,

    /// Find the fewest streams per rank within 2 % of the best save and restore bandwidth; each run
    /// does 2 saves and 2 restores unless set by --writes and --reads, and drops files from the
    /// page cache before restores
    #[arg(long, conflicts_with_all = ["streams", "closed", "clean", "mlperf_output", "overlap"])]
    pub(super) find_knee: bool,

    /// Remove checkpoints written by stormlp from the directories, and exit
    #[arg(long, conflicts_with_all = [
        "dry_run", "format", "export", "baseline", "results_dir", "mlperf_output", "start_at",
    ])]
    pub(crate) clean: bool,

    #[command(flatten)]
    size: SizeArgs,

    #[command(flatten)]
    order: OrderArgs,

    #[command(flatten)]
    transfers: TransferArgs,

    #[command(flatten)]
    threads: ThreadArgs,

    #[command(flatten)]
    pub(super) detached: DetachedArgs,

    /// Directories are local to each host, such as local drives: each host restores what it saved
    #[arg(long, help_heading = "Several hosts", conflicts_with = "clean")]
    pub(super) local_data: bool,

    #[command(flatten)]
    pub(super) output: OutputArgs,

    /// Also write the output files of DLIO and mlpstorage to a folder of the run: summary.json,
    /// 0_per_epoch_stats.json, configuration, metadata
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub(super) mlperf_output: Option<PathBuf>,

    /// The tree of a rehearsal in place of those.
    #[arg(skip)]
    pub(super) rehearsal: Option<RehearsedTree>,
}

impl Args {
    /// The name of the model.
    ///
    /// # Errors
    /// When there is none, or its file is wrong.
    pub(crate) fn model_name(&self) -> Result<String, Failure> {
        Ok(workload(&self.model)?.name)
    }

    /// The seed of the content that was asked for.
    pub(super) fn seed(&self) -> Option<u64> {
        self.transfers.seed
    }

    /// Takes the profile of `edition`; without one that of v3.0 where none was asked for.
    ///
    /// # Errors
    /// When another profile was asked for, too, or one that is no edition's.
    pub(crate) fn keep_edition(&mut self, edition: Option<Edition>) -> Result<(), Failure> {
        let of_edition = match edition.unwrap_or(Edition::V3) {
            Edition::V2 => CheckpointProfile::V2,
            Edition::V3 => CheckpointProfile::V3,
        };
        let profile = self.order.profile.unwrap_or(of_edition);
        match edition {
            Some(edition) if profile != of_edition => {
                return Err(submission::other_edition(&format!("--profile {profile}"), edition));
            }
            None if profile == CheckpointProfile::Native => {
                let what = "a rehearsal follows the rules of v2.0 or v3.0, not profile native";
                let help = "use --edition 2.0 or 3.0";
                return Err(Failure::no_plan(anyhow::anyhow!(what)).with_help(help));
            }
            _ => {}
        }
        self.order.profile = Some(profile);
        Ok(())
    }

    /// Whether nothing is to be run.
    pub(crate) fn is_dry(&self) -> bool {
        self.dry_run
    }

    /// Makes a rehearsal of the run, whose files go into `tree`.
    ///
    /// # Errors
    /// When the files for MLPerf's tools were to go elsewhere, or nothing is to be run.
    pub(crate) fn rehearse(&mut self, tree: RehearsedTree) -> Result<(), Failure> {
        submission::refuse_output(self.mlperf_output.as_deref())?;
        if !self.detached.company().is_alone() {
            return Err(Failure::usage(
                "--start-at cannot be used in a rehearsal: each host has its own checkpoints",
            ));
        }
        if self.find_knee {
            return Err(Failure::usage("--find-knee cannot be used in a rehearsal"));
        }
        if self.clean {
            return Err(Failure::usage("--clean cannot be used in a rehearsal"));
        }
        self.mlperf_output = Some(tree.folder().to_path_buf());
        self.rehearsal = Some(tree);
        Ok(())
    }

    /// The option with which nothing is measured, so that no storage can be impaired.
    pub(crate) fn refuses_impairment(&self) -> Option<&'static str> {
        let clean = self.clean.then_some("--clean");
        clean.or(self.dry_run.then_some("--dry-run"))
    }

    /// To remove is for one process.
    pub(crate) fn needs(&self) -> Needs {
        if self.clean { Needs::OneProcess("checkpoint --clean") } else { Needs::Group }
    }

    /// Refuses options that could change nothing beside others.
    fn refuse_idle(&self) -> Result<(), Failure> {
        let (order, transfers) = (&self.order, &self.transfers);
        let (saves, restores) = (order.writes != Some(0), order.reads != Some(0));
        let to_host = !transfers.path.ends_in_accelerator();
        let idle = [
            ("--cold", order.cold && !restores, "--reads 0"),
            ("--verify", order.verify && !restores, "--reads 0"),
            ("--rank-shift", order.rank_shift.is_some() && !restores, "--reads 0"),
            ("--fsync", transfers.fsync.is_some() && !saves, "--writes 0"),
            ("--overlap", order.overlap.is_some() && !saves, "--writes 0"),
            ("--keep", order.keep.is_some() && !saves, "--writes 0"),
            (
                "--device",
                transfers.device.is_some() && to_host,
                "a --path that ends in host memory",
            ),
        ];
        match idle.into_iter().find(|(_, idle, _)| *idle) {
            None => Ok(()),
            Some((option, _, beside)) => Err(Failure::usage(format!(
                "{option} has no effect with {beside}: remove one of them"
            ))),
        }
    }
}

/// How large the job is.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Size")]
struct SizeArgs {
    /// Fraction of a checkpoint to write: auto, or above 0 up to 1; layers are reduced first, then
    /// ranks [default: auto; 1 with --dry-run]
    #[arg(long, value_name = "auto|FACTOR")]
    scale: Option<ScaleChoice>,

    /// All ranks, or one host's share of them: default or subset
    #[arg(long, value_name = "MODE")]
    mode: Option<Mode>,

    /// Number of ranks; all of them participate unless --scale is also set [default: all ranks of
    /// the model; 8 with --mode subset]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(..))]
    ranks: Option<u64>,

    /// Enforce MLPerf's closed rules; disables scaling
    #[arg(long)]
    closed: bool,
}

/// What happens when.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Order")]
struct OrderArgs {
    /// Number of saves [default: 10; 2 when scaled]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(..))]
    writes: Option<u32>,

    /// Number of restores, from checkpoints of this run or, with --writes 0, existing ones
    /// [default: 10; 2 when scaled; at most the number of checkpoints]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(..))]
    reads: Option<u32>,

    /// Time between checkpoints [default: 5s; none when scaled]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pause: Option<f64>,

    /// Keep the newest N checkpoints [default: all]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(..))]
    keep: Option<u32>,

    /// Save during emulated training steps of this length, and report how long training waits
    #[arg(
        long,
        value_name = "STEP",
        value_parser = seconds,
        num_args = 0..=1,
        default_missing_value = "1",
        conflicts_with = "start_at"
    )]
    overlap: Option<f64>,

    /// Each rank restores the files of the rank N positions later
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1", value_parser = whole::<u64>(..))]
    rank_shift: Option<u64>,

    /// Drop files from the page cache before restoring them, and verify it
    #[arg(long)]
    cold: bool,

    /// Verify restored data in a second, unmeasured read
    #[arg(long)]
    verify: bool,

    /// Rules for read order and metrics: v2, v3, native [default: v2; in a rehearsal, those of its
    /// edition]
    #[arg(long, value_name = "PROFILE")]
    profile: Option<CheckpointProfile>,
}

/// How bytes are moved.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Transfers")]
struct TransferArgs {
    /// Directory for checkpoints; several are used by ranks in turn [default:
    /// ./stormlp-data/checkpoint/MODEL]
    #[arg(long = "dir", value_name = "DIR")]
    folders: Vec<PathBuf>,

    /// When to sync files: per-file, per-checkpoint, none [default: per-file]
    #[arg(long, value_name = "POLICY")]
    fsync: Option<FsyncPolicy>,

    /// Path: buffered, cpu (O_DIRECT), page-cache, cpu-gpu, gds
    #[arg(long, value_name = "PATH", default_value = "buffered", value_parser = path)]
    path: PathKind,

    /// I/O engine: auto, uring, tokio-uring, psync
    #[arg(long, value_name = "ENGINE", default_value = "auto")]
    engine: EngineChoice,

    /// Accelerator for page-cache, cpu-gpu and gds: cuda:0, or host [default: the first GPU, else
    /// host]
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceId>,

    /// Fail if path gds falls back to another path
    #[arg(long)]
    require_gds: bool,

    /// cuFile statistics level for the whole run, which costs time: 0 is off, 3 reports routes
    /// [default: routes of the first transfers only]
    #[arg(long, value_name = "LEVEL", value_parser = whole::<u8>(0..=3))]
    cufile_stats: Option<u8>,

    /// Page size for buffers in host memory: huge (if available) or small
    #[arg(long, value_name = "SIZE", default_value = "huge")]
    pages: Pages,

    /// Transfers in flight per rank [default: 1; 4 for reads with --profile v3]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(..))]
    streams: Option<u32>,

    /// Transfer size [default: 1M through the page cache, else 4M]
    #[arg(long, value_name = "SIZE")]
    chunk_size: Option<ByteSize>,

    /// File format: raw, or torch.save's for torch.load [default: raw, or the format of existing
    /// checkpoints]
    #[arg(long, value_name = "raw|torch")]
    container: Option<Container>,

    /// Seed for the content [default: different for each run]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(..))]
    seed: Option<u64>,
}

/// A seed of its own for each run, so that storage has seen none of its content before; always
/// the same for a dry run, which has no content.
fn fresh_seed(dry_run: bool) -> u64 {
    match dry_run {
        true => 0,
        // 32 bits, which every reader of JSON keeps exactly. The report has it for `--seed`.
        false => RandomState::new().build_hasher().finish() >> 32,
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    parse_duration(text).map(|duration| duration.as_secs_f64()).map_err(|error| error.to_string())
}

fn path(text: &str) -> Result<PathKind, String> {
    let known =
        [PathKind::Buffered, PathKind::Cpu, PathKind::PageCache, PathKind::CpuGpu, PathKind::Gds];
    known.into_iter().find(|path| path.name() == text).ok_or_else(|| {
        format!(
            "`{text}` is not a path for checkpoints: use buffered, cpu, page-cache, cpu-gpu or gds"
        )
    })
}

/// The request that was typed.
///
/// # Errors
/// When the model is neither built in nor a readable workload file.
pub(super) fn request(args: &Args) -> Result<CheckpointRequest, Failure> {
    args.refuse_idle()?;
    let path = args.transfers.path;
    check_cufile(path, args.transfers.require_gds, args.transfers.cufile_stats)?;
    let threading = args.threads.threading(path.ends_in_accelerator())?;
    let workload = workload(&args.model)?;
    let folders = if args.transfers.folders.is_empty() {
        vec![default_folder(&workload)]
    } else {
        args.transfers.folders.clone()
    };
    refuse_repeated(&folders)?;
    Ok(CheckpointRequest {
        typed: args.model.clone(),
        workload,
        mode: args.size.mode,
        ranks: args.size.ranks,
        scale: args.size.scale,
        closed: args.size.closed,
        results_beside_data: Vec::new(),
        dry_run: args.dry_run,
        writes: args.order.writes,
        reads: args.order.reads,
        pause_seconds: args.order.pause,
        folders: folders.into_iter().map(Into::into).collect(),
        fsync: args.transfers.fsync,
        path: args.transfers.path,
        engine: args.transfers.engine,
        device: args.transfers.device,
        pages: args.transfers.pages,
        require_gds: args.transfers.require_gds,
        cufile_stats: args.transfers.cufile_stats,
        threading,
        telemetry: args.output.telemetry(),
        streams: args.transfers.streams,
        chunk_bytes: args.transfers.chunk_size.map(ByteSize::bytes),
        overlap_step_seconds: args.order.overlap,
        rank_shift: args.order.rank_shift,
        local_data: args.local_data,
        keep: args.order.keep,
        cold: args.order.cold,
        verify: args.order.verify,
        seed: args.transfers.seed.unwrap_or_else(|| fresh_seed(args.dry_run)),
        container: args.transfers.container,
        profile: args.order.profile.unwrap_or(CheckpointProfile::V2),
    })
}

/// Where a model's checkpoints lie unless the user says otherwise.
fn default_folder(workload: &CheckpointWorkload) -> PathBuf {
    Path::new("stormlp-data/checkpoint").join(file_name(&workload.name, "model"))
}

/// A built-in model, or the one a file describes.
fn workload(model: &str) -> Result<CheckpointWorkload, Failure> {
    if let Some(workload) = builtin::load(model) {
        return Ok(workload);
    }
    let path = Path::new(model);
    if path.extension().is_none() && !path.exists() {
        let names: Vec<&str> = builtin::names().collect();
        return Err(Failure::usage(format!("unknown model `{model}`"))
            .with_help(format!("use one of {}, or a workload file", names.join(", "))));
    }
    let text = read_text(path, "workload file")?;
    parse(&text, model).map_err(|error| {
        Failure::from(error).with_help(
            "the keys are MLPerf's and DLIO's: model, model.parallelism, model.transformer, \
             checkpoint",
        )
    })
}

/// A directory under two spellings would wait for itself.
fn refuse_repeated(folders: &[PathBuf]) -> Result<(), Failure> {
    // What is not there yet is known by its text only.
    let place = |folder: &PathBuf| -> PathBuf {
        let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.clone());
        std::fs::canonicalize(&absolute).unwrap_or(absolute)
    };
    for (index, folder) in folders.iter().enumerate() {
        let same = |other: &&PathBuf| place(other) == place(folder);
        if let Some(other) = folders[..index].iter().find(same) {
            return Err(Failure::usage(format!(
                "--dir {} and --dir {} are the same directory",
                other.display(),
                folder.display()
            )));
        }
    }
    Ok(())
}
