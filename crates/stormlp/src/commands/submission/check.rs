//! `stormlp submission check`: checks a tree against every rule.

use std::path::PathBuf;

use stormlp_mlperf::show as submission;
use stormlp_mlperf::submission::{Submission, TreeVerdict, check, read};

use crate::output::{self, Format};
use stormlp_core::failure::Failure;

/// Arguments of `stormlp submission check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp submission check mlperf/                  a package with closed/ and open/
  stormlp submission check results/ --details       a results folder, with the rules that passed
  stormlp submission check results/ --format json

Exit code: 0 the rules are met, 6 a rule is broken or cannot be checked, 4 no run in TREE.")]
pub(crate) struct Args {
    /// Folder with closed/ or open/, or a results folder
    #[arg(value_name = "TREE")]
    tree: PathBuf,

    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// The contents of a tree to check.
const EXPECTED: &str = "name a package (it has closed/ORGANISATION/results/SYSTEM/… or open/), a results \
                        folder of mlpstorage (training/MODEL/run/TIME/, checkpointing/MODEL/TIME/), or a \
                        run of DLIO (summary.json)";

/// Checks the tree.
///
/// # Errors
/// With exit code 6 if a rule is broken, 4 if there is no run.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let tree = args.tree.display();
    let submission = Submission::survey(read::tree(&args.tree)?);
    if submission.is_foreign() {
        let what = anyhow::anyhow!("no run found in {tree}");
        return Err(Failure::machine(what).with_help(EXPECTED));
    }
    let report = check(&submission);
    let all = output::details();
    args.format.print(&report, |report| submission::check(report, &tree.to_string(), all))?;
    match report.verdict {
        TreeVerdict::Invalid => {
            Err(Failure::missed_target(format!("{tree} breaks rules of MLPerf Storage v3.0")))
        }
        TreeVerdict::Incomplete => Err(Failure::missed_target(format!(
            "cannot determine whether {tree} meets the rules of MLPerf Storage v3.0: {}",
            report.blocked_by.join(", ")
        ))),
        TreeVerdict::Open | TreeVerdict::Closed | TreeVerdict::Rehearsal => Ok(()),
    }
}
