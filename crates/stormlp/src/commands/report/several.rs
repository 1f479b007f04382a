//! Several complete reports at once.

use std::path::{Path, PathBuf};
use stormlp_show::Shown;

use crate::any_report::AnyReport;
use stormlp_core::report::ReportKind;
use stormlp_matrix::show::gdsio_lines;
use stormlp_show::document::{Columns, Document};
use stormlp_show::html::{self, Sheet};
use stormlp_show::{markdown, openmetrics};

use super::super::deliver::{self, Format, ShowArgs, Sink};
use super::super::saved;
use super::Filter;
use crate::output;
use stormlp_core::failure::Failure;

/// Shows the reports of `files`, newest last.
pub(super) fn show(
    files: &[PathBuf],
    filter: &Filter,
    show: ShowArgs,
    columns: Columns,
    sink: &Sink,
) -> Result<(), Failure> {
    let format = show.of_other("several of them")?;
    let read: Result<Vec<AnyReport>, Failure> = files.iter().map(|file| saved::any(file)).collect();
    let mut reports = read?;
    reports.retain(|report| filter.takes(report.head()));
    if reports.is_empty() {
        return Err(filter.none_of(files.len()));
    }
    by_time(&mut reports);
    if columns != Columns::Standard {
        only(&reports, ReportKind::Gds, "--columns")?;
    }
    let documents = || reports.iter().map(|report| report.document_with(columns));
    let text = match format {
        Format::Text => {
            let drawn: Vec<String> = documents().map(|document| sink.drawn(&document)).collect();
            drawn.join("\n")
        }
        Format::Markdown => {
            let drawn: Vec<String> = documents().map(|one| markdown::render(&one)).collect();
            drawn.join("\n")
        }
        Format::Json => output::json(&reports)?,
        Format::Csv => {
            only(&reports, reports[0].head().kind, "CSV")?;
            rows(documents())?
        }
        Format::Html => {
            let sheets = reports
                .iter()
                .zip(documents())
                .map(|(report, document)| Sheet::new(&**report, document));
            html::page(sheets.collect())
        }
        Format::Openmetrics => openmetrics::render(&shown(&reports)),
        Format::Gdsio => {
            only(&reports, ReportKind::Gds, "gdsio's result lines")?;
            let lines = reports.iter().map(|report| match report {
                AnyReport::Gds(report) => gdsio_lines(report, false),
                AnyReport::Train(_) | AnyReport::Checkpoint(_) | AnyReport::Kvcache(_) => {
                    String::new()
                }
            });
            lines.collect()
        }
        Format::Svg => return Err(Failure::usage("--format svg draws one chart of one report")),
        Format::SeriesCsv => {
            return Err(Failure::usage("--format series-csv is of one report: name one of them"));
        }
    };
    sink.write(&text)
}

/// The metrics of all readable reports; each other report gets a warning.
pub(super) fn metrics(files: &[PathBuf], filter: &Filter, sink: &Sink) -> Result<(), Failure> {
    let read = files.iter().filter_map(|file| {
        let report = saved::any(file);
        report.map_err(|failure| left_out(file, &failure)).ok()
    });
    let mut reports: Vec<AnyReport> = read.filter(|one| filter.takes(one.head())).collect();
    if reports.is_empty() {
        return Err(filter.none_of(files.len()));
    }
    by_time(&mut reports);
    sink.write(&openmetrics::render(&shown(&reports)))
}

fn left_out(file: &Path, failure: &Failure) {
    output::say(format!("warning: {} is left out: {}", file.display(), failure.note.fact));
}

fn by_time(reports: &mut [AnyReport]) {
    reports.sort_by(|a, b| a.head().started_at.cmp(&b.head().started_at));
}

/// Rejects reports of other commands.
///
/// # Errors
/// With exit code 3.
fn only(reports: &[AnyReport], kind: ReportKind, what: &str) -> Result<(), Failure> {
    let other = reports.iter().find(|report| report.head().kind != kind);
    other.map_or(Ok(()), |other| {
        Err(Failure::no_plan(anyhow::anyhow!(
            "{what} cannot mix reports of `stormlp {}` and `stormlp {}`",
            other.head().kind.name(),
            kind.name()
        ))
        .with_help(format!("select one command with --kind {}", kind.name())))
    })
}

/// The rows of all documents below one header.
fn rows(documents: impl Iterator<Item = Document>) -> Result<String, Failure> {
    let rows = documents.enumerate().map(|(nth, document)| deliver::rows(&document, nth == 0));
    rows.collect()
}

/// The reports as the lane-independent outputs take them.
fn shown(reports: &[AnyReport]) -> Vec<&dyn Shown> {
    reports.iter().map(|report| &**report).collect()
}
