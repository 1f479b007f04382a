//! `stormlp submission check`: a tree against every rule.

use std::path::PathBuf;

use stormlp_mlperf::show as submission;
use stormlp_mlperf::submission::{Edition, Submission, Verdict, check};

use super::read;
use crate::exit::Failure;
use crate::output;

/// Arguments of `stormlp submission check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp submission check mlperf/             a package with closed/ and open/, before it is sent
  stormlp submission check results/ --all      a results folder of mlpstorage or DLIO, passed rules too
  stormlp submission check rehearsal/ --json   keys: verdict, rules[].id, result, path, evidence, …

Exit code 0 says that every rule is kept that the verdict rests on, 6 that one is broken, or that it
cannot be told (the verdict is invalid or incomplete). What the official checker does about each
rule stands beside it: same, silent (it does not look), or stricter than this check.")]
pub(crate) struct Args {
    /// The folder that holds closed/ or open/, or a folder of results
    #[arg(value_name = "TREE")]
    tree: PathBuf,

    /// Whose rules: 2.0 or 3.0 [default: the one the files belong to]
    #[arg(long, value_name = "EDITION")]
    edition: Option<Edition>,

    /// Show rules that passed too
    #[arg(long)]
    all: bool,

    /// Print JSON for scripts
    #[arg(long)]
    json: bool,
}

/// Checks the tree.
///
/// # Errors
/// With exit code 6 when a rule is broken.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let inside = args.tree.join("rehearsal");
    let has = |name: &str| args.tree.join(name).is_dir();
    // A rehearsal lies in a folder of that name, which may be named by what holds it.
    let root =
        if has("rehearsal") && !has("closed") && !has("open") { inside } else { args.tree.clone() };
    let report = check(&Submission::survey(read::tree(&root)?, args.edition));
    if args.json {
        output::print(&output::json(&report)?)?;
    } else {
        output::show(&submission::check(&report, &root.display().to_string(), args.all))?;
    }
    match report.verdict {
        Verdict::Invalid => Err(Failure::missed_target(format!(
            "{} breaks rules of MLPerf Storage v{}",
            root.display(),
            report.edition
        ))),
        Verdict::Incomplete => Err(Failure::missed_target(format!(
            "whether {} keeps the rules of MLPerf Storage v{} cannot be told: {}",
            root.display(),
            report.edition,
            report.held_up_by.join(", ")
        ))),
        Verdict::Open | Verdict::Closed | Verdict::Rehearsal => Ok(()),
    }
}
