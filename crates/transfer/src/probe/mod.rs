//! Facts about this machine, gathered from `/proc`, `/sys` and a few harmless system calls.
//!
//! Nothing here hangs or panics: a file that is missing makes a fact unknown, with the reason.

mod block;
mod cgroup;
mod cpu;
mod direct;
mod gpu;
mod memory;
mod mounts;
mod platform;
mod root;
mod storage;
#[cfg(test)]
mod testing;
mod uring;

use std::path::Path;

use stormlp_model::facts::{Availability, HostFacts, PathSupport};
use stormlp_model::head::FORMAT_VERSION;
use stormlp_model::machine::{
    BlockDevice, BuildFacts, Fact, Filesystem, GpuFacts, LibraryFacts, Machine, advice,
};
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

/// Everything there is to know of this machine and of the storage behind `directory`.
pub fn machine(directory: &Path) -> Machine {
    let root = Root::system();
    let mut machine = Machine {
        format_version: FORMAT_VERSION,
        host: host_facts(),
        build: build(),
        processors: cpu::facts(&root),
        memory: memory::facts(&root),
        io_uring: uring::facts(&root),
        gpu: gpu_facts(&root),
        storage: storage::facts(&root, directory),
        warnings: Vec::new(),
    };
    machine.warnings = advice(&machine);
    machine
}

/// How this program was built. A static build has no dynamic loader, so it can open no library.
pub fn build() -> BuildFacts {
    let library = if cfg!(target_env = "musl") {
        "musl"
    } else {
        "gnu"
    };
    BuildFacts {
        target: format!("{} {library}", std::env::consts::ARCH),
        statically_linked: cfg!(target_feature = "crt-static"),
    }
}

fn gpu_facts(root: &Root) -> GpuFacts {
    GpuFacts {
        devices: gpu::devices(root),
        driver_version: gpu::driver_version(root),
        driver_open: gpu::driver_open(root),
        driver_registry: gpu::driver_registry(root),
        cuda: not_probed(),
        cufile: not_probed(),
        nvidia_fs: gpu::nvidia_fs(root),
        kernel_p2pdma: platform::kernel_p2pdma(root),
        iommu_groups: platform::iommu_groups(root),
        iommu_arguments: platform::iommu_arguments(root),
        acs_redirecting: platform::acs_redirecting(root),
    }
}

fn not_probed() -> LibraryFacts {
    LibraryFacts {
        version: Fact::unknown("not probed"),
        found_at: Fact::unknown("not probed"),
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
    fn a_whole_machine_survives_json() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let machine = machine(folder.path());
        let json = serde_json::to_string(&machine).expect("plain data");
        let back: Machine = serde_json::from_str(&json).expect("the same data");
        assert_eq!(back, machine);
    }

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
