//! gdsio's result line, verbatim: parsers of its output rely on it.
//!
//! The label names the path that ran. gdsio prints `GPUD` even if its library fell back; this
//! program avoids attributing a figure to a path that did not run.

use super::warnings::of_cells;
use crate::plan::gdsio::in_gdsios_words;
use crate::plan::{CellReport, CellStatus, JobReport, MatrixReport, Measurement};
use crate::report::outcome::not_measured;
use stormlp_core::distinct::distinct;
use stormlp_core::operation::Operation;
use stormlp_core::path::PathKind;
use stormlp_core::printable::printable;
use stormlp_core::units::GIB;

/// One line for each valid cell, `Verifying data` before a cell that reads back the previous one's
/// data, and one line for each job with `per_job`.
pub fn result_lines(report: &MatrixReport, per_job: bool) -> String {
    let mut text = String::new();
    let mut before: Option<Operation> = None;
    for cell in &report.results.cells {
        let Some(numbers) = cell.result() else {
            continue;
        };
        let reads_back = matches!(
            (before, cell.op),
            (Some(Operation::Write), Operation::Read)
                | (Some(Operation::RandWrite), Operation::RandRead)
        );
        if report.plan.request.verify && reads_back {
            text.push_str("Verifying data\n");
        }
        before = Some(cell.op);
        let requested =
            (report.plan.cells.get(cell.cell)).map_or(numbers.bytes, |c| c.requested_bytes);
        text.push_str(&line(cell, numbers, requested));
        if per_job {
            numbers.jobs.iter().for_each(|job| text.push_str(&job_line(job)));
        }
    }
    text
}

/// The table's footnotes, each as a line: gdsio's line has no room for it.
pub fn footnotes(report: &MatrixReport) -> Vec<String> {
    let without = report.results.cells.iter().filter(|cell| cell.status != CellStatus::Ok);
    let all = (report.warnings.iter().map(|warning| format!("warning: {warning}")))
        .chain(of_cells(report).into_iter().map(|warning| format!("warning: {warning}")))
        .chain(without.map(|cell| format!("note: {}", not_measured(cell))));
    distinct(all.map(|line| in_gdsios_words(&line)))
}

fn line(cell: &CellReport, numbers: &Measurement, requested_bytes: u64) -> String {
    let label = cell.effective_path.unwrap_or(cell.requested_path).gdsio_label();
    let depth = match cell.requested_path {
        PathKind::GdsBatch | PathKind::GdsBatchStream => format!(" IoDepth: {}", cell.queue_depth),
        _ => String::new(),
    };
    let size = cell.io_size;
    let io_size = match size.is_fixed() {
        true => kib(size.max_bytes),
        false => {
            format!("{}-{}-{}", kib(size.min_bytes), kib(size.max_bytes), kib(size.step_bytes))
        }
    };
    format!(
        "IoType: {} XferType: {label} Threads: {}{depth} DataSetSize: {}/{}(KiB) \
         IOSize: {io_size}(KiB) Throughput: {:.6} GiB/sec, Avg_Latency: {:.6} usecs \
         ops: {} total_time {:.6} secs\n",
        io_type(cell.op),
        cell.threads,
        kib(numbers.bytes),
        kib(requested_bytes),
        numbers.throughput_bytes_per_second / GIB as f64,
        numbers.latency_us.mean,
        numbers.operations,
        numbers.duration_seconds,
    )
}

fn job_line(job: &JobReport) -> String {
    format!(
        "Job: {} Threads: {} DataSetSize: {}(KiB) Throughput: {:.6} GiB/sec, \
         Avg_Latency: {} usecs ops: {} total_time {:.6} secs\n",
        printable(&job.name),
        job.threads,
        kib(job.transfers.bytes),
        job.transfers.throughput_bytes_per_second / GIB as f64,
        job.transfers.latency_us.map_or("n/a".to_string(), |us| format!("{:.6}", us.mean)),
        job.transfers.operations,
        job.duration_seconds,
    )
}

/// gdsio's name for an operation.
pub(super) fn io_type(op: Operation) -> String {
    op.name().to_ascii_uppercase()
}

/// Bytes in KiB, formatted as by gdsio: without decimals if whole.
pub(super) fn kib(bytes: u64) -> String {
    if bytes.is_multiple_of(1024) {
        (bytes / 1024).to_string()
    } else {
        (bytes as f64 / 1024.0).to_string()
    }
}
