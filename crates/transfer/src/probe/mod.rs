//! Facts about this machine, gathered from `/proc`, `/sys` and a few harmless system calls.
//!
//! Nothing here hangs or panics: a file that is missing makes a fact unknown, with the reason.

mod block;
mod cgroup;
mod cpu;
mod direct;
mod memory;
mod mounts;
mod root;
mod storage;
#[cfg(test)]
mod testing;
mod uring;

use std::path::Path;

use stormlp_model::facts::{Availability, HostFacts, PathSupport};
use stormlp_model::machine::{BlockDevice, Fact, Filesystem};
use stormlp_model::path::PathKind;

use self::root::Root;

/// What plans and reports need to know of this machine; takes a few milliseconds.
pub fn host_facts() -> HostFacts {
    let root = Root::system();
    let uname = rustix::system::uname();
    let memory_bytes = memory::total_bytes(&root);
    HostFacts {
        hostname: uname.nodename().to_string_lossy().into_owned(),
        kernel: uname.release().to_string_lossy().into_owned(),
        cpu_model: cpu::model(&root).unwrap_or("unknown".to_string()),
        cpus: cpu::allowed(),
        memory_bytes,
        memory_limit_bytes: cgroup::memory_limit_bytes(&root).filter(|&l| l < memory_bytes),
        locked_memory_limit_bytes: memory::locked_limit_bytes(),
        open_files_limit: memory::open_files_limit(),
        io_uring: uring::availability(&root),
        accelerators: Vec::new(),
        paths: PathKind::ALL.into_iter().map(path_support).collect(),
        stormlp_version: env!("CARGO_PKG_VERSION").to_string(),
        release_build: !cfg!(debug_assertions),
    }
}

/// The file system behind `directory`, or behind the nearest folder above it that exists.
pub fn filesystem(directory: &Path) -> Fact<Filesystem> {
    storage::filesystem(&Root::system(), directory)
}

/// The block devices behind `directory` down to the members, the file system's own first; below
/// `directory` itself when it is a block device.
pub fn block_devices(directory: &Path) -> Fact<Vec<BlockDevice>> {
    storage::devices(&Root::system(), directory)
}

/// Paths that the CPU drives run everywhere; the others need cuFile.
fn path_support(path: PathKind) -> PathSupport {
    let availability = if path.needs_cufile() {
        Availability::unavailable("cuFile was not probed", "run `stormlp doctor`")
    } else {
        Availability::Available
    };
    PathSupport { path, availability }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_name_cpus_and_memory() {
        let facts = host_facts();
        assert!(!facts.hostname.is_empty() && !facts.kernel.is_empty());
        assert!(facts.cpus >= 1);
        assert!(facts.memory_bytes > 1 << 20);
        assert!(facts.usable_memory_bytes() <= facts.memory_bytes);
        assert_eq!(facts.paths.len(), PathKind::ALL.len());
        assert!(facts.support(PathKind::Buffered).is_available());
    }
}
