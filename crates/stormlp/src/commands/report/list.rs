//! The list of reports in folders, one row each: start time, command, ending, headline figure.

use std::path::{Path, PathBuf};

use crate::any_report::AnyReport;
use serde::Serialize;
use serde_json::{Value, json};
use stormlp_core::tag::{self, Tags};
use stormlp_core::units::counted;
use stormlp_show::document::{Cell, Column, Columns, Document, Table};
use stormlp_show::records::Records;
use stormlp_show::{html, markdown};

use super::super::deliver::{self, Format, ShowArgs, Sink};
use super::super::saved;
use super::{Filter, several};
use crate::output;
use stormlp_core::failure::Failure;

/// A row of the list. If a report cannot be read, the headline is the reason, and only the file is
/// given besides.
#[derive(Debug, Default, Serialize)]
struct Row {
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    status: &'static str,
    headline: String,
    #[serde(skip_serializing_if = "Option::is_none")]
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
const COLUMNS: [&str; 11] = [
    "started_at",
    "kind",
    "status",
    "headline",
    "command",
    "file",
    "figure",
    "figure_unit",
    "verdict",
    "hostname",
    "tags",
];

impl Row {
    fn of(file: PathBuf, report: &AnyReport) -> Self {
        let head = report.head();
        let document = report.document();
        let outcome = report.outcome();
        let mark = document.mark.map(|mark| format!("{mark}  ")).unwrap_or_default();
        let retried = if report.retried().is_empty() { "" } else { ", retried" };
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
            verdict: format!("{}{retried}", outcome.verdict),
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
        let place = if self.file.file_name() == Some("report.json".as_ref()) {
            self.file.parent().unwrap_or(&self.file)
        } else {
            &self.file
        };
        place.strip_prefix(root).unwrap_or(place).display().to_string()
    }

    /// Start time of the run, to the second, as formatted text.
    fn began(&self) -> String {
        let began = self.started_at.as_deref().unwrap_or("-");
        let parts = began.trim_end_matches('Z').split_once('T');
        parts.map_or_else(
            || began.to_string(),
            |(day, time)| format!("{day} {}", time.get(..8).unwrap_or(time)),
        )
    }

    fn cells(&self, root: &Path) -> Vec<Cell> {
        let text = |text: &Option<String>| Cell::from(text.as_deref().unwrap_or("-"));
        vec![
            self.began().into(),
            self.kind.unwrap_or("-").into(),
            self.figure_words.as_str().into(),
            self.verdict.as_str().into(),
            tag::words(&self.tags).into(),
            self.place(root).into(),
            text(&self.hostname),
            self.headline.as_str().into(),
            text(&self.command),
        ]
    }

    fn record(&self) -> Vec<Value> {
        vec![
            json!(self.started_at),
            json!(self.kind),
            json!(self.status),
            json!(self.headline),
            json!(self.command),
            self.file.display().to_string().into(),
            json!(self.figure),
            json!(self.unit),
            json!(self.verdict),
            json!(self.hostname),
            tag::words(&self.tags).into(),
        ]
    }
}

/// Lists the reports in `places`, at least one of which is a folder of reports.
pub(super) fn show(
    places: &[PathBuf],
    filter: &Filter,
    show: ShowArgs,
    columns: Columns,
    sink: &Sink,
) -> Result<(), Failure> {
    if columns != Columns::Standard {
        return Err(Failure::usage(
            "--columns requires reports of `stormlp gds`, not with a folder of reports",
        ));
    }
    let format = show.of_other("a folder of them")?;
    let files = places
        .iter()
        .map(|place| saved::files(place))
        .collect::<Result<Vec<_>, Failure>>()?
        .concat();
    if format == Format::Openmetrics {
        return several::metrics(&files, filter, sink);
    }
    let text = match format {
        Format::Json => output::json(&rows(&files, filter)?)?,
        Format::Text => {
            let mut document = document(places, &rows(&files, filter)?);
            let next = "`stormlp report FOLDER/REPORT` shows one, `stormlp compare BASELINE NOW` \
                        compares two";
            document.sections.iter_mut().for_each(|one| one.lines.push(next.to_string()));
            sink.drawn(&document)
        }
        Format::Markdown => markdown::render(&document(places, &rows(&files, filter)?)),
        Format::Csv => deliver::rows(&document(places, &rows(&files, filter)?), true)?,
        Format::Html => html::page(vec![document(places, &rows(&files, filter)?).into()]),
        Format::Gdsio | Format::Svg | Format::SeriesCsv | Format::Openmetrics => {
            return Err(Failure::usage(
                "a folder of reports has no gdsio lines, chart or series: name one of them",
            ));
        }
    };
    sink.write(&text)
}

/// A row for each report that passes the filter, newest last. Without a filter, unreadable reports
/// have a row too.
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
    // The report's name and its tags, if any, are never omitted.
    let mut table = Table::new([
        Column::words("began (UTC)", 1),
        Column::words("command", 2),
        Column::words("figure", 0),
        Column::words("verdict", 0),
        Column::words("tags", 0),
        Column::words("report", 0).whole(),
        Column::words("host", 4),
        Column::words("result", 3),
        Column::words("command line", 5),
    ]);
    for row in rows {
        table.row(row.place(root), row.cells(root));
    }
    if rows.iter().all(|row| row.tags.is_empty()) {
        table.remove("tags");
    }
    document.table(table);
    document.records =
        Records { columns: COLUMNS.to_vec(), rows: rows.iter().map(Row::record).collect() };
    document
}
