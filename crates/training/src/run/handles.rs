//! Files that stay open between reads, like a record reader's.
//!
//! A stream may be read by any I/O thread. All of them read through duplicates of one open file, so
//! that the kernel's readahead sees one sequential reader, as under TensorFlow.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stormlp_transfer::FileId;
use stormlp_transfer::storage::Handle;

use super::machine::ReadRequest;
use super::records::RecordTracker;

/// Accelerator, stream and phase; a stream never outlives its phase.
pub(super) type StreamKey = (u32, u32, u64);

/// The stream that a request belongs to.
pub(super) fn stream_of(request: &ReadRequest) -> StreamKey {
    (request.accelerator, request.phase, request.read.lane)
}

/// An open stream: its file, and its record parser state between reads.
pub(super) struct Stream {
    pub(super) file: Handle,
    pub(super) records: Mutex<Option<RecordTracker>>,
}

/// The open streams of a run.
#[derive(Default)]
pub(super) struct Handles(Mutex<HashMap<StreamKey, Arc<Stream>>>);

impl Handles {
    fn lock(&self) -> MutexGuard<'_, HashMap<StreamKey, Arc<Stream>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the stream, opening it with `open` on first use. Only one read of a stream is in
    /// flight at a time, so there are no concurrent opens.
    pub(super) fn get<E>(
        &self,
        key: StreamKey,
        open: impl FnOnce() -> Result<Stream, E>,
    ) -> Result<Arc<Stream>, E> {
        if let Some(stream) = self.lock().get(&key) {
            return Ok(Arc::clone(stream));
        }
        let stream = Arc::new(open()?);
        self.lock().insert(key, Arc::clone(&stream));
        Ok(stream)
    }

    /// Returns the record parser state to a stream.
    pub(super) fn put_back(&self, key: StreamKey, records: Option<RecordTracker>) {
        if let Some(stream) = self.lock().get(&key) {
            *stream.records.lock().unwrap_or_else(PoisonError::into_inner) = records;
        }
    }

    /// Closes a finished stream.
    pub(super) fn close(&self, key: StreamKey) {
        self.lock().remove(&key);
    }

    /// Closes every stream.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }
}

/// The streams that an I/O thread has attached to its path.
#[derive(Debug)]
pub(super) struct Attached {
    limit: usize,
    ids: HashMap<StreamKey, FileId>,
}

impl Attached {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), ids: HashMap::new() }
    }

    pub(super) fn get(&self, key: StreamKey) -> Option<FileId> {
        self.ids.get(&key).copied()
    }

    /// Adds a stream; returns the file to detach when the limit is exceeded. Never evicts a stream
    /// that is `busy` in this thread.
    pub(super) fn insert(
        &mut self,
        key: StreamKey,
        id: FileId,
        busy: impl Fn(FileId) -> bool,
    ) -> Option<FileId> {
        self.ids.insert(key, id);
        if self.ids.len() <= self.limit {
            return None;
        }
        let mut idle = self.ids.iter().filter(|(other, id)| **other != key && !busy(**id));
        let idle = *idle.next()?.0;
        self.ids.remove(&idle)
    }

    pub(super) fn remove(&mut self, key: StreamKey) -> Option<FileId> {
        self.ids.remove(&key)
    }
}
