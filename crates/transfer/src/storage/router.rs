//! Storage of whatever a path names: `s3://` names objects, everything else files.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use stormlp_core::impairment::StorageOperation;
use stormlp_core::location::names_object;
use stormlp_core::path::PathKind;
use stormlp_core::verify::Verify;
use stormlp_core::warning::Warning;

use super::bucket::Buckets;
use super::interface::{Disk, Storage};
use crate::error::TransferError;
use crate::object::Client;
use crate::paths::{PathSpec, build_path};
use crate::transfer::TransferPath;

/// Files, and the objects of the user's object store; its settings are read when the first object
/// is named.
pub struct StorageRouter {
    files: Arc<dyn Storage>,
    /// Whether operations on files are delayed or made to fail.
    impaired: bool,
    verify: Verify,
    buckets: OnceLock<Buckets>,
}

impl Default for StorageRouter {
    fn default() -> Self {
        Self::verifying(Verify::default())
    }
}

impl StorageRouter {
    /// Files, and objects that are verified as `verify` says.
    pub fn verifying(verify: Verify) -> Self {
        Self { files: Arc::new(Disk), impaired: false, verify, buckets: OnceLock::new() }
    }

    /// Files, and the objects that `client` reaches.
    pub fn with(client: Arc<Client>) -> Self {
        Self { buckets: Buckets::of(client).into(), ..Self::default() }
    }

    /// The same with files behind gates.
    pub(super) fn impaired(files: Arc<dyn Storage>) -> Self {
        Self { files, impaired: true, ..Self::default() }
    }

    fn buckets(&self) -> Result<&Buckets, TransferError> {
        if self.impaired {
            return Err(TransferError::Unavailable {
                what: "the object store".to_string(),
                reason: "--throttle and --inject-fault act on files alone".to_string(),
                remedy: "leave them out, or name a folder".to_string(),
            });
        }
        if let Some(buckets) = self.buckets.get() {
            return Ok(buckets);
        }
        let buckets = Buckets::of_user(self.verify)?;
        Ok(self.buckets.get_or_init(|| buckets))
    }
}

impl Storage for StorageRouter {
    fn pass(
        &self,
        operation: StorageOperation,
        path: &Path,
        bytes: usize,
    ) -> Result<usize, TransferError> {
        self.files.pass(operation, path, bytes)
    }

    fn objects(&self, path: &Path) -> Result<Option<&Buckets>, TransferError> {
        if names_object(path) { self.buckets().map(Some) } else { Ok(None) }
    }

    fn path(&self, spec: PathSpec) -> Result<Box<dyn TransferPath>, TransferError> {
        if spec.kind == PathKind::S3 { build_path(spec) } else { self.files.path(spec) }
    }

    fn warnings(&self) -> Vec<Warning> {
        let of_objects = self.buckets.get().map_or_else(Vec::new, Buckets::warnings);
        self.files.warnings().into_iter().chain(of_objects).collect()
    }
}
