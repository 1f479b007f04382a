//! The list of the reports in a folder, one row each: start time, command, ending, headline figure.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Value, json};
use stormlp_core::failure::Failure;
use stormlp_core::report::{Head, ReportKind};
use stormlp_core::tag::{self, Tag, Tags};
use stormlp_core::units::counted;
use stormlp_hosts::saver::results_folder;
use stormlp_show::document::{Document, Table, word};
use stormlp_show::html::Sheet;
use stormlp_show::records::Records;
use stormlp_transfer::storage::{Disk, Storage as _};

use super::super::deliver::{ExportArgs, Format};
use super::super::saved;
use super::show::several;
use crate::any_report::AnyReport;
use crate::output;

/// Options of the list.
#[derive(Debug, Default, PartialEq, clap::Args)]
pub(super) struct ListArgs {
    /// Folder of reports [default: $STORMLP_RESULTS_DIR, otherwise stormlp-results]
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,

    /// Only reports of this command
    #[arg(long, value_enum)]
    kind: Option<ReportKind>,

    /// Only reports with this tag; repeatable, all must match
    #[arg(long, value_name = "KEY=VALUE")]
    tag: Vec<Tag>,

    #[command(flatten)]
    targets: ExportArgs,
}

/// The report filter.
#[derive(Debug)]
struct Filter {
    kind: Option<ReportKind>,
    tags: Tags,
}

impl Filter {
    /// Whether a report passes the filter.
    fn takes(&self, head: &Head) -> bool {
        let has = |(key, value): (&String, &String)| head.tags.get(key) == Some(value);
        self.kind.is_none_or(|kind| head.kind == kind) && self.tags.iter().all(has)
    }

    /// Whether every report passes.
    fn is_open(&self) -> bool {
        self.kind.is_none() && self.tags.is_empty()
    }

    /// The failure if none of `count` reports passes.
    fn none_of(&self, count: usize) -> Failure {
        let reports = counted(count as u64, "report");
        if self.is_open() {
            // The reason for each was already printed.
            return Failure::no_plan(anyhow::anyhow!("{reports}, none of which can be read"));
        }
        let kind = self.kind.map(|kind| format!("--kind {}", kind.name()));
        let tags = self.tags.iter().map(|(key, value)| format!("--tag {key}={value}"));
        let asked: Vec<String> = kind.into_iter().chain(tags).collect();
        Failure::machine(anyhow::anyhow!("{reports}, none of which has {}", asked.join(" ")))
            .with_help("`stormlp report` without --kind and --tag lists them all")
    }
}

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
fn columns() -> Vec<&'static str> {
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

/// Lists the reports of a folder. Metrics cover all that can be read; each other report gets a
/// warning.
///
/// # Errors
/// With exit code 4 if there are none, or an output cannot be written.
pub(super) fn list(args: ListArgs) -> Result<(), Failure> {
    let filter = Filter { kind: args.kind, tags: tag::collect(&args.tag).map_err(Failure::usage)? };
    let folder = args.folder.unwrap_or_else(results_folder);
    let to = args.targets.open_saved(&columns())?;
    let files = found(&folder)?;
    if to.any(|format| format == Format::Openmetrics) {
        let read = files.iter().filter_map(|file| {
            let left_out = |failure: Failure| {
                let fact = failure.note.fact;
                output::say(format!("warning: {} is left out: {fact}", file.display()));
            };
            saved::any(file).map_err(left_out).ok()
        });
        let mut reports: Vec<AnyReport> =
            read.filter(|report| filter.takes(report.head())).collect();
        reports.sort_by(|a, b| a.head().started_at.cmp(&b.head().started_at));
        return match reports.is_empty() {
            true => Err(filter.none_of(files.len())),
            false => several(&reports, &to),
        };
    }
    let rows = rows(&files, &filter)?;
    let mut document = document(&folder, &rows);
    let next = format!(
        "`stormlp report show {}` shows one, `stormlp compare BASELINE CANDIDATE` compares two",
        folder.join("REPORT").display()
    );
    document.sections.iter_mut().for_each(|one| one.lines.push(next.clone()));
    to.answer(&rows, document, Sheet::from)
}

/// The reports in `folder`.
///
/// # Errors
/// With exit code 4 if there are none, 3 if it is itself a report.
fn found(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let shown = folder.display();
    if Disk.look(folder)?.is_none() {
        let help = "run `stormlp gds` first, then `stormlp report`; `stormlp report DIR` lists \
                    another folder";
        let message = anyhow::anyhow!("there are no reports in {shown}: no such folder");
        return Err(Failure::machine(message).with_help(help));
    }
    if !Disk.is_folder(&saved::file(folder)?)? || saved::dlio(folder)?.is_some() {
        let help = format!("`stormlp report show {shown}` shows it");
        return Err(
            Failure::no_plan(anyhow::anyhow!("{shown} is not a folder of reports")).with_help(help)
        );
    }
    saved::files(folder)
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

fn document(root: &Path, rows: &[Row]) -> Document {
    let count = counted(rows.len() as u64, "report");
    let mut document = Document::new(format!("{count} in {}", root.display()));
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
