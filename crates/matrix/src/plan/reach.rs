//! How many of a cell's bytes came from storage or reached it, as far as known.

use super::choice::CacheState;
use crate::plan::matrix_plan::{CellPlan, MatrixPlan};
use crate::report::Measurement;
use stormlp_core::operation::Direction;
use stormlp_core::path::PathKind;

/// Below this device share of the bytes, a cell mostly moved data within memory.
const MOSTLY: f64 = 0.5;
/// Below this one, memory served a part of a cell's reads.
const ALL: f64 = 0.9;
/// File systems transfer slightly more than requested; a larger excess is other processes' I/O.
const MOST_SHARE: f64 = 1.05;
/// Tolerance for one pass: transfers that do not divide a file make a pass slightly more or less.
const ONE_ROUND: f64 = 1.01;

/// The storage traffic of a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reach {
    /// Bytes that the block devices moved in the cell's direction, including other processes'
    /// bytes; `None` without a block device.
    pub device_bytes: Option<u64>,
    /// The same as a share of the cell's bytes.
    pub device_share: Option<f64>,
    /// Number of passes of the cell over the used part of its files.
    pub rounds: f64,
    /// Whether its bytes passed through the page cache.
    pub through_cache: bool,
    /// Whether it only wrote.
    pub is_write: bool,
    /// Whether its files were synced within the measured time.
    pub synced: bool,
    /// In which way its figures are known to show memory.
    pub of_memory: Option<&'static str>,
}

impl MatrixPlan {
    /// The storage traffic of a cell of this plan, measured by this many hosts on separate files;
    /// `None` if the cell does not access storage.
    pub fn reach(&self, cell: &CellPlan, numbers: &Measurement, hosts: usize) -> Option<Reach> {
        // Reads of an endpoint from its devices and caches do not show here.
        if matches!(cell.transport.path, PathKind::S3 | PathKind::Null) {
            return None;
        }
        let (read, written) = (numbers.device_read_bytes, numbers.device_written_bytes);
        let is_write =
            cell.op.direction() == Direction::Write && self.request.read_percent.is_none();
        let device_bytes = match (self.request.read_percent, is_write) {
            (Some(_), _) => read.zip(written).map(|(read, written)| read + written),
            (None, true) => written,
            (None, false) => read,
        };
        let bytes = numbers.bytes.max(1) as f64;
        let covered = self.covered_bytes(cell).max(1) as f64 * hosts.max(1) as f64;
        let mut reach = Reach {
            device_bytes,
            device_share: device_bytes.map(|moved| moved as f64 / bytes),
            rounds: numbers.bytes as f64 / covered,
            through_cache: !cell.direct,
            is_write,
            synced: numbers.fsync_seconds.is_some(),
            of_memory: None,
        };
        reach.of_memory = self.of_memory(cell, numbers, &reach);
        Some(reach)
    }

    /// In which way the bytes of a cell came from memory or stayed there: judged by the
    /// counters of block devices. Without these (tmpfs, network file systems) judged by page cache
    /// residency before a read, or by a missing sync after a write. A path that bypasses the cache
    /// only counts if dropping the files left them there, as on a file system in memory.
    fn of_memory(
        &self,
        cell: &CellPlan,
        numbers: &Measurement,
        reach: &Reach,
    ) -> Option<&'static str> {
        if reach.is_write {
            let mostly = reach.through_cache && reach.is_mostly_memory();
            return match reach.through_cache && !reach.synced {
                _ if mostly => Some("mostly written to memory"),
                true => Some("not synced"),
                false => None,
            };
        }
        if self.hole_share().is_some() {
            return Some("reading holes");
        }
        let may_be_cached =
            cell.transport.path.uses_page_cache() || self.request.cache == CacheState::Cold;
        let is_cold = self.request.cache == CacheState::Cold && reach.through_cache;
        if is_cold && numbers.page_cache_share.is_none() {
            return Some("not known to be cold");
        }
        let from_memory = match reach.device_share {
            Some(_) => reach.is_mostly_memory(),
            None => may_be_cached && numbers.page_cache_share.is_some_and(|share| share > MOSTLY),
        };
        let partly = reach.through_cache && reach.device_share.is_some_and(|share| share < ALL);
        let partly = partly.then_some("partly read from memory");
        if from_memory { Some("mostly read from memory") } else { partly }
    }
}

impl Reach {
    /// Whether it read its files more than once, so that a cache may have served it.
    pub fn is_again(&self) -> bool {
        self.rounds > ONE_ROUND
    }

    /// Whether the devices are known to have moved less than half of its bytes.
    pub fn is_mostly_memory(&self) -> bool {
        self.device_share.is_some_and(|share| share < MOSTLY)
    }

    /// Whether the device traffic includes other processes, so that the cell's share is unknown.
    pub fn includes_background(&self) -> bool {
        self.device_share.is_some_and(|share| share > MOST_SHARE)
    }
}
