//! How saves and restores move bytes: threads, buffers and transfer size.

use super::choice::FsyncPolicy;
use super::request::CheckpointRequest;
use crate::plan::checkpoint_plan::CheckpointPlan;
use stormlp_core::facts::HostFacts;
use stormlp_core::failure::Problems;
use stormlp_core::gpu_limits::{self, FlightOptions};
use stormlp_core::path::{EngineKind, PathKind};
use stormlp_core::transport;
use stormlp_core::transport::{Asked, EngineChoice, Transport};
use stormlp_core::units::{ByteSize, MIB};

/// The most transfers in flight over all ranks: 256 MiB with the largest default chunk.
const MOST_IN_FLIGHT: usize = 64;
/// The most threads that move bytes.
const MOST_THREADS: usize = 16;
/// The largest blocking cuFile call.
const LARGEST_CALL_BYTES: u64 = 16 * MIB;
/// File descriptors per rank: one for the path, one for syncing beside it.
const FILES_PER_RANK: u64 = 2;
/// File descriptors for everything else.
const OTHER_FILES: u64 = 96;
/// Memory per rank besides the buffers, in bytes: its state and its list of files.
const RANK_BYTES: u64 = 64 << 10;

/// What decides how much a rank has in flight.
const FLIGHT: FlightOptions = FlightOptions {
    fewer: "use fewer --streams",
    smaller: "use a smaller --chunk-size, fewer --streams, or more GPUs (--device)",
};

/// The most ranks that this host has file descriptors for.
pub(super) fn most_ranks(host: &HostFacts) -> u64 {
    host.open_files_limit.saturating_sub(OTHER_FILES).max(FILES_PER_RANK) / FILES_PER_RANK
}

/// Default transfer size in bytes. Through the page cache the CPU copies, and a chunk that stays in
/// its cache is cheapest. With direct I/O, larger chunks need fewer calls.
pub(super) fn default_chunk_bytes(path: PathKind) -> u64 {
    if path.uses_page_cache() { MIB } else { 4 * MIB }
}

/// Transfer size of v2.0's client, which writes tensors of up to 68 MB in one call each.
const TENSOR_BYTES: u64 = 64 * MIB;

/// Decides how `ranks` ranks save and restore.
pub(super) fn decide(
    request: &CheckpointRequest,
    host: &HostFacts,
    ranks: u64,
    problems: &mut Problems,
) -> (Transport, Transport) {
    let path = request.path;
    let asked = Asked {
        path,
        engine: request.engine,
        devices: request.device.as_ref(),
        shares: ranks,
        require_gds: request.require_gds,
        threading: &request.threading,
    };
    let bare = transport::decide(asked, host, problems);
    let cpus = bare.placement.cpu_count(host);
    // Through the page cache the CPU copies every write, whichever engine submits it, and a ring
    // would hand it to a kernel thread first. So `auto` picks plain system calls there.
    let copies = request.engine == EngineChoice::Auto && path.uses_page_cache();
    let engine_of_saves = if copies { EngineKind::Psync } else { bare.engine };
    let of_tensors = request.saves_as_v2() && path.uses_page_cache();
    let transport = |engine: EngineKind, streams: u32, is_save: bool| {
        let ranks = ranks.max(1) as usize;
        let window = streams as usize;
        let wanted = ranks.saturating_mul(window);
        let blocks = transport::blocks(path, engine);
        // As many for each device.
        let threads = threads(blocks, path, cpus, wanted).next_multiple_of(bare.device_count());
        let depth = if blocks { window } else { wanted.min(MOST_IN_FLIGHT).div_ceil(threads) };
        let queue_depth =
            depth.min(transport::most_in_cufile(path, threads, host).unwrap_or(usize::MAX));
        // A rank's thread makes one blocking call at a time, for all streams of the rank.
        let calls = if path == PathKind::Gds { u64::from(streams) } else { 1 };
        let usual = (default_chunk_bytes(path) * calls).min(LARGEST_CALL_BYTES);
        let usual = if of_tensors && is_save && blocks { TENSOR_BYTES } else { usual };
        let chunk_bytes = request.chunk_bytes.unwrap_or(usual);
        Transport {
            engine,
            threads,
            queue_depth: queue_depth.max(1),
            chunk_bytes,
            window,
            pages: request.pages,
            // Each rank has one open file.
            streams: ranks.div_ceil(threads),
            ..bare.clone()
        }
    };
    let read_streams = request.streams.unwrap_or_else(|| request.profile().read_streams());
    let save = transport(engine_of_saves, request.streams.unwrap_or(1), true);
    let restore = transport(bare.engine, read_streams, false);
    for transport in [&save, &restore] {
        gpu_limits::check(transport, FLIGHT, host, problems);
    }
    (save, restore)
}

/// Thread count: enough to keep every CPU copying if the CPU copies or waits, and one or two if the
/// kernel queues.
fn threads(blocks: bool, path: PathKind, cpus: usize, wanted: usize) -> usize {
    let cpus = cpus.max(1);
    let most = match path.uses_page_cache() {
        true => cpus,
        false if blocks => MOST_THREADS,
        false => cpus.div_ceil(2),
    };
    wanted.clamp(1, most.min(MOST_THREADS))
}

/// What prevents the plan from moving bytes on this host.
pub(super) fn problems(plan: &CheckpointPlan, host: &HostFacts, problems: &mut Problems) {
    let ranks = plan.scaling.ranks;
    // Files that are synced together stay open until then.
    let held = match plan.fsync {
        FsyncPolicy::PerCheckpoint => plan.ranks.iter().map(|rank| rank.files.len()).max(),
        FsyncPolicy::PerFile | FsyncPolicy::None => None,
    };
    let files = ranks * (FILES_PER_RANK + held.unwrap_or(0) as u64) + OTHER_FILES;
    if files > host.open_files_limit {
        problems.capacity(
            format!(
                "{ranks} ranks need {files} open files; this process may have {}",
                host.open_files_limit
            ),
            if plan.request.closed {
                format!("raise the limit with `ulimit -n {files}`")
            } else {
                format!("raise the limit with `ulimit -n {files}`, or use fewer --ranks")
            },
        );
    }
    let memory = plan.buffer_bytes + ranks * RANK_BYTES;
    if memory > host.usable_memory_bytes() {
        problems.capacity(
            format!(
                "buffers and {ranks} ranks need {} of memory; there is {}",
                ByteSize(memory),
                ByteSize(host.usable_memory_bytes())
            ),
            if plan.request.closed {
                "use a host with more memory, or raise its memory limit"
            } else {
                "use a smaller --chunk-size, fewer --streams or fewer --ranks"
            },
        );
    }
}
