//! `stormlp man DIR`: a manual page for each command, generated from the argument definitions.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;

use crate::cli;
use crate::output;
use stormlp_core::failure::Failure;
use stormlp_hosts::session::Session;

/// Arguments of `stormlp man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp man ~/.local/share/man/man1           then `man stormlp-gds` finds them
  stormlp man /usr/local/share/man/man1         for everyone on this machine, as root
  stormlp man pages && man pages/stormlp-report.1")]
pub(crate) struct Args {
    /// Output folder; created if missing
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Writes the pages.
pub(crate) fn run(args: Args, session: &Session) -> Result<(), Failure> {
    let folder = args.folder.display();
    fs::create_dir_all(&args.folder)
        .and_then(|()| clap_mangen::generate_to(cli::command(), &args.folder))
        .with_context(|| format!("cannot write manual pages to {folder}"))
        .map_err(|error| {
            Failure::machine(error).with_help("name a folder that you may write to")
        })?;
    if !session.quiet {
        output::say(format!("manual pages: {folder}"));
    }
    Ok(())
}
