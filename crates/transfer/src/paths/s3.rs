//! `s3`: GET and PUT of objects straight to and from host memory, over a connection for each slot.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use stormlp_core::evidence::{DirectIo, Evidence, ObjectChecksums, ObjectStore};
use stormlp_core::operation::Direction;
use stormlp_core::path::PathKind;

use super::PathSpec;
use super::s3_helpers::Helpers;
use crate::error::TransferError;
use crate::object::{
    Checksum, Expected, ObjectError, ObjectFacts, ObjectFault, PART_BYTES, Session,
};
use crate::storage::{ObjectMode, OpenObject, put_key};
use crate::transfer::{
    Completion, FileId, Place, Rejected, Slot, SlotMemory, Transfer, TransferPath,
};

/// Performs requests over one connection or several. A connection has one in flight.
pub(crate) struct S3Path {
    slots: Vec<Slot>,
    objects: Vec<Option<Arc<Attached>>>,
    connections: Connections,
    /// What the checksums of parts showed; their replies had none.
    checked_by_parts: ObjectChecksums,
}

enum Connections {
    /// One, which performs requests inside `wait`, one after the other.
    One { connection: Connection, line: VecDeque<Job> },
    /// Several, each on a thread of its own.
    Several(Helpers),
}

/// An object that transfers name.
pub(super) struct Attached {
    object: OpenObject,
    /// The ETag of the first range that was read: all must be of one object.
    etag: OnceLock<String>,
    /// The checksums of its parts that were read, by their offsets, if its own is known.
    parts: Mutex<BTreeMap<u64, Part>>,
}

/// A part that was read.
struct Part {
    bytes: u64,
    checksum: Checksum,
}

/// A transfer of an attached object.
pub(super) struct Job {
    attached: Arc<Attached>,
    transfer: Transfer,
}

/// What serves one request at a time: a session with each bucket, whose connection serves all of the
/// bucket's objects in turn.
#[derive(Default)]
pub(super) struct Connection(Vec<(String, Session)>);

impl Connection {
    /// Moves the bytes of a transfer.
    pub(super) fn perform(&mut self, job: Job) -> Completion {
        let Job { attached, transfer: Transfer { place, mut slot } } = job;
        let bytes = slot.part_mut(place.len).expect("the path has host memory");
        let result = self.moved(&attached, place, bytes).map(|()| place.len);
        Completion { slot, result }
    }

    fn moved(
        &mut self,
        attached: &Attached,
        place: Place,
        bytes: &mut [u8],
    ) -> Result<(), TransferError> {
        let OpenObject { key, mode, .. } = &attached.object;
        let session = self.session(&attached.object)?;
        match (place.direction, mode) {
            (Direction::Read, ObjectMode::Read(facts)) => {
                let etag = facts.etag.as_deref().or(attached.etag.get().map(String::as_str));
                let of = Expected { bytes: facts.bytes, etag };
                let found = session.get(key, place.offset, Some(of), bytes)?;
                attached.is_of_one(session, place.offset, found)?;
                attached.note(facts, place, bytes);
                Ok(())
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
        let known = self.0.iter().position(|(bucket, _)| *bucket == object.bucket);
        let at = known.unwrap_or(self.0.len());
        if at == self.0.len() {
            self.0.push((object.bucket.clone(), object.client.session(&object.bucket)?));
        }
        Ok(&mut self.0[at].1)
    }

    /// Forgets what only prepared the measurement.
    pub(super) fn stop_counting(&mut self) {
        self.0.iter_mut().for_each(|(_, session)| session.stop_rehearsing());
    }

    /// What passed over it, if anything did.
    pub(super) fn evidence(&self) -> Option<ObjectStore> {
        let sessions = self.0.iter().map(|(_, session)| session.evidence());
        sessions.reduce(|sum, one| sum.plus(&one))
    }
}

impl Attached {
    /// Keeps the checksum of a range if it is a part, of which the whole object may be made up.
    fn note(&self, facts: &ObjectFacts, place: Place, body: &[u8]) {
        let Some(of_object) = facts.checksum else { return };
        let (offset, bytes) = (place.offset, place.len as u64);
        let is_last = offset + bytes == facts.bytes;
        let is_whole = offset == 0 && is_last;
        if offset.is_multiple_of(PART_BYTES) && (bytes == PART_BYTES || is_last) && !is_whole {
            let part = Part { bytes, checksum: of_object.like(body) };
            self.parts.lock().unwrap_or_else(PoisonError::into_inner).insert(offset, part);
        }
    }

    /// Compares the parts that were read with the object's checksum, if they make up the object.
    fn check(&self) -> Result<ObjectChecksums, ObjectError> {
        let OpenObject { bucket, key, mode, .. } = &self.object;
        let ObjectMode::Read(ObjectFacts { bytes, checksum: Some(of_object), .. }) = mode else {
            return Ok(ObjectChecksums::default());
        };
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let whole =
            parts.iter().try_fold((0, None::<Checksum>), |(end, before), (offset, part)| {
                let joined = match before {
                    None => part.checksum,
                    Some(before) => before.then(part.checksum, part.bytes),
                };
                (*offset == end).then_some((end + part.bytes, Some(joined)))
            });
        let same = match whole {
            Some((end, Some(read))) if end == *bytes => read.check_sent(*of_object),
            _ => None,
        };
        match same {
            None => Ok(ObjectChecksums::default()),
            Some(Ok(())) => {
                Ok(ObjectChecksums { checked_bytes: *bytes, replies_without: parts.len() as u64 })
            }
            Some(Err(what)) => {
                Err(ObjectError::new("GET", (bucket, key), Some(0), ObjectFault::Data(what)))
            }
        }
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
        let checked_by_parts = ObjectChecksums::default();
        Ok(Self { slots, objects: Vec::new(), connections, checked_by_parts })
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
        let free = self.objects.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            self.objects.push(None);
            self.objects.len() - 1
        });
        let (etag, parts) = (OnceLock::new(), Mutex::default());
        self.objects[place] = Some(Arc::new(Attached { object, etag, parts }));
        Ok(FileId(place as u32))
    }

    fn detach(&mut self, file: FileId) -> Result<(), TransferError> {
        if let Some(attached) = self.objects[file.0 as usize].take() {
            self.checked_by_parts = self.checked_by_parts.plus(attached.check()?);
        }
        Ok(())
    }

    fn take_slots(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.slots)
    }

    fn submit(&mut self, transfer: Transfer) -> Result<(), Rejected> {
        let attached = self.objects.get(transfer.place.file.0 as usize).and_then(Option::as_ref);
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
        match &mut self.connections {
            Connections::One { connection, .. } => connection.stop_counting(),
            Connections::Several(helpers) => helpers.each(Connection::stop_counting),
        }
    }

    fn evidence(&self) -> Evidence {
        let mut store = match &self.connections {
            Connections::One { connection, .. } => connection.evidence(),
            Connections::Several(helpers) => helpers.evidence(),
        };
        if let Some(found) = store.as_mut().and_then(|store| store.checksums.as_mut()) {
            let by_parts = self.checked_by_parts;
            found.checked_bytes += by_parts.checked_bytes;
            found.replies_without -= by_parts.replies_without.min(found.replies_without);
        }
        Evidence {
            effective_path: Some(PathKind::S3),
            summary: store
                .as_ref()
                .map_or("no object was opened".to_string(), ObjectStore::in_words),
            direct_io: DirectIo::NotAsked,
            engine: None,
            direct_storage: None,
            object_store: store,
        }
    }
}
