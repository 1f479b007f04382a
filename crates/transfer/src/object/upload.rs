//! Multipart uploads: an object in parts, which exists only once all of them are completed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rusty_s3::actions::{
    AbortMultipartUpload, CompleteMultipartUpload, CompleteMultipartUploadResponse,
    CreateMultipartUpload, UploadPart,
};

use super::client::Client;
use super::error::{ObjectError, ObjectFault};
use super::session::{Request, Session, parsed};
use crate::error::TransferError;

/// The bytes of a part, except the last: what official clients use, and what a range that is read
/// should lie in.
pub const PART_BYTES: u64 = 16 << 20;
/// The most parts of an object.
const MOST_PARTS: u64 = 10_000;

/// An upload in progress. Unless it is completed it is aborted when dropped, and leaves nothing.
#[derive(Debug)]
pub struct Upload {
    client: Arc<Client>,
    bucket: String,
    key: String,
    id: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    parts: BTreeMap<u16, Part>,
    completed: bool,
}

#[derive(Debug)]
struct Part {
    etag: String,
    bytes: u64,
}

impl Upload {
    /// Begins an upload.
    ///
    /// # Errors
    /// When the request fails.
    pub fn begin(client: &Arc<Client>, bucket: &str, key: &str) -> Result<Self, TransferError> {
        let mut session = client.session(bucket)?;
        let (credentials, address) = (session.credentials(), session.bucket.clone());
        let action = CreateMultipartUpload::new(&address, Some(&credentials), key);
        let request = Request::of(&action, "begin upload of", key);
        let (_, body) = session.document(&request)?;
        let reply = parsed(&body, CreateMultipartUpload::parse_response)
            .map_err(|what| request.error(&address, ObjectFault::Answer(what)))?;
        Ok(Self {
            client: Arc::clone(client),
            bucket: bucket.to_string(),
            key: key.to_string(),
            id: reply.upload_id().to_string(),
            state: Mutex::default(),
        })
    }

    /// The number of the part that begins at `offset`; `None` if no part does.
    pub fn part_at(offset: u64) -> Option<u16> {
        let number = offset / PART_BYTES + 1;
        let begins = offset.is_multiple_of(PART_BYTES) && number <= MOST_PARTS;
        begins.then(|| u16::try_from(number).ok()).flatten()
    }

    /// Uploads the part that begins at `offset`.
    ///
    /// # Errors
    /// When no part begins there, or the request fails.
    pub fn part(&self, session: &mut Session, offset: u64, body: &[u8]) -> Result<(), ObjectError> {
        let (credentials, address) = (session.credentials(), session.bucket.clone());
        let number = Self::part_at(offset).unwrap_or_default();
        let action = UploadPart::new(&address, Some(&credentials), &self.key, number, &self.id);
        let name = format!("upload part {number} of");
        let request =
            Request { offset: Some(offset), body, ..Request::of(&action, &name, &self.key) };
        let fault = |what: String| request.error(&address, ObjectFault::Answer(what));
        if number == 0 {
            return Err(fault(format!("parts begin at multiples of {PART_BYTES} bytes")));
        }
        let etag = session.document(&request)?.0.etag;
        let etag = etag.ok_or_else(|| fault("the reply has no ETag".to_string()))?;
        self.state().parts.insert(number, Part { etag, bytes: body.len() as u64 });
        Ok(())
    }

    /// Makes the object of its parts, and has the endpoint confirm its size.
    ///
    /// # Errors
    /// When a part is missing, a request fails, or the object has another size.
    pub fn complete(&self) -> Result<(), TransferError> {
        let mut session = self.client.session(&self.bucket)?;
        let mut state = self.state();
        if state.completed {
            return Ok(());
        }
        let (credentials, address) = (session.credentials(), session.bucket.clone());
        let etags: Vec<String> = state.parts.values().map(|part| part.etag.clone()).collect();
        let (credentials, key) = (Some(&credentials), &self.key);
        let action = || {
            let etags = etags.iter().map(String::as_str);
            CompleteMultipartUpload::new(&address, credentials, key, &self.id, etags)
        };
        let body = action().body();
        let request =
            Request { body: body.as_bytes(), ..Request::of(&action(), "complete upload of", key) };
        let data = |what: String| request.error(&address, ObjectFault::Data(what));
        let gap = (1..).zip(state.parts.keys()).find(|(expected, number)| expected != *number);
        if let Some((missing, _)) = gap {
            return Err(data(format!("part {missing} was not uploaded")).into());
        }
        let (_, reply) = session.document(&request)?;
        // A failure may come late, after the status 200.
        parsed(&reply, CompleteMultipartUploadResponse::parse)
            .map_err(|what| request.error(&address, ObjectFault::Answer(what)))?;
        state.completed = true;
        let bytes: u64 = state.parts.values().map(|part| part.bytes).sum();
        match session.head(key)? {
            Some(facts) if facts.bytes == bytes => Ok(()),
            Some(facts) => {
                Err(data(format!("the object has {} of {bytes} bytes", facts.bytes)).into())
            }
            None => Err(data("there is no object afterwards".to_string()).into()),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.state().completed {
            return;
        }
        // What cannot be aborted is not more than the endpoint's own clean-up removes.
        let Ok(mut session) = self.client.session(&self.bucket) else {
            return;
        };
        let (credentials, address) = (session.credentials(), session.bucket.clone());
        let action = AbortMultipartUpload::new(&address, Some(&credentials), &self.key, &self.id);
        let _ = session.document(&Request::of(&action, "abort upload of", &self.key));
    }
}
