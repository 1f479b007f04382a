//! `stormlp report`: a saved report once more, in any format, or the list of a folder.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use stormlp_model::units::counted;
use stormlp_report::dlio::{self, DlioRun};
use stormlp_report::document::Document;
use stormlp_report::markdown;
use stormlp_report::matrix::Columns;
use stormlp_report::records::Records;

use super::deliver::{self, ColumnsArg, Format, ShowArgs};
use super::saved;
use crate::exit::{Failure, told};
use crate::output;
use crate::session::Session;

/// Arguments of `stormlp report`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp report                                        what is saved in ./stormlp-results
  stormlp report stormlp-results/gds-matrix-20261121-101502
  stormlp report results/training/unet3d/run/20261121_101502
                                                        DLIO's summary.json, ranks' files beside it
  stormlp report after/report.json --baseline before/report.json --format markdown")]
pub(crate) struct Args {
    /// A saved report, the folder of one, or a folder of such folders; or summary.json of DLIO and
    /// mlpstorage, or the folder of one
    /// [default: $STORMLP_RESULTS_DIR, else stormlp-results]
    #[arg(value_name = "FILE|DIR")]
    place: Option<PathBuf>,

    #[command(flatten)]
    output: ShowArgs,

    #[command(flatten)]
    columns: ColumnsArg,
}

/// Where the columns of the list stand in its entries.
const RECORDS: [(&str, &str); 6] = [
    ("started_at", "/started_at"),
    ("kind", "/kind"),
    ("status", "/status"),
    ("headline", "/headline"),
    ("command", "/command"),
    ("file", "/file"),
];

/// Shows the report, or lists the folder.
pub(crate) fn run(args: Args, _session: &Session) -> Result<(), Failure> {
    let place = args.place.unwrap_or_else(deliver::results_folder);
    let file = saved::file(&place);
    if let Some(run) = saved::dlio(&file)? {
        return of_dlio(&run, args.output, args.columns.columns);
    }
    if file.is_dir() {
        return list(&file, args.output, args.columns.columns);
    }
    let report = saved::any(&file)?;
    let kind = report.head().kind;
    let delivery = args.output.open(kind, args.columns.columns)?;
    delivery.check_baseline(&report)?;
    delivery.write(&report)
}

/// What DLIO or mlpstorage left of a run.
fn of_dlio(run: &DlioRun, output: ShowArgs, columns: Columns) -> Result<(), Failure> {
    if columns != Columns::Standard {
        return Err(Failure::usage(
            "--columns goes with a report of `stormlp gds`",
        ));
    }
    let document = dlio::document(run);
    match output.of_other("DLIO's files")? {
        Format::Json => output::print(&output::json(&run.summary)?),
        Format::Text => output::show(&document),
        Format::Markdown => output::print(&markdown::render(&document)),
        Format::Csv => output::print(&deliver::rows(&document, true)?),
        Format::Gdsio => Err(Failure::usage("DLIO's files have no gdsio lines")),
    }
}

/// When, by which command, how it ended and what it came to, for each report of a folder.
fn list(folder: &Path, output: ShowArgs, columns: Columns) -> Result<(), Failure> {
    if columns != Columns::Standard {
        return Err(Failure::usage(
            "--columns goes with one report, not with a folder of them",
        ));
    }
    let format = output.of_other("a folder of them")?;
    let files = saved::files(folder)?;
    let mut reports: Vec<Value> = files.iter().map(|path| summary(path)).collect();
    // Folders of runs that began in the same second are numbered in their order.
    reports.sort_by_key(|report| {
        let file = report["file"].to_string();
        (report["started_at"].to_string(), file.len(), file)
    });
    match format {
        Format::Json => output::print(&output::json(&reports)?),
        Format::Text => output::show(&document(folder, &reports)),
        Format::Markdown => output::print(&markdown::render(&document(folder, &reports))),
        Format::Csv => output::print(&deliver::rows(&document(folder, &reports), true)?),
        Format::Gdsio => Err(Failure::usage("a list of reports has no gdsio lines")),
    }
}

/// What the list says of a report.
fn summary(path: &Path) -> Value {
    match saved::any(path) {
        Ok(report) => {
            let head = report.head();
            let document = stormlp_report::document(&report, Columns::Standard);
            let mark = document.mark.map(|mark| format!("{mark}  "));
            json!({
                "started_at": head.started_at,
                "kind": head.kind,
                "status": stormlp_report::status(&report),
                "headline": format!("{}{}", mark.unwrap_or_default(), document.headline),
                "command": head.command,
                "file": path,
            })
        }
        Err(failure) => json!({
            "status": "unreadable",
            "headline": told(&failure.error),
            "file": path,
        }),
    }
}

fn document(folder: &Path, reports: &[Value]) -> Document {
    let mut document = Document::new(format!(
        "{} in {}",
        counted(reports.len() as u64, "report"),
        folder.display()
    ));
    for report in reports {
        let text = |key: &str| report[key].as_str().unwrap_or("-").to_string();
        let (kind, status, headline) = (text("kind"), text("status"), text("headline"));
        document
            .facts
            .add(text("started_at"), format!("{kind}, {status}: {headline}"));
        document.facts.add("", text("file"));
    }
    document.records = Records::new(&(), reports.iter().cloned(), &RECORDS);
    document
}
