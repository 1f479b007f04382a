//! `stormlp submission rehearse`: runs a result's runs one after the other into a tree in
//! submission format, marked as a rehearsal wherever possible.

use std::path::PathBuf;

use clap::Subcommand;
use stormlp_core::profile::Profile;
use stormlp_mlperf::rehearsed::RehearsedResult;
use stormlp_mlperf::show::Rehearsal;
use stormlp_mlperf::submission::system_yaml::draft;
use stormlp_mlperf::submission::{EQUIVALENCE, Edition, NOTICE};
use stormlp_transfer::probe;

use crate::commands::{checkpoint, train};
use crate::output;
use stormlp_core::failure::Failure;
use stormlp_core::note::Cause;
use stormlp_hosts::session::Session;

/// Arguments of `stormlp submission rehearse`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp submission rehearse training unet3d --accelerator b200 -n 8 --data-dir /mnt/nvme/unet3d
                                        a warm-up and five scored runs into ./rehearsal
  stormlp submission rehearse --tree trial checkpointing llama3-8b --dir /mnt/nvme/checkpoints
                                        ten writes and ten reads into trial/rehearsal
  stormlp submission rehearse --edition 2.0 training unet3d --data-dir /mnt/nvme/unet3d
                                        the same for v2.0, on an h100
  stormlp submission rehearse training unet3d --full --closed
                                        all rules that options can meet, on a full-size dataset
  stormlp submission rehearse --resume training unet3d --full --closed
                                        resumes it where it was interrupted

`stormlp submission check` shows which rules the tree meets. It is never a submission: only
mlpstorage makes one. Each run is added to the tree as soon as it ends.")]
pub(crate) struct Args {
    /// Folder in which to create the folder `rehearsal`
    #[arg(long, value_name = "DIR", default_value = ".")]
    tree: PathBuf,

    /// Rules: 2.0 or 3.0 [default: those of --profile or --accelerator, else 3.0]
    #[arg(long, value_name = "EDITION")]
    edition: Option<Edition>,

    /// System name [default: this host's name]
    #[arg(long, value_name = "NAME")]
    system: Option<String>,

    /// Resume an interrupted rehearsal with the same options: runs in the tree are kept
    #[arg(long)]
    resume: bool,

    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// A training workload: `stormlp train`'s options; a warm-up and five scored runs by default
    Training(Box<train::Args>),
    /// Checkpoint writes and reads: `stormlp checkpoint`'s options
    Checkpointing(Box<checkpoint::Args>),
}

/// Rehearses one result.
///
/// # Errors
/// Those of the runs, and with exit code 4 if the tree already has a result of the workload.
pub(super) fn run(args: Args, session: &Session) -> Result<(), Failure> {
    let system = args.system.unwrap_or_else(|| probe::host_facts().hostname);
    let description = draft(&probe::system_facts(), NOTICE);
    let rehearsal = Rehearsal { system, description, tree: args.tree.clone() };
    let made = args.tree.join("rehearsal");
    let is_dry;
    let outcome = match args.what {
        What::Training(mut train) => {
            train.keep_edition(args.edition)?;
            let (model, profile) = train.model()?;
            if Edition::of_profile(profile).is_none() {
                return Err(no_edition(profile));
            }
            let place = rehearsal.training_folder(&model);
            let runs = (&*place, "run");
            let tree = RehearsedResult::open(args.tree, rehearsal, runs, args.resume)?;
            train.rehearse(tree.into())?;
            is_dry = train.dry_run;
            train::run(*train, session)
        }
        What::Checkpointing(mut checkpoint) => {
            checkpoint.keep_edition(args.edition)?;
            let place = rehearsal.checkpointing_folder(&checkpoint.model_name()?);
            let tree = RehearsedResult::open(args.tree, rehearsal, (&place, ""), args.resume)?;
            checkpoint.rehearse(tree.into())?;
            is_dry = checkpoint.is_dry();
            checkpoint::run(*checkpoint, session)
        }
    };
    if made.is_dir() && !is_dry {
        let made = made.display();
        output::say(format!("REHEARSAL in {made}. {NOTICE} {EQUIVALENCE}"));
        output::say(format!("`stormlp submission check {made}` shows which rules it meets"));
    }
    outcome.map_err(|failure| match (failure.cause(), &*failure.note.remedy) {
        (Cause::Stopped, "") => {
            failure.with_help("the same command with --resume after `rehearse` continues it")
        }
        _ => failure,
    })
}

fn no_edition(profile: Profile) -> Failure {
    let what =
        anyhow::anyhow!("a rehearsal follows the rules of v2.0 or v3.0, not profile {profile}");
    Failure::no_plan(what).with_help("use --profile v2 or v3, or an --accelerator of theirs")
}
