//! Whether io_uring may be used: a minimal ring is set up, because no file shows it reliably.
//!
//! Containers block it by seccomp (`EPERM`, or `ENOSYS`), the sysctl `kernel.io_uring_disabled`
//! with `EPERM`, kernels before 5.1 with `ENOSYS`.

use std::io;

use io_uring::IoUring;
use stormlp_core::facts::Availability;

use super::root::Root;

/// Entries of the test ring: the smallest the kernel allows.
const ENTRIES: u32 = 2;

/// Whether the kernel sets up a ring for this process.
pub(crate) fn availability(root: &Root) -> Availability {
    match IoUring::new(ENTRIES) {
        Ok(_) => Availability::Available,
        Err(error) => refusal(root, &error),
    }
}

/// The reason why a ring was refused, and the remedy.
fn refusal(root: &Root, error: &io::Error) -> Availability {
    let disabled = root.number::<u8>("/proc/sys/kernel/io_uring_disabled");
    let psync = "or use `--engine psync`, which `auto` selects by itself";
    match (error.raw_os_error(), disabled.known()) {
        (Some(libc::EPERM), Some(&level @ 1..)) => Availability::unavailable(
            format!("the kernel refuses it (EPERM): kernel.io_uring_disabled is {level}"),
            format!("`sysctl kernel.io_uring_disabled=0` as root, {psync}"),
        ),
        (Some(libc::EPERM), _) => Availability::unavailable(
            "it is refused with EPERM although kernel.io_uring_disabled does not forbid it: \
             most likely a container's seccomp profile",
            format!("run the container with a profile that allows io_uring_*, {psync}"),
        ),
        (Some(libc::ENOSYS), _) => Availability::unavailable(
            "the kernel has no io_uring (ENOSYS), or a seccomp profile hides it",
            format!("Linux 5.6 or later, {psync}"),
        ),
        (Some(libc::ENOMEM), _) => Availability::unavailable(
            "there is too little lockable memory for a ring (ENOMEM)",
            format!("raise `ulimit -l`, {psync}"),
        ),
        _ => Availability::unavailable(format!("setting up a ring failed: {error}"), psync),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Tree;
    use super::*;

    fn reason(errno: i32, disabled: &str) -> String {
        let tree = Tree::new().file("proc/sys/kernel/io_uring_disabled", disabled);
        match refusal(&tree.root(), &io::Error::from_raw_os_error(errno)) {
            Availability::Unavailable { fact, .. } => fact,
            Availability::Available => panic!("a refusal is not a permission"),
        }
    }

    #[test]
    fn the_two_reasons_behind_eperm_are_distinguished() {
        assert!(reason(libc::EPERM, "2").contains("io_uring_disabled is 2"));
        assert!(reason(libc::EPERM, "0").contains("seccomp"));
        assert!(reason(libc::ENOSYS, "0").contains("ENOSYS"));
    }
}
