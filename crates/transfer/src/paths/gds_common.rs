//! What the cuFile paths share: registered files and slots, and the proof of the route.

use std::fs::File;
use std::sync::Arc;

use stormlp_model::evidence::{CuFileEvidence, Evidence};
use stormlp_model::path::PathKind;

use super::{Completion, DirectWatch, FileId, PathSpec, Place, Rejected, Transfer};
use crate::accelerator::{Accelerator, AcceleratorBuffer};
use crate::cufile::{
    Counters, CuFileError, Driver, FileHandle, Registration, Settings, nvfs_driver_operations,
};
use crate::error::TransferError;
use crate::slot::{Slot, SlotMemory};

/// The driver, the files and the slots of one cuFile path.
pub(super) struct GdsCommon {
    kind: PathKind,
    pub(super) driver: Arc<Driver>,
    files: Vec<Option<FileHandle>>,
    slots: Vec<Slot>,
    registered: bool,
    /// Whether the slots are host memory, which cuFile only moves by POSIX calls.
    on_host: bool,
    direct: DirectWatch,
    before: Option<Counters>,
    nvfs_before: Option<u64>,
}

impl GdsCommon {
    /// Opens or shares the driver and registers the buffers.
    ///
    /// # Errors
    /// When there is no usable cuFile, or it does not take the memory.
    pub(super) fn new(spec: PathSpec) -> Result<Self, TransferError> {
        spec.accelerator.bind_thread()?;
        let driver = match Driver::current() {
            Some(driver) => driver,
            None => Driver::open(&Settings::default())?,
        };
        let on_host = spec
            .accelerator_buffers
            .iter()
            .any(|buffer| buffer.host().is_some());
        let mut memory = Vec::with_capacity(spec.accelerator_buffers.len());
        for buffer in spec.accelerator_buffers {
            memory.push(SlotMemory::Accelerator(if spec.register_buffers {
                Box::new(RegisteredMemory::new(&driver, &spec.accelerator, buffer)?)
            } else {
                buffer
            }));
        }
        Ok(Self {
            kind: spec.kind,
            files: Vec::with_capacity(spec.max_files),
            slots: Slot::all(memory),
            registered: spec.register_buffers,
            on_host,
            direct: DirectWatch::default(),
            before: driver.counters(),
            nvfs_before: nvfs_driver_operations(),
            driver,
        })
    }

    /// Registers a file under the first free number.
    pub(super) fn attach(&mut self, file: File) -> Result<FileId, TransferError> {
        self.direct.see(&file);
        let handle = FileHandle::register(Arc::clone(&self.driver), file)?;
        let free = self.files.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.files.push(None);
            self.files.len() - 1
        });
        self.files[index] = Some(handle);
        Ok(FileId(index as u32))
    }

    /// Deregisters and closes a file, unless one of the transfers `in_flight` is on it.
    pub(super) fn detach<'a>(
        &mut self,
        file: FileId,
        mut in_flight: impl Iterator<Item = &'a Transfer>,
    ) -> Result<(), TransferError> {
        if in_flight.any(|transfer| transfer.place.file == file) {
            let source = std::io::Error::from_raw_os_error(libc::EBUSY);
            let action = "detach a file that has transfers in flight";
            return Err(TransferError::io(action)(source));
        }
        if let Some(place) = self.files.get_mut(file.0 as usize) {
            *place = None;
        }
        Ok(())
    }

    /// A file that is attached.
    fn file(&self, file: FileId) -> Option<&FileHandle> {
        self.files.get(file.0 as usize)?.as_ref()
    }

    /// The file of a transfer in flight.
    pub(super) fn attached(&self, place: &Place) -> &FileHandle {
        self.file(place.file)
            .expect("`accept` has seen the file, and it has this in flight")
    }

    /// Hands out the slots, once.
    pub(super) fn take_slots(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.slots)
    }

    /// How many slots there are, as long as they are here.
    pub(super) fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// A transfer that can be done: its file is attached and its slot holds `len` bytes.
    pub(super) fn accept(&self, transfer: Transfer) -> Result<Transfer, Rejected> {
        let invalid = |reason| {
            let source = std::io::Error::new(std::io::ErrorKind::InvalidInput, reason);
            TransferError::io("a cuFile transfer")(source)
        };
        let Transfer { place, slot } = transfer;
        let error = if place.len > slot.len() {
            invalid("it is longer than its slot")
        } else if self.file(place.file).is_none() {
            invalid("its file is not attached")
        } else {
            return Ok(Transfer { place, slot });
        };
        Err(Rejected { slot, error })
    }

    /// Gives up the files without telling cuFile: transfers that refer to them may still run.
    pub(super) fn leak_files(&mut self) {
        std::mem::forget(std::mem::take(&mut self.files));
    }

    /// What ran since the path was built. cuFile counts for the whole process, so the paths of
    /// other threads are in the counts too.
    pub(super) fn evidence(&self) -> Evidence {
        let counters = self
            .driver
            .counters()
            .zip(self.before)
            .map(|(now, before)| now.since(&before));
        let compat_mode_allowed = self.driver.compat_mode_allowed();
        let operations =
            counters.map(|counters| Operations::of(self.kind, self.on_host, &counters));
        let route = Route::of(operations, self.on_host, compat_mode_allowed);
        let nvfs_driver_operations = nvfs_driver_operations()
            .zip(self.nvfs_before)
            .map(|(now, before)| now.saturating_sub(before));
        let (direct_io, _) = self.direct.verdict(self.kind);
        let mut properties = self
            .driver
            .properties()
            .map_or_else(|_| Vec::new(), |properties| properties.describe());
        properties.extend(self.driver.routes());
        properties.extend(self.driver.parameters());
        properties.push(format!("buffers registered {}", self.registered));
        Evidence {
            effective_path: route.effective(self.kind),
            summary: route.summary(operations, self.on_host),
            direct_io,
            engine: None,
            cufile: Some(CuFileEvidence {
                library_version: self.driver.api().version().to_string(),
                library_path: self.driver.api().path().display().to_string(),
                p2p_operations: operations.map(|operations| operations.p2p),
                nvfs_operations: operations.map(|operations| operations.nvfs),
                posix_operations: operations.map(|operations| operations.posix),
                nvfs_driver_operations,
                compat_mode_allowed,
                properties,
            }),
        }
    }
}

/// The transfers in the hands of a path, by slot.
pub(super) struct Flying(Vec<Option<Transfer>>);

impl Flying {
    /// Room for as many transfers as there are slots.
    pub(super) fn new(slots: usize) -> Self {
        Self((0..slots).map(|_| None).collect())
    }

    /// Keeps a transfer until [`land`](Self::land); the answer is the number of its slot.
    pub(super) fn put(&mut self, transfer: Transfer) -> Result<usize, Rejected> {
        let index = transfer.slot.index();
        match self.0.get_mut(index) {
            Some(place) if place.is_none() => {
                *place = Some(transfer);
                Ok(index)
            }
            _ => {
                let source = std::io::Error::new(
                    std::io::ErrorKind::InvalidInput,
                    "its slot belongs to another path",
                );
                let action = "a cuFile transfer";
                let (slot, error) = (transfer.slot, TransferError::Io { action, source });
                Err(Rejected { slot, error })
            }
        }
    }

    /// The transfer of slot `index`, which is in flight.
    pub(super) fn get(&self, index: usize) -> &Transfer {
        self.0[index].as_ref().expect("it was put there")
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Transfer> {
        self.0.iter().flatten()
    }

    /// Gives a transfer back that was not started after all.
    pub(super) fn take(&mut self, index: usize) -> Option<Transfer> {
        self.0.get_mut(index)?.take()
    }

    /// The end of a transfer; `None` where slot `index` has none in flight.
    pub(super) fn land(
        &mut self,
        index: usize,
        result: Result<usize, CuFileError>,
    ) -> Option<Completion> {
        let transfer = self.take(index)?;
        Some(Completion {
            slot: transfer.slot,
            result: result.map_err(TransferError::from),
        })
    }

    /// Never frees these slots: something may still write to them.
    pub(super) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.0));
    }
}

/// Transfers by route, as cuFile counted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Operations {
    p2p: u64,
    nvfs: u64,
    posix: u64,
}

impl Operations {
    /// The counts that matter to `kind`: batches have counters of their own.
    fn of(kind: PathKind, on_host: bool, counters: &Counters) -> Self {
        if matches!(kind, PathKind::GdsBatch) {
            return Self {
                p2p: counters.batch_p2p,
                nvfs: counters.batch_nvfs,
                posix: counters.batch_posix,
            };
        }
        let (p2p, nvfs) = (counters.p2p, counters.nvfs);
        let posix = if on_host || counters.gpus == 0 {
            // No GPU takes part, so the counters of GPUs stay still. What cuFile did all the
            // same it did by POSIX calls: the direct routes end in GPU memory.
            (counters.reads + counters.writes).saturating_sub(p2p + nvfs)
        } else {
            counters.posix
        };
        Self { p2p, nvfs, posix }
    }
}

/// How the bytes went, as far as it can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    /// Every transfer took a direct route.
    Direct,
    /// Every transfer went by POSIX calls.
    Posix,
    /// Some did, some did not.
    Mixed,
    /// Not counted, but compatibility mode was forbidden, so a fallback would have failed.
    DirectByElimination,
    /// Not counted, but host memory has no other route.
    PosixByElimination,
    /// It cannot be told.
    Unknown,
}

impl Route {
    fn of(operations: Option<Operations>, on_host: bool, compat: Option<bool>) -> Self {
        match operations {
            Some(Operations { p2p, nvfs, posix }) if p2p + nvfs + posix > 0 => {
                match (p2p + nvfs, posix) {
                    (_, 0) => Self::Direct,
                    (0, _) => Self::Posix,
                    _ => Self::Mixed,
                }
            }
            _ if on_host => Self::PosixByElimination,
            _ if compat == Some(false) => Self::DirectByElimination,
            _ => Self::Unknown,
        }
    }

    /// The path that ran when `kind` was asked for.
    fn effective(self, kind: PathKind) -> Option<PathKind> {
        match self {
            Self::Direct | Self::DirectByElimination => Some(kind),
            Self::Posix | Self::PosixByElimination => Some(PathKind::GdsCompat),
            Self::Mixed | Self::Unknown => None,
        }
    }

    /// One sentence for the report.
    fn summary(self, operations: Option<Operations>, on_host: bool) -> String {
        let counted = operations.map_or_else(String::new, |counted| {
            format!(
                "cuFile counted {} peer-to-peer, {} nvidia-fs and {} POSIX transfers",
                counted.p2p, counted.nvfs, counted.posix
            )
        });
        let memory = if on_host { " of host memory" } else { "" };
        match self {
            Self::Direct => format!("direct: {counted}"),
            Self::Posix => format!("cuFile's POSIX compatibility mode: {counted}{memory}"),
            Self::Mixed => format!("part direct, part compatibility mode: {counted}"),
            Self::DirectByElimination => "direct: compatibility mode was forbidden, so a fallback \
                 would have failed; this libcufile counted no routes"
                .to_string(),
            Self::PosixByElimination => "cuFile's POSIX compatibility mode: the buffers are host \
                 memory, for which cuFile has no direct route"
                .to_string(),
            Self::Unknown => "the route could not be told: this libcufile counted nothing (1.15 \
                 or later does), and compatibility mode was allowed; --require-gds forbids it"
                .to_string(),
        }
    }
}

/// Accelerator memory that is registered with cuFile for as long as it lives.
struct RegisteredMemory {
    registration: Option<Registration>,
    accelerator: Arc<dyn Accelerator>,
    memory: Box<dyn AcceleratorBuffer>,
}

impl RegisteredMemory {
    /// Registers the whole of `memory`; the device's context is current on this thread.
    fn new(
        driver: &Arc<Driver>,
        accelerator: &Arc<dyn Accelerator>,
        memory: Box<dyn AcceleratorBuffer>,
    ) -> Result<Self, TransferError> {
        let base = std::ptr::with_exposed_provenance_mut(memory.address());
        // SAFETY: the memory belongs to the value made here, whose drop ends the registration
        // first, with the device's context current.
        let registration = unsafe { Registration::new(Arc::clone(driver), base, memory.len()) }?;
        Ok(Self {
            registration: Some(registration),
            accelerator: Arc::clone(accelerator),
            memory,
        })
    }
}

impl Drop for RegisteredMemory {
    fn drop(&mut self) {
        // The slot may have ended up on a thread that has never used the device. A failure would
        // show in the next call on the device as well.
        let _ = self.accelerator.bind_thread();
        self.registration = None;
    }
}

impl AcceleratorBuffer for RegisteredMemory {
    fn len(&self) -> usize {
        self.memory.len()
    }

    fn address(&self) -> usize {
        self.memory.address()
    }

    fn host(&self) -> Option<&[u8]> {
        self.memory.host()
    }

    fn host_mut(&mut self) -> Option<&mut [u8]> {
        self.memory.host_mut()
    }

    fn copy_from_host(&mut self, source: &[u8]) -> Result<(), TransferError> {
        self.memory.copy_from_host(source)
    }

    fn copy_to_host(&self, target: &mut [u8]) -> Result<(), TransferError> {
        self.memory.copy_to_host(target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(p2p: u64, nvfs: u64, posix: u64) -> Option<PathKind> {
        let operations = Some(Operations { p2p, nvfs, posix });
        Route::of(operations, false, Some(true)).effective(PathKind::Gds)
    }

    #[test]
    fn a_fallback_is_never_called_by_the_name_of_the_wish() {
        assert_eq!(route(3, 0, 0), Some(PathKind::Gds));
        assert_eq!(route(0, 3, 0), Some(PathKind::Gds));
        assert_eq!(route(0, 0, 3), Some(PathKind::GdsCompat));
        assert_eq!(route(1, 0, 1), None);
        assert_eq!(route(0, 0, 0), None);
    }

    #[test]
    fn without_counts_only_what_follows_is_said() {
        let route =
            |on_host, compat| Route::of(None, on_host, compat).effective(PathKind::GdsAsync);
        assert_eq!(route(true, Some(true)), Some(PathKind::GdsCompat));
        assert_eq!(route(false, Some(false)), Some(PathKind::GdsAsync));
        assert_eq!(route(false, Some(true)), None);
        assert_eq!(route(false, None), None);
        assert!(
            Route::Unknown
                .summary(None, false)
                .contains("--require-gds")
        );
    }

    #[test]
    fn batches_are_judged_by_their_own_counters() {
        let counters = Counters {
            reads: 9,
            posix: 9,
            gpus: 1,
            batch_p2p: 4,
            ..Counters::default()
        };
        let batch = Operations::of(PathKind::GdsBatch, false, &counters);
        assert_eq!((batch.p2p, batch.posix), (4, 0));
        let blocking = Operations::of(PathKind::Gds, false, &counters);
        assert_eq!((blocking.p2p, blocking.posix), (0, 9));
    }

    #[test]
    fn host_memory_counts_as_posix() {
        let counters = Counters {
            reads: 5,
            writes: 2,
            ..Counters::default()
        };
        assert_eq!(Operations::of(PathKind::Gds, true, &counters).posix, 7);
    }
}
