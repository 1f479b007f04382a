//! Several complete reports at once.

use std::path::PathBuf;

use stormlp_core::failure::Failure;
use stormlp_show::html::Sheet;

use super::super::deliver::{Format, Forms, ShowArgs, Sink};
use super::super::saved;
use super::Filter;
use crate::any_report::AnyReport;
use crate::output;

/// Shows the reports of `files`, newest last.
pub(super) fn show(
    files: &[PathBuf],
    filter: &Filter,
    show: ShowArgs,
    sink: &Sink,
) -> Result<(), Failure> {
    let format = show.of_other("several of them")?;
    let reports: Result<_, Failure> = files.iter().map(|file| saved::any(file)).collect();
    print(reports?, files.len(), filter, format, sink)
}

/// The metrics of all readable reports; each other report gets a warning.
pub(super) fn metrics(files: &[PathBuf], filter: &Filter, sink: &Sink) -> Result<(), Failure> {
    let read = files.iter().filter_map(|file| {
        let left_out = |failure: Failure| {
            let fact = failure.note.fact;
            output::say(format!("warning: {} is left out: {fact}", file.display()));
        };
        saved::any(file).map_err(left_out).ok()
    });
    print(read.collect(), files.len(), filter, Format::Openmetrics, sink)
}

fn print(
    mut reports: Vec<AnyReport>,
    count: usize,
    filter: &Filter,
    format: Format,
    sink: &Sink,
) -> Result<(), Failure> {
    reports.retain(|report| filter.takes(report.head()));
    if reports.is_empty() {
        return Err(filter.none_of(count));
    }
    reports.sort_by(|a, b| a.head().started_at.cmp(&b.head().started_at));
    let document = |report: &AnyReport| report.document();
    let forms = Forms {
        documents: reports.iter().map(document).collect(),
        json: &|| {
            let sealed: Result<Vec<_>, _> = reports.iter().map(AnyReport::sealed).collect();
            output::json(&sealed.map_err(Failure::bug)?)
        },
        sheets: &|| reports.iter().map(|report| Sheet::new(&**report, document(report))).collect(),
        reports: reports.iter().collect(),
        per_job: false,
    };
    sink.write(&forms.text(format, sink)?)
}
