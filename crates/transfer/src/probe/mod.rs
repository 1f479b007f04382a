//! Facts about this machine, gathered from `/proc`, `/sys` and a few harmless system calls.
//!
//! No probe hangs or panics: a missing file makes a fact unknown, with the reason.

mod block;
pub(crate) mod cgroup;
mod cpu;
mod device;
pub(crate) mod direct;
pub(crate) mod gpu;
mod libraries;
mod memory;
mod mounts;
pub(crate) mod platform;
pub(crate) mod root;
mod storage;
mod system;
#[cfg(test)]
pub(crate) mod testing;
mod uring;

use std::path::Path;
use std::time::Duration;

use stormlp_core::facts::{Availability, HostFacts, StorageOfRun};
use stormlp_core::location::names_object;
use stormlp_core::machine::FORMAT_VERSION;
use stormlp_core::machine::{
    BuildFacts, DeviceContent, DirectSupport, Fact, Filesystem, GpuFacts, Machine,
};

use self::root::Root;
use crate::cufile::probe::CuFileProbe;

pub use system::system_facts;

/// The facts that plans and reports need, without opening any GPU library: the cuFile paths are
/// reported as unavailable. This needs a few milliseconds.
pub fn host_facts() -> HostFacts {
    gather(&Root::system(), None)
}

/// The same with the GPU libraries, which a child of `executable` opens and tests in `directory`.
///
/// `executable` is this program: it must dispatch [`crate::cufile::probe::ARGUMENT`]. This needs
/// some tens of milliseconds if there are libraries, and [`crate::cufile::probe::TIME_LIMIT`] at
/// most; `goes_on` receives the elapsed time, and `false` ends it.
pub fn host_facts_with_libraries(
    executable: &Path,
    directory: Option<&Path>,
    goes_on: &dyn Fn(Duration) -> bool,
) -> HostFacts {
    gather(&Root::system(), Some(&libraries::ask(executable, directory, goes_on)))
}

/// Whether the kernel allows this process to use io_uring, and the cause if not.
pub fn io_uring() -> Availability {
    uring::availability(&Root::system())
}

fn gather(root: &Root, asked: Option<&CuFileProbe>) -> HostFacts {
    let unasked = CuFileProbe::unavailable("cuFile was not probed", "run `stormlp doctor`");
    let probe = asked.unwrap_or(&unasked);
    let uname = rustix::system::uname();
    let memory_bytes = memory::total_bytes(root);
    let no_gpu = asked.and_then(|_| gpu::no_device(root));
    HostFacts {
        hostname: uname.nodename().to_string_lossy().into_owned(),
        kernel: uname.release().to_string_lossy().into_owned(),
        cpu_model: cpu::model(root).unwrap_or("unknown".to_string()),
        cpus: cpu::allowed(),
        memory_bytes,
        memory_limit_bytes: memory::limit_bytes(root).filter(|&l| l < memory_bytes),
        group_limits: cgroup::limits(root).into_iter().map(|limit| limit.name).collect(),
        locked_memory_limit_bytes: memory::locked_limit_bytes(),
        open_files_limit: memory::open_files_limit(),
        io_uring: uring::availability(root),
        tokio_uring: crate::engine::has_tokio_uring(),
        cuda_connections: crate::cuda::connections(),
        cufile_buffer_bytes: probe.per_buffer_cache_bytes.filter(|bytes| *bytes > 0),
        cufile_limits: probe.limits.clone(),
        cufile_statistics: libraries::cufile_statistics(probe),
        numa_nodes: cpu::host_nodes(root),
        paths: libraries::paths(probe, no_gpu.as_deref()),
        cuda_problem: asked.and_then(libraries::cuda_problem),
        cuda_visible_devices: std::env::var("CUDA_VISIBLE_DEVICES").ok(),
        environment: ["LD_PRELOAD", "LD_AUDIT", "GLIBC_TUNABLES", "MALLOC_CONF"]
            .iter()
            .filter_map(|name| Some(format!("{name}={}", std::env::var(name).ok()?)))
            .collect(),
        hidden_gpus: asked.and_then(|probe| libraries::hidden_gpus(probe, &gpu::devices(root))),
        accelerators: probe.cuda.devices.clone(),
        storage: Vec::new(),
        stormlp_version: env!("CARGO_PKG_VERSION").to_string(),
        release_build: !cfg!(debug_assertions),
    }
}

/// Memory available to this process: the limit of its control group or address space if there is
/// one, otherwise all of the machine's.
pub fn usable_memory_bytes() -> u64 {
    let root = Root::system();
    let all = memory::total_bytes(&root);
    memory::limit_bytes(&root).map_or(all, |limit| limit.min(all))
}

/// All facts about this machine and the storage behind `directory`; `executable` and `goes_on` as
/// in [`host_facts_with_libraries`].
pub fn machine(executable: &Path, directory: &Path, goes_on: &dyn Fn(Duration) -> bool) -> Machine {
    let root = Root::system();
    let probe = libraries::ask(executable, Some(directory), goes_on);
    let host = HostFacts { storage: storage_of_run([directory]), ..gather(&root, Some(&probe)) };
    let mut machine = Machine {
        format_version: FORMAT_VERSION,
        host,
        build: build(),
        processors: cpu::facts(&root),
        memory: memory::facts(&root),
        gpu: gpu_facts(&root, probe),
        storage: storage::facts(&root, directory),
        warnings: Vec::new(),
    };
    machine.warnings = machine.advice();
    machine
}

/// How this program was built. A static build has no dynamic loader, so it cannot open libraries.
pub fn build() -> BuildFacts {
    let library = if cfg!(target_env = "musl") { "musl" } else { "gnu" };
    BuildFacts {
        target: format!("{} {library}", std::env::consts::ARCH),
        statically_linked: cfg!(target_feature = "crt-static"),
    }
}

fn gpu_facts(root: &Root, probe: CuFileProbe) -> GpuFacts {
    GpuFacts {
        devices: gpu::devices(root),
        driver_version: gpu::driver_version(root),
        driver_open: gpu::driver_open(root),
        driver_registry: gpu::driver_registry(root),
        cuda: libraries::cuda_library(&probe),
        cufile: libraries::cufile_library(&probe),
        cufile_says: probe.says,
        cufile_candidates: probe.candidates,
        nvidia_fs: gpu::nvidia_fs(root),
        kernel_p2pdma: platform::kernel_p2pdma(root),
        iommu_groups: platform::iommu_groups(root),
        acs_redirecting: platform::acs_redirecting(root),
    }
}

/// Whether `O_DIRECT` works in a folder (tested with a write to an unnamed file), or on a file or
/// block device (tested with a read).
pub fn direct_io(path: &Path) -> Fact<DirectSupport> {
    direct::probe(path)
}

/// The metadata of `path`; a file system that does not respond is an error after a few seconds.
///
/// # Errors
/// When it does not exist or cannot be read.
pub fn metadata(path: &Path) -> std::io::Result<std::fs::Metadata> {
    storage::metadata(path)
}

/// The file system behind `directory`, or behind its nearest existing parent.
pub fn filesystem(directory: &Path) -> Fact<Filesystem> {
    storage::filesystem(&Root::system(), directory)
}

/// Whether the block device at `path` is read-only in the kernel, although it may be opened for
/// writing.
pub fn device_is_read_only(path: &Path) -> bool {
    device::is_read_only(&Root::system(), path)
}

/// Opens the block device at `path` exclusively until this process ends, and finds its contents:
/// before it is overwritten.
pub fn device_content(path: &Path) -> DeviceContent {
    storage::device_content(&Root::system(), path)
}

/// The storage behind the folders, files and devices of a run, without duplicates. Storage behind
/// objects is unknown here.
pub fn storage_of_run<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Vec<StorageOfRun> {
    let mut found: Vec<StorageOfRun> = Vec::new();
    for path in paths.into_iter().filter(|path| !names_object(path)) {
        let one = storage::of_run(&Root::system(), path);
        let alike = found.iter_mut().find(|known| {
            let of = |one: &StorageOfRun| {
                let StorageOfRun { file_system, mount_options, devices, .. } = one.clone();
                (file_system, mount_options, devices)
            };
            of(known) == of(&one)
        });
        match alike {
            Some(known) if known.paths.iter().any(|known| known == path) => {}
            Some(known) => known.paths.push(path.to_path_buf()),
            None => found.push(one),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use stormlp_core::path::PathKind;

    use super::*;

    #[test]
    fn no_local_storage_is_behind_objects() {
        assert!(storage_of_run([Path::new("s3://bucket/prefix")]).is_empty());
    }

    #[test]
    fn a_whole_machine_survives_json() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let machine = machine(Path::new("/does/not/exist"), folder.path(), &|_| true);
        let json = serde_json::to_string(&machine).expect("plain data");
        let back: Machine = serde_json::from_str(&json).expect("the same data");
        assert_eq!(back, machine);
    }

    #[test]
    fn folders_on_the_same_storage_are_reported_once() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        let found = storage_of_run([one.as_path(), other.as_path(), one.as_path()]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].paths, [one, other]);
        assert!(found[0].file_system.is_some());
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
