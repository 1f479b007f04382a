//! Asynchronous copies by the device's copy engine.

use std::collections::VecDeque;
use std::sync::Arc;

use cudarc::driver::{CudaContext, sys};
use stormlp_core::operation::Direction;
use stormlp_core::transport::WaitMode;

use super::calls::{bind, failed};
use super::stream::{Stream, StreamEvent};
use crate::accelerator::device::{CopyQueue, QueuedCopy};
use crate::error::TransferError;
use crate::watchdog::{Hang, enter};

/// A stream of copies, each followed by an event.
pub(super) struct CudaCopies {
    stream: Stream,
    idle_events: Vec<StreamEvent>,
    in_flight: VecDeque<(QueuedCopy, StreamEvent)>,
    over: Vec<QueuedCopy>,
    context: Arc<CudaContext>,
}

// SAFETY: CUDA's handles may be used from any thread once the context is current there, and
// `enqueue` makes it so.
unsafe impl Send for CudaCopies {}

impl CudaCopies {
    pub(super) fn new(
        context: &Arc<CudaContext>,
        capacity: usize,
        wait: WaitMode,
    ) -> Result<Self, TransferError> {
        Ok(Self {
            stream: Stream::new(context)?,
            idle_events: (0..capacity)
                .map(|_| StreamEvent::new(context, wait))
                .collect::<Result<_, _>>()?,
            in_flight: VecDeque::with_capacity(capacity),
            over: Vec::with_capacity(capacity),
            context: Arc::clone(context),
        })
    }

    /// Enqueues a copy on the stream, followed by an event.
    fn start(&self, copy: &mut QueuedCopy, event: &StreamEvent) -> Result<(), TransferError> {
        assert!(
            copy.len <= copy.host.len() && copy.len <= copy.accelerator.len(),
            "a copy beyond the end of a buffer"
        );
        let device = copy.accelerator.start().addr() as sys::CUdeviceptr;
        let host = copy.host.start();
        bind(&self.context)?;
        let stream = self.stream.raw();
        // SAFETY: the copy owns both ends, both are long enough, and it stays in `in_flight` (or
        // is waited for, see `enqueue`) until the stream has come past it.
        let (call, status) = unsafe {
            match copy.direction {
                Direction::Read => {
                    ("cuMemcpyHtoDAsync", sys::cuMemcpyHtoDAsync_v2(device, host, copy.len, stream))
                }
                Direction::Write => {
                    ("cuMemcpyDtoHAsync", sys::cuMemcpyDtoHAsync_v2(host, device, copy.len, stream))
                }
            }
        };
        status.result().map_err(failed(call))?;
        event.record(&self.stream)
    }

    /// Completes the oldest copy in flight.
    fn land(&mut self, result: Result<(), TransferError>) {
        if let Some((mut copy, event)) = self.in_flight.pop_front() {
            copy.result = result;
            self.idle_events.push(event);
            self.over.push(copy);
        }
    }
}

impl CopyQueue for CudaCopies {
    fn enqueue(&mut self, mut copy: QueuedCopy) {
        let _call = enter(Hang::Cuda);
        let event = match self.idle_events.pop() {
            // Memory accessible to the host is copied by the host.
            Some(event) if copy.accelerator.host().is_none() => event,
            event => {
                self.idle_events.extend(event);
                copy.run();
                return self.over.push(copy);
            }
        };
        match self.start(&mut copy, &event) {
            Ok(()) => self.in_flight.push_back((copy, event)),
            Err(error) => {
                // The copy may be on the stream without its event: its ends must not be returned
                // before the stream is idle.
                let _ = self.stream.synchronize();
                copy.result = Err(error);
                self.idle_events.push(event);
                self.over.push(copy);
            }
        }
    }

    fn wait(&mut self, min: usize, done: &mut Vec<QueuedCopy>) {
        let _call = enter(Hang::Cuda);
        while let Some((_, event)) = self.in_flight.front() {
            let result = match event.is_over() {
                Ok(true) => Ok(()),
                Ok(false) if self.over.len() >= min => break,
                Ok(false) => event.synchronize(),
                Err(error) => Err(error),
            };
            self.land(result);
        }
        done.append(&mut self.over);
    }
}

impl Drop for CudaCopies {
    fn drop(&mut self) {
        let _call = enter(Hang::Cuda);
        // Before the ends of the copies are freed. A failure means that the context is broken and
        // copies no more.
        let _ = bind(&self.context);
        let _ = self.stream.synchronize();
    }
}
