//! GETs: an object or a range of it, received straight into the caller's memory and checked.

use std::time::{Duration, Instant};

use super::checks::replaced;
use super::error::{ObjectError, ObjectFault};
use super::reply::Head;
use super::session::{ObjectFacts, Session};
use super::wire::WireError;

/// The requested range; its length is the length of the memory that receives it.
#[derive(Debug, Clone, Copy)]
pub struct Get<'a> {
    /// The object.
    pub key: &'a str,
    /// The first byte.
    pub offset: u64,
    /// The size of the whole object.
    pub object_bytes: u64,
    /// The identifier of its content, as far as known.
    pub etag: Option<&'a str>,
}

impl<'a> Get<'a> {
    /// A GET from `offset` on of the object with these facts.
    pub fn of(key: &'a str, offset: u64, facts: &'a ObjectFacts) -> Self {
        Self { key, offset, object_bytes: facts.bytes, etag: facts.etag.as_deref() }
    }

    /// Whether `bytes` are the whole object, which is asked for without a range.
    pub(super) fn is_whole(&self, bytes: usize) -> bool {
        self.offset == 0 && self.object_bytes == bytes as u64
    }
}

impl Session {
    /// From now on times to the first byte count, of GETs that end at `start` or later; those so far,
    /// of transfers that only prepared the measurement, are forgotten.
    pub(crate) fn measure_from(&mut self, start: Instant) {
        self.first_byte.reset();
        self.measured_from = Some(start);
    }

    /// Reads as many bytes as `target` has, straight into it, and returns the object's ETag. All of an
    /// object is asked for without a range, and compared with its checksum if the client's rules say so.
    ///
    /// # Errors
    /// When the object has another size, is another one, or the request fails.
    pub fn get(&mut self, get: Get<'_>, target: &mut [u8]) -> Result<Option<String>, ObjectError> {
        let (began, mut first_byte) = (Instant::now(), Duration::ZERO);
        let Get { key, offset, .. } = get;
        let (wanted, last) = (target.len() as u64, offset + target.len() as u64 - 1);
        let action = self.bucket.get_object(None, key);
        let mut request = self.request(&action, "GET", key, self.asks());
        request.offset = Some(offset);
        if !get.is_whole(target.len()) {
            request.headers += &format!("Range: bytes={offset}-{last}\r\n");
        }
        let (head, ()) = self.perform(&request, |connection, head| {
            first_byte = began.elapsed();
            check_range(head, offset, wanted)?;
            Ok(connection.fill(target)?)
        })?;
        if self.measured_from.is_none_or(|start| Instant::now() >= start) {
            self.first_byte.record_ns(u64::try_from(first_byte.as_nanos()).unwrap_or(u64::MAX));
        }
        let same = self.compare(get, &head, target);
        same.map_err(|fault| request.error(fault))?;
        Ok(head.etag)
    }

    /// Compares the reply of a GET with the facts known of the object.
    fn compare(&mut self, get: Get<'_>, head: &Head, body: &[u8]) -> Result<(), ObjectFault> {
        let expected = get.etag.filter(|_| self.verifies());
        if let (Some(before), Some(now)) = (expected, &head.etag)
            && before != now
        {
            return Err(replaced(now, before));
        }
        if let Some(now) = head.whole_bytes()
            && get.object_bytes != now
        {
            let what =
                format!("another object is there: it has {now} bytes, not {}", get.object_bytes);
            return Err(ObjectFault::Data(what));
        }
        if !self.checks() {
            return Ok(());
        }
        // A range's would be the whole object's, or a part's.
        let bytes = body.len() as u64;
        let told = head.checksum.filter(|_| head.whole_bytes() == Some(bytes));
        self.count_checked(told.map(|told| told.check(body)), bytes)
    }
}

/// Whether a reply has the requested range of `wanted` bytes: a proxy may have ignored the range,
/// and an object that is too short gives fewer.
pub(super) fn check_range(head: &Head, offset: u64, wanted: u64) -> Result<(), WireError> {
    let range = head.content_range.as_deref().unwrap_or("no Content-Range");
    let right = format!("bytes {offset}-{}/", offset + wanted - 1);
    let whole = head.status == 200 && offset == 0 && head.content_range.is_none();
    if !whole && !range.starts_with(&right) {
        return Err(WireError::Wrong(format!(
            "the reply has status {} and {range}, not bytes {offset}-{}",
            head.status,
            offset + wanted - 1
        )));
    }
    match head.length {
        Some(length) if length == wanted => Ok(()),
        Some(length) => Err(WireError::Wrong(format!("the body has {length} bytes, not {wanted}"))),
        None => Err(WireError::Wrong("the reply has no Content-Length".to_string())),
    }
}
