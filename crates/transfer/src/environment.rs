//! What libraries are told by the environment, which only a process with one thread may change.

use std::ffi::OsStr;
use std::time::{Duration, Instant};

use crate::signals;

/// How long threads may take to end.
const PATIENCE: Duration = Duration::from_millis(100);

/// Sets a variable, unless another thread might read the environment meanwhile; whether it did.
/// Threads that do nothing but take signals read nothing.
pub(crate) fn set(name: &str, value: impl AsRef<OsStr>) -> bool {
    let alone = is_alone();
    if alone {
        // SAFETY: beside this thread, as the kernel just said, there are only those that are parked
        // to take signals, whose handlers set flags and exit; this one starts none meanwhile. So
        // nobody reads the environment while it changes.
        unsafe { std::env::set_var(name, value) };
    }
    alone
}

/// Whether this thread is the only one but for those that take signals. One that has done its work,
/// as the probes' threads have, may be on its way out.
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

/// Whether a variable is there and not empty.
pub(crate) fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// How many threads the kernel counts in this process.
fn threads_of_this_process() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/task").ok()?.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_other_threads_the_environment_is_left_alone() {
        // The test harness runs this beside its main thread.
        assert!(!set("STORMLP_TEST_OF_THE_ENVIRONMENT", "1"));
        assert!(!is_set("STORMLP_TEST_OF_THE_ENVIRONMENT"));
    }
}
