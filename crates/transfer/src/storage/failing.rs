//! Storage with injected faults: of a run on its data, or of the whole process.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Signal, getpid, kill_process};
use stormlp_core::impairment::{Fault, FaultKind, StorageOperation, warning};
use stormlp_core::warning::Warning;

use super::gate::{Gate, GatedPath, Grant, Monotonic, Request, verb};
use crate::error::TransferError;
use crate::paths::{PathSpec, build_path};
use crate::transfer::TransferPath;

/// The length of a short transfer is a multiple of this if possible: direct transfers need it.
const BLOCK_BYTES: u64 = 4096;

/// The faults of the whole process, which [`Disk`](super::Disk) asks for.
static OF_PROCESS: OnceLock<Arc<Failing>> = OnceLock::new();

/// Counts operations and fails the configured ones.
#[derive(Debug)]
pub struct Failing {
    /// Each fault with the number of operations of its kind so far.
    faults: Vec<(Fault, AtomicU64)>,
    /// The failures.
    happened: Mutex<Vec<String>>,
}

impl Failing {
    /// A gate that admits everything except `faults`.
    pub fn new(faults: &[Fault]) -> Self {
        let counted = faults.iter().map(|fault| (*fault, AtomicU64::new(0)));
        Self { faults: counted.collect(), happened: Mutex::default() }
    }

    /// The failures, and for each fault that did not happen, how many operations there were.
    fn outcome(&self) -> Vec<String> {
        let mut lines = self.happened.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (fault, count) in &self.faults {
            let count = count.load(Ordering::Relaxed);
            if count < fault.nth {
                let what =
                    fault.operation.map_or("calls".to_string(), |one| format!("{one} calls"));
                lines.push(format!("no fault occurred: there were {count} {what}"));
            }
        }
        lines
    }
}

impl Gate for Failing {
    fn admit(&self, request: &Request<'_>, now: Duration) -> io::Result<Grant> {
        // Every fault counts, even if an earlier one hits.
        let hits = |(fault, count): &&(Fault, AtomicU64)| {
            fault.operation.is_none_or(|operation| operation == request.operation)
                && 1 + count.fetch_add(1, Ordering::Relaxed) == fault.nth
        };
        let hit: Vec<&(Fault, AtomicU64)> = self.faults.iter().filter(hits).collect();
        let Some((fault, _)) = hit.first() else {
            return Ok(Grant { bytes: request.bytes, not_before: now });
        };
        let path = request.path.map_or("in flight".into(), |path| path.display().to_string());
        let line = format!("{fault}: {} ({path})", request.operation);
        self.happened.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        let bytes = match fault.kind {
            FaultKind::Errno(number) => return Err(io::Error::from_raw_os_error(number)),
            FaultKind::Short => match request.bytes / 2 {
                half if half > BLOCK_BYTES => half / BLOCK_BYTES * BLOCK_BYTES,
                half => half,
            },
            FaultKind::Kill => {
                kill_process(getpid(), Signal::KILL)?;
                request.bytes
            }
        };
        Ok(Grant { bytes, not_before: now })
    }

    fn warnings(&self) -> Vec<Warning> {
        // Measurements before a kill are as they would be without one.
        let altering = self.faults.iter().filter(|(fault, _)| fault.kind != FaultKind::Kill);
        let faults: Vec<String> = altering.map(|(fault, _)| fault.to_string()).collect();
        let asked = format!("asked that {}", faults.join(", "));
        (!faults.is_empty()).then(|| warning("--inject-fault", &asked)).into_iter().collect()
    }
}

/// Makes operations of the whole process fail, reports included, for the `faults` of the whole
/// process. Call it once, at the start.
pub fn inject(faults: &[Fault]) {
    let of_process: Vec<Fault> = faults.iter().filter(|one| one.everywhere).copied().collect();
    if !of_process.is_empty() {
        OF_PROCESS.get_or_init(|| Arc::new(Failing::new(&of_process)));
    }
}

/// The failures in the whole process by [`inject`]; for each fault that did not happen, how many
/// operations there were.
pub fn injected() -> Vec<String> {
    of_process().map_or_else(Vec::new, |failing| failing.outcome())
}

/// The faults of the whole process.
pub(super) fn of_process() -> Option<&'static Arc<Failing>> {
    OF_PROCESS.get()
}

/// Asks for a fault of the whole process before an operation on `bytes`; returns how many of them
/// may be transferred.
pub(super) fn pass(
    operation: StorageOperation,
    path: &Path,
    bytes: usize,
) -> Result<usize, TransferError> {
    let Some(failing) = of_process() else {
        return Ok(bytes);
    };
    let request = Request { operation, path: Some(path), bytes: bytes as u64 };
    let granted = failing.admit(&request, Duration::ZERO);
    granted
        .map(|grant| usize::try_from(grant.bytes).unwrap_or(bytes))
        .map_err(|source| TransferError::file(verb(operation), path, source))
}

/// A path that fails where [`inject`](super::inject) was asked.
pub(super) fn path_of_process(spec: PathSpec) -> Result<Box<dyn TransferPath>, TransferError> {
    let Some(failing) = of_process() else {
        return build_path(spec);
    };
    pass(StorageOperation::Build, Path::new("storage"), 0)?;
    // A transfer may be cut short at any offset.
    let path = build_path(PathSpec { page_aligned: false, ..spec })?;
    let clock = Arc::new(Monotonic(Instant::now()));
    Ok(Box::new(GatedPath::new(path, Arc::clone(failing) as Arc<dyn Gate>, clock)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::storage::gated::Gated;
    use crate::storage::{Access, Disk, Durability, Storage as _};

    #[test]
    fn the_nth_operation_fails_and_the_others_do_not() {
        let faults: Vec<Fault> = ["open:2:EACCES", "read:1:short", "sync:1:EIO"]
            .iter()
            .map(|fault| fault.parse().unwrap())
            .collect();
        let storage = Gated::new(Arc::new(Disk), Failing::new(&faults));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let error = storage.write(&path, b"text", Durability::Certain).unwrap_err();
        assert_eq!(error.errno(), Some(libc::EIO));
        assert!(storage.list(folder.path()).unwrap().is_empty());
        storage.write(&path, b"text", Durability::Certain).unwrap();
        let file = storage.open(&path, Access::Read, false).unwrap();
        let mut buffer = [0; 4];
        assert_eq!(storage.read_at(&file, &path, 0, &mut buffer).unwrap(), 2);
        assert_eq!(storage.read_at(&file, &path, 0, &mut buffer).unwrap(), 4);
        let refused = storage.open(&path, Access::Read, false).unwrap_err();
        assert!(refused.is_permission_denied());
        for (fault, verb) in [("stat", "inspect"), ("list", "read the folder")] {
            let fault = format!("{fault}:1:EIO").parse().unwrap();
            let storage = Gated::new(Arc::new(Disk), Failing::new(&[fault]));
            let looked = match verb {
                "inspect" => storage.nearest(&path).map(drop),
                _ => storage.list(folder.path()).map(drop),
            };
            let error = looked.unwrap_err();
            assert!(error.to_string().starts_with(verb), "{error}");
            assert_eq!(error.cause(), stormlp_core::note::Cause::Storage);
        }
        let told = &storage.warnings()[0].fact;
        assert!(told.contains("asked that open 2 fails with EACCES, read 1"), "{told}");
    }
}
