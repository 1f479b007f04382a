//! A line for each cell, for spreadsheets and scripts. Columns are only ever added at the end.

use stormlp_model::matrix::{CellReport, CellStatus, MatrixReport, Measurement};

/// Names of the columns, with their units.
pub const HEADER: [&str; 40] = [
    "format_version",
    "started_at",
    "hostname",
    "command",
    "requested_path",
    "effective_path",
    "status",
    "reason",
    "op",
    "io_size_bytes",
    "io_size_mix",
    "threads",
    "queue_depth",
    "repeat",
    "memory",
    "memory_emulated",
    "throughput_bytes_per_second",
    "iops",
    "latency_us_mean",
    "latency_us_min",
    "latency_us_p50",
    "latency_us_p90",
    "latency_us_p99",
    "latency_us_p999",
    "latency_us_max",
    "operations",
    "bytes",
    "duration_seconds",
    "first_done_seconds",
    "last_done_seconds",
    "cpu_user_seconds",
    "cpu_system_seconds",
    "cpu_seconds_per_gib",
    "page_cache_share",
    "page_cache_share_after",
    "device_read_bytes",
    "device_written_bytes",
    "engine",
    "evidence",
    "interrupted",
];

/// The cells of a report as CSV, below the header when `with_header`.
///
/// # Errors
/// When a row does not fit the header, which would be a fault of stormlp.
pub fn rows(report: &MatrixReport, with_header: bool) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    if with_header {
        writer.write_record(HEADER)?;
    }
    for cell in &report.results.cells {
        let mut row = identity(report, cell);
        row.extend(match &cell.measurement {
            Some(numbers) => measured(numbers),
            None => vec![String::new(); HEADER.len() - row.len() - 2],
        });
        row.push(
            cell.evidence
                .as_ref()
                .map_or(String::new(), |e| e.summary.clone()),
        );
        row.push(match &cell.measurement {
            Some(numbers) => numbers.interrupted.to_string(),
            None => String::new(),
        });
        writer.write_record(row)?;
    }
    let bytes = writer.into_inner().map_err(|e| e.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn identity(report: &MatrixReport, cell: &CellReport) -> Vec<String> {
    let text = |value: Option<String>| value.unwrap_or_default();
    let numbers = cell.measurement.as_ref();
    vec![
        report.head.format_version.to_string(),
        report.head.started_at.clone(),
        report.head.host.hostname.clone(),
        report.head.command.clone(),
        cell.requested_path.to_string(),
        text(cell.effective_path.map(|path| path.to_string())),
        match cell.status {
            CellStatus::Ok => "ok",
            CellStatus::Failed => "failed",
            CellStatus::Unavailable => "unavailable",
        }
        .to_string(),
        text(cell.reason.clone()),
        cell.op.to_string(),
        cell.io_size_bytes.to_string(),
        text(cell.io_size_mix.map(|mix| mix.to_string())),
        cell.threads.to_string(),
        cell.queue_depth.to_string(),
        cell.repeat.to_string(),
        text(numbers.map(|numbers| numbers.memory.clone())),
        text(numbers.map(|numbers| numbers.memory_emulated.to_string())),
    ]
}

fn measured(numbers: &Measurement) -> Vec<String> {
    let share = |value: Option<f64>| value.map_or(String::new(), |share| share.to_string());
    let bytes = |value: Option<u64>| value.map_or(String::new(), |bytes| bytes.to_string());
    let latency = &numbers.latency_us;
    vec![
        numbers.throughput_bytes_per_second.to_string(),
        numbers.iops.to_string(),
        latency.mean.to_string(),
        latency.min.to_string(),
        latency.p50.to_string(),
        latency.p90.to_string(),
        latency.p99.to_string(),
        latency.p999.to_string(),
        latency.max.to_string(),
        numbers.operations.to_string(),
        numbers.bytes.to_string(),
        numbers.duration_seconds.to_string(),
        numbers.first_done_seconds.to_string(),
        numbers.last_done_seconds.to_string(),
        numbers.cpu_user_seconds.to_string(),
        numbers.cpu_system_seconds.to_string(),
        numbers.cpu_seconds_per_gib.to_string(),
        share(numbers.page_cache_share),
        share(numbers.page_cache_share_after),
        bytes(numbers.device_read_bytes),
        bytes(numbers.device_written_bytes),
        numbers
            .engine
            .map_or(String::new(), |engine| engine.to_string()),
    ]
}
