//! The cells of a matrix: which combinations exist and which of them this machine can run.
//!
//! Paths are the innermost axis, followed by repetitions. So compared cells alternate, and drift
//! of the machine affects all of them.

use super::choice::{CellSpan, Fsync, IoSize};
use super::files::PlannedFiles;
use super::inventory::{TargetInventory, TargetPlace};
use super::knee;
use super::matrix_plan::{
    ASSUMED_BYTES_PER_SECOND, CellPlan, ThreadGroupPlan, WorkerPlan, is_host_memory,
};
use super::request::MatrixRequest;
use stormlp_core::distinct::distinct;
use stormlp_core::facts::{Availability, HostFacts};
use stormlp_core::failure::Problems;
use stormlp_core::gpu_limits::{self, FlightOptions};
use stormlp_core::operation::{Direction, Operation};
use stormlp_core::path::{EngineKind, MemoryKind, PathKind};
use stormlp_core::placement::Placement;
use stormlp_core::transport;
use stormlp_core::transport::{DeviceId, Requirement, Transport};
use stormlp_core::units::{ByteSize, short_size};

/// The figures that decide the transfers in flight of a cell.
const FLIGHT: FlightOptions = FlightOptions {
    fewer: "use fewer --threads or a lower --queue-depth",
    shallower: "use a lower --queue-depth",
    smaller: "use a smaller --io-size, fewer --threads or a lower --queue-depth",
};

/// Time between the end of one cell and the start of the next, in seconds.
const CELL_OVERHEAD_SECONDS: f64 = 0.05;
/// Buffers are page-aligned.
const PAGE_BYTES: u64 = 4096;

#[derive(Clone, Copy)]
struct Shape {
    op: Operation,
    io_size: IoSize,
    thread_group: usize,
    depth: u32,
    repeat: u32,
}

pub(super) struct CellPlanner<'a> {
    pub(super) request: &'a MatrixRequest,
    pub(super) facts: &'a HostFacts,
    pub(super) inventory: &'a TargetInventory,
    pub(super) engine: EngineKind,
    pub(super) table: &'a PlannedFiles,
    pub(super) thread_groups: &'a [ThreadGroupPlan],
    pub(super) placement: &'a Placement,
}

/// All cells in execution order.
pub(super) fn all(context: &CellPlanner<'_>, problems: &mut Problems) -> Vec<CellPlan> {
    let request = context.request;
    let paths = distinct(request.paths());
    let mut cells = Vec::new();
    for op in distinct(request.ops.iter().copied()) {
        for io_size in distinct(request.io_sizes.iter().copied()) {
            for thread_group in 0..context.thread_groups.len() {
                for depth in distinct(request.queue_depths.iter().copied()) {
                    for repeat in 1..=request.runs() {
                        let shape = Shape { op, io_size, thread_group, depth, repeat };
                        cells.extend(paths.iter().map(|path| context.cell(*path, shape)));
                    }
                }
            }
        }
    }
    if request.find_knee {
        cells = knee::grid(cells, context.facts.usable_memory_bytes());
    }
    for cell in cells.iter().filter(|cell| cell.availability.is_available()) {
        context.check(cell, problems);
    }
    context.check_paths(&cells, problems);
    cells
}

impl CellPlanner<'_> {
    fn cell(&self, path: PathKind, shape: Shape) -> CellPlan {
        let thread_group = &self.thread_groups[shape.thread_group];
        let requested_bytes = thread_group.requested_bytes(self.request.span());
        let transport = self.transport(path, shape, thread_group);
        let direct = path.wants_direct()
            && self.request.open_direct
            && self.refuses_direct(thread_group).is_none();
        CellPlan {
            estimated_seconds: self.estimated_seconds(&transport, requested_bytes),
            op: shape.op,
            io_size: shape.io_size,
            repeat: shape.repeat,
            thread_group: shape.thread_group,
            availability: self.availability(path, thread_group, &transport),
            direct,
            fsync: self.syncs(path, shape.op, direct),
            requested_bytes,
            transport,
        }
    }

    /// Estimated duration of a cell. When the time is up, no new transfer starts, but transfers in
    /// flight are awaited: with many threads and large transfers that lasts longer than the time
    /// itself.
    fn estimated_seconds(&self, transport: &Transport, requested_bytes: u64) -> f64 {
        let in_flight = (transport.threads as u64)
            .saturating_mul(transport.queue_depth as u64)
            .saturating_mul(transport.chunk_bytes);
        let bytes = |bytes: u64| bytes as f64 / ASSUMED_BYTES_PER_SECOND;
        let measured = match self.request.span() {
            CellSpan::Seconds(seconds) if transport.path == PathKind::Null => seconds,
            CellSpan::Seconds(seconds) | CellSpan::Steady(seconds) => seconds + bytes(in_flight),
            CellSpan::Passes(_) => bytes(requested_bytes),
        };
        self.request.warmup_seconds + measured + CELL_OVERHEAD_SECONDS
    }

    /// Whether a cell ends with a sync. Without one, writes through the page cache measure memory.
    fn syncs(&self, path: PathKind, op: Operation, direct: bool) -> bool {
        let writes = op.direction() == Direction::Write || self.request.read_percent.is_some();
        writes
            && !matches!(path, PathKind::S3 | PathKind::Null)
            && match self.request.fsync {
                Fsync::Auto => !direct,
                Fsync::None => false,
                Fsync::End => true,
            }
    }

    fn transport(&self, path: PathKind, shape: Shape, thread_group: &ThreadGroupPlan) -> Transport {
        let request = self.request;
        let largest = (thread_group.workers.iter())
            .map(|worker| worker.io_size_in(shape.io_size).max_bytes)
            .fold(0, u64::max);
        let mut devices = thread_group.workers.iter().map(|worker| worker.device);
        let first = devices.next().filter(|_| path.ends_in_accelerator());
        let on_host = thread_group.workers.iter().any(|w| w.device == DeviceId::Host);
        let device = first.filter(|first| devices.all(|device| device == *first));
        let depth = shape.depth as usize;
        let engine = transport::engine_at(request.engine, self.engine, path, depth);
        let batch = (request.tune.submit_batch).map(|batch| batch as usize);
        Transport {
            memory: request.buffer_memory,
            emulated: path.ends_in_accelerator() && on_host,
            threads: thread_group.workers.len(),
            queue_depth: depth,
            chunk_bytes: largest.next_multiple_of(PAGE_BYTES),
            submit_batch: batch.unwrap_or_else(|| transport::submit_batch(path, depth)),
            pages: request.tune.machine.pages,
            register_buffers: request.tune.register,
            wait: request.tune.machine.wait.unwrap_or_default(),
            placement: self.placement.clone(),
            ..Transport::bare(path, engine, request.engine, device)
        }
    }

    /// Whether a path can run here with the selected memory and this many buffers.
    fn availability(
        &self,
        path: PathKind,
        thread_group: &ThreadGroupPlan,
        transport: &Transport,
    ) -> Availability {
        let support = self.facts.support(path);
        let kind = self.request.buffer_memory;
        let on_host = thread_group.workers.iter().any(|w| w.device == DeviceId::Host);
        let on_gpu = thread_group.workers.iter().any(|w| w.device != DeviceId::Host);
        let host_kind = is_host_memory(kind);
        if !support.is_available() {
            support
        } else if path.needs_cufile() && on_host && !host_kind {
            Availability::unavailable(
                "cuFile is available, but there is no GPU to transfer to",
                "--buffer-memory host measures cuFile on host memory",
            )
        } else if path.needs_cufile() && host_kind && self.request.requires(Requirement::Gds) {
            Availability::unavailable(
                "cuFile has no direct route to host memory",
                "leave --buffer-memory out, or --require gds",
            )
        } else if path.has_bounce_buffer() && on_gpu && (host_kind || kind == MemoryKind::Pinned) {
            Availability::unavailable(
                format!("--buffer-memory {} is for the cuFile paths", kind.name()),
                "leave --buffer-memory out, or use --device host",
            )
        } else {
            let devices: Vec<_> = thread_group.workers.iter().map(|worker| worker.device).collect();
            gpu_limits::kept(transport, &devices, FLIGHT, self.facts)
        }
    }

    /// The file system at a worker's file.
    fn place(&self, worker: &WorkerPlan) -> Option<&TargetPlace> {
        self.inventory.place(&self.table.files[worker.file])
    }

    /// Why a file of the thread group cannot be opened with `O_DIRECT`, if so.
    fn refuses_direct(&self, thread_group: &ThreadGroupPlan) -> Option<(String, &str, &str)> {
        thread_group.workers.iter().find_map(|worker| match &self.place(worker)?.direct {
            Availability::Available => None,
            Availability::Unavailable { fact, remedy } => {
                let path = self.table.files[worker.file].path.display().to_string();
                Some((path, fact.as_str(), remedy.as_str()))
            }
        })
    }

    /// Checks the settings of a cell that this machine can run.
    fn check(&self, cell: &CellPlan, problems: &mut Problems) {
        let thread_group = &self.thread_groups[cell.thread_group];
        for worker in &thread_group.workers {
            let io_size = worker.io_size_in(cell.io_size);
            if io_size.max_bytes > worker.length_bytes {
                problems.plan(
                    format!(
                        "an I/O size of {} is larger than a thread's part of {} ({}, {} threads)",
                        ByteSize(io_size.max_bytes),
                        self.table.files[worker.file].path.display(),
                        ByteSize(worker.length_bytes),
                        cell.transport.threads
                    ),
                    format!(
                        "use a larger --file-size or an --io-size up to {}",
                        short_size(worker.length_bytes)
                    ),
                );
            }
        }
        if cell.transport.path.wants_direct() && self.request.open_direct {
            match self.refuses_direct(thread_group) {
                None => self.check_alignment(cell, problems),
                Some((path, reason, remedy)) if self.request.requires(Requirement::Direct) => {
                    problems.machine(
                        format!(
                            "--require direct: {path} cannot be opened with O_DIRECT: {reason}"
                        ),
                        remedy,
                    )
                }
                Some(_) => {}
            }
        }
    }

    /// Checks that offsets and sizes suit `O_DIRECT`; cuFile accepts any.
    fn check_alignment(&self, cell: &CellPlan, problems: &mut Problems) {
        if cell.transport.path.needs_cufile() {
            return;
        }
        for worker in &self.thread_groups[cell.thread_group].workers {
            let alignment =
                self.place(worker).map_or(1, |place| place.direct_alignment_bytes.max(1));
            let size = worker.io_size_in(cell.io_size);
            let mut numbers = vec![
                ("an I/O size", size.min_bytes),
                ("a step of I/O sizes", size.step_bytes),
                ("an offset", worker.start_bytes),
            ];
            if cell.op.is_random() {
                let random = self.request.tune.random_alignment_bytes;
                numbers.push(("an alignment of random offsets", random));
            } else if let CellSpan::Passes(_) = self.request.span() {
                numbers.push(("a file size", worker.length_bytes));
            }
            for (what, bytes) in numbers {
                if !bytes.is_multiple_of(alignment) {
                    problems.plan(
                        format!(
                            "{what} of {bytes} bytes is not a multiple of {alignment}, as \
                             required for O_DIRECT on path {}",
                            cell.transport.path
                        ),
                        "use multiples of 4K, or the paths buffered and page-cache",
                    );
                }
            }
        }
    }

    /// Checks that at least one path can run, and that all required ones can.
    fn check_paths(&self, cells: &[CellPlan], problems: &mut Problems) {
        let runnable = |cell: &&CellPlan| cell.availability.is_available();
        if self.request.requires(Requirement::Gds)
            && !cells.iter().filter(runnable).any(|c| c.transport.path.needs_cufile())
        {
            let (reason, remedy) =
                first_reason(cells.iter().filter(|c| c.transport.path.needs_cufile()));
            problems.machine(format!("--require gds: {reason}"), remedy);
        } else if !cells.iter().any(|cell| runnable(&cell)) {
            let (reason, remedy) = first_reason(cells.iter());
            problems.machine(format!("none of the requested paths can run here: {reason}"), remedy);
        }
    }
}

/// The reasons why cells cannot run, one for each path, and the first remedy.
fn first_reason<'a>(cells: impl Iterator<Item = &'a CellPlan>) -> (String, String) {
    let reasons = cells.filter_map(|cell| match &cell.availability {
        Availability::Unavailable { fact, remedy } => {
            Some((format!("{}: {fact}", cell.transport.path), remedy.clone()))
        }
        Availability::Available => None,
    });
    let reasons: Vec<(String, String)> = reasons.collect();
    let Some((_, remedy)) = reasons.iter().find(|(_, remedy)| !remedy.is_empty()) else {
        return ("no cuFile path is among --path".to_string(), "add --path gds".to_string());
    };
    let facts = distinct(reasons.iter().map(|(fact, _)| &**fact));
    (facts.join("; "), remedy.clone())
}
