//! A mover: one thread with one transfer path that moves the bytes of several ranks.
//!
//! A rank is a small state machine: it opens a file, has its pieces moved, hands the file to a
//! clerk to be finished and goes on to the next. Ranks take turns, so each costs a few hundred
//! bytes and no thread.

use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use stormlp_model::checkpoint::{FsyncPolicy, Parts, RankResult, gib_per_second};
use stormlp_model::operation::Direction;
use stormlp_model::stop::StopToken;
use stormlp_transfer::{Completion, FileId, Slot, Transfer, TransferError, TransferPath};

use super::clerk::{Answer, Errand, FileTask, Job};
use super::content::Content;
use super::error::CheckpointError;
use super::pieces::{Piece, Pieces};

/// Direct transfers are whole blocks of this many bytes.
const BLOCK_BYTES: u64 = 4096;
/// How often a transfer that moved too little is tried again.
const MOST_ATTEMPTS: u32 = 3;

/// What all threads of one checkpoint share: counters and the wish to end.
pub(super) struct Shared<'a> {
    pub(super) moved_bytes: AtomicU64,
    pub(super) verified_bytes: AtomicU64,
    pub(super) failed: AtomicBool,
    pub(super) failure: Mutex<Option<CheckpointError>>,
    pub(super) stop: &'a StopToken,
}

impl<'a> Shared<'a> {
    /// Counters at zero.
    pub(super) fn new(stop: &'a StopToken) -> Self {
        Self {
            moved_bytes: AtomicU64::new(0),
            verified_bytes: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
            stop,
        }
    }

    /// Keeps the first failure and asks everyone to end.
    pub(super) fn fail(&self, error: CheckpointError) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(error);
        self.failed.store(true, Ordering::Release);
    }

    fn is_over(&self) -> bool {
        self.failed.load(Ordering::Relaxed) || self.stop.is_stopped()
    }
}

/// How the ranks of a checkpoint are moved.
#[derive(Debug, Clone, Copy)]
pub(super) struct Orders<'a> {
    pub(super) direction: Direction,
    pub(super) direct: bool,
    pub(super) chunk_bytes: u64,
    pub(super) streams: u32,
    pub(super) split: bool,
    pub(super) fsync: FsyncPolicy,
    pub(super) verify: bool,
    pub(super) stamped: bool,
    pub(super) content: &'a Content,
}

impl Orders<'_> {
    /// Host memory for one transfer, beside buffers that the CPU cannot reach: a save stamps the
    /// content's source in it. What is restored may have been saved in shorter transfers, or
    /// longer ones, than this run's.
    fn scratch(&self) -> Vec<u8> {
        let mut scratch = vec![0; self.chunk_bytes as usize];
        if self.direction == Direction::Write {
            scratch.copy_from_slice(&self.content.source()[..self.chunk_bytes as usize]);
        }
        scratch
    }
}

/// A rank and its files.
#[derive(Debug)]
pub(super) struct RankTask {
    pub(super) rank: u64,
    pub(super) files: VecDeque<FileTask>,
}

/// A file that is being moved.
struct OpenFile {
    task: FileTask,
    id: FileId,
    /// The same file, to finish it with.
    handle: File,
    pieces: Pieces,
    since: Instant,
}

/// A rank on its way through its files.
struct RankState {
    rank: u64,
    left: VecDeque<FileTask>,
    current: Option<OpenFile>,
    /// The file a clerk is opening.
    opening: Option<FileTask>,
    /// Files written but not yet synced, when a rank syncs all of them at its end.
    held: Vec<(File, FileTask)>,
    bytes: u64,
    parts: Parts,
    duration_seconds: Option<f64>,
}

/// A transfer in flight.
struct Flight {
    rank: usize,
    piece: Piece,
    attempts: u32,
}

/// The thread's state.
pub(super) struct Mover<'a> {
    path: Box<dyn TransferPath>,
    slots: Vec<Slot>,
    flights: Vec<Option<Flight>>,
    flying: usize,
    ranks: Vec<RankState>,
    /// The rank whose turn it is.
    turn: usize,
    /// Errands without an answer yet.
    errands_out: usize,
    errands: Sender<Errand>,
    reply: Sender<Answer>,
    answers: Receiver<Answer>,
    orders: Orders<'a>,
    shared: &'a Shared<'a>,
    scratch: Vec<u8>,
    start: Instant,
}

impl<'a> Mover<'a> {
    /// A mover over `path`, its buffers filled with the content's source.
    pub(super) fn new(
        mut path: Box<dyn TransferPath>,
        tasks: Vec<RankTask>,
        errands: Sender<Errand>,
        orders: Orders<'a>,
        shared: &'a Shared<'a>,
    ) -> Result<Self, TransferError> {
        let mut slots = path.take_slots();
        if orders.direction == Direction::Write {
            for slot in &mut slots {
                slot.copy_in(&orders.content.source()[..orders.chunk_bytes as usize])?;
            }
        }
        let (reply, answers) = std::sync::mpsc::channel();
        let needs_scratch = slots.iter().any(|slot| slot.host().is_none());
        Ok(Self {
            flights: slots.iter().map(|_| None).collect(),
            slots,
            path,
            flying: 0,
            ranks: tasks.into_iter().map(RankState::new).collect(),
            turn: 0,
            errands_out: 0,
            errands,
            reply,
            answers,
            orders,
            shared,
            scratch: match needs_scratch {
                true => orders.scratch(),
                false => Vec::new(),
            },
            start: Instant::now(),
        })
    }

    /// Moves every rank's files from `start` on. After a failure or a stop it only waits for what
    /// is under way.
    pub(super) fn run(&mut self, start: Instant) {
        self.start = start;
        if let Err(error) = self.work() {
            self.shared.fail(error);
        }
        self.settle();
    }

    /// What ran.
    pub(super) fn evidence(&self) -> stormlp_model::evidence::Evidence {
        self.path.evidence()
    }

    /// What each rank did. A rank that did not get to its end has no result.
    pub(super) fn results(&self) -> Vec<RankResult> {
        let result = |rank: &RankState| {
            let duration_seconds = rank.duration_seconds?;
            Some(RankResult {
                rank: rank.rank,
                duration_seconds,
                bytes: rank.bytes,
                gib_per_second: gib_per_second(rank.bytes, duration_seconds),
                parts: rank.parts,
            })
        };
        self.ranks.iter().filter_map(result).collect()
    }

    fn work(&mut self) -> Result<(), CheckpointError> {
        for rank in 0..self.ranks.len() {
            self.next_file(rank);
        }
        let mut done = Vec::with_capacity(self.flights.len());
        while !self.shared.is_over() {
            while let Ok(answer) = self.answers.try_recv() {
                self.answered(answer)?;
            }
            self.submit_all()?;
            if self.flying > 0 {
                self.path.wait(1, &mut done)?;
                for completion in done.drain(..) {
                    self.completed(completion)?;
                }
            } else if self.errands_out > 0 {
                // Only clerks are at work: nothing to do until one of them is done.
                if let Ok(answer) = self.answers.recv() {
                    self.answered(answer)?;
                }
            } else {
                break;
            }
        }
        Ok(())
    }

    /// Waits for transfers and errands that are under way, and closes files.
    fn settle(&mut self) {
        let mut done = Vec::new();
        while self.flying > 0 {
            if self.path.wait(1, &mut done).is_err() {
                break;
            }
            self.flying -= done.len().min(self.flying);
            self.slots.extend(done.drain(..).map(|over| over.slot));
        }
        while self.errands_out > 0 {
            let Ok(answer) = self.answers.recv() else {
                break;
            };
            self.errands_out -= 1;
            if let Err(error) = answer.result {
                self.shared.fail(error);
            }
        }
        for rank in &mut self.ranks {
            if let Some(open) = rank.current.take() {
                let _ = self.path.detach(open.id);
            }
            rank.held.clear();
        }
    }

    fn send(&mut self, rank: usize, job: Job) {
        self.errands_out += 1;
        let errand = Errand {
            rank,
            job,
            reply: self.reply.clone(),
        };
        self.errands
            .send(errand)
            .expect("clerks serve as long as there are movers");
    }

    /// Has the rank's next file opened; a rank without one is done.
    fn next_file(&mut self, rank: usize) {
        let state = &mut self.ranks[rank];
        let Some(task) = state.left.pop_front() else {
            let none = state.bytes == 0;
            let seconds = if none {
                0.0
            } else {
                self.start.elapsed().as_secs_f64()
            };
            state.duration_seconds = Some(seconds);
            return;
        };
        state.opening = Some(task.clone());
        let direct = self.orders.direct;
        let job = match self.orders.direction {
            Direction::Write => Job::Create { task, direct },
            Direction::Read => Job::Open { task, direct },
        };
        self.send(rank, job);
    }

    /// A clerk is done with an errand of a rank.
    fn answered(&mut self, answer: Answer) -> Result<(), CheckpointError> {
        self.errands_out -= 1;
        let state = &mut self.ranks[answer.rank];
        add(&mut state.parts, &answer.parts);
        let Some((file, handle)) = answer.result? else {
            self.next_file(answer.rank);
            return Ok(());
        };
        let task = state
            .opening
            .take()
            .expect("only a file being opened is answered with one");
        let id = self.path.attach(file)?;
        let orders = &self.orders;
        state.current = Some(OpenFile {
            id,
            handle,
            pieces: Pieces::new(task.bytes, orders.chunk_bytes, orders.streams, orders.split),
            task,
            since: Instant::now(),
        });
        Ok(())
    }

    /// Starts transfers while there are buffers and ranks with something to move.
    fn submit_all(&mut self) -> Result<(), CheckpointError> {
        let count = self.ranks.len();
        let mut idle = 0;
        while idle < count && !self.slots.is_empty() {
            let rank = self.turn;
            self.turn = (self.turn + 1) % count;
            let next = self.ranks[rank]
                .current
                .as_mut()
                .and_then(|open| open.pieces.next());
            match next {
                Some(piece) => {
                    idle = 0;
                    let slot = self.slots.pop().expect("checked above");
                    self.submit(
                        slot,
                        Flight {
                            rank,
                            piece,
                            attempts: 1,
                        },
                    )?;
                }
                None => idle += 1,
            }
        }
        Ok(())
    }

    fn submit(&mut self, mut slot: Slot, flight: Flight) -> Result<(), CheckpointError> {
        let open = self.ranks[flight.rank]
            .current
            .as_ref()
            .expect("a rank moves its open file");
        let (piece, key) = (flight.piece, open.task.key);
        if self.orders.direction == Direction::Write && self.orders.stamped {
            let len = piece.len as usize;
            match slot.host_mut() {
                Some(bytes) => self
                    .orders
                    .content
                    .stamp(key, piece.offset, &mut bytes[..len]),
                None => {
                    self.orders
                        .content
                        .stamp(key, piece.offset, &mut self.scratch[..len]);
                    slot.copy_in(&self.scratch[..len])?;
                }
            }
        }
        let len = match self.orders.direct {
            true => piece.len.next_multiple_of(BLOCK_BYTES),
            false => piece.len,
        };
        let index = slot.index();
        let transfer = Transfer {
            direction: self.orders.direction,
            file: open.id,
            offset: piece.offset,
            len: len as usize,
            slot,
            tag: index as u64,
        };
        match self.path.submit(transfer) {
            Ok(()) => {
                self.flights[index] = Some(flight);
                self.flying += 1;
                Ok(())
            }
            Err(rejected) => {
                self.slots.push(rejected.slot);
                Err(CheckpointError::on(
                    &self.file_name(flight.rank),
                    rejected.error,
                ))
            }
        }
    }

    /// The file a rank is moving, for messages.
    fn file_name(&self, rank: usize) -> PathBuf {
        self.ranks[rank]
            .current
            .as_ref()
            .map(|open| open.task.path.clone())
            .unwrap_or_default()
    }

    /// A transfer is over.
    fn completed(&mut self, completion: Completion) -> Result<(), CheckpointError> {
        self.flying -= 1;
        let flight = self.flights[completion.slot.index()]
            .take()
            .expect("only transfers in flight complete");
        let (rank, piece) = (flight.rank, flight.piece);
        let moved = match completion.result {
            Ok(moved) => moved as u64,
            Err(error) => {
                self.slots.push(completion.slot);
                return Err(CheckpointError::on(&self.file_name(rank), error));
            }
        };
        if moved < piece.len {
            return self.again(completion.slot, flight, moved);
        }
        if self.orders.verify && self.orders.direction == Direction::Read {
            self.check(rank, piece, &completion.slot)?;
        }
        self.slots.push(completion.slot);
        self.shared
            .moved_bytes
            .fetch_add(piece.len, Ordering::Relaxed);
        let state = &mut self.ranks[rank];
        state.bytes += piece.len;
        let open = state.current.as_mut().expect("a rank moves its open file");
        open.pieces.done(piece.stream);
        if open.pieces.is_finished() {
            self.finish_file(rank)?;
        }
        Ok(())
    }

    /// A transfer moved too little: it is done again, and given up when that does not help.
    fn again(&mut self, slot: Slot, flight: Flight, moved: u64) -> Result<(), CheckpointError> {
        if flight.attempts < MOST_ATTEMPTS {
            let attempts = flight.attempts + 1;
            return self.submit(slot, Flight { attempts, ..flight });
        }
        self.slots.push(slot);
        let open = self.ranks[flight.rank]
            .current
            .as_ref()
            .expect("a rank moves its open file");
        Err(CheckpointError::Short {
            path: open.task.path.clone(),
            found: flight.piece.offset + moved,
            expected: open.task.bytes,
        })
    }

    /// Compares what was read with what must be there.
    fn check(&mut self, rank: usize, piece: Piece, slot: &Slot) -> Result<(), CheckpointError> {
        let open = self.ranks[rank]
            .current
            .as_ref()
            .expect("a rank moves its open file");
        let len = piece.len as usize;
        let bytes = match slot.host() {
            Some(bytes) => &bytes[..len],
            None => {
                slot.copy_out(&mut self.scratch[..len])?;
                &self.scratch[..len]
            }
        };
        self.orders
            .content
            .check(open.task.key, piece.offset, bytes)
            .map_err(|mismatch| CheckpointError::Corrupt {
                path: open.task.path.clone(),
                at: piece.offset + mismatch.at as u64,
                expected: mismatch.expected,
                found: mismatch.found,
            })?;
        self.shared
            .verified_bytes
            .fetch_add(piece.len, Ordering::Relaxed);
        Ok(())
    }

    /// All pieces of a rank's file are moved: a clerk does the rest.
    fn finish_file(&mut self, rank: usize) -> Result<(), CheckpointError> {
        let state = &mut self.ranks[rank];
        let open = state.current.take().expect("a rank finishes its open file");
        state.parts.transfer_seconds += open.since.elapsed().as_secs_f64();
        self.path.detach(open.id)?;
        let last = state.left.is_empty();
        if self.orders.direction == Direction::Read {
            self.send(rank, Job::Close(open.handle));
            return Ok(());
        }
        state.held.push((open.handle, open.task));
        if self.orders.fsync == FsyncPolicy::PerCheckpoint && !last {
            self.next_file(rank);
            return Ok(());
        }
        let files = std::mem::take(&mut state.held);
        let sync = self.orders.fsync != FsyncPolicy::None;
        self.send(rank, Job::Finish { files, sync, last });
        Ok(())
    }
}

impl RankState {
    fn new(task: RankTask) -> Self {
        Self {
            rank: task.rank,
            left: task.files,
            current: None,
            opening: None,
            held: Vec::new(),
            bytes: 0,
            parts: Parts::default(),
            duration_seconds: None,
        }
    }
}

/// Adds what a clerk measured.
fn add(parts: &mut Parts, more: &Parts) {
    parts.open_seconds += more.open_seconds;
    parts.transfer_seconds += more.transfer_seconds;
    parts.fsync_seconds += more.fsync_seconds;
    parts.rename_seconds += more.rename_seconds;
    parts.close_seconds += more.close_seconds;
}
