//! `stormlp report`: lists saved reports; `stormlp report show` shows them in any format.

mod list;
mod show;

use stormlp_core::failure::Failure;
use stormlp_core::shell::CommandLine;
use stormlp_hosts::session::Session;

/// Arguments of `stormlp report`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "stormlp report [OPTIONS] [DIR]\n       stormlp report show [OPTIONS] PATH...",
    after_help = "\
Examples:
  stormlp report                             list ./stormlp-results
  stormlp report --kind train --tag ssd=new  only some of them
  stormlp report nightly -o runs.csv         another folder, as a table
  stormlp report -o /var/lib/node_exporter/stormlp.prom
                                             metrics of all reports
  stormlp report show stormlp-results/gds-matrix-20261121-101502"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    shown: Option<Chosen>,

    #[command(flatten)]
    list: list::ListArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Chosen {
    /// Show one report, or several on one page
    Show(show::ReportArgs),
}

/// Lists reports, or shows them.
///
/// # Errors
/// With exit code 2 if options of the list precede `show`, 3 or 4 if a report cannot be read.
pub(crate) fn run(args: Args, _session: &Session) -> Result<(), Failure> {
    match args.shown {
        None => list::list(args.list),
        Some(Chosen::Show(_)) if args.list != list::ListArgs::default() => {
            let mut words: Vec<String> = std::env::args().collect();
            let show = words.iter().skip(2).position(|word| word == "show").unwrap_or_default();
            words[2..=2 + show].rotate_right(1);
            let line = CommandLine::new(words).without_option("--kind").without_option("--tag");
            let help = format!("type `{line}`");
            Err(Failure::usage("an option precedes `show`").with_help(help))
        }
        Some(Chosen::Show(asked)) => show::show(asked),
    }
}
