//! `s3`: GET and PUT of objects over one connection a thread, straight to and from host memory.

use std::collections::VecDeque;
use std::fs::File;
use std::io;

use stormlp_core::evidence::{DirectIo, Evidence, ObjectStore};
use stormlp_core::operation::Direction;
use stormlp_core::path::PathKind;

use super::PathSpec;
use crate::error::TransferError;
use crate::object::Session;
use crate::storage::{ObjectMode, OpenObject, put_key};
use crate::transfer::{Completion, FileId, Rejected, Slot, SlotMemory, Transfer, TransferPath};

/// Performs requests inside `wait`, one after the other: a connection has one in flight.
pub(crate) struct S3Path {
    slots: Vec<Slot>,
    line: VecDeque<Transfer>,
    objects: Vec<Option<OpenObject>>,
    /// One for each bucket: its connection serves all of the bucket's objects in turn.
    sessions: Vec<(String, Session)>,
}

impl S3Path {
    pub(crate) fn new(spec: PathSpec) -> Self {
        let slots = Slot::all(spec.host.into_iter().map(SlotMemory::Host));
        Self {
            line: VecDeque::with_capacity(slots.len()),
            slots,
            objects: Vec::new(),
            sessions: Vec::new(),
        }
    }

    fn perform(&mut self, transfer: Transfer) -> Completion {
        let Transfer { place, mut slot } = transfer;
        let attached = self.objects.get_mut(place.file.0 as usize).and_then(Option::as_mut);
        let object = attached.expect("transfers name attached objects");
        let of_bucket = self.sessions.iter_mut().find(|(bucket, _)| *bucket == object.bucket);
        let (_, session) = of_bucket.expect("attaching opens a session");
        let bytes = slot.part_mut(place.len).expect("the path has host memory");
        let key = &object.key;
        let result = match (place.direction, &mut object.mode) {
            (Direction::Read, ObjectMode::Read(facts)) => {
                let etag = session.get(key, place.offset, Some(facts), bytes);
                // All ranges must be of one object.
                etag.map(|etag| facts.etag = facts.etag.take().or(etag))
            }
            (Direction::Write, ObjectMode::Puts) => {
                let key = put_key(key, place.offset, place.len as u64);
                session.put(&key, bytes).map(drop)
            }
            (Direction::Write, ObjectMode::Upload(upload)) => {
                upload.part(session, place.offset, bytes)
            }
            (Direction::Read, _) | (Direction::Write, ObjectMode::Read(_)) => {
                let source = io::Error::from(io::ErrorKind::Unsupported);
                let result = Err(TransferError::Io { action: "a transfer", source });
                return Completion { slot, result };
            }
        };
        let result = result.map(|()| place.len).map_err(TransferError::from);
        Completion { slot, result }
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
        if self.sessions.iter().all(|(bucket, _)| *bucket != object.bucket) {
            self.sessions.push((object.bucket.clone(), object.client.session(&object.bucket)?));
        }
        let free = self.objects.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            self.objects.push(None);
            self.objects.len() - 1
        });
        self.objects[place] = Some(object);
        Ok(FileId(place as u32))
    }

    fn detach(&mut self, file: FileId) -> Result<(), TransferError> {
        self.objects[file.0 as usize] = None;
        Ok(())
    }

    fn take_slots(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.slots)
    }

    fn submit(&mut self, transfer: Transfer) -> Result<(), Rejected> {
        self.line.push_back(transfer);
        Ok(())
    }

    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), TransferError> {
        // At least one, so that a caller that only polls makes progress.
        for _ in 0..min.max(1) {
            let Some(transfer) = self.line.pop_front() else {
                break;
            };
            let completion = self.perform(transfer);
            done.push(completion);
        }
        Ok(())
    }

    fn stop_counting(&mut self) {
        self.sessions.iter_mut().for_each(|(_, session)| session.stop_rehearsing());
    }

    fn evidence(&self) -> Evidence {
        let sessions = self.sessions.iter().map(|(_, session)| session.evidence());
        let store = sessions.reduce(|sum, one| sum.plus(&one));
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
