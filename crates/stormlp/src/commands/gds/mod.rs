//! `stormlp gds`: arguments, facts and files become a plan; the plan is printed or run.

mod args;
mod finish;
mod resume;
pub(crate) mod scan;

use std::path::PathBuf;

use stormlp_model::facts::HostFacts;
use stormlp_model::matrix::{
    MatrixPlan, MatrixReport, MatrixRequest, MatrixResults, PathChoice, resolve,
};
use stormlp_model::path::PathKind;
use stormlp_model::report::ReportKind;
use stormlp_report::matrix;
use stormlp_transfer::probe;

use super::deliver::{ColumnsArg, Delivery, OutputArgs};
use super::threads::ThreadArgs;
use crate::exit::Failure;
use crate::session::Session;

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
    threads: ThreadArgs,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    columns: ColumnsArg,

    /// Print the plan and stop
    #[arg(long, conflicts_with = "columns")]
    dry_run: bool,

    /// Continue the matrix of a saved report: what is measured already is not measured again.
    /// Give the options that it was begun with
    #[arg(long, value_name = "REPORT", conflicts_with = "results_dir")]
    resume: Option<PathBuf>,
}

impl Args {
    /// The option that keeps storage from being impaired: a resumed report could not say which of
    /// its cells were measured so.
    pub(crate) fn refuses_impairment(&self) -> Option<&'static str> {
        let resumed = self.resume.as_ref().map(|_| "--resume");
        resumed.or(self.dry_run.then_some("--dry-run"))
    }
}

/// Runs the matrix.
pub(crate) fn run(args: Args, session: &Session) -> Result<(), Failure> {
    let columns = args.columns.columns;
    let saved = args.resume.as_deref().map(Saved::read).transpose()?;
    let mut request = args::request(args.matrix, args.files, args.devices, &args.threads)?;
    request.resumes = saved.is_some();
    request.telemetry = args.output.telemetry();
    let facts = host_facts(&request, session)?;
    let plan = plan(&request, &facts)?;
    if args.dry_run {
        return args.output.print_plan(&plan, false, matrix::plan);
    }
    let delivery = args.output.open(ReportKind::Gds, columns)?;
    let run = match saved {
        Some(saved) => saved.resume(plan, facts, &delivery, session)?,
        None => start(plan, facts, &delivery, session)?.resumable(session),
    };
    execute(run, &delivery, session)
}

/// The facts a request needs; the GPU libraries are asked only for paths that use them.
pub(crate) fn host_facts(request: &MatrixRequest, session: &Session) -> Result<HostFacts, Failure> {
    let asks_libraries = |path: &PathKind| path.ends_in_accelerator();
    let directory = session.storage.nearest(request.jobs[0].target.path());
    let directory = match directory.is_dir() {
        true => directory.as_path(),
        false => directory.parent().unwrap_or(directory.as_path()),
    };
    let mut facts = match request.paths.paths().iter().any(asks_libraries) {
        true => session.host_facts(Some(directory))?,
        false => probe::host_facts(),
    };
    let targets = request.jobs.iter().map(|job| job.target.path().as_path());
    facts.storage = probe::storage_of_run(targets);
    Ok(facts)
}

/// The plan of a request on this machine.
///
/// # Errors
/// With exit code 3 or 4 and everything that is wrong.
pub(crate) fn plan(request: &MatrixRequest, facts: &HostFacts) -> Result<MatrixPlan, Failure> {
    let inventory = scan::inventory(request);
    Ok(resolve(request, facts, &inventory)?)
}

/// A run of a fresh plan, with a folder for its report.
pub(crate) fn start(
    plan: MatrixPlan,
    facts: HostFacts,
    delivery: &Delivery,
    session: &Session,
) -> Result<Run, Failure> {
    let saver = delivery.saver(&plan.name, session)?;
    let head = delivery.head(facts, session);
    let mut report = MatrixReport::new(head, plan, MatrixResults::default());
    report.warnings.clone_from(&report.plan.warnings);
    Ok(Run {
        report,
        saver,
        resume_with: None,
    })
}

/// Whether the user named the paths of a plan, so that one that cannot run is an error.
fn names_paths(plan: &MatrixPlan) -> bool {
    matches!(plan.paths, PathChoice::Named(_))
}
