//! `stormlp train WORKLOAD`: makes a plan from workload, options, host and dataset, and prints or
//! runs it.

mod args;
mod find_max;
mod kept;

use std::path::{Path, PathBuf};

use stormlp_core::facts::HostFacts;
use stormlp_core::location::Location;
use stormlp_core::profile::Profile;
use stormlp_core::report::{Head, ReportKind};
use stormlp_hosts::company::Hosts;
use stormlp_mlperf::submission::{Edition, SCORED_RUNS};
use stormlp_training::plan::request::TrainRequest;
use stormlp_training::plan::train_plan::TrainPlan;
use stormlp_training::plan::workload::Workload;
use stormlp_training::report::TrainReport;
use stormlp_training::run as training;
use stormlp_training::run::{Course, SoFar, Unit};
use stormlp_transfer::probe;
use stormlp_transfer::surroundings::Surroundings;

use stormlp_show::document::{Columns, Document};

use self::kept::Kept;
use super::deliver::{self, Delivery, OutputArgs};
use super::submission::rehearsed;
use super::submission::rehearsed::RehearsedTree;
use crate::hosts::Needs;
use stormlp_core::failure::Failure;
use stormlp_hosts::fate::{blame_launcher, shared_fate};
use stormlp_hosts::party::Party;
use stormlp_hosts::session::Session;
use stormlp_training::report::outcome::outcome;
use stormlp_training::run::agreement;
use stormlp_training::run::start::{Asked, Prepared, lock};
use stormlp_transfer::object::ObjectRules;

/// Arguments of `stormlp train`.
#[derive(Debug, clap::Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "\
Examples:
  stormlp train unet3d
      starter dataset in ./stormlp-data/unet3d and one emulated H100, about a minute
  stormlp train resnet50 --accelerator a100 -n 8 --data-dir /mnt/nvme/resnet50 --cold
      eight A100s on a dataset from `stormlp datagen` or DLIO, uncached in each epoch
  stormlp train unet3d --storage null -n 16 --steps 20
      upper limit of this host with infinitely fast storage
  stormlp train unet3d --data-dir /mnt/nvme/unet3d --find-max
      most H100s that storage feeds: a short read, a few probes, two full runs
  mpirun -n 4 --map-by ppr:1:node --bind-to none stormlp train unet3d -n 8 --data-dir /shared/unet3d
      32 accelerators on four hosts, eight on each

Exit code 0 if AU reached the workload's threshold, 6 if not. Sizes: K, M, G are
powers of 1024, kB, MB, GB powers of 1000."
)]
pub(crate) struct Args {
    #[command(flatten)]
    request: TrainRequest,

    #[command(flatten)]
    output: OutputArgs,

    /// Also write the output files of DLIO and mlpstorage: summary.json, per-epoch files,
    /// configuration, metadata
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    mlperf_output: Option<PathBuf>,

    /// The tree of a rehearsal, used instead of the output files above.
    #[arg(skip)]
    rehearsal: Option<RehearsedTree>,

    /// Print the plan and exit, without reading or generating data
    #[arg(long, conflicts_with = "mlperf_output")]
    pub(crate) dry_run: bool,
}

/// Runs the workload.
pub(crate) fn run(args: Args, session: &Session) -> Result<(), Failure> {
    let party = session.party(args.request.local_data)?;
    let mut asked = party.agree(asked(&args, session))?;
    if args.request.find_max {
        return find_max::run(args, asked, &party, session);
    }
    let options = agreement::asked(&asked.request);
    agreement::ask(&party, &mut asked.request, session)?;
    let beside = |folder: &Path| args.output.beside([folder], args.mlperf_output.as_deref());
    let prepared = asked.prepare(beside, &party, session);
    let promises = |one: &Prepared| {
        let decided = agreement::promises(&one.plan, &one.data.inventory);
        // The decided values are more specific than the options.
        [decided, options].concat()
    };
    let mut prepared = party.agree_on(prepared, promises)?;
    let tree = args.rehearsal.as_ref();
    let Some(first_run) = kept::first_run(tree, args.dry_run, &mut prepared, session)? else {
        return Ok(());
    };
    if args.dry_run {
        let leads = session.group.leads();
        return if leads { print_plan(&args, &prepared, session, |_| ()) } else { Ok(()) };
    }
    let folder = prepared.plan.data.folder.as_ref().map(Location::folder);
    if let Some(folder) = folder {
        party.check_shared(folder)?;
    }
    run_prepared(args, prepared, first_run, &party, session)
}

/// The request of the command line for this host.
fn asked(args: &Args, session: &Session) -> Result<Asked, Failure> {
    let workload = args::workload(&args.request)?;
    check_phases(&workload, &args.request.workload)?;
    let request = args::request(args, &workload)?;
    Asked::of(workload, request, session)
}

/// Prints the plan instead of running it, with what `more` adds.
fn print_plan(
    args: &Args,
    prepared: &Prepared,
    session: &Session,
    more: impl FnOnce(&mut Document),
) -> Result<(), Failure> {
    if let Some(dataset) = &prepared.data.to_make {
        dataset.announce("a run would first make", session);
    }
    let plan = &prepared.plan;
    args.output.print_plan(plan, plan.request.closed, |plan| {
        let mut document = stormlp_training::show::plan(plan);
        document.warn(&prepared.warnings);
        more(&mut document);
        document
    })
}

fn run_prepared(
    args: Args,
    prepared: Prepared,
    first_run: u32,
    party: &Party,
    session: &Session,
) -> Result<(), Failure> {
    let Prepared { workload, facts, data, plan, mut warnings } = prepared;
    // One process writes the output files.
    let mlperf_output = args.mlperf_output.as_deref().filter(|_| session.group.leads());
    let output = args.output;
    let opened = || -> Result<Delivery, Failure> {
        let delivery = output.open(ReportKind::Train, Columns::Standard)?;
        deliver::make_mlperf_folder(mlperf_output)?;
        Ok(delivery)
    };
    let delivery = party.agree(opened())?;
    let savers = delivery.savers(&plan.workload, party, session)?;
    let others = party.hosts(Some(savers.folder()))?;
    warnings.extend(agreement::crowded(party, others.as_ref()));
    warnings.extend(session.storage.impairments());
    let mut course = Course {
        head: head(&plan, facts, &delivery, session),
        plan,
        warnings,
        inventory: &data.inventory,
        first_run,
    };
    let mut kept = Kept { savers, rehearsal: args.rehearsal, workload: &workload };
    kept.begin(&course)?;
    let made;
    // A dataset is generated only if there is a valid plan for it.
    if let Some(dataset) = &data.to_make {
        made = dataset.make(&data.inventory, session)?;
        course.inventory = &made;
    }
    course.plan.data.take_sizes(course.inventory);
    let mut on_unit = |unit: Unit, so_far: SoFar<'_>| kept.unit(unit, so_far);
    let report = run_course(&course, &mut on_unit, (party, others.as_ref()), session)?;
    let for_mlperf = kept.for_mlperf(&report, mlperf_output);
    let ended = |saved: Option<&Path>| outcome(&report, saved).and(for_mlperf);
    let went = delivery.finish(kept.savers, &report, session, ended);
    went.map_err(|failure| shared_fate(failure, &report.ending, others.as_ref()))
}

/// Runs the plan, alone or with the other processes.
fn run_course(
    course: &Course<'_>,
    on_unit: &mut dyn FnMut(Unit, SoFar<'_>),
    (party, others): (&Party, Option<&Hosts>),
    session: &Session,
) -> Result<TrainReport, Failure> {
    let _lock = if party.owns_folder() { lock(&*session.storage, &course.plan)? } else { None };
    let progress = session.progress();
    let surroundings =
        Surroundings { storage: &session.storage, observer: &progress, stop: &session.stop };
    let mut report = training::run_on_hosts(course, others, &surroundings, on_unit)
        .map_err(|error| error.not_started(&course.plan))?;
    blame_launcher(&mut report.ending, others, &session.stop);
    Ok(report)
}

impl Args {
    /// How objects are moved.
    pub(crate) fn object_rules(&self) -> ObjectRules {
        ObjectRules::of(self.request.verify, self.request.engine)
    }

    /// A search runs on one host, one count after the other; everything else runs with the others.
    pub(crate) fn needs(&self) -> Needs {
        if self.request.find_max { Needs::OneProcess("train --find-max") } else { Needs::Group }
    }

    /// The workload's model, and the edition it is run as.
    ///
    /// # Errors
    /// Those of [`run`].
    pub(crate) fn model(&self) -> Result<(String, Profile), Failure> {
        let workload = args::workload(&self.request)?;
        let profile = workload.profile(self.request.profile);
        Ok((workload.name, profile))
    }

    /// Applies an edition of the rules.
    ///
    /// # Errors
    /// If options request another edition.
    pub(crate) fn keep_edition(&mut self, edition: Option<Edition>) -> Result<(), Failure> {
        args::keep_edition(&mut self.request, edition)
    }

    /// Turns the run into a rehearsal whose files go to `tree`.
    ///
    /// # Errors
    /// If a folder for MLPerf's files was given, or a search of many short runs was requested.
    pub(crate) fn rehearse(&mut self, tree: RehearsedTree) -> Result<(), Failure> {
        rehearsed::refuse_output(self.mlperf_output.as_deref())?;
        if self.request.find_max {
            return Err(Failure::usage("--find-max cannot be used in a rehearsal"));
        }
        self.request.runs.get_or_insert(SCORED_RUNS);
        self.mlperf_output = Some(tree.folder().to_path_buf());
        self.rehearsal = Some(tree);
        Ok(())
    }
}

/// The head of the report, with the storage of the dataset.
fn head(plan: &TrainPlan, mut facts: HostFacts, delivery: &Delivery, session: &Session) -> Head {
    facts.storage = probe::storage_of_run(plan.data.folder.as_ref().map(Location::folder));
    delivery.head(facts, session)
}

/// Rejects a DLIO file that only generates a dataset or only writes checkpoints.
fn check_phases(workload: &Workload, name: &str) -> Result<(), Failure> {
    if workload.workflow.train {
        return Ok(());
    }
    let (does, command) = if workload.workflow.checkpoint {
        ("writes checkpoints", "use `stormlp checkpoint`".to_string())
    } else {
        ("makes a dataset", format!("`stormlp datagen {name}` does that"))
    };
    let error = anyhow::anyhow!("{name} has no training (workflow.train is False): it {does}");
    Err(Failure::no_plan(error)
        .with_help(format!("{command}; --params workflow.train=True trains all the same")))
}
