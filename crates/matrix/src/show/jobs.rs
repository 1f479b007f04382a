//! Results of a cell's jobs, each over its own duration.

use crate::plan::{CellReport, JobReport, MatrixReport};
use stormlp_core::units::GIB;

use super::group::{Combination, key_of};
use stormlp_show::document::{Cell, Column, Quantity, Table};

/// One row for each job of each cell; `None` if no cell has several jobs.
pub(super) fn table(report: &MatrixReport) -> Option<Table> {
    let words = ["job", "path", "op", "I/O"].map(|name| Column::words(name, 0));
    let numbers = [
        Column::numbers("threads", 0),
        Column::numbers("repeat", 4),
        Column::numbers("GiB/s", 0),
        Column::numbers("mean µs", 1),
        Column::numbers("operations", 3),
        Column::numbers("seconds", 2),
    ];
    let mut table = Table::new(words.into_iter().chain(numbers));
    for cell in &report.results.cells {
        let key = key_of(report, cell);
        for job in cell.result().map_or(&[][..], |numbers| &numbers.jobs) {
            let name = format!("{}, {}, {}", job.name, key.name(), cell.repeat);
            table.row(name, job_row(job, cell, &key.combination));
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

fn job_row(job: &JobReport, cell: &CellReport, combination: &Combination) -> Vec<Cell> {
    let rate = job.throughput_bytes_per_second / GIB as f64;
    let mean = job.latency_us_mean;
    vec![
        job.name.as_str().into(),
        cell.requested_path.name().into(),
        combination.operation().into(),
        combination.io_size().into(),
        job.threads.to_string().into(),
        cell.repeat.to_string().into(),
        Quantity::higher(rate, "GiB/s").into(),
        mean.map_or("-".into(), |mean| Quantity::lower(mean, "µs").into()),
        job.operations.to_string().into(),
        job.duration_seconds.map_or("-".into(), |seconds| format!("{seconds:.3}").into()),
    ]
}
