//! `stormlp checkpoint`: makes a plan from a model and its parallelism, and prints or runs it.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use stormlp_checkpoint::plan::{
    CheckpointFacts, CheckpointPlan, CheckpointRequest, CheckpointWorkload, FsyncPolicy, builtin,
    parse, resolve,
};
use stormlp_checkpoint::report::{CheckpointReport, CheckpointResults};
use stormlp_checkpoint::run::{CheckpointError, agreement, run as run_plan};
use stormlp_checkpoint::show as checkpoint;
use stormlp_checkpoint::show::{mark, opening};
use stormlp_core::facts::HostFacts;
use stormlp_core::location::{Location, names_object};
use stormlp_core::names::file_name;
use stormlp_core::note::Cause;
use stormlp_core::path::PathKind;
use stormlp_core::report::ReportKind;
use stormlp_core::warning::{Warning, WarningKind};
use stormlp_core::workload_file::{KeyNote, folder_in_storage};
use stormlp_mlperf::checkpoint::files as mlperf_files;
use stormlp_mlperf::official::OutputFile;
use stormlp_show::document::Document;
use stormlp_transfer::storage::{Disk, Storage as _};

use super::calibrate::calibrated_checkpoints;
use super::deliver::OutputArgs;
use super::driver::{Lane, Outputs, Running, Start, drive};
use super::idle::{OPEN_DRY_RUN, refuse, refuse_on_path};
use super::seed::fresh_seed;
use super::workloads::{Owner, read_text};
use crate::output;
use stormlp_core::failure::Failure;
use stormlp_hosts::peers::Peers;
use stormlp_hosts::session::Session;

/// Arguments of `stormlp checkpoint`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp checkpoint llama3-70b                          what fits here in about a minute
  stormlp checkpoint llama3-405b --scale 1 --dry-run     files and bytes of all 512 ranks
  stormlp checkpoint llama3-8b --scale 1 --dir /mnt/ckpt --path cpu
  mpirun -n 4 --map-by ppr:1:node --bind-to none stormlp checkpoint llama3-70b --dir /shared/ckpt

Checkpoints stay until `stormlp clean` removes them.")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) request: CheckpointRequest,

    #[command(flatten)]
    output: OutputArgs,

    /// Also write the files of DLIO and mlpstorage
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    mlperf_output: Option<PathBuf>,
}

/// Rejects options that have no effect together with other options.
fn refuse_idle(asked: &CheckpointRequest) -> Result<(), Failure> {
    if asked.restores.or(asked.workload.reads) == Some(0) {
        let options = [("--cache", asked.cache.is_some()), ("--verify", asked.verify)];
        refuse(&options, "in a run without restores")?;
    }
    if asked.is_saving() {
        refuse(&[("--run", asked.run.is_some())], "in a run that saves")?;
    } else {
        let options = [
            ("--fsync", asked.fsync.is_some()),
            ("--overlap-step", asked.overlap_step_seconds.is_some()),
            ("--keep", asked.keep.is_some()),
            ("--keep-last", asked.keep_last.is_some()),
        ];
        refuse(&options, "in a run without saves")?;
    }
    refuse_on_path(asked.path, &asked.tune.machine, asked.require.is_some(), asked.device.is_some())
}

/// The request, completed from the model's file and other options.
///
/// # Errors
/// If the model is neither built in nor a readable workload file, or an option has no effect.
fn completed(args: &Args) -> Result<CheckpointRequest, Failure> {
    let mut request = args.request.clone();
    request.workload = workload(&request.model)?;
    take_objects(&mut request)?;
    refuse_idle(&request)?;
    let idle = args.mlperf_output.is_some() && request.dry_run && !request.closed;
    refuse(&[("--mlperf-output", idle)], OPEN_DRY_RUN)?;
    request.command = Session::command_line();
    if request.folders.is_empty() {
        let notes = &request.workload.without_effect;
        let is_folder = |note: &KeyNote| note.key == "checkpoint.checkpoint_folder";
        let named = notes.iter().find(|note| is_folder(note));
        let named = folder_in_storage(notes, named.map_or("checkpoints", |note| &note.value))?;
        // DLIO's files have a relative one, whatever it is relative to.
        let is_used = named.is_absolute();
        request.workload.without_effect.retain(|note| !(is_used && is_folder(note)));
        let default = default_folder(&request.workload);
        request.folders.push(if is_used { Location::from(&named) } else { default });
    }
    refuse_repeated(&request.folders)?;
    if let Some(file) = &request.client_overhead {
        request.calibrated = Some(calibrated_checkpoints(file)?);
    }
    Ok(request)
}

/// The default folder for a model's checkpoints.
fn default_folder(workload: &CheckpointWorkload) -> Location {
    Path::new("stormlp-data/checkpoint").join(file_name(&workload.name, "model")).into()
}

/// A built-in model, or one described by a file.
fn workload(model: &str) -> Result<CheckpointWorkload, Failure> {
    if let Some(workload) = builtin::load(model) {
        return Ok(workload);
    }
    let path = Path::new(model);
    if Disk.look(path)?.is_none() {
        Owner::Checkpoint.check(model)?;
        if path.extension().is_none() {
            let names: Vec<&str> = builtin::names().collect();
            let help = format!("use one of {}, or a workload file", names.join(", "));
            let fact = format_args!("unknown model `{model}`");
            return Err(Failure::saying(Cause::Plan, fact).with_help(help));
        }
    }
    let text = read_text(path, "workload file")?;
    parse(&text, model).map_err(|error| {
        Failure::from(error).with_help(
            "the keys are MLPerf's and DLIO's: model, model.parallelism, model.transformer, \
             checkpoint",
        )
    })
}

/// Objects have a separate path.
fn take_objects(request: &mut CheckpointRequest) -> Result<(), Failure> {
    let Some(objects) = request.folders.iter().find(|folder| folder.names_objects()) else {
        return Ok(());
    };
    if let Some(folder) = request.folders.iter().find(|folder| !folder.names_objects()) {
        return Err(Failure::usage(format!(
            "--dir {objects} names objects, --dir {folder} does not"
        ))
        .with_help("use prefixes of objects alone, or folders alone"));
    }
    let options = [
        ("--path", request.path != PathKind::default()),
        ("--fsync", request.fsync.is_some_and(|policy| policy != FsyncPolicy::PerFile)),
    ];
    refuse(&options, "on objects, each of which is complete when its upload is")?;
    request.path = PathKind::S3;
    Ok(())
}

/// A directory with two spellings would wait for the lock that it holds.
fn refuse_repeated(folders: &[Location]) -> Result<(), Failure> {
    let mut places = HashSet::new();
    for folder in folders {
        let place = folder.folder();
        // A path that does not exist yet is compared as text.
        let place = match std::path::absolute(place) {
            Ok(absolute) if !names_object(place) => fs::canonicalize(&absolute).unwrap_or(absolute),
            _ => place.to_path_buf(),
        };
        if !places.insert(place) {
            return Err(Failure::usage(format!(
                "--dir {folder} is the directory of another --dir"
            )));
        }
    }
    Ok(())
}

/// Prints the plan or runs it.
pub(crate) fn run(args: Args, session: &Session) -> Result<(), Failure> {
    let mut request = completed(&args)?;
    if request.closed {
        let folders = request.folders.iter().map(Location::folder);
        let other = args.mlperf_output.as_deref();
        request.results_beside_data = args.output.beside(folders, other);
    }
    let peers = session.peers(request.local_storage)?;
    let asked = |_: &HostFacts| agreement::asked(&request);
    let device = request.device.as_ref();
    let host = session.facts_of_path(request.path, device, &request.folders);
    let host = peers.agree_on(host, asked)?;
    if request.dry_run {
        return dry_run(&request, &host, &args.output, (&peers, session));
    }
    request.tune.seed.get_or_insert_with(fresh_seed);
    let delivery = args.output.open(ReportKind::Checkpoint);
    let delivery = peers.agree(delivery)?;
    // No file is written before checks that need no writes have passed.
    agreement::look(&request, &host, &peers, session)?;
    let outputs = (&delivery, args.mlperf_output.as_deref());
    let outputs = Outputs::create(&request.workload.name, outputs, (&peers, session))?;
    let facts = agreement::tried(&request, &peers, session)?;
    let plan = agreement::plan(&request, &host, &facts, (&peers, session))?;
    let cufile = plan.path().needs_cufile();
    let start = Start {
        opening: output::drawn(&announced(&plan)),
        cufile: cufile
            .then(|| (plan.request.require.is_some(), plan.save.accelerators().collect())),
        hosts: peers.hosts()?,
        report: CheckpointReport::new(delivery.head(host, session), plan, Default::default()),
    };
    drive(start, Checkpoint, outputs, (&peers, session))
}

/// The state at the start of a run. Data about to be removed is announced first; the report repeats
/// it.
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

/// Prints the plan of the run, with its scale by a trial of the storage and its problems, and ends
/// as the run would.
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
    output.dry_run(resolution, request.closed, checkpoint::dry_run)
}
