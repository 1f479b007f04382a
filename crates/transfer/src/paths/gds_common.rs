//! Shared parts of the cuFile paths: registered files and slots, and the evidence of the route.

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stormlp_core::evidence::{Counted, DirectStorage, Evidence, Mechanism, RouteProof};
use stormlp_core::operation::Direction;
use stormlp_core::path::PathKind;

use super::gds_route::{self, Route, RouteCounts, RouteVerdict};
use super::{DirectWatch, PathSpec};
use crate::accelerator::device::Accelerator;
use crate::attached::Attached;
use crate::cufile::{
    CuFileError, Driver, FileHandle, NvidiaFsCounts, Registration, RouteCounters, RouteCounting,
    Statistics, Tally, Transferred,
};
use crate::error::TransferError;
use crate::transfer::FileId;
use crate::transfer::{Completion, FileRange, Rejected, Transfer};
use crate::transfer::{Slot, SlotMemory};
use crate::watchdog::{Hang, WatchedCalls};

/// A disk that takes so long to fail would take it for every transfer in flight.
const SLOW_ANSWER: Duration = Duration::from_secs(1);
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
    /// The device of the slots.
    accelerator: Arc<dyn Accelerator>,
    /// The kernel's error for a failed transfer, if it took long: then it is asked no more.
    slow_answer: Option<i32>,
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
        let calls = WatchedCalls::new(Hang::CuFile(spec.kind));
        let setting_up = calls.enter();
        let driver = Driver::of_run()?;
        let on_host = spec.accelerator_buffers.iter().any(|buffer| buffer.host().is_some());
        let memory = spec.accelerator_buffers.into_iter().map(SlotMemory::Accelerator);
        let mut slots = Slot::all(memory);
        let buffers = slots.len();
        for slot in slots.iter_mut().filter(|_| spec.register_buffers) {
            // SAFETY: the slot ends the registration before it frees its memory, with the device's
            // context current, as it is here.
            let registered =
                unsafe { Registration::new(Arc::clone(&driver), slot.start(), slot.len()) };
            // On error, the earlier ones are deregistered.
            let registration =
                registered.map_err(|error| in_part(error.into(), slot.index(), buffers))?;
            let accelerator = Arc::clone(&spec.accelerator);
            let registration = Some(registration);
            slot.held = Some(Box::new(Box::new(Registered { registration, accelerator })));
        }
        drop(setting_up);
        let count = RouteCounting::new(Arc::clone(&driver));
        let longest_bound = longest_bound(spec.kind, &driver);
        Ok(Self {
            kind: spec.kind,
            files: Attached::with_capacity(spec.max_files),
            slots,
            registered: spec.register_buffers,
            on_host,
            direct: DirectWatch::default(),
            accelerator: spec.accelerator,
            slow_answer: None,
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

    /// Completes a transfer with `result`. A short transfer is continued here with blocking calls,
    /// as far as the file goes.
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
        let result = result.map_err(|error| self.explain(&transfer, error));
        Completion { slot: transfer.slot, result }
    }

    /// The failure of a transfer: the GPU's if it is lost, the kernel's where libcufile may have
    /// hidden the reason, which a dead or full disk tells again.
    #[cold]
    fn explain(&mut self, transfer: &Transfer, error: CuFileError) -> TransferError {
        if let Err(lost) = self.accelerator.check() {
            return lost;
        }
        let hidden = error.hides_the_reason();
        let mut told = TransferError::from(error);
        if !hidden {
            return told;
        }
        if let Some(errno) = self.slow_answer {
            return TransferError::io("the transfer")(std::io::Error::from_raw_os_error(errno));
        }
        let since = Instant::now();
        match self.files.get(transfer.place.file).map(|file| file.ask(transfer)) {
            Some(Err(reason)) => {
                if since.elapsed() >= SLOW_ANSWER {
                    self.slow_answer = reason.errno();
                }
                reason
            }
            Some(Ok(true)) => {
                if let TransferError::Gpu { explanation, .. } = &mut told {
                    explanation.push_str("; the kernel moved the same bytes without an error");
                }
                told
            }
            Some(Ok(false)) | None => told,
        }
    }

    /// The failure of the device, if it has one, or this one.
    pub(super) fn lost_or(&self, error: CuFileError) -> TransferError {
        self.accelerator.check().err().unwrap_or_else(|| error.into())
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
        let goes_on = |moved: usize| {
            let is_read = place.direction == Direction::Read;
            moved < place.len && !(is_read && file.ends_by(place.offset + moved as u64))
        };
        if !goes_on(moved) {
            return Ok(moved);
        }
        if moved == 0 {
            return Err(self.no_progress(place, moved));
        }
        if self.kind != PathKind::Gds {
            self.tally.note_continued(place.len - moved);
        }
        while goes_on(moved) {
            let offset = place.offset + moved as u64;
            let left = place.len - moved;
            let at = slot.written() + moved;
            self.begin(slot.start().addr() + at, offset, left);
            // SAFETY: the slot owns its memory and its transfer is over, so nobody else touches
            // it; `accept` has checked that it holds `len` bytes from the start on; the device's
            // context is current on this thread.
            let more = unsafe { file.transfer(place.direction, slot.start(), at, left, offset) }?;
            if more == 0 {
                return Err(self.no_progress(place, moved));
            }
            self.tally.end(more);
            moved += more;
        }
        Ok(moved)
    }

    /// The error for a transfer that stopped before its end.
    fn no_progress(&self, place: &FileRange, moved: usize) -> CuFileError {
        let call = match (self.kind, place.direction) {
            (PathKind::GdsAsync, _) if moved == 0 => "a stream transfer",
            (PathKind::GdsBatch | PathKind::GdsBatchStream, _) if moved == 0 => "a batch entry",
            (_, Direction::Read) => "cuFileRead",
            (_, Direction::Write) => "cuFileWrite",
        };
        let FileRange { len, offset, .. } = *place;
        CuFileError::NoProgress { call, moved, len, offset }
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

    /// A verdict in words; of a fallback also the switches that are off.
    fn summary(&self, verdict: &RouteVerdict) -> String {
        let fell_back = verdict.route != Route::Direct && verdict.proof != RouteProof::None;
        match &self.driver.lacks_p2pdma {
            Some(lacks) if fell_back && !self.on_host => format!("{}; {lacks}", verdict.summary),
            _ => verdict.summary.clone(),
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
        let operations =
            counters.map(|counters| counters.of(self.kind, self.on_host, &self.driver.offered));
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
            offered: &self.driver.offered,
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
            summary: self.summary(&verdict),
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
                continued_operations: self.tally.continued(),
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

/// The failure to register buffer `index` of `buffers`, which undoes the earlier registrations.
fn in_part(mut error: TransferError, index: usize, buffers: usize) -> TransferError {
    if let TransferError::Unavailable { reason, .. } = &mut error
        && index > 0
    {
        let nth = index + 1;
        reason.push_str(&format!(
            " for buffer {nth} of {buffers}; those before it were deregistered again"
        ));
    }
    error
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

/// The registration of a slot's memory with cuFile, which the slot holds.
struct Registered {
    registration: Option<Registration>,
    accelerator: Arc<dyn Accelerator>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        // The slot may be dropped on a thread that has never used the device. A failure would show
        // in the next call on the device as well.
        let _ = self.accelerator.bind_thread();
        self.registration = None;
    }
}
