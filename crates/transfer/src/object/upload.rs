//! Uploads: an object in parts, which exists only once all of them are completed. One that fits a
//! part is put in one request.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rusty_s3::actions::{
    CompleteMultipartUpload, CompleteMultipartUploadResponse, CreateMultipartUpload, UploadPart,
};

use super::checksum::{self, Checksum};
use super::document::parsed;
use super::error::{ObjectError, ObjectFault};
use super::pool::SessionPool;
use super::request::{Request, mark};
use super::session::Session;
use super::uploads;
use crate::error::TransferError;

/// The bytes of a part, except the last: as official clients use, and the unit in which a range
/// that is read should lie.
pub const PART_BYTES: u64 = 16 << 20;
/// Maximum number of parts of an object.
const MOST_PARTS: u64 = 10_000;

/// An upload in progress. Unless it is completed it is aborted when dropped, and leaves no parts.
#[derive(Debug)]
pub struct Upload {
    /// Where the sessions that complete and abort it come from.
    sessions: Arc<SessionPool>,
    bucket: String,
    key: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    stage: Stage,
    parts: BTreeMap<u16, Part>,
}

/// How far an upload is.
#[derive(Debug, Default, Clone)]
enum Stage {
    /// No request was sent.
    #[default]
    Empty,
    /// The endpoint keeps parts under this number.
    Parts(String),
    /// The whole object, of so many bytes, was put in one request.
    Whole(u64),
    /// The object is there.
    Completed,
}

#[derive(Debug)]
struct Part {
    etag: String,
    bytes: u64,
    checksum: Option<Checksum>,
}

impl State {
    /// The list of parts with their checksums, if each has one.
    fn list(&self) -> Option<String> {
        let mut list = String::from("<CompleteMultipartUpload>");
        for (number, part) in &self.parts {
            let (tag, checksum) = part.checksum?.element();
            let etag = part.etag.replace('&', "&amp;").replace('<', "&lt;");
            list += &format!(
                "<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag>\
                 <{tag}>{checksum}</{tag}></Part>"
            );
        }
        Some(list + "</CompleteMultipartUpload>")
    }

    /// The checksum of all parts, if each has one.
    fn checksum(&self) -> Option<Checksum> {
        let mut parts = self.parts.values();
        let first = parts.next()?.checksum?;
        parts.try_fold(first, |whole, part| Some(whole.then(part.checksum?, part.bytes)))
    }
}

impl Upload {
    /// An upload that has not begun yet.
    pub(crate) fn of(sessions: &Arc<SessionPool>, bucket: &str, key: &str) -> Self {
        Self {
            sessions: Arc::clone(sessions),
            bucket: bucket.to_string(),
            key: key.to_string(),
            state: Mutex::default(),
        }
    }

    /// The endpoint's number of the upload, which begins with its first part.
    fn id(&self, session: &mut Session) -> Result<String, ObjectError> {
        let mut state = self.state();
        if let Stage::Parts(id) = &state.stage {
            return Ok(id.clone());
        }
        let action = CreateMultipartUpload::new(&session.bucket, None, &self.key);
        let of_checksum = session.checks().then_some(checksum::OF_UPLOAD);
        let of_checksum = of_checksum.into_iter().flatten();
        let of_checksum = of_checksum.map(|(name, value)| (name, value.to_string()));
        let headers = of_checksum.chain([mark()]);
        let request = session.request(&action, "begin upload of", &self.key, headers);
        let (_, body) = session.document(&request)?;
        let id = parsed(&body, uploads::begun)
            .map_err(|what| request.error(ObjectFault::Answer(what)))?;
        state.stage = Stage::Parts(id.clone());
        Ok(id)
    }

    /// The number of the part that begins at `offset`; `None` if no part does.
    pub fn part_at(offset: u64) -> Option<u16> {
        let number = offset / PART_BYTES + 1;
        let begins = offset.is_multiple_of(PART_BYTES) && number <= MOST_PARTS;
        begins.then(|| u16::try_from(number).ok()).flatten()
    }

    /// Uploads the part that begins at `offset`. A first part that is shorter than
    /// [`PART_BYTES`] is the whole object: only the last may be shorter.
    ///
    /// # Errors
    /// When no part begins there, or the request fails.
    pub fn part(&self, session: &mut Session, offset: u64, body: &[u8]) -> Result<(), ObjectError> {
        if offset == 0 && (body.len() as u64) < PART_BYTES {
            session.put(&self.key, body)?;
            self.state().stage = Stage::Whole(body.len() as u64);
            return Ok(());
        }
        let fault = |what: String| {
            session.error("upload part of", &self.key, Some(offset), ObjectFault::Answer(what))
        };
        let misplaced = || fault(format!("parts begin at multiples of {PART_BYTES} bytes"));
        let number = Self::part_at(offset).ok_or_else(misplaced)?;
        let id = self.id(session)?;
        let name = format!("upload part {number} of");
        let bytes = body.len() as u64;
        let sent = session.checksum_of(body);
        let action = UploadPart::new(&session.bucket, None, &self.key, number, &id);
        let request = session.request(&action, &name, &self.key, sent.map(Checksum::header));
        let request = Request { offset: Some(offset), body, ..request };
        let fault = |what: String| request.error(ObjectFault::Answer(what));
        let (head, _) = session.document(&request)?;
        let same = session.compare_sent(sent, &head, bytes);
        same.map_err(|fault| request.error(fault))?;
        let etag = head.etag.ok_or_else(|| fault("the reply has no ETag".to_string()))?;
        self.state().parts.insert(number, Part { etag, bytes, checksum: sent });
        Ok(())
    }

    /// Makes the object of its parts, and has the endpoint confirm its size.
    ///
    /// # Errors
    /// When a part is missing, a request fails, or the object has another size.
    pub fn complete(&self) -> Result<(), TransferError> {
        self.sessions.within(&self.bucket, |session| self.complete_in(session))
    }

    fn complete_in(&self, session: &mut Session) -> Result<(), TransferError> {
        let mut state = self.state();
        let id = match state.stage.clone() {
            Stage::Completed => return Ok(()),
            Stage::Parts(id) => id,
            Stage::Whole(bytes) => {
                self.confirm(session, bytes)?;
                state.stage = Stage::Completed;
                return Ok(());
            }
            Stage::Empty => {
                session.put(&self.key, &[])?;
                state.stage = Stage::Completed;
                return Ok(());
            }
        };
        let gap = (1..).zip(state.parts.keys()).find(|(expected, number)| expected != *number);
        if let Some((missing, _)) = gap {
            let fault = ObjectFault::Data(format!("part {missing} was not uploaded"));
            return Err(session.error("complete upload of", &self.key, None, fault).into());
        }
        self.join(session, &state, &id)?;
        state.stage = Stage::Completed;
        self.confirm(session, state.parts.values().map(|part| part.bytes).sum())
    }

    /// Has the endpoint make the object of the parts.
    fn join(&self, session: &mut Session, state: &State, id: &str) -> Result<(), ObjectError> {
        let etags: Vec<String> = state.parts.values().map(|part| part.etag.clone()).collect();
        let (bucket, key) = (session.bucket.clone(), &self.key);
        let action = || {
            let etags = etags.iter().map(String::as_str);
            CompleteMultipartUpload::new(&bucket, None, key, id, etags)
        };
        let body = state.list().unwrap_or_else(|| action().body());
        let whole = state.checksum().map(Checksum::header);
        let of_whole = whole.into_iter().flat_map(|header| {
            let (name, value) = checksum::OF_UPLOAD[1];
            [header, (name, value.to_string())]
        });
        let request = session.request(&action(), "complete upload of", key, of_whole);
        let request = Request { body: body.as_bytes(), ..request };
        let (_, reply) = session.document(&request)?;
        parsed(&reply, CompleteMultipartUploadResponse::parse)
            .map_err(|what| request.error(ObjectFault::Answer(what)))?;
        Ok(())
    }

    /// Has the endpoint confirm the size of the object, unless that is not requested.
    fn confirm(&self, session: &mut Session, bytes: u64) -> Result<(), TransferError> {
        if !session.verifies() {
            return Ok(());
        }
        let what = match session.head(&self.key)? {
            Some(facts) if facts.bytes == bytes => return Ok(()),
            Some(facts) => format!("the object has {} of {bytes} bytes", facts.bytes),
            None => "there is no object afterwards".to_string(),
        };
        Err(session.error("complete upload of", &self.key, None, ObjectFault::Data(what)).into())
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let Stage::Parts(id) = self.state().stage.clone() else {
            return;
        };
        // An upload that cannot be aborted now is removed by `stormlp clean`.
        let abort = |session: &mut Session| Ok(session.abort(&self.key, &id)?);
        let _ = self.sessions.within(&self.bucket, abort);
    }
}
