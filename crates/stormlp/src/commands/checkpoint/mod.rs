//! `stormlp checkpoint`: makes a plan from a model and its parallelism, and prints or runs it.

mod args;

use std::path::Path;

use stormlp_checkpoint::plan::{CheckpointFacts, CheckpointPlan, CheckpointRequest, resolve};
use stormlp_checkpoint::report::{CheckpointReport, CheckpointResults};
use stormlp_checkpoint::run::{CheckpointError, agreement, run as run_plan};
use stormlp_checkpoint::show as checkpoint;
use stormlp_checkpoint::show::{DryRun, mark, opening};
use stormlp_core::facts::HostFacts;
use stormlp_core::location::Location;
use stormlp_core::note::Cause;
use stormlp_core::report::ReportKind;
use stormlp_core::warning::{Warning, WarningKind};
use stormlp_mlperf::checkpoint::files as mlperf_files;
use stormlp_mlperf::official::OutputFile;
use stormlp_show::document::Document;

use super::deliver::OutputArgs;
use super::driver::{Lane, Outputs, Running, Start, drive};

use crate::output;
use stormlp_core::failure::Failure;
use stormlp_hosts::peers::Peers;
use stormlp_hosts::session::Session;

pub(crate) use args::Args;

/// Prints the plan or runs it.
pub(crate) fn run(args: Args, session: &Session) -> Result<(), Failure> {
    let mut request = args::request(&args)?;
    if request.closed {
        let folders = request.folders.iter().map(Location::folder);
        let other = args.mlperf_output.as_deref();
        request.results_beside_data = args.output.beside(folders, other);
    }
    let peers = session.peers(request.local_data)?;
    let asked = |_: &HostFacts| agreement::asked(&request);
    let host = agreement::host_facts(&request, session);
    let host = peers.agree_on(host, asked)?;
    if request.dry_run {
        return dry_run(&request, &host, &args.output, (&peers, session));
    }
    request.seed.get_or_insert_with(super::fresh_seed);
    let delivery = args.output.open(ReportKind::Checkpoint);
    let delivery = peers.agree(delivery)?;
    // Nothing is written before checks that need no writes have passed.
    agreement::look(&request, &host, &peers, session)?;
    let outputs = (&delivery, args.mlperf_output.as_deref());
    let outputs = Outputs::create(&request.workload.name, outputs, (&peers, session))?;
    let facts = agreement::tried(&request, &peers, session)?;
    let plan = agreement::plan(&request, &host, &facts, (&peers, session))?;
    let cufile = plan.path().needs_cufile();
    let start = Start {
        opening: output::drawn(&announced(&plan)),
        cufile: cufile.then(|| (plan.request.require_gds, plan.save.accelerators().collect())),
        hosts: peers.hosts()?,
        report: CheckpointReport::new(delivery.head(host, session), plan, Default::default()),
    };
    drive(start, Checkpoint, outputs, (&peers, session))
}

/// What a run begins with. Data about to be removed is announced first; the report repeats it.
fn announced(plan: &CheckpointPlan) -> Document {
    let earlier = |note: &&Warning| note.kind == WarningKind::EarlierCheckpoints;
    let mut opening = opening(plan);
    opening.warn(plan.warnings.iter().filter(earlier));
    opening
}

/// A checkpoint run as the driver runs it.
struct Checkpoint;

impl Lane<CheckpointPlan, CheckpointResults> for Checkpoint {
    fn run(
        &mut self,
        begun: CheckpointReport,
        on: Running<'_>,
    ) -> Result<CheckpointReport, Failure> {
        let mut on_unit = |report: &CheckpointReport| on.saver.unit(|| report.clone());
        run_plan(begun.head, &begun.plan, on.hosts, &on.surroundings, &mut on_unit)
            .map_err(CheckpointError::not_started)
    }

    fn mlperf_files(
        &self,
        report: &CheckpointReport,
        folder: &Path,
        taken: &dyn Fn(&str) -> bool,
    ) -> Vec<OutputFile> {
        mlperf_files(report, folder, taken)
    }

    fn outcome(&self, report: &CheckpointReport, saved: Option<&Path>) -> Result<(), Failure> {
        // Messages about a scaled run are marked as such.
        report.ending.outcome(saved).map_err(|failure| match mark(&report.plan) {
            Some(mark) => failure.marked(&mark),
            None => failure,
        })
    }
}

/// Prints the plan of the run, whose scale depends on a trial of the storage, with its problems, and
/// ends as the run would.
fn dry_run(
    request: &CheckpointRequest,
    host: &HostFacts,
    output: &OutputArgs,
    (peers, session): (&Peers, &Session),
) -> Result<(), Failure> {
    // Sizes can be shown without access to storage; the error of a run is shown too.
    let (facts, unseen) = match agreement::tried(request, peers, session) {
        Ok(facts) => (facts, None),
        Err(failure) if matches!(failure.cause(), Cause::Storage | Cause::Device) => {
            return Err(failure);
        }
        Err(failure) => (CheckpointFacts::default(), Some(failure.note)),
    };
    if !session.group.leads() {
        return Ok(());
    }
    let mut resolution = resolve(request, host, &facts);
    if let Some(note) = unseen {
        resolution.problems.machine(note.fact, note.remedy);
    }
    let Some(plan) = resolution.plan.as_ref().filter(|_| !resolution.has_no_valid_plan()) else {
        return Err(resolution.problems.into());
    };
    let dry_run = DryRun { plan, problems: &resolution.problems };
    output.print_plan(&dry_run, checkpoint::dry_run)?;
    if resolution.problems.is_empty() { Ok(()) } else { Err(resolution.problems.into()) }
}
