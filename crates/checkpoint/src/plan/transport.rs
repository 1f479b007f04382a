//! How saves and restores move bytes: threads, buffers and transfer size.

use super::choice::FsyncPolicy;
use super::request::CheckpointRequest;
use crate::plan::checkpoint_plan::CheckpointPlan;
use stormlp_core::capacity::{check_memory, check_open_files};
use stormlp_core::facts::HostFacts;
use stormlp_core::failure::Problems;
use stormlp_core::gpu_limits::{self, FlightOptions};
use stormlp_core::path::{EngineKind, PathKind};
use stormlp_core::transport;
use stormlp_core::transport::{EngineChoice, Transport, TransportRequest};
use stormlp_core::units::MIB;
use stormlp_core::warning::Warning;

/// Maximum number of transfers in flight over all ranks: 256 MiB with the largest default chunk.
const MOST_IN_FLIGHT: usize = 64;
/// Maximum number of threads that move bytes.
const MOST_THREADS: usize = 16;
/// The largest blocking cuFile call.
const LARGEST_CALL_BYTES: u64 = 16 * MIB;
/// File descriptors per rank: one for the path, one for syncing.
const FILES_PER_RANK: u64 = 2;
/// File descriptors for everything else.
const OTHER_FILES: u64 = 96;
/// Memory per rank in addition to the buffers, in bytes: its state and its list of files.
const RANK_BYTES: u64 = 64 << 10;

/// The figures that decide the transfers in flight of a rank.
const FLIGHT: FlightOptions = FlightOptions {
    fewer: "use a smaller --queue-depth",
    shallower: "use a smaller --queue-depth",
    smaller: "use a smaller --io-size, a smaller --queue-depth, or more GPUs (--device)",
};

/// Maximum number of ranks that this host has file descriptors for.
pub(super) fn most_ranks(host: &HostFacts) -> u64 {
    host.open_files_limit.saturating_sub(OTHER_FILES).max(FILES_PER_RANK) / FILES_PER_RANK
}

/// Default transfer size in bytes. Through the page cache the CPU copies, and a chunk that stays in
/// its cache is cheapest. With direct I/O, larger chunks need fewer calls.
pub(super) fn default_chunk_bytes(path: PathKind) -> u64 {
    match path {
        PathKind::S3 => OBJECT_PART_BYTES,
        path if path.uses_page_cache() => MIB,
        _ => 4 * MIB,
    }
}

/// An object is uploaded in parts of this size.
pub(super) const OBJECT_PART_BYTES: u64 = 16 * MIB;

/// Decides how `ranks` ranks save and restore.
pub(super) fn decide(
    request: &CheckpointRequest,
    host: &HostFacts,
    ranks: u64,
    problems: &mut Problems,
) -> ((Transport, Transport), Option<Warning>) {
    let path = request.path;
    let asked = TransportRequest {
        path,
        engine: request.engine,
        devices: request.device.as_ref(),
        shares: ranks,
        require_gds: request.require.is_some(),
        wait: request.tune.machine.wait,
        threading: &request.tune.machine.threading,
    };
    let bare = transport::decide(asked, host, problems);
    let cpus = bare.placement.cpu_count(host);
    // Through the page cache the CPU copies every write, whichever engine submits it, and a ring
    // would hand it to a kernel thread first. So `auto` picks plain system calls there.
    let copies = request.engine == EngineChoice::Auto && path.uses_page_cache();
    let engine_of_saves = if copies { EngineKind::Psync } else { bare.engine };
    let mut limited = None;
    let mut transport = |engine: EngineKind, streams: u32| {
        let ranks = ranks.max(1) as usize;
        let window = streams as usize;
        let wanted = ranks.saturating_mul(window);
        let blocks = transport::blocks(path, engine) && path != PathKind::S3;
        let threads = match path {
            // A thread has a connection for each transfer in flight.
            PathKind::S3 => ranks.min(MOST_THREADS),
            // As many for each device.
            _ => threads(blocks, path, cpus, wanted).next_multiple_of(bare.device_count()),
        };
        let most = match path {
            PathKind::S3 if request.queue_depth.is_none() => MOST_THREADS,
            _ => MOST_IN_FLIGHT,
        };
        let depth = if blocks { window } else { wanted.min(most).div_ceil(threads) };
        let (queue_depth, warning) = transport::depth_in_cufile(path, threads, depth, host);
        limited = limited.take().or(warning);
        let usual = match path {
            PathKind::Gds => call_bytes(wanted, threads.min(ranks)),
            _ => default_chunk_bytes(path),
        };
        let chunk_bytes = request.io_size.unwrap_or(usual);
        Transport {
            engine,
            threads,
            queue_depth: queue_depth.max(1),
            chunk_bytes,
            window,
            pages: request.tune.machine.pages,
            // Each rank has one open file.
            streams: ranks.div_ceil(threads),
            ..bare.clone()
        }
    };
    let usual = if path == PathKind::S3 { usual_parts(ranks) } else { 1 };
    let read_streams =
        request.queue_depth.unwrap_or_else(|| request.edition().read_streams().max(usual));
    let save = transport(engine_of_saves, request.queue_depth.unwrap_or(usual));
    let restore = transport(bare.engine, read_streams);
    for transport in [&save, &restore] {
        gpu_limits::check(transport, FLIGHT, host, problems);
    }
    ((save, restore), limited)
}

/// Parts in flight of each of `ranks` ranks: connections that together keep an endpoint busy, each of
/// which needs the memory of a part.
fn usual_parts(ranks: u64) -> u32 {
    (MOST_THREADS as u64 / ranks.max(1)).max(1) as u32
}

/// Bytes of a blocking cuFile call. A rank's thread makes one at a time, for all streams of all ranks
/// it serves: so `threads` have as much in flight as the other paths with the `wanted` transfers.
fn call_bytes(wanted: usize, threads: usize) -> u64 {
    let default = default_chunk_bytes(PathKind::Gds);
    let in_flight = wanted.min(MOST_IN_FLIGHT) as u64 * default;
    (in_flight / threads.max(1) as u64 / MIB * MIB).clamp(default, LARGEST_CALL_BYTES)
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

/// Problems that prevent the plan from moving bytes on this host.
pub(super) fn problems(plan: &CheckpointPlan, host: &HostFacts, problems: &mut Problems) {
    let ranks = plan.scaling.ranks;
    // Files that are synced together stay open until then.
    let held = match plan.fsync {
        FsyncPolicy::PerCheckpoint => plan.ranks.iter().map(|rank| rank.files.len()).max(),
        FsyncPolicy::PerFile | FsyncPolicy::None => None,
    };
    let files = ranks * (FILES_PER_RANK + held.unwrap_or(0) as u64) + OTHER_FILES;
    let who = format!("{ranks} ranks");
    let fewer = (!plan.request.closed).then_some("fewer --ranks");
    check_open_files(&who, files, fewer, host, problems);
    let memory = plan.buffer_bytes + ranks * RANK_BYTES;
    let remedy = match plan.request.closed {
        true => "use a host with more memory, or raise its memory limit",
        false => "use a smaller --io-size, a smaller --queue-depth or fewer --ranks",
    };
    check_memory(&who, memory, remedy, host, problems);
}

#[cfg(test)]
mod tests {
    use super::*;
    use stormlp_core::facts::CuFileLimits;
    use stormlp_core::path::buffers_needed;

    use crate::plan::builtin;
    use std::path::PathBuf;

    fn decided(path: PathKind, ranks: u64, streams: u32) -> (Transport, Option<Warning>) {
        let workload = builtin::load("llama3-8b").unwrap();
        let mut request = CheckpointRequest::plain(workload, PathBuf::from("folder").into());
        (request.path, request.queue_depth) = (path, Some(streams));
        let host = HostFacts {
            cpus: 16,
            cufile_limits: Some(CuFileLimits::defaults(true)),
            ..stormlp_fixtures::host()
        };
        let mut problems = Problems::default();
        let ((save, _), limited) = decide(&request, &host, ranks, &mut problems);
        (save, limited)
    }

    #[test]
    fn every_path_to_the_gpu_has_the_same_bytes_in_flight() {
        const OTHERS: [PathKind; 4] =
            [PathKind::CpuGpu, PathKind::CpuAsyncGpu, PathKind::GdsAsync, PathKind::GdsBatch];
        for (ranks, streams) in [(1, 1), (8, 1), (8, 4), (16, 1), (32, 1), (64, 1), (64, 4)] {
            let blocking = decided(PathKind::Gds, ranks, streams).0;
            // A rank's thread has one call at a time.
            let busy = blocking.threads.min(ranks as usize) as u64;
            for path in OTHERS {
                let (other, limited) = decided(path, ranks, streams);
                assert_eq!(limited, None);
                let (_, buffers) = buffers_needed(path, other.queue_depth);
                let most = (ranks * u64::from(streams)).min(MOST_IN_FLIGHT as u64);
                let in_flight = (other.threads * buffers).min(most as usize) as u64;
                assert_eq!(
                    busy * blocking.chunk_bytes,
                    in_flight * other.chunk_bytes,
                    "{path}, {ranks} ranks, {streams} streams"
                );
            }
        }
    }
}
