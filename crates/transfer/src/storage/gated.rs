//! Storage behind a gate, which is asked before each operation.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use stormlp_core::impairment::StorageOperation;
use stormlp_core::warning::Warning;

use super::bucket::Buckets;
use super::gate::{Clock, Gate, GatedPath, Monotonic, Request, verb};
use super::interface::Storage;
use crate::error::TransferError;
use crate::paths::PathSpec;
use crate::transfer::TransferPath;

/// Storage behind a gate.
pub struct Gated<G> {
    inner: Arc<dyn Storage>,
    gate: Arc<G>,
    clock: Arc<dyn Clock>,
}

impl<G: Gate> Gated<G> {
    /// Puts `gate` before `inner`.
    pub fn new(inner: Arc<dyn Storage>, gate: G) -> Self {
        Self::timed(inner, gate, Arc::new(Monotonic(Instant::now())))
    }

    /// The same with another clock.
    pub fn timed(inner: Arc<dyn Storage>, gate: G, clock: Arc<dyn Clock>) -> Self {
        Self { inner, gate: Arc::new(gate), clock }
    }

    /// The gate.
    pub fn gate(&self) -> &G {
        &self.gate
    }
}

impl<G: Gate + 'static> Storage for Gated<G> {
    fn pass(
        &self,
        operation: StorageOperation,
        path: &Path,
        bytes: usize,
    ) -> Result<usize, TransferError> {
        let request = Request { operation, path: Some(path), bytes: bytes as u64 };
        let pass = || {
            let now = self.clock.now();
            let grant = self.gate.admit(&request, now)?;
            if grant.not_before > now {
                self.clock.sleep(grant.not_before, None)?;
            }
            Ok(usize::try_from(grant.bytes).unwrap_or(bytes))
        };
        let granted = pass().map_err(|error| TransferError::file(verb(operation), path, error))?;
        self.inner.pass(operation, path, granted)
    }

    fn objects(&self, path: &Path) -> Result<Option<&Buckets>, TransferError> {
        self.inner.objects(path)
    }

    fn path(&self, spec: PathSpec) -> Result<Box<dyn TransferPath>, TransferError> {
        self.pass(StorageOperation::Build, Path::new("storage"), 0)?;
        // A gate may cut transfers short at any offset.
        let spec = PathSpec { page_aligned: false, ..spec };
        let inner = self.inner.path(spec)?;
        let (gate, clock) = (Arc::clone(&self.gate), Arc::clone(&self.clock));
        Ok(Box::new(GatedPath::new(inner, gate, clock)))
    }

    fn warnings(&self) -> Vec<Warning> {
        let mut warnings = self.inner.warnings();
        warnings.extend(self.gate.warnings());
        warnings
    }
}
