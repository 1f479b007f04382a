//! Host memory standing in for accelerator memory, with a thread as its copy engine.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use stormlp_core::path::MemoryKind;

use crate::accelerator::device::{Accelerator, CopyQueue, QueuedCopy};
use crate::error::TransferError;
use crate::region::{HostBuffer, Region};
use crate::thread_group::ThreadGroupError;
use crate::transfer::AcceleratorBuffer;

/// Host memory standing in for accelerator memory. Reports call it emulated.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostStandIn;

impl Accelerator for HostStandIn {
    fn name(&self) -> String {
        "host memory (emulated)".to_string()
    }

    fn is_emulated(&self) -> bool {
        true
    }

    fn allocate(
        &self,
        bytes: usize,
        _kind: MemoryKind,
        region: &mut Region,
    ) -> Result<Box<dyn AcceleratorBuffer>, TransferError> {
        let buffer = region.carve(bytes, 4096).ok_or(TransferError::Memory {
            bytes,
            source: std::io::Error::from_raw_os_error(libc::ENOMEM),
        })?;
        Ok(Box::new(EmulatedBuffer(buffer)))
    }

    fn bind_thread(&self) -> Result<(), TransferError> {
        Ok(())
    }

    fn copy_queue(&self, capacity: usize) -> Result<Box<dyn CopyQueue>, TransferError> {
        Ok(Box::new(CopyThread::spawn(capacity)?))
    }
}

struct EmulatedBuffer(HostBuffer);

impl AcceleratorBuffer for EmulatedBuffer {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn address(&self) -> usize {
        self.0.as_raw() as usize
    }

    fn host(&self) -> Option<&[u8]> {
        Some(&self.0)
    }

    fn host_mut(&mut self) -> Option<&mut [u8]> {
        Some(&mut self.0)
    }
}

/// A thread that copies for the host stand-in, like a GPU's copy engine.
pub(crate) struct CopyThread {
    work: Option<SyncSender<QueuedCopy>>,
    finished: Receiver<QueuedCopy>,
    thread: Option<JoinHandle<()>>,
}

impl CopyThread {
    /// Starts the thread; at most `capacity` copies are queued.
    pub(crate) fn spawn(capacity: usize) -> Result<Self, TransferError> {
        let (work, queue) = sync_channel::<QueuedCopy>(capacity);
        let (done, finished) = sync_channel(capacity);
        let thread = std::thread::Builder::new()
            .name("copy".to_string())
            .spawn(move || {
                for mut copy in queue {
                    copy.run();
                    if done.send(copy).is_err() {
                        break;
                    }
                }
            })
            .map_err(ThreadGroupError::Start)?;
        Ok(Self { work: Some(work), finished, thread: Some(thread) })
    }
}

impl CopyQueue for CopyThread {
    fn enqueue(&mut self, copy: QueuedCopy) {
        let work = self.work.as_ref().expect("the channel lives until drop");
        work.send(copy).expect("the copy thread lives until drop");
    }

    fn wait(&mut self, min: usize, done: &mut Vec<QueuedCopy>) {
        let wanted = done.len() + min;
        while done.len() < wanted {
            done.push(self.finished.recv().expect("the copy thread lives until drop"));
        }
        done.extend(self.finished.try_iter());
    }
}

impl Drop for CopyThread {
    fn drop(&mut self) {
        drop(self.work.take());
        if let Some(thread) = self.thread.take() {
            // Queued copies are finished first; their buffers are dropped with the channel.
            let _ = thread.join();
        }
    }
}
