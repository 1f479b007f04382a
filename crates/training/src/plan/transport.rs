//! The transport of a training run: path, engine, device, I/O threads and their buffers.

use super::request::TrainRequest;
use crate::plan::train_plan::{LoaderPlan, ReadPattern, TrainPlan};
use stormlp_core::facts::HostFacts;
use stormlp_core::failure::Problems;
use stormlp_core::gpu_limits::{self, FlightOptions};
use stormlp_core::path::{EngineKind, PathKind, buffers_needed};
use stormlp_core::transport;
use stormlp_core::transport::{EngineChoice, Transport, TransportRequest};
use stormlp_core::warning::Warning;

/// A buffer that stays in a core's cache makes page cache reads a third cheaper. This is also the
/// kernel's readahead size.
const CACHED_CHUNK_BYTES: u64 = 256 << 10;
/// When an edition reads a whole file in one read, the kernel issues requests of the maximum size
/// to the device. With pieces of this size nearly every request remains that large.
const ONE_READ_BYTES: u64 = 16 << 20;
/// Buffers for such reads are multiples of this.
const ONE_READ_STEP_BYTES: u64 = 64 << 10;
/// Direct reads benefit from few, large requests.
const DIRECT_CHUNK_BYTES: u64 = 1 << 20;
/// These bytes are never touched, and the cost is per chunk.
const NULL_CHUNK_BYTES: u64 = 1 << 20;
/// Chunks of one file in flight under direct I/O: a reader's single large `readv` also becomes many
/// device requests.
const DIRECT_WINDOW: usize = 4;
/// A blocking call moves as much as the window of a read on the other direct paths, so that all
/// have the same bytes in flight.
const DIRECT_CALL_BYTES: u64 = DIRECT_WINDOW as u64 * DIRECT_CHUNK_BYTES;
/// Maximum that it moves if `--threads` leaves fewer calls than reads.
const LARGEST_CALL_BYTES: u64 = 16 << 20;
/// Total buffer memory of a run: with everything else, 512 accelerators fit in 256 MiB.
const POOL_BYTES: u64 = 224 << 20;
/// Blocking reads through the page cache need one thread each, up to this many: with their buffers,
/// twice for an accelerator's memory, they fill the pool.
pub(super) const BLOCKING_THREADS: usize = 448;
/// Open files of a thread in addition to its reads and streams.
const OTHER_FILES: usize = 8;

/// The figures that decide the transfers in flight of a run.
const FLIGHT: FlightOptions = FlightOptions {
    fewer: "use fewer --threads",
    shallower: "use more --threads",
    smaller: "use fewer --accelerators, or more GPUs (--device)",
};

/// The readers and their reads.
pub(super) struct Reader<'a> {
    /// The loader of each accelerator.
    pub(super) loader: &'a LoaderPlan,
    pub(super) accelerators: u32,
    pub(super) pattern: &'a ReadPattern,
    /// Mean bytes per unit that the pattern reads.
    pub(super) read_bytes: f64,
    /// Whether the page cache is read as the official client's readers do.
    pub(super) as_official: bool,
}

impl Reader<'_> {
    /// Maximum reads in flight.
    fn reads(&self) -> usize {
        (self.loader.concurrent_reads() * self.accelerators as usize).max(1)
    }

    /// Whether a blocking call makes each read on `path`, unless another engine is named. The readers
    /// of the editions block, and for a read that misses the page cache the kernel then queues two
    /// windows of read-ahead before the reader sleeps. A ring queues one, so that the device gets more
    /// and smaller requests for the same reads.
    fn wants_blocking(&self, path: PathKind) -> bool {
        self.as_official && path.uses_page_cache() && self.reads() <= BLOCKING_THREADS
    }

    /// Bytes of nearly every read: file sizes vary, and twice their mean covers nearly all.
    fn wanted_bytes(&self) -> u64 {
        match self.pattern {
            ReadPattern::Records { transfer_size } => *transfer_size,
            _ => (2.0 * self.read_bytes) as u64,
        }
    }

    /// Bytes of a blocking call under direct I/O, with that many `threads` or one for each read.
    fn call_bytes(&self, threads: Option<usize>) -> u64 {
        let in_flight = (self.reads() as u64 * DIRECT_CALL_BYTES).min(POOL_BYTES / 2);
        let share = threads.map_or(DIRECT_CALL_BYTES, |threads| in_flight / threads as u64);
        let most = share.clamp(DIRECT_CALL_BYTES, LARGEST_CALL_BYTES);
        let bytes = self.wanted_bytes().clamp(DIRECT_CHUNK_BYTES, most);
        bytes / DIRECT_CHUNK_BYTES * DIRECT_CHUNK_BYTES
    }

    /// Bytes per transfer on `path`.
    fn chunk_bytes(&self, path: PathKind, engine: EngineKind, threads: Option<usize>) -> u64 {
        if path.wants_direct() && transport::blocks(path, engine) {
            return self.call_bytes(threads);
        }
        if path.wants_direct() {
            return DIRECT_CHUNK_BYTES;
        }
        if path == PathKind::Null {
            return NULL_CHUNK_BYTES;
        }
        // A request costs more than its bytes, so an object is read in ranges as large as fit.
        let one_read = path.uses_page_cache() && self.pattern.is_one_read();
        if path != PathKind::S3 && !one_read {
            return CACHED_CHUNK_BYTES;
        }
        let share = POOL_BYTES / (self.reads() * buffers_of_slot(path)) as u64;
        let most = ONE_READ_BYTES.min(share).max(CACHED_CHUNK_BYTES);
        let bytes = self.wanted_bytes().clamp(CACHED_CHUNK_BYTES, most);
        bytes / ONE_READ_STEP_BYTES * ONE_READ_STEP_BYTES
    }
}

/// Buffers that each transfer in flight on `path` is charged for. cuFile has no bounce buffer, but
/// gets no more bytes in flight for that than paths that have one.
fn buffers_of_slot(path: PathKind) -> usize {
    if path.ends_in_accelerator() { 2 } else { 1 }
}

/// Chooses the transport of `reader` on `path`, with its limit, and reports this host's
/// limitations.
pub(super) fn decide(
    request: &TrainRequest,
    path: PathKind,
    reader: &Reader<'_>,
    host: &HostFacts,
    problems: &mut Problems,
) -> (Transport, Option<Warning>) {
    let asked = TransportRequest {
        path,
        engine: request.engine,
        devices: request.device.as_ref(),
        shares: reader.accelerators.into(),
        require_gds: request.require.is_some(),
        wait: request.tune.wait,
        threading: &request.tune.threading,
    };
    let mut bare = transport::decide(asked, host, problems);
    if reader.wants_blocking(path) && asked.engine == EngineChoice::Auto {
        bare.engine = EngineKind::Psync;
    }
    let cpus = bare.placement.cpu_count(host);
    let threads = request.threads.map(|threads| threads.max(1) as usize);
    let chunk_bytes = reader.chunk_bytes(path, bare.engine, threads);
    let devices = bare.device_count();
    if threads.is_some_and(|threads| threads < devices) {
        problems.plan(
            format!("--threads {}: each of {devices} devices needs a thread", threads.unwrap_or(0)),
            format!("use --threads {devices} or more, or name fewer devices"),
        );
    }
    // As many for each device.
    let usual = |threads: usize| threads.next_multiple_of(devices);
    let mut sizes = ThreadGroupSizes::of(
        path,
        bare.engine,
        chunk_bytes,
        reader.reads(),
        threads,
        (cpus, &usual),
    );
    let (depth, limited) = transport::depth_in_cufile(path, sizes.threads, sizes.queue_depth, host);
    sizes.queue_depth = depth;
    // A thread attaches its streams in addition to the files it reads whole.
    let open_files = usize::try_from(host.open_files_limit).unwrap_or(usize::MAX);
    let room = (open_files / 2 / sizes.threads).saturating_sub(sizes.queue_depth + OTHER_FILES);
    let streams = reader.loader.streams() * reader.accelerators as usize;
    let transport = sizes.within(Transport {
        streams: streams.clamp(1, room.max(1)),
        pages: request.tune.pages,
        ..bare
    });
    gpu_limits::check(&transport, FLIGHT, host, problems);
    (transport, limited)
}

impl TrainPlan {
    /// The transport of the same loaders on `host` with infinitely fast storage.
    pub fn transport_without_storage(&self, host: &HostFacts) -> Transport {
        let reads = self.loader.concurrent_reads() * self.accelerators as usize;
        let engine = self.transport.engine;
        let sizes = ThreadGroupSizes::of(
            PathKind::Null,
            engine,
            CACHED_CHUNK_BYTES,
            reads,
            None,
            (self.transport.placement.cpu_count(host), &|threads| threads),
        );
        sizes.within(Transport {
            path: PathKind::Null,
            device: None,
            devices: Vec::new(),
            emulated: false,
            ..self.transport.clone()
        })
    }
}

struct ThreadGroupSizes {
    threads: usize,
    queue_depth: usize,
    window: usize,
    chunk_bytes: u64,
}

impl ThreadGroupSizes {
    /// Sizes for this many `reads` in flight, by `threads` or as many as are `usual`.
    fn of(
        path: PathKind,
        engine: EngineKind,
        chunk_bytes: u64,
        reads: usize,
        threads: Option<usize>,
        (cpus, usual): (usize, &dyn Fn(usize) -> usize),
    ) -> Self {
        let reads = reads.max(1);
        let slots = (POOL_BYTES / (chunk_bytes * buffers_of_slot(path) as u64)) as usize;
        if transport::blocks(path, engine) {
            let most = if path.wants_direct() { slots } else { BLOCKING_THREADS };
            return Self {
                threads: threads.unwrap_or_else(|| usual(reads.min(most))),
                queue_depth: 1,
                window: 1,
                chunk_bytes,
            };
        }
        let threads = threads.unwrap_or_else(|| usual(reads.min(cpus)));
        let window = if path.wants_direct() { DIRECT_WINDOW } else { 1 };
        // Some paths have buffers in addition to the buffers of transfers in flight.
        let (besides, _) = buffers_needed(path, 0);
        let most = (slots / threads).saturating_sub(besides).max(2);
        Self {
            threads,
            queue_depth: (reads * window).div_ceil(threads).clamp(2, most),
            window,
            chunk_bytes,
        }
    }

    /// Applies these sizes to `transport`.
    fn within(self, transport: Transport) -> Transport {
        Transport {
            threads: self.threads,
            queue_depth: self.queue_depth,
            window: self.window,
            chunk_bytes: self.chunk_bytes,
            // Submissions reach the kernel with the poll that follows each.
            submit_batch: self.queue_depth + 1,
            ..transport
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stormlp_core::facts::{Availability, CuFileLimits, PathSupport};
    use stormlp_core::note::Cause;
    use stormlp_core::transport::DeviceId;

    fn loader(read_threads: u32) -> LoaderPlan {
        LoaderPlan::Workers {
            read_threads,
            prefetch_size: 2,
            batches_outstanding: 2 * read_threads,
            persistent: true,
            row_groups_in_flight: 1,
        }
    }

    fn reader<'a>(loader: &'a LoaderPlan, pattern: &'a ReadPattern) -> Reader<'a> {
        Reader { loader, accelerators: 128, pattern, read_bytes: 146_600_628.0, as_official: false }
    }

    fn decided(request: &TrainRequest, path: PathKind, host: &HostFacts) -> (Transport, Problems) {
        let mut problems = Problems::default();
        let loader = loader(8);
        let reader = reader(&loader, &ReadPattern::NumpyLoad);
        let (transport, _) = decide(request, path, &reader, host, &mut problems);
        (transport, problems)
    }

    #[test]
    fn one_read_takes_all_of_a_file_as_far_as_memory_goes() {
        let loader = loader(8);
        let of = |accelerators, read_bytes, pattern: &ReadPattern, path| {
            let reader = Reader { accelerators, read_bytes, ..reader(&loader, pattern) };
            reader.chunk_bytes(path, EngineKind::Uring, None)
        };
        let (small, large) = (322_957.0, 146_600_628.0);
        let whole = &ReadPattern::WholeFile;
        assert_eq!(of(1, small, whole, PathKind::Buffered), 9 << 16);
        assert_eq!(of(1, large, whole, PathKind::Buffered), ONE_READ_BYTES);
        assert_eq!(of(1, large, whole, PathKind::Cpu), DIRECT_CHUNK_BYTES);
        assert_eq!(of(1, large, whole, PathKind::Null), NULL_CHUNK_BYTES);
        assert_eq!(of(1, large, &ReadPattern::Pieces, PathKind::Buffered), CACHED_CHUNK_BYTES);
        // 100 accelerators with 8 workers each, and two buffers per read.
        assert_eq!(of(100, large, whole, PathKind::PageCache), CACHED_CHUNK_BYTES);
    }

    #[test]
    fn many_accelerators_need_few_threads_and_bounded_memory() {
        let request = TrainRequest::default();
        for path in [PathKind::Buffered, PathKind::Cpu, PathKind::PageCache] {
            let (got, problems) = decided(&request, path, &stormlp_fixtures::host());
            assert!(problems.is_empty(), "{problems}");
            assert_eq!(got.threads, 2);
            let (host, accelerator) = buffers_needed(path, got.queue_depth);
            let bytes = (got.threads * (host + accelerator)) as u64 * got.chunk_bytes;
            assert!(bytes <= POOL_BYTES, "{path}: {bytes}");
        }
    }

    #[test]
    fn official_readers_block_in_the_page_cache_alone() {
        let (loader, request) = (loader(4), TrainRequest::default());
        let engine = |path, accelerators, as_official, engine| {
            let request = TrainRequest { engine, ..request.clone() };
            let reader =
                Reader { accelerators, as_official, ..reader(&loader, &ReadPattern::NumpyLoad) };
            let host = stormlp_fixtures::host();
            let (got, _) = decide(&request, path, &reader, &host, &mut Problems::default());
            (got.engine, got.threads)
        };
        use EngineKind::{Psync, Uring};
        let auto = EngineChoice::Auto;
        assert_eq!(engine(PathKind::Buffered, 8, true, auto), (Psync, 32));
        assert_eq!(engine(PathKind::PageCache, 8, true, auto), (Psync, 32));
        assert_eq!(engine(PathKind::Buffered, 8, false, auto), (Uring, 2));
        assert_eq!(engine(PathKind::Cpu, 8, true, auto), (Uring, 2));
        assert_eq!(engine(PathKind::Buffered, 8, true, EngineChoice::Uring), (Uring, 2));
        // Thousands of threads would cost more than the ring.
        assert_eq!(engine(PathKind::Buffered, 128, true, auto), (Uring, 2));
    }

    #[test]
    fn a_blocking_engine_gets_a_thread_for_each_read() {
        let mut host = stormlp_fixtures::host();
        host.io_uring = Availability::unavailable("seccomp forbids it", "allow it");
        let mut problems = Problems::default();
        let request = TrainRequest::default();
        let (got, _) = decide(
            &request,
            PathKind::Buffered,
            &Reader { accelerators: 1, ..reader(&loader(4), &ReadPattern::NumpyLoad) },
            &host,
            &mut problems,
        );
        assert!(problems.is_empty(), "{problems}");
        assert_eq!(got.engine, EngineKind::Psync);
        assert_eq!((got.threads, got.queue_depth), (4, 1));
    }

    fn with_cufile(cpus: u32, has_direct_route: bool) -> HostFacts {
        let cufile_limits = Some(CuFileLimits::defaults(has_direct_route));
        HostFacts { cpus, cufile_limits, ..stormlp_fixtures::host() }
    }

    /// Bytes in flight of a reader at its busiest, by the transport that was decided.
    fn bytes_in_flight(transport: &Transport, reads: usize) -> u64 {
        let (_, buffers) = buffers_needed(transport.path, transport.queue_depth);
        let slots = transport.threads * buffers;
        let at_most = match transport::blocks(transport.path, transport.engine) {
            true => transport.threads,
            false => slots.min(reads * transport.window),
        };
        at_most as u64 * transport.chunk_bytes
    }

    #[test]
    fn every_path_to_the_gpu_has_the_same_bytes_in_flight() {
        const PATHS: [PathKind; 5] = [
            PathKind::CpuGpu,
            PathKind::CpuAsyncGpu,
            PathKind::Gds,
            PathKind::GdsAsync,
            PathKind::GdsBatch,
        ];
        for (read_threads, accelerators, cpus) in [(1, 1, 2), (4, 1, 2), (4, 2, 4), (4, 8, 16)] {
            let loader = loader(read_threads);
            let reader = Reader { accelerators, ..reader(&loader, &ReadPattern::WholeFile) };
            let request = TrainRequest::default();
            let of_paths = PATHS.map(|path| {
                let mut problems = Problems::default();
                let host = with_cufile(cpus, true);
                let (got, _) = decide(&request, path, &reader, &host, &mut problems);
                bytes_in_flight(&got, reader.reads())
            });
            let wanted = (reader.reads() as u64 * DIRECT_CALL_BYTES).min(POOL_BYTES / 2);
            assert_eq!(of_paths, [wanted; 5], "{} reads, {cpus} CPUs", reader.reads());
        }
    }

    #[test]
    fn batches_of_registered_memory_need_no_buffers_of_compatibility_mode() {
        let loader = loader(8);
        let reader = Reader { accelerators: 8, ..reader(&loader, &ReadPattern::WholeFile) };
        let of = |path, has_direct_route| {
            let (host, request) = (with_cufile(2, has_direct_route), TrainRequest::default());
            let (got, limited) = decide(&request, path, &reader, &host, &mut Problems::default());
            (got.threads * got.queue_depth, limited.map(|warning| warning.fact))
        };
        for has_direct_route in [true, false] {
            assert_eq!(of(PathKind::GdsBatch, has_direct_route), (112, None));
        }
        assert_eq!(of(PathKind::GdsAsync, false), (112, None));
    }

    #[test]
    fn fewer_threads_make_larger_blocking_calls() {
        let loader = loader(8);
        let reader = Reader { accelerators: 1, ..reader(&loader, &ReadPattern::WholeFile) };
        let of = |threads, read_bytes| {
            Reader { read_bytes, ..reader }.chunk_bytes(PathKind::Gds, EngineKind::Uring, threads)
        };
        let large = reader.read_bytes;
        assert_eq!(of(None, large), DIRECT_CALL_BYTES);
        assert_eq!(of(Some(4), large), 8 << 20);
        assert_eq!(of(Some(1), large), LARGEST_CALL_BYTES);
        assert_eq!(of(Some(64), large), DIRECT_CALL_BYTES);
        // A small file takes no large buffer.
        assert_eq!(of(None, 150_000.0), DIRECT_CHUNK_BYTES);
    }

    #[test]
    fn streams_leave_room_for_other_files() {
        let mut host = stormlp_fixtures::host();
        host.open_files_limit = 1024;
        let loader = LoaderPlan::Interleave {
            read_threads: 8,
            shuffle_records: 0,
            prefetch_batches: 2,
            computation_threads: 1,
            keep_every: 1,
        };
        let mut problems = Problems::default();
        let request = TrainRequest::default();
        let reader = Reader { accelerators: 8, ..reader(&loader, &ReadPattern::NumpyLoad) };
        let (got, _) = decide(&request, PathKind::Buffered, &reader, &host, &mut problems);
        assert!(got.streams > 100, "{got:?}");
        assert!(got.threads * (got.streams + got.queue_depth) < 1024, "{got:?}");
    }

    #[test]
    fn missing_features_of_this_host_are_reported_for_any_path() {
        let mut host = stormlp_fixtures::host();
        host.io_uring = Availability::unavailable("seccomp forbids it", "allow it");
        host.paths = vec![PathSupport {
            path: PathKind::Gds,
            availability: Availability::unavailable("libcufile is not there", "install it"),
        }];
        let request = TrainRequest {
            engine: EngineChoice::Uring,
            device: Some(DeviceId::nvidia(9).into()),
            ..TrainRequest::default()
        };
        let (_, problems) = decided(&request, PathKind::Gds, &host);
        assert_eq!(problems.cause(), Cause::Machine);
        let messages: Vec<&str> = problems.iter().map(|p| p.fact.as_str()).collect();
        assert_eq!(
            messages,
            [
                "path gds cannot run here: libcufile is not there",
                "engine uring cannot run here: seccomp forbids it",
                "there is no cuda:9: CUDA shows 0 devices on this machine",
            ]
        );
        let (_, problems) = decided(&request, PathKind::Buffered, &host);
        assert_eq!(problems.len(), 2, "{problems}");
    }
}
