//! Progress output: the next steps of a run, and one row with fixed columns for each cell.

use crate::plan::{CellReport, MatrixPlan, MatrixReport, likely_left};
use stormlp_core::units::{ByteSize, GIB, counted, format_duration};

use super::group::{WRONG_DATA, failure_words};
use stormlp_show::numbers::{short, thousands};

/// Assumed write rate of storage, before anything is measured.
const LAYOUT_BYTES_PER_SECOND: f64 = 1e9;

/// The data written first and the estimated duration, each as a line.
pub fn beginning(report: &MatrixReport) -> Vec<String> {
    let plan = &report.plan;
    let (count, seconds) = likely_left(plan, &report.results, &[]);
    if count == 0 {
        return vec!["no cell is left to measure".to_string()];
    }
    let mut lines = Vec::new();
    if plan.layout_bytes > 0 {
        let fate = if plan.request.remove { "removed afterwards" } else { "kept for the next run" };
        let (bytes, places) = (ByteSize(plan.layout_bytes), places(plan));
        let seconds = plan.layout_bytes as f64 / LAYOUT_BYTES_PER_SECOND;
        let about = format_duration(seconds.max(1.0));
        lines.push(format!(
            "writing test files first: {bytes} to {places}, in about {about} ({fate})"
        ));
    }
    let cells = if plan.request.find_knee {
        format!("some {count} of {} cells", plan.runnable_cells())
    } else {
        counted(count, "cell")
    };
    lines.push(format!("{cells} to measure, about {}", format_duration(seconds)));
    lines
}

fn places(plan: &MatrixPlan) -> String {
    let folders = plan.folders.iter().map(|folder| folder.folder());
    let files = plan.files.iter().filter(|f| f.folder.is_none()).map(|f| f.path.as_path());
    let places: Vec<String> = folders.chain(files).map(|p| p.display().to_string()).collect();
    places.join(", ")
}

/// The header of the rows of [`cell_row`].
pub fn cell_row_head() -> String {
    let head = columns(["cell", "path", "op", "I/O", "threads", "depth"]);
    format!("{head} {:>7} {:>9} {:>8}", "GiB/s", "IOPS", "p99 µs")
}

/// A finished cell with its number; fits a terminal of 80 columns.
pub fn cell_row(number: &str, cell: &CellReport) -> String {
    let head = columns([
        number,
        cell.requested_path.name(),
        cell.op.name(),
        &cell.io_size.to_string(),
        &cell.threads.to_string(),
        &cell.queue_depth.to_string(),
    ]);
    match cell.result() {
        Some(numbers) => format!(
            "{head} {:>7} {:>9} {:>8}",
            short(numbers.throughput_bytes_per_second / GIB as f64),
            thousands(numbers.iops.round() as u64),
            numbers.latency_us.p99.map_or(String::new(), short),
        ),
        None if cell.read_wrong_data() => format!("{head} {WRONG_DATA}"),
        None => {
            let (word, reason) = failure_words(cell);
            format!("{head} {word}: {reason}")
        }
    }
}

fn columns([cell, path, op, size, threads, depth]: [&str; 6]) -> String {
    format!("{cell:>7} {path:<13} {op:<9} {size:>6} {threads:>7} {depth:>5}")
}
