//! The options of `stormlp gds`, and their conversion to a request.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use stormlp_core::numbers::whole;
use stormlp_core::operation::Operation;
use stormlp_core::path::{MemoryKind, PathKind};
use stormlp_core::transport::{DeviceId, EngineChoice, Pages, Threading};
use stormlp_core::units::{ByteSize, parse_duration, parse_size_sweep};
use stormlp_matrix::plan::{
    CacheState, Fill, Fsync, IoSize, JobRequest, KNEE_DEPTHS, KNEE_REPEAT, KNEE_THREADS,
    MatrixRequest, PathChoice, Span, Target, apply_preset,
};

use crate::commands::threads::check_wait;
use stormlp_core::failure::Failure;
use stormlp_core::note::{Cause, Note};

/// The default folder for test files.
const DEFAULT_FOLDER: &str = "stormlp-data/gds";

/// A value of `--path`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathWord {
    Auto,
    All,
    One(PathKind),
}

impl FromStr for PathWord {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "all" => Ok(Self::All),
            name => name.parse().map(Self::One),
        }
    }
}

/// A value of `--io-size`: a size, or a sweep.
#[derive(Debug, Clone)]
pub(crate) struct Sizes(Vec<u64>);

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let sizes = parse_size_sweep(text).map_err(|error| error.to_string())?;
        if sizes.iter().any(|size| size.0 == 0) {
            Err("a size of zero moves nothing".to_string())
        } else {
            Ok(Self(sizes.into_iter().map(|size| size.0).collect()))
        }
    }
}

/// The measurement options.
#[derive(Debug, Args)]
#[command(next_help_heading = "The matrix (commas separate the entries of a list)")]
pub(crate) struct MatrixArgs {
    /// Paths: gds, gds-async, gds-batch, gds-batch-stream, cpu, buffered, cpu-gpu,
    /// cpu-async-gpu, page-cache, null; or `auto` (gds, cpu-gpu, page-cache), or `all`
    /// [default: auto]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    path: Vec<PathWord>,

    /// Operations: read, write, randread, randwrite [default: read]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    op: Vec<Operation>,

    /// Transfer sizes, or sweeps such as 1M:16M:1M [default: 1M]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    io_size: Vec<Sizes>,

    /// Numbers of threads [default: 8]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = whole::<u32>(1..))]
    threads: Vec<u32>,

    /// Transfers in flight per thread; batch entries on batch paths [default: 1]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = whole::<u32>(1..))]
    queue_depth: Vec<u32>,

    /// Preset matrix: quick, data-preparation, training, inference, full; other options override
    /// its values
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,

    /// Duration of each cell [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "passes")]
    duration: Option<Duration>,

    /// Read or write the files this many times instead; all of it is measured
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..))]
    passes: Option<u32>,

    /// Warm-up of each cell before the measurement
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    warmup: Option<Duration>,

    /// Repetitions of each cell; the table shows mean ± standard deviation [default: 1]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..))]
    repeat: Option<u32>,

    /// Find the fewest transfers in flight within 2 % of the best bandwidth for each path,
    /// operation and size: increases --threads and --queue-depth [defaults: 1 to 32, 1 to 64],
    /// narrows down, and repeats the decisive cells --repeat times [default: 3]
    #[arg(long, conflicts_with = "preset")]
    find_knee: bool,

    /// Page cache before each cell: cold (files dropped), warm, as-is [default: cold]
    #[arg(long, value_name = "STATE")]
    cache: Option<CacheState>,

    /// Percentage of reads in a mix of reads and writes, on every path
    #[arg(long, value_name = "PERCENT", value_parser = whole::<u8>(0..=100))]
    read_percent: Option<u8>,
}

/// The target options.
#[derive(Debug, Args)]
#[command(next_help_heading = "Files")]
pub(crate) struct FileArgs {
    /// Folder with one file per thread; repeatable to spread threads over folders [default:
    /// ./stormlp-data/gds]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["file", "job"])]
    dir: Vec<PathBuf>,

    /// File or block device shared by all threads; repeatable
    #[arg(long, value_name = "FILE", conflicts_with = "job")]
    file: Vec<PathBuf>,

    /// Group of threads with its own bindings, such as dir=/mnt/a,device=cuda:0,numa=0,threads=8;
    /// repeatable
    #[arg(long, value_name = "KEY=VALUE,…")]
    job: Vec<JobRequest>,

    /// Size of each thread's file, or of the part of --file to use [default: that of existing
    /// files, else 1 GiB per thread, at most 8 GiB and a quarter of the free space in total; with
    /// --preset, what a cell transfers, at most a quarter of the free space]
    #[arg(long, value_name = "SIZE")]
    file_size: Option<ByteSize>,

    /// Start offset in every file
    #[arg(long, value_name = "SIZE")]
    offset: Option<ByteSize>,

    /// Data to write: once (incompressible, generated once), every (generated for every write),
    /// zero [default: once]
    #[arg(long, value_name = "HOW")]
    fill: Option<Fill>,

    /// Verify data read against the pattern written
    #[arg(long)]
    verify: bool,

    /// When to sync written files: end (within the measured time), none, or auto, which is end
    /// through the page cache and none with direct I/O [default: auto; end without a value]
    #[arg(long, value_name = "WHEN", num_args = 0..=1, default_missing_value = "end")]
    fsync: Option<Fsync>,

    /// Remove created files after the run
    #[arg(long, overrides_with = "keep")]
    remove: bool,

    /// Keep the files for the next run (this is the default)
    #[arg(long, overrides_with = "remove")]
    keep: bool,

    /// Allow writing to block devices, which destroys their data; devices in use are still refused
    #[arg(long)]
    destroy_data_on_block_devices: bool,

    /// In addition, allow overwriting a file system, partition table or array or volume member,
    /// named as by `blkid`, such as ext4 or gpt
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        requires = "destroy_data_on_block_devices"
    )]
    overwrite_signature: Vec<String>,
}

/// The I/O options.
#[derive(Debug, Args)]
#[command(next_help_heading = "Accelerator and engine")]
pub(crate) struct DeviceArgs {
    /// Accelerators: host (emulated), cuda:0, or several such as cuda:0,1 [default: the first
    /// GPU, else host]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    device: Vec<DeviceId>,

    /// Memory type of buffers: device, vmm, pinned, host, mmap (gdsio's -m) [default: device]
    #[arg(long, value_name = "KIND")]
    memory: Option<MemoryKind>,

    /// Page size for buffers in host memory: huge (if available) or small [default: huge]
    #[arg(long, value_name = "SIZE")]
    pages: Option<Pages>,

    /// Do not register buffers with cuFile
    #[arg(long)]
    no_register: bool,

    /// I/O engine for CPU paths: auto, uring, tokio-uring, psync [default: auto]
    #[arg(long, value_name = "NAME")]
    engine: Option<EngineChoice>,

    /// Transfers per submission to the kernel [default: half the depth through the page cache, else
    /// 4]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..))]
    submit_batch: Option<u32>,

    /// Seed for random offsets and the pattern [default: 0]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(..))]
    seed: Option<u64>,

    /// Do not align random offsets to 4 KiB
    #[arg(long)]
    unaligned: bool,

    /// Fail if a gds path falls back to another path
    #[arg(long)]
    require_gds: bool,

    /// cuFile statistics level during the measurement, which costs time: 0 is off, 3 reports routes
    /// [default: routes of a few transfers, before the measurement unless files are small]
    #[arg(long, value_name = "LEVEL", value_parser = whole::<u8>(0..=3))]
    cufile_stats: Option<u8>,

    /// Fail if the file system does not support O_DIRECT
    #[arg(long)]
    require_direct: bool,
}

/// Converts the options to a request.
///
/// # Errors
/// With exit code 2 if the preset does not exist, or an option has no effect.
pub(crate) fn request(
    matrix: MatrixArgs,
    files: FileArgs,
    devices: DeviceArgs,
    threads: Threading,
) -> Result<MatrixRequest, Failure> {
    let mut request = MatrixRequest::plain(PathBuf::from(DEFAULT_FOLDER));
    if let Some(name) = &matrix.preset {
        if matches!(name.as_str(), "study-a" | "study-b") {
            return Err(Failure::usage(format!(
                "`{name}` is not a preset but a set of columns: use --columns {name}"
            )));
        }
        apply_preset(name, &mut request)
            .map_err(|error| Failure::from(Note::new(Cause::Usage, error.to_string(), "")))?;
    }
    take_matrix(matrix, &mut request);
    take_files(files, &mut request);
    if request.find_knee {
        check_knee(&mut request)?;
    }
    let engine = devices.engine.is_some();
    take_devices(devices, &mut request);
    let paths = request.paths.paths();
    check_wait(&threads, paths.iter().any(|path| path.ends_in_accelerator()))?;
    request.threading = threads;
    if !request.register && !paths.iter().any(|path| path.needs_cufile()) {
        return Err(Failure::usage(
            "--no-register has no effect with --path that names none of cuFile's: leave out one",
        ));
    }
    if request.cufile_stats.is_some() && !paths.iter().any(|path| path.needs_cufile()) {
        return Err(Failure::usage(
            "--cufile-stats has no effect with --path that names none of cuFile's: leave out one",
        ));
    }
    if engine && paths.iter().all(|path| *path == PathKind::Null) {
        return Err(Failure::usage(
            "--engine has no effect with --path null: leave out one of them",
        ));
    }
    Ok(request)
}

/// Checks that a search for knees can run over the request.
fn check_knee(request: &mut MatrixRequest) -> Result<(), Failure> {
    if request.threads == KNEE_THREADS {
        // A file or folder needs at least one thread.
        let least = request.jobs.iter().filter(|job| job.threads.is_none()).count() as u32;
        request.threads.retain(|threads| *threads >= least);
    }
    if request.threads.len() == 1 && request.queue_depths.len() == 1 {
        return Err(Failure::usage(
            "--find-knee has nothing to search: --threads and --queue-depth name one setting; \
             give several of one of them, or leave out one",
        ));
    }
    Ok(())
}

fn take_matrix(args: MatrixArgs, request: &mut MatrixRequest) {
    match args.path.as_slice() {
        [] => {}
        [PathWord::Auto] => request.paths = PathChoice::Auto,
        [PathWord::All] => request.paths = PathChoice::All,
        words => {
            let named = words.iter().flat_map(|word| match word {
                PathWord::Auto => PathKind::AUTO.to_vec(),
                PathWord::All => PathKind::ALL.to_vec(),
                PathWord::One(path) => vec![*path],
            });
            request.paths = PathChoice::Named(named.collect());
        }
    }
    replace_list(&mut request.ops, args.op);
    let sizes = args.io_size.into_iter().flat_map(|sizes| sizes.0);
    replace_list(&mut request.io_sizes, sizes.map(IoSize::fixed).collect());
    if args.find_knee {
        request.find_knee = true;
        request.name = "knee".to_string();
        request.threads = KNEE_THREADS.to_vec();
        request.queue_depths = KNEE_DEPTHS.to_vec();
        request.repeat = KNEE_REPEAT;
    }
    replace_list(&mut request.threads, args.threads);
    replace_list(&mut request.queue_depths, args.queue_depth);
    replace(&mut request.span, args.duration.map(|d| Span::Seconds(d.as_secs_f64())));
    replace(&mut request.span, args.passes.map(Span::Passes));
    replace(&mut request.warmup_seconds, args.warmup.map(|d| d.as_secs_f64()));
    replace(&mut request.repeat, args.repeat);
    replace(&mut request.cache, args.cache);
    request.read_percent = args.read_percent;
}

fn take_files(args: FileArgs, request: &mut MatrixRequest) {
    let mut jobs = args.job;
    jobs.extend(args.dir.into_iter().map(|dir| JobRequest::on("", Target::Folder(dir))));
    jobs.extend(args.file.into_iter().map(|file| JobRequest::on("", Target::File(file))));
    for (index, job) in jobs.iter_mut().enumerate() {
        if job.name.is_empty() {
            job.name = format!("job{index}");
        }
    }
    replace_list(&mut request.jobs, jobs);
    request.file_size_bytes = args.file_size.map(ByteSize::bytes);
    replace(&mut request.offset_bytes, args.offset.map(ByteSize::bytes));
    replace(&mut request.fill, args.fill);
    request.verify = args.verify;
    replace(&mut request.fsync, args.fsync);
    request.keep = args.keep || !args.remove;
    request.overwrite_block_devices = args.destroy_data_on_block_devices;
    request.overwrite_signatures = args.overwrite_signature;
}

fn take_devices(args: DeviceArgs, request: &mut MatrixRequest) {
    request.devices = args.device;
    replace(&mut request.memory, args.memory);
    replace(&mut request.pages, args.pages);
    request.register = !args.no_register;
    replace(&mut request.engine, args.engine);
    request.submit_batch = args.submit_batch.or(request.submit_batch);
    replace(&mut request.seed, args.seed);
    request.unaligned = args.unaligned;
    request.require_gds = args.require_gds;
    request.cufile_stats = args.cufile_stats;
    request.require_direct = args.require_direct;
}

fn replace<T>(target: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *target = value;
    }
}

fn replace_list<T>(target: &mut Vec<T>, values: Vec<T>) {
    if !values.is_empty() {
        *target = values;
    }
}
