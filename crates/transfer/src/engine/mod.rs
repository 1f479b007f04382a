//! I/O engines: how CPU-driven paths issue reads and writes to the kernel.
//!
//! There are three with the same function: a raw ring per thread, tokio-uring, and plain
//! `pread`/`pwrite` for systems without io_uring. An engine moves bytes between files and host
//! buffers; the purpose of a buffer is up to the path.

mod psync;
#[cfg(feature = "tokio-uring")]
mod tokio_uring;
pub mod uring;

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use stormlp_core::evidence::EngineFacts;
use stormlp_core::facts::Availability;
use stormlp_core::path::EngineKind;

use crate::error::TransferError;
use crate::region::HostBuffer;
use crate::transfer::{Completion, Rejected, Transfer};
use crate::transfer::{Slot, SlotMemory};

use crate::transfer::FileId;

/// Issues reads and writes of host memory to the kernel; owned by one thread.
pub(crate) trait Engine {
    /// Registers a file.
    fn attach(&mut self, file: File) -> Result<FileId, TransferError>;

    /// Removes and closes a file that has no transfers in flight.
    fn detach(&mut self, file: FileId) -> Result<(), TransferError>;

    /// Returns the slots; call once.
    fn take_slots(&mut self) -> Vec<Slot>;

    /// Starts a read or write, or keeps it until the batch is full; on failure it is returned.
    fn submit(&mut self, transfer: Transfer) -> Result<(), Rejected>;

    /// Submits the batch and waits until `min` more are complete; returns all that are. An engine
    /// that cannot poll waits for one.
    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), TransferError>;

    /// The same for one more, but no longer than `limit` if the engine's wait can be bounded.
    fn wait_briefly(
        &mut self,
        limit: Duration,
        done: &mut Vec<Completion>,
    ) -> Result<(), TransferError> {
        let _ = limit;
        self.wait(1, done)
    }

    /// Whether operations run inside `wait`, so that the thread cannot do anything else.
    fn blocks(&self) -> bool {
        false
    }

    /// Lets a write to `eventfd` end a `wait`; `false` if the engine cannot be woken: it returns
    /// when its operations complete.
    fn wake_on(&mut self, eventfd: BorrowedFd<'_>) -> Result<bool, TransferError> {
        let _ = eventfd;
        Ok(false)
    }

    /// The engine's configuration.
    fn facts(&self) -> EngineFacts;
}

/// Why a build without tokio-uring lacks this engine.
#[cfg(not(feature = "tokio-uring"))]
const LEFT_OUT: [&str; 2] = [
    "this stormlp was built without tokio-uring",
    "use --engine uring, or a stormlp that was built with it",
];

/// Builds the engine of the given kind on the thread that will use it. It has a slot for each of
/// `buffers`, batches `submit_batch` submissions per system call, and has at most `max_files`
/// files attached at a time.
pub(crate) fn build(
    kind: EngineKind,
    buffers: Vec<HostBuffer>,
    submit_batch: usize,
    max_files: usize,
) -> Result<Box<dyn Engine>, TransferError> {
    let slots = Slot::all(buffers.into_iter().map(SlotMemory::Host));
    Ok(match kind {
        EngineKind::Uring => Box::new(uring::UringEngine::new(slots, submit_batch, max_files)?),
        #[cfg(feature = "tokio-uring")]
        EngineKind::TokioUring => {
            Box::new(tokio_uring::TokioUringEngine::new(slots, submit_batch)?)
        }
        #[cfg(not(feature = "tokio-uring"))]
        EngineKind::TokioUring => {
            let what = format!("engine {kind}");
            let [reason, remedy] = LEFT_OUT.map(str::to_string);
            return Err(TransferError::Unavailable { what, reason, remedy });
        }
        EngineKind::Psync => Box::new(psync::PsyncEngine::new(slots, max_files)),
    })
}

/// How often rings of this thread have entered the kernel.
#[cfg(test)]
pub(crate) fn uring_entered() -> u64 {
    uring::ENTERED.get()
}

/// Whether this build includes the tokio-uring engine.
pub(crate) fn has_tokio_uring() -> Availability {
    #[cfg(feature = "tokio-uring")]
    return Availability::Available;
    #[cfg(not(feature = "tokio-uring"))]
    return Availability::unavailable(LEFT_OUT[0], LEFT_OUT[1]);
}

/// The completion for the kernel's result of a read or write.
fn completion(slot: Slot, result: io::Result<usize>) -> Completion {
    Completion { slot, result: result.map_err(TransferError::io("the read or write")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::Region;
    use crate::transfer::FileRange;
    use std::io::Write as _;
    use stormlp_core::operation::Direction;

    const KINDS: [EngineKind; 3] = [EngineKind::Uring, EngineKind::TokioUring, EngineKind::Psync];

    /// Builds each engine that this machine supports, and prints which it does not.
    fn each_engine(check: impl Fn(&mut dyn Engine)) {
        for kind in KINDS {
            let mut region = Region::new(1 << 20).unwrap();
            let buffers = (0..4).map(|_| region.carve(8192, 4096).unwrap()).collect();
            match build(kind, buffers, 2, 4) {
                Ok(mut engine) => check(engine.as_mut()),
                Err(error) => {
                    stormlp_fixtures::skipped(format!("{kind}: {error}"), "permit io_uring")
                }
            }
        }
    }

    fn numbered_file(bytes: usize) -> File {
        let mut file = tempfile::tempfile().unwrap();
        let content: Vec<u8> = (0..bytes).map(|i| (i / 4096) as u8).collect();
        file.write_all(&content).unwrap();
        file
    }

    fn submit(
        engine: &mut dyn Engine,
        direction: Direction,
        (file, offset): (FileId, u64),
        slot: Slot,
    ) {
        let place = FileRange { direction, file, offset, len: 4096 };
        assert!(engine.submit(Transfer { place, slot }).is_ok());
    }

    #[test]
    fn every_engine_reads_to_the_end_of_a_file_and_stops_short() {
        each_engine(|engine| {
            let file = engine.attach(numbered_file(3 * 4096 + 100)).unwrap();
            for slot in engine.take_slots() {
                let offset = slot.index() as u64 * 4096;
                submit(engine, Direction::Read, (file, offset), slot);
            }
            let mut done = Vec::new();
            while done.len() < 4 {
                engine.wait(1, &mut done).unwrap();
            }
            for over in done {
                let block = over.slot.index();
                let expected = if block == 3 { 100 } else { 4096 };
                assert_eq!(over.result.unwrap(), expected);
                assert!(
                    over.slot.host().unwrap()[..expected]
                        .iter()
                        .all(|byte| usize::from(*byte) == block)
                );
            }
        });
    }

    #[test]
    fn every_engine_writes_and_reports_errors() {
        each_engine(|engine| {
            let file = tempfile::NamedTempFile::new().unwrap();
            let id = engine.attach(file.reopen().unwrap()).unwrap();
            let read_only = File::open(file.path()).unwrap();
            let read_only = engine.attach(read_only).unwrap();
            let mut slot = engine.take_slots().pop().unwrap();
            slot.host_mut().unwrap()[..4096].fill(7);
            let mut done = Vec::new();
            submit(engine, Direction::Write, (id, 4096), slot);
            engine.wait(1, &mut done).unwrap();
            let over = done.pop().unwrap();
            assert_eq!(over.result.unwrap(), 4096);
            assert_eq!(std::fs::read(file.path()).unwrap()[4096..], [7; 4096]);

            submit(engine, Direction::Write, (read_only, 0), over.slot);
            engine.wait(1, &mut done).unwrap();
            let error = done.pop().unwrap().result.unwrap_err();
            assert_eq!(error.errno(), Some(libc::EBADF));
        });
    }

    #[test]
    fn files_are_attached_and_detached_without_limit() {
        each_engine(|engine| {
            let mut slot = engine.take_slots().pop().unwrap();
            for _ in 0..20 {
                let id = engine.attach(numbered_file(4096)).unwrap();
                submit(engine, Direction::Read, (id, 0), slot);
                let mut done = Vec::new();
                engine.wait(1, &mut done).unwrap();
                let over = done.pop().unwrap();
                assert_eq!(over.result.unwrap(), 4096);
                slot = over.slot;
                engine.detach(id).unwrap();
            }
        });
    }

    #[test]
    fn a_write_to_the_eventfd_ends_a_wait_with_nothing_done() {
        use rustix::event::{EventfdFlags, eventfd};
        each_engine(|engine| {
            let wake = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
            if !engine.wake_on(std::os::fd::AsFd::as_fd(&wake)).unwrap() {
                return;
            }
            let (reader, _writer) = std::io::pipe().unwrap();
            let id = engine.attach(File::from(std::os::fd::OwnedFd::from(reader))).unwrap();
            let slot = engine.take_slots().pop().unwrap();
            // A read from an empty pipe would block the wait forever.
            submit(engine, Direction::Read, (id, 0), slot);
            for _ in 0..3 {
                rustix::io::write(&wake, &1u64.to_ne_bytes()).unwrap();
                let mut done = Vec::new();
                engine.wait(1, &mut done).unwrap();
                assert!(done.is_empty());
            }
            drop(_writer);
            let mut done = Vec::new();
            engine.wait(1, &mut done).unwrap();
            assert_eq!(done.pop().unwrap().result.unwrap(), 0);
        });
    }

    #[test]
    fn polling_alone_completes_reads_that_waited_for_the_device() {
        each_engine(|engine| {
            if engine.facts().engine == EngineKind::TokioUring {
                // It cannot poll: its `wait` completes at least one.
                return;
            }
            let (reader, mut writer) = std::io::pipe().unwrap();
            let id = engine.attach(File::from(std::os::fd::OwnedFd::from(reader))).unwrap();
            let slot = engine.take_slots().pop().unwrap();
            // On submission the pipe is empty for engines that read in the background.
            if engine.facts().engine == EngineKind::Psync {
                writer.write_all(&[7; 100]).unwrap();
                submit(engine, Direction::Read, (id, 0), slot);
            } else {
                submit(engine, Direction::Read, (id, 0), slot);
                engine.wait(0, &mut Vec::new()).unwrap();
                writer.write_all(&[7; 100]).unwrap();
            }
            let mut done = Vec::new();
            for _ in 0..1000 {
                engine.wait(0, &mut done).unwrap();
                if !done.is_empty() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            // A pipe has no offsets; the kernel's error for that is a valid result too.
            assert_eq!(done.len(), 1, "{:?}", engine.facts().engine);
        });
    }
}
