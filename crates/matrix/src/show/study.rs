//! The two tables of the study that this matrix follows, with its columns and precision.

use crate::plan::{CellReport, MatrixReport, Measurement};
use stormlp_core::path::PathKind;
use stormlp_core::units::GIB;

use super::gdsio::{io_type, kib};
use stormlp_show::document::{Table, number, word};
use stormlp_show::numbers::thousands;

/// The throughput of a cell, or that it has none; the table of cells has the reason.
fn rate(cell: &CellReport, precision: fn(f64) -> String) -> String {
    cell.result().map_or("n/a".to_string(), |numbers| precision(gib(numbers)))
}

/// Shape A: one row for each cell, with `IO Depth` if a batch path is among them.
pub(super) fn by_kind(report: &MatrixReport) -> Table {
    let is_batch = |path: PathKind| matches!(path, PathKind::GdsBatch | PathKind::GdsBatchStream);
    let cells: Vec<&CellReport> = report.results.cells.iter().collect();
    let batches = cells.iter().any(|cell| is_batch(cell.requested_path));
    let known = |of: fn(&Measurement) -> String| {
        move |cell: &&CellReport| cell.result().map(of).unwrap_or_default()
    };
    let columns = vec![
        word("I/O Type", 0, |cell: &&CellReport| io_type(cell.op)),
        word("Transfer Type", 0, |cell: &&CellReport| ran(cell).gdsio_label().to_string()),
        number("Threads", 0, |cell: &&CellReport| cell.threads),
        number("IO Depth", 2, |cell: &&CellReport| match is_batch(cell.requested_path) {
            true => cell.queue_depth.to_string(),
            false => "-".to_string(),
        })
        .when(batches),
        number("Data Set Size (KiB)", 4, |cell: &&CellReport| match cell.result() {
            Some(numbers) => thousands(numbers.bytes / 1024),
            None => "-".to_string(),
        }),
        number("IO Size (KiB)", 0, |cell: &&CellReport| size_kib(cell)),
        number("Throughput (GiB/sec)", 0, |cell: &&CellReport| rate(cell, |it| format!("{it:.2}"))),
        number("Avg Latency (usecs)", 1, known(|one| format!("{:.2}", one.latency_us.mean))),
        number("Operations", 3, known(|one| thousands(one.operations))),
    ];
    Table::of(cells, |_| String::new(), columns)
}

/// Shape B: transfer type, threads, throughput and latency, fastest first. The study has a single
/// kind and size of I/O; with several, extra columns distinguish the rows.
pub(super) fn by_throughput(report: &MatrixReport) -> Table {
    let mut cells: Vec<&CellReport> = report.results.cells.iter().collect();
    let several = |of: fn(&CellReport) -> String| {
        cells.first().is_some_and(|first| cells.iter().any(|cell| of(cell) != of(first)))
    };
    let (kinds, sizes) = (several(|cell| io_type(cell.op)), several(size_kib));
    let depths = several(|cell| cell.queue_depth.to_string());
    let rank = |cell: &CellReport| cell.result().map_or(-1.0, gib);
    cells.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
    let columns = vec![
        word("Transfer Type", 0, |cell: &&CellReport| ran(cell).route().to_string()),
        word("I/O Type", 0, |cell: &&CellReport| io_type(cell.op)).when(kinds),
        word("IO Size (KiB)", 0, |cell: &&CellReport| size_kib(cell)).when(sizes),
        word("IO Depth", 0, |cell: &&CellReport| cell.queue_depth).when(depths),
        number("Threads", 0, |cell: &&CellReport| cell.threads),
        number("Throughput (GiB/sec)", 0, |cell: &&CellReport| rate(cell, full_precision)),
        number("Latency (usec)", 0, |cell: &&CellReport| {
            let mean = cell.result().map(|numbers| full_precision(numbers.latency_us.mean));
            mean.unwrap_or_default()
        }),
    ];
    Table::of(cells, |_| String::new(), columns)
}

/// Transfer size in KiB; a mix in command-line syntax.
fn size_kib(cell: &CellReport) -> String {
    match cell.io_size.is_fixed() {
        true => kib(cell.io_size.max_bytes),
        false => cell.io_size.to_string(),
    }
}

/// The path shown for a row: the effective one, if known.
fn ran(cell: &CellReport) -> PathKind {
    cell.effective_path.unwrap_or(cell.requested_path)
}

fn gib(numbers: &Measurement) -> f64 {
    numbers.throughput_bytes_per_second / GIB as f64
}

/// Six decimals without trailing zeros, as printed by the study.
fn full_precision(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}
