//! The cost of a run on the host, and the block layer's view of it.

mod devices;
mod gpu;
mod host;
mod instruments;
mod network;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::probe::{cgroup, root::Root};

pub use devices::{BlockDevice, BlockDevices, DeviceCounters};
pub(crate) use gpu::gpu_state;
pub use instruments::Instruments;

/// CPU time, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct CpuTimes {
    /// In user mode.
    pub user_seconds: f64,
    /// In the kernel, workers of io_uring included.
    pub system_seconds: f64,
}

impl CpuTimes {
    /// CPU time of this process so far, all threads.
    pub fn of_process() -> Self {
        Self::of(&usage(libc::RUSAGE_SELF))
    }

    /// CPU time of the processes that this one started and has waited for, and of theirs.
    pub fn of_children() -> Self {
        Self::of(&usage(libc::RUSAGE_CHILDREN))
    }

    fn of(usage: &libc::rusage) -> Self {
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
        Self { user_seconds: seconds(usage.ru_utime), system_seconds: seconds(usage.ru_stime) }
    }

    /// The CPU time spent since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user_seconds: (self.user_seconds - earlier.user_seconds).max(0.0),
            system_seconds: (self.system_seconds - earlier.system_seconds).max(0.0),
        }
    }

    /// User and system together.
    pub fn total_seconds(self) -> f64 {
        self.user_seconds + self.system_seconds
    }
}

/// CPU seconds of the calling thread, in nanosecond resolution.
pub fn thread_cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// How long the threads of this process have been ready to run without a CPU so far, in seconds: other
/// programs or threads had the CPUs, or a quota was used up. Where the kernel does not count that for
/// threads, this is the time in which a quota of the control group held them.
pub fn cpu_wait_seconds() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let mut waited = tasks.filter_map(|task| {
        // Time on a CPU, time without one in nanoseconds, turns (Documentation/scheduler).
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()
    });
    match waited.next() {
        Some(first) => (first + waited.sum::<u64>()) as f64 / 1e9,
        None => cgroup::throttled_seconds(&Root::system()),
    }
}

/// Resource usage of this process or its children, from the kernel.
fn usage(whose: libc::c_int) -> libc::rusage {
    // SAFETY: rusage is plain integers, for which all zeroes is a valid value; the kernel fills it
    // in.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(whose, &raw mut usage);
        usage
    }
}

/// The peak resident set size of this process in bytes.
pub fn peak_rss_bytes() -> u64 {
    (usage(libc::RUSAGE_SELF).ru_maxrss as u64) << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_costs_cpu_time() {
        let start = CpuTimes::of_process();
        let mut x = 1u64;
        while CpuTimes::of_process().since(start).total_seconds() < 0.002 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        assert!(CpuTimes::of_process().total_seconds() > start.total_seconds());
        assert!(peak_rss_bytes() > 1 << 20);
        assert!((0.0..1e6).contains(&cpu_wait_seconds()));
    }
}
