//! Checks of a session's transfers, as its client verifies.

use stormlp_core::verify::Verify;

use super::checksum::{self, Checksum};
use super::error::{ObjectError, ObjectFault};
use super::reply::Head;
use super::session::Session;

impl Session {
    /// Whether checksums are sent and asked for.
    pub(super) fn checks(&self) -> bool {
        self.client.verify == Verify::Crc
    }

    /// Whether all ranges have to be of one object, and an object to have its size once it is
    /// uploaded.
    pub(crate) fn verifies(&self) -> bool {
        self.client.verify != Verify::None
    }

    /// The header that asks for the checksum of an object.
    pub(super) fn asks(&self) -> Option<(&'static str, String)> {
        self.checks().then(|| (checksum::ASK.0, checksum::ASK.1.to_string()))
    }

    /// The checksum that is sent with `body`.
    pub(super) fn checksum_of(&self, body: &[u8]) -> Option<Checksum> {
        self.checks().then(|| Checksum::of(body))
    }

    /// Compares a checksum that was `sent` with the one in the reply, if it has one.
    pub(super) fn compare_sent(
        &mut self,
        sent: Option<Checksum>,
        reply: &Head,
        bytes: u64,
    ) -> Result<(), ObjectFault> {
        let Some(sent) = sent else { return Ok(()) };
        let checked = reply.checksum.and_then(|told| sent.check_sent(told));
        self.checksums.uploads_unverified += u64::from(checked.is_none());
        self.count_checked(checked, bytes)
    }

    /// Counts a body with a checksum that was `checked`, or without one.
    pub(super) fn count_checked(
        &mut self,
        checked: Option<Result<(), String>>,
        bytes: u64,
    ) -> Result<(), ObjectFault> {
        match checked {
            Some(Ok(())) => self.checksums.checked_bytes += bytes,
            Some(Err(what)) => {
                self.checksums.differed += 1;
                return Err(ObjectFault::Data(what));
            }
            None => self.checksums.responses_unverified += 1,
        }
        Ok(())
    }

    /// The error of a range of an object that is not the one of the other ranges.
    pub(crate) fn replaced(&self, key: &str, offset: u64, now: &str, before: &str) -> ObjectError {
        self.error("GET", key, Some(offset), replaced(now, before))
    }
}

pub(super) fn replaced(now: &str, before: &str) -> ObjectFault {
    ObjectFault::Data(format!("another object is there: ETag {now}, not {before}"))
}
