//! Shared parts of the cuFile paths: registered files and slots, and the evidence of the route.

use std::fs::File;
use std::sync::Arc;

use stormlp_core::evidence::{Counted, DirectStorage, Evidence, Mechanism};
use stormlp_core::operation::Direction;
use stormlp_core::path::PathKind;

use super::gds_route::{self, RouteCounts};
use super::{DirectWatch, PathSpec};
use crate::accelerator::device::Accelerator;
use crate::attached::Attached;
use crate::cufile::{
    CuFileError, Driver, FileHandle, NvidiaFsCounts, Registration, RouteCounters, RouteCounting,
    Settings, Statistics, Tally, Transferred, WatchedCalls,
};
use crate::error::TransferError;
use crate::transfer::AcceleratorBuffer;
use crate::transfer::FileId;
use crate::transfer::{Completion, FileRange, Rejected, Transfer};
use crate::transfer::{Slot, SlotMemory};

/// How many transfers of a path cuFile counts by route, unless its lane ends counting earlier.
const COUNTED_AT_FIRST: u64 = 64;

/// The driver, the files and the slots of one cuFile path.
pub(super) struct GdsCommon {
    kind: PathKind,
    pub(super) driver: Arc<Driver>,
    files: Attached<FileHandle>,
    slots: Vec<Slot>,
    registered: bool,
    /// Whether the slots are host memory, which cuFile moves only by POSIX calls.
    on_host: bool,
    direct: DirectWatch,
    /// The calls that may hang.
    pub(super) calls: WatchedCalls,
    tally: Tally,
    /// The longest transfer that is bound to a direct route when compatibility mode is forbidden.
    longest_bound: usize,
    /// Enables cuFile's counting while present.
    count: Option<RouteCounting>,
    /// Whether all counted transfers came before the measured part.
    counted_beforehand: bool,
    /// The transfers made before this path's counting ended.
    moved_while_counted: Option<Transferred>,
}

impl GdsCommon {
    /// Opens or shares the driver and registers the buffers.
    ///
    /// # Errors
    /// When there is no usable cuFile, or it rejects the memory.
    pub(super) fn new(spec: PathSpec) -> Result<Self, TransferError> {
        spec.accelerator.bind_thread()?;
        let calls = WatchedCalls::new(spec.kind);
        let setting_up = calls.enter();
        let driver = match Driver::current() {
            Some(driver) => driver,
            None => Driver::open(&Settings::default())?,
        };
        let on_host = spec.accelerator_buffers.iter().any(|buffer| buffer.host().is_some());
        let buffers = spec.accelerator_buffers.len();
        let mut memory = Vec::with_capacity(buffers);
        for (index, buffer) in spec.accelerator_buffers.into_iter().enumerate() {
            memory.push(SlotMemory::Accelerator(if spec.register_buffers {
                // On error, the earlier ones are deregistered.
                let registered = RegisteredMemory::new(&driver, &spec.accelerator, buffer);
                Box::new(registered.map_err(|error| in_part(error, index, buffers))?)
            } else {
                buffer
            }));
        }
        drop(setting_up);
        let count = RouteCounting::new(Arc::clone(&driver));
        let longest_bound = longest_bound(spec.kind, &driver);
        Ok(Self {
            kind: spec.kind,
            files: Attached::with_capacity(spec.max_files),
            slots: Slot::all(memory),
            registered: spec.register_buffers,
            on_host,
            direct: DirectWatch::default(),
            calls,
            counted_beforehand: false,
            moved_while_counted: None,
            count: Some(count),
            longest_bound,
            tally: Tally::new(Arc::clone(&driver)),
            driver,
        })
    }

    /// Registers a file under the first free number.
    pub(super) fn attach(&mut self, file: File) -> Result<FileId, TransferError> {
        self.direct.see(&file);
        let registering = self.calls.enter();
        let handle = FileHandle::register(Arc::clone(&self.driver), file)?;
        drop(registering);
        Ok(self.files.insert(handle))
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
        self.files.remove(file);
        Ok(())
    }

    /// The file of a transfer in flight.
    pub(super) fn attached(&self, place: &FileRange) -> &FileHandle {
        self.files.get(place.file).expect("`accept` has seen the file, and it has this in flight")
    }

    /// Returns the slots; call once.
    pub(super) fn take_slots(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.slots)
    }

    /// The number of slots, before they are taken.
    pub(super) fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// Validates a transfer: its file is attached and its slot holds `len` bytes.
    pub(super) fn accept(&self, transfer: Transfer) -> Result<Transfer, Rejected> {
        if transfer.slot.written() + transfer.place.len > transfer.slot.len() {
            Err(rejected(transfer, "it is longer than its slot"))
        } else if self.files.get(transfer.place.file).is_none() {
            Err(rejected(transfer, "its file is not attached"))
        } else {
            let Transfer { place, slot } = &transfer;
            self.begin(slot.start().addr() + slot.written(), place.offset, place.len);
            Ok(transfer)
        }
    }

    /// Counts a submitted transfer. cuFile's settings allow POSIX calls for unaligned transfers,
    /// even if compatibility mode is forbidden.
    #[inline]
    fn begin(&self, address: usize, offset: u64, len: usize) {
        self.tally.begin(len);
        if !is_aligned(offset | (address | len) as u64) || len > self.longest_bound {
            self.tally.note_unbound(len);
        }
    }

    /// Leaks the files without deregistering them: transfers that refer to them may still run.
    pub(super) fn leak_files(&mut self) {
        std::mem::forget(std::mem::take(&mut self.files));
    }

    /// Completes a transfer with `result`. A short transfer is continued here, as far as the file
    /// goes.
    pub(super) fn finish(
        &mut self,
        transfer: Transfer,
        result: Result<usize, CuFileError>,
    ) -> Completion {
        // A failed transfer took no route.
        let moved = *result.as_ref().unwrap_or(&0);
        self.tally.end(moved);
        if moved < transfer.place.len && !is_aligned(moved as u64) {
            // It reached the end of the file, which is not aligned.
            self.tally.note_unbound(moved);
        }
        let result = match result {
            Ok(moved) if moved < transfer.place.len => self.go_on(&transfer, moved),
            other => other,
        };
        if self.count.is_some() && self.tally.operations() >= COUNTED_AT_FIRST {
            self.end_counting();
        }
        Completion { slot: transfer.slot, result: result.map_err(TransferError::from) }
    }

    /// Executes a transfer that [`Self::accept`] has accepted, with blocking calls.
    pub(super) fn perform(&mut self, transfer: Transfer) -> Completion {
        let _call = self.calls.enter();
        let Transfer { place, slot } = &transfer;
        let handle = self.attached(place);
        // SAFETY: the slot owns its memory and is here, so nobody else touches it during the
        // call; `accept` has checked that it holds `len` bytes there; the device's context was
        // made current on this thread when the path was built.
        let result = unsafe {
            let (base, written) = (slot.start(), slot.written());
            handle.transfer(place.direction, base, written, place.len, place.offset)
        };
        self.finish(transfer, result)
    }

    /// Moves the rest of a transfer of which `moved` bytes are done, with blocking calls.
    fn go_on(&self, transfer: &Transfer, mut moved: usize) -> Result<usize, CuFileError> {
        let Transfer { place, slot } = transfer;
        let file = self.attached(place);
        while moved < place.len {
            let offset = place.offset + moved as u64;
            if place.direction == Direction::Read && file.ends_by(offset) {
                break;
            }
            let left = place.len - moved;
            let at = slot.written() + moved;
            self.begin(slot.start().addr() + at, offset, left);
            // SAFETY: the slot owns its memory and its transfer is over, so nobody else touches
            // it; `accept` has checked that it holds `len` bytes from the start on; the device's
            // context is current on this thread.
            let more = unsafe { file.transfer(place.direction, slot.start(), at, left, offset) }?;
            if more == 0 {
                return Err(no_progress(place, moved));
            }
            self.tally.end(more);
            moved += more;
        }
        Ok(moved)
    }

    /// Ends the counting behind the route evidence: no transfer is in flight, and subsequent
    /// transfers are measured.
    pub(super) fn stop_counting(&mut self) {
        self.end_counting();
        self.counted_beforehand = true;
    }

    fn end_counting(&mut self) {
        if self.count.take().is_some() {
            self.moved_while_counted = Some(self.tally.moved());
        }
    }

    /// When cuFile counted the transfers behind the evidence.
    fn counted(&self, counters: Option<&RouteCounters>) -> Counted {
        match (counters, self.driver.settings().statistics) {
            (None, _) => Counted::Never,
            (Some(_), Statistics::Throughout(_)) => Counted::Throughout,
            (Some(_), Statistics::WhileAsked) if self.counted_beforehand => Counted::Beforehand,
            (Some(_), Statistics::WhileAsked) => Counted::AtFirst,
        }
    }

    /// The routes that ran since this path and its sibling paths were built. cuFile counts for the
    /// whole process, so the counts include the paths of other threads.
    pub(super) fn evidence(&self) -> Evidence {
        let before = self.tally.before();
        // The kernel's counts lie between the completed and the begun transfers.
        let moved = self.tally.moved();
        let nvfs = NvidiaFsCounts::now().since(before.nvfs);
        let begun = self.tally.begun();
        let counters = self.driver.counters().map(|now| now.since(&before.counters));
        let counted = self.counted(counters.as_ref());
        let properties = self.driver.properties().ok();
        let fallback_allowed = self.driver.fallback_allowed();
        let operations = counters.map(|counters| counters.of(self.kind, self.on_host));
        let verdict = gds_route::judge(&RouteCounts {
            on_host: self.on_host,
            fallback_allowed,
            operations: operations.as_ref(),
            counted,
            can_count: self.driver.api().counts_routes(),
            nvfs,
            moved,
            moved_while_counted: self.moved_while_counted.unwrap_or(moved),
            begun,
            unbound: self.tally.unbound().operations,
            no_p2pdma: self.driver.no_p2pdma(),
            has_direct_targets: properties.is_none_or(|known| known.has_direct_targets),
            has_targets_of_their_own: properties.is_none_or(|known| known.has_uncounted_targets),
        });
        let (direct_io, _) = self.direct.verdict(self.kind);
        let mut words = properties.map_or_else(Vec::new, |properties| properties.describe());
        words.extend_from_slice(self.driver.routes());
        words.extend(self.driver.parameters());
        words.push(format!("buffers registered {}", self.registered));
        Evidence {
            effective_path: verdict.route.effective(self.kind),
            summary: verdict.summary,
            direct_io,
            direct_storage: Some(DirectStorage {
                library: "libcufile".to_string(),
                library_version: self.driver.api().version().to_string(),
                library_path: self.driver.api().path().display().to_string(),
                fallback_operations: operations.as_ref().map(|operations| operations.fallback),
                direct_operations: operations.map(|operations| operations.direct),
                kernel_operations: (nvfs.operations().into_iter())
                    .map(|count| (Mechanism::NvidiaFs, count))
                    .collect(),
                counted,
                proof: verdict.proof,
                to_prove: verdict.to_prove,
                fallback_allowed,
                properties: words,
            }),
            ..Evidence::default()
        }
    }
}

/// Whether `number` as an offset, a size or an address allows a direct route.
#[inline]
fn is_aligned(number: u64) -> bool {
    number.is_multiple_of(4096)
}

/// The longest transfer of `kind` that is bound to a direct route when compatibility mode is
/// forbidden: older libraries move larger batch entries by POSIX calls anyway.
fn longest_bound(kind: PathKind, driver: &Driver) -> usize {
    let in_batches = matches!(kind, PathKind::GdsBatch | PathKind::GdsBatchStream);
    if !in_batches || driver.api().version().has_direct_large_entries() {
        return usize::MAX;
    }
    let buffer = driver.properties().map(|it| it.per_buffer_cache_bytes);
    buffer.map_or(0, |bytes| bytes as usize)
}

pub(super) fn rejected(transfer: Transfer, reason: &'static str) -> Rejected {
    let source = std::io::Error::new(std::io::ErrorKind::InvalidInput, reason);
    Rejected { slot: transfer.slot, error: TransferError::io("a cuFile transfer")(source) }
}

/// The error for a transfer that stopped before its end.
fn no_progress(place: &FileRange, moved: usize) -> CuFileError {
    CuFileError::NoProgress {
        call: match place.direction {
            Direction::Read => "cuFileRead",
            Direction::Write => "cuFileWrite",
        },
        moved,
        len: place.len,
        offset: place.offset,
    }
}

/// The failure to register buffer `index` of `buffers`, which undoes the earlier registrations.
fn in_part(error: TransferError, index: usize, buffers: usize) -> TransferError {
    match error {
        TransferError::Unavailable { what, reason, remedy } if index > 0 => {
            TransferError::Unavailable {
                what,
                reason: format!(
                    "{reason} for buffer {} of {buffers}; those before it were deregistered again",
                    index + 1
                ),
                remedy,
            }
        }
        other => other,
    }
}

/// The transfers in flight on a path, by slot.
pub(super) struct Flying(Vec<Option<Transfer>>);

impl Flying {
    pub(super) fn new(slots: usize) -> Self {
        Self((0..slots).map(|_| None).collect())
    }

    /// Keeps a transfer until [`land`](Self::land); returns its slot number.
    pub(super) fn put(&mut self, transfer: Transfer) -> Result<usize, Rejected> {
        let index = transfer.slot.index();
        match self.0.get_mut(index) {
            Some(place) if place.is_none() => {
                *place = Some(transfer);
                Ok(index)
            }
            _ => Err(rejected(transfer, "its slot belongs to another path")),
        }
    }

    /// The transfer of slot `index`, which is in flight.
    pub(super) fn get(&self, index: usize) -> &Transfer {
        self.0[index].as_ref().expect("it was put there")
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Transfer> {
        self.0.iter().flatten()
    }

    /// Removes the transfer of slot `index`, which is complete or could not be started.
    pub(super) fn take(&mut self, index: usize) -> Option<Transfer> {
        self.0.get_mut(index)?.take()
    }

    /// Leaks the slots: they may still be written to.
    pub(super) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.0));
    }
}

/// Accelerator memory that stays registered with cuFile for its lifetime.
struct RegisteredMemory {
    registration: Option<Registration>,
    accelerator: Arc<dyn Accelerator>,
    memory: Box<dyn AcceleratorBuffer>,
}

impl RegisteredMemory {
    /// Registers all of `memory`; the device's context is current on this thread.
    fn new(
        driver: &Arc<Driver>,
        accelerator: &Arc<dyn Accelerator>,
        memory: Box<dyn AcceleratorBuffer>,
    ) -> Result<Self, TransferError> {
        let base = std::ptr::with_exposed_provenance_mut(memory.address());
        // SAFETY: the memory belongs to the value made here, which ends the registration first when
        // dropped, with the device's context current.
        let registration = unsafe { Registration::new(Arc::clone(driver), base, memory.len()) }?;
        Ok(Self { registration: Some(registration), accelerator: Arc::clone(accelerator), memory })
    }
}

impl Drop for RegisteredMemory {
    fn drop(&mut self) {
        // The slot may be dropped on a thread that has never used the device. A failure would show
        // in the next call on the device as well.
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
