//! `stormlp report`: a saved report once more, in any format, or the list of a folder.

use std::fs;
use std::path::{Path, PathBuf};

use stormlp_model::matrix::CellStatus;
use stormlp_model::report::AnyReport;
use stormlp_report::{checkpoint, csv, markdown, training};

use super::gds::{Format, OutputArgs};
use super::saved;
use crate::exit::Failure;
use crate::output;
use crate::session::Session;

/// Arguments of `stormlp report`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp report                                        what is saved in ./stormlp-results
  stormlp report stormlp-results/gds-matrix-20261121-101502
  stormlp report after/report.json --baseline before/report.json --format markdown")]
pub(crate) struct Args {
    /// A saved report, the folder of one, or a folder of such folders
    #[arg(value_name = "FILE|DIR", default_value = "stormlp-results")]
    place: PathBuf,

    #[command(flatten)]
    output: OutputArgs,
}

/// Shows the report, or lists the folder.
pub(crate) fn run(args: Args, _session: &Session) -> Result<(), Failure> {
    let inside = args.place.join("report.json");
    let file = match (args.place.is_dir(), inside.is_file()) {
        (true, false) => return list(&args.place),
        (true, true) => inside,
        (false, _) => args.place,
    };
    let outputs = args.output.open()?;
    let report = saved::any(&file)?;
    let document = match &report {
        AnyReport::Gds(report) => return outputs.write(report),
        AnyReport::Train(report) => training::document(report),
        AnyReport::Checkpoint(report) => checkpoint::document(report),
    };
    match outputs.format() {
        Format::Json => output::print(&output::json(&report)?),
        Format::Text => output::show(&document),
        Format::Markdown => output::print(&markdown::render(&document)),
        Format::Csv => output::print(
            &csv::render(&document, true)
                .map_err(|error| Failure::bug(anyhow::Error::new(error)))?,
        ),
        Format::Gdsio => Err(Failure::usage(
            "only a report of `stormlp gds` has gdsio's line",
        )),
    }
}

/// A line for each report of a folder.
fn list(folder: &Path) -> Result<(), Failure> {
    let mut reports: Vec<PathBuf> = fs::read_dir(folder)
        .map_err(|error| Failure::machine(anyhow::Error::new(error)))?
        .flatten()
        .map(|entry| entry.path().join("report.json"))
        .filter(|path| path.is_file())
        .collect();
    reports.sort();
    if reports.is_empty() {
        return Err(
            Failure::machine(anyhow::anyhow!("{} holds no reports", folder.display()))
                .with_help("`stormlp gds` saves one after every run"),
        );
    }
    let lines: Vec<String> = reports.iter().map(|path| line(path)).collect();
    output::print(&lines.join("\n"))
}

/// When, what, how much of it, and where.
fn line(path: &Path) -> String {
    match saved::any(path) {
        Err(failure) => format!("unreadable  {}: {:#}", path.display(), failure.error),
        Ok(report) => {
            let detail = match &report {
                AnyReport::Gds(report) => {
                    let cells = report.results.cells.iter();
                    let ok = cells.filter(|cell| cell.status == CellStatus::Ok).count();
                    let planned = report.plan.cells.len();
                    format!("{}: {ok} of {planned} cells", report.plan.name)
                }
                AnyReport::Train(report) => report.results.workload.clone(),
                AnyReport::Checkpoint(report) => report.plan.model.clone(),
            };
            let head = report.head();
            format!(
                "{}  {:<10}  {detail}  {}",
                head.started_at,
                head.kind.name(),
                path.display()
            )
        }
    }
}
