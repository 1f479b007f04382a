//! `stormlp doctor [DIR]`: what this machine can do, path by path, and why not.

use std::path::PathBuf;

use stormlp_report::doctor;
use stormlp_transfer::probe;

use crate::exit::Failure;
use crate::output::Format;
use crate::session::Session;

/// Arguments of `stormlp doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp doctor                              this machine and the current folder
  stormlp doctor /mnt/nvme                    the storage behind another folder
  stormlp doctor /mnt/nvme --format json      for scripts; unknown values carry their reason")]
pub(crate) struct Args {
    /// Folder (or block device) whose storage is described.
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,

    /// How to print it.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Looks at the machine and prints what it found. What is missing is a finding, not a failure.
pub(crate) fn run(args: Args, session: &Session) -> Result<(), Failure> {
    let machine = probe::machine(&session.executable()?, &args.directory);
    args.format.print(&machine, doctor::document)
}
