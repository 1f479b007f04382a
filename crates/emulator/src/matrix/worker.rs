//! The hot loop: one thread, one path, one share of a file.
//!
//! Between the start barrier and its end a worker allocates nothing (tokio-uring, which makes a
//! task of every operation, excepted) and shares nothing but counters. It keeps every slot of its path in flight, stamps each transfer when it is
//! submitted and when it is over, and hands its recorder over when it is done.

use std::fs::File;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use stormlp_model::evidence::Evidence;
use stormlp_model::operation::Direction;
use stormlp_model::pattern::{Mismatch, Pattern};
use stormlp_model::stop::StopToken;
use stormlp_transfer::{Completion, FileId, Slot, Transfer, TransferError, TransferPath};

use super::gate::Gate;
use super::offsets::{OffsetSpec, Offsets, Visit};
use super::recorder::Recorder;

/// What goes into the buffers of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// Reads leave buffers alone.
    Untouched,
    /// The pattern, once before the start.
    Once,
    /// The pattern of the position, before every write.
    EveryTime,
    /// Zeroes, once before the start.
    Zeroes,
}

/// What one worker has to do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    pub(crate) direction: Direction,
    /// In a mixed run, how many of a hundred transfers are reads; the rest are writes.
    pub(crate) read_percent: Option<u8>,
    pub(crate) offsets: OffsetSpec,
    pub(crate) content: Content,
    /// Checks what was read against the pattern.
    pub(crate) verify: bool,
    pub(crate) pattern: Pattern,
    /// Time before the measurement, whose transfers are not counted.
    pub(crate) warmup: Duration,
    /// When to end, counted from the end of the warm-up; without it, when the passes are done.
    pub(crate) duration: Option<Duration>,
}

/// What a worker shares with the thread that watches it.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) start: Gate,
    /// Bytes moved so far, by all workers.
    pub(crate) bytes: AtomicU64,
    /// Tells all workers to end: the user's wish, or a failure beside them.
    pub(crate) stop: StopToken,
    pub(crate) failed: StopToken,
    /// Workers that are done.
    pub(crate) finished: AtomicUsize,
}

/// Why a worker ended early.
#[derive(Debug)]
pub(crate) enum WorkerFailure {
    /// The path or a transfer failed.
    Transfer { visit: Visit, error: TransferError },
    /// Fewer bytes than asked for, though the file should hold them.
    Short { visit: Visit, moved: usize },
    /// What was read is not what was written.
    Mismatch { visit: Visit, mismatch: Mismatch },
    /// The sync at the end failed: what was written may be lost.
    Sync { error: std::io::Error },
}

/// What a worker brings home.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) recorder: Recorder,
    pub(crate) started: Instant,
    pub(crate) ended: Instant,
    pub(crate) evidence: Evidence,
    pub(crate) failure: Option<WorkerFailure>,
    /// Bytes that were checked against the pattern.
    pub(crate) verified_bytes: u64,
    /// How long the sync at the end took, where one was asked for.
    pub(crate) sync: Option<Duration>,
}

/// A transfer in flight, by slot.
#[derive(Debug, Clone, Copy)]
struct InFlight {
    since: Instant,
    visit: Visit,
}

/// One worker at work.
pub(crate) struct Worker<'a> {
    path: Box<dyn TransferPath>,
    file: FileId,
    work: Work,
    offsets: Offsets,
    shared: &'a Shared,
    recorder: Recorder,
    flying: Vec<InFlight>,
    busy: usize,
    scratch: Vec<u8>,
    verified_bytes: u64,
    failure: Option<WorkerFailure>,
    sync: Option<File>,
}

impl<'a> Worker<'a> {
    /// A worker over a path whose file is attached.
    pub(crate) fn new(
        path: Box<dyn TransferPath>,
        file: FileId,
        work: Work,
        shared: &'a Shared,
        recorder: Recorder,
    ) -> Self {
        Self {
            path,
            file,
            offsets: Offsets::new(work.offsets),
            work,
            shared,
            recorder,
            flying: Vec::new(),
            busy: 0,
            scratch: Vec::new(),
            verified_bytes: 0,
            failure: None,
            sync: None,
        }
    }

    /// Syncs `file` at the end, within the measured time.
    pub(crate) fn with_sync(mut self, file: Option<File>) -> Self {
        self.sync = file;
        self
    }

    /// Prepares, waits for the others, measures, and ends with nothing in flight.
    pub(crate) fn run(mut self) -> Outcome {
        let mut slots = self.path.take_slots();
        let mut done: Vec<Completion> = Vec::with_capacity(slots.len());
        let now = Instant::now();
        self.flying = vec![
            InFlight {
                since: now,
                visit: Visit { offset: 0, len: 0 }
            };
            slots.len()
        ];
        if self.work.verify || self.work.content != Content::Untouched {
            self.scratch = vec![0; slots.first().map_or(0, Slot::len)];
        }
        self.prepare(&mut slots);
        self.shared.start.wait();
        let started = Instant::now() + self.work.warmup;
        let deadline = self.work.duration.map(|duration| started + duration);
        for slot in slots {
            if self.failure.is_none() {
                self.launch(slot);
            }
        }
        let mut last = started;
        while self.busy > 0 {
            if let Err(error) = self.path.wait(1, &mut done) {
                // The path is broken; what is in flight comes back to nobody.
                self.fail(WorkerFailure::Transfer {
                    visit: Visit { offset: 0, len: 0 },
                    error,
                });
                break;
            }
            let now = Instant::now();
            last = now;
            let go_on = deadline.is_none_or(|deadline| now < deadline)
                && !self.shared.stop.is_stopped()
                && !self.shared.failed.is_stopped();
            let before = self.recorder.bytes;
            for completion in done.drain(..) {
                self.busy -= 1;
                let slot = self.take_up(completion, now, started);
                if go_on && self.failure.is_none() {
                    self.launch(slot);
                }
            }
            self.shared
                .bytes
                .fetch_add(self.recorder.bytes - before, Ordering::Relaxed);
        }
        let sync = self.sync.take().map(|file| {
            let before = Instant::now();
            if let Err(error) = file.sync_all() {
                self.fail(WorkerFailure::Sync { error });
            }
            last = Instant::now();
            last - before
        });
        Outcome {
            sync,
            evidence: self.path.evidence(),
            recorder: self.recorder,
            started,
            ended: last.max(started),
            failure: self.failure,
            verified_bytes: self.verified_bytes,
        }
    }

    /// Fills the buffers that are filled once.
    fn prepare(&mut self, slots: &mut [Slot]) {
        for (index, slot) in (0u64..).zip(slots) {
            match self.work.content {
                Content::Untouched | Content::EveryTime => continue,
                Content::Zeroes => self.scratch.fill(0),
                // Each slot gets bytes of its own, so that equal blocks do not lie side by side.
                Content::Once => {
                    let offset = index * self.scratch.len() as u64;
                    self.work.pattern.fill(offset, &mut self.scratch);
                }
            }
            if let Err(error) = slot.copy_in(&self.scratch) {
                self.fail(WorkerFailure::Transfer {
                    visit: Visit { offset: 0, len: 0 },
                    error,
                });
            }
        }
    }

    /// Starts the next visit with `slot`; without one, the slot rests.
    #[inline]
    fn launch(&mut self, mut slot: Slot) {
        let Some(visit) = self.offsets.next() else {
            return;
        };
        let direction = match self.work.read_percent {
            None => self.work.direction,
            Some(percent) if self.offsets.draws_read(percent) => Direction::Read,
            Some(_) => Direction::Write,
        };
        let refill = direction == Direction::Write && self.work.content == Content::EveryTime;
        if refill && !self.fill(&mut slot, visit) {
            return;
        }
        let index = slot.index();
        self.flying[index] = InFlight {
            since: Instant::now(),
            visit,
        };
        let transfer = Transfer {
            direction,
            file: self.file,
            offset: visit.offset,
            len: visit.len as usize,
            slot,
            tag: 0,
        };
        match self.path.submit(transfer) {
            Ok(()) => self.busy += 1,
            Err(rejected) => {
                self.fail(WorkerFailure::Transfer {
                    visit,
                    error: rejected.error,
                });
            }
        }
    }

    /// Puts the pattern of a position into a slot; whether that worked.
    fn fill(&mut self, slot: &mut Slot, visit: Visit) -> bool {
        let len = visit.len as usize;
        if let Some(bytes) = slot.host_mut() {
            self.work.pattern.fill(visit.offset, &mut bytes[..len]);
            return true;
        }
        self.work
            .pattern
            .fill(visit.offset, &mut self.scratch[..len]);
        match slot.copy_in(&self.scratch[..len]) {
            Ok(()) => true,
            Err(error) => {
                self.fail(WorkerFailure::Transfer { visit, error });
                false
            }
        }
    }

    /// Writes down a transfer that is over and gives its slot back.
    #[inline]
    fn take_up(&mut self, completion: Completion, now: Instant, started: Instant) -> Slot {
        let Completion { slot, result, .. } = completion;
        let InFlight { since, visit } = self.flying[slot.index()];
        match result {
            Ok(moved) if moved as u64 == visit.len => {
                // Saturates to zero for what was submitted after `now` was read.
                let latency_ns = now.saturating_duration_since(since).as_nanos() as u64;
                if now >= started {
                    let elapsed_ns = (now - started).as_nanos() as u64;
                    self.recorder.record(latency_ns, elapsed_ns, visit.len);
                }
                if self.work.verify {
                    self.check(&slot, visit);
                }
            }
            Ok(moved) => self.fail(WorkerFailure::Short { visit, moved }),
            Err(error) => self.fail(WorkerFailure::Transfer { visit, error }),
        }
        slot
    }

    /// Compares what was read with the pattern.
    fn check(&mut self, slot: &Slot, visit: Visit) {
        let len = visit.len as usize;
        let result = if let Some(bytes) = slot.host() {
            self.work.pattern.check(visit.offset, &bytes[..len])
        } else {
            if let Err(error) = slot.copy_out(&mut self.scratch[..len]) {
                self.fail(WorkerFailure::Transfer { visit, error });
                return;
            }
            self.work.pattern.check(visit.offset, &self.scratch[..len])
        };
        match result {
            Ok(()) => self.verified_bytes += visit.len,
            Err(mismatch) => self.fail(WorkerFailure::Mismatch { visit, mismatch }),
        }
    }

    /// Remembers the first failure and ends the others.
    fn fail(&mut self, failure: WorkerFailure) {
        self.failure.get_or_insert(failure);
        self.shared.failed.stop();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::offsets::SizeRange;
    use super::*;
    use std::io::Write as _;
    use std::sync::Arc;
    use stormlp_model::path::{EngineKind, PathKind};
    use stormlp_transfer::{HostStandIn, PathSpec, Region, buffers_needed, build_path};

    const BLOCK: u64 = 4096;

    fn offsets(len: u64, passes: Option<u64>) -> OffsetSpec {
        let size = SizeRange {
            min_bytes: BLOCK,
            max_bytes: BLOCK,
            step_bytes: 0,
        };
        OffsetSpec {
            start: 0,
            len,
            size,
            random: false,
            align: BLOCK,
            seed: 1,
            passes,
        }
    }

    fn work(direction: Direction, len: u64) -> Work {
        Work {
            direction,
            read_percent: None,
            offsets: offsets(len, Some(1)),
            content: if direction == Direction::Read {
                Content::Untouched
            } else {
                Content::EveryTime
            },
            verify: direction == Direction::Read,
            pattern: Pattern::new(1, 1),
            warmup: Duration::ZERO,
            duration: None,
        }
    }

    fn run(kind: PathKind, file: std::fs::File, work: Work) -> Outcome {
        let mut region = Region::new(1 << 20).unwrap();
        let (hosts, _) = buffers_needed(kind, 4);
        let mut path = build_path(PathSpec {
            kind,
            engine: EngineKind::Psync,
            host: (0..hosts)
                .map(|_| region.carve(BLOCK as usize, 4096).unwrap())
                .collect(),
            accelerator_buffers: Vec::new(),
            accelerator: Arc::new(HostStandIn),
            submit_batch: 4,
            max_files: 1,
            register_buffers: false,
        })
        .unwrap();
        let file = path.attach(file).unwrap();
        run_path(path, file, work)
    }

    fn run_path(path: Box<dyn TransferPath>, file: FileId, work: Work) -> Outcome {
        let shared = Shared {
            start: Gate::default(),
            bytes: AtomicU64::new(0),
            stop: StopToken::new(),
            failed: StopToken::new(),
            finished: AtomicUsize::new(0),
        };
        std::thread::scope(|scope| {
            scope.spawn(|| shared.start.open(1));
            Worker::new(path, file, work, &shared, Recorder::new(1_000_000)).run()
        })
    }

    /// A path whose third transfer fails, whatever lies beneath.
    struct Broken(Box<dyn TransferPath>, u32);

    impl TransferPath for Broken {
        fn attach(&mut self, file: File) -> Result<FileId, TransferError> {
            self.0.attach(file)
        }
        fn detach(&mut self, file: FileId) -> Result<(), TransferError> {
            self.0.detach(file)
        }
        fn take_slots(&mut self) -> Vec<Slot> {
            self.0.take_slots()
        }
        fn submit(&mut self, transfer: Transfer) -> Result<(), stormlp_transfer::Rejected> {
            self.0.submit(transfer)
        }
        fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), TransferError> {
            self.0.wait(min, done)?;
            for completion in done {
                self.1 += 1;
                if self.1 == 3 {
                    let source = std::io::Error::from_raw_os_error(5);
                    completion.result = Err(TransferError::Io {
                        action: "the read",
                        source,
                    });
                }
            }
            Ok(())
        }
        fn evidence(&self) -> Evidence {
            self.0.evidence()
        }
    }

    #[test]
    fn an_error_of_the_device_ends_the_worker_and_keeps_its_errno() {
        let mut region = Region::new(1 << 20).unwrap();
        let mut path = build_path(PathSpec {
            kind: PathKind::Null,
            engine: EngineKind::Psync,
            host: vec![region.carve(BLOCK as usize, 4096).unwrap()],
            accelerator_buffers: Vec::new(),
            accelerator: Arc::new(HostStandIn),
            submit_batch: 1,
            max_files: 1,
            register_buffers: false,
        })
        .unwrap();
        let file = path.attach(tempfile::tempfile().unwrap()).unwrap();
        let work = Work {
            verify: false,
            ..work(Direction::Read, 100 * BLOCK)
        };
        let outcome = run_path(Box::new(Broken(path, 0)), file, work);
        let Some(WorkerFailure::Transfer { error, visit }) = outcome.failure else {
            panic!()
        };
        assert_eq!((error.errno(), visit.offset), (Some(5), 2 * BLOCK));
        assert_eq!(outcome.recorder.operations, 2);
    }

    fn written(bytes: usize) -> std::fs::File {
        let mut content = vec![0; bytes];
        Pattern::new(1, 1).fill(0, &mut content);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&content).unwrap();
        file
    }

    #[test]
    fn a_verified_pass_counts_every_block_once() {
        let outcome = run(
            PathKind::Buffered,
            written(40 * 4096),
            work(Direction::Read, 40 * BLOCK),
        );
        assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
        assert_eq!(
            (outcome.recorder.operations, outcome.recorder.bytes),
            (40, 40 * BLOCK)
        );
        assert_eq!(outcome.recorder.latency.len(), 40);
        assert_eq!(outcome.verified_bytes, 40 * BLOCK);
    }

    #[test]
    fn what_a_write_leaves_a_verifying_read_accepts() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let outcome = run(
            PathKind::Buffered,
            file.reopen().unwrap(),
            work(Direction::Write, 8 * BLOCK),
        );
        assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
        let outcome = run(
            PathKind::Buffered,
            file.reopen().unwrap(),
            work(Direction::Read, 8 * BLOCK),
        );
        assert_eq!(outcome.verified_bytes, 8 * BLOCK);
    }

    #[test]
    fn a_changed_byte_is_found_with_its_place() {
        let mut file = written(8 * 4096);
        std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(5 * BLOCK + 7)).unwrap();
        file.write_all(&[0]).unwrap();
        let outcome = run(PathKind::Buffered, file, work(Direction::Read, 8 * BLOCK));
        let Some(WorkerFailure::Mismatch { visit, mismatch }) = outcome.failure else {
            panic!("{:?}", outcome.failure)
        };
        assert_eq!(
            (visit.offset, mismatch.at, mismatch.found),
            (5 * BLOCK, 7, 0)
        );
    }

    #[test]
    fn a_truncated_file_is_a_short_transfer_and_not_a_result() {
        let outcome = run(
            PathKind::Buffered,
            written(6 * 4096),
            work(Direction::Read, 8 * BLOCK),
        );
        let failure = outcome.failure.unwrap();
        assert!(
            matches!(failure, WorkerFailure::Short { moved: 0, .. }),
            "{failure:?}"
        );
    }

    #[test]
    fn a_timed_run_ends_and_reports_what_it_moved() {
        let work = Work {
            offsets: offsets(8 * BLOCK, None),
            duration: Some(Duration::from_millis(30)),
            verify: false,
            ..work(Direction::Read, 8 * BLOCK)
        };
        let outcome = run(PathKind::Null, tempfile::tempfile().unwrap(), work);
        assert!(outcome.recorder.operations > 100);
        assert_eq!(outcome.recorder.bytes, outcome.recorder.operations * BLOCK);
        assert!(outcome.ended > outcome.started);
    }
}
