//! The I/O threads: few, each with a transfer path and a fixed pool of buffers.
//!
//! A thread receives a read, opens the file, requests it chunk by chunk and discards the payload on
//! arrival. While chunks come straight from the page cache it stays with one read; when one has to
//! wait for the device it starts the next read. It sleeps in the path's wait while a chunk is in
//! flight, and is parked otherwise.

use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use stormlp_core::evidence::Evidence;
use stormlp_core::histogram::LatencyHistogram;
use stormlp_core::operation::Direction;
use stormlp_core::path::PathKind;
use stormlp_core::transport::Transport;
use stormlp_dataset::format::{npy, npz};
use stormlp_hosts::fault::Fault;
use stormlp_transfer::storage::{self, Access, Handle, Kind, Storage};
use stormlp_transfer::thread_group::guarded;
use stormlp_transfer::timer::Waker;
use stormlp_transfer::{
    AcceleratorSet, CompletedTransfer, Driver, FileId, FileRange, PathBuffers, Slot, TransferError,
    TransferPath,
};

use super::error::TrainError;
use super::handles::{Attached, Handles, Stream, stream_of};
use super::job::{Chunk, Chunking, DIRECT_ALIGN, Job};
use super::machine::{self, Nanos, ReadRequest};
use super::records::RecordTracker;
use super::shared::{Finished, Hands, Shared, Sleep, Sleeper, Turn};
use super::source::{DataFile, Framing, Reads, Source};

/// Maximum immediate completions before polling for further ones: a ring posts the completion of a
/// read that had to wait only to a waiting thread.
const POLLS_BETWEEN_WAITS: u32 = 16;

/// Null reads complete at once, so a thread starts many per turn: the turn would otherwise be
/// longer than the read.
const NULL_READS_AT_ONCE: usize = 32;

/// Measurements of one I/O thread, or of all.
#[derive(Debug, Clone, Default)]
pub(super) struct IoTally {
    pub(super) evidence: Option<Evidence>,
    pub(super) bytes: u64,
    pub(super) reads: u64,
    /// From taking a read to its last byte, including opening and closing files, but not their
    /// registration with cuFile.
    pub(super) latency: LatencyHistogram,
    /// Registration of files with cuFile, which a job does once and a benchmark for each read.
    pub(super) registration: LatencyHistogram,
}

/// Configuration of the threads.
#[derive(Clone)]
pub(super) struct ThreadGroupSpec {
    /// The storage that holds the files.
    pub storage: Arc<dyn Storage>,
    /// How the data is transferred.
    pub transport: Transport,
    /// The destinations, for paths that end in accelerator memory.
    pub accelerators: AcceleratorSet,
    /// Objects of this size or more are asked for by HEAD before they are read, as v3.0's default
    /// client does, or for their checksums.
    pub head_from_bytes: Option<u64>,
}

/// A read in progress, with its dataset.
struct RunningJob {
    job: Job,
    source: Arc<dyn Source>,
}

impl RunningJob {
    /// Validates arriving data: the start of the file, and its record headers.
    fn check(&mut self, chunk: &Chunk, got: usize, host: Option<&[u8]>) -> Result<(), TrainError> {
        let bytes = host.map(|bytes| &bytes[..got]);
        if let (Some(bytes), Some(framing)) = (bytes, self.job.plan.framing)
            && got == chunk.expected
        {
            self.check_framing(framing, chunk.offset, bytes)?;
        }
        if let Some(records) = &mut self.job.records {
            records.advance(bytes, chunk.offset + got as u64)?;
        }
        Ok(())
    }

    /// Validates the headers at the start and at the end of the file.
    fn check_framing(&self, framing: Framing, offset: u64, bytes: &[u8]) -> Result<(), TrainError> {
        let file = &self.source.files()[self.job.plan.file];
        let is_tail = offset + bytes.len() as u64 == file.bytes;
        if offset > 0 && !is_tail {
            return Ok(());
        }
        let name = file.path.display().to_string();
        if offset == 0 {
            let head = match framing {
                Framing::Npz => npz::read_head(&name, file.bytes, bytes),
                Framing::Npy => npy::read_head(&name, file.bytes, bytes),
            };
            head?;
        }
        match framing {
            Framing::Npz if is_tail => {
                npz::check_tail(&name, offset, bytes).map_err(TrainError::Corrupt)
            }
            _ => Ok(()),
        }
    }
}

struct IoThread<'a> {
    index: usize,
    spec: &'a ThreadGroupSpec,
    /// A transfer's tag is the index of its read in `jobs`, and its chunk.
    driver: Driver<'a, (usize, Chunk)>,
    shared: &'a Shared,
    handles: Arc<Handles>,
    attached: Attached,
    jobs: Vec<Option<RunningJob>>,
    wakeable: bool,
    polls: u32,
    /// Whether there are submissions that no `wait` has passed on yet.
    submitted: bool,
    null_file: Option<FileId>,
    hands: Hands,
    tally: IoTally,
}

/// Main loop of an I/O thread. A panic ends the run, so that no accelerator waits for its reads
/// forever.
pub(super) fn run(
    (index, buffers): (usize, PathBuffers),
    spec: &ThreadGroupSpec,
    shared: &Arc<Shared>,
    handles: Arc<Handles>,
) -> IoTally {
    let live = || live((index, buffers), spec, shared, handles);
    guarded(&format!("io-{index}"), live).unwrap_or_else(|panic| give_up(shared, panic.into()))
}

/// Sets up the path and works until the run ends.
fn live(
    (index, buffers): (usize, PathBuffers),
    spec: &ThreadGroupSpec,
    shared: &Arc<Shared>,
    handles: Arc<Handles>,
) -> IoTally {
    let waker = match Waker::new() {
        Ok(waker) => Arc::new(waker),
        Err(error) => return give_up(shared, error.into()),
    };
    shared.register_io(index, Sleeper { thread: thread::current(), waker: Arc::clone(&waker) });
    let transport = &spec.transport;
    let max_files = transport.queue_depth + transport.streams + 2;
    let place = (index, buffers);
    let path = match spec.accelerators.path(&*spec.storage, transport, place, max_files) {
        Ok(path) => path,
        Err(error) => return give_up(shared, error.into()),
    };
    let mut io = IoThread::new(index, spec, path, shared, handles);
    match io.work(&waker) {
        Ok(()) => {}
        Err(error) => shared.fail(error),
    }
    io.tally.evidence = Some(io.driver.evidence());
    io.tally
}

fn give_up(shared: &Shared, error: TrainError) -> IoTally {
    shared.fail(error);
    IoTally::default()
}

impl<'a> IoThread<'a> {
    fn new(
        index: usize,
        spec: &'a ThreadGroupSpec,
        path: Box<dyn TransferPath>,
        shared: &'a Shared,
        handles: Arc<Handles>,
    ) -> Self {
        let mut driver = Driver::new(path, &shared.drivers, index);
        let slots = driver.idle().len();
        Self {
            index,
            spec,
            driver,
            shared,
            handles,
            attached: Attached::new(spec.transport.streams),
            jobs: Vec::with_capacity(slots),
            wakeable: false,
            polls: 0,
            submitted: false,
            null_file: None,
            hands: Hands {
                finished: Vec::with_capacity(slots.max(NULL_READS_AT_ONCE)),
                taken: Vec::with_capacity(NULL_READS_AT_ONCE),
            },
            tally: IoTally::default(),
        }
    }

    fn work(&mut self, waker: &Waker) -> Result<(), TrainError> {
        let wakeable = self.driver.wake_on(waker.as_fd());
        self.wakeable = wakeable?;
        loop {
            let want = match (self.driver.has_room(), self.spec.transport.path) {
                (false, _) => 0,
                (true, PathKind::Null) => NULL_READS_AT_ONCE,
                (true, _) => 1,
            };
            let sleep = match (self.driver.in_flight(), want > 0 && self.wakeable) {
                (0, _) => Sleep::Parked,
                (_, true) => Sleep::InPath,
                (_, false) => Sleep::Busy,
            };
            match self.shared.turn(self.index, &mut self.hands, want, sleep) {
                Turn::Quit => return Ok(self.driver.drain()?),
                Turn::Read(source) => self.make(&source)?,
                Turn::Nothing if self.driver.in_flight() == 0 => thread::park(),
                Turn::Nothing => self.reap(1)?,
            }
        }
    }

    /// Performs the taken reads in order.
    fn make(&mut self, source: &Arc<dyn Source>) -> Result<(), TrainError> {
        let mut taken = std::mem::take(&mut self.hands.taken);
        for request in taken.drain(..) {
            if self.spec.transport.path == PathKind::Null {
                self.make_nothing(request, source)?;
                continue;
            }
            self.start(request, source)?;
            self.reap(0)?;
        }
        self.hands.taken = taken;
        Ok(())
    }

    /// Performs a null read: each transfer completes on submission, so no state is kept.
    fn make_nothing(
        &mut self,
        request: ReadRequest,
        source: &Arc<dyn Source>,
    ) -> Result<(), TrainError> {
        let started = self.shared.now();
        let plan = source.plan(&request)?;
        let Reads::Known { extents, landed, .. } = &plan.reads else {
            self.start(request, source)?;
            return self.reap(0);
        };
        let file = self.nothing()?;
        let mut bytes = 0;
        for extent in (0..).map_while(|nth| extents.nth(nth)) {
            let end = extent.offset + extent.bytes;
            bytes += extent.bytes;
            let mut offset = extent.offset;
            while offset < end {
                let expected = (end - offset).min(self.spec.transport.chunk_bytes) as usize;
                let chunk = Chunk { offset, len: expected, expected };
                self.move_nothing(file, chunk)?;
                offset += expected as u64;
            }
        }
        self.hand_in(request, *landed, bytes, started);
        Ok(())
    }

    /// One transfer of the null path.
    fn move_nothing(&mut self, file: FileId, chunk: Chunk) -> Result<(), TrainError> {
        if let Some(slot) = self.driver.take_slot() {
            let place = FileRange {
                direction: Direction::Read,
                file,
                offset: chunk.offset,
                len: chunk.len,
            };
            let submitted = self.driver.submit(slot, place, (0, chunk));
            submitted?;
            self.driver.wait(1)?;
        }
        while let Some(landed) = self.driver.next_landed() {
            self.driver.put_back(landed.slot);
        }
        Ok(())
    }

    /// The file that stands in for all files of the null path.
    fn nothing(&mut self) -> Result<FileId, TrainError> {
        if let Some(file) = self.null_file {
            return Ok(file);
        }
        let nothing = storage::nothing()?;
        let file = self.driver.attach(nothing)?;
        self.null_file = Some(file);
        Ok(file)
    }

    /// Processes completions, waiting for at least `min`, and continues those reads as long as
    /// their chunks arrive at once.
    fn reap(&mut self, mut min: usize) -> Result<(), TrainError> {
        // A large file may have chunks for minutes; completed reads do not wait for it.
        while !self.shared.is_over() && (min > 0 || std::mem::take(&mut self.submitted)) {
            self.submitted = false;
            self.polls = self.polls.wrapping_add(1);
            if self.polls.is_multiple_of(POLLS_BETWEEN_WAITS) && self.driver.in_flight() > 1 {
                min = 1;
            }
            self.driver.wait(min)?;
            while let Some(landed) = self.driver.next_landed() {
                self.land(landed)?;
            }
            if !self.hands.finished.is_empty() && self.driver.in_flight() > 0 {
                // Accelerators wait for these; the current read may be slow.
                self.shared.turn(self.index, &mut self.hands, 0, Sleep::Busy);
            }
            min = 0;
        }
        Ok(())
    }

    fn start(&mut self, request: ReadRequest, source: &Arc<dyn Source>) -> Result<(), TrainError> {
        let started = self.shared.now();
        let plan = source.plan(&request)?;
        let data_file = &source.files()[plan.file];
        let mut job = Job::new(request, plan, None, data_file.bytes, started);
        self.open(&mut job, data_file)?;
        let free = self.jobs.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.jobs.push(None);
            self.jobs.len() - 1
        });
        let source = Arc::clone(source);
        self.jobs[index] = Some(RunningJob { job, source });
        self.feed(index)
    }

    /// Requests chunks of a read while there is room, and finishes it when all have arrived.
    fn feed(&mut self, index: usize) -> Result<(), TrainError> {
        let cut = Chunking {
            chunk_bytes: self.spec.transport.chunk_bytes,
            direct: self.spec.transport.path.wants_direct(),
        };
        while let Some(running) = &mut self.jobs[index]
            && running.job.flying < self.spec.transport.window as u32
            && let Some(slot) = self.driver.take_slot()
        {
            let Some(chunk) = running.job.next_chunk(cut) else {
                self.driver.put_back(slot);
                if running.job.flying == 0 {
                    return self.finish(index);
                }
                break;
            };
            running.job.flying += 1;
            self.submit(index, slot, chunk)?;
        }
        Ok(())
    }

    fn submit(&mut self, index: usize, slot: Slot, chunk: Chunk) -> Result<(), TrainError> {
        let Some(file) = self.jobs[index].as_ref().and_then(|running| running.job.file) else {
            self.driver.put_back(slot);
            return Ok(());
        };
        self.submitted = true;
        let place =
            FileRange { direction: Direction::Read, file, offset: chunk.offset, len: chunk.len };
        self.driver
            .submit(slot, place, (index, chunk))
            .map_err(|error| self.read_error(index, error))
    }

    /// Handles a completed chunk.
    fn land(&mut self, landed: CompletedTransfer<(usize, Chunk)>) -> Result<(), TrainError> {
        let CompletedTransfer { tag: (index, chunk), slot, result, .. } = landed;
        let Some(running) = self.jobs[index].as_mut() else {
            self.driver.put_back(slot);
            return Ok(());
        };
        let got = match result {
            Ok(got) => got,
            Err(error) => return Err(self.read_error(index, error)),
        };
        let got = got.min(chunk.expected);
        running.check(&chunk, got, slot.host())?;
        running.job.bytes += got as u64;
        if got == chunk.expected {
            running.job.flying -= 1;
            self.driver.put_back(slot);
            return self.feed(index);
        }
        let misaligned =
            self.spec.transport.path.wants_direct() && !(got as u64).is_multiple_of(DIRECT_ALIGN);
        if got == 0 || misaligned {
            return Err(self.short(index, chunk.offset + got as u64));
        }
        // The kernel may return a short read in the middle of a file: request the rest.
        let rest = Chunk {
            offset: chunk.offset + got as u64,
            len: chunk.len - got,
            expected: chunk.expected - got,
        };
        self.submit(index, slot, rest)
    }

    /// Finishes a read after all of its chunks have arrived.
    fn finish(&mut self, index: usize) -> Result<(), TrainError> {
        let Some(RunningJob { mut job, source }) = self.jobs[index].take() else {
            return Ok(());
        };
        let landed = job.landed();
        self.close(&mut job).map_err(|error| match error {
            // Objects read in ranges are compared at the end.
            TrainError::Fault(Fault::Transfer(error)) if error.is_of_object() => {
                TrainError::Read { path: source.files()[job.plan.file].path.clone(), source: error }
            }
            error => error,
        })?;
        self.hand_in(job.request, landed, job.bytes, job.started);
        Ok(())
    }

    /// Records a completed read for the next turn.
    fn hand_in(
        &mut self,
        request: ReadRequest,
        landed: machine::ReadResult,
        bytes: u64,
        started: Nanos,
    ) {
        self.tally.bytes += bytes;
        self.tally.reads += 1;
        let took = self.shared.now().saturating_sub(started);
        self.tally.latency.record_ns(took);
        self.hands.finished.push(Finished { request, landed, bytes });
    }

    /// Opens the file of a read, or reuses its open stream.
    fn open(&mut self, job: &mut Job, file: &DataFile) -> Result<(), TrainError> {
        let named = |source| TrainError::Read { path: file.path.clone(), source };
        if self.spec.transport.path == PathKind::Null {
            job.file = Some(self.nothing()?);
            return Ok(());
        }
        if !job.is_stream() {
            let opened = open_checked(self.spec, file)?;
            job.file = Some(self.attach(job, opened).map_err(named)?);
            return Ok(());
        }
        let key = stream_of(&job.request);
        let idle = self.driver.idle();
        let host_sees = idle.last().is_some_and(|slot| slot.host().is_some());
        let stream = self.handles.get(key, || {
            let records = match &job.plan.reads {
                Reads::Known { .. } => None,
                Reads::Records { .. } if host_sees => Some(RecordTracker::scan(file)),
                Reads::Records { .. } => Some(RecordTracker::look_up(&*self.spec.storage, file)?),
            };
            Ok::<_, TrainError>(Stream {
                file: open_checked(self.spec, file)?,
                records: Mutex::new(records),
            })
        })?;
        job.records = stream.records.lock().unwrap_or_else(PoisonError::into_inner).take();
        job.file = self.attached.get(key);
        if job.file.is_none() {
            let own = stream
                .file
                .try_clone()
                .map_err(|e| named(TransferError::file("duplicate", &file.path, e)))?;
            let id = self.attach(job, own).map_err(named)?;
            job.file = Some(id);
            let busy = |id: FileId| {
                let mut running = self.jobs.iter().flatten();
                running.any(|running| running.job.file == Some(id))
            };
            if let Some(oldest) = self.attached.insert(key, id, busy) {
                self.driver.detach(oldest).map_err(named)?;
            }
        }
        Ok(())
    }

    /// Attaches the file of a read. Where that registers it with cuFile, the time is a separate
    /// figure, not the read's.
    fn attach(&mut self, job: &mut Job, file: Handle) -> Result<FileId, TransferError> {
        if !self.spec.transport.path.needs_cufile() {
            return self.driver.attach(file);
        }
        let began = self.shared.now();
        let id = self.driver.attach(file)?;
        let took = self.shared.now().saturating_sub(began);
        self.tally.registration.record_ns(took);
        job.started += took;
        Ok(id)
    }

    /// Closes the file of a read, unless its stream continues.
    fn close(&mut self, job: &mut Job) -> Result<(), TrainError> {
        let Some(id) = job.file else {
            return Ok(());
        };
        if self.spec.transport.path == PathKind::Null {
            return Ok(());
        }
        if job.is_stream() {
            let key = stream_of(&job.request);
            let records = job.records.take();
            if job.stays_open() {
                self.handles.put_back(key, records);
                return Ok(());
            }
            if let Some(records) = records {
                records.finish()?;
            }
            self.attached.remove(key);
            self.handles.close(key);
        }
        Ok(self.driver.detach(id)?)
    }

    fn read_error(&self, index: usize, source: TransferError) -> TrainError {
        match self.data_file(index) {
            Some(file) => TrainError::Read { path: file.path, source },
            None => source.into(),
        }
    }

    fn short(&self, index: usize, found_bytes: u64) -> TrainError {
        let file = self.data_file(index);
        let (path, expected_bytes) = file.map_or_else(Default::default, |f| (f.path, f.bytes));
        TrainError::Length { path, expected_bytes, found_bytes }
    }

    fn data_file(&self, index: usize) -> Option<DataFile> {
        let running = self.jobs[index].as_ref()?;
        let file = running.source.files().get(running.job.plan.file)?;
        Some(file.clone())
    }
}

/// Opens a file after checking that it is a regular file of unchanged length. The replies to an
/// object's GETs tell its length, so that no request is needed before, unless the official client
/// would, or its checksum is wanted.
fn open_checked(spec: &ThreadGroupSpec, file: &DataFile) -> Result<Handle, TrainError> {
    let (storage, path) = (&spec.storage, spec.transport.path);
    let named = |source| TrainError::Read { path: file.path.clone(), source };
    let other_length = |found_bytes: u64| TrainError::Length {
        path: file.path.clone(),
        expected_bytes: file.bytes,
        found_bytes,
    };
    if path == PathKind::S3 {
        if spec.head_from_bytes.is_none_or(|from| file.bytes < from) {
            return storage.known_object(&file.path, file.bytes).map_err(named);
        }
        let object = storage.handle(&file.path, Access::Read, false).map_err(named)?;
        return match object.object_bytes().unwrap_or_default() {
            found if found == file.bytes => Ok(object),
            found => Err(other_length(found)),
        };
    }
    // Checked before opening: opening a pipe blocks until there is a writer.
    let found = storage.found(&file.path).map_err(named)?;
    if found.bytes != file.bytes || found.kind != Kind::File {
        return Err(other_length(found.bytes));
    }
    storage.handle(&file.path, Access::Read, path.wants_direct()).map_err(named)
}
