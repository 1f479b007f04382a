//! `stormlp train WORKLOAD`: workload, options, host and dataset become a plan; the plan is
//! printed or run.

mod args;
mod data;
mod find_max;
mod finish;
mod starter;

use std::path::{Path, PathBuf};

use stormlp_emulator::Surroundings;
use stormlp_emulator::training::{self, Course};
use stormlp_model::facts::HostFacts;
use stormlp_model::location::Location;
use stormlp_model::path::PathKind;
use stormlp_model::report::{Head, ReportKind};
use stormlp_model::submission::Edition;
use stormlp_model::training::plan::TrainPlan;
use stormlp_model::training::profile::Profile;
use stormlp_model::training::report::TrainReport;
use stormlp_model::training::request::{StorageKind, TrainRequest};
use stormlp_model::training::resolve::{Resolved, rules_broken_without_data};
use stormlp_model::training::workload::{DataFormat, Workload};
use stormlp_model::transport::DeviceId;
use stormlp_transfer::probe;
use stormlp_transfer::storage::{FolderLock, LockError};

use stormlp_report::matrix::Columns;
use stormlp_report::mlperf::OutputFile;
use stormlp_report::submission::Rehearsal;
use stormlp_report::training::mlperf;

pub(crate) use self::args::parse_compute;
use self::data::Data;
use super::deliver::{self, Delivery, OutputArgs};
use super::submission;
use super::threads::ThreadArgs;
use crate::exit::{Code, Failure};
use crate::session::Session;

/// Arguments of `stormlp train`.
#[derive(Debug, clap::Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "\
Examples:
  stormlp train unet3d
      a starter dataset in ./stormlp-data/unet3d and one emulated H100, in about a minute
  stormlp train resnet50 --accelerator a100 -n 8 --data-dir /mnt/nvme/resnet50 --cold
      eight A100s on a dataset made by `stormlp datagen` or DLIO, from the device each epoch
  stormlp train unet3d --storage null -n 16 --steps 20
      what this host could reach if storage took no time
  stormlp train unet3d --data-dir /mnt/nvme/unet3d --find-max
      how many H100s that storage feeds: a short read, a few probes, two full runs

Exit code 0 says that AU reached the workload's threshold, 6 that it did not. Sizes: K, M, G are
powers of 1024, kB, MB, GB powers of 1000."
)]
pub(crate) struct Args {
    #[command(flatten)]
    workload: args::WorkloadArgs,

    #[command(flatten)]
    data: args::DataArgs,

    #[command(flatten)]
    read: args::ReadArgs,

    #[command(flatten)]
    threads: ThreadArgs,

    #[command(flatten)]
    find: find_max::FindMaxArgs,

    #[command(flatten)]
    output: OutputArgs,

    /// Write the files of DLIO and mlpstorage too: summary.json, per-epoch files, configuration,
    /// metadata
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    mlperf_output: Option<PathBuf>,

    /// The files of a rehearsal in place of those.
    #[arg(skip)]
    rehearsal: Option<Rehearsal>,

    /// Print the plan and stop: nothing is read and no dataset is made
    #[arg(long, conflicts_with = "mlperf_output")]
    pub(crate) dry_run: bool,
}

/// Runs the workload.
pub(crate) fn run(args: Args, session: &Session) -> Result<(), Failure> {
    if args.find.is_wanted() {
        return find_max::run(args, session);
    }
    let mut workload = args::workload(&args.workload)?;
    check_phases(&workload, &args.workload.workload)?;
    let mut request = request(&args, &workload)?;
    let facts = facts(&request, session)?;
    let name = &args.workload.workload;
    let data = match is_null(&request) {
        true => Data::none(&workload),
        false => data::find(&workload, &request, &args.data, name, &facts, session)
            .map_err(|failure| with_broken_rules(failure, &workload, &request, &facts))?,
    };
    request.results_beside_data = results_beside(&args, &request, &data);
    workload.dataset = data.spec;
    let Resolved {
        plan,
        warnings: of_plan,
    } = TrainPlan::resolve(&workload, &request, &facts, &data.inventory)?;
    let mut warnings = data.warnings;
    warnings.extend(of_plan);
    if args.dry_run {
        if let Some(dataset) = &data.to_make {
            dataset.announce("a run would first make", session);
        }
        return args.output.print_plan(&plan, plan.closed, |plan| {
            let mut document = stormlp_report::training::plan(plan);
            document.warn(&warnings);
            document
        });
    }
    let delivery = args.output.open(ReportKind::Train, Columns::Standard)?;
    let mut saver = delivery.saver(&plan.workload, session)?;
    deliver::make_mlperf_folder(args.mlperf_output.as_deref())?;
    warnings.extend(session.storage.warnings());
    let mut course = Course {
        head: head(&plan, facts, &delivery, session),
        plan,
        warnings,
        inventory: &data.inventory,
    };
    if course.plan.transport.path.needs_cufile() {
        saver.prepare_cufile(course.plan.require_gds);
    }
    saver.begin(&training::begun(&course))?;
    let made;
    // Only a dataset with which there is a plan is worth its time and space.
    if let Some(dataset) = &data.to_make {
        made = dataset.make(&data.inventory, session)?;
        course.inventory = &made;
    }
    course.plan.data.take_sizes(course.inventory);
    let _lock = lock(&course.plan)?;
    let progress = session.progress();
    let surroundings = Surroundings {
        storage: &session.storage,
        observer: &progress,
        stop: &session.stop,
    };
    let report = training::run(&course, &surroundings, &mut |so_far| saver.unit(so_far));
    let report = report.map_err(|error| {
        let help = error.remedy(&course.plan);
        Failure::machine(error).with_help(help)
    })?;
    let for_mlperf = deliver::write_mlperf(args.mlperf_output.as_deref(), |taken| {
        let rehearsal = (args.rehearsal.as_ref(), args.mlperf_output.as_deref());
        mlperf_files(&report, &workload, rehearsal, taken)
    });
    let ended = |saved: Option<&Path>| finish::ended(&report, saved).and(for_mlperf);
    delivery.finish(saver, &report, session, ended)
}

/// The files for MLPerf's tools.
fn mlperf_files(
    report: &TrainReport,
    workload: &Workload,
    (rehearsal, results): (Option<&Rehearsal>, Option<&Path>),
    taken: &dyn Fn(&str) -> bool,
) -> Vec<OutputFile> {
    let Some(rehearsal) = rehearsal else {
        return mlperf::files(report, workload, &report.results.steps, taken);
    };
    let data = report.plan.data.folder.as_ref().map(Location::folder);
    let separate = submission::separate(data, results);
    stormlp_report::submission::training(report, workload, rehearsal, separate, taken)
}

impl Args {
    /// The model of the workload, and whose edition it is run as.
    ///
    /// # Errors
    /// As [`run`].
    pub(crate) fn model(&self) -> Result<(String, Profile), Failure> {
        let workload = args::workload(&self.workload)?;
        let profile = self.workload.profile().unwrap_or(workload.edition);
        Ok((workload.name, profile))
    }

    /// Goes by an edition of the rules.
    ///
    /// # Errors
    /// When options ask for another.
    pub(crate) fn keep_edition(&mut self, edition: Option<Edition>) -> Result<(), Failure> {
        self.workload.keep_edition(edition)
    }

    /// Makes a rehearsal of the run, whose files go below `tree`.
    ///
    /// # Errors
    /// When the files for MLPerf's tools were to go elsewhere.
    pub(crate) fn rehearse(&mut self, tree: &Path, rehearsal: Rehearsal) -> Result<(), Failure> {
        submission::refuse_output(self.mlperf_output.as_deref())?;
        self.workload.score_as_mlperf();
        self.mlperf_output = Some(tree.to_path_buf());
        self.rehearsal = Some(rehearsal);
        Ok(())
    }
}

/// The head of the report, with the storage that the dataset lies on.
fn head(plan: &TrainPlan, mut facts: HostFacts, delivery: &Delivery, session: &Session) -> Head {
    let folder = plan.data.folder.as_ref().map(Location::folder);
    facts.storage = probe::storage_of_run(folder);
    delivery.head(facts, session)
}

/// What was asked for of `workload`.
fn request(args: &Args, workload: &Workload) -> Result<TrainRequest, Failure> {
    let mut request = args::request(&args.workload, &args.data, &args.read)?;
    let ends_there = request.path.is_some_and(PathKind::ends_in_accelerator);
    request.threading = args.threads.threading(ends_there)?;
    request.telemetry = args.output.telemetry();
    if request.transfer_size.is_some() && workload.dataset.format != DataFormat::Tfrecord {
        return Err(Failure::usage(format!(
            "--transfer-size has no effect on {} files: it is for tfrecord",
            workload.dataset.format
        )));
    }
    request.workload = Some(args.workload.workload.clone());
    request.keep_step_times = args.mlperf_output.is_some();
    if request.data_dir.is_none() && args.workload.sets("dataset.data_folder") {
        // Named on the command line, it is meant.
        request.data_dir = workload.dataset.data_folder.as_ref().map(Location::from);
    }
    Ok(request)
}

/// A file of DLIO's may only make a dataset, or only write checkpoints.
fn check_phases(workload: &Workload, name: &str) -> Result<(), Failure> {
    if workload.workflow.train {
        return Ok(());
    }
    let (does, command) = if workload.workflow.checkpoint {
        (
            "writes checkpoints",
            "`stormlp checkpoint` runs those".to_string(),
        )
    } else {
        (
            "makes a dataset",
            format!("`stormlp datagen {name}` does that"),
        )
    };
    let error = anyhow::anyhow!("{name} has no training (workflow.train is False): it {does}");
    Err(Failure::no_plan(error).with_help(format!(
        "{command}; --params workflow.train=True trains all the same"
    )))
}

/// A dataset that is not there, and the closed rules that the run would break with any.
fn with_broken_rules(
    failure: Failure,
    workload: &Workload,
    request: &TrainRequest,
    facts: &HostFacts,
) -> Failure {
    let mut problems = rules_broken_without_data(workload, request, facts);
    if failure.code != Code::Machine || problems.is_empty() {
        return failure;
    }
    let help = failure.help.unwrap_or_default();
    problems.machine(format!("{:#}", failure.error), help);
    problems.into()
}

/// The folders for results that share the dataset's file system, where rules ask for that.
fn results_beside(args: &Args, request: &TrainRequest, data: &Data) -> Vec<PathBuf> {
    if !request.closed || is_null(request) {
        return Vec::new();
    }
    let folder = data.inventory.folder.folder();
    args.output.beside([folder], args.mlperf_output.as_deref())
}

fn is_null(request: &TrainRequest) -> bool {
    request.storage == StorageKind::Null || request.path == Some(PathKind::Null)
}

/// The facts a run needs; GPU libraries are asked only for paths that use them.
fn facts(request: &TrainRequest, session: &Session) -> Result<HostFacts, Failure> {
    let uses_gpu = request.path.is_some_and(PathKind::ends_in_accelerator)
        || matches!(request.device, Some(DeviceId::Cuda(_)));
    let folder = request.data_dir.as_ref().map(Location::folder);
    let mut facts = match uses_gpu {
        true => session.host_facts(folder.filter(|folder| folder.is_dir()))?,
        false => probe::host_facts(),
    };
    // Threads are near the drives of the dataset; one without a name is made in the current folder.
    let reads = (!is_null(request)).then_some(folder.unwrap_or(Path::new(".")));
    facts.storage = probe::storage_of_run(reads);
    Ok(facts)
}

/// Keeps other runs out of the dataset folder. A folder that may not be written to is shared by
/// its owner's choice, and nobody can change it meanwhile.
fn lock(plan: &TrainPlan) -> Result<Option<FolderLock>, Failure> {
    let Some(folder) = &plan.data.folder else {
        return Ok(None);
    };
    match FolderLock::take(folder.folder()) {
        Ok(lock) => Ok(Some(lock)),
        Err(error @ LockError::Held { .. }) => Err(Failure::machine(error)),
        Err(LockError::File(_)) => Ok(None),
    }
}
