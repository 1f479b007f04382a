//! `stormlp launch HOST,...|FILE [COMMAND]`: how each launcher starts one process per host.

use std::path::Path;

use stormlp_core::failure::Failure;
use stormlp_core::note::Cause;
use stormlp_core::shell::CommandLine;
use stormlp_show::{doctor, text};

use super::workloads::read_text;
use crate::{other_tools, output};

/// Arguments of `stormlp launch`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp launch h1,h2
  stormlp launch 10.0.0.1,10.0.0.2 gds --dir /shared
  stormlp launch ./hostfile")]
pub(crate) struct Args {
    /// Hosts, or a hostfile
    #[arg(value_name = "HOST,...|FILE")]
    hosts: String,

    /// Command to start, such as gds --dir /shared
    #[arg(value_name = "COMMAND", trailing_var_arg = true,
        default_values = ["train", "unet3d", "--dir", "/shared/unet3d"])]
    command: Vec<String>,
}

/// Prints the commands of each launcher for the hosts: their names, or a hostfile (a path, or the name
/// of a file that is there).
///
/// # Errors
/// With exit code 2 or 3 if no host is named, or one twice, 4 if the hostfile cannot be read.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let typed = &args.hosts;
    let is_file = typed.contains('/') || Path::new(typed).is_file();
    let listed = if is_file {
        read_text(Path::new(typed), "the hostfile")?
    } else {
        typed.replace(',', "\n")
    };
    let hosts = doctor::hosts_of(&listed).map_err(|why| {
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
    if !is_file && hosts.len() < listed.split_whitespace().count() {
        let help = "name each host once: one process per host is started";
        return Err(Failure::usage(format!("{typed} names a host twice")).with_help(help));
    }
    let words = args.command.iter().map(String::as_str);
    let mut words = words.skip_while(|word| *word == "stormlp").peekable();
    if let Some(word) = words.peek().filter(|word| !other_tools::is_command(word)) {
        let fact = format!("stormlp has no command `{word}`");
        return Err(Failure::usage(fact).with_help(
            "separate hosts by commas; name a command as in `stormlp launch h1,h2 gds --dir /shared`",
        ));
    }
    let command = CommandLine::new(["stormlp"].into_iter().chain(words)).to_string();
    let mut document = doctor::launch(&hosts, is_file.then_some(typed), &command);
    if !is_file && !typed.contains(',') {
        let found = format!("{typed}, since no file {typed} is in this folder");
        document.brief.add("host", found);
    }
    // Commands to copy: only the terminal breaks them.
    output::print(&text::render(&document, None))
}
