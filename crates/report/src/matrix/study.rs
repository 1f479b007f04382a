//! The two tables of the study this matrix follows, with its columns and its precision.

use stormlp_model::matrix::{CellReport, Measurement};
use stormlp_model::path::PathKind;
use stormlp_model::units::GIB;

use super::View;
use super::gdsio::io_type;
use super::group::groups;
use super::numbers::{kib, thousands};
use super::sheet::{Sheet, cut_short, evidence_notes, title, warning_notes};

/// Shape A: a row for each cell, with `IO Depth` when a batch path is among them.
pub(super) fn by_kind(view: &View<'_>) -> Sheet {
    let is_batch = |path: PathKind| matches!(path, PathKind::GdsBatch | PathKind::GdsBatchStream);
    let with_depth = view
        .report
        .results
        .cells
        .iter()
        .any(|cell| is_batch(cell.requested_path));
    let mut header = vec!["I/O Type", "Transfer Type", "Threads"];
    if with_depth {
        header.push("IO Depth");
    }
    header.extend([
        "Data Set Size (KiB)",
        "IO Size (KiB)",
        "Throughput (GiB/sec)",
        "Avg Latency (usecs)",
        "Operations",
    ]);
    let mut sheet = sheet(view, header, 2);
    for cell in &view.report.results.cells {
        let mut row = vec![
            io_type(cell.op),
            ran(cell).gdsio_label().to_string(),
            cell.threads.to_string(),
        ];
        if with_depth {
            row.push(match is_batch(cell.requested_path) {
                true => cell.queue_depth.to_string(),
                false => "-".to_string(),
            });
        }
        let io_size = match cell.io_size_mix {
            None => kib(cell.io_size_bytes),
            Some(mix) => mix.to_string(),
        };
        match cell.result() {
            Some(numbers) => row.extend([
                thousands(numbers.bytes / 1024),
                io_size,
                marked(format!("{:.2}", gib(numbers)), numbers, view, &mut sheet),
                format!("{:.2}", numbers.latency_us.mean),
                thousands(numbers.operations),
            ]),
            None => row.extend(["-".to_string(), io_size, missing(cell, &mut sheet)]),
        }
        sheet.rows.push(row);
    }
    sheet
}

/// Shape B: transfer type, threads, throughput and latency, the fastest first.
pub(super) fn by_throughput(view: &View<'_>) -> Sheet {
    let header = vec![
        "Transfer Type",
        "Threads",
        "Throughput (GiB/sec)",
        "Latency (usec)",
    ];
    let mut sheet = sheet(view, header, 1);
    let mut cells: Vec<&CellReport> = view.report.results.cells.iter().collect();
    let rate = |cell: &CellReport| cell.result().map_or(-1.0, gib);
    cells.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    for cell in cells {
        let mut row = vec![ran(cell).route().to_string(), cell.threads.to_string()];
        match cell.result() {
            Some(numbers) => {
                row.extend([
                    marked(full_precision(gib(numbers)), numbers, view, &mut sheet),
                    full_precision(numbers.latency_us.mean),
                ]);
            }
            None => row.push(missing(cell, &mut sheet)),
        }
        sheet.rows.push(row);
    }
    sheet
}

fn sheet(view: &View<'_>, header: Vec<&str>, word_columns: usize) -> Sheet {
    let mut notes = evidence_notes(&groups(view.report));
    notes.extend(warning_notes(view.report));
    Sheet {
        title: title(view.report),
        header: header.into_iter().map(str::to_string).collect(),
        word_columns,
        notes,
        ..Sheet::default()
    }
}

/// The path under whose name a row stands: the one that ran, when that is known.
fn ran(cell: &CellReport) -> PathKind {
    cell.effective_path.unwrap_or(cell.requested_path)
}

/// A rate, with a footnote where the cell was cut short.
fn marked(rate: String, numbers: &Measurement, view: &View<'_>, sheet: &mut Sheet) -> String {
    match cut_short(numbers, view.report.plan.span) {
        Some(text) => format!("{rate} {}", sheet.footnote(text)),
        None => rate,
    }
}

fn gib(numbers: &Measurement) -> f64 {
    numbers.throughput_bytes_per_second / GIB as f64
}

fn missing(cell: &CellReport, sheet: &mut Sheet) -> String {
    let reason = cell.reason.clone().unwrap_or_default();
    let remedy = cell.remedy.clone().unwrap_or_default();
    let text = [reason, remedy]
        .into_iter()
        .filter(|t| !t.is_empty())
        .collect::<Vec<_>>();
    let text = format!("{}: {}", cell.requested_path, text.join("; "));
    format!("n/a {}", sheet.footnote(text))
}

/// Six decimals without the zeros at their end, as the study prints them.
fn full_precision(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}
