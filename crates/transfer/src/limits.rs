//! Limits of this process: those that a run may raise without privilege, and what happens at one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit on open files to the hard one and returns the limit that holds now.
/// Record readers keep a file open for each of their streams.
pub fn raise_open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if limit.current != limit.maximum && setrlimit(Resource::Nofile, raised).is_ok() {
        return limit.maximum.unwrap_or(u64::MAX);
    }
    limit.current.unwrap_or(u64::MAX)
}

/// Has a write beyond the limit on the size of files answered with an error, not with a signal
/// that ends the process. Children inherit it.
pub fn refuse_large_files() {
    // SAFETY: nothing runs in a handler: the signal is ignored. It is called before any thread.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// The largest file that this process may write; `u64::MAX` is unlimited.
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
