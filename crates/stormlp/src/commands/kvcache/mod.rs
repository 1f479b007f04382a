//! `stormlp kvcache`: runs one of the KV-cache workloads, or computes the sizes of caches.

use std::path::{Path, PathBuf};

use stormlp_core::difference::ConsistencyField;
use stormlp_core::facts::HostFacts;
use stormlp_core::failure::Failure;
use stormlp_core::note::Cause;
use stormlp_core::report::ReportKind;
use stormlp_core::transport::DeviceId;
use stormlp_core::units::counted;
use stormlp_hosts::peers::Peers;
use stormlp_hosts::session::Session;
use stormlp_kvcache::plan::{
    FIRST_SERVERS, KvcacheFacts, KvcachePlan, KvcacheRequest, KvcacheWorkload, MlperfRequest,
    Model, ReplayRequest, RunRequest, ServingRequest, SizeRequest, TraceFacts, resolve, size,
};
use stormlp_kvcache::report::{KvcacheReport, KvcacheResults, ended, nothing};
use stormlp_kvcache::run::find_max::{self as search, SearchInput};
use stormlp_kvcache::run::{self, KvcacheError, ScanDepth, agreement, scan, scan_trace};
use stormlp_kvcache::show::{self, dry_run, opening};
use stormlp_mlperf::kvcache::files as mlperf_files;
use stormlp_mlperf::official::OutputFile;

use super::deliver::OutputArgs;
use super::driver::{Lane, Outputs, Running, Start, drive};
use super::idle::{OPEN_DRY_RUN, refuse};
use super::workloads::Owner;
use crate::hosts::Needs;
use crate::output::{self, Format};

/// Where objects are without `--dir`.
const DEFAULT_FOLDER: &str = "stormlp-data/kvcache";

/// Arguments of `stormlp kvcache`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp kvcache serving --dir /mnt/nvme/kv --prefill-rate 20000
  stormlp kvcache mlperf --dir /mnt/nvme/kv
  stormlp kvcache replay BurstGPT_1.csv --dir /mnt/nvme/kv")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Run the benchmark of MLPerf Storage v3.0
    #[command(after_help = "\
Examples:
  stormlp kvcache mlperf --dir /mnt/nvme/kv --capacity 500G
  stormlp kvcache mlperf --dir /mnt/nvme/kv --closed        all options, 50 min
  mpirun -n 4 stormlp kvcache mlperf --dir /mnt/shared/kv   four hosts")]
    Mlperf(Box<MlperfArgs>),
    /// Load prefixes as vLLM with LMCache does
    #[command(after_help = "\
Examples:
  stormlp kvcache serving --dir /mnt/nvme/kv --prefill-rate 20000 --path cpu
  stormlp kvcache serving --dir /mnt/nvme/kv --prefill-rate 20000 --find-max
  stormlp kvcache serving --dir s3://bucket/kv --prefill-rate 20000")]
    Serving(Box<RunArgs<ServingRequest>>),
    /// Replay a trace of MLPerf's client, BurstGPT or Mooncake
    #[command(after_help = "\
Examples:
  stormlp kvcache replay kv_ops.csv llama3.1-70b-instruct --dir /mnt/nvme/kv
  stormlp kvcache replay BurstGPT_1.csv --dir /mnt/nvme/kv --speed 10
  stormlp kvcache replay mooncake.jsonl --dir /mnt/nvme/kv --prefill-rate 20000")]
    Replay(Box<RunArgs<ReplayRequest>>),
    /// Show the size of a model's KV caches
    Size(SizeArgs),
}

/// A run of one workload.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs<W: clap::Args> {
    #[command(flatten)]
    workload: W,

    #[command(flatten)]
    run: RunRequest,

    #[command(flatten)]
    output: OutputArgs,
}

/// Arguments of `stormlp kvcache mlperf`.
#[derive(Debug, clap::Args)]
pub(crate) struct MlperfArgs {
    #[command(flatten)]
    of_run: RunArgs<MlperfRequest>,

    /// Also write the files of MLPerf's client to DIR
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    mlperf_output: Option<PathBuf>,
}

/// Arguments of `stormlp kvcache size`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp kvcache size llama3.1-70b-instruct
  stormlp kvcache size qwen3-32b --tokens 131072 --capacity 8T
  stormlp kvcache size qwen3-32b --format json")]
pub(crate) struct SizeArgs {
    #[command(flatten)]
    request: SizeRequest,

    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

impl Args {
    /// How it deals with other processes.
    pub(crate) fn needs(&self) -> Needs {
        match &self.what {
            What::Size(_) => Needs::OneProcess("kvcache size"),
            What::Serving(args) if args.workload.find_max => {
                Needs::OneProcess("kvcache serving --find-max")
            }
            _ => Needs::Group,
        }
    }

    /// Whether a signal lets it end with partial results.
    pub(crate) fn keeps_what_it_has(&self) -> bool {
        match &self.what {
            What::Mlperf(args) => !args.of_run.run.dry_run,
            What::Serving(args) => !args.run.dry_run,
            What::Replay(args) => !args.run.dry_run,
            What::Size(_) => false,
        }
    }
}

/// Runs the workload, prints its plan, or computes sizes.
///
/// # Errors
/// With exit code 3 or 4 if it cannot run, or why it ended early.
pub(crate) fn run(args: Args, session: &Session) -> Result<(), Failure> {
    let (workload, run, output, mlperf) = match args.what {
        What::Size(args) => {
            Owner::KvCache.check(&args.request.model)?;
            let answer =
                size(&args.request).map_err(|error| Failure::saying(Cause::Plan, error))?;
            return args.format.print(&answer, show::size);
        }
        What::Mlperf(args) => {
            let MlperfArgs { of_run: RunArgs { workload, run, output }, mlperf_output } = *args;
            let tune = &workload.tune;
            let fixed = [
                ("--tune seed", tune.run.seed.is_some()),
                ("--tune concurrent-writes", tune.concurrent_writes.is_some()),
                ("--tune cpu-cache", tune.cpu_cache_bytes.is_some()),
                ("--tune pause", tune.pause_seconds.is_some()),
            ];
            refuse(
                &fixed.map(|(key, is_given)| (key, is_given && workload.closed)),
                "with --closed",
            )?;
            let idle = mlperf_output.is_some() && run.dry_run && !workload.closed;
            refuse(&[("--mlperf-output", idle)], OPEN_DRY_RUN)?;
            (KvcacheWorkload::Mlperf(workload), run, output, mlperf_output)
        }
        What::Serving(args) => {
            let RunArgs { workload, run, output } = *args;
            let confirms = workload.tune.confirm.is_some() && !workload.find_max;
            refuse(&[("--tune confirm", confirms)], "without --find-max")?;
            (KvcacheWorkload::Serving(workload), run, output, None)
        }
        What::Replay(args) => (KvcacheWorkload::Replay(args.workload), args.run, args.output, None),
    };
    let command = Session::command_line();
    let lists_requests = mlperf.is_some();
    let request = KvcacheRequest { workload, run, command, lists_requests, rank: None };
    Owner::KvCache.check(request.model())?;
    run_workload(request, output, mlperf, session)
}

/// Runs a workload, or prints its plan.
fn run_workload(
    mut request: KvcacheRequest,
    output: OutputArgs,
    mlperf_output: Option<PathBuf>,
    session: &Session,
) -> Result<(), Failure> {
    let folder = request.run.folder.get_or_insert_with(|| DEFAULT_FOLDER.into()).clone();
    // Other processes receive the result.
    let peers = session.peers(request.run.local_storage)?;
    let chunks = request.chunks();
    let path = chunks.and_then(|(chunks, _)| chunks.path).unwrap_or_default();
    let device = chunks.and_then(|(chunks, _)| chunks.device.as_ref());
    let host = session.facts_of_path(path, device, std::slice::from_ref(&folder));
    let host = peers.agree_on(host, |_| agreement::asked(&request))?;
    request.rank = (!peers.is_alone()).then(|| session.group.rank());
    if let (true, KvcacheWorkload::Serving(serving)) = (request.run.dry_run, &mut request.workload)
        && serving.find_max
    {
        serving.chunks.concurrency = Some(FIRST_SERVERS);
        output::say(format!(
            "--find-max: this is its first run, of {FIRST_SERVERS} servers; the result decides the \
             next number"
        ));
    }
    let beside = output.beside([folder.folder()], mlperf_output.as_deref());
    let trace = peers.agree_on(trace_of(&request, session), same_trace)?;
    let own_folder = request.own_folder();
    let plan = |look: ScanDepth| {
        let facts =
            scan(&*session.storage, &own_folder, look).map_err(KvcacheError::not_started)?;
        let facts = agreement::share(KvcacheFacts { trace: trace.clone(), ..facts }, &peers);
        Ok::<_, Failure>(resolve(&request, &host, Some(&facts), &beside))
    };
    if request.finds_max() && !request.run.dry_run {
        return find_max(output, &request, &host, (&peers, session));
    }
    if request.run.dry_run {
        // One for all of them.
        let shown = session
            .group
            .leads()
            .then(|| output.dry_run(plan(ScanDepth::Only)?, request.is_closed(), dry_run));
        return shown.unwrap_or(Ok(()));
    }
    // No file is written before checks that need no writes have passed.
    peers.agree(plan(ScanDepth::Only).and_then(|one| Ok(one.planned()?)))?;
    peers.check_shared(&session.storage.nearest(folder.folder())?)?;
    let delivery = peers.agree(output.open(ReportKind::Kvcache))?;
    let mut plan = peers.agree(plan(ScanDepth::AndTry).and_then(|one| Ok(one.planned()?)))?;
    plan.warnings.extend(peers.local_warning("has its objects on storage of its own"));
    plan.warnings.extend(peers.warnings());
    let name = if plan.request.is_closed() { "closed".to_string() } else { plan.name() };
    let outputs = (&delivery, mlperf_output.as_deref());
    let outputs = Outputs::create(&name, outputs, (&peers, session))?;
    let start = Start {
        opening: output::drawn(&opening(&plan)),
        cufile: cufile(&plan),
        hosts: peers.hosts()?,
        report: KvcacheReport::new(delivery.head(host, session), plan, Default::default()),
    };
    drive(start, Kvcache, outputs, (&peers, session))
}

/// Runs the search.
///
/// # Errors
/// The errors of a run, and with exit code 6 if not even one server is fed.
fn find_max(
    output: OutputArgs,
    request: &KvcacheRequest,
    host: &HostFacts,
    (peers, session): (&Peers, &Session),
) -> Result<(), Failure> {
    let folder = request.own_folder();
    let look =
        |look: ScanDepth| scan(&*session.storage, &folder, look).map_err(KvcacheError::not_started);
    // No file is written before checks that need no writes have passed.
    let facts = look(ScanDepth::Only)?;
    SearchInput { request, host, facts: &facts }.first()?;
    let delivery = output.open(ReportKind::Kvcache)?;
    let facts = look(ScanDepth::AndTry)?;
    let asked = SearchInput { request, host, facts: &facts };
    let first = asked.first()?;
    let mut saver = delivery.saver(&format!("{}-find-max", first.name()), peers, session)?;
    if let Some((require_gds, devices)) = cufile(&first) {
        saver.prepare_cufile(require_gds, devices, host);
    }
    if !session.quiet {
        output::say_page(&output::drawn(&opening(&first)));
    }
    let head = delivery.head(host.clone(), session);
    let report = search::find_max(&asked, (head, session), &mut saver)?;
    let outcome = |saved: Option<&Path>| search::ended(&report, saved);
    delivery.finish(saver, &report, session, outcome)
}

/// A run of the KV-cache workload as the driver runs it.
struct Kvcache;

impl Lane<KvcachePlan, KvcacheResults> for Kvcache {
    fn run(&mut self, begun: KvcacheReport, on: Running<'_>) -> Result<KvcacheReport, Failure> {
        let mut on_unit = |report: &KvcacheReport| on.saver.unit(|| report.clone());
        run::run(on.hosts, (begun.head, &begun.plan), &on.surroundings, &mut on_unit)
            .map_err(KvcacheError::not_started)
    }

    fn mlperf_files(
        &self,
        report: &KvcacheReport,
        _folder: &Path,
        taken: &dyn Fn(&str) -> bool,
    ) -> Vec<OutputFile> {
        if nothing(report).is_some() {
            output::say("the files of MLPerf's client are not written: there is no measurement");
            return Vec::new();
        }
        mlperf_files(report, taken)
    }

    fn outcome(&self, report: &KvcacheReport, saved: Option<&Path>) -> Result<(), Failure> {
        ended(report, saved)
    }
}

/// The facts that cuFile needs before it opens, if chunks move through it.
fn cufile(plan: &KvcachePlan) -> Option<(bool, Vec<DeviceId>)> {
    let devices = || plan.transport.accelerators().collect();
    plan.transport.path.needs_cufile().then(|| (plan.request.requires_gds(), devices()))
}

/// The facts of a trace that must agree on all hosts: each reads a separate file.
fn same_trace(trace: &Option<TraceFacts>) -> Vec<ConsistencyField> {
    let told =
        |trace: &TraceFacts| format!("{} of {}", counted(trace.entries, "line"), trace.format);
    let trace = trace.as_ref().map_or("none".to_string(), told);
    vec![("trace".to_string(), trace)]
}

/// The facts of the trace, if one is to be replayed.
///
/// # Errors
/// If it cannot be read. A fault in it is a problem of the plan.
fn trace_of(request: &KvcacheRequest, session: &Session) -> Result<Option<TraceFacts>, Failure> {
    let KvcacheWorkload::Replay(replay) = &request.workload else { return Ok(None) };
    // An unknown model is a problem of the plan.
    let Ok(model) = Model::named(request.model()) else { return Ok(None) };
    let (file, block_tokens) = (replay.trace.folder(), replay.chunks.block_tokens());
    let found = scan_trace(&*session.storage, file, &model, block_tokens);
    let help = "name a trace that you may read: `stormlp kvcache replay FILE`";
    found.map(Some).map_err(|error| error.not_started().with_help(help))
}
