//! `stormlp gds`: makes a plan from arguments, facts and files, and prints or runs it.

mod args;
mod finish;
mod hosts;
mod resume;

use std::path::PathBuf;

use stormlp_core::facts::HostFacts;
use stormlp_core::path::PathKind;
use stormlp_core::report::ReportKind;
use stormlp_core::transport::Threading;
use stormlp_hosts::company::Company;
use stormlp_matrix::plan::{
    MatrixPlan, MatrixReport, MatrixRequest, MatrixResults, PathChoice, resolve,
};
use stormlp_matrix::show as matrix;
use stormlp_transfer::probe;

use super::deliver::{ColumnsArg, Delivery, OutputArgs, Savers};
use super::detached::DetachedArgs;
use crate::session::Session;
use stormlp_core::failure::Failure;

use resume::Saved;

pub(crate) use finish::{Run, execute};

/// Arguments of `stormlp gds`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp gds --io-size 1M --threads 8          the paths of this machine, one table
  stormlp gds --preset training --dir /mnt/nvme --export training.md
  stormlp gds --path gds,cpu-gpu --op read,write --io-size 4K,1M,16M --threads 1,16 \\
      --repeat 3 --baseline before/report.json
  stormlp gds --find-knee --path cpu --io-size 64K,1M --dir /mnt/nvme
                                                the fewest in flight that reach the best
  mpirun -n 4 --map-by ppr:1:node --bind-to none stormlp gds --dir /shared/gds
      four hosts at once, each with files of its own in the folder

Sizes: K, M, G are powers of 1024, kB, MB, GB powers of 1000. The report is saved under
./stormlp-results (see --results-dir); `stormlp report` shows it again.")]
pub(crate) struct Args {
    #[command(flatten)]
    matrix: args::MatrixArgs,

    #[command(flatten)]
    files: args::FileArgs,

    #[command(flatten)]
    devices: args::DeviceArgs,

    #[command(flatten)]
    threads: Threading,

    #[command(flatten)]
    detached: DetachedArgs,

    /// Folders and files are local to each host, so results do not describe shared storage
    #[arg(long, help_heading = "Several hosts")]
    local_data: bool,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    columns: ColumnsArg,

    /// Print the plan and exit
    #[arg(long, conflicts_with = "columns")]
    dry_run: bool,

    /// Continue the matrix of a saved report without repeating completed cells. Use the same
    /// options and, on several hosts, the same launcher
    #[arg(long, value_name = "REPORT", conflicts_with_all = ["results_dir", "start_at"])]
    resume: Option<PathBuf>,
}

impl Args {
    /// The option that rules out storage impairment: a resumed report could not say which of its
    /// cells were impaired.
    pub(crate) fn refuses_impairment(&self) -> Option<&'static str> {
        let resumed = self.resume.as_ref().map(|_| "--resume");
        resumed.or(self.dry_run.then_some("--dry-run"))
    }
}

/// A matrix ready to run.
struct Prepared {
    plan: MatrixPlan,
    facts: HostFacts,
}

/// Runs the matrix.
pub(crate) fn run(args: Args, session: &Session) -> Result<(), Failure> {
    let columns = args.columns.columns;
    // If there are other processes, they are told the result.
    let begins = args.detached.check(session);
    let party = session.party(args.local_data)?;
    let request = args::request(args.matrix, args.files, args.devices, args.threads);
    let request = begins.and(request);
    let resume = args.resume.as_deref();
    let saved =
        resume.filter(|_| session.group.leads()).map(|path| Saved::read(path, &party)).transpose();
    let (saved, request) = match saved {
        Ok(saved) => (saved, request),
        Err(failure) => (None, Err(failure)),
    };
    let telemetry = args.output.telemetry();
    let request =
        request.map(|request| MatrixRequest { resumes: resume.is_some(), telemetry, ..request });
    let prepared = hosts::prepare(request, (args.dry_run, resume), &party, session)?;
    if args.dry_run {
        let layouts = party.exchange(&prepared.plan.layout())?;
        return if session.group.leads() {
            (args.output).print_plan(&prepared.plan, false, |plan| matrix::plan(plan, &layouts))
        } else {
            Ok(())
        };
    }
    let delivery = args.output.open(ReportKind::Gds, columns);
    let delivery = party.agree(delivery)?;
    let mut run = match resume {
        Some(path) => resume::go_on(path, saved, prepared, &party, &delivery, session)?,
        None => {
            let savers = delivery.savers(&prepared.plan.name, &party, session)?;
            start(prepared.plan, prepared.facts, savers, &delivery, session)
        }
    };
    if args.detached.company().is_alone() {
        run = run.resumable(resume.is_some(), session);
    }
    args.detached.mark(&mut run.report.head);
    args.detached.announce(session);
    let others = party.hosts(run.savers.parts_folder())?;
    for warning in hosts::warnings(&party) {
        run.report.warn(warning);
    }
    run.report.results.group = others.as_ref().map(|hosts| hosts.facts.clone());
    let company = others.as_ref().map_or(args.detached.company(), Company::Hosts);
    execute(run, company, &delivery, session)
}

/// The facts needed by a request; GPU libraries are probed only for paths that use them.
pub(crate) fn host_facts(request: &MatrixRequest, session: &Session) -> Result<HostFacts, Failure> {
    let asks_libraries = |path: &PathKind| path.ends_in_accelerator();
    let directory = session.storage.nearest(request.jobs[0].target.path());
    let directory = if directory.is_dir() {
        directory.as_path()
    } else {
        directory.parent().unwrap_or(directory.as_path())
    };
    let mut facts = if request.paths.paths().iter().any(asks_libraries) {
        session.host_facts(Some(directory))?
    } else {
        probe::host_facts()
    };
    let targets = request.jobs.iter().map(|job| job.target.path().as_path());
    facts.storage = probe::storage_of_run(targets);
    Ok(facts)
}

/// Plans a request on this machine.
///
/// # Errors
/// With exit code 3 or 4 and all problems.
pub(crate) fn plan(request: &MatrixRequest, facts: &HostFacts) -> Result<MatrixPlan, Failure> {
    let inventory = stormlp_matrix::run::scan::inventory(request, 1);
    Ok(resolve(request, facts, &inventory)?)
}

/// Starts a run of a new plan, saved by `savers`.
pub(crate) fn start(
    plan: MatrixPlan,
    facts: HostFacts,
    savers: Savers,
    delivery: &Delivery,
    session: &Session,
) -> Run {
    let head = delivery.head(facts, session);
    let mut report = MatrixReport::new(head, plan, MatrixResults::default());
    report.warnings.clone_from(&report.plan.warnings);
    Run { report, savers, own: Vec::new(), resume_with: None }
}

/// Whether the user named the paths of a plan, so that an unavailable one is an error.
fn names_paths(plan: &MatrixPlan) -> bool {
    matches!(plan.paths, PathChoice::Named(_))
}
