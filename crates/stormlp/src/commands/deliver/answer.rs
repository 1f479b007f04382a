//! A result other than a report of a run, printed and exported like reports.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use stormlp_core::failure::Failure;
use stormlp_hosts::session::Session;
use stormlp_show::document::Document;
use stormlp_show::html::Sheet;
use stormlp_transfer::run_context::now;

use super::forms::{Forms, Targets};
use super::sink::{Format, Sink, formats_without};
use crate::hosts::hostname;
use crate::output;

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

impl AnswerArgs {
    /// Checks that every export can be written; `columns` are the CSV columns.
    ///
    /// # Errors
    /// If an option makes no sense, or a file cannot be used.
    pub(crate) fn open(self, columns: &[&str]) -> Result<Targets, Failure> {
        let targets = Targets::open(self.format, self.export, columns)?;
        if targets.any(|format| OF_REPORTS.contains(&format)) {
            return Err(Forms::only_for_reports());
        }
        Ok(targets)
    }
}

impl Targets {
    /// Prints an answer and writes the exports; `data` is the machine-readable form, and `page`
    /// the page, which tells what made it.
    ///
    /// # Errors
    /// If stdout or a file cannot be written.
    pub(crate) fn answer(
        &self,
        data: &impl Serialize,
        document: Document,
        page: impl Fn(Document) -> Sheet,
    ) -> Result<(), Failure> {
        let by = |sheet: Sheet| sheet.made_by(Session::command_line(), &hostname(), &now());
        let forms = Forms {
            json: &|| output::json(data),
            sheets: &|| vec![by(page(document.clone()))],
            documents: vec![document.clone()],
            reports: Vec::new(),
            per_job: false,
        };
        let printed = self.print(&forms, &Sink(None));
        self.export(&forms).and(printed)
    }
}
