//! A result other than a report of a run, printed and exported like reports.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use stormlp_hosts::session::Session;
use stormlp_show::document::Document;
use stormlp_show::html::Sheet;
use stormlp_show::{html, markdown, text};
use stormlp_transfer::surroundings::now;

use super::file::{append_csv, check_folder, check_header, replace};
use super::rows;
use super::sink::{Format, formats_without, of_file};
use crate::hosts::hostname;
use crate::output;
use stormlp_core::failure::Failure;

/// The formats that only reports have.
const OF_REPORTS: [Format; 4] =
    [Format::Gdsio, Format::Openmetrics, Format::SeriesCsv, Format::Svg];

/// Output options.
#[derive(Debug, Args)]
#[command(next_help_heading = "Results")]
pub(crate) struct AnswerArgs {
    /// Output format
    #[arg(long, value_parser = formats_without(&OF_REPORTS), default_value = "text")]
    format: Format,

    /// Also write the result to a file: .json, .csv (appended to), .md, .html or .txt; repeatable
    #[arg(long, value_name = "FILE")]
    export: Vec<PathBuf>,
}

/// The checked options: errors appear before the work.
#[derive(Debug)]
pub(crate) struct Answer {
    format: Format,
    exports: Vec<(PathBuf, Format)>,
}

impl AnswerArgs {
    /// Checks that every export can be written; `columns` are the CSV columns.
    ///
    /// # Errors
    /// If an option makes no sense, or a file cannot be used.
    pub(crate) fn open(self, columns: &[&str]) -> Result<Answer, Failure> {
        let exports = (self.export.into_iter())
            .map(|path| of_file(&path).map(|format| (path, format)))
            .collect::<Result<Vec<_>, Failure>>()?;
        let mut formats = exports.iter().map(|(_, format)| *format).chain([self.format]);
        if formats.any(|format| OF_REPORTS.contains(&format)) {
            return Err(Failure::usage(
                "gdsio's result lines, openmetrics, series-csv and svg are only for reports: use \
                 text, json, csv, markdown or html",
            ));
        }
        for (path, format) in &exports {
            check_folder("--export", path)?;
            if *format == Format::Csv {
                check_header(path, columns)?;
            }
        }
        Ok(Answer { format: self.format, exports })
    }
}

impl Answer {
    /// Prints the result and writes the exports; `data` is the machine-readable form, and `page`
    /// the page, which tells what made it.
    ///
    /// # Errors
    /// If stdout or a file cannot be written.
    pub(crate) fn write(
        &self,
        data: &impl Serialize,
        document: &Document,
        page: impl Fn() -> Sheet,
    ) -> Result<(), Failure> {
        let text = |format, drawn: &dyn Fn() -> String| match format {
            Format::Json => output::json(data),
            Format::Markdown => Ok(markdown::render(document)),
            Format::Csv => rows(document, true),
            Format::Html => {
                Ok(html::page(vec![page().made_by(Session::command_line(), &hostname(), &now())]))
            }
            Format::Text
            | Format::Gdsio
            | Format::Openmetrics
            | Format::SeriesCsv
            | Format::Svg => Ok(drawn()),
        };
        let printed =
            text(self.format, &|| output::drawn(document)).and_then(|text| output::print(&text));
        let whole = || text::render(document, None);
        let write = |(path, format): &(PathBuf, Format)| match format {
            Format::Csv => append_csv(path, document),
            _ => replace("--export", path, &text(*format, &whole)?),
        };
        let exported = self.exports.iter().map(write).fold(Ok(()), Result::and);
        exported.and(printed)
    }
}
