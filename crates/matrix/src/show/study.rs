//! The two tables of the study that this matrix follows, with its columns and precision.

use crate::plan::{CellReport, MatrixReport, Measurement};
use stormlp_core::path::PathKind;
use stormlp_core::units::GIB;

use super::gdsio::{io_type, kib};
use super::group::{cut_short, not_measured};
use stormlp_show::document::{Cell, Column, Table};
use stormlp_show::numbers::thousands;

/// Shape A: one row for each cell, with `IO Depth` if a batch path is among them.
pub(super) fn by_kind(report: &MatrixReport) -> Table {
    let is_batch = |path: PathKind| matches!(path, PathKind::GdsBatch | PathKind::GdsBatchStream);
    let batches = report.results.cells.iter().any(|cell| is_batch(cell.requested_path));
    let depth = batches.then(|| Column::numbers("IO Depth", 2));
    let words = ["I/O Type", "Transfer Type"].map(|name| Column::words(name, 0));
    let numbers = [
        ("Data Set Size (KiB)", 4),
        ("IO Size (KiB)", 0),
        ("Throughput (GiB/sec)", 0),
        ("Avg Latency (usecs)", 1),
        ("Operations", 3),
    ];
    let columns = (words.into_iter())
        .chain([Column::numbers("Threads", 0)])
        .chain(depth)
        .chain(numbers.map(|(name, drop)| Column::numbers(name, drop)));
    let mut table = Table::new(columns);
    for cell in &report.results.cells {
        let mut row: Vec<String> =
            vec![io_type(cell.op), ran(cell).gdsio_label().to_string(), cell.threads.to_string()];
        row.extend(batches.then(|| {
            if is_batch(cell.requested_path) {
                cell.queue_depth.to_string()
            } else {
                "-".to_string()
            }
        }));
        let io_size = size_kib(cell);
        match cell.result() {
            Some(numbers) => row.extend([
                thousands(numbers.bytes / 1024),
                io_size,
                marked(format!("{:.2}", gib(numbers)), numbers, report, &mut table),
                format!("{:.2}", numbers.latency_us.mean),
                thousands(numbers.operations),
            ]),
            None => row.extend(["-".to_string(), io_size, not_measured(cell, &mut table)]),
        }
        table.row("", row.into_iter().map(Cell::Text).collect());
    }
    table
}

/// A column of shape B that is shown only if its values differ, and its value for a cell.
type ExtraColumn = (&'static str, fn(&CellReport) -> String);

/// Shape B: transfer type, threads, throughput and latency, fastest first. The study has a single
/// kind and size of I/O; with several, extra columns distinguish the rows.
pub(super) fn by_throughput(report: &MatrixReport) -> Table {
    let mut cells: Vec<&CellReport> = report.results.cells.iter().collect();
    let several = |of: fn(&CellReport) -> String| {
        let mut values = cells.iter().map(|cell| of(cell));
        let first = values.next();
        values.any(|value| Some(value) != first)
    };
    let parts: [ExtraColumn; 3] = [
        ("I/O Type", |cell| io_type(cell.op)),
        ("IO Size (KiB)", size_kib),
        ("IO Depth", |cell| cell.queue_depth.to_string()),
    ];
    let parts = parts.map(|(name, of)| (name, of, several(of)));
    let shown = || parts.iter().filter(|(.., several)| *several);
    let mut table = Table::new(
        [Column::words("Transfer Type", 0)]
            .into_iter()
            .chain(shown().map(|(name, ..)| Column::words(*name, 0)))
            .chain([
                Column::numbers("Threads", 0),
                Column::numbers("Throughput (GiB/sec)", 0),
                Column::numbers("Latency (usec)", 0),
            ]),
    );
    let rate = |cell: &CellReport| cell.result().map_or(-1.0, gib);
    cells.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    for cell in cells {
        let mut row = vec![ran(cell).route().to_string()];
        row.extend(shown().map(|(_, of, _)| of(cell)));
        row.push(cell.threads.to_string());
        match cell.result() {
            Some(numbers) => {
                let rate = full_precision(gib(numbers));
                row.push(marked(rate, numbers, report, &mut table));
                row.push(full_precision(numbers.latency_us.mean));
            }
            None => row.push(not_measured(cell, &mut table)),
        }
        table.row("", row.into_iter().map(Cell::Text).collect());
    }
    table
}

/// Transfer size in KiB; a mix in command-line syntax.
fn size_kib(cell: &CellReport) -> String {
    match cell.io_size_mix {
        None => kib(cell.io_size_bytes),
        Some(mix) => mix.to_string(),
    }
}

/// The path shown for a row: the effective one, if known.
fn ran(cell: &CellReport) -> PathKind {
    cell.effective_path.unwrap_or(cell.requested_path)
}

/// A rate, with a footnote if the cell was cut short.
fn marked(rate: String, numbers: &Measurement, of: &MatrixReport, table: &mut Table) -> String {
    match cut_short(numbers, of.plan.request.span()) {
        Some(text) => format!("{rate} {}", table.footnote(text)),
        None => rate,
    }
}

fn gib(numbers: &Measurement) -> f64 {
    numbers.throughput_bytes_per_second / GIB as f64
}

/// Six decimals without trailing zeros, as printed by the study.
fn full_precision(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}
