//! The hot loop: one thread, one path, one share of a file.
//!
//! Between the start barrier and its end a worker allocates no memory (except for tokio-uring,
//! which creates a task for every operation) and shares only counters. It keeps every slot of its
//! path in flight, times each transfer from submission to completion, and hands over its recorder
//! at the end.

use std::fs::File;
use std::time::{Duration, Instant};

use stormlp_core::evidence::Evidence;
use stormlp_core::operation::Direction;
use stormlp_core::pattern::{Mismatch, Pattern};
use stormlp_transfer::thread_group::Start;
use stormlp_transfer::{CompletedTransfer, Driver, FileId, FileRange, Slot, Stamp, TransferError};

use super::offsets::{OffsetSpec, Offsets, Visit};
use super::recorder::Recorder;
use stormlp_core::stop::Ends;

/// Transfers of a rehearsal, unless the path has more slots.
const REHEARSED: u64 = 8;

/// Contents of write buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BufferFill {
    /// Reads leave buffers unchanged.
    Untouched,
    /// The pattern, filled once before the start.
    Once,
    /// The pattern of the position, filled before every write.
    EveryTime,
    /// Zeros, filled once before the start.
    Zeroes,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkerTask {
    /// Whether a few similar transfers precede the measurement so that cuFile counts their routes
    /// then and not in the measured part.
    pub(crate) rehearses: bool,
    pub(crate) direction: Direction,
    /// Percentage of reads in a mixed run; the rest are writes.
    pub(crate) read_percent: Option<u8>,
    pub(crate) offsets: OffsetSpec,
    pub(crate) fill: BufferFill,
    /// Verifies reads against the pattern.
    pub(crate) verify: bool,
    pub(crate) pattern: Pattern,
    /// Warm-up: its transfers are not counted.
    pub(crate) warmup: Duration,
    /// Time limit after the warm-up; if unset, the passes decide.
    pub(crate) duration: Option<Duration>,
}

/// Why a worker ended early.
#[derive(Debug)]
pub(crate) enum WorkerFailure {
    /// The path or a transfer failed.
    Transfer { visit: Visit, error: TransferError },
    /// A short read although the file should hold the data.
    Short { visit: Visit, moved: usize },
    /// The data read differs from the data written.
    Mismatch { visit: Visit, mismatch: Mismatch },
    /// The final sync failed: written data may be lost.
    Sync { error: std::io::Error },
}

/// The result of a worker.
#[derive(Debug)]
pub(crate) struct WorkerOutcome {
    pub(crate) recorder: Recorder,
    pub(crate) started: Instant,
    pub(crate) ended: Instant,
    pub(crate) evidence: Evidence,
    pub(crate) failure: Option<WorkerFailure>,
    /// Bytes verified against the pattern.
    pub(crate) verified_bytes: u64,
    /// Duration of the final sync, if requested.
    pub(crate) sync: Option<Duration>,
}

pub(crate) struct CellWorker<'a> {
    driver: Driver<'a, Visit>,
    file: FileId,
    work: WorkerTask,
    offsets: Offsets,
    ends: Ends<'a>,
    recorder: Recorder,
    scratch: Vec<u8>,
    verified_bytes: u64,
    failure: Option<WorkerFailure>,
    sync: Option<File>,
}

impl<'a> CellWorker<'a> {
    /// A worker over a path with `file` attached; `sync` is the file to sync at the end, within the
    /// measured time.
    pub(crate) fn new(
        mut driver: Driver<'a, Visit>,
        file: FileId,
        sync: Option<File>,
        work: WorkerTask,
        ends: Ends<'a>,
        recorder: Recorder,
    ) -> Self {
        let needs_scratch = work.verify || work.fill != BufferFill::Untouched;
        let slot_bytes = driver.idle().first().map_or(0, Slot::len);
        Self {
            driver,
            file,
            offsets: Offsets::new(work.offsets),
            work,
            ends,
            recorder,
            scratch: vec![0; if needs_scratch { slot_bytes } else { 0 }],
            verified_bytes: 0,
            failure: None,
            sync,
        }
    }

    /// Prepares, waits for the other threads, measures, and drains all transfers.
    pub(crate) fn run(mut self, start: &mut Start<'_>) -> WorkerOutcome {
        if let Err(error) = self.prepare() {
            self.fail(broken(error));
        }
        if self.work.rehearses && self.failure.is_none() {
            self.rehearse();
        }
        start.wait();
        let (started, begun) = (Instant::now() + self.work.warmup, self.driver.now());
        let begun = begun + self.work.warmup;
        self.driver.measure_from(started);
        let deadline = self.work.duration.map(|duration| begun + duration);
        self.launch_all();
        let mut last = begun;
        while self.driver.in_flight() > 0 {
            if let Err(error) = self.driver.wait(1) {
                // Transfers in flight are abandoned.
                self.fail(broken(error));
                break;
            }
            let now = self.driver.now();
            last = now;
            let go_on = deadline.is_none_or(|deadline| now < deadline) && !self.ends.are_near();
            while let Some(landed) = self.driver.next_landed() {
                let slot = self.take_up(landed, now, begun);
                if go_on && self.failure.is_none() {
                    self.launch(slot);
                } else {
                    self.driver.put_back(slot);
                }
            }
        }
        let mut ended = started + last.since(begun);
        let sync = self.sync.take().map(|file| {
            let before = Instant::now();
            if let Err(error) = file.sync_all() {
                self.fail(WorkerFailure::Sync { error });
            }
            ended = Instant::now();
            ended - before
        });
        // Querying cuFile's routes and releasing memory and files would disturb running workers.
        start.wait_for_the_others();
        if self.failure.is_none()
            && let Err(error) = self.driver.compare_whole()
        {
            self.fail(broken(error));
        }
        WorkerOutcome {
            sync,
            evidence: self.driver.evidence(),
            recorder: self.recorder,
            started,
            ended: ended.max(started),
            failure: self.failure,
            verified_bytes: self.verified_bytes,
        }
    }

    /// Fills buffers that are filled once.
    fn prepare(&mut self) -> Result<(), TransferError> {
        for (index, slot) in (0u64..).zip(self.driver.idle()) {
            match self.work.fill {
                BufferFill::Untouched | BufferFill::EveryTime => continue,
                BufferFill::Zeroes => self.scratch.fill(0),
                // Each slot gets different bytes, so that no identical blocks lie side by side.
                BufferFill::Once => {
                    let offset = index * self.scratch.len() as u64;
                    self.work.pattern.fill(offset, &mut self.scratch);
                }
            }
            slot.copy_in(&self.scratch)?;
        }
        Ok(())
    }

    /// Performs a few uncounted transfers if harmless; otherwise the first measured transfers are
    /// counted by route.
    fn rehearse(&mut self) {
        let transfers = REHEARSED.max(self.driver.idle().len() as u64);
        let Some(rehearsal) = self.work.offsets.rehearsal(transfers) else {
            return;
        };
        let measured = std::mem::replace(&mut self.offsets, Offsets::new(rehearsal));
        self.driver.rehearse();
        self.launch_all();
        while self.driver.in_flight() > 0 {
            if let Err(error) = self.driver.wait(1) {
                self.fail(broken(error));
                break;
            }
            while let Some(landed) = self.driver.next_landed() {
                let (visit, slot) = (landed.tag, landed.slot);
                match landed.result {
                    Ok(moved) if moved as u64 == visit.len => {}
                    Ok(moved) => self.fail(WorkerFailure::Short { visit, moved }),
                    Err(error) => self.fail(WorkerFailure::Transfer { visit, error }),
                }
                match self.failure {
                    None => self.launch(slot),
                    Some(_) => self.driver.put_back(slot),
                }
            }
        }
        self.driver.rehearsed();
        self.offsets = measured;
    }

    /// Starts a visit with every idle slot.
    fn launch_all(&mut self) {
        for _ in 0..self.driver.idle().len() {
            if self.failure.is_none()
                && let Some(slot) = self.driver.take_slot()
            {
                self.launch(slot);
            }
        }
    }

    /// Starts the next visit with `slot`; if there is none, the slot becomes idle.
    #[inline]
    fn launch(&mut self, mut slot: Slot) {
        let Some(mut visit) = self.offsets.next() else {
            return self.driver.put_back(slot);
        };
        let direction = match self.work.read_percent {
            None => self.work.direction,
            Some(percent) if self.offsets.draws_read(percent) => Direction::Read,
            Some(_) => Direction::Write,
        };
        visit.is_write = direction == Direction::Write;
        if direction == Direction::Write
            && self.work.fill == BufferFill::EveryTime
            && let Err(error) = self.fill(&mut slot, visit)
        {
            self.driver.put_back(slot);
            return self.fail(WorkerFailure::Transfer { visit, error });
        }
        let place =
            FileRange { direction, file: self.file, offset: visit.offset, len: visit.len as usize };
        if let Err(error) = self.driver.submit(slot, place, visit) {
            self.fail(WorkerFailure::Transfer { visit, error });
        }
    }

    /// Fills a slot with the pattern of its position.
    fn fill(&mut self, slot: &mut Slot, visit: Visit) -> Result<(), TransferError> {
        let len = visit.len as usize;
        if let Some(bytes) = slot.host_mut() {
            self.work.pattern.fill(visit.offset, &mut bytes[..len]);
            return Ok(());
        }
        self.work.pattern.fill(visit.offset, &mut self.scratch[..len]);
        slot.copy_in(&self.scratch[..len])
    }

    /// Records a completed transfer and frees its slot.
    #[inline]
    fn take_up(&mut self, landed: CompletedTransfer<Visit>, now: Stamp, begun: Stamp) -> Slot {
        let CompletedTransfer { tag: visit, slot, submitted, result } = landed;
        match result {
            Ok(moved) if moved as u64 == visit.len => {
                // Saturates to zero for transfers submitted after `now` was read.
                let latency_ns = now.nanos_since(submitted);
                if now >= begun {
                    self.recorder.record(latency_ns, visit.len, visit.is_write);
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

    /// Verifies the data read against the pattern.
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

    /// Records the first failure and stops the other workers.
    fn fail(&mut self, failure: WorkerFailure) {
        self.failure.get_or_insert(failure);
        self.ends.failed.stop();
    }
}

/// A path failure unrelated to a visit.
fn broken(error: TransferError) -> WorkerFailure {
    let visit = Visit { offset: 0, len: 0, is_write: false };
    WorkerFailure::Transfer { visit, error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::IoSize;
    use std::io::Write as _;
    use std::sync::Arc;
    use stormlp_core::path::{EngineKind, PathKind};
    use stormlp_core::stop::StopToken;
    use stormlp_transfer::thread_group;
    use stormlp_transfer::{
        Completion, DriverSet, HostStandIn, PathSpec, Region, Transfer, TransferPath,
        buffers_needed, build_path,
    };

    const BLOCK: u64 = 4096;

    fn offsets(len: u64, passes: Option<u64>) -> OffsetSpec {
        let size = IoSize::fixed(BLOCK);
        OffsetSpec { start: 0, len, size, random: false, align: BLOCK, seed: 1, passes }
    }

    fn work(direction: Direction, len: u64) -> WorkerTask {
        WorkerTask {
            rehearses: false,
            direction,
            read_percent: None,
            offsets: offsets(len, Some(1)),
            fill: if direction == Direction::Read {
                BufferFill::Untouched
            } else {
                BufferFill::EveryTime
            },
            verify: direction == Direction::Read,
            pattern: Pattern::new(1, 1),
            warmup: Duration::ZERO,
            duration: None,
        }
    }

    fn run(kind: PathKind, file: std::fs::File, work: WorkerTask) -> WorkerOutcome {
        run_over(kind, 4, file, work, |path| path)
    }

    /// A worker on a path with `depth` slots, wrapped by `wrap`.
    fn run_over(
        kind: PathKind,
        depth: usize,
        file: std::fs::File,
        work: WorkerTask,
        wrap: fn(Box<dyn TransferPath>) -> Box<dyn TransferPath>,
    ) -> WorkerOutcome {
        let (stop, failed) = (StopToken::new(), StopToken::new());
        let set = DriverSet::new(1);
        let body = |file, start: &mut Start<'_>| {
            let mut region = Region::new(1 << 20).unwrap();
            let (hosts, _) = buffers_needed(kind, depth);
            let path = build_path(PathSpec {
                kind,
                engine: EngineKind::Psync,
                host: (0..hosts).map(|_| region.carve(BLOCK as usize, 4096).unwrap()).collect(),
                accelerator_buffers: Vec::new(),
                accelerator: Arc::new(HostStandIn),
                submit_batch: depth,
                max_files: 1,
                register_buffers: false,
                page_aligned: false,
            });
            let mut driver = Driver::new(wrap(path.unwrap()), &set, 0);
            let file = driver.attach(file).unwrap();
            let ends = Ends { stop: &stop, failed: &failed };
            CellWorker::new(driver, file, None, work, ends, Recorder::new(false)).run(start)
        };
        let run = thread_group::run("worker", [file], &failed, body, |watch| watch.open());
        run.unwrap().0.pop().unwrap()
    }

    /// A path that always fails in the third transfer.
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
                    completion.result = Err(TransferError::Io { action: "the read", source });
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
        let work = WorkerTask { verify: false, ..work(Direction::Read, 100 * BLOCK) };
        let file = tempfile::tempfile().unwrap();
        let outcome = run_over(PathKind::Null, 1, file, work, |path| Box::new(Broken(path, 0)));
        let Some(WorkerFailure::Transfer { error, visit }) = outcome.failure else { panic!() };
        assert_eq!((error.errno(), visit.offset), (Some(5), 2 * BLOCK));
        assert_eq!(outcome.recorder.moved.operations, 2);
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
        let outcome =
            run(PathKind::Buffered, written(40 * 4096), work(Direction::Read, 40 * BLOCK));
        assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
        assert_eq!(
            (outcome.recorder.moved.operations, outcome.recorder.moved.bytes),
            (40, 40 * BLOCK)
        );
        assert_eq!(outcome.recorder.moved.latency.len(), 40);
        assert_eq!(outcome.verified_bytes, 40 * BLOCK);
    }

    #[test]
    fn what_a_write_leaves_a_verifying_read_accepts() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let outcome =
            run(PathKind::Buffered, file.reopen().unwrap(), work(Direction::Write, 8 * BLOCK));
        assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
        let outcome =
            run(PathKind::Buffered, file.reopen().unwrap(), work(Direction::Read, 8 * BLOCK));
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
        assert_eq!((visit.offset, mismatch.at, mismatch.found), (5 * BLOCK, 7, 0));
    }

    #[test]
    fn a_rehearsal_is_in_no_result() {
        for blocks in [40, 70] {
            let work = WorkerTask { rehearses: true, ..work(Direction::Read, blocks * BLOCK) };
            let outcome = run(PathKind::Buffered, written(blocks as usize * 4096), work);
            assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
            assert_eq!(outcome.recorder.moved.operations, blocks);
            assert_eq!(outcome.verified_bytes, blocks * BLOCK);
        }
    }

    #[test]
    fn a_truncated_file_is_a_short_transfer_and_not_a_result() {
        let outcome = run(PathKind::Buffered, written(6 * 4096), work(Direction::Read, 8 * BLOCK));
        let failure = outcome.failure.unwrap();
        assert!(matches!(failure, WorkerFailure::Short { moved: 0, .. }), "{failure:?}");
    }

    #[test]
    fn a_timed_run_ends_and_reports_its_transfers() {
        let work = WorkerTask {
            offsets: offsets(8 * BLOCK, None),
            duration: Some(Duration::from_millis(30)),
            verify: false,
            ..work(Direction::Read, 8 * BLOCK)
        };
        let outcome = run(PathKind::Null, tempfile::tempfile().unwrap(), work);
        assert!(outcome.recorder.moved.operations > 100);
        assert_eq!(outcome.recorder.moved.bytes, outcome.recorder.moved.operations * BLOCK);
        assert!(outcome.ended > outcome.started);
    }
}
