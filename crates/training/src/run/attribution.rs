//! Attributes waiting time to its cause.
//!
//! The machine knows whether a waiting accelerator has reads in the storage path. Whether storage
//! was working on them or this host was copying follows from the block device's busy time; the
//! waiting time of each sampling interval is divided by it. Without a block device behind the files
//! (NFS, tmpfs), the CPU time of this process is used instead: time not spent computing was spent
//! waiting.

use crate::report::WaitingSeconds;
use stormlp_transfer::telemetry::{CpuTimes, DeviceCounters};

use super::machine::{Nanos, Waits};

/// One sample of the clock and the counters.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// Time on the run's clock.
    pub now: Nanos,
    /// Cumulative waiting for data.
    pub waits: Waits,
    /// Cumulative bytes read.
    pub bytes: u64,
    /// Counters of the block device; `None` if there is none.
    pub device: Option<DeviceCounters>,
    /// Cumulative CPU time of the process.
    pub cpu: CpuTimes,
}

/// Divides the waiting between two readings by cause. `io_threads` limits the CPU seconds per
/// second; `moves_nothing` means that the path does not touch storage.
pub fn divide(
    before: &Reading,
    after: &Reading,
    io_threads: usize,
    moves_nothing: bool,
) -> WaitingSeconds {
    let elapsed = after.now.saturating_sub(before.now) as f64 / 1e9;
    let waits = after.waits - before.waits;
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    let storage_share = if moves_nothing || elapsed <= 0.0 {
        0.0
    } else {
        match (before.device, after.device) {
            (Some(before), Some(after)) => after.since(before).busy_ms as f64 / 1e3 / elapsed,
            _ => {
                let cpu = after.cpu.since(before.cpu).total_seconds();
                1.0 - cpu / (elapsed * io_threads.max(1) as f64)
            }
        }
    }
    .clamp(0.0, 1.0);
    let reading_seconds = seconds(waits.reading_ns);
    let storage_seconds = reading_seconds * storage_share;
    WaitingSeconds {
        storage: storage_seconds,
        cpu: reading_seconds - storage_seconds + seconds(waits.queued_ns + waits.client_ns),
        barrier: seconds(waits.barrier_ns),
        startup: seconds(waits.startup_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn reading(at: u64, reading_ns: u64, busy_ms: Option<u64>, cpu: f64) -> Reading {
        Reading {
            now: at * SECOND,
            waits: Waits {
                startup_ns: at * SECOND / 10,
                reading_ns,
                queued_ns: at * SECOND / 5,
                client_ns: 0,
                barrier_ns: 0,
            },
            bytes: 0,
            device: busy_ms.map(|busy_ms| DeviceCounters { busy_ms, ..DeviceCounters::default() }),
            cpu: CpuTimes { user_seconds: cpu, system_seconds: 0.0 },
        }
    }

    #[test]
    fn a_busy_device_makes_it_storage_and_an_idle_one_the_client() {
        let before = reading(0, 0, Some(100), 0.0);
        let busy = divide(&before, &reading(1, SECOND, Some(1100), 0.1), 2, false);
        assert_eq!((busy.storage, busy.cpu), (1.0, 0.2));
        let idle = divide(&before, &reading(1, SECOND, Some(100), 2.0), 2, false);
        assert_eq!((idle.storage, idle.cpu), (0.0, 1.2));
        assert_eq!((idle.startup, idle.total()), (0.1, 1.3));
    }

    #[test]
    fn without_a_device_the_cpu_time_decides() {
        let before = reading(0, 0, None, 0.0);
        let copying = divide(&before, &reading(1, SECOND, None, 2.0), 2, false);
        assert_eq!(copying.storage, 0.0);
        let waiting = divide(&before, &reading(1, SECOND, None, 0.0), 2, false);
        assert_eq!(waiting.storage, 1.0);
    }

    #[test]
    fn a_path_that_moves_nothing_never_waits_for_storage() {
        let before = reading(0, 0, Some(0), 0.0);
        let null = divide(&before, &reading(1, SECOND, Some(1000), 0.0), 2, true);
        assert_eq!(null.storage, 0.0);
    }
}
