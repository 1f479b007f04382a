//! The threads of a run: the I/O threads with their buffers, and the pacer.

use std::fmt;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use stormlp_model::evidence::Evidence;
use stormlp_model::histogram::LatencyHistogram;
use stormlp_model::path::{EngineKind, MemoryKind, PathKind};
use stormlp_transfer::paths::BuildPath;
use stormlp_transfer::thread::allowed_cpus;
use stormlp_transfer::{
    Accelerator, Backing, PathBuffers, PathSpec, Region, TransferError, buffers_needed, build_path,
    limits,
};

use super::error::TrainError;
use super::handles::Handles;
use super::io::{self, IoRules, IoTally};
use super::machine::{Loader, Machine};
use super::pacer;
use super::shared::Shared;

/// A buffer that stays in a core's cache makes reads from the page cache a third cheaper than
/// one that does not, and is as large as the kernel's readahead.
const CACHED_CHUNK_BYTES: usize = 256 << 10;
/// Direct reads want few, large requests.
const DIRECT_CHUNK_BYTES: usize = 1 << 20;
/// Chunks of one file in flight under direct I/O: a reader's one large `readv` is many requests
/// to the device, too.
const DIRECT_WINDOW: usize = 4;
/// All buffers of a run together.
const POOL_BYTES: usize = 256 << 20;
/// Blocking paths need a thread for each read in flight, up to this many.
const BLOCKING_THREADS: usize = 64;

/// What the threads are to be set up for.
pub struct CrewSpec {
    /// The path bytes take.
    pub path: PathKind,
    /// The engine under it, for the paths the CPU drives.
    pub engine: EngineKind,
    /// Where bytes end, for the paths that end in accelerator memory.
    pub accelerator: Arc<dyn Accelerator>,
    /// What kind of its memory.
    pub memory: MemoryKind,
    /// Reads that all loaders together may have in flight.
    pub concurrent_reads: usize,
    /// Streams that all loaders together may hold open; 0 when files are read whole.
    pub streams: usize,
    /// I/O threads; `None` takes as many as the path and the CPUs want.
    pub threads: Option<usize>,
}

/// How the threads were laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// I/O threads.
    pub threads: usize,
    /// Chunks in flight for each thread.
    pub depth: usize,
    /// Chunks in flight for each read.
    pub window: usize,
    /// Bytes of a chunk.
    pub chunk_bytes: usize,
}

impl Layout {
    /// Decides the layout for a path on `cpus` CPUs.
    pub fn of(spec: &CrewSpec, cpus: usize) -> Self {
        let reads = spec.concurrent_reads.max(1);
        let blocking = spec.path.needs_cufile()
            || (spec.engine == EngineKind::Psync && spec.path != PathKind::Null);
        let direct = spec.path.wants_direct();
        let chunk_bytes = if direct {
            DIRECT_CHUNK_BYTES
        } else {
            CACHED_CHUNK_BYTES
        };
        if blocking {
            return Self {
                threads: spec.threads.unwrap_or_else(|| reads.min(BLOCKING_THREADS)),
                depth: 1,
                window: 1,
                chunk_bytes,
            };
        }
        let threads = spec
            .threads
            .unwrap_or_else(|| reads.min(cpus.max(1)))
            .max(1);
        let window = if direct { DIRECT_WINDOW } else { 1 };
        let (host, accelerator) = buffers_needed(spec.path, 1);
        let slot_bytes = chunk_bytes * (host + accelerator).max(1);
        let most = (POOL_BYTES / slot_bytes / threads).max(2);
        Self {
            threads,
            depth: (reads * window).div_ceil(threads).clamp(2, most),
            window,
            chunk_bytes,
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} I/O threads, up to {} chunks of {} KiB in flight in each, and one for compute",
            self.threads,
            self.depth,
            self.chunk_bytes >> 10
        )
    }
}

/// The running threads.
pub(super) struct Crew {
    pub(super) shared: Arc<Shared>,
    pub(super) layout: Layout,
    pub(super) backing: Backing,
    handles: Arc<Handles>,
    io: Vec<JoinHandle<IoTally>>,
    pacer: JoinHandle<()>,
}

/// What all I/O threads saw together.
#[derive(Debug, Clone)]
pub(super) struct CrewTally {
    pub(super) evidence: Option<Evidence>,
    pub(super) bytes: u64,
    pub(super) reads: u64,
    pub(super) latency: LatencyHistogram,
}

impl Crew {
    /// Starts everything around a machine with these loaders.
    pub(super) fn start(
        spec: &CrewSpec,
        loaders: Vec<Loader>,
        keep_times: bool,
    ) -> Result<Self, TrainError> {
        Self::start_over(spec, loaders, keep_times, build_path)
    }

    /// [`Self::start`] over paths that `build_path` makes.
    pub(super) fn start_over(
        spec: &CrewSpec,
        loaders: Vec<Loader>,
        keep_times: bool,
        build_path: BuildPath,
    ) -> Result<Self, TrainError> {
        let cpus = allowed_cpus().map_or(1, |cpus| cpus.len());
        let layout = Layout::of(spec, cpus);
        let open_files = limits::raise_open_files() as usize;
        // A thread attaches its streams beside the files it reads whole.
        let room = (open_files / 2 / layout.threads).saturating_sub(layout.depth + 8);
        let max_streams = spec.streams.clamp(1, room.max(1));
        let (region, buffers) = allocate(spec, layout).map_err(TrainError::Path)?;
        let backing = region.backing();
        let machine = Machine::new(loaders, keep_times);
        let shared = Arc::new(Shared::new(machine, layout.threads));
        let handles = Arc::new(Handles::default());
        let rules = IoRules {
            build_path,
            kind: spec.path,
            window: layout.window as u32,
            chunk_bytes: layout.chunk_bytes as u64,
            max_streams,
        };
        let mut io = Vec::with_capacity(layout.threads);
        for (index, buffers) in buffers.into_iter().enumerate() {
            let path = PathSpec {
                kind: spec.path,
                engine: spec.engine,
                host: buffers.host,
                accelerator_buffers: buffers.accelerator,
                accelerator: Arc::clone(&spec.accelerator),
                // Submissions go to the kernel with the poll that follows each.
                submit_batch: layout.depth + 1,
                max_files: layout.depth + max_streams + 2,
                register_buffers: true,
            };
            let (shared, handles) = (Arc::clone(&shared), Arc::clone(&handles));
            let thread = thread::Builder::new()
                .name(format!("io-{index}"))
                .spawn(move || io::run(index, rules, path, &shared, handles))
                .map_err(|source| TrainError::Thread { source })?;
            io.push(thread);
        }
        let pacer = pacer::spawn(&shared)?;
        Ok(Self {
            shared,
            layout,
            backing,
            handles,
            io,
            pacer,
        })
    }

    /// Closes the streams of an epoch that is over.
    pub(super) fn close_streams(&self) {
        self.handles.clear();
    }

    /// Ends all threads and adds up what they saw.
    pub(super) fn stop(self) -> CrewTally {
        self.shared.quit();
        let mut sum = CrewTally {
            evidence: None,
            bytes: 0,
            reads: 0,
            latency: LatencyHistogram::new(),
        };
        for thread in self.io {
            // A panic has become the run's failure in its own thread.
            let Ok(tally) = thread.join() else {
                continue;
            };
            sum.bytes += tally.bytes;
            sum.reads += tally.reads;
            sum.latency.merge(&tally.latency);
            sum.evidence = sum.evidence.or(tally.evidence);
        }
        let _ = self.pacer.join();
        sum
    }
}

/// Maps one region and carves every thread's buffers from it.
fn allocate(spec: &CrewSpec, layout: Layout) -> Result<(Region, Vec<PathBuffers>), TransferError> {
    let (host, accelerator) = buffers_needed(spec.path, layout.depth);
    let emulated = spec.accelerator.is_emulated();
    let carved = host + if emulated { accelerator } else { 0 };
    let bytes = carved * layout.threads * layout.chunk_bytes;
    let mut region = Region::new(bytes)?;
    let mut allocate = |_| {
        PathBuffers::allocate(
            spec.path,
            layout.depth,
            layout.chunk_bytes,
            (&*spec.accelerator, spec.memory),
            &mut region,
        )
    };
    let threads = (0..layout.threads)
        .map(&mut allocate)
        .collect::<Result<_, _>>()?;
    Ok((region, threads))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use stormlp_transfer::HostStandIn;

    fn spec(path: PathKind, engine: EngineKind, concurrent_reads: usize) -> CrewSpec {
        CrewSpec {
            path,
            engine,
            accelerator: Arc::new(HostStandIn),
            memory: MemoryKind::Host,
            concurrent_reads,
            streams: 0,
            threads: None,
        }
    }

    #[test]
    fn many_accelerators_need_few_threads_and_bounded_memory() {
        for path in [PathKind::Buffered, PathKind::Cpu, PathKind::PageCache] {
            let layout = Layout::of(&spec(path, EngineKind::Uring, 128 * 8), 2);
            assert_eq!(layout.threads, 2);
            let (host, accelerator) = buffers_needed(path, layout.depth);
            let bytes = layout.threads * (host + accelerator) * layout.chunk_bytes;
            assert!(bytes <= POOL_BYTES, "{path}: {bytes}");
        }
    }

    #[test]
    fn a_blocking_engine_gets_a_thread_for_each_read() {
        let layout = Layout::of(&spec(PathKind::Buffered, EngineKind::Psync, 4), 2);
        assert_eq!((layout.threads, layout.depth), (4, 1));
    }
}
