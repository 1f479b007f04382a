//! Environment variables for libraries, which only a single-threaded process may set.

use std::ffi::OsStr;
use std::time::{Duration, Instant};

use crate::signals;

/// How long to wait for threads to end.
const PATIENCE: Duration = Duration::from_millis(100);

/// Sets a variable, unless another thread might read the environment meanwhile; returns whether it
/// did. Threads that only handle signals do not read it.
pub(crate) fn set(name: &str, value: impl AsRef<OsStr>) -> bool {
    let alone = is_alone();
    if alone {
        // SAFETY: as the kernel just reported, all other threads are parked to handle signals, and
        // the handlers set flags and exit; this thread starts none meanwhile. So no thread reads
        // the environment while it changes.
        unsafe { std::env::set_var(name, value) };
    }
    alone
}

/// Whether this is the only thread, except for threads that handle signals. Threads that have
/// finished their work, such as those of the probes, may still be exiting.
fn is_alone() -> bool {
    let begun = Instant::now();
    loop {
        if threads_of_this_process() == Some(1 + signals::parked_threads()) {
            return true;
        }
        if begun.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether a variable is set and not empty.
pub(crate) fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// The number of threads of this process, from the kernel.
fn threads_of_this_process() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/task").ok()?.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_other_threads_the_environment_is_left_alone() {
        // The test harness runs this alongside its main thread.
        assert!(!set("STORMLP_TEST_OF_THE_ENVIRONMENT", "1"));
        assert!(!is_set("STORMLP_TEST_OF_THE_ENVIRONMENT"));
    }
}
