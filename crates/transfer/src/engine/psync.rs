//! `pread` and `pwrite` on the calling thread: what works everywhere, one at a time.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use stormlp_model::evidence::EngineFacts;
use stormlp_model::operation::Direction;
use stormlp_model::path::EngineKind;

use super::files::FileTable;
use super::{Engine, EngineBuffer, EngineSpec, FileId, Io, IoDone, number};
use crate::error::TransferError;

/// Does operations inside `wait`, one after the other: with more than one in flight the latency
/// holds the time in line, as it would on any device with one server.
pub(crate) struct PsyncEngine {
    files: FileTable,
    buffers: Vec<EngineBuffer>,
    line: VecDeque<Io>,
}

impl PsyncEngine {
    /// An engine over the given buffers.
    pub(crate) fn new(spec: EngineSpec) -> Self {
        Self {
            files: FileTable::new(spec.max_files),
            line: VecDeque::with_capacity(spec.buffers.len()),
            buffers: number(spec.buffers),
        }
    }

    /// Does one operation here and now.
    fn perform(&self, mut io: Io) -> IoDone {
        let file = self.files.get(io.file);
        let bytes = &mut io.buffer.bytes[..io.len];
        let result = loop {
            let result = match io.direction {
                Direction::Read => file.read_at(bytes, io.offset),
                Direction::Write => file.write_at(bytes, io.offset),
            };
            match result {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        IoDone {
            buffer: io.buffer,
            tag: io.tag,
            result,
        }
    }
}

impl Engine for PsyncEngine {
    fn attach(&mut self, file: File) -> Result<FileId, TransferError> {
        self.files.insert(file)
    }

    fn detach(&mut self, file: FileId) -> Result<(), TransferError> {
        self.files.remove(file);
        Ok(())
    }

    fn take_buffers(&mut self) -> Vec<EngineBuffer> {
        std::mem::take(&mut self.buffers)
    }

    fn submit(&mut self, io: Io) -> Result<(), Box<(Io, TransferError)>> {
        self.line.push_back(io);
        Ok(())
    }

    fn wait(&mut self, min: usize, done: &mut Vec<IoDone>) -> Result<(), TransferError> {
        // At least one, so that a caller who only polls gets on.
        for _ in 0..min.max(1) {
            let Some(io) = self.line.pop_front() else {
                break;
            };
            done.push(self.perform(io));
        }
        Ok(())
    }

    fn facts(&self) -> EngineFacts {
        EngineFacts {
            engine: EngineKind::Psync,
            ring_flags: Vec::new(),
            registered_buffers: false,
            registered_files: false,
            fallbacks: Vec::new(),
        }
    }
}
