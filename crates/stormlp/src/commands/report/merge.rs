//! `stormlp report merge`: combines the reports saved by the hosts of a run.

use std::path::{Path, PathBuf};

use crate::any_report::AnyReport;
use stormlp_checkpoint::plan as checkpoints;
use stormlp_checkpoint::report::CheckpointReport;
use stormlp_checkpoint::run as checkpoint;
use stormlp_core::report::Head;
use stormlp_core::report::PartOf;
use stormlp_core::units::counted;
use stormlp_core::warning::{Warning, WarningKind};
use stormlp_hosts::parts;
use stormlp_hosts::parts::names;
use stormlp_matrix::plan as matrices;
use stormlp_matrix::plan::MatrixReport;
use stormlp_matrix::run as matrix;
use stormlp_training::report::TrainReport;
use stormlp_training::run as training;
use stormlp_transfer::storage::{Disk, Storage as _};

use crate::commands::deliver::{ColumnsArg, ShowArgs};
use crate::commands::saved;
use stormlp_core::failure::Failure;
use stormlp_hosts::saver::PARTS;

/// Arguments of `stormlp report merge`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp report merge stormlp-results/gds-matrix-20261121-101502
      an interrupted run, from the parts saved by its hosts
  stormlp report merge h1/report.json h2/report.json --export whole.json
      hosts started by their clocks (--start-at, --run-id), as one")]
pub(crate) struct Args {
    /// Reports of all hosts, their folders, or the folder of a run that contains them
    #[arg(value_name = "PATH", required = true)]
    places: Vec<PathBuf>,

    /// Write to this file instead of stdout, in the format of its extension
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    output: Option<PathBuf>,

    #[command(flatten)]
    show: ShowArgs,

    #[command(flatten)]
    columns: ColumnsArg,
}

/// Merges the parts and shows the result.
///
/// # Errors
/// With exit code 3 if they are not parts of one run.
pub(super) fn run(args: Args) -> Result<(), Failure> {
    let mut found = Vec::new();
    for place in &args.places {
        found.extend(files(place)?);
    }
    let reports: Vec<AnyReport> =
        found.iter().map(|file| saved::any(file)).collect::<Result<_, _>>()?;
    let reports = parts::in_order(reports, |report| report.head()).map_err(|why| {
        Failure::no_plan(anyhow::anyhow!("these reports cannot be merged: {why}")).with_help(
            "name the parts of one run: the folder `parts` of its results, or the \
                        reports of hosts with the same --run-id and --start-at",
        )
    })?;
    let missing = parts::missing(reports.iter().map(|report| report.head()));
    let detached = parts::detached(reports.iter().map(|report| report.head()));
    let mut whole = merged(reports)?;
    if let Some((run_id, hosts)) = detached {
        let made = counted(hosts.len() as u64, "part");
        warn(
            &mut whole,
            Warning::new(
                WarningKind::Hosts,
                format!(
                    "merged from {made} of the run `{run_id}`, of {}: other hosts with that \
                     --run-id are missing here",
                    hosts.join(", ")
                ),
                "name the reports of all",
            ),
        );
    }
    if !missing.is_empty() {
        let ranks: Vec<String> = missing.iter().map(ToString::to_string).collect();
        warn(
            &mut whole,
            Warning::new(
                WarningKind::Hosts,
                format!("the parts of these ranks are missing: {}", ranks.join(", ")),
                "copy them here from their hosts: the result is incomplete without them",
            ),
        );
    }
    let (show, sink) = args.show.with_output(args.output)?;
    super::one(&whole, show, args.columns.columns, &sink)
}

/// The reports in `place`.
fn files(place: &Path) -> Result<Vec<PathBuf>, Failure> {
    let inside = place.join(PARTS);
    if Disk.is_folder(&inside)? { saved::files(&inside) } else { saved::files(place) }
}

fn warn(report: &mut AnyReport, warning: Warning) {
    match report {
        AnyReport::Gds(report) => report.warn(warning),
        AnyReport::Train(report) => report.warn(warning),
        AnyReport::Checkpoint(report) => report.warn(warning),
        AnyReport::Kvcache(report) => report.warn(warning),
    }
}

/// The merged report of parts of one kind, in rank order.
fn merged(reports: Vec<AnyReport>) -> Result<AnyReport, Failure> {
    if let Some(parts) = matrices_of(&reports) {
        let plans = parts.iter().map(|part| (&part.head, &part.plan));
        same_work(plans, matrices::difference)?;
        return whole(matrix::merged(&parts));
    }
    // Under a launcher, each host has the report of all.
    if let Some(parts) = detached_checkpoints(&reports) {
        let plans = parts.iter().map(|part| (&part.head, &part.plan));
        same_work(plans, checkpoints::difference)?;
        return whole(checkpoint::merged(&parts));
    }
    furthest(reports)
}

/// The reports, if all are matrices.
fn matrices_of(reports: &[AnyReport]) -> Option<Vec<MatrixReport>> {
    let matrices = reports.iter().map(|report| match report {
        AnyReport::Gds(report) => Some(report.clone()),
        AnyReport::Train(_) | AnyReport::Checkpoint(_) | AnyReport::Kvcache(_) => None,
    });
    matrices.collect()
}

/// The reports, if all are checkpoints of hosts without a launcher.
fn detached_checkpoints(reports: &[AnyReport]) -> Option<Vec<CheckpointReport>> {
    let detached = |head: &Head| head.part.as_ref().is_some_and(|part| part.rank.is_none());
    let checkpoints = reports.iter().map(|report| match report {
        AnyReport::Checkpoint(report) if detached(&report.head) => Some(report.clone()),
        AnyReport::Checkpoint(_)
        | AnyReport::Gds(_)
        | AnyReport::Train(_)
        | AnyReport::Kvcache(_) => None,
    });
    checkpoints.collect()
}

/// The merged report.
fn whole<R: Into<AnyReport>>(report: Option<R>) -> Result<AnyReport, Failure> {
    let report = report.ok_or_else(|| Failure::bug(anyhow::anyhow!("a part is none")))?;
    Ok(report.into())
}

/// A one-line description of how the work of two hosts differs.
type Difference<P> = fn((&str, &P), (&str, &P)) -> Option<String>;

/// Checks that the hosts of `parts` were to do the same work.
///
/// # Errors
/// With exit code 3 and the difference between two of them.
fn same_work<'p, P: 'p>(
    parts: impl Iterator<Item = (&'p Head, &'p P)> + Clone,
    difference: Difference<P>,
) -> Result<(), Failure> {
    let known = parts.clone().filter_map(|(head, _)| head.part.as_ref());
    let names = names(&known.collect::<Vec<&PartOf>>());
    let mut hosts = names.iter().map(String::as_str).zip(parts.map(|(_, plan)| plan));
    let Some(first) = hosts.next() else {
        return Ok(());
    };
    match hosts.find_map(|other| difference(first, other)) {
        None => Ok(()),
        Some(difference) => {
            Err(Failure::no_plan(anyhow::anyhow!("these reports cannot be merged: {difference}"))
                .with_help(
                    "start all hosts with the same options, except for the locations of files",
                ))
        }
    }
}

/// The report of the host that got furthest: after each epoch and checkpoint every host has the
/// report of all.
fn furthest(reports: Vec<AnyReport>) -> Result<AnyReport, Failure> {
    let units = |report: &AnyReport| match report {
        AnyReport::Gds(report) => report.results.cells.len(),
        AnyReport::Train(report) => report.results.epochs.len(),
        AnyReport::Checkpoint(report) => report.results.saves.len() + report.results.restores.len(),
        AnyReport::Kvcache(report) => report.results.trials.len(),
    };
    let is_whole = |report: &AnyReport| match report {
        AnyReport::Train(report) => !training::is_of_some_hosts(report),
        AnyReport::Gds(_) | AnyReport::Checkpoint(_) | AnyReport::Kvcache(_) => true,
    };
    if !reports.iter().any(is_whole)
        && let Some(whole) = of_own_epochs(&reports)
    {
        return Ok(AnyReport::Train(whole));
    }
    let mut furthest = reports.into_iter().max_by_key(|one| (is_whole(one), units(one)));
    match &mut furthest {
        Some(AnyReport::Train(report)) => report.head.part = None,
        Some(AnyReport::Checkpoint(report)) => report.head.part = None,
        Some(AnyReport::Kvcache(report)) => report.head.part = None,
        Some(AnyReport::Gds(_)) | None => {}
    }
    furthest.ok_or_else(|| Failure::bug(anyhow::anyhow!("there are no parts")))
}

/// The combined result of hosts that ran all epochs independently, if each has a part of it.
fn of_own_epochs(reports: &[AnyReport]) -> Option<TrainReport> {
    let trainings = reports.iter().map(|report| match report {
        AnyReport::Train(report) => Some(report.clone()),
        AnyReport::Gds(_) | AnyReport::Checkpoint(_) | AnyReport::Kvcache(_) => None,
    });
    training::merged(&trainings.collect::<Option<Vec<_>>>()?)
}
