//! The list of reports in folders, one row each: start time, command, ending, headline figure.

use std::path::{Path, PathBuf};

use crate::any_report::AnyReport;
use serde::Serialize;
use serde_json::{Value, json};
use stormlp_core::tag::{self, Tags};
use stormlp_core::units::counted;
use stormlp_show::document::{Document, Table, word};
use stormlp_show::records::Records;

use super::super::deliver::{Format, Targets};
use super::super::saved;
use super::{Filter, several};
use crate::output;
use stormlp_core::failure::Failure;
use stormlp_show::html::Sheet;

/// A row of the list. If a report cannot be read, the headline is the reason, and only the file is
/// given in addition.
#[derive(Debug, Default, Serialize)]
struct Row {
    started_at: Option<String>,
    kind: Option<&'static str>,
    status: &'static str,
    headline: String,
    command: Option<String>,
    file: PathBuf,
    figure: Option<f64>,
    unit: Option<&'static str>,
    verdict: String,
    hostname: Option<String>,
    tags: Tags,
    /// The figure as formatted text.
    #[serde(skip)]
    figure_words: String,
}

/// The CSV columns; new ones are only added at the end.
pub(super) fn columns() -> Vec<&'static str> {
    let names =
        "started_at kind status headline command file figure figure_unit verdict hostname tags";
    names.split(' ').collect()
}

impl Row {
    fn of(file: PathBuf, report: &AnyReport) -> Self {
        let head = report.head();
        let document = report.document();
        let outcome = report.outcome();
        let mark = document.mark.map(|mark| format!("{mark}  ")).unwrap_or_default();
        let retried = (!report.retried().is_empty()).then_some("retried");
        let remarks = retried.into_iter().chain(head.integrity.doubt());
        let verdict = remarks.fold(outcome.verdict.clone(), |all, one| format!("{all}, {one}"));
        Self {
            started_at: Some(head.started_at.clone()),
            kind: Some(head.kind.name()),
            status: stormlp_show::status(report.ending()),
            headline: format!("{mark}{}", document.headline),
            command: Some(head.command.clone()),
            file,
            figure: outcome.figure.map(|figure| figure.estimate.value),
            unit: outcome.figure.map(|figure| figure.unit),
            figure_words: format!("{mark}{}", outcome.words()),
            verdict,
            hostname: Some(head.host.hostname.clone()),
            tags: head.tags.clone(),
        }
    }

    fn unreadable(file: PathBuf, failure: &Failure) -> Self {
        Self {
            status: "unreadable",
            verdict: "unreadable".to_string(),
            headline: failure.note.fact.clone(),
            figure_words: "-".to_string(),
            file,
            ..Self::default()
        }
    }

    /// The report's folder, or its file if it has another name, relative to `root`.
    fn place(&self, root: &Path) -> String {
        let is_usual = self.file.ends_with("report.json");
        let place = self.file.parent().filter(|_| is_usual).unwrap_or(&self.file);
        place.strip_prefix(root).unwrap_or(place).display().to_string()
    }

    /// Start time of the run, to the second, as formatted text.
    fn began(&self) -> String {
        let began: String = self.started_at.iter().flat_map(|at| at.chars().take(19)).collect();
        if began.is_empty() { "-".to_string() } else { began.replace('T', " ") }
    }

    fn record(&self) -> Vec<Value> {
        let saved = json!(self);
        let value = |name: &str| match name {
            "figure_unit" => saved["unit"].clone(),
            "tags" => tag::words(&self.tags).into(),
            name => saved[name].clone(),
        };
        columns().into_iter().map(value).collect()
    }
}

/// Lists the reports in `places`, at least one of which is a folder of reports. Metrics cover all
/// that can be read; each other report gets a warning.
pub(super) fn show(places: &[PathBuf], filter: &Filter, to: &Targets) -> Result<(), Failure> {
    let files: Result<Vec<_>, Failure> = places.iter().map(|place| saved::files(place)).collect();
    let files = files?.concat();
    if to.any(|format| format == Format::Openmetrics) {
        let read = files.iter().filter_map(|file| {
            let left_out = |failure: Failure| {
                let fact = failure.note.fact;
                output::say(format!("warning: {} is left out: {fact}", file.display()));
            };
            saved::any(file).map_err(left_out).ok()
        });
        let reports = filter.taken(read.collect(), files.len())?;
        return several(&reports, to);
    }
    let rows = rows(&files, filter)?;
    let mut document = document(places, &rows);
    let next = "`stormlp report FOLDER/REPORT` shows one, `stormlp compare BASELINE CANDIDATE` compares two";
    document.sections.iter_mut().for_each(|one| one.lines.push(next.to_string()));
    to.answer(&rows, document, Sheet::from)
}

/// A row for each report that passes the filter, newest last. Without a filter, unreadable reports
/// get a row too.
fn rows(files: &[PathBuf], filter: &Filter) -> Result<Vec<Row>, Failure> {
    let row = |file: &PathBuf| match saved::any(file) {
        Ok(report) => filter.takes(report.head()).then(|| Row::of(file.clone(), &report)),
        Err(failure) => filter.is_open().then(|| Row::unreadable(file.clone(), &failure)),
    };
    let mut rows: Vec<Row> = files.iter().filter_map(row).collect();
    if rows.is_empty() {
        return Err(filter.none_of(files.len()));
    }
    // Folders of runs that started in the same second are numbered in order.
    rows.sort_by_cached_key(|row| {
        let file = row.file.display().to_string();
        (row.started_at.clone(), file.len(), file)
    });
    Ok(rows)
}

fn document(places: &[PathBuf], rows: &[Row]) -> Document {
    // If there is a single folder, the title names it.
    let root = match places {
        [only] => only.as_path(),
        _ => Path::new(""),
    };
    let places: Vec<String> = places.iter().map(|place| Path::display(place).to_string()).collect();
    let count = counted(rows.len() as u64, "report");
    let mut document = Document::new(format!("{count} in {}", places.join(", ")));
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_string());
    // The report's name and its tags, if any, are never omitted.
    let table = Table::of(
        rows.iter(),
        |row| row.place(root),
        vec![
            word("began (UTC)", 1, |row: &&Row| row.began()),
            word("command", 2, |row: &&Row| row.kind.unwrap_or("-")),
            word("figure", 0, |row: &&Row| row.figure_words.clone()),
            word("verdict", 0, |row: &&Row| row.verdict.clone()),
            word("tags", 0, |row: &&Row| tag::words(&row.tags))
                .when(rows.iter().any(|row| !row.tags.is_empty())),
            word("report", 0, |row: &&Row| row.place(root)).whole(),
            word("host", 4, |row: &&Row| text(&row.hostname)),
            word("result", 3, |row: &&Row| row.headline.clone()),
            word("command line", 5, |row: &&Row| text(&row.command)),
        ],
    );
    document.table(table);
    document.records = Records { columns: columns(), rows: rows.iter().map(Row::record).collect() };
    document
}
