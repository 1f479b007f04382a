//! Storage as measured by a saved report.

use std::collections::BTreeMap;

use super::known::KnownStorage;
use super::storage::{DeviceFigures, StorageModel};
use super::surface::{Surface, SurfacePoint};
use stormlp_core::failure::Problems;
use stormlp_core::operation::Direction;
use stormlp_core::path::PathKind;
use stormlp_core::stats::median;
use stormlp_core::warning::{Warning, WarningKind, merge};
use stormlp_matrix::plan::{CellReport, MatrixReport};

/// A cell with a larger share of its data in the page cache does not measure storage.
const MOST_CACHED_SHARE: f64 = 0.05;
/// A run is divided into so many windows to see how it varied.
const WINDOWS: usize = 5;
/// Storage that varied more is taken as this.
const MOST_SPREAD: f64 = 0.9;

impl KnownStorage {
    /// The storage measured by the `stormlp gds` report saved in `place`: throughput and latency by
    /// transfer size and depth.
    ///
    /// # Errors
    /// If no cell read from storage.
    pub fn measured(report: &MatrixReport, place: &str) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        // With several processes, `threads` of a cell is per process.
        let group = report.results.group.as_ref();
        let processes = group.map_or(1, |group| group.size);
        let points = |direction| points(&report.results.cells, direction, processes);
        let Some(surface) = Surface::through(points(Direction::Read)) else {
            problems.plan(
                format!(
                    "--storage: no cell in {place} read from storage: all failed, wrote, or were \
                     served from the page cache"
                ),
                "run `stormlp gds --op randread` with a path that uses O_DIRECT",
            );
            return Err(problems);
        };
        let writes = Surface::through(points(Direction::Write));
        let model = StorageModel {
            device: DeviceFigures {
                read_bytes_per_second: surface.best_bytes_per_second(),
                write_bytes_per_second: writes.map(|writes| writes.best_bytes_per_second()),
                reads_per_second: None,
                writes_per_second: None,
                latency_seconds: surface.least_latency_seconds(),
                queue_depth: None,
            },
            surface: Some(surface),
            measured_objects: report.plan.request.uses_objects(),
            ..StorageModel::of_bandwidth(0.0)
        };
        let hosts = group.map(|group| match group.machines.len() as u32 {
            0 => group.size,
            machines => machines,
        });
        let together = match hosts.filter(|hosts| *hosts > 1) {
            Some(hosts) => format!(" by {hosts} hosts together"),
            None => String::new(),
        };
        let source = format!("measured{together}, {place}");
        let spread = spread(&report.results.cells);
        Ok(Self { model, source, hosts, spread, warnings: warnings(report) })
    }
}

/// How far reads of one size and depth varied over their runs, as a share of their mean: half of the
/// way from the slowest to the fastest window, in the middle of all sizes and depths.
fn spread(cells: &[CellReport]) -> f64 {
    let mut ends: BTreeMap<(u64, u32), [f64; 2]> = BTreeMap::new();
    let is_read = |cell: &&CellReport| {
        cell.op.direction() == Direction::Read && cell.requested_path != PathKind::Null
    };
    let reads = cells.iter().filter(is_read);
    for (cell, measured) in reads.filter_map(|cell| Some((cell, cell.result()?))) {
        // The first interval has the start, and the last one may be shorter.
        let (series, all) = (&measured.series, &measured.series.interval_bytes);
        let whole = all.get(1..all.len().saturating_sub(1)).unwrap_or_default();
        let windows = whole.chunks_exact((whole.len() / WINDOWS).max(1)).map(|part| {
            let seconds = part.len() as f64 * series.interval_seconds.max(1e-9);
            part.iter().sum::<u64>() as f64 / seconds
        });
        for rate in windows.chain([measured.throughput_bytes_per_second]) {
            let key = (cell.io_size.max_bytes, cell.threads * cell.queue_depth);
            let [least, most] = ends.entry(key).or_insert([rate; 2]);
            (*least, *most) = (least.min(rate), most.max(rate));
        }
    }
    let spreads = ends.values().map(|[least, most]| (most - least) / (most + least).max(1e-9));
    let spreads: Vec<f64> = spreads.collect();
    if spreads.is_empty() { 0.0 } else { median(&spreads).min(MOST_SPREAD) }
}

/// The warnings of a report that its rates may not be the storage's.
fn warnings(report: &MatrixReport) -> Vec<Warning> {
    let of_cells = report.results.cells.iter().flat_map(|cell| &cell.warnings);
    let mut found = Vec::new();
    for warning in report.warnings.iter().chain(of_cells) {
        use WarningKind::{Changed, HarnessBound, Impaired, NoSteadyState, OthersLoad};
        if [Changed, HarnessBound, Impaired, NoSteadyState, OthersLoad].contains(&warning.kind) {
            merge(&mut found, warning.clone().about("the report".to_string()));
        }
    }
    found
}

/// Measurements in `direction`, each by this many processes, without those from the page cache.
fn points(
    cells: &[CellReport],
    direction: Direction,
    processes: u32,
) -> impl Iterator<Item = SurfacePoint> + '_ {
    let of_direction = move |cell: &&CellReport| cell.op.direction() == direction;
    cells.iter().filter(of_direction).filter_map(move |cell| {
        let measured = cell.result().filter(|_| cell.requested_path != PathKind::Null)?;
        let of_device = measured.device_read_bytes.map(|bytes| bytes as f64);
        let least = measured.bytes as f64 * (1.0 - MOST_CACHED_SHARE);
        // A cell that reads its files repeatedly finds them in the cache from the second pass on.
        let is_cached = measured.page_cache_share > Some(MOST_CACHED_SHARE)
            || of_device.is_some_and(|bytes| bytes < least);
        let reads_cache = cell.requested_path.uses_page_cache() && direction == Direction::Read;
        (!(is_cached && reads_cache)).then(|| SurfacePoint {
            io_bytes: cell.io_size.max_bytes,
            depth: (cell.threads.saturating_mul(cell.queue_depth)).saturating_mul(processes.max(1)),
            bytes_per_second: measured.throughput_bytes_per_second,
            latency_seconds: measured.latency_us.mean * 1e-6,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use stormlp_matrix::plan::{CellStatus, Measurement};

    /// A cell that read 1 GiB by `path`, `from_device` of which came from the device.
    fn cell(path: PathKind, from_device: Option<u64>) -> CellReport {
        let plan = crate::fixtures::cell_plan(path);
        let mut cell = CellReport::without_numbers(0, &plan, "");
        cell.status = CellStatus::Ok;
        cell.measurement =
            Some(Measurement { device_read_bytes: from_device, ..crate::fixtures::measurement() });
        cell
    }

    #[test]
    fn the_spread_is_half_of_the_way_between_the_windows() {
        let of = |fast: u64, slow: u64| {
            let mut cell = cell(PathKind::Cpu, None);
            let measured = cell.measurement.as_mut().unwrap();
            let course = (0..22).map(|nth| if nth < 11 { fast } else { slow });
            measured.series.interval_bytes = course.collect();
            measured.series.interval_seconds = 0.1;
            measured.throughput_bytes_per_second = 1000.0;
            spread(&[cell])
        };
        assert_eq!(of(100, 100), 0.0);
        assert_eq!(of(150, 50), 0.5);
        assert_eq!(spread(&[]), 0.0);
    }

    #[test]
    fn cells_served_from_the_page_cache_are_ignored() {
        let counts = |path, from_device| {
            let cells = [cell(path, from_device)];
            points(&cells, Direction::Read, 1).count()
        };
        assert_eq!(counts(PathKind::PageCache, Some(1 << 30)), 1);
        assert_eq!(counts(PathKind::PageCache, None), 1);
        // Cold at first, then read repeatedly.
        assert_eq!(counts(PathKind::PageCache, Some(1 << 25)), 0);
        // A cache in the drive itself is part of the storage.
        assert_eq!(counts(PathKind::Cpu, Some(1 << 25)), 1);
    }
}
