//! `stormlp completions SHELL`: a completion script, generated from the argument definitions.

mod values;

use clap::Command;
use clap_complete::Shell;

use crate::output;
use stormlp_core::failure::Failure;

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

/// Prints the script for `command` on stdout.
pub(crate) fn run(args: Args, command: Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    let mut command = values::offer(command);
    clap_complete::generate(args.shell, &mut command, "stormlp", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}
