//! A mover: one thread with one transfer path that moves the data of several ranks.
//!
//! A rank is a small state machine: it opens a file, has its pieces moved, hands the file to a
//! `blocking_pool` to be finished and continues with the next. Ranks take turns, so each costs a
//! few hundred bytes and no thread.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use crate::plan::FsyncPolicy;
use crate::report::{PartSeconds, RankResult, gib_per_second};
use stormlp_core::evidence::Evidence;
use stormlp_core::histogram::LatencyHistogram;
use stormlp_core::operation::Direction;
use stormlp_core::pattern::Mismatch;
use stormlp_hosts::fault::Fault;
use stormlp_transfer::storage::Handle;
use stormlp_transfer::{CompletedTransfer, Driver, FileId, FileRange, Slot, TransferError};

use super::blocking_pool::{FileJob, FileReply, FileRequest, FileTask};
use super::content::CheckpointContent;
use super::error::CheckpointError;
use super::pieces::{FilePiece, FilePieces};
use stormlp_core::stop::Ends;
use stormlp_core::units::GIB;

/// Direct transfers are multiples of this block size.
const BLOCK_BYTES: u64 = 4096;
/// How long to wait for a client at most before looking for a request to stop.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// How often a short read is tried.
const MOST_ATTEMPTS: u32 = 3;

/// Transfer settings for the ranks of a checkpoint.
#[derive(Debug, Clone, Copy)]
pub(super) struct MoveRules<'a> {
    pub(super) direction: Direction,
    pub(super) direct: bool,
    pub(super) chunk_bytes: u64,
    pub(super) window: usize,
    pub(super) split: bool,
    pub(super) fsync: FsyncPolicy,
    pub(super) verify: bool,
    /// The official client's time for each GiB of a rank, in addition to its transfers.
    pub(super) client_seconds_per_gib: f64,
    pub(super) stamped: bool,
    pub(super) content: &'a CheckpointContent,
}

impl MoveRules<'_> {
    /// Turns `buffer`, which holds the source, into the content of `piece`.
    fn lay(&self, task: &FileTask, piece: FilePiece, buffer: &mut [u8]) {
        if self.stamped {
            self.content.stamp(task.key, piece.offset, buffer);
        }
        for (place, bytes) in task.framing_of(piece) {
            buffer[place..place + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Restores the source in the places where `piece` had something else than content.
    fn lift(&self, task: &FileTask, piece: FilePiece, buffer: &mut [u8]) {
        for (place, bytes) in task.framing_of(piece) {
            let range = place..place + bytes.len();
            buffer[range.clone()].copy_from_slice(&self.content.source()[range]);
        }
    }

    /// Compares the bytes read of a file with its expected content.
    fn compare(&self, task: &FileTask, piece: FilePiece, found: &[u8]) -> Result<(), Mismatch> {
        if !task.is_framed(piece) {
            return self.content.check(task.key, piece.offset, found);
        }
        // Correct framing is replaced by content before the check.
        let mut plain = found.to_vec();
        for (place, bytes) in task.framing_of(piece) {
            let pairs = bytes.iter().zip(&found[place..]);
            if let Some(at) = pairs.clone().position(|(wanted, found)| wanted != found) {
                return Err(Mismatch {
                    at: place + at,
                    expected: bytes[at],
                    found: found[place + at],
                });
            }
            let range = place..place + bytes.len();
            self.content.expect(task.key, piece.offset, range, &mut plain);
        }
        self.content.check(task.key, piece.offset, &plain)
    }
}

impl FileTask {
    /// The framing overlaid on `piece`.
    fn framing_of(&self, piece: FilePiece) -> impl Iterator<Item = (usize, &[u8])> {
        let framing = self.framing.iter();
        framing.flat_map(move |framing| framing.within(piece.offset, piece.len))
    }

    fn is_framed(&self, piece: FilePiece) -> bool {
        self.framing_of(piece).next().is_some()
    }
}

/// A rank and its files.
#[derive(Debug)]
pub(super) struct RankTask {
    pub(super) rank: u64,
    pub(super) files: VecDeque<FileTask>,
}

/// A file being moved.
struct MovingFile {
    task: FileTask,
    id: FileId,
    /// A second handle to the file, to finish it with.
    handle: Handle,
    pieces: FilePieces,
    since: Instant,
}

/// Progress of a rank through its files.
struct RankState {
    rank: u64,
    left: VecDeque<FileTask>,
    current: Option<MovingFile>,
    /// The file that a blocking_pool is opening.
    opening: Option<FileTask>,
    /// Files written but not yet synced, if a rank syncs all of them at its end.
    held: Vec<(Handle, FileTask)>,
    /// Until when the client is at work on the bytes moved; `None` without a client.
    at_work_until: Option<Instant>,
    bytes: u64,
    parts: PartSeconds,
    duration_seconds: Option<f64>,
}

/// A transfer in flight.
#[derive(Clone, Copy)]
pub(super) struct PieceInFlight {
    rank: usize,
    piece: FilePiece,
    attempts: u32,
}

/// The results of a mover.
pub(super) struct MoverResult {
    /// Results of the ranks that completed.
    pub(super) ranks: Vec<RankResult>,
    pub(super) evidence: Evidence,
    pub(super) verified_bytes: u64,
    /// Latency from submission of a transfer to its completion.
    pub(super) latency: LatencyHistogram,
    pub(super) failure: Option<CheckpointError>,
}

/// State of the thread.
pub(super) struct Mover<'a> {
    driver: Driver<'a, PieceInFlight>,
    ranks: Vec<RankState>,
    /// The next rank in turn.
    turn: usize,
    /// Number of unanswered requests.
    unanswered: usize,
    requests: Sender<FileRequest>,
    reply: Sender<FileReply>,
    answers: Receiver<FileReply>,
    rules: MoveRules<'a>,
    ends: Ends<'a>,
    /// Host memory for one transfer, for buffers that the CPU cannot access.
    scratch: Vec<u8>,
    verified_bytes: u64,
    latency: LatencyHistogram,
    start: Instant,
}

impl<'a> Mover<'a> {
    /// A mover over a path, with its buffers filled with the content's source.
    pub(super) fn new(
        mut driver: Driver<'a, PieceInFlight>,
        tasks: Vec<RankTask>,
        requests: Sender<FileRequest>,
        rules: MoveRules<'a>,
        ends: Ends<'a>,
    ) -> Result<Self, TransferError> {
        let chunk_bytes = rules.chunk_bytes as usize;
        let needs_scratch = driver.idle().iter().any(|slot| slot.host().is_none());
        // Data to be restored may have been saved with a shorter or longer transfer size than this
        // run's. Only a save needs the source here.
        let mut scratch = vec![0; if needs_scratch { chunk_bytes } else { 0 }];
        if rules.direction == Direction::Write {
            let source = &rules.content.source()[..chunk_bytes];
            for slot in driver.idle() {
                slot.copy_in(source)?;
            }
            if needs_scratch {
                scratch.copy_from_slice(source);
            }
        }
        let (reply, answers) = std::sync::mpsc::channel();
        Ok(Self {
            driver,
            ranks: tasks.into_iter().map(RankState::new).collect(),
            turn: 0,
            unanswered: 0,
            requests,
            reply,
            answers,
            rules,
            ends,
            scratch,
            verified_bytes: 0,
            latency: LatencyHistogram::new(),
            start: Instant::now(),
        })
    }

    /// Moves every rank's files, starting at `start`. After a failure or a stop it only waits for
    /// operations in progress.
    pub(super) fn run(mut self, start: Instant) -> MoverResult {
        self.start = start;
        let worked = self.work();
        if worked.is_err() {
            self.ends.failed.stop();
        }
        // An error now affects a checkpoint that has already failed or been stopped.
        let _ = self.driver.drain();
        let answered = self.await_answers();
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
        MoverResult {
            ranks: self.ranks.iter().filter_map(result).collect(),
            evidence: self.driver.evidence(),
            verified_bytes: self.verified_bytes,
            latency: std::mem::take(&mut self.latency),
            failure: worked.and(answered).err(),
        }
    }

    fn work(&mut self) -> Result<(), CheckpointError> {
        for rank in 0..self.ranks.len() {
            self.next_file(rank);
        }
        while !self.ends.are_near() {
            while let Ok(answer) = self.answers.try_recv() {
                self.answered(answer)?;
            }
            self.finish_those_done()?;
            self.submit_all()?;
            if self.driver.in_flight() > 0 {
                self.driver.wait(1)?;
                while let Some(landed) = self.driver.next_landed() {
                    self.completed(landed)?;
                }
            } else if let Some(pause) = self.clients_pause() {
                // A blocking_pool's answer may come first.
                if let Ok(answer) = self.answers.recv_timeout(pause) {
                    self.answered(answer)?;
                }
            } else if self.unanswered > 0 {
                // Only the blocking pool is busy: wait until a job is done.
                if let Ok(answer) = self.answers.recv() {
                    self.answered(answer)?;
                }
            } else {
                break;
            }
        }
        Ok(())
    }

    /// Waits for the outstanding jobs of the blocking pool.
    fn await_answers(&mut self) -> Result<(), CheckpointError> {
        let mut first = Ok(());
        while self.unanswered > 0
            && let Ok(answer) = self.answers.recv()
        {
            self.unanswered -= 1;
            first = first.and(answer.result.map(drop));
        }
        first
    }

    fn send(&mut self, rank: usize, job: FileJob) {
        self.unanswered += 1;
        let request = FileRequest { rank, job, reply: self.reply.clone() };
        self.requests.send(request).expect("the blocking pool serves as long as there are movers");
    }

    /// Requests opening of the rank's next file; a rank without one is done.
    fn next_file(&mut self, rank: usize) {
        let state = &mut self.ranks[rank];
        let Some(task) = state.left.pop_front() else {
            let none = state.bytes == 0;
            let seconds = if none { 0.0 } else { self.start.elapsed().as_secs_f64() };
            state.duration_seconds = Some(seconds);
            return;
        };
        state.opening = Some(task.clone());
        let direct = self.rules.direct;
        let job = match self.rules.direction {
            Direction::Write => FileJob::Create { task, direct },
            Direction::Read => FileJob::Open { task, direct },
        };
        self.send(rank, job);
    }

    /// Handles a blocking_pool's answer to a rank's request.
    fn answered(&mut self, answer: FileReply) -> Result<(), CheckpointError> {
        self.unanswered -= 1;
        let state = &mut self.ranks[answer.rank];
        state.parts += answer.parts;
        let Some((file, handle)) = answer.result? else {
            self.next_file(answer.rank);
            return Ok(());
        };
        let task = state.opening.take().expect("only a file being opened is answered with one");
        let id = self.driver.attach(file)?;
        let rules = &self.rules;
        state.current = Some(MovingFile {
            id,
            handle,
            pieces: FilePieces::new(task.bytes, rules.chunk_bytes, rules.window, rules.split),
            task,
            since: Instant::now(),
        });
        Ok(())
    }

    /// Starts transfers as long as there are free buffers and ranks with data to move.
    fn submit_all(&mut self) -> Result<(), CheckpointError> {
        let count = self.ranks.len();
        let mut idle = 0;
        while idle < count && self.driver.has_room() {
            let rank = self.turn;
            self.turn = (self.turn + 1) % count;
            let state = &mut self.ranks[rank];
            let free = !state.is_at_work();
            let next = state.current.as_mut().filter(|_| free).and_then(|open| open.pieces.next());
            match next {
                Some(piece) => {
                    idle = 0;
                    let slot = self.driver.take_slot().expect("checked above");
                    let flight = PieceInFlight { rank, piece, attempts: 1 };
                    self.submit(slot, flight)?;
                }
                None => idle += 1,
            }
        }
        Ok(())
    }

    fn submit(&mut self, mut slot: Slot, flight: PieceInFlight) -> Result<(), CheckpointError> {
        let open = self.ranks[flight.rank].open();
        let (piece, rules) = (flight.piece, &self.rules);
        let framed = open.task.is_framed(piece);
        if rules.direction == Direction::Write && (rules.stamped || framed) {
            let len = piece.len as usize;
            match slot.host_mut() {
                Some(bytes) => rules.lay(&open.task, piece, &mut bytes[..len]),
                None => {
                    rules.lay(&open.task, piece, &mut self.scratch[..len]);
                    slot.copy_in(&self.scratch[..len])?;
                    rules.lift(&open.task, piece, &mut self.scratch[..len]);
                }
            }
        }
        let len =
            if self.rules.direct { piece.len.next_multiple_of(BLOCK_BYTES) } else { piece.len };
        let place = FileRange {
            direction: self.rules.direction,
            file: open.id,
            offset: piece.offset,
            len: len as usize,
        };
        let path = &open.task.path;
        Ok(self.driver.submit(slot, place, flight).map_err(|error| Fault::on(path, error))?)
    }

    /// Handles a completed transfer.
    fn completed(
        &mut self,
        landed: CompletedTransfer<PieceInFlight>,
    ) -> Result<(), CheckpointError> {
        let CompletedTransfer { tag: flight, mut slot, submitted, result } = landed;
        self.latency.record_ns(self.driver.now().nanos_since(submitted));
        let (rank, piece) = (flight.rank, flight.piece);
        let moved = match result {
            Ok(moved) => moved as u64,
            Err(error) => {
                self.driver.put_back(slot);
                let open = self.ranks[rank].open();
                return Err(Fault::on(&open.task.path, error).into());
            }
        };
        if moved < piece.len {
            return self.again(slot, flight, moved);
        }
        if self.rules.verify && self.rules.direction == Direction::Read {
            self.check(rank, piece, &slot)?;
        }
        if self.rules.direction == Direction::Write {
            self.lift(rank, piece, &mut slot)?;
        }
        self.driver.put_back(slot);
        let state = &mut self.ranks[rank];
        state.bytes += piece.len;
        state.work_on(piece.len, self.rules.client_seconds_per_gib);
        let open = state.current.as_mut().expect("a rank moves its open file");
        open.pieces.done(piece.stream);
        if open.pieces.is_finished() && state.at_work_until.is_none() {
            self.finish_file(rank)?;
        }
        Ok(())
    }

    /// Finishes the files that their ranks' clients are done with.
    fn finish_those_done(&mut self) -> Result<(), CheckpointError> {
        if self.rules.client_seconds_per_gib <= 0.0 {
            return Ok(());
        }
        for rank in 0..self.ranks.len() {
            let state = &self.ranks[rank];
            let is_moved = state.current.as_ref().is_some_and(|open| open.pieces.is_finished());
            if is_moved && !state.is_at_work() {
                self.finish_file(rank)?;
            }
        }
        Ok(())
    }

    /// How long until the first of the ranks' clients is done; `None` if none is at work.
    fn clients_pause(&self) -> Option<Duration> {
        let at_work = self.ranks.iter().filter(|state| state.current.is_some());
        let until = at_work.filter_map(|state| state.at_work_until).min()?;
        // Stop requests are looked for in between.
        Some(until.saturating_duration_since(Instant::now()).min(LONGEST_PAUSE))
    }

    /// Retries a short read, and fails once retries are exhausted.
    fn again(
        &mut self,
        slot: Slot,
        flight: PieceInFlight,
        moved: u64,
    ) -> Result<(), CheckpointError> {
        if flight.attempts < MOST_ATTEMPTS {
            let attempts = flight.attempts + 1;
            return self.submit(slot, PieceInFlight { attempts, ..flight });
        }
        self.driver.put_back(slot);
        let open = self.ranks[flight.rank].open();
        Err(CheckpointError::Short {
            path: open.task.path.clone(),
            found: flight.piece.offset + moved,
            expected: open.task.bytes,
        })
    }

    /// Removes overlaid framing from a buffer, so that the next file finds the source intact.
    fn lift(
        &mut self,
        rank: usize,
        piece: FilePiece,
        slot: &mut Slot,
    ) -> Result<(), CheckpointError> {
        let task = &self.ranks[rank].open().task;
        if !task.is_framed(piece) {
            return Ok(());
        }
        let len = piece.len as usize;
        match slot.host_mut() {
            Some(bytes) => self.rules.lift(task, piece, &mut bytes[..len]),
            None => slot.copy_in(&self.rules.content.source()[..len])?,
        }
        Ok(())
    }

    /// Compares the bytes read with the expected content.
    fn check(&mut self, rank: usize, piece: FilePiece, slot: &Slot) -> Result<(), CheckpointError> {
        let open = self.ranks[rank].open();
        let len = piece.len as usize;
        let bytes = match slot.host() {
            Some(bytes) => &bytes[..len],
            None => {
                slot.copy_out(&mut self.scratch[..len])?;
                &self.scratch[..len]
            }
        };
        self.rules.compare(&open.task, piece, bytes).map_err(|mismatch| {
            CheckpointError::Corrupt {
                path: open.task.path.clone(),
                at: piece.offset + mismatch.at as u64,
                expected: mismatch.expected,
                found: mismatch.found,
            }
        })?;
        self.verified_bytes += piece.len;
        Ok(())
    }

    /// Hands a rank's file, of which all pieces are moved, to a blocking_pool.
    fn finish_file(&mut self, rank: usize) -> Result<(), CheckpointError> {
        let state = &mut self.ranks[rank];
        let open = state.current.take().expect("a rank finishes its open file");
        state.parts.transfer_seconds += open.since.elapsed().as_secs_f64();
        self.driver.detach(open.id)?;
        let last = state.left.is_empty();
        if self.rules.direction == Direction::Read {
            self.send(rank, FileJob::Close(open.handle));
            return Ok(());
        }
        state.held.push((open.handle, open.task));
        if self.rules.fsync == FsyncPolicy::PerCheckpoint && !last {
            self.next_file(rank);
            return Ok(());
        }
        let files = std::mem::take(&mut state.held);
        let sync = self.rules.fsync != FsyncPolicy::None;
        self.send(rank, FileJob::Finish { files, sync, last });
        Ok(())
    }
}

impl RankState {
    fn open(&self) -> &MovingFile {
        self.current.as_ref().expect("a rank moves its open file")
    }

    /// Whether its client is at work on the bytes moved.
    fn is_at_work(&self) -> bool {
        self.at_work_until.is_some_and(|until| Instant::now() < until)
    }

    /// Queues so much work for its client.
    fn work_on(&mut self, bytes: u64, seconds_per_gib: f64) {
        if seconds_per_gib > 0.0 {
            let now = Instant::now();
            let since = self.at_work_until.map_or(now, |until| until.max(now));
            let seconds = seconds_per_gib * bytes as f64 / GIB as f64;
            self.at_work_until = Some(since + Duration::from_secs_f64(seconds));
        }
    }

    fn new(task: RankTask) -> Self {
        Self {
            rank: task.rank,
            left: task.files,
            current: None,
            opening: None,
            held: Vec::new(),
            at_work_until: None,
            bytes: 0,
            parts: PartSeconds::default(),
            duration_seconds: None,
        }
    }
}
