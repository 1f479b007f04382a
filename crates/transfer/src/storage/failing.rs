//! Storage with injected faults.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use stormlp_core::impairment::{Fault, FaultKind, warning};
use stormlp_core::warning::Warning;

use super::gated::{Gate, Grant, Request};

/// The length of a short transfer is a multiple of this if possible: direct transfers need it.
const BLOCK_BYTES: u64 = 4096;

/// Counts operations and fails the configured ones.
#[derive(Debug)]
pub struct Failing {
    /// Each fault with the number of operations of its kind so far.
    faults: Vec<(Fault, AtomicU64)>,
}

impl Failing {
    /// A gate that admits everything except `faults`.
    pub fn new(faults: &[Fault]) -> Self {
        Self { faults: faults.iter().map(|f| (*f, AtomicU64::new(0))).collect() }
    }
}

impl Gate for Failing {
    fn admit(&self, request: &Request<'_>, now: Duration) -> io::Result<Grant> {
        // Every fault counts, even if an earlier one hits.
        let hits = |(fault, count): &&(Fault, AtomicU64)| {
            fault.operation == request.operation
                && 1 + count.fetch_add(1, Ordering::Relaxed) == fault.nth
        };
        let hit: Vec<&(Fault, AtomicU64)> = self.faults.iter().filter(hits).collect();
        let bytes = match hit.first().map(|(fault, _)| fault.kind) {
            None => request.bytes,
            Some(FaultKind::Errno(number)) => return Err(io::Error::from_raw_os_error(number)),
            Some(FaultKind::Short) => match request.bytes / 2 {
                half if half > BLOCK_BYTES => half / BLOCK_BYTES * BLOCK_BYTES,
                half => half,
            },
        };
        Ok(Grant { bytes, not_before: now })
    }

    fn warnings(&self) -> Vec<Warning> {
        let faults: Vec<String> = self.faults.iter().map(|(f, _)| f.to_string()).collect();
        vec![warning("--inject-fault", &format!("asked that {}", faults.join(", ")))]
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::storage::disk::Disk;
    use crate::storage::gated::Gated;
    use crate::storage::interface::{Access, Durability, Storage as _};

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
