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

/// Does each operation inside `submit`.
pub(crate) struct PsyncEngine {
    files: FileTable,
    buffers: Vec<EngineBuffer>,
    done: VecDeque<IoDone>,
}

impl PsyncEngine {
    /// An engine over the given buffers.
    pub(crate) fn new(spec: EngineSpec) -> Self {
        Self {
            files: FileTable::new(spec.max_files),
            done: VecDeque::with_capacity(spec.buffers.len()),
            buffers: number(spec.buffers),
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

    fn submit(&mut self, mut io: Io) -> Result<(), Box<(Io, TransferError)>> {
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
        self.done.push_back(IoDone {
            buffer: io.buffer,
            tag: io.tag,
            result,
        });
        Ok(())
    }

    fn wait(&mut self, _min: usize, done: &mut Vec<IoDone>) -> Result<(), TransferError> {
        done.extend(self.done.drain(..));
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
