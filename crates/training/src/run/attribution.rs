//! Attributes waiting time to its cause.
//!
//! The machine knows whether a waiting accelerator has reads that are not done. That time is
//! storage's, unless the threads of this process were running, or ready to run without a CPU. Limits
//! on a device, network file systems and device mappers hold requests where the device's counters do
//! not see them, so an idle device does not acquit storage; a busy one convicts it.

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
    /// Cumulative time in which its threads were ready to run without a CPU; `None` if CPUs are not
    /// simulated, so that only the device counts.
    pub cpu_wait_seconds: Option<f64>,
}

/// Divides the waiting between two readings by cause. Each of `io_threads` with a read in hand may use
/// a CPU or wait for one all the time; `moves_nothing` means that the path does not touch storage.
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
        let devices = before.device.zip(after.device);
        let busy =
            devices.map(|(before, after)| after.since(before).busy_ms as f64 / 1e3 / elapsed);
        let ready = before.cpu_wait_seconds.zip(after.cpu_wait_seconds);
        let idle = ready.map(|(before_wait, after_wait)| {
            // A thread that ended takes its waiting with it.
            let ready_seconds = (after_wait - before_wait).max(0.0);
            let cpu = after.cpu.since(before.cpu).total_seconds() + ready_seconds;
            // Idle threads do not wait for storage.
            let most = elapsed * io_threads.max(1) as f64;
            let in_hand = seconds(waits.in_flight_ns).clamp(f64::MIN_POSITIVE, most);
            1.0 - cpu / in_hand
        });
        busy.into_iter().chain(idle).fold(0.0, f64::max)
    }
    .clamp(0.0, 1.0);
    // A read waits for an I/O thread as long as the reads before it are not done.
    let reading_seconds = seconds(waits.reading_ns.saturating_add(waits.queued_ns));
    let storage_seconds = reading_seconds * storage_share;
    WaitingSeconds {
        storage: storage_seconds,
        cpu: reading_seconds - storage_seconds + seconds(waits.client_ns),
        barrier: seconds(waits.barrier_ns),
        startup: seconds(waits.startup_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A second in which accelerators waited for reads, and `barrier` at barriers. The device was
    /// busy for a share of it, if there is one; threads ran and waited for CPUs for so many seconds.
    fn second(
        busy: Option<f64>,
        ran: f64,
        ready: Option<f64>,
        [reading, queued, barrier]: [f64; 3],
        in_flight: f64,
    ) -> [Reading; 2] {
        let ns = |seconds: f64| (seconds * 1e9) as u64;
        let counters = |share: f64| DeviceCounters {
            busy_ms: (1e3 * share) as u64,
            ..DeviceCounters::default()
        };
        let before = Reading {
            now: 0,
            waits: Waits::default(),
            bytes: 0,
            device: busy.map(|_| counters(0.0)),
            cpu: CpuTimes::default(),
            cpu_wait_seconds: ready.map(|_| 0.0),
        };
        let after = Reading {
            now: SECOND,
            waits: Waits {
                startup_ns: 0,
                reading_ns: ns(reading),
                queued_ns: ns(queued),
                client_ns: 0,
                barrier_ns: ns(barrier),
                in_flight_ns: ns(in_flight),
            },
            device: busy.map(counters),
            cpu: CpuTimes { user_seconds: ran, system_seconds: 0.0 },
            cpu_wait_seconds: ready,
            ..before
        };
        [before, after]
    }

    #[test]
    fn the_reads_and_the_cpus_of_this_process_tell_who_was_waited_for() {
        const THREADS: usize = 4;
        let reads = [0.8, 0.2, 0.0];
        // The busy share of the device, CPU time, time without a CPU, and the waits.
        for (case, busy, ran, ready, waits, [storage, cpu, barrier]) in [
            (
                "CPU-bound: two CPUs copy for four threads",
                Some(0.0),
                2.0,
                2.0,
                reads,
                [0.0, 1.0, 0.0],
            ),
            ("quota-bound: half a CPU is allowed", Some(0.1), 0.5, 3.5, reads, [0.1, 0.9, 0.0]),
            ("device-bound", Some(1.0), 0.2, 0.0, reads, [1.0, 0.0, 0.0]),
            ("throttled: io.max holds reads back", Some(0.0), 0.04, 0.0, reads, [0.99, 0.01, 0.0]),
            ("a network file system has no device", None, 0.2, 0.0, reads, [0.95, 0.05, 0.0]),
            ("barrier-bound", Some(0.1), 0.2, 0.0, [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]),
        ] {
            let [before, after] = second(busy, ran, Some(ready), waits, 5.0);
            let found = divide(&before, &after, THREADS, false);
            for (found, wanted) in
                [(found.storage, storage), (found.cpu, cpu), (found.barrier, barrier)]
            {
                assert!((found - wanted).abs() < 1e-9, "{case}: {found} {wanted}");
            }
        }
    }

    #[test]
    fn threads_without_a_read_do_not_wait_for_storage() {
        // One of sixteen threads copies from the page cache.
        let [before, after] = second(Some(0.0), 1.0, Some(0.0), [1.0, 0.0, 0.0], 1.0);
        assert_eq!(divide(&before, &after, 16, false).storage, 0.0);
        let [before, after] = second(Some(0.0), 0.1, Some(0.0), [1.0, 0.0, 0.0], 1.0);
        assert_eq!(divide(&before, &after, 16, false).storage, 0.9);
    }

    #[test]
    fn without_cpus_of_a_simulation_the_device_decides() {
        let [before, after] = second(Some(0.3), 0.0, None, [1.0, 0.0, 0.0], 1.0);
        assert_eq!(divide(&before, &after, 1, false).storage, 0.3);
    }

    #[test]
    fn a_path_that_moves_nothing_never_waits_for_storage() {
        let [before, after] = second(Some(1.0), 0.0, Some(0.0), [1.0, 0.0, 0.0], 1.0);
        assert_eq!(divide(&before, &after, 2, true).storage, 0.0);
    }
}
