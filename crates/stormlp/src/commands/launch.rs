//! `stormlp launch HOST,...|FILE`: how each launcher starts one process per host.

use std::path::Path;

use stormlp_core::failure::Failure;
use stormlp_core::note::Cause;
use stormlp_show::doctor;

use super::workloads::read_text;
use crate::output;

/// Arguments of `stormlp launch`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp launch h1,h2
  stormlp launch 10.0.0.1,10.0.0.2,10.0.0.3
  stormlp launch ./hostfile")]
pub(crate) struct Args {
    /// Hosts, or a hostfile
    #[arg(value_name = "HOST,...|FILE")]
    hosts: String,
}

/// Prints the commands of each launcher for the hosts: their names, or a hostfile (a path, or the name
/// of a file that is there).
///
/// # Errors
/// With exit code 2 or 3 if no host is named, 4 if the hostfile cannot be read.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let typed = &args.hosts;
    let is_file = typed.contains('/') || Path::new(typed).is_file();
    let text = if is_file {
        read_text(Path::new(typed), "the hostfile")?
    } else {
        typed.replace(',', "\n")
    };
    let hosts = doctor::hosts_of(&text).map_err(|why| {
        let help = "name one host per line, as in h1 slots=8, without ranges";
        Failure::saying(Cause::Plan, format!("{typed}: {why}")).with_help(help)
    })?;
    if hosts.is_empty() {
        let (cause, place) = if is_file {
            (Cause::Plan, typed.as_str())
        } else {
            (Cause::Usage, "the command line")
        };
        let help = "name hosts, as in `stormlp launch h1,h2`, or a hostfile with one name per line";
        return Err(Failure::saying(cause, format!("{place} names no host")).with_help(help));
    }
    let mut document = doctor::launch(&hosts, is_file.then_some(typed));
    if !is_file && !typed.contains(',') {
        let found = format!("{typed}, since no file {typed} is in this folder");
        document.brief.add("host", found);
    }
    output::show(&document)
}
