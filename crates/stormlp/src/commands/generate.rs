//! `stormlp generate`: a completion script or manual pages, from the definitions of the arguments.

mod values;

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Command, Subcommand};
use clap_complete::Shell;

use crate::output;
use stormlp_core::failure::Failure;
use stormlp_hosts::session::Session;

/// Arguments of `stormlp generate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp generate completions bash > ~/.local/share/bash-completion/completions/stormlp
  stormlp generate completions zsh > ~/.zfunc/_stormlp
  stormlp generate man ~/.local/share/man/man1       then `man stormlp-gds` finds them")]
pub(crate) struct Args {
    #[command(subcommand)]
    output: Output,
}

#[derive(Debug, Subcommand)]
enum Output {
    /// Print a completion script for a shell
    Completions {
        /// The shell to write for
        shell: Shell,
    },
    /// Write a manual page for each command
    Man {
        /// Output folder; created if missing
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

/// Prints the script for `command` on stdout, or writes its pages.
pub(crate) fn run(args: Args, command: Command, session: &Session) -> Result<(), Failure> {
    let folder = match args.output {
        Output::Man { folder } => folder,
        Output::Completions { shell } => {
            let mut script = Vec::new();
            let mut command = values::offer(command);
            clap_complete::generate(shell, &mut command, "stormlp", &mut script);
            return output::print(&String::from_utf8_lossy(&script));
        }
    };
    fs::create_dir_all(&folder)
        .and_then(|()| clap_mangen::generate_to(explained(command), &folder))
        .with_context(|| format!("cannot write manual pages to {}", folder.display()))
        .map_err(|error| {
            Failure::machine(error).with_help("name a folder that you may write to")
        })?;
    if !session.quiet {
        output::say(format!("manual pages: {}", folder.display()));
    }
    Ok(())
}

/// The command with every option in its short help: pages leave out the text of the rest.
fn explained(command: Command) -> Command {
    command.mut_args(|option| option.hide_short_help(false)).mut_subcommands(explained)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;

    /// The heads of entries that the next macro follows, in place of text.
    fn bare(page: &str) -> Vec<&str> {
        let entries = page.split("\n.TP\n").skip(1).filter_map(|entry| {
            let mut lines = entry.lines();
            let (head, text) = (lines.next()?, lines.next().unwrap_or_default());
            (text.is_empty() || text.starts_with('.')).then_some(head)
        });
        entries.collect()
    }

    #[test]
    fn every_option_has_its_text() {
        assert_eq!(bare(".SH OPTIONS\n.TP\n--a\nText\n.TP\n--b\n.TP\n--c\n.RS\n"), ["--b", "--c"]);
        let folder = tempfile::tempdir().unwrap();
        clap_mangen::generate_to(explained(cli::command()), folder.path()).unwrap();
        let mut options = 0;
        for page in fs::read_dir(folder.path()).unwrap() {
            let path = page.unwrap().path();
            let page = fs::read_to_string(&path).unwrap();
            options += page.matches("\n.TP\n").count();
            assert_eq!(bare(&page), Vec::<&str>::new(), "{}", path.display());
        }
        assert!(options > 300, "{options}");
    }
}
