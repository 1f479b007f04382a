//! `stormlp kvcache`: runs the KV-cache workload, or computes the sizes of caches.

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
    FIRST_SERVERS, KvcacheFacts, KvcachePlan, KvcacheRequest, Model, SizeRequest, TraceFacts,
    resolve, size,
};
use stormlp_kvcache::report::{KvcacheReport, KvcacheResults, ended, nothing};
use stormlp_kvcache::run::find_max::{self as search, SearchInput};
use stormlp_kvcache::run::{self, KvcacheError, ScanDepth, agreement, scan, scan_trace};
use stormlp_kvcache::show::{self, dry_run, opening};
use stormlp_mlperf::kvcache::files as mlperf_files;
use stormlp_mlperf::official::OutputFile;

use super::deliver::OutputArgs;
use super::driver::{Lane, Outputs, Running, Start, drive};
use crate::hosts::Needs;
use crate::output::{self, Format};

/// Where objects are without `--dir`.
const DEFAULT_FOLDER: &str = "stormlp-data/kvcache";

/// Arguments of `stormlp kvcache`.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  stormlp kvcache --dir /mnt/nvme/kv                      option 1: llama3.1-8b, 200 users, 300 s
  stormlp kvcache --option 3 --dir /mnt/nvme/kv --trials 3
                                                          the 70B model, three times
  stormlp kvcache --closed --dir /mnt/nvme/kv --results-dir /home/me/results
                                                          all options as MLPerf fixes them, 50 min
  stormlp kvcache --trace BurstGPT_1.csv --speed 10       requests of a trace, ten times as fast
  stormlp kvcache --profile serving --prefill-rate 20000 --find-max --dir /mnt/nvme/kv
                                                          how many such servers storage feeds
  mpirun -n 4 stormlp kvcache --dir /mnt/shared/kv        four hosts, each with its users and rank_N
  stormlp kvcache size llama3.1-70b-instruct              bytes a token, and what users ask for

Sizes: K, M, G are powers of 1024, kB, MB, GB powers of 1000. The report is saved under
./stormlp-results (see --results-dir). Objects are removed at the end, unless --keep is given."
)]
pub(crate) struct Args {
    #[command(flatten)]
    request: KvcacheRequest,

    #[command(flatten)]
    output: OutputArgs,

    /// Also write the files of MLPerf's client to a folder of the run: kvcache_results_*.json,
    /// summary.json, metadata
    #[arg(long, value_name = "DIR", help_heading = "Results", conflicts_with_all = [
        "dry_run", "trace", "find_max",
    ])]
    mlperf_output: Option<PathBuf>,

    #[command(subcommand)]
    what: Option<What>,
}

/// What is done instead of a run.
#[derive(Debug, clap::Subcommand)]
enum What {
    /// Compute the size of a model's KV caches.
    Size(SizeArgs),
}

/// Arguments of `stormlp kvcache size`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp kvcache size                                    llama3.1-8b
  stormlp kvcache size llama3.1-70b-instruct --tokens 131072 --capacity 8T
                                                          a long context, and how many fit
  stormlp kvcache size qwen3-32b --format json            for a program

Sizes: K, M, G, T are powers of 1024, kB, MB, GB, TB powers of 1000.")]
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
        match self.what {
            Some(What::Size(_)) => Needs::OneProcess("kvcache size"),
            None if self.request.find_max => Needs::OneProcess("kvcache --find-max"),
            None => Needs::Group,
        }
    }

    /// Whether a signal lets it end with partial results.
    pub(crate) fn keeps_what_it_has(&self) -> bool {
        self.what.is_none() && !self.request.dry_run
    }
}

/// Runs the workload, prints its plan, or computes sizes.
///
/// # Errors
/// With exit code 3 or 4 if it cannot run, or why it ended early.
pub(crate) fn run(args: Args, session: &Session) -> Result<(), Failure> {
    if let Some(What::Size(args)) = args.what {
        let answer = size(&args.request).map_err(|error| Failure::saying(Cause::Plan, error))?;
        return args.format.print(&answer, show::size);
    }
    let mut request = args.request;
    request.command = Session::command_line();
    request.lists_requests = args.mlperf_output.is_some();
    let folder = request.folder.get_or_insert_with(|| DEFAULT_FOLDER.into()).clone();
    let places = || [folder.folder()].into_iter();
    // If there are other processes, they are told the result.
    let peers = session.peers(request.local_storage)?;
    let path = request.serving.path.unwrap_or_default();
    let device = request.serving.device.as_ref();
    let host = session.facts_of_path(path, device, std::slice::from_ref(&folder));
    let host = peers.agree_on(host, |_| agreement::asked(&request))?;
    request.rank = (!peers.is_alone()).then(|| session.group.rank());
    if request.dry_run && request.find_max {
        request.threads = Some(FIRST_SERVERS);
        output::say(format!(
            "--find-max: this is its first run, of {FIRST_SERVERS} servers; its result decides which \
             numbers are tried next"
        ));
    }
    let beside = args.output.beside(places(), args.mlperf_output.as_deref());
    let trace = peers.agree_on(trace_of(&request, session), same_trace)?;
    let own_folder = request.own_folder();
    let plan = |look: ScanDepth| {
        let facts =
            scan(&*session.storage, &own_folder, look).map_err(KvcacheError::not_started)?;
        let facts = agreement::share(KvcacheFacts { trace: trace.clone(), ..facts }, &peers);
        Ok::<_, Failure>(resolve(&request, &host, Some(&facts), &beside))
    };
    if request.find_max && !request.dry_run {
        return find_max(args.output, &request, &host, (&peers, session));
    }
    if request.dry_run {
        // One for all of them.
        let shown = session
            .group
            .leads()
            .then(|| args.output.dry_run(plan(ScanDepth::Only)?, request.closed, dry_run));
        return shown.unwrap_or(Ok(()));
    }
    // Nothing is written before checks that need no writes have passed.
    peers.agree(plan(ScanDepth::Only).and_then(|one| Ok(one.planned()?)))?;
    peers.check_shared(&session.storage.nearest(folder.folder())?)?;
    let delivery = peers.agree(args.output.open(ReportKind::Kvcache))?;
    let mut plan = peers.agree(plan(ScanDepth::AndTry).and_then(|one| Ok(one.planned()?)))?;
    plan.warnings.extend(peers.local_warning("has its objects on storage of its own"));
    plan.warnings.extend(peers.warnings());
    let name = if plan.request.closed { "closed".to_string() } else { plan.name() };
    let outputs = (&delivery, args.mlperf_output.as_deref());
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
/// Those of a run, and with exit code 6 if not even one server is fed.
fn find_max(
    output: OutputArgs,
    request: &KvcacheRequest,
    host: &HostFacts,
    (peers, session): (&Peers, &Session),
) -> Result<(), Failure> {
    let folder = request.own_folder();
    let look =
        |look: ScanDepth| scan(&*session.storage, &folder, look).map_err(KvcacheError::not_started);
    // Nothing is written before checks that need no writes have passed.
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
            output::say("the files of MLPerf's client are not written: nothing was measured");
            return Vec::new();
        }
        mlperf_files(report, taken)
    }

    fn outcome(&self, report: &KvcacheReport, saved: Option<&Path>) -> Result<(), Failure> {
        ended(report, saved)
    }
}

/// What cuFile needs to know before it opens, if chunks move through it.
fn cufile(plan: &KvcachePlan) -> Option<(bool, Vec<DeviceId>)> {
    let devices = || plan.transport.accelerators().collect();
    plan.transport.path.needs_cufile().then(|| (plan.request.serving.require.is_some(), devices()))
}

/// What a trace must have in common on all hosts: each reads its own file.
fn same_trace(trace: &Option<TraceFacts>) -> Vec<ConsistencyField> {
    let told =
        |trace: &TraceFacts| format!("{} of {}", counted(trace.entries, "line"), trace.format);
    let trace = trace.as_ref().map_or("none".to_string(), told);
    vec![("trace".to_string(), trace)]
}

/// What the trace asks for, if one is to be replayed.
///
/// # Errors
/// If it cannot be read. What is wrong in it is a problem of the plan.
fn trace_of(request: &KvcacheRequest, session: &Session) -> Result<Option<TraceFacts>, Failure> {
    let Some(file) = &request.trace else { return Ok(None) };
    // An unknown model is a problem of the plan.
    let Ok(model) = Model::named(request.model_of_trace()) else { return Ok(None) };
    let found =
        scan_trace(&*session.storage, file.folder(), &model, request.serving.block_tokens());
    let help = "name the file of a trace that you may read: --trace FILE";
    found.map(Some).map_err(|error| error.not_started().with_help(help))
}
