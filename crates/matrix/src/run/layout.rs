//! Lays out the files a matrix reads: incompressible, position-dependent, written with direct I/O.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::plan::FilePlan;
use stormlp_core::event::{Event, Observer, Unit};
use stormlp_core::location::names_object;
use stormlp_core::operation::Direction;
use stormlp_core::path::{EngineKind, PathKind};
use stormlp_core::pattern::{Pattern, stream_of};
use stormlp_core::stop::StopToken;
use stormlp_core::units::counted;
use stormlp_transfer::object::{PART_BYTES, Upload};
use stormlp_transfer::storage::{Access, Handle, Storage, is_direct_refused};
use stormlp_transfer::thread_group::{self, Start, Watch};
use stormlp_transfer::{
    Driver, DriverSet, FileRange, HostStandIn, PathSpec, Region, TransferError,
};

use super::error::MatrixError;
use stormlp_core::stop::Ends;

/// Size of one write: large enough for any device, small enough for a core's cache.
const CHUNK_BYTES: usize = 1 << 20;
/// Writes in flight for each file being laid out.
const DEPTH: usize = 8;
/// Interval of progress events.
const TICK: Duration = Duration::from_millis(20);
/// Files laid out concurrently; more would only compete for the same device.
const WRITERS: usize = 2;

/// Writes `files` with the pattern of `seed`, several concurrently, notifies `observer`, and notes
/// in `finished` which are complete. `false` if the user stopped it.
///
/// # Errors
/// The first failure; unfinished files have been removed.
pub(crate) fn lay_out(
    storage: &dyn Storage,
    files: &[&FilePlan],
    (seed, engine): (u64, EngineKind),
    observer: &dyn Observer,
    stop: &StopToken,
    finished: &[AtomicBool],
) -> Result<bool, MatrixError> {
    let total: u64 = files.iter().map(|file| file.bytes).sum();
    observer.event(&Event::PhaseStarted {
        label: format!("laying out {}", counted(files.len() as u64, "file")),
        total: Some(total),
        unit: Unit::Bytes,
    });
    let writers = WRITERS.min(files.len());
    let written = AtomicU64::new(0);
    let next = AtomicUsize::new(0);
    let failed = StopToken::new();
    let ends = Ends { stop, failed: &failed };
    let write = |_: usize, _: &mut Start<'_>| -> Result<(), TransferError> {
        while !ends.are_near()
            && let index = next.fetch_add(1, Ordering::Relaxed)
            && let Some(file) = files.get(index)
        {
            let result = write_file(storage, file, seed, engine, &written, ends);
            match result {
                Ok(true) => finished[index].store(true, Ordering::Release),
                // An unfinished file would be mistaken for a complete one.
                Ok(false) | Err(_) => storage.discard(&file.path),
            }
            result.inspect_err(|_| failed.stop())?;
        }
        Ok(())
    };
    let tell = |watch: &Watch<'_>| {
        while !watch.is_over() {
            watch.sleep(TICK);
            observer.event(&Event::Progress { done: written.load(Ordering::Relaxed) });
        }
    };
    let ran = thread_group::run("layout", 0..writers, &failed, write, tell);
    observer.event(&Event::PhaseFinished);
    let (results, ()) = ran?;
    results.into_iter().collect::<Result<(), _>>()?;
    Ok(!stop.is_stopped())
}

/// Creates a file, with `O_DIRECT` if the file system supports it, or begins an object.
fn create(storage: &dyn Storage, layout: &FilePlan) -> Result<(Handle, PathKind), TransferError> {
    if names_object(&layout.path) {
        let object = storage.handle(&layout.path, Access::Create, false)?;
        return Ok((object, PathKind::S3));
    }
    let (file, kind) = match storage.create(&layout.path, layout.bytes, true) {
        // This is not a measurement, so the page cache is acceptable.
        Err(error) if is_direct_refused(&error) => {
            (storage.create(&layout.path, layout.bytes, false)?, PathKind::Buffered)
        }
        created => (created?, PathKind::Cpu),
    };
    Ok((file.into(), kind))
}

/// The steps that complete a file or object once all of its data is written.
enum Closing {
    File(File),
    Object(Arc<Upload>),
}

impl Closing {
    fn of(handle: &Handle, path: &Path) -> Result<Self, TransferError> {
        let cannot = |source| TransferError::file("open", path, source);
        match handle {
            Handle::File(file) => file.try_clone().map(Self::File).map_err(cannot),
            Handle::Object(object) => {
                let upload = object.upload().map(Self::Object);
                upload.ok_or_else(|| cannot(std::io::ErrorKind::InvalidInput.into()))
            }
        }
    }

    fn finish(self, storage: &dyn Storage, layout: &FilePlan) -> Result<(), TransferError> {
        match self {
            Self::Object(upload) => upload.complete(),
            Self::File(file) => {
                file.set_len(layout.bytes).map_err(|source| {
                    TransferError::file("set the size of", &layout.path, source)
                })?;
                storage.sync(&file, &layout.path)
            }
        }
    }
}

/// Parts in flight for each object being laid out.
const PARTS: usize = 4;

/// Size and number of the writes of a path: an object is written part by part.
fn chunks(kind: PathKind) -> (usize, usize) {
    if kind == PathKind::S3 { (PART_BYTES as usize, PARTS) } else { (CHUNK_BYTES, DEPTH) }
}

/// The specification of a path that writes one file.
fn one_file(kind: PathKind, engine: EngineKind, region: &mut Region) -> PathSpec {
    let (chunk_bytes, depth) = chunks(kind);
    PathSpec {
        kind,
        engine,
        host: (0..depth).filter_map(|_| region.carve(chunk_bytes, CHUNK_BYTES)).collect(),
        accelerator_buffers: Vec::new(),
        accelerator: Arc::new(HostStandIn),
        submit_batch: 1,
        max_files: 1,
        register_buffers: false,
        page_aligned: false,
    }
}

/// Writes one file; `false` if stopped midway.
fn write_file(
    storage: &dyn Storage,
    layout: &FilePlan,
    seed: u64,
    engine: EngineKind,
    written: &AtomicU64,
    ends: Ends<'_>,
) -> Result<bool, TransferError> {
    let (file, kind) = create(storage, layout)?;
    let closing = Closing::of(&file, &layout.path)?;
    let (chunk_bytes, depth) = chunks(kind);
    let mut region = Region::new(chunk_bytes * depth)?;
    let path = storage.path(one_file(kind, engine, &mut region))?;
    let set = DriverSet::new(1);
    let mut driver = Driver::new(path, &set, 0);
    let id = driver.attach(file)?;
    let pattern = Pattern::new(seed, stream_of(&layout.path));
    let mut offset = 0u64;
    while offset < layout.bytes || driver.in_flight() > 0 {
        let stopped = ends.are_near();
        if stopped && driver.in_flight() == 0 {
            return Ok(false);
        }
        while offset < layout.bytes
            && !stopped
            && let Some(mut slot) = driver.take_slot()
        {
            let useful = (layout.bytes - offset).min(chunk_bytes as u64) as usize;
            // Direct writes use whole blocks; the excess at the end of the file is truncated below.
            let len = if kind.wants_direct() { useful.next_multiple_of(4096) } else { useful };
            if let Some(bytes) = slot.host_mut() {
                pattern.fill(offset, &mut bytes[..len]);
            }
            let place = FileRange { direction: Direction::Write, file: id, offset, len };
            driver.submit(slot, place, ())?;
            offset += useful as u64;
        }
        driver.wait(1)?;
        while let Some(landed) = driver.next_landed() {
            driver.put_back(landed.slot);
            let moved = landed.result.map_err(|e| e.named(&layout.path))?;
            written.fetch_add(moved as u64, Ordering::Relaxed);
        }
    }
    closing.finish(storage, layout)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::plan::FileAction;
    use stormlp_core::event::Silent;
    use stormlp_transfer::storage::Disk;

    fn layout(folder: &Path, bytes: u64) -> FilePlan {
        FilePlan {
            path: folder.join(format!("f{bytes}")),
            bytes,
            action: FileAction::Fill,
            content: None,
            folder: None,
            created_by_stormlp: true,
            file_system: None,
            hole_bytes: 0,
        }
    }

    /// The result of a layout, and the complete files.
    fn laid_out(files: &[FilePlan], stop: &StopToken) -> (Result<bool, MatrixError>, Vec<bool>) {
        let finished: Vec<AtomicBool> = files.iter().map(|_| AtomicBool::new(false)).collect();
        let all: Vec<&FilePlan> = files.iter().collect();
        let result = lay_out(&Disk, &all, (5, EngineKind::Psync), &Silent, stop, &finished);
        (result, finished.into_iter().map(AtomicBool::into_inner).collect())
    }

    #[test]
    fn files_hold_the_pattern_to_their_last_byte() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let files = [layout(folder.path(), 3 << 20), layout(folder.path(), 12_345)];
        let (result, finished) = laid_out(&files, &StopToken::new());
        assert!(result.unwrap());
        assert_eq!(finished, [true, true]);
        for file in files {
            let content = fs::read(&file.path).unwrap();
            assert_eq!(content.len() as u64, file.bytes);
            Pattern::new(5, stream_of(&file.path)).check(0, &content).unwrap();
        }
    }

    #[test]
    fn a_file_that_does_not_fit_leaves_no_remains() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let files = [layout(folder.path(), 1 << 50)];
        let Err(MatrixError::Transfer(error)) = laid_out(&files, &StopToken::new()).0 else {
            panic!("it fits");
        };
        assert!(error.errno().is_some(), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn stopping_leaves_no_unfinished_file() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let stop = StopToken::new();
        stop.stop();
        let (result, finished) = laid_out(&[layout(folder.path(), 64 << 20)], &stop);
        assert!(!result.unwrap());
        assert_eq!(finished, [false]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
