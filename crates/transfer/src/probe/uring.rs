//! Whether io_uring may be used: a minimal ring is set up, because no file shows it reliably.
//!
//! Containers block it by seccomp (`EPERM`, or `ENOSYS`), the sysctl `kernel.io_uring_disabled`
//! with `EPERM`, kernels before 5.1 with `ENOSYS`.

use std::io;

use io_uring::{Builder, IoUring};
use stormlp_core::facts::Availability;
use stormlp_core::machine::{IoUringFacts, RingFlag};

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

/// A change to a ring's set-up.
type SetUp = fn(&mut Builder) -> &mut Builder;

/// The flags that the hot loop benefits from, each with its prerequisite and the kernel version
/// that introduced it.
const FLAGS: [(&str, &str, SetUp); 3] = [
    ("COOP_TASKRUN", "Linux 5.19", |b| b.setup_coop_taskrun()),
    ("SINGLE_ISSUER", "Linux 6.0", |b| b.setup_single_issuer()),
    ("DEFER_TASKRUN", "Linux 6.1", |b| b.setup_single_issuer().setup_defer_taskrun()),
];

/// io_uring in detail: each flag is tested on a separate ring.
pub(crate) fn facts(root: &Root) -> IoUringFacts {
    let flags = FLAGS.iter().map(|&(name, since, set_up)| RingFlag {
        name: name.to_string(),
        availability: match set_up(&mut IoUring::builder()).build(ENTRIES) {
            Ok(_) => Availability::Available,
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Availability::unavailable(
                "the kernel does not support it (EINVAL)",
                format!("{since} or later; runs work without it"),
            ),
            Err(error) => refusal(root, &error),
        },
    });
    IoUringFacts {
        disabled_setting: root.number("/proc/sys/kernel/io_uring_disabled"),
        flags: flags.collect(),
    }
}

/// Why a ring was refused and what would change that.
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
    fn flags_are_only_accepted_with_rings() {
        let root = Root::system();
        let allowed = availability(&root).is_available();
        let flags = facts(&root).flags;
        assert_eq!(flags.len(), FLAGS.len());
        assert!(allowed || flags.iter().all(|flag| !flag.availability.is_available()));
    }

    #[test]
    fn the_two_reasons_behind_eperm_are_distinguished() {
        assert!(reason(libc::EPERM, "2").contains("io_uring_disabled is 2"));
        assert!(reason(libc::EPERM, "0").contains("seccomp"));
        assert!(reason(libc::ENOSYS, "0").contains("ENOSYS"));
    }
}
