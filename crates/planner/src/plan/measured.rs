//! Storage as a saved report measured it.

use super::storage::{DeviceFigures, StorageModel};
use super::surface::{Surface, SurfacePoint};
use stormlp_core::operation::Direction;
use stormlp_core::path::PathKind;
use stormlp_core::problem::Problems;
use stormlp_matrix::plan::{CellReport, MatrixReport};

/// Of a cell, more than this share in the page cache says nothing about storage.
const MOST_CACHED_SHARE: f64 = 0.05;

impl StorageModel {
    /// The storage that the cells of `stormlp gds` in `report` read from, which was saved in
    /// `place`: measured throughput and latency over transfer size and depth.
    ///
    /// # Errors
    /// When no cell of it read from storage.
    pub fn measured(report: &MatrixReport, place: &str) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        // Of several processes a cell has the threads of one.
        let processes = report.results.group.as_ref().map_or(1, |group| group.size);
        let points = |direction| points(&report.results.cells, direction, processes);
        let Some(surface) = Surface::through(points(Direction::Read)) else {
            problems.plan(
                format!(
                    "--storage: no cell of {place} read from storage: they failed, wrote, or were \
                     served from the page cache"
                ),
                "run `stormlp gds` with --op randread on a path that reads with O_DIRECT",
            );
            return Err(problems);
        };
        let writes = Surface::through(points(Direction::Write));
        Ok(Self {
            device: DeviceFigures {
                read_bytes_per_second: surface.best_bytes_per_second(),
                write_bytes_per_second: writes.map(|writes| writes.best_bytes_per_second()),
                reads_per_second: None,
                writes_per_second: None,
                latency_seconds: surface.least_latency_seconds(),
                queue_depth: None,
            },
            surface: Some(surface),
            ..Self::of_bandwidth(0.0)
        })
    }
}

/// What cells that moved bytes in `direction`, each by so many processes, gave, those from the page cache left out.
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
        // A cell that goes over its files more than once finds them there from the second time on.
        let is_cached = measured.page_cache_share > Some(MOST_CACHED_SHARE)
            || of_device.is_some_and(|bytes| bytes < least);
        let reads_cache = cell.requested_path.uses_page_cache() && direction == Direction::Read;
        (!(is_cached && reads_cache)).then(|| SurfacePoint {
            io_bytes: cell.io_size_bytes,
            depth: (cell.threads.saturating_mul(cell.queue_depth)).saturating_mul(processes.max(1)),
            bytes_per_second: measured.throughput_bytes_per_second,
            latency_seconds: measured.latency_us.mean * 1e-6,
        })
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use stormlp_matrix::plan::{CellPlan, CellStatus, Measurement};

    /// A cell that read a GiB by `path`, of which so much came from the device.
    fn cell(path: PathKind, from_device: Option<u64>) -> CellReport {
        let plan = CellPlan::fixture(path);
        let mut cell = CellReport::without_numbers(0, &plan, "");
        cell.status = CellStatus::Ok;
        cell.measurement =
            Some(Measurement { device_read_bytes: from_device, ..Measurement::fixture() });
        cell
    }

    #[test]
    fn what_came_from_the_page_cache_is_no_storage() {
        let counts = |path, from_device| {
            let cells = [cell(path, from_device)];
            points(&cells, Direction::Read, 1).count()
        };
        assert_eq!(counts(PathKind::PageCache, Some(1 << 30)), 1);
        assert_eq!(counts(PathKind::PageCache, None), 1);
        // Cold at first, and gone over many times.
        assert_eq!(counts(PathKind::PageCache, Some(1 << 25)), 0);
        // A cache of the drive itself is part of the storage.
        assert_eq!(counts(PathKind::Cpu, Some(1 << 25)), 1);
    }
}
