//! Resource limits of this process: the ones that a run may raise without privilege, and the effect
//! of reaching one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit on open files to the hard limit and returns the limit now in effect.
/// Record readers keep a file open for each of their streams.
pub fn raise_open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if limit.current != limit.maximum && setrlimit(Resource::Nofile, raised).is_ok() {
        return limit.maximum.unwrap_or(u64::MAX);
    }
    limit.current.unwrap_or(u64::MAX)
}

/// Makes a write beyond the file size limit fail with an error instead of a fatal signal.
/// Inherited by child processes.
pub fn refuse_large_files() {
    // SAFETY: no handler runs: the signal is ignored. It is called before any thread.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// The largest file that this process may write; `u64::MAX` means unlimited.
pub fn largest_file_bytes() -> u64 {
    getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_limit_is_never_lowered() {
        let before = super::getrlimit(super::Resource::Nofile).current;
        assert!(super::raise_open_files() >= before.unwrap_or(0));
    }
}
