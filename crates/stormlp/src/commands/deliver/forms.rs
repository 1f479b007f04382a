//! A result in every format, and the places that it goes to.

use std::path::PathBuf;

use anyhow::Context as _;
use stormlp_core::failure::Failure;
use stormlp_core::report::ReportKind;
use stormlp_matrix::show::gdsio_lines;
use stormlp_show::document::Document;
use stormlp_show::html::{self, Sheet};
use stormlp_show::{Shown, csv, markdown, openmetrics, series_csv};

use super::file::{append_csv, check_folder, check_header, replace};
use super::sink::{Format, Sink, of_file};
use crate::any_report::AnyReport;

/// A result, as its formats take it.
pub(crate) struct Forms<'a> {
    /// One for each report.
    pub(crate) documents: Vec<Document>,
    /// Its text in JSON.
    pub(crate) json: &'a dyn Fn() -> Result<String, Failure>,
    /// Its parts of an HTML page.
    pub(crate) sheets: &'a dyn Fn() -> Vec<Sheet>,
    /// The reports of runs, for the formats that only these have.
    pub(crate) reports: Vec<&'a AnyReport>,
    /// Whether gdsio's lines have one for each job.
    pub(crate) per_job: bool,
}

impl Forms<'_> {
    /// The result in a format; `sink` decides how much text shows.
    ///
    /// # Errors
    /// If the result does not have the format.
    pub(crate) fn text(&self, format: Format, sink: &Sink) -> Result<String, Failure> {
        let joined = |draw: &dyn Fn(&Document) -> String| {
            self.documents.iter().map(draw).collect::<Vec<_>>().join("\n")
        };
        match (format, self.reports.as_slice()) {
            (Format::Text, _) => Ok(joined(&|document| sink.drawn(document))),
            (Format::Markdown, _) => Ok(joined(&|document| markdown::render(document))),
            (Format::Json, _) => (self.json)(),
            (Format::Html, _) => Ok(html::page((self.sheets)())),
            (Format::Csv, reports) => {
                if let Some(first) = reports.first() {
                    self.only(first.head().kind, "CSV")?;
                }
                let documents = self.documents.iter().enumerate();
                documents.map(|(nth, document)| rows(document, nth == 0)).collect()
            }
            (_, []) => Err(Self::only_for_reports()),
            (Format::Openmetrics, reports) => {
                let shown: Vec<&dyn Shown> = reports.iter().map(|report| &***report).collect();
                Ok(openmetrics::render(&shown))
            }
            (Format::Gdsio, reports) => {
                self.only(ReportKind::Gds, "gdsio's result lines")?;
                let lines = reports.iter().filter_map(|report| report.as_gds());
                Ok(lines.map(|report| gdsio_lines(report, self.per_job)).collect())
            }
            (Format::SeriesCsv, [report]) => csv_text(series_csv::render(&***report)),
            (Format::Svg, [report]) => {
                html::lead(&***report).map_err(|why| Failure::no_plan(anyhow::anyhow!("{why}")))
            }
            (Format::SeriesCsv | Format::Svg, _) => Err(Failure::usage(
                "--format series-csv and svg are of one report: name one of them",
            )),
        }
    }

    /// The failure for a format that only reports of runs have.
    pub(super) fn only_for_reports() -> Failure {
        Failure::usage(
            "gdsio's result lines, openmetrics, series-csv and svg are only for reports: use text, \
             json, csv, markdown or html",
        )
    }

    /// Rejects reports of other commands.
    ///
    /// # Errors
    /// With exit code 3.
    pub(crate) fn only(&self, kind: ReportKind, what: &str) -> Result<(), Failure> {
        let other = self.reports.iter().find(|report| report.head().kind != kind);
        other.map_or(Ok(()), |other| {
            Err(Failure::no_plan(anyhow::anyhow!(
                "{what} cannot mix reports of `stormlp {}` and `stormlp {}`",
                other.head().kind.name(),
                kind.name()
            ))
            .with_help(format!("select one command with --kind {}", kind.name())))
        })
    }
}

/// The format of stdout and the files that a result is exported to. They are checked before the work.
#[derive(Debug)]
pub(crate) struct Targets {
    pub(super) format: Format,
    exports: Vec<(PathBuf, Format)>,
}

impl Targets {
    /// Only stdout.
    pub(super) fn stdout(format: Format) -> Self {
        Self { format, exports: Vec::new() }
    }

    /// Checks that every export can be written; `columns` are those of CSV.
    ///
    /// # Errors
    /// If the extension of a file is not that of a format, or the file cannot be used.
    pub(super) fn open(
        format: Format,
        exports: Vec<PathBuf>,
        columns: &[&str],
    ) -> Result<Self, Failure> {
        let with_format = |path: PathBuf| of_file(&path).map(|format| (path, format));
        let exports: Vec<_> = exports.into_iter().map(with_format).collect::<Result<_, _>>()?;
        for (path, format) in &exports {
            check_folder("--export", path)?;
            if *format == Format::Csv {
                check_header(path, columns)?;
            }
        }
        Ok(Self { format, exports })
    }

    /// Whether any format is one that `takes` selects.
    pub(super) fn any(&self, takes: impl Fn(Format) -> bool) -> bool {
        takes(self.format) || self.exports.iter().any(|(_, format)| takes(*format))
    }

    /// Prints the result.
    ///
    /// # Errors
    /// If it does not have the format, or stdout or the file of `sink` cannot be written.
    pub(super) fn print(&self, forms: &Forms<'_>, sink: &Sink) -> Result<(), Failure> {
        sink.write(&forms.text(self.format, sink)?)
    }

    /// Writes every export that can be written; returns the first error.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(super) fn export(&self, forms: &Forms<'_>) -> Result<(), Failure> {
        let write = |(path, format): &(PathBuf, Format)| match (format, &*forms.documents) {
            (Format::Csv, [document]) => append_csv(path, document),
            _ => replace("--export", path, &forms.text(*format, &Sink(Some(path.clone())))?),
        };
        self.exports.iter().map(write).fold(Ok(()), Result::and)
    }
}

/// The records of a document as CSV.
///
/// # Errors
/// If a row has too many fields, which is a bug in stormlp.
pub(super) fn rows(document: &Document, with_header: bool) -> Result<String, Failure> {
    csv_text(csv::render(document, with_header))
}

fn csv_text<E>(rendered: Result<String, E>) -> Result<String, Failure>
where
    E: std::error::Error + Send + Sync + 'static,
{
    rendered.context("rows and columns do not match").map_err(Failure::bug)
}
