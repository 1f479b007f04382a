//! A result in every format, and the places that it goes to.

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use serde::Serialize;
use stormlp_core::failure::Failure;
use stormlp_core::report::ReportKind;
use stormlp_hosts::session::Session;
use stormlp_matrix::show::gdsio_lines;
use stormlp_show::document::Document;
use stormlp_show::html::{self, Sheet};
use stormlp_show::{Shown, markdown, openmetrics, series_csv, text};
use stormlp_transfer::run_context::now;

use super::file::{append_csv, check_folder, check_header, csv_text, replace, rows};
use crate::any_report::AnyReport;
use crate::hosts::hostname;
use crate::output;

/// How a result is written down.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people, as wide as the terminal
    #[default]
    #[value(aliases = ["table", "txt"])]
    Text,
    /// The whole report, for scripts
    Json,
    /// A line for each cell, epoch or checkpoint
    Csv,
    /// CSV over time: a line for each interval of each quantity, for plotting
    SeriesCsv,
    /// For a README or a ticket
    #[value(alias = "md")]
    Markdown,
    /// gdsio's result lines, only for `stormlp gds`
    #[value(alias = "log")]
    Gdsio,
    /// One self-contained page with charts, tables and evidence
    #[value(alias = "htm")]
    Html,
    /// For a site's monitoring
    #[value(alias = "prom")]
    Openmetrics,
    /// The first chart alone, for a README
    Svg,
}

impl Format {
    /// The formats that only reports of runs have.
    pub(crate) const OF_REPORTS: [Self; 4] =
        [Self::Gdsio, Self::Openmetrics, Self::SeriesCsv, Self::Svg];
}

/// Parses a format; help does not list `refused`, for which a command has a better answer than that
/// there is no such format.
pub(crate) fn formats_without(refused: &[Format]) -> impl TypedValueParser<Value = Format> + use<> {
    let values = Format::value_variants().iter().filter_map(|format| {
        let value = format.to_possible_value()?;
        Some(value.hide(refused.contains(format)))
    });
    PossibleValuesParser::new(values.collect::<Vec<_>>())
        .try_map(|text| Format::from_str(&text, false))
}

/// The names of the formats that are not `refused`: text, json and so on.
pub(crate) fn names_without(refused: &[Format]) -> String {
    let listed = Format::value_variants().iter().filter(|format| !refused.contains(format));
    let names =
        listed.filter_map(|format| Some(format.to_possible_value()?.get_name().to_string()));
    names.collect::<Vec<_>>().join(", ")
}

/// The format of a file, by its extension: the name or an alias of a format.
fn of_file(path: &Path) -> Result<Format, Failure> {
    let name = path.to_string_lossy().to_ascii_lowercase().replace(".series.csv", ".series-csv");
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    Format::from_str(extension, true).map_err(|_| {
        Failure::usage(format!(
            "{}: the extension is not a format's: use .json, .csv, .series.csv, .md, .html, \
             .txt, .prom, .svg or .gdsio",
            path.display()
        ))
    })
}

/// Output options of every result.
#[derive(Debug, Default, PartialEq, Args)]
#[command(next_help_heading = "Results")]
pub(crate) struct ExportArgs {
    /// Output format [default: text]
    #[arg(long, value_enum)]
    format: Option<Format>,

    /// Also write FILE, in the format of its extension (.json, .csv, .html, …); repeatable
    #[arg(short, long, value_name = "FILE")]
    output: Vec<PathBuf>,

    /// Append to .csv files
    #[arg(long, requires = "output")]
    append: bool,
}

impl ExportArgs {
    /// The format of stdout.
    pub(super) fn format(&self) -> Format {
        self.format.unwrap_or_default()
    }

    /// Checks that every file of `--output` can be written; `columns` are the CSV's.
    ///
    /// # Errors
    /// If the extension of a file is not a format's, or the file cannot be used.
    pub(crate) fn open(self, columns: &[&str]) -> Result<Targets, Failure> {
        let with_format = |path: PathBuf| of_file(&path).map(|format| (path, format));
        let files: Vec<_> = self.output.into_iter().map(with_format).collect::<Result<_, _>>()?;
        for (path, format) in &files {
            check_folder("--output", path)?;
            if self.append && *format == Format::Csv {
                check_header(path, columns)?;
            }
        }
        if self.append && !files.iter().any(|(_, format)| *format == Format::Csv) {
            return Err(Failure::usage("--append is for .csv files, and --output names none"));
        }
        let format = self.format.unwrap_or_default();
        Ok(Targets { format, files, appends: self.append, ..Targets::default() })
    }

    /// The same for a saved result: without `--format` it is only written to its files.
    ///
    /// # Errors
    /// The errors of [`Self::open`].
    pub(crate) fn open_saved(self, columns: &[&str]) -> Result<Targets, Failure> {
        let is_printed = self.format.is_some() || self.output.is_empty();
        Ok(Targets { is_printed, ..self.open(columns)? })
    }

    /// The same for a result that is not a report of a run.
    ///
    /// # Errors
    /// Also if only reports have a format.
    pub(crate) fn open_answer(self, columns: &[&str]) -> Result<Targets, Failure> {
        let targets = self.open(columns)?;
        if targets.any(|format| Format::OF_REPORTS.contains(&format)) {
            return Err(only_for_reports());
        }
        Ok(targets)
    }
}

/// The failure for a format that only reports of runs have.
fn only_for_reports() -> Failure {
    Failure::usage(
        "gdsio's result lines, openmetrics, series-csv and svg are only for reports: use text, \
         json, csv, markdown or html",
    )
}

/// A result, as its formats need it.
pub(crate) struct Forms<'a> {
    /// One for each report.
    pub(crate) documents: Vec<Document>,
    /// Its text in JSON.
    pub(crate) json: &'a dyn Fn() -> Result<String, Failure>,
    /// Its parts of an HTML page.
    pub(crate) sheets: &'a dyn Fn() -> Vec<Sheet>,
    /// The reports of runs, for the formats that only these have.
    pub(crate) reports: Vec<&'a AnyReport>,
}

impl Forms<'_> {
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
            .with_help(format!("name only reports of `stormlp {}`", kind.name())))
        })
    }
}

/// Where a result goes: to stdout, and to the files of `--output`.
#[derive(Debug)]
pub(crate) struct Targets {
    /// The format of stdout.
    pub(crate) format: Format,
    is_printed: bool,
    pub(super) files: Vec<(PathBuf, Format)>,
    /// Whether CSV is appended to its file.
    appends: bool,
    /// Whether gdsio's lines have one for each job.
    pub(super) per_job: bool,
}

impl Default for Targets {
    fn default() -> Self {
        let files = Vec::new();
        Self { format: Format::Text, is_printed: true, files, appends: false, per_job: false }
    }
}

impl Targets {
    /// gdsio's result lines on stdout.
    pub(super) fn gdsio(per_job: bool) -> Self {
        Self { format: Format::Gdsio, per_job, ..Self::default() }
    }

    /// Whether any format is one that `takes` selects.
    pub(crate) fn any(&self, takes: impl Fn(Format) -> bool) -> bool {
        (self.is_printed && takes(self.format))
            || self.files.iter().any(|(_, format)| takes(*format))
    }

    /// Prints an answer and writes the files; `data` is the machine-readable form, and `page` the
    /// page, which tells what made it.
    ///
    /// # Errors
    /// If stdout or a file cannot be written.
    pub(crate) fn answer(
        &self,
        data: &(impl Serialize + ?Sized),
        document: Document,
        page: impl Fn(Document) -> Sheet,
    ) -> Result<(), Failure> {
        let by = |sheet: Sheet| sheet.made_by(Session::command_line(), &hostname(), &now());
        self.deliver(&Forms {
            json: &|| output::json(data),
            sheets: &|| vec![by(page(document.clone()))],
            documents: vec![document.clone()],
            reports: Vec::new(),
        })
    }

    /// Prints the result and writes the files.
    ///
    /// # Errors
    /// If stdout or a file cannot be written.
    pub(crate) fn deliver(&self, forms: &Forms<'_>) -> Result<(), Failure> {
        let printed = self.print(forms);
        self.export(forms).and(printed)
    }

    /// Prints the result, for a terminal as much as fits.
    ///
    /// # Errors
    /// If it does not have the format, or stdout cannot be written.
    pub(super) fn print(&self, forms: &Forms<'_>) -> Result<(), Failure> {
        match self.is_printed {
            true => output::print(&self.text(forms, self.format, output::drawn)?),
            false => Ok(()),
        }
    }

    /// Writes every file that can be written; returns the first error.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(super) fn export(&self, forms: &Forms<'_>) -> Result<(), Failure> {
        let write = |(path, format): &(PathBuf, Format)| match (format, &*forms.documents) {
            (Format::Csv, [document]) if self.appends => append_csv(path, document),
            _ => replace("--output", path, &self.text(forms, *format, whole)?),
        };
        let told = |file: &(PathBuf, Format)| write(file).map(|()| output::wrote(&file.0));
        self.files.iter().map(told).fold(Ok(()), Result::and)
    }

    /// The result in a format; `draw` decides how much text shows.
    ///
    /// # Errors
    /// If the result does not have the format.
    fn text(
        &self,
        forms: &Forms<'_>,
        format: Format,
        draw: fn(&Document) -> String,
    ) -> Result<String, Failure> {
        let joined = |draw: fn(&Document) -> String| {
            forms.documents.iter().map(draw).collect::<Vec<_>>().join("\n")
        };
        match (format, forms.reports.as_slice()) {
            (Format::Text, _) => Ok(joined(draw)),
            (Format::Markdown, _) => Ok(joined(markdown::render)),
            (Format::Json, _) => (forms.json)(),
            (Format::Html, _) => Ok(html::page((forms.sheets)())),
            (Format::Csv, reports) => {
                if let Some(first) = reports.first() {
                    forms.only(first.head().kind, "CSV")?;
                }
                let documents = forms.documents.iter().enumerate();
                documents.map(|(nth, document)| rows(document, nth == 0)).collect()
            }
            (_, []) => Err(only_for_reports()),
            (Format::Openmetrics, reports) => {
                let shown: Vec<&dyn Shown> = reports.iter().map(|report| &***report).collect();
                Ok(openmetrics::render(&shown))
            }
            (Format::Gdsio, reports) => {
                forms.only(ReportKind::Gds, "gdsio's result lines")?;
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
}

/// A document as the text of a file, which shows everything.
fn whole(document: &Document) -> String {
    text::render(document, None)
}
