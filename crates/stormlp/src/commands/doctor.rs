//! `stormlp doctor [PATH]`: what this machine can do, path by path, and why not.

use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
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
  stormlp doctor /dev/nvme0n1                 a block device itself; a file goes as well
  stormlp doctor /mnt/nvme --format json      for scripts; unknown values carry their reason")]
pub(crate) struct Args {
    /// Folder, file or block device whose storage is described.
    #[arg(value_name = "PATH", default_value = ".")]
    directory: PathBuf,

    /// How to print it.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Looks at the machine and prints what it found. What is missing there is a finding; only a place
/// that is not there, or no storage, is a failure.
pub(crate) fn run(args: Args, session: &Session) -> Result<(), Failure> {
    check(&args.directory)?;
    let patience = session.patience();
    let machine = probe::machine(&session.executable()?, &args.directory, &patience);
    args.format.print(&machine, doctor::document)
}

/// Whether there is storage to look at.
fn check(path: &Path) -> Result<(), Failure> {
    const HELP: &str = "name a folder, a file or a block device that is there";
    let place = path.display();
    let fault = match probe::metadata(path).map(|found| found.file_type()) {
        Ok(kind) if kind.is_dir() || kind.is_file() || kind.is_block_device() => return Ok(()),
        Ok(_) => anyhow!("{place} is neither a folder nor a file nor a block device"),
        Err(error) if error.kind() == ErrorKind::NotFound => anyhow!("{place} does not exist"),
        Err(error) => anyhow::Error::new(error).context(format!("cannot look at {place}")),
    };
    Err(Failure::machine(fault).with_help(HELP))
}
