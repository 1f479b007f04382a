//! Requests for objects over one connection, made again where that may help.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rusty_s3::actions::{DeleteObjects, ListObjectsV2, ObjectIdentifier};
use rusty_s3::{Bucket, S3Action};
use stormlp_core::evidence::{ObjectChecksums, ObjectStore};
use stormlp_core::histogram::LatencyHistogram;
use stormlp_core::printable::printable;
use url::Url;

use super::checksum::Checksum;
use super::client::{Client, Endpoint};
use super::document::{is_error, parsed};
use super::error::{ObjectError, ObjectFault};
use super::reply::{Head, Refusal};
use super::request::{Request, mark};
use super::retry::{MOST_RETRIES, Pauses};
use super::settings::host;
use super::wire::{Connection, FIRST_ANSWER, STALL_TIMEOUT, WireError};
use crate::error::TransferError;
use crate::signals::{give_up, stopped_for};

/// The longest document that is read: a page of 1,000 long keys is a third of it.
pub(super) const DOCUMENT_BYTES: usize = 16 << 20;
/// Maximum number of objects and folders of a list: an endpoint that names more has lost its place.
const MOST_LISTED: usize = 100_000_000;
/// The fault of a list that the user stopped.
pub(super) const STOPPED: &str = "the run was stopped before the list ended";
/// Maximum number of empty pages of a list: deleted versions can fill some.
const MOST_EMPTY_PAGES: usize = 1_000;
/// Maximum number of open connections: one for each host to which an endpoint redirects.
const MOST_CONNECTIONS: usize = 256;
/// Keys of one request to delete.
const DELETED_AT_ONCE: usize = 1000;

/// The facts about an object in a reply to HEAD.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectFacts {
    /// Its size.
    pub bytes: u64,
    /// The identifier of its content.
    pub etag: Option<String>,
    /// The checksum of all of it, if it was asked for.
    pub(crate) checksum: Option<Checksum>,
}

impl ObjectFacts {
    /// An object of which no more is known.
    pub fn of_size(bytes: u64) -> Self {
        Self { bytes, etag: None, checksum: None }
    }
}

/// An object of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// Its whole key.
    pub key: String,
    /// Its size and identity.
    pub facts: ObjectFacts,
}

/// One thread's dialogue with a bucket.
pub struct Session {
    pub(super) client: Arc<Client>,
    pub(super) bucket: Bucket,
    /// The number of its endpoint.
    endpoint: usize,
    /// Idle connections, with the endpoint and the hosts to which it redirects.
    connections: HashMap<String, Connection>,
    /// The host of the last request.
    place: String,
    pauses: Pauses,
    /// The traffic of its connections.
    counts: ObjectStore,
    pub(super) checksums: ObjectChecksums,
    /// Times from a GET to the head of its reply, retries included.
    pub(super) first_byte: LatencyHistogram,
    /// GETs that end before are not among them.
    pub(super) measured_from: Option<Instant>,
    head: Vec<u8>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a session with {}", self.bucket.name())
    }
}

/// Why one attempt did not succeed.
pub(super) enum Attempt {
    Wire(WireError),
    Refused(Refusal),
}

impl From<WireError> for Attempt {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

impl Client {
    /// A session with `bucket`, for one thread, at the endpoint with the smallest number of them.
    ///
    /// # Errors
    /// When the bucket cannot be part of an address.
    pub fn session(self: &Arc<Self>, bucket: &str) -> Result<Session, TransferError> {
        let (style, region) = (self.settings.addressing, self.settings.region.clone());
        let _alone = self.choosing.lock().unwrap_or_else(PoisonError::into_inner);
        let load = |at: &usize| self.endpoints[*at].sessions.load(Ordering::Relaxed);
        let at = (0..self.endpoints.len()).min_by_key(load).unwrap_or_default();
        let Endpoint { url, sessions, .. } = &self.endpoints[at];
        let address = Bucket::new(url.clone(), style, bucket.to_string(), region);
        let address = address.map_err(|_| TransferError::Unavailable {
            what: format!("bucket {bucket}"),
            reason: format!("{} cannot have it in its address", host(url)),
            remedy: "use AWS_S3_ADDRESSING_STYLE=path".to_string(),
        })?;
        let number = self.sessions.fetch_add(1, Ordering::Relaxed);
        sessions.fetch_add(1, Ordering::Relaxed);
        Ok(Session::new(Arc::clone(self), address, at, number))
    }
}

impl Session {
    fn new(client: Arc<Client>, bucket: Bucket, endpoint: usize, number: u64) -> Self {
        Self {
            client,
            bucket,
            endpoint,
            connections: HashMap::new(),
            place: String::new(),
            pauses: Pauses::new(number),
            counts: ObjectStore::default(),
            checksums: ObjectChecksums::default(),
            first_byte: LatencyHistogram::new(),
            measured_from: None,
            head: Vec::new(),
        }
    }

    /// A request without a body, with headers of S3.
    pub(super) fn request<'a, 'b, A: S3Action<'b>>(
        &self,
        action: &A,
        name: &'a str,
        key: &'a str,
        headers: impl IntoIterator<Item = (&'static str, String)>,
    ) -> Request<'a> {
        let lines = headers.into_iter().map(|(header, value)| format!("{header}: {value}\r\n"));
        Request {
            client: Arc::clone(&self.client),
            bucket: self.bucket.name().to_string(),
            name,
            method: A::METHOD.to_str(),
            key,
            offset: None,
            // It grants no access: the action has no credentials.
            url: action.sign(Duration::ZERO),
            headers: lines.collect(),
            body: &[],
        }
    }

    /// The traffic since the session began, and the facts known of the endpoint.
    pub fn evidence(&self) -> ObjectStore {
        let counts = ObjectStore {
            checksums: self.checks().then_some(self.checksums),
            first_byte: self.first_byte.named("first_byte"),
            ..self.counts.clone()
        };
        self.client.evidence(self.endpoint, counts)
    }

    /// An error of a request for the object of this `key`.
    pub(super) fn error(
        &self,
        request: &str,
        key: &str,
        offset: Option<u64>,
        fault: ObjectFault,
    ) -> ObjectError {
        let fault = self.client.concealed(fault);
        ObjectError::new(request, (self.bucket.name(), key), offset, fault)
    }

    /// Writes an object of these bytes, in one request; its ETag.
    ///
    /// # Errors
    /// When the request fails.
    pub fn put(&mut self, key: &str, body: &[u8]) -> Result<Option<String>, ObjectError> {
        let sent = self.checksum_of(body);
        let headers = sent.map(Checksum::header).into_iter().chain([mark()]);
        let action = self.bucket.put_object(None, key);
        let request = Request { body, ..self.request(&action, "PUT", key, headers) };
        let (head, _) = self.document(&request)?;
        let same = self.compare_sent(sent, &head, body.len() as u64);
        same.map_err(|fault| request.error(fault))?;
        Ok(head.etag)
    }

    /// Size and identity of an object; `None` if there is none.
    ///
    /// # Errors
    /// When the request fails, also for lack of permission.
    pub fn head(&mut self, key: &str) -> Result<Option<ObjectFacts>, ObjectError> {
        let (found, checks) = (self.head_of(key)?, self.checks());
        Ok(found.map(|(bytes, Head { etag, checksum, .. })| ObjectFacts {
            bytes,
            etag,
            checksum: checksum.filter(|_| checks),
        }))
    }

    /// Whether there is an object that has the mark of those that stormlp put.
    ///
    /// # Errors
    /// As [`Self::head`].
    pub fn is_marked(&mut self, key: &str) -> Result<bool, ObjectError> {
        Ok(self.head_of(key)?.is_some_and(|(_, head)| head.marked))
    }

    /// The size of an object and all that HEAD tells.
    fn head_of(&mut self, key: &str) -> Result<Option<(u64, Head)>, ObjectError> {
        let action = self.bucket.head_object(None, key);
        let request = self.request(&action, "HEAD", key, self.asks());
        let head = match self.perform(&request, |_, _| Ok(())) {
            Err(error) if error.is_not_found() => return Ok(None),
            other => other?.0,
        };
        let what = || ObjectFault::Answer("the reply has no Content-Length".to_string());
        let bytes = head.length.ok_or_else(|| request.error(what()))?;
        Ok(Some((bytes, head)))
    }

    /// All objects with keys that begin with `prefix`, page by page.
    ///
    /// # Errors
    /// When a request fails or a page cannot be right.
    pub fn list(&mut self, prefix: &str) -> Result<Vec<Listed>, ObjectError> {
        Ok(self.pages(prefix, None, usize::MAX)?.0)
    }

    /// The objects directly below `folder`, which ends with a slash or is empty, and the folders
    /// there, which end with one.
    ///
    /// # Errors
    /// As [`Self::list`].
    pub fn list_folder(&mut self, folder: &str) -> Result<(Vec<Listed>, Vec<String>), ObjectError> {
        self.pages(folder, Some("/"), usize::MAX)
    }

    /// The first object with content among the `most` first with keys that begin with `prefix`;
    /// otherwise the first of any size.
    ///
    /// # Errors
    /// As [`Self::list`].
    pub fn first(&mut self, prefix: &str, most: usize) -> Result<Option<Listed>, ObjectError> {
        let (some, _) = self.pages(prefix, None, most)?;
        let filled = some.iter().find(|one| one.facts.bytes > 0);
        Ok(filled.or(some.first()).cloned())
    }

    /// The first `most` objects, or a few more, and the folders between them if there is a
    /// `delimiter`.
    fn pages(
        &mut self,
        prefix: &str,
        delimiter: Option<&str>,
        most: usize,
    ) -> Result<(Vec<Listed>, Vec<String>), ObjectError> {
        let bucket = self.bucket.clone();
        let (mut all, mut folders) = (Vec::<Listed>::new(), Vec::<String>::new());
        let (mut token, mut empty_pages) = (None::<String>, 0);
        let began = Instant::now();
        loop {
            let mut action = ListObjectsV2::new(&bucket, None);
            action.with_prefix(prefix);
            if let Some(delimiter) = delimiter {
                action.with_delimiter(delimiter);
            }
            if most < usize::MAX {
                action.with_max_keys(most);
            }
            if let Some(token) = &token {
                action.with_continuation_token(token.as_str());
            }
            let request = self.request(&action, "list", prefix, None);
            let wrong = |what: String| request.error(ObjectFault::Answer(what));
            let (_, body) = self.document(&request)?;
            let page = parsed(&body, ListObjectsV2::parse_response).map_err(wrong)?;
            let known = all.len() + folders.len();
            for one in page.contents {
                let Some(bytes) = one.size.filter(|_| one.key.starts_with(prefix)) else {
                    return Err(wrong("it contains other objects, or no sizes".to_string()));
                };
                ascends(all.last().map(|last| &last.key), &one.key).map_err(wrong)?;
                let facts = ObjectFacts { etag: one.etag, ..ObjectFacts::of_size(bytes) };
                all.push(Listed { key: one.key, facts });
            }
            let between = page.common_prefixes.into_iter().map(|one| one.prefix);
            for folder in between.filter(|one| one.starts_with(prefix)) {
                ascends(folders.last(), &folder).map_err(wrong)?;
                folders.push(folder);
            }
            let count = all.len() + folders.len();
            empty_pages += usize::from(count == known);
            match page.next_continuation_token {
                None => return Ok((all, folders)),
                Some(_) if all.len() >= most => return Ok((all, folders)),
                Some(_) if give_up(began) => return Err(wrong(STOPPED.to_string())),
                _ if empty_pages > MOST_EMPTY_PAGES || count > MOST_LISTED => {
                    let what = format!(
                        "the list has no end: {count} names, and {empty_pages} pages without any"
                    );
                    return Err(wrong(what));
                }
                next => token = next,
            }
        }
    }

    /// Removes objects; those that do not exist are no error.
    ///
    /// # Errors
    /// When a request fails, or the endpoint kept one of the objects.
    pub fn delete(&mut self, keys: &[String]) -> Result<(), ObjectError> {
        let bucket = self.bucket.clone();
        for some in keys.chunks(DELETED_AT_ONCE) {
            let named: Vec<_> = some.iter().cloned().map(ObjectIdentifier::new).collect();
            let action = DeleteObjects::new(&bucket, None, named.iter());
            let request = self.request(&action, "delete", &some[0], None);
            let (body, md5) = action.body_with_md5();
            let headers = format!("Content-MD5: {md5}\r\n");
            let request = Request { headers, body: body.as_bytes(), ..request };
            let (_, reply) = self.document(&request)?;
            let reply = parsed(&reply, rusty_s3::actions::DeleteObjectsResponse::parse)
                .map_err(|what| request.error(ObjectFault::Answer(what)))?;
            if let Some(kept) = reply.errors.first() {
                let hide = |longest, text: &str| self.client.conceal(longest, text);
                let refusal = Refusal::of_object(&kept.code, &kept.message, &hide);
                let fault = ObjectFault::Kept(Box::new(refusal));
                return Err(Request { key: &kept.key, ..request }.error(fault));
            }
        }
        Ok(())
    }

    /// A request with a small document as its reply. An error in it is one, whatever the status.
    pub(super) fn document(
        &mut self,
        request: &Request<'_>,
    ) -> Result<(Head, Vec<u8>), ObjectError> {
        let client = Arc::clone(&self.client);
        self.perform(request, |connection, head| {
            let body = connection.body(head, DOCUMENT_BYTES)?;
            if !is_error(&body) {
                return Ok(body);
            }
            let hide = |longest, text: &str| client.conceal(longest, text);
            Err(Attempt::Refused(Refusal::late(head, &body, &hide)))
        })
    }

    /// Sends a request until it succeeds or retries cannot help; `take` receives the body.
    pub(super) fn perform<T>(
        &mut self,
        request: &Request<'_>,
        mut take: impl FnMut(&mut Connection, &Head) -> Result<T, Attempt>,
    ) -> Result<(Head, T), ObjectError> {
        for retries in 0.. {
            let (fault, passing, lost) = match self.attempt(request, &mut take) {
                Ok(done) => return Ok(done),
                Err(Attempt::Refused(refusal)) => {
                    let passing = refusal.is_passing();
                    (ObjectFault::Refused(Box::new(refusal.after(retries))), passing, false)
                }
                Err(Attempt::Wire(error)) => {
                    let passing = matches!(error, WireError::Lost(_)) && self.has_answered();
                    (error.fault(self.place.clone(), retries), passing, true)
                }
            };
            if !passing || retries == MOST_RETRIES || stopped_for().is_some() {
                return Err(request.error(fault));
            }
            self.counts.retries += 1;
            self.counts.retries_after_loss += u64::from(lost);
            thread::sleep(self.pauses.next(retries));
        }
        unreachable!("the last retry returns")
    }

    /// Sends a request once, and to the place where the endpoint redirects it, if it does.
    fn attempt<T>(
        &mut self,
        request: &Request<'_>,
        take: &mut impl FnMut(&mut Connection, &Head) -> Result<T, Attempt>,
    ) -> Result<(Head, T), Attempt> {
        match self.send(request, None, take) {
            Err(Attempt::Refused(Refusal { moved: Some(place), .. })) => {
                self.counts.redirects += 1;
                self.send(request, Some(&place), take)
            }
            answered => answered,
        }
    }

    /// Sends a request to its endpoint, or to the place to which it was `moved`. The connection is
    /// kept if it can be used again.
    fn send<T>(
        &mut self,
        request: &Request<'_>,
        moved: Option<&Url>,
        take: &mut impl FnMut(&mut Connection, &Head) -> Result<T, Attempt>,
    ) -> Result<(Head, T), Attempt> {
        let url = moved.unwrap_or(&request.url);
        // One that finds no endpoint counts, too: retries are a share of these.
        self.counts.requests += 1;
        // One that the endpoint closed meanwhile is not a loss: it was idle.
        self.place = host(url);
        let kept = self.connections.remove(&self.place).and_then(Connection::still_open);
        let mut connection = kept.map_or_else(|| self.connect(url), Ok)?;
        // An endpoint that redirects does not want the data.
        let asks = moved.is_none() && self.counts.redirects > 0 && request.method == "PUT";
        request.write_head(url, asks, &mut self.head);
        let reply = connection.exchange(&self.head, request.body, asks);
        let reply = reply.map_err(Attempt::from).and_then(|head| {
            self.note(&connection, &head);
            if head.is_success() {
                let taken = take(&mut connection, &head)?;
                return Ok((head, taken));
            }
            let body = match request.method {
                "HEAD" => Vec::new(),
                _ => connection.body(&head, DOCUMENT_BYTES)?,
            };
            let hide = |longest, text: &str| self.client.conceal(longest, text);
            let mut refusal = Refusal::of(&head, &body, &hide);
            refusal.moved = request.moved(&head).filter(|_| moved.is_none());
            Err(Attempt::Refused(refusal))
        });
        let (sent, received) = connection.passed();
        self.counts.sent_bytes += sent;
        self.counts.received_bytes += received;
        let usable = match &reply {
            Ok((head, _)) => !head.closes,
            Err(Attempt::Refused(refusal)) => refusal.keeps_connection,
            Err(Attempt::Wire(_)) => false,
        };
        if usable && self.connections.len() < MOST_CONNECTIONS {
            self.connections.insert(self.place.clone(), connection);
        }
        reply
    }

    fn endpoint(&self) -> &Endpoint {
        &self.client.endpoints[self.endpoint]
    }

    fn has_answered(&self) -> bool {
        self.endpoint().answered.load(Ordering::Relaxed)
    }

    fn connect(&mut self, url: &Url) -> Result<Connection, WireError> {
        // A bucket in the host name has a separate address, or none.
        let unknown = |error: io::Error| match url.host_str() {
            Some(host) => io::Error::new(error.kind(), format!("{host}: {error}")),
            None => error,
        };
        let addresses =
            url.socket_addrs(|| None).map_err(|error| WireError::Lost(unknown(error)))?;
        let tls = self.client.tls.as_ref().filter(|_| url.scheme() == "https");
        let timeout = if self.has_answered() { STALL_TIMEOUT } else { FIRST_ANSWER };
        let connection = Connection::open(&addresses, tls.zip(url.host_str()), timeout)?;
        self.counts.connections += 1;
        Ok(connection)
    }

    /// Remembers the facts about the endpoint in the first replies.
    fn note(&self, connection: &Connection, head: &Head) {
        if !self.has_answered() {
            self.endpoint().answered.store(true, Ordering::Relaxed);
        }
        let http = || format!("HTTP/1.{}", head.version);
        self.client.seen.get_or_init(|| (http(), connection.tls().map(str::to_string)));
        if let Some(server) = &head.server {
            self.client.server.get_or_init(|| self.client.conceal(usize::MAX, server));
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.endpoint().sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether a list goes on in order: one that does not would name objects twice, or never end.
fn ascends(last: Option<&String>, next: &str) -> Result<(), String> {
    match last {
        Some(last) if last.as_str() >= next => {
            Err(format!("the list is not in order: {} after {}", printable(next), printable(last)))
        }
        _ => Ok(()),
    }
}

/// Reads `bytes` as the reply to each request that has one: whatever an endpoint sends is read or
/// refused, in bounded memory. Fuzzing has it.
#[doc(hidden)]
pub fn read_reply(bytes: &[u8]) {
    use rusty_s3::actions::{CompleteMultipartUploadResponse, DeleteObjectsResponse};
    let Ok(Some((head, used))) = Head::parse(bytes) else { return };
    let body = &bytes[used..];
    let all = |_, text: &str| text.to_string();
    let _ = super::get::check_range(&head, 4, 4);
    let _ = head.checksum.map(|told| told.check(body));
    let _ = (head.whole_bytes(), Refusal::of(&head, body, &all).after(1).to_string());
    let _ = (is_error(body), Refusal::late(&head, body, &all));
    if let Ok(page) = parsed(body, ListObjectsV2::parse_response) {
        assert!(page.contents.len() <= body.len());
    }
    let _ = parsed(body, super::uploads::begun);
    let _ = parsed(body, CompleteMultipartUploadResponse::parse).map(drop);
    let _ = parsed(body, DeleteObjectsResponse::parse).map(drop);
    let _ = std::str::from_utf8(body).map(super::uploads::page);
}
