//! `stormlp completions SHELL`: a completion script, generated from the argument definitions.

mod values;

use clap_complete::Shell;

use crate::cli;
use crate::output;
use stormlp_core::failure::Failure;
use stormlp_hosts::session::Session;

/// Arguments of `stormlp completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp completions bash > ~/.local/share/bash-completion/completions/stormlp
  stormlp completions zsh > ~/.zfunc/_stormlp
  stormlp completions fish > ~/.config/fish/completions/stormlp.fish")]
pub(crate) struct Args {
    /// The shell to write for.
    shell: Shell,
}

/// Prints the script on stdout.
pub(crate) fn run(args: Args, _session: &Session) -> Result<(), Failure> {
    let mut script = Vec::new();
    let mut command = values::offer(cli::command());
    clap_complete::generate(args.shell, &mut command, "stormlp", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}
