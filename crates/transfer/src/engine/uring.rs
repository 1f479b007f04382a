//! The raw ring: one per thread, with registered buffers and files.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use io_uring::{IoUring, opcode, squeue, types};
use stormlp_core::evidence::EngineFacts;
use stormlp_core::operation::Direction;
use stormlp_core::path::EngineKind;

use super::{Engine, completion};
use crate::attached::Attached;
use crate::error::TransferError;
use crate::transfer::FileId;
use crate::transfer::Slot;
use crate::transfer::{Completion, FileRange, Rejected, Transfer};

/// Marks the completion of the poll on the waking eventfd; no slot has this number.
const WAKE: u64 = u64::MAX;

/// `IORING_ENTER_GETEVENTS` of `io_uring_enter(2)`.
const GETEVENTS: u32 = 1;

#[cfg(test)]
thread_local! {
    /// How often rings of this thread have entered the kernel.
    pub(crate) static ENTERED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Operations on the thread's ring. The slot number is the user data of its operation, so a
/// completion finds its state without a search.
pub(crate) struct UringEngine {
    // Declared before everything the kernel may still write to: dropped first.
    ring: IoUring,
    in_flight: Vec<Option<Slot>>,
    slots: Vec<Slot>,
    files: Attached<File>,
    wake: Option<OwnedFd>,
    queued: usize,
    flying: usize,
    submit_batch: usize,
    facts: EngineFacts,
    /// An error on entering the kernel that `wait` has yet to report.
    broken: Option<TransferError>,
}

/// Sets up a minimal ring to test whether the kernel allows this process to use io_uring.
///
/// # Errors
/// The kernel's error: `EPERM` under seccomp or `kernel.io_uring_disabled`, `ENOSYS` without
/// io_uring.
pub fn probe() -> io::Result<Vec<String>> {
    build_ring(2).map(|(_, flags)| flags)
}

/// Builds a ring with as many of the desired flags as the kernel supports.
fn build_ring(entries: u32) -> io::Result<(IoUring, Vec<String>)> {
    let attempts: [&[&str]; 4] = [
        &["SINGLE_ISSUER", "DEFER_TASKRUN"],
        &["SINGLE_ISSUER", "COOP_TASKRUN"],
        &["COOP_TASKRUN"],
        &[],
    ];
    let mut last = None;
    for flags in attempts {
        let mut builder = IoUring::builder();
        // A buffer carries one operation, so completions never exceed twice the entries.
        builder.setup_cqsize(entries * 2).setup_clamp();
        for flag in flags {
            match *flag {
                "SINGLE_ISSUER" => builder.setup_single_issuer(),
                "DEFER_TASKRUN" => builder.setup_defer_taskrun(),
                _ => builder.setup_coop_taskrun(),
            };
        }
        match builder.build(entries) {
            Ok(ring) => return Ok((ring, flags.iter().map(ToString::to_string).collect())),
            // An old kernel returns EINVAL for an unknown flag; any other error is final.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => last = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::from_raw_os_error(libc::EINVAL)))
}

/// The user-facing error for a refusal.
fn refused(error: &io::Error) -> TransferError {
    TransferError::Unavailable {
        what: "io_uring".to_string(),
        reason: format!("the kernel returned {error}"),
        remedy: "allow io_uring (kernel.io_uring_disabled=0, a seccomp profile that permits it), \
                 or use --engine psync"
            .to_string(),
    }
}

impl UringEngine {
    /// Builds the ring on the calling thread and registers buffers and files with it.
    pub(crate) fn new(
        slots: Vec<Slot>,
        submit_batch: usize,
        max_files: usize,
    ) -> Result<Self, TransferError> {
        // One more entry than slots: the poll on the waking eventfd.
        let entries = (slots.len() + 1).next_power_of_two() as u32;
        let (ring, ring_flags) = build_ring(entries).map_err(|error| refused(&error))?;
        let mut facts = EngineFacts {
            engine: EngineKind::Uring,
            ring_flags,
            registered_buffers: true,
            registered_files: true,
            fallbacks: Vec::new(),
        };
        let vectors: Vec<libc::iovec> = slots
            .iter()
            .map(|slot| libc::iovec { iov_base: slot.start(), iov_len: slot.len() })
            .collect();
        // SAFETY: each vector is a live buffer of this engine; the kernel pins its pages, so the
        // mapping outlives the registration whatever happens to the buffers.
        if let Err(error) = unsafe { ring.submitter().register_buffers(&vectors) } {
            facts.registered_buffers = false;
            facts.fallbacks.push(format!(
                "buffers are not registered: {error}; raise the locked-memory limit (ulimit -l)"
            ));
        }
        let max_files = max_files.max(1);
        if let Err(error) = ring.submitter().register_files_sparse(max_files as u32) {
            facts.registered_files = false;
            facts.fallbacks.push(format!("files are not registered: {error}"));
        }
        Ok(Self {
            in_flight: slots.iter().map(|_| None).collect(),
            files: Attached::with_capacity(max_files),
            ring,
            slots,
            wake: None,
            queued: 0,
            flying: 0,
            submit_batch: submit_batch.max(1),
            facts,
            broken: None,
        })
    }

    /// The submission entry for an operation.
    fn entry(&self, place: &FileRange, slot: &Slot) -> squeue::Entry {
        let address = slot.start().cast::<u8>().wrapping_add(slot.written());
        let len = place.len as u32;
        let index = slot.index() as u16;
        macro_rules! entry_for {
            ($target:expr) => {
                match (place.direction, self.facts.registered_buffers) {
                    (Direction::Read, true) => opcode::ReadFixed::new($target, address, len, index)
                        .offset(place.offset)
                        .build(),
                    (Direction::Read, false) => {
                        opcode::Read::new($target, address, len).offset(place.offset).build()
                    }
                    (Direction::Write, true) => {
                        opcode::WriteFixed::new($target, address, len, index)
                            .offset(place.offset)
                            .build()
                    }
                    (Direction::Write, false) => {
                        opcode::Write::new($target, address, len).offset(place.offset).build()
                    }
                }
            };
        }
        let entry = if self.facts.registered_files {
            entry_for!(types::Fixed(place.file.0))
        } else {
            let file = self.files.get(place.file).expect("an attached file");
            entry_for!(types::Fd(file.as_raw_fd()))
        };
        entry.user_data(slot.index() as u64)
    }

    /// Submits queued entries to the kernel, waiting for `min` completions.
    fn enter(&mut self, min: usize) -> Result<(), TransferError> {
        let result = self.ring.submit_and_wait(min);
        self.entered(result)
    }

    /// Submits queued entries and makes the kernel post completions, without waiting. With
    /// DEFER_TASKRUN completions are posted only to a thread that asks for them.
    fn poll(&mut self) -> Result<(), TransferError> {
        // SAFETY: the queue is published up to `queued` entries by `push`, with buffers that
        // `in_flight` holds; no signal mask is passed.
        let result = unsafe {
            let queued = self.queued as u32;
            self.ring.submitter().enter::<libc::sigset_t>(queued, 0, GETEVENTS, None)
        };
        self.entered(result)
    }

    /// Handles the result of entering the kernel.
    fn entered(&mut self, result: io::Result<usize>) -> Result<(), TransferError> {
        match result {
            Ok(submitted) => {
                #[cfg(test)]
                ENTERED.set(ENTERED.get() + 1);
                self.queued = self.queued.saturating_sub(submitted);
                Ok(())
            }
            // A signal or a full completion queue: the caller reaps and retries.
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EINTR | libc::EBUSY | libc::EAGAIN)
                ) =>
            {
                Ok(())
            }
            Err(source) => Err(TransferError::io("submit to io_uring")(source)),
        }
    }

    /// Moves every posted completion to `done`; returns whether the waking poll was among them.
    fn reap(&mut self, done: &mut Vec<Completion>) -> bool {
        let mut woken = false;
        let mut completions = self.ring.completion();
        completions.sync();
        for entry in completions {
            if entry.user_data() == WAKE {
                woken = true;
                continue;
            }
            let Some(slot) = self.in_flight[entry.user_data() as usize].take() else {
                continue;
            };
            self.flying -= 1;
            let result = match entry.result() {
                n if n >= 0 => Ok(n as usize),
                n => Err(io::Error::from_raw_os_error(-n)),
            };
            done.push(completion(slot, result));
        }
        woken
    }

    /// Queues a poll on the waking eventfd.
    fn arm_wake(&mut self, fd: RawFd) -> Result<(), TransferError> {
        let entry =
            opcode::PollAdd::new(types::Fd(fd), libc::POLLIN as u32).build().user_data(WAKE);
        self.push(&entry)
    }

    /// Puts an entry on the submission queue, submitting first if the queue is full.
    fn push(&mut self, entry: &squeue::Entry) -> Result<(), TransferError> {
        loop {
            // SAFETY: the entry's address is a buffer that `in_flight` holds until its
            // completion is reaped (or an eventfd number), and its files stay attached.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                self.queued += 1;
                return Ok(());
            }
            self.enter(0)?;
        }
    }

    /// Resets the eventfd's counter and polls it again.
    fn rearm_wake(&mut self) -> Result<(), TransferError> {
        if let Some(wake) = &self.wake {
            let mut counter = [0u8; 8];
            // On an error (EAGAIN) the counter is unchanged.
            let _ = rustix::io::read(wake, &mut counter);
            let fd = wake.as_raw_fd();
            self.arm_wake(fd)?;
        }
        Ok(())
    }
}

impl Engine for UringEngine {
    fn attach(&mut self, file: File) -> Result<FileId, TransferError> {
        let fd = file.as_raw_fd();
        let id = self.files.insert(file);
        if self.facts.registered_files {
            self.ring
                .submitter()
                .register_files_update(id.0, &[fd])
                .map_err(TransferError::io("register a file"))?;
        }
        Ok(id)
    }

    fn detach(&mut self, file: FileId) -> Result<(), TransferError> {
        if self.facts.registered_files {
            self.ring
                .submitter()
                .register_files_update(file.0, &[-1])
                .map_err(TransferError::io("unregister a file"))?;
        }
        self.files.remove(file);
        Ok(())
    }

    fn take_slots(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.slots)
    }

    #[inline]
    fn submit(&mut self, transfer: Transfer) -> Result<(), Rejected> {
        let Transfer { place, slot } = transfer;
        let entry = self.entry(&place, &slot);
        if let Err(error) = self.push(&entry) {
            return Err(Rejected { slot, error });
        }
        let index = slot.index();
        self.in_flight[index] = Some(slot);
        self.flying += 1;
        // With all slots in flight the owner can only wait, which submits the queue.
        let all_fly = self.flying == self.in_flight.len();
        if self.queued >= self.submit_batch
            && !all_fly
            && let Err(error) = self.enter(0)
        {
            // The kernel accepted none of the batch and the ring is unusable; the operation stays
            // in flight until the engine is dropped, and the next `wait` reports the error.
            self.broken = Some(error);
        }
        Ok(())
    }

    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), TransferError> {
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        let wanted = done.len() + min.min(self.flying);
        // Completions may be posted already; then a single flush suffices.
        let mut woken = self.reap(done);
        if self.queued > 0 || (done.len() < wanted && !woken) || min == 0 {
            loop {
                let missing = wanted.saturating_sub(done.len());
                if woken || missing == 0 {
                    self.poll()?;
                } else {
                    self.enter(missing)?;
                }
                woken |= self.reap(done);
                if (done.len() >= wanted || woken) && self.queued == 0 {
                    break;
                }
            }
        }
        if woken {
            self.rearm_wake()?;
        }
        Ok(())
    }

    fn wait_briefly(
        &mut self,
        limit: Duration,
        done: &mut Vec<Completion>,
    ) -> Result<(), TransferError> {
        let before = done.len();
        self.wait(0, done)?;
        if done.len() > before || self.flying == 0 {
            return Ok(());
        }
        if !self.ring.params().is_feature_ext_arg() {
            // Before Linux 5.11 a wait has no timeout.
            std::thread::sleep(limit);
            return self.wait(0, done);
        }
        let limit = types::Timespec::new().nsec(limit.subsec_nanos());
        let until = types::SubmitArgs::new().timespec(&limit);
        let result = self.ring.submitter().submit_with_args(1, &until);
        match result {
            Err(error) if error.raw_os_error() == Some(libc::ETIME) => {}
            other => self.entered(other)?,
        }
        if self.reap(done) {
            self.rearm_wake()?;
        }
        Ok(())
    }

    fn wake_on(&mut self, eventfd: BorrowedFd<'_>) -> Result<bool, TransferError> {
        let wake =
            eventfd.try_clone_to_owned().map_err(TransferError::io("keep the waking eventfd"))?;
        self.arm_wake(wake.as_raw_fd())?;
        self.wake = Some(wake);
        Ok(true)
    }

    fn facts(&self) -> EngineFacts {
        self.facts.clone()
    }
}

impl Drop for UringEngine {
    fn drop(&mut self) {
        // The kernel may still write to buffers in flight: wait for them before freeing.
        let mut done = Vec::new();
        while self.flying > 0 {
            if self.enter(1).is_err() {
                // It is unknown when the kernel releases them, so their memory is leaked.
                std::mem::forget(std::mem::take(&mut self.in_flight));
                break;
            }
            self.reap(&mut done);
        }
        // Closing the ring unregisters buffers later, in the background; done here, the locked
        // memory is available to the next ring at once.
        if self.facts.registered_buffers {
            let _ = self.ring.submitter().unregister_buffers();
        }
    }
}
