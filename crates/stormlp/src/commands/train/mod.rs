//! `stormlp train WORKLOAD`: makes a plan from workload, options, host and dataset, and prints or
//! runs it.

mod find_max;

use std::path::{Path, PathBuf};

use stormlp_core::cache::CacheChoice;
use stormlp_core::facts::HostFacts;
use stormlp_core::failure::Failure;
use stormlp_core::location::Location;
use stormlp_core::path::PathKind;
use stormlp_core::report::{Head, ReportKind};
use stormlp_core::transport::EngineChoice;
use stormlp_core::workload_file::sets;
use stormlp_dataset::inventory::facts::Inventory;
use stormlp_hosts::session::Session;
use stormlp_mlperf::official::OutputFile;
use stormlp_mlperf::training::files as mlperf_files;
use stormlp_show::document::Document;
use stormlp_training::plan::request::TrainRequest;
use stormlp_training::plan::train_plan::TrainPlan;
use stormlp_training::plan::workload::Workload;
use stormlp_training::report::outcome::outcome;
use stormlp_training::report::{TrainReport, TrainResults};
use stormlp_training::run as training;
use stormlp_training::run::agreement;
use stormlp_training::run::data::MissingDataset;
use stormlp_training::run::start::{Prepared, RequestedRun, lock};
use stormlp_training::run::{PartialReport, RunInputs, SavedEpoch};
use stormlp_transfer::probe;

use super::calibrate::calibrated;
use super::deliver::{Delivery, OutputArgs};
use super::driver::{Lane, Outputs, Running, Start, drive};
use super::idle::{OPEN_DRY_RUN, refuse, refuse_on_path};
use super::seed::fresh_seed;
use super::workloads;
use crate::hosts::Needs;

/// Arguments of `stormlp train`.
#[derive(Debug, clap::Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "\
Examples:
  stormlp train unet3d                                      one emulated H100, a minute
  stormlp train resnet50 --accelerator a100 -n 8 --dir /mnt/nvme/resnet50 --cache cold
  stormlp train unet3d --path null -n 16 --steps 20         upper limit of this host
  stormlp train unet3d --dir /mnt/nvme/unet3d --find-max    maximum number of H100s
  mpirun -n 4 --map-by ppr:1:node --bind-to none stormlp train unet3d -n 32 --dir /shared/unet3d

Exit code: 0 PASS, 6 FAIL."
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) request: TrainRequest,

    #[command(flatten)]
    output: OutputArgs,

    /// Also write the files of DLIO and mlpstorage
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    mlperf_output: Option<PathBuf>,

    /// Print the plan and exit
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Runs the workload.
pub(crate) fn run(args: Args, session: &Session) -> Result<(), Failure> {
    let peers = session.peers(args.request.local_storage)?;
    let mut asked = peers.agree(asked(&args, session))?;
    if args.request.find_max {
        return find_max::run(args, asked, &peers, session);
    }
    let options = agreement::asked(&asked.request);
    agreement::ask(&peers, &mut asked.request, session)?;
    let beside = |folder: &Path| args.output.beside([folder], args.mlperf_output.as_deref());
    let prepared = asked.prepare(beside, &peers, session);
    let consistency_fields = |one: &Prepared| {
        let decided = agreement::consistency_fields(&one.plan, &one.data.inventory);
        // The decided values are more specific than the options.
        [decided, options].concat()
    };
    let mut prepared = peers.agree_on(prepared, consistency_fields)?;
    if args.dry_run {
        let leads = session.group.leads();
        return if leads { print_plan(&args, &prepared, session, |_| ()) } else { Ok(()) };
    }
    if let Some(folder) = &prepared.plan.data.folder {
        peers.check_shared(folder.folder())?;
    }
    let delivery = peers.agree(args.output.open(ReportKind::Train))?;
    let hosts = peers.hosts()?;
    prepared.warnings.extend(session.storage.impairments());
    let head = head(&prepared.plan, prepared.facts.clone(), &delivery, session);
    let transport = &prepared.plan.transport;
    let require_gds = prepared.plan.request.require.is_some();
    let outputs = (&delivery, args.mlperf_output.as_deref());
    let outputs = Outputs::create(&prepared.plan.workload, outputs, (&peers, session))?;
    let start = Start {
        report: training::begun(&course(&prepared, head, &prepared.data.inventory)),
        opening: String::new(),
        cufile: (transport.path.needs_cufile())
            .then(|| (require_gds, transport.accelerators().collect())),
        hosts,
    };
    let lane = Training { prepared, owns_folder: peers.owns_folder(), session };
    drive(start, lane, outputs, (&peers, session))
}

/// The request of the command line for this host.
fn asked(args: &Args, session: &Session) -> Result<RequestedRun, Failure> {
    let TrainRequest { workload, accelerator, params, .. } = &args.request;
    let mut workload = workloads::load(workload, accelerator.as_deref(), params)?;
    check_phases(&workload, &args.request.workload)?;
    let has_dir = args.request.dir.is_some() || args.request.is_null();
    workloads::find_folders(&mut workload, has_dir, params)?;
    let request = completed(args, &workload)?;
    RequestedRun::of(workload, request, session)
}

/// Rejects options that have no effect together with other options.
fn refuse_idle(asked: &TrainRequest) -> Result<(), Failure> {
    if asked.is_null() {
        let options = [
            ("--engine", asked.engine != EngineChoice::Auto),
            ("--cache", asked.cache.is_some()),
            ("--dir", asked.dir.is_some()),
            ("--generate", asked.generate.is_some()),
        ];
        refuse(&options, "with null storage, which neither reads nor writes")?;
    }
    let as_is = asked.find_max && asked.cache == Some(CacheChoice::AsIs);
    refuse(&[("--cache as-is", as_is)], "with --find-max, which needs uncached reads")?;
    let of_objects = asked.dir.as_ref().is_some_and(Location::names_objects);
    let usual = if of_objects { PathKind::S3 } else { PathKind::Buffered };
    let path = asked.path.unwrap_or(usual);
    refuse_on_path(path, &asked.tune, asked.require.is_some(), asked.device.is_some())
}

/// The request for `workload`, completed from the client's file and other options.
///
/// # Errors
/// If an option has no effect, or the client's file cannot be used.
fn completed(args: &Args, workload: &Workload) -> Result<TrainRequest, Failure> {
    let mut request = args.request.clone();
    refuse_idle(&request)?;
    let idle = args.mlperf_output.is_some() && args.dry_run && !request.closed;
    refuse(&[("--mlperf-output", idle)], OPEN_DRY_RUN)?;
    request.drawn_seed = fresh_seed();
    request.keep_step_times = args.mlperf_output.is_some();
    if let Some(file) = request.client_overhead.calibration() {
        let (cost, origin) = calibrated(file, workload.dataset.format)?;
        let compute = request.compute.as_ref().unwrap_or(&workload.train.computation_time);
        request.calibrated = Some(cost.beyond_own(compute.mean_seconds()));
        request.calibration = Some(origin);
    }
    if request.dir.is_none() && sets(&request.params, "dataset.data_folder") {
        // A folder given on the command line is meant to be used.
        request.dir = workload.dataset.data_folder.as_ref().map(Location::from);
    }
    Ok(request)
}

/// Prints the plan instead of running it, with the additions of `more`.
fn print_plan(
    args: &Args,
    prepared: &Prepared,
    session: &Session,
    more: impl FnOnce(&mut Document),
) -> Result<(), Failure> {
    let missing = prepared.data.to_make.as_ref();
    if let Some(dataset) = missing {
        dataset.announce("a run would first write", session);
    }
    args.output.print_plan(&prepared.plan, prepared.plan.request.closed, |plan| {
        let mut document = stormlp_training::show::plan(plan);
        document.warn(&prepared.warnings);
        more(&mut document);
        document
    })?;
    missing.map_or(Ok(()), MissingDataset::check_space)
}

/// A training run as the driver runs it.
struct Training<'a> {
    prepared: Prepared,
    /// Whether this process locks the folder of the dataset.
    owns_folder: bool,
    session: &'a Session,
}

impl Lane<TrainPlan, TrainResults> for Training<'_> {
    fn run(&mut self, begun: TrainReport, on: Running<'_>) -> Result<TrainReport, Failure> {
        let mut found = &self.prepared.data.inventory;
        let made;
        // A dataset is generated only if there is a valid plan for it.
        if let Some(dataset) = &self.prepared.data.to_make {
            made = dataset.make(self.session)?;
            found = &made;
        }
        self.prepared.plan.data.take_sizes(found);
        let course = course(&self.prepared, begun.head, found);
        let _lock =
            if self.owns_folder { lock(&*self.session.storage, &course.plan)? } else { None };
        let mut on_epoch =
            |epoch: SavedEpoch, so_far: PartialReport<'_>| on.saver.epoch(&epoch, so_far);
        training::run_on_hosts(&course, on.hosts, &on.surroundings, &mut on_epoch)
            .map_err(|error| error.not_started(&course.plan))
    }

    fn mlperf_files(
        &self,
        report: &TrainReport,
        folder: &Path,
        taken: &dyn Fn(&str) -> bool,
    ) -> Vec<OutputFile> {
        mlperf_files(report, &self.prepared.workload, &report.results.steps, folder, taken)
    }

    fn outcome(&self, report: &TrainReport, saved: Option<&Path>) -> Result<(), Failure> {
        outcome(report, saved)
    }
}

/// The facts known before the run begins.
fn course<'a>(prepared: &Prepared, head: Head, inventory: &'a Inventory) -> RunInputs<'a> {
    let (plan, warnings) = (prepared.plan.clone(), prepared.warnings.clone());
    RunInputs { head, plan, warnings, inventory }
}

impl Args {
    /// A search runs on one host, one count after the other; everything else runs with the other
    /// hosts.
    pub(crate) fn needs(&self) -> Needs {
        if self.request.find_max { Needs::OneProcess("train --find-max") } else { Needs::Group }
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
