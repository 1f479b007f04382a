//! What libraries are told by the environment, which only a process with one thread may change.

use std::ffi::OsStr;

/// Sets a variable, unless another thread might read the environment meanwhile; whether it did.
pub(crate) fn set(name: &str, value: impl AsRef<OsStr>) -> bool {
    let alone = threads_of_this_process() == Some(1);
    if alone {
        // SAFETY: this is the only thread of the process, as the kernel just said, and it starts
        // none meanwhile; so nobody reads the environment while it changes.
        unsafe { std::env::set_var(name, value) };
    }
    alone
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
