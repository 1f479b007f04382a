//! Another client in place of our own, to compare with: the crate object_store, in builds that have
//! it.

use std::sync::Arc;

use stormlp_core::verify::Verify;
use url::Url;

use super::client::{Client, ObjectRules};
use super::error::ObjectFault;
use super::get::Get;
use super::reply::Head;
use super::session::Listed;
use super::wire::Tally;
use crate::error::TransferError;

/// What another client does in place of a session's connection.
pub(super) trait Other: Send {
    /// Its name and version.
    fn name(&self) -> String;

    /// What it counted.
    fn tally(&self) -> Tally;

    /// Reads all of `target`; `answered` is called when the head of the reply is there.
    fn get(
        &mut self,
        get: Get<'_>,
        target: &mut [u8],
        answered: &mut dyn FnMut(),
    ) -> Result<Head, ObjectFault>;

    /// Writes an object that is marked as stormlp's; its ETag.
    fn put(&mut self, key: &str, body: &[u8]) -> Result<Option<String>, ObjectFault>;

    /// Size, identity and mark of an object; `None` if there is none.
    fn head(&mut self, key: &str) -> Result<Option<(u64, Head)>, ObjectFault>;

    /// The objects of a prefix, at least `most` if there are so many; with `folders`, those directly
    /// beneath it, and the folders there.
    fn list(
        &mut self,
        prefix: &str,
        folders: bool,
        most: usize,
    ) -> Result<(Vec<Listed>, Vec<String>), ObjectFault>;

    /// Removes objects.
    fn delete(&mut self, keys: &[String]) -> Result<(), ObjectFault>;

    /// Begins an upload; its number.
    fn begin(&mut self, key: &str) -> Result<String, ObjectFault>;

    /// Uploads a part, numbered from 1; its ETag.
    fn part(
        &mut self,
        key: &str,
        id: &str,
        number: u16,
        body: &[u8],
    ) -> Result<String, ObjectFault>;

    /// Makes the object of its parts.
    fn complete(&mut self, key: &str, id: &str, etags: &[String]) -> Result<(), ObjectFault>;
}

impl ObjectRules {
    /// Rejects rules that this build, or the other client in it, cannot follow.
    ///
    /// # Errors
    /// With what to do.
    pub fn check(self) -> Result<(), TransferError> {
        if !self.by_object_store {
            return Ok(());
        }
        if cfg!(not(feature = "object-store")) {
            return cannot(
                "this build does not have it",
                "build stormlp with `cargo build --release --features object-store`, or leave \
                 --engine out",
            );
        }
        if self.verify == Verify::Crc {
            return cannot(
                "checksums are compared by stormlp's own client alone",
                "use --verify size (datagen: --verify-objects size), or leave out --engine",
            );
        }
        Ok(())
    }

    /// Rejects endpoints that the other client, if it is to be used, is not for.
    pub(super) fn check_endpoints(self, endpoints: &[Url]) -> Result<(), TransferError> {
        self.check()?;
        if self.by_object_store && endpoints.iter().any(|url| url.scheme() != "http") {
            return cannot(
                "it is for endpoints without TLS",
                "name one at http://, or leave --engine out",
            );
        }
        Ok(())
    }
}

fn cannot(reason: &str, remedy: &str) -> Result<(), TransferError> {
    Err(TransferError::Unavailable {
        what: "engine object_store".to_string(),
        reason: reason.to_string(),
        remedy: remedy.to_string(),
    })
}

/// The other client for a session with `bucket` at the endpoint of this number, if the client's rules
/// want one.
#[cfg(feature = "object-store")]
pub(super) fn open(
    client: &Arc<Client>,
    bucket: &str,
    endpoint: usize,
    number: u64,
) -> Result<Option<Box<dyn Other>>, TransferError> {
    if !client.rules.by_object_store {
        return Ok(None);
    }
    Ok(Some(Box::new(super::by_object_store::ByObjectStore::new(
        client, bucket, endpoint, number,
    )?)))
}

/// None in builds without one, which [`ObjectRules::check`] has said.
#[cfg(not(feature = "object-store"))]
pub(super) fn open(
    _client: &Arc<Client>,
    _bucket: &str,
    _endpoint: usize,
    _number: u64,
) -> Result<Option<Box<dyn Other>>, TransferError> {
    Ok(None)
}
