//! NVIDIA's libcufile: the table of its peculiarities.

use std::ffi::{c_int, c_uint};
use std::path::Path;

use stormlp_core::evidence::Mechanism;

use super::properties::Properties;
use super::stats::{RawStatistics, RouteCounters, Routes};
use super::sys::{CUfileError_t, FnOf};
use super::version::LibraryVersion;

/// The library's files as the loader knows them, the runtime package's first.
pub(super) const FILES: [&str; 2] = ["libcufile.so.0", "libcufile.so"];

/// A numbered parameter of the library.
#[derive(Debug)]
pub(super) struct Parameter {
    pub(super) number: c_int,
    pub(super) name: &'static str,
    /// The first version that has it.
    pub(super) since: LibraryVersion,
}

/// The switches that affect the route and the speed.
pub(super) const FLAGS: [Parameter; 5] = [
    parameter(1, "allow_compat_mode"),
    Parameter { since: LibraryVersion::FALLBACK_IO, ..parameter(13, "gds_fallback_io") },
    parameter(2, "force_compat_mode"),
    parameter(7, "use_pci_p2pdma"),
    parameter(4, "parallel_io"),
];
/// The switches that each allow a fallback.
pub(super) const ALLOW_FALLBACK: [&str; 2] = ["allow_compat_mode", "gds_fallback_io"];
/// The numbers.
pub(super) const SIZES: [Parameter; 3] = [
    parameter(1, "max_io_queue_depth"),
    parameter(2, "max_io_threads"),
    parameter(9, "io_batchsize"),
];

/// A parameter that every version with parameters has.
const fn parameter(number: c_int, name: &'static str) -> Parameter {
    Parameter { number, name, since: LibraryVersion::OLDEST }
}

/// `CUfileDrvProps_t`: sizes are in KiB, flags are numbered bits.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct CUfileDrvProps_t {
    nvfs_major: c_uint,
    nvfs_minor: c_uint,
    poll_threshold_kib: usize,
    max_direct_io_kib: usize,
    status_flags: c_uint,
    control_flags: c_uint,
    feature_flags: c_uint,
    max_device_cache_kib: c_uint,
    per_buffer_cache_kib: c_uint,
    max_pinned_kib: c_uint,
    max_batch_io: c_uint,
    max_batch_io_timeout_ms: c_uint,
}

/// Asks for the driver's properties: they hold if the status is success.
///
/// # Safety
/// `get` must be libcufile's function, and its driver open.
pub(super) unsafe fn properties(get: FnOf) -> (CUfileError_t, Properties) {
    let mut raw = CUfileDrvProps_t::default();
    // SAFETY: `raw` is a place for the structure; the caller vouches for the function.
    let status = unsafe { get((&raw mut raw).cast()) };
    (status, to_text(&raw))
}

fn to_text(raw: &CUfileDrvProps_t) -> Properties {
    // The remaining ones are file systems, with routes that nvidia-fs does not count.
    const THROUGH_NVIDIA_FS: [&str; 5] = ["nvme", "nvmeof", "scsi", "scaleflux", "nvmesh"];
    let targets: Vec<_> = named_bits(raw.status_flags, &TARGETS).collect();
    let version = (raw.nvfs_major, raw.nvfs_minor);
    Properties {
        kernel_driver_version: (version != (0, 0)).then_some(version),
        has_direct_targets: raw.status_flags != 0,
        has_uncounted_targets: targets.iter().any(|name| !THROUGH_NVIDIA_FS.contains(name)),
        direct_targets: targets,
        features: named_bits(raw.feature_flags, &FEATURES).collect(),
        polls: raw.control_flags & 0b1 != 0,
        allows_fallback: raw.control_flags & 0b10 != 0,
        max_direct_io_bytes: (raw.max_direct_io_kib as u64) << 10,
        per_buffer_cache_bytes: u64::from(raw.per_buffer_cache_kib) << 10,
        max_registered_bytes: u64::from(raw.max_pinned_kib) << 10,
        max_batch_entries: raw.max_batch_io as usize,
    }
}

/// Names of the bits that are set.
pub(super) fn named_bits<N: Copy>(flags: u32, names: &[(i32, N)]) -> impl Iterator<Item = N> {
    names.iter().filter(move |(bit, _)| flags >> bit & 1 == 1).map(|(_, name)| *name)
}

/// Bits of the status flags, which are also the targets of route queries.
pub(super) const TARGETS: [(i32, &str); 13] = [
    (0, "lustre"),
    (1, "wekafs"),
    (2, "nfs"),
    (3, "gpfs"),
    (4, "nvme"),
    (5, "nvmeof"),
    (6, "scsi"),
    (7, "scaleflux"),
    (8, "nvmesh"),
    (9, "beegfs"),
    (12, "scatefs"),
    (13, "virtiofs"),
    (14, "panfs"),
];
/// The last one up to 1.18.
pub(super) const LAST_TARGET: i32 = 13;
/// Bits of the feature flags.
const FEATURES: [(i32, &str); 5] =
    [(0, "dynamic routing"), (1, "batch"), (2, "streams"), (3, "parallel io"), (4, "p2pdma")];
/// Bits of the routes to a target.
pub(super) const ROUTES: [(i32, (&str, Mechanism)); 5] = [
    (0, ("p2pdma", Mechanism::P2pdma)),
    (1, ("nvfs", Mechanism::NvidiaFs)),
    (2, ("dmabuf", Mechanism::Dmabuf)),
    (3, ("c2c", Mechanism::C2c)),
    (4, ("nvidia-peermem", Mechanism::NvidiaPeermem)),
];

/// Number of GPUs in level 3 of the statistics.
const MAX_GPUS: usize = 16;
/// Words per GPU in level 3.
const GPU_WORDS: usize = 31;
/// Words of the two histograms that level 2 adds to level 1.
const HISTOGRAM_WORDS: usize = 64;

/// Word offsets in level 1.
mod level_1 {
    pub(super) const READS: usize = 0;
    pub(super) const WRITES: usize = 2;
    pub(super) const BATCH_POSIX_ENQUEUED: usize = 34;
    pub(super) const BATCH_NVFS: usize = 40;
    pub(super) const BATCH_P2P: usize = 42;
    pub(super) const BATCH_AIO: usize = 44;
    pub(super) const BATCH_URING: usize = 46;
}

/// Word offsets in one GPU's part: reads first, writes 13 words later.
mod gpu {
    pub(super) const ALL_READS: usize = 6;
    pub(super) const P2P_READS: usize = 7;
    pub(super) const NVFS_READS: usize = 8;
    pub(super) const POSIX_READS: usize = 9;
    pub(super) const WRITES_AFTER_READS: usize = 13;
}

/// Level 3 counts for each GPU the transfers over PCI peer-to-peer DMA, through nvidia-fs and
/// through POSIX calls, and all; level 1 inside it counts all reads, writes and batch entries. The
/// structure grew with fields for vectored calls, in 1.19. Version 1.15 counts reads and writes of
/// host memory twice.
pub(super) fn statistics(raw: &RawStatistics, version: LibraryVersion) -> Option<RouteCounters> {
    let words = raw.words();
    let level_1_words = if version.counts_vectored() { 78 } else { 64 };
    let gpus_at = level_1_words + HISTOGRAM_WORDS;
    // A 32-bit count followed by four bytes of padding.
    let gpus = words[gpus_at] & u64::from(u32::MAX);
    if gpus > MAX_GPUS as u64 {
        return None;
    }
    let sum = |field: usize| -> u64 {
        (0..MAX_GPUS)
            .map(|index| gpus_at + 1 + index * GPU_WORDS + field)
            .map(|read| words[read].saturating_add(words[read + gpu::WRITES_AFTER_READS]))
            .fold(0, u64::saturating_add)
    };
    let direct =
        |p2pdma, nvidia_fs| [(Mechanism::P2pdma, p2pdma), (Mechanism::NvidiaFs, nvidia_fs)].into();
    // The documentation calls POSIX calls and Linux AIO compatibility mode, and does not say which
    // way io_uring moves entries.
    let of_host = if version.number() == 1150 { 2 } else { 1 };
    let (p2p, nvfs, posix) = (sum(gpu::P2P_READS), sum(gpu::NVFS_READS), sum(gpu::POSIX_READS));
    let batch_posix = [level_1::BATCH_POSIX_ENQUEUED, level_1::BATCH_AIO];
    Some(RouteCounters {
        reads: words[level_1::READS] / of_host,
        writes: words[level_1::WRITES] / of_host,
        transfers: Routes {
            direct: direct(p2p, nvfs),
            fallback: posix,
            unassigned: [p2p, nvfs, posix]
                .iter()
                .fold(sum(gpu::ALL_READS), |left, counted| left.saturating_sub(*counted)),
        },
        batches: Routes {
            direct: direct(words[level_1::BATCH_P2P], words[level_1::BATCH_NVFS]),
            fallback: batch_posix.iter().map(|word| words[*word]).fold(0, u64::saturating_add),
            unassigned: words[level_1::BATCH_URING],
        },
    })
}

/// Name and meaning of a code that `call` returned. Registering a file has codes with a special
/// meaning: if the library cannot determine the file system, 5030 up to 1.14, 5027 since.
pub(super) fn meaning(call: &str, code: c_int) -> Option<(&'static str, &'static str)> {
    let mut rows = CODES.lines().filter_map(|row| row.split_once(' '));
    let (_, row) = rows.find(|(of, _)| of.parse() == Ok(code))?;
    let (name, meaning) = row.split_once(' ')?;
    match (call, code) {
        (REGISTER, 5027 | 5030) => Some((name, "the file system was not recognised")),
        _ => Some((name, meaning)),
    }
}

/// The function that registers a file.
const REGISTER: &str = "cuFileHandleRegister";

/// The remedy for errors that only the log explains.
pub(super) const SEE_LOG: &str = "see cufile.log in the folder of the run";

/// The remedy for a failed call.
pub(super) fn remedy(call: &str, code: i32) -> &'static str {
    match code {
        -22 | 5002 if call == "cuFileDriverOpen" => {
            "check the syntax of cufile.json (CUFILE_ENV_PATH_JSON, else /etc/cufile.json)"
        }
        5027 | 5030 if call == REGISTER && Path::new("/run/udev/data").is_dir() => {
            "use a file system that libcufile takes, such as ext4 or xfs on a drive without LVM or a RAID \
             other than 0, or with libcufile 1.16 or newer tmpfs or overlay"
        }
        5027 | 5030 if call == REGISTER => {
            "in a container add `-v /run/udev:/run/udev:ro`; libcufile looks up the file system in \
             udev's data, and accepts local files on ext4 and xfs in every version, on tmpfs and \
             overlay from 1.16 on"
        }
        5001 | 5010 | 5033 | 5048 => {
            "load the nvidia-fs driver (`modprobe nvidia-fs`) or enable PCI P2PDMA (for local NVMe \
             drives properties.use_pci_p2pdma and block.nvme.use_pci_p2pdma in cufile.json); or let \
             cuFile use its POSIX compatibility mode, which --require gds, allow_compat_mode in \
             cufile.json or CUFILE_ALLOW_COMPAT_MODE forbids"
        }
        5007 | 5009 | 5029 => "check the GPU with `nvidia-smi` and `stormlp doctor`",
        5008 | 5018 | 5027 => {
            "use a file system that GPUDirect Storage supports (ext4 mounted data=ordered or xfs \
             on NVMe, with /run/udev readable)"
        }
        5011 => "check that the NVIDIA driver is loaded: `nvidia-smi`",
        5012..=5015 | 5047 => "this is a bug in stormlp unless cufile.log says otherwise",
        5019 | 5020 => "open the file with O_DIRECT",
        5025 => "check the permissions of the file and of /dev/nvidia-fs*",
        5036 | 5043 | -12 => {
            "use smaller --io-size, fewer --threads or --tune register=no: pinned GPU memory (BAR1) or \
             host memory is used up"
        }
        5037 => "use a lower --queue-depth",
        -5 if call.ends_with("Async") => {
            "use a lower --queue-depth or fewer --threads: a full queue of stream transfers \
             (execution.max_io_queue_depth in cufile.json) fails like this, too; else see \
             cufile.log in the folder of the run"
        }
        5038 => "set execution.parallel_io in cufile.json, or use --path gds",
        5049 => "the batch interface has no direct route here; allow compatibility mode",
        _ => SEE_LOG,
    }
}

/// cuFile's codes: number, name without `CU_FILE_`, meaning.
const CODES: &str = "\
0 SUCCESS no error
5001 DRIVER_NOT_INITIALIZED the nvidia-fs driver is not loaded
5002 DRIVER_INVALID_PROPS a property is invalid, or cufile.json is malformed
5003 DRIVER_UNSUPPORTED_LIMIT a property is out of its range
5004 DRIVER_VERSION_MISMATCH nvidia-fs and libcufile do not fit each other
5005 DRIVER_VERSION_READ_ERROR the version of nvidia-fs cannot be read
5006 DRIVER_CLOSING the driver is being closed
5007 PLATFORM_NOT_SUPPORTED no GPUDirect Storage on this platform
5008 IO_NOT_SUPPORTED no GPUDirect Storage on this file
5009 DEVICE_NOT_SUPPORTED no GPUDirect Storage on this GPU
5010 NVFS_DRIVER_ERROR a request to nvidia-fs failed
5011 CUDA_DRIVER_ERROR a call to the CUDA driver failed
5012 CUDA_POINTER_INVALID not a device pointer
5013 CUDA_MEMORY_TYPE_INVALID not a memory type that cuFile accepts
5014 CUDA_POINTER_RANGE_ERROR the range exceeds the allocation
5015 CUDA_CONTEXT_MISMATCH another CUDA context is current
5016 INVALID_MAPPING_SIZE beyond the largest pinned size
5017 INVALID_MAPPING_RANGE beyond the mapped size
5018 INVALID_FILE_TYPE not a file of a supported type
5019 INVALID_FILE_OPEN_FLAG the file was opened with flags cuFile refuses
5020 DIO_NOT_SET the file was not opened with O_DIRECT
5022 INVALID_VALUE an argument is invalid
5023 MEMORY_ALREADY_REGISTERED the memory is registered already
5024 MEMORY_NOT_REGISTERED the memory is not registered
5025 PERMISSION_DENIED no permission for the driver or the file
5026 DRIVER_ALREADY_OPEN the driver is open already
5027 HANDLE_NOT_REGISTERED the file could not be registered, or is not
5028 HANDLE_ALREADY_REGISTERED the file is registered already
5029 DEVICE_NOT_FOUND the GPU was not found
5030 INTERNAL_ERROR an internal error of libcufile
5031 GETNEWFD_FAILED no new file descriptor could be created
5033 NVFS_SETUP_ERROR nvidia-fs or the CUDA driver could not be set up
5034 IO_DISABLED the configuration disables GPUDirect Storage on this file
5035 BATCH_SUBMIT_FAILED the batch could not be submitted
5036 GPU_MEMORY_PINNING_FAILED GPU memory could not be pinned
5037 BATCH_FULL the batch's queue is full
5038 ASYNC_NOT_SUPPORTED stream operations are not supported here
5039 INTERNAL_BATCH_SETUP_ERROR setting up a batch failed
5040 INTERNAL_BATCH_SUBMIT_ERROR submitting a batch failed
5041 INTERNAL_BATCH_GETSTATUS_ERROR asking for a batch's status failed
5042 INTERNAL_BATCH_CANCEL_ERROR cancelling a batch failed
5043 NOMEM_ERROR out of memory
5044 IO_ERROR the transfer failed
5045 INTERNAL_BUF_REGISTER_ERROR registering the buffer failed
5046 HASH_OPR_ERROR an internal table of libcufile failed
5047 INVALID_CONTEXT_ERROR the CUDA context is invalid
5048 NVFS_INTERNAL_DRIVER_ERROR nvidia-fs failed internally
5049 BATCH_NOCOMPAT_ERROR the batch needs compatibility mode, which is off";

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes as the C compiler lays out the headers of 1.11 to 1.20 on x86-64 and aarch64.
    #[test]
    fn the_layout_matches_the_header() {
        assert_eq!(size_of::<CUfileDrvProps_t>(), 56);
    }

    #[test]
    fn properties_are_described_in_words() {
        let raw = CUfileDrvProps_t {
            nvfs_major: 2,
            nvfs_minor: 24,
            status_flags: 1 << 4 | 1 << 12,
            control_flags: 2,
            feature_flags: 0b1_0010,
            max_direct_io_kib: 16384,
            ..Default::default()
        };
        let properties = to_text(&raw);
        assert!(properties.allows_fallback);
        assert!(properties.has_uncounted_targets, "scatefs");
        assert_eq!(
            properties.describe(),
            [
                "nvidia-fs 2.24",
                "direct targets: nvme, scatefs",
                "features: batch, p2pdma",
                "max_direct_io_size 16384 KiB"
            ]
        );
        let none = to_text(&CUfileDrvProps_t::default());
        assert!(!none.has_uncounted_targets && !none.has_direct_targets);
        assert_eq!(none.describe()[0], "nvidia-fs not loaded");
        assert_eq!(none.describe()[1], "direct targets: none");
    }

    #[test]
    fn the_parameters_with_a_meaning_are_in_the_table() {
        let is_flag = |name: &str| FLAGS.iter().any(|flag| flag.name == name);
        assert!(ALLOW_FALLBACK.iter().all(|name| is_flag(name)) && is_flag("use_pci_p2pdma"));
        assert!(SIZES.iter().any(|size| size.name == "max_io_queue_depth"));
    }

    fn counters(version: LibraryVersion, gpus: u64) -> Option<RouteCounters> {
        let level_1_words = if version.counts_vectored() { 78 } else { 64 };
        let mut raw = RawStatistics::new();
        let words = raw.words_mut();
        (words[0], words[2]) = (5, 3);
        (words[44], words[46]) = (8, 5);
        let gpus_at = level_1_words + 64;
        words[gpus_at] = 0xdead_beef_0000_0000 | gpus;
        let numbers = [(0, 7, 1), (1, 6, 60), (1, 8, 2), (1, 9, 3), (1, 20, 10), (15, 22, 40)];
        for (gpu, word, value) in numbers {
            words[gpus_at + 1 + gpu * 31 + word] = value;
        }
        statistics(&raw, version)
    }

    #[test]
    fn an_impossible_layout_is_rejected() {
        assert_eq!(counters(LibraryVersion::from_number(1190), 17), None);
    }

    #[test]
    fn counters_are_read_from_either_layout() {
        for number in [1150, 1190] {
            let counters = counters(LibraryVersion::from_number(number), 2).unwrap();
            let of_host = if number == 1150 { (2, 1) } else { (5, 3) };
            assert_eq!((counters.reads, counters.writes), of_host);
            let direct = [(Mechanism::P2pdma, 11), (Mechanism::NvidiaFs, 2)].into();
            let transfers = Routes { direct, fallback: 43, unassigned: 4 };
            assert_eq!(counters.transfers, transfers);
            assert_eq!((counters.batches.fallback, counters.batches.unassigned), (8, 5));
        }
    }
}
