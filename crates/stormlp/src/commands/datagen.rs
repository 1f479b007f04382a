//! `stormlp datagen WORKLOAD`: writes, continues or verifies the dataset of a workload.

use std::sync::Arc;

use stormlp_core::difference::ConsistencyField;
use stormlp_core::location::names_object;
use stormlp_core::note::Cause;
use stormlp_core::shell::CommandLine;
use stormlp_core::transport::EngineChoice;
use stormlp_dataset::dataset::Dataset;
use stormlp_dataset::generate;
use stormlp_dataset::generate::{GenerateError, GeneratePlan, Generation, Share};
use stormlp_dataset::report::{GenerateReport, Verification};
use stormlp_training::plan::generate::GenerateRequest;
use stormlp_training::show::datagen as text;

use crate::commands::idle::refuse;
use crate::commands::workloads;
use crate::hosts::Needs;
use crate::output::{self, Format};
use stormlp_core::failure::Failure;
use stormlp_hosts::consistency_fields;
use stormlp_hosts::peers::Peers;
use stormlp_hosts::session::Session;

/// Arguments of `stormlp datagen`.
#[derive(Debug, clap::Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "\
Examples:
  stormlp datagen unet3d --files 14000 --dir /mnt/nvme/unet3d
  mpirun -n 4 --map-by ppr:1:node stormlp datagen unet3d --files 14000 --dir /shared/unet3d
  stormlp datagen unet3d --files 14000 --dir /mnt/nvme/unet3d --check
  stormlp datagen unet3d --files 14000 --dir s3://bucket/unet3d --checksum crc"
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) request: GenerateRequest,

    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Generates, resumes or verifies the dataset, or prints the plan.
pub(crate) fn run(args: Args, session: &Session) -> Result<(), Failure> {
    let peers = session.peers(false)?;
    let Args { request, format } = args;
    let plan = peers.agree_on(plan(&request, session), consistency_fields)?;
    if request.mode.dry_run {
        format.print(&plan.outline(), text::outline)?;
        return generate::check(&plan).map_err(failure);
    }
    let progress = session.progress();
    if request.mode.check {
        let found = generate::verify(&plan, &progress, &session.stop).map_err(failure)?;
        let printed = format.print(&found, text::verification);
        return match found.not_good() {
            0 => printed,
            _ => Err(not_good(&found, &plan)),
        };
    }
    let report = if peers.is_alone() {
        generate::run(&plan, &progress, &session.stop).map_err(failure).map(Some)
    } else {
        together(&plan, &peers, session)
    }?;
    let Some(report) = report else {
        return Ok(());
    };
    let printed = format.print(&report, text::report);
    output::or_warn(printed, "the dataset is complete");
    Ok(())
}

impl Args {
    /// Verifying and planning need one process; files are written by all.
    pub(crate) fn needs(&self) -> Needs {
        match (self.request.mode.check, self.request.mode.dry_run) {
            (true, _) => Needs::OneProcess("datagen --check"),
            (_, true) => Needs::OneProcess("datagen --dry-run"),
            _ => Needs::Group,
        }
    }
}

/// Names of plan parts that differ from their keys.
const NAMES: [(&str, &str); 5] = [
    ("engine", "option --tune engine"),
    ("existing", "handling of existing files (--resume, --overwrite)"),
    ("folder", "dataset's folder"),
    ("profile", "option --edition"),
    ("threads", "option --threads"),
];

/// The settings that all processes must share: all of them.
fn consistency_fields(plan: &GeneratePlan) -> Vec<ConsistencyField> {
    consistency_fields::of(plan, &[], &NAMES)
}

/// Generates the dataset together with the other hosts: each writes its share of the files, the
/// first also the manifest. `None` if another process reports the result.
fn together(
    plan: &GeneratePlan,
    peers: &Peers,
    session: &Session,
) -> Result<Option<GenerateReport>, Failure> {
    let nearest = plan.storage.nearest(&plan.folder)?;
    peers
        .check_shared(&nearest)
        .map_err(|failure| failure.with_help("use a --dir on shared storage"))?;
    let (group, stop) = (&session.group, &session.stop);
    let share = Share { rank: group.rank(), of: group.size() };
    let begin = || Generation::begin(plan, share).map_err(failure);
    let nothing = |_: &_| Vec::new();
    // The first process checks the folder and shares its findings with the other processes.
    let first = group.leads().then(begin).transpose();
    let first = peers.agree_on(first, nothing)?;
    let own = first.map_or_else(begin, Ok);
    let own = peers.agree(own)?;
    let Some(hosts) = peers.hosts()? else {
        return Ok(None);
    };
    let progress = session.progress();
    let work = || {
        let made = own.make(&progress, stop);
        // A process that fails stops all.
        made.inspect_err(|_| stop.stop())
    };
    let made = hosts.work(stop, work)?.map_err(failure);
    let made = peers.agree(made)?;
    let requests = peers.exchange(made.requests())?;
    let made = made.with_requests(requests);
    let finished = group.leads().then(|| own.finish(made)).transpose().map_err(failure);
    peers.agree(finished)
}

/// The complete plan: the workload, the overrides by options, and the destination.
fn plan(request: &GenerateRequest, session: &Session) -> Result<GeneratePlan, Failure> {
    let mut workload = workloads::load(&request.workload, None, &request.params)?;
    workload.workflow.checkpoint = false;
    workloads::find_folders(&mut workload, request.dir.is_some(), &request.params)?;
    workloads::tell_edition(&workload, request.profile, session);
    let (folder, recipe) = (request.folder(&workload), request.recipe(&workload));
    let (existing, engine) = (request.mode.existing(), request.making.tune.engine);
    if names_object(&folder) {
        let is_named = engine != EngineChoice::Auto;
        refuse(&[("--tune engine", is_named)], "on objects")?;
    } else {
        refuse(&[("--checksum", request.checksum.is_for_objects())], "on files")?;
    }
    if !request.mode.check {
        generate::check_room(&*session.storage, &folder, &recipe).map_err(failure)?;
    }
    let dataset = Dataset::new(recipe)?;
    let profile = workload.profile(request.profile).edition();
    Ok(GeneratePlan {
        existing,
        threads: request.threads.map_or(0, usize::from),
        engine: engine.named(),
        storage: Arc::clone(&session.storage),
        ..GeneratePlan::new(folder, &workload.name, profile, dataset)
    })
}

/// The command line without its mode options.
fn command_line() -> CommandLine {
    let modes = ["--resume", "--check", "--overwrite", "--dry-run"];
    modes.into_iter().fold(Session::command_line(), CommandLine::without_flag)
}

/// The failure of a verification that found something. Unread files may be good: they are neither
/// called bad nor to be removed.
fn not_good(found: &Verification, plan: &GeneratePlan) -> Failure {
    let of = |count: usize, what: &str| (count > 0).then(|| format!("{count} {what}"));
    let counts = [
        of(found.faults.len(), "bad"),
        of(found.missing.len(), "missing"),
        of(found.unread.len(), "could not be verified"),
    ];
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    let (files, folder) = (plan.dataset.files(), plan.folder.display());
    let fact = format!("of {files} files in {folder}: {}", counts.join(", "));
    let command = command_line();
    let again = match (found.by_checksum, found.faults.is_empty()) {
        (true, true) => format!("make the missing ones again with `{command} --resume`"),
        // Data lost by the disk leaves no trace that --resume would check.
        (true, false) => {
            format!("remove the bad files, then make them again with `{command} --resume`")
        }
        (false, _) => format!("make all again with `{command} --overwrite`"),
    };
    let is_known = found.faults.len() + found.missing.len() > 0;
    match found.unread.first() {
        None => Failure::saying(Cause::Storage, fact).with_help(again),
        Some(why) if is_known => {
            let help = format!("{}; then check again, and {again}", why.remedy);
            Failure::saying(Cause::Storage, fact).with_help(help)
        }
        Some(why) => Failure::saying(why.kind, fact).with_help(why.remedy.clone()),
    }
}

/// The exit code and the advice for an error.
fn failure(error: GenerateError) -> Failure {
    let command = command_line();
    error.failure(&format!("{command} --resume"), &format!("{command} --overwrite"))
}
