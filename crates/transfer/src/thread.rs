//! CPU affinity of threads.

use rustix::thread::CpuSet;
use stormlp_core::placement::CpuList;

use crate::error::TransferError;

/// Binds the calling thread, and threads it starts from now on, to `cpus`; `None` leaves the
/// affinity unchanged. Memory that a bound thread touches first comes from its NUMA node.
///
/// # Errors
/// When the kernel refuses, for instance because none of the CPUs exists.
pub fn bind(cpus: Option<&CpuList>) -> Result<(), TransferError> {
    let Some(cpus) = cpus else {
        return Ok(());
    };
    let mut set = CpuSet::new();
    let known = |cpu: &&u32| (**cpu as usize) < CpuSet::MAX_CPU;
    for cpu in cpus.numbers().iter().filter(known) {
        set.set(*cpu as usize);
    }
    set_affinity(&set)
}

/// Runs `work` on the calling thread bound to `cpus`, then restores the affinity.
///
/// # Errors
/// When it cannot be bound, or `work` fails.
pub fn bound<T, E: From<TransferError>>(
    cpus: Option<&CpuList>,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    if cpus.is_none() {
        return work();
    }
    let before = rustix::thread::sched_getaffinity(None)
        .map_err(TransferError::io("query the CPUs of a thread"))?;
    bind(cpus)?;
    let done = work();
    set_affinity(&before)?;
    done
}

fn set_affinity(set: &CpuSet) -> Result<(), TransferError> {
    rustix::thread::sched_setaffinity(None, set).map_err(TransferError::io("bind a thread to CPUs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The CPUs that the calling thread may use.
    fn here() -> Vec<usize> {
        let set = rustix::thread::sched_getaffinity(None).expect("the kernel tells");
        (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
    }

    #[test]
    fn a_thread_and_its_children_are_bound_while_it_works() {
        let before = here();
        let one = CpuList::new([before[0] as u32]);
        let seen = bound(Some(&one), || {
            let started = std::thread::spawn(here);
            Ok::<_, TransferError>((here(), started.join().expect("it ends")))
        });
        let only = vec![before[0]];
        assert_eq!(seen.expect("a CPU that is there"), (only.clone(), only));
        assert_eq!(here(), before);
        assert!(bind(None).is_ok());
        assert_eq!(here(), before);
    }
}
