//! Lays out the files a matrix reads: incompressible, position-dependent, written with direct I/O.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use stormlp_core::event::{Event, Observer, Unit};
use stormlp_core::location::names_object;
use stormlp_core::operation::Direction;
use stormlp_core::path::{EngineKind, PathKind};
use stormlp_core::pattern::Pattern;
use stormlp_core::stop::StopToken;
use stormlp_transfer::crew::{self, Start, Watch};
use stormlp_transfer::object::{PART_BYTES, Upload};
use stormlp_transfer::storage::{Access, Handle, Storage, is_direct_refused};
use stormlp_transfer::{Driver, DriverSet, HostStandIn, PathSpec, Place, Region, TransferError};

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

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LayoutFile {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    /// The pattern stream it holds.
    pub(crate) stream: u64,
}

/// The outcome of a layout.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LaidOut {
    /// All files are complete.
    All,
    /// The user stopped it; unfinished files are removed.
    Stopped,
}

/// Which files are complete, however the layout ended.
#[derive(Debug)]
pub(crate) struct FinishedFiles(Vec<AtomicBool>);

impl FinishedFiles {
    /// The initial state: none of `files` files is complete.
    pub(crate) fn of(files: usize) -> Self {
        Self((0..files).map(|_| AtomicBool::new(false)).collect())
    }

    /// Whether the file of this index was completely written.
    pub(crate) fn holds(&self, index: usize) -> bool {
        self.0[index].load(Ordering::Acquire)
    }
}

/// Writes `files` with the pattern of `seed`, several concurrently, and notifies `observer`.
///
/// # Errors
/// The first failure; unfinished files have been removed.
pub(crate) fn lay_out(
    storage: &dyn Storage,
    files: &[LayoutFile],
    seed: u64,
    engine: EngineKind,
    observer: &dyn Observer,
    stop: &StopToken,
    finished: &FinishedFiles,
) -> Result<LaidOut, MatrixError> {
    let total: u64 = files.iter().map(|file| file.bytes).sum();
    observer.event(&Event::PhaseStarted {
        label: format!("laying out {} files", files.len()),
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
                Ok(true) => finished.0[index].store(true, Ordering::Release),
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
    let ran = crew::run("layout", 0..writers, &failed, write, tell);
    observer.event(&Event::PhaseFinished);
    let (results, ()) = ran?;
    results.into_iter().collect::<Result<(), _>>()?;
    Ok(if stop.is_stopped() { LaidOut::Stopped } else { LaidOut::All })
}

/// Creates a file, with `O_DIRECT` if the file system supports it, or begins an object.
fn create(storage: &dyn Storage, layout: &LayoutFile) -> Result<(Handle, PathKind), TransferError> {
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
    storage.mark(&file);
    Ok((file.into(), kind))
}

/// What completes a file or object once all of its data is written.
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

    fn finish(self, storage: &dyn Storage, layout: &LayoutFile) -> Result<(), TransferError> {
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
    layout: &LayoutFile,
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
    let pattern = Pattern::new(seed, layout.stream);
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
            let place = Place { direction: Direction::Write, file: id, offset, len };
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
    use stormlp_core::event::Silent;
    use stormlp_transfer::storage::Disk;

    fn layout(folder: &Path, bytes: u64) -> LayoutFile {
        LayoutFile { path: folder.join(format!("f{bytes}")), bytes, stream: bytes }
    }

    #[test]
    fn files_hold_the_pattern_to_their_last_byte() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let files = [layout(folder.path(), 3 << 20), layout(folder.path(), 12_345)];
        let stop = StopToken::new();
        let finished = FinishedFiles::of(files.len());
        let result =
            lay_out(&Disk, &files, 5, EngineKind::Psync, &Silent, &stop, &finished).unwrap();
        assert!(finished.holds(0) && finished.holds(1));
        assert_eq!(result, LaidOut::All);
        for file in files {
            let content = fs::read(&file.path).unwrap();
            assert_eq!(content.len() as u64, file.bytes);
            Pattern::new(5, file.stream).check(0, &content).unwrap();
        }
    }

    #[test]
    fn a_file_that_does_not_fit_leaves_no_remains() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let files = [layout(folder.path(), 1 << 50)];
        let finished = FinishedFiles::of(1);
        let error =
            lay_out(&Disk, &files, 5, EngineKind::Psync, &Silent, &StopToken::new(), &finished)
                .unwrap_err();
        let MatrixError::Transfer(error) = error else {
            panic!("{error}");
        };
        assert!(error.errno().is_some(), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn stopping_leaves_no_unfinished_file() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let stop = StopToken::new();
        stop.stop();
        let files = [layout(folder.path(), 64 << 20)];
        let finished = FinishedFiles::of(1);
        let result =
            lay_out(&Disk, &files, 5, EngineKind::Psync, &Silent, &stop, &finished).unwrap();
        assert_eq!(result, LaidOut::Stopped);
        assert!(!finished.holds(0));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
