//! The second engine: tokio-uring with registered buffers, for comparison.
//!
//! It has no registered files and cannot use DEFER_TASKRUN; its submissions per system call are
//! limited only by the size of its submission queue, which is therefore set to the submit batch.

use std::cell::RefCell;
use std::fs::File;
use std::rc::Rc;

use stormlp_core::evidence::EngineFacts;
use stormlp_core::operation::Direction;
use stormlp_core::path::EngineKind;
use tokio_uring::buf::fixed::FixedBufRegistry;
use tokio_uring::buf::{BoundedBuf as _, IoBuf, IoBufMut};

use super::{Engine, completion};
use crate::attached::Attached;
use crate::error::TransferError;
use crate::transfer::FileId;
use crate::transfer::Slot;
use crate::transfer::{Completion, Rejected, Transfer};

/// A second reference to a buffer's bytes, as required by the registry.
struct Alias {
    start: *mut u8,
    len: usize,
    initialised: usize,
}

// SAFETY: the address stays valid and in place while the engine lives (the region is mapped until
// the last buffer is gone, and the engine's slots come back before it is dropped); the bytes are
// initialised memory.
unsafe impl IoBuf for Alias {
    fn stable_ptr(&self) -> *const u8 {
        self.start
    }
    fn bytes_init(&self) -> usize {
        self.initialised
    }
    fn bytes_total(&self) -> usize {
        self.len
    }
}

// SAFETY: as above; only the kernel writes through this reference, and only while the owner of the
// `Slot` has given it to the engine.
unsafe impl IoBufMut for Alias {
    fn stable_mut_ptr(&mut self) -> *mut u8 {
        self.start
    }
    unsafe fn set_init(&mut self, pos: usize) {
        self.initialised = self.initialised.max(pos);
    }
}

/// Runs operations as tasks of a tokio-uring runtime inside `wait`.
pub(crate) struct TokioUringEngine {
    runtime: tokio_uring::Runtime,
    registry: Rc<FixedBufRegistry<Alias>>,
    slots: Vec<Slot>,
    files: Attached<Rc<tokio_uring::fs::File>>,
    queued: Vec<Transfer>,
    over: Rc<Over>,
    flying: usize,
}

/// Completed operations, pushed by the tasks.
#[derive(Default)]
struct Over {
    done: RefCell<Vec<Completion>>,
    notify: tokio::sync::Notify,
}

impl TokioUringEngine {
    /// Builds the runtime and registers the buffers.
    pub(crate) fn new(slots: Vec<Slot>, submit_batch: usize) -> Result<Self, TransferError> {
        let depth = slots.len().max(1) as u32;
        let mut builder = tokio_uring::uring_builder();
        builder.setup_cqsize((depth * 2).next_power_of_two().max(16)).setup_coop_taskrun();
        let mut config = tokio_uring::builder();
        let entries =
            (submit_batch.max(1) as u32).next_power_of_two().min(depth.next_power_of_two());
        config.entries(entries).uring_builder(&builder);
        // `Runtime::new` returns an error if refused; `start` would panic.
        let runtime =
            tokio_uring::Runtime::new(&config).map_err(|error| TransferError::Unavailable {
                what: "io_uring through tokio-uring".to_string(),
                reason: format!("the kernel returned {error}"),
                remedy: "allow io_uring, or use --engine psync".to_string(),
            })?;
        let registry = Rc::new(FixedBufRegistry::new(slots.iter().map(|slot| Alias {
            start: slot.start().cast(),
            len: slot.len(),
            initialised: slot.len(),
        })));
        let registered = runtime.block_on(async { registry.register() });
        registered.map_err(|error| TransferError::Unavailable {
            what: "tokio-uring with registered buffers".to_string(),
            reason: format!("the kernel refused to register them: {error}"),
            remedy: "raise the locked-memory limit (ulimit -l), or use --engine uring".to_string(),
        })?;
        Ok(Self {
            runtime,
            registry,
            slots,
            files: Attached::default(),
            queued: Vec::new(),
            over: Rc::default(),
            flying: 0,
        })
    }
}

/// Executes one operation and records the result.
async fn perform(
    transfer: Transfer,
    file: Rc<tokio_uring::fs::File>,
    registry: Rc<FixedBufRegistry<Alias>>,
    over: Rc<Over>,
) {
    let Transfer { place, slot } = transfer;
    let alias = registry.check_out(slot.index()).expect("one operation for each slot");
    let slice = alias.slice(slot.written()..slot.written() + place.len);
    let (result, slice) = match place.direction {
        Direction::Read => file.read_fixed_at(slice, place.offset).await,
        Direction::Write => file.write_fixed_at(slice, place.offset).await,
    };
    // The alias must return to the registry before the slot returns to its owner.
    drop(slice);
    over.done.borrow_mut().push(completion(slot, result));
    over.notify.notify_one();
}

impl Engine for TokioUringEngine {
    fn attach(&mut self, file: File) -> Result<FileId, TransferError> {
        let file = self.runtime.block_on(async { tokio_uring::fs::File::from_std(file) });
        Ok(self.files.insert(Rc::new(file)))
    }

    fn detach(&mut self, file: FileId) -> Result<(), TransferError> {
        let Some(file) = self.files.remove(file) else {
            return Ok(());
        };
        // No operation is in flight on the file, so this is the last reference.
        self.runtime
            .block_on(async {
                match Rc::try_unwrap(file) {
                    Ok(file) => file.close().await,
                    Err(_) => Ok(()),
                }
            })
            .map_err(TransferError::io("close a file"))
    }

    fn take_slots(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.slots)
    }

    fn submit(&mut self, transfer: Transfer) -> Result<(), Rejected> {
        self.queued.push(transfer);
        Ok(())
    }

    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), TransferError> {
        self.flying += self.queued.len();
        // The runtime checks its ring only when it parks, so it cannot poll without waiting.
        let wanted = min.max(1).min(self.flying);
        let (queued, files, registry, over) =
            (&mut self.queued, &self.files, &self.registry, &self.over);
        self.runtime.block_on(async {
            for transfer in queued.drain(..) {
                let file = files.get(transfer.place.file).expect("an attached file");
                let file = Rc::clone(file);
                let task = perform(transfer, file, Rc::clone(registry), Rc::clone(over));
                tokio_uring::spawn(task);
            }
            while over.done.borrow().len() < wanted {
                over.notify.notified().await;
            }
        });
        let mut finished = self.over.done.borrow_mut();
        self.flying -= finished.len();
        done.append(&mut finished);
        Ok(())
    }

    fn facts(&self) -> EngineFacts {
        EngineFacts {
            engine: EngineKind::TokioUring,
            ring_flags: vec!["COOP_TASKRUN".to_string()],
            registered_buffers: true,
            registered_files: false,
            fallbacks: Vec::new(),
        }
    }
}

impl Drop for TokioUringEngine {
    fn drop(&mut self) {
        // The kernel may still write to buffers in flight: wait for them before freeing.
        let mut done = Vec::new();
        let left = self.flying + self.queued.len();
        let _ = self.wait(left, &mut done);
    }
}
