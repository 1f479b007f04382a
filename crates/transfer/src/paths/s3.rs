//! `s3`: GET and PUT of objects straight to and from host memory, over a connection for each slot.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use stormlp_core::evidence::{Evidence, ObjectChecksums, ObjectStore};
use stormlp_core::operation::Direction;
use stormlp_core::path::PathKind;

use super::PathSpec;
use super::s3_ranges::ReadRanges;
use crate::attached::Attached;
use crate::error::TransferError;
use crate::object::{Get, ObjectError, ObjectFacts, ObjectFault, Session};
use crate::storage::{ObjectMode, OpenObject, put_key};
use crate::thread_group::{Panicked, ThreadGroupError, guarded};
use crate::transfer::{
    Completion, FileId, FileRange, Rejected, Slot, SlotMemory, Transfer, TransferPath,
};

/// Performs requests over one connection or several. A connection has one in flight.
pub(crate) struct S3Path {
    slots: Vec<Slot>,
    objects: Attached<Arc<AttachedObject>>,
    connections: Connections,
    /// Their replies had no checksums.
    compared_ranges: Compared,
}

/// Comparison counts of objects that were read in ranges.
#[derive(Clone, Copy, Default)]
struct Compared(ObjectChecksums);

impl Compared {
    /// Adds the result of a comparison.
    fn count(
        &mut self,
        compared: Result<ObjectChecksums, ObjectError>,
    ) -> Result<(), TransferError> {
        let one = match &compared {
            Ok(one) => *one,
            Err(_) => ObjectChecksums { differed: 1, ..ObjectChecksums::default() },
        };
        self.0 = self.0.plus(one);
        Ok(compared.map(drop)?)
    }
}

enum Connections {
    /// One, which performs requests inside `wait`, one after the other.
    One { connection: Connection, line: VecDeque<Job> },
    /// Several, each on a separate thread.
    Several(Helpers),
}

/// An object that transfers name.
struct AttachedObject {
    object: OpenObject,
    /// The ETag of the first range that was read: all must be of one object.
    etag: OnceLock<String>,
    /// Its ranges that were read, if its checksum is known.
    ranges: Mutex<ReadRanges>,
}

/// A transfer of an attached object.
struct Job {
    attached: Arc<AttachedObject>,
    transfer: Transfer,
}

/// The server of one request at a time: a session with each bucket; its connection serves all of
/// the bucket's objects in turn.
#[derive(Default)]
struct Connection {
    sessions: Vec<(String, Session)>,
    /// When the measurement begins.
    measured_from: Option<Instant>,
    /// Ranges to compare with the rest of their object, and ranges that differed from an earlier
    /// read.
    ranges: ObjectChecksums,
}

impl Connection {
    /// Moves the bytes of a transfer.
    fn perform(&mut self, job: Job) -> Completion {
        let Job { attached, transfer: Transfer { place, mut slot } } = job;
        let bytes = slot.part_mut(place.len).expect("the path has host memory");
        let result = self.moved(&attached, place, bytes).map(|()| place.len);
        Completion { slot, result }
    }

    fn moved(
        &mut self,
        attached: &AttachedObject,
        place: FileRange,
        bytes: &mut [u8],
    ) -> Result<(), TransferError> {
        let OpenObject { key, mode, .. } = &attached.object;
        let session = self.session(&attached.object)?;
        match (place.direction, mode) {
            (Direction::Read, ObjectMode::Read(facts)) => {
                let etag = facts.etag.as_deref().or(attached.etag.get().map(String::as_str));
                let get = Get { etag, ..Get::of(key, place.offset, facts) };
                let found = session.get(get, bytes)?;
                attached.is_of_one(session, place.offset, found)?;
                let noted = attached.note(facts, place.offset, bytes);
                match noted {
                    Ok(noted) => self.ranges.ranges_unverified += u64::from(noted),
                    Err(_) => self.ranges.differed += 1,
                }
                Ok(noted.map(drop)?)
            }
            (Direction::Write, ObjectMode::Puts) => {
                let key = put_key(key, place.offset, place.len as u64);
                session.put(&key, bytes)?;
                Ok(())
            }
            (Direction::Write, ObjectMode::Upload(upload)) => {
                Ok(upload.part(session, place.offset, bytes)?)
            }
            (Direction::Read, _) | (Direction::Write, ObjectMode::Read(_)) => {
                let source = io::Error::from(io::ErrorKind::Unsupported);
                Err(TransferError::Io { action: "a transfer", source })
            }
        }
    }

    fn session(&mut self, object: &OpenObject) -> Result<&mut Session, TransferError> {
        let known = self.sessions.iter().position(|(bucket, _)| *bucket == object.bucket);
        let at = known.unwrap_or(self.sessions.len());
        if at == self.sessions.len() {
            let mut session = object.client.session(&object.bucket)?;
            if let Some(start) = self.measured_from {
                session.measure_from(start);
            }
            self.sessions.push((object.bucket.clone(), session));
        }
        Ok(&mut self.sessions[at].1)
    }

    /// Transfers that end before `start` only prepare the measurement.
    fn measure_from(&mut self, start: Instant) {
        self.measured_from = Some(start);
        self.sessions.iter_mut().for_each(|(_, session)| session.measure_from(start));
    }

    /// Its traffic, if any.
    fn evidence(&self) -> Option<ObjectStore> {
        let sessions = self.sessions.iter().map(|(_, session)| session.evidence());
        let mut store = sessions.reduce(|sum, one| sum.plus(&one))?;
        store.checksums = store.checksums.map(|found| found.plus(self.ranges));
        Some(store)
    }
}

impl AttachedObject {
    fn new(object: OpenObject) -> Self {
        Self { object, etag: OnceLock::new(), ranges: Mutex::default() }
    }

    /// Keeps the data read at `offset` if it is to be compared with the rest of the object, and
    /// tells whether it is.
    fn note(&self, facts: &ObjectFacts, offset: u64, body: &[u8]) -> Result<bool, ObjectError> {
        let bytes = body.len() as u64;
        // One that is the whole object has been compared.
        let Some(of_object) = facts.checksum.filter(|_| bytes != facts.bytes) else {
            return Ok(false);
        };
        let checksum = of_object.like(body);
        let mut ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        let added = ranges.add(offset, bytes, checksum);
        added.map(|()| true).map_err(|what| self.wrong(offset, what))
    }

    /// Compares the ranges that were read with the object's checksum, if they make up the object.
    fn compare(&self) -> Result<ObjectChecksums, ObjectError> {
        let ObjectMode::Read(facts) = &self.object.mode else {
            return Ok(ObjectChecksums::default());
        };
        let mut ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        ranges.compare(facts).map_err(|what| self.wrong(0, what))
    }

    /// The error of data at `offset`.
    fn wrong(&self, offset: u64, what: String) -> ObjectError {
        let OpenObject { bucket, key, .. } = &self.object;
        ObjectError::new("GET", (bucket, key), Some(offset), ObjectFault::Data(what))
    }

    /// Checks that a range with this ETag is of the object of the first one: it may have been asked
    /// for before that was known.
    fn is_of_one(
        &self,
        session: &Session,
        offset: u64,
        found: Option<String>,
    ) -> Result<(), ObjectError> {
        let Some(found) = found.filter(|_| session.verifies()) else { return Ok(()) };
        let first = self.etag.get_or_init(|| found.clone());
        match *first == found {
            true => Ok(()),
            false => Err(session.replaced(&self.object.key, offset, &found, first)),
        }
    }
}

/// Threads with one connection each, which serve transfers in turn.
struct Helpers {
    connections: Vec<Arc<Mutex<Connection>>>,
    /// Closed at the end, which ends the threads.
    jobs: Option<Sender<Job>>,
    done: Receiver<Result<Completion, Panicked>>,
    in_flight: usize,
    /// Why a transfer never comes back, if one does not.
    lost: Option<String>,
    threads: Vec<JoinHandle<()>>,
}

impl Helpers {
    /// Starts `count` threads. They run where the calling thread may run.
    fn start(count: usize) -> Result<Self, TransferError> {
        let (jobs, queue) = channel::<Job>();
        let (sender, done) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let mut helpers = Self {
            connections: Vec::with_capacity(count),
            jobs: Some(jobs),
            done,
            in_flight: 0,
            lost: None,
            threads: Vec::with_capacity(count),
        };
        for _ in 0..count {
            let connection = Arc::<Mutex<Connection>>::default();
            helpers.connections.push(Arc::clone(&connection));
            let (queue, sender) = (Arc::clone(&queue), sender.clone());
            let serve = move || serve(&connection, &queue, &sender);
            let thread = thread::Builder::new().name("connection".to_string()).spawn(serve);
            helpers.threads.push(thread.map_err(ThreadGroupError::Start)?);
        }
        Ok(helpers)
    }

    /// Gives a transfer to the next idle thread.
    fn hand_over(&mut self, job: Job) {
        let jobs = self.jobs.as_ref().expect("it is closed at the end");
        jobs.send(job).expect("threads serve as long as jobs may come");
        self.in_flight += 1;
    }

    /// Waits for `min` transfers, or all if fewer are in flight.
    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), TransferError> {
        self.complain()?;
        for _ in 0..min.min(self.in_flight) {
            let landed = self.done.recv().expect("threads serve until the end");
            self.take(landed, done)?;
        }
        while let Ok(landed) = self.done.try_recv() {
            self.take(landed, done)?;
        }
        Ok(())
    }

    fn take(
        &mut self,
        landed: Result<Completion, Panicked>,
        done: &mut Vec<Completion>,
    ) -> Result<(), TransferError> {
        self.in_flight -= 1;
        match landed {
            Ok(completion) => done.push(completion),
            Err(panic) => self.lost = Some(panic.to_string()),
        }
        self.complain()
    }

    /// The transfer of a thread that panicked is lost: whoever waits for it would wait forever.
    fn complain(&self) -> Result<(), TransferError> {
        match &self.lost {
            None => Ok(()),
            Some(panic) => Err(TransferError::Io {
                action: "a connection",
                source: io::Error::other(panic.clone()),
            }),
        }
    }

    /// Calls `act` with each connection; no transfer is in flight.
    fn each(&mut self, act: impl Fn(&mut Connection)) {
        for connection in &self.connections {
            act(&mut connection.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// The traffic of all connections.
    fn evidence(&self) -> Option<ObjectStore> {
        let of = |connection: &Arc<Mutex<Connection>>| {
            connection.lock().unwrap_or_else(PoisonError::into_inner).evidence()
        };
        self.connections.iter().filter_map(of).reduce(|sum, one| sum.plus(&one))
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        drop(self.jobs.take());
        for thread in self.threads.drain(..) {
            // Whatever it panicked with was told.
            let _ = thread.join();
        }
    }
}

/// Performs transfers until no more can come.
fn serve(
    connection: &Mutex<Connection>,
    queue: &Mutex<Receiver<Job>>,
    done: &Sender<Result<Completion, Panicked>>,
) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = next else { return };
        let perform = || connection.lock().unwrap_or_else(PoisonError::into_inner).perform(job);
        // The path may be gone by now.
        let _ = done.send(guarded("connection", perform));
    }
}

impl S3Path {
    /// A path with one connection for each slot.
    ///
    /// # Errors
    /// When the process may not have so many threads.
    pub(crate) fn new(spec: PathSpec) -> Result<Self, TransferError> {
        let slots = Slot::all(spec.host.into_iter().map(SlotMemory::Host));
        let connections = match slots.len() {
            0 | 1 => Connections::One { connection: Connection::default(), line: VecDeque::new() },
            several => Connections::Several(Helpers::start(several)?),
        };
        let compared_ranges = Compared::default();
        Ok(Self { slots, objects: Attached::default(), connections, compared_ranges })
    }

    /// Calls `act` with each connection; no transfer is in flight.
    fn each(&mut self, act: impl Fn(&mut Connection)) {
        match &mut self.connections {
            Connections::One { connection, .. } => act(connection),
            Connections::Several(helpers) => helpers.each(act),
        }
    }
}

impl TransferPath for S3Path {
    fn attach(&mut self, _file: File) -> Result<FileId, TransferError> {
        Err(TransferError::Unavailable {
            what: "path s3".to_string(),
            reason: "it moves objects, not files".to_string(),
            remedy: "name a bucket: s3://bucket/prefix".to_string(),
        })
    }

    fn attach_object(&mut self, object: OpenObject) -> Result<FileId, TransferError> {
        Ok(self.objects.insert(Arc::new(AttachedObject::new(object))))
    }

    fn detach(&mut self, file: FileId) -> Result<(), TransferError> {
        match self.objects.remove(file) {
            Some(attached) => self.compared_ranges.count(attached.compare()),
            None => Ok(()),
        }
    }

    fn compare_whole(&mut self) -> Result<(), TransferError> {
        let mut attached = self.objects.iter();
        attached.try_for_each(|attached| self.compared_ranges.count(attached.compare()))
    }

    fn take_slots(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.slots)
    }

    fn submit(&mut self, transfer: Transfer) -> Result<(), Rejected> {
        let attached = self.objects.get(transfer.place.file);
        let attached = Arc::clone(attached.expect("transfers name attached objects"));
        let job = Job { attached, transfer };
        match &mut self.connections {
            Connections::One { line, .. } => line.push_back(job),
            Connections::Several(helpers) => helpers.hand_over(job),
        }
        Ok(())
    }

    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), TransferError> {
        let (connection, line) = match &mut self.connections {
            Connections::One { connection, line } => (connection, line),
            Connections::Several(helpers) => return helpers.wait(min, done),
        };
        // At least one, so that a caller that only polls makes progress.
        for _ in 0..min.max(1) {
            let Some(job) = line.pop_front() else {
                break;
            };
            done.push(connection.perform(job));
        }
        Ok(())
    }

    fn stop_counting(&mut self) {
        self.measure_from(Instant::now());
    }

    fn measure_from(&mut self, start: Instant) {
        self.each(|connection| connection.measure_from(start));
    }

    fn evidence(&self) -> Evidence {
        let mut store = match &self.connections {
            Connections::One { connection, .. } => connection.evidence(),
            Connections::Several(helpers) => helpers.evidence(),
        };
        if let Some(found) = store.as_mut().and_then(|store| store.checksums.as_mut()) {
            let Compared(compared) = self.compared_ranges;
            found.checked_bytes += compared.checked_bytes;
            found.responses_unverified -=
                compared.responses_unverified.min(found.responses_unverified);
            found.ranges_unverified -= compared.responses_unverified.min(found.ranges_unverified);
            found.differed += compared.differed;
        }
        Evidence {
            effective_path: Some(PathKind::S3),
            summary: store
                .as_ref()
                .map_or("no object was opened".to_string(), ObjectStore::to_text),
            object_store: store,
            ..Evidence::default()
        }
    }
}
