//! Objects by the crate object_store: a runtime and a connection for each session, so that as many
//! requests are under way as with our own client.

use std::error::Error as _;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::thread;

use futures_util::stream::{self, StreamExt as _};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};
use object_store::multipart::{MultipartStore as _, PartId};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, ClientOptions, Error, GetOptions, GetRange, ObjectMeta,
    ObjectStore as _, PutMultipartOptions, PutOptions, PutPayload, RetryConfig,
};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::client::{Client, Seen};
use super::error::ObjectFault;
use super::get::Get;
use super::other::Other;
use super::reply::{Head, MARK, Refusal};
use super::retry::{MOST_RETRIES, Pauses};
use super::session::{Listed, ObjectFacts};
use super::settings::{Addressing, host};
use super::wire::{FIRST_ANSWER, Tally};
use crate::error::TransferError;

/// What Cargo.toml asks for.
const NAME: &str = "object_store 0.14";

/// A session by object_store.
pub(super) struct ByObjectStore {
    store: AmazonS3,
    asking: Asking,
}

/// What makes its requests, again where that may help.
struct Asking {
    runtime: Runtime,
    client: Arc<Client>,
    endpoint: usize,
    counts: Arc<Counts>,
    pauses: Pauses,
}

/// What its requests came to.
#[derive(Debug, Default)]
struct Counts {
    requests: AtomicU64,
    retries: AtomicU64,
    retries_after_loss: AtomicU64,
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
    /// Of the last reply; 0 if there was none.
    status: AtomicU16,
}

/// Why an attempt did not succeed.
enum Trouble {
    /// What object_store says of a request or its reply.
    Asked(Error),
    /// The body did not come to its end: how far it came, and why.
    Broken(String),
    /// The reply cannot be right.
    Wrong(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Asked(error)
    }
}

impl Counts {
    fn add(count: &AtomicU64, more: u64) {
        count.fetch_add(more, Ordering::Relaxed);
    }
}

/// Counts the requests of a session.
#[derive(Debug)]
struct Counting {
    client: Arc<Client>,
    endpoint: usize,
    counts: Arc<Counts>,
}

#[derive(Debug)]
struct Counted {
    http: HttpClient,
    by: Arc<Counting>,
}

#[derive(Debug)]
struct Connector(Arc<Counting>);

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let http = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Counted { http, by: Arc::clone(&self.0) }))
    }
}

impl HttpService for Counted {
    fn call<'life0, 'async_trait>(
        &'life0 self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'async_trait>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move {
            Counts::add(&self.by.counts.requests, 1);
            let asked = self.http.execute(request);
            let reply = match self.by.has_answered() {
                true => asked.await,
                false => timeout(FIRST_ANSWER, asked).await.unwrap_or_else(|_| Err(silent())),
            };
            self.by.note(&reply);
            reply
        })
    }
}

impl Counting {
    fn answered(&self) -> &AtomicBool {
        &self.client.endpoints[self.endpoint].answered
    }

    fn has_answered(&self) -> bool {
        self.answered().load(Ordering::Relaxed)
    }

    /// Remembers what a reply says of the endpoint.
    fn note(&self, reply: &Result<HttpResponse, HttpError>) {
        let status = reply.as_ref().map_or(0, |reply| reply.status().as_u16());
        self.counts.status.store(status, Ordering::Relaxed);
        let Ok(reply) = reply else { return };
        self.answered().store(true, Ordering::Relaxed);
        if let Some(server) = reply.headers().get("server").and_then(|text| text.to_str().ok()) {
            self.client.server.get_or_init(|| server.to_string());
        }
        self.client.seen.get_or_init(|| Seen {
            http_minor: u8::from(format!("{:?}", reply.version()) == "HTTP/1.1"),
            tls: None,
        });
    }
}

/// The error of an endpoint that has never answered.
fn silent() -> HttpError {
    let text = format!("no answer within {} s", FIRST_ANSWER.as_secs());
    HttpError::new(HttpErrorKind::Timeout, io::Error::new(io::ErrorKind::TimedOut, text))
}

impl ByObjectStore {
    /// A session with `bucket`; connects to nothing yet.
    ///
    /// # Errors
    /// When the runtime cannot be made.
    pub(super) fn new(
        client: &Arc<Client>,
        bucket: &str,
        endpoint: usize,
        number: u64,
    ) -> Result<Self, TransferError> {
        // Its HTTP asks for one even where nothing is encrypted; there may be one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let counts = Arc::<Counts>::default();
        let by = Counting { client: Arc::clone(client), endpoint, counts: Arc::clone(&counts) };
        let settings = &client.settings;
        let is_virtual = settings.addressing == Addressing::Virtual;
        let address = host(&client.endpoints[endpoint].url);
        let address = match is_virtual {
            true => address.replacen("://", &format!("://{bucket}."), 1),
            false => address,
        };
        // It would not tell how often it asked again for the rest of a body.
        let retries = RetryConfig { max_retries: 0, ..RetryConfig::default() };
        let credentials = &settings.credentials;
        let mut builder = AmazonS3Builder::new()
            .with_endpoint(address)
            .with_bucket_name(bucket)
            .with_region(&settings.region)
            .with_access_key_id(credentials.key())
            .with_secret_access_key(credentials.secret())
            .with_virtual_hosted_style_request(is_virtual)
            .with_allow_http(true)
            // As our own requests: a digest of each body would be most of the CPU time.
            .with_unsigned_payload(true)
            .with_retry(retries)
            .with_http_connector(Connector(Arc::new(by)));
        if let Some(token) = credentials.token() {
            builder = builder.with_token(token);
        }
        let cannot = |reason: String| TransferError::Unavailable {
            what: "engine object_store".to_string(),
            reason,
            remedy: "leave --engine out".to_string(),
        };
        let store =
            builder.build().map_err(|error| cannot(client.conceal(error.to_string().as_bytes())));
        let runtime = Builder::new_current_thread().enable_all().build();
        let asking = Asking {
            runtime: runtime.map_err(|error| cannot(error.to_string()))?,
            client: Arc::clone(client),
            endpoint,
            counts,
            pauses: Pauses::new(number),
        };
        Ok(Self { store: store?, asking })
    }
}

impl Asking {
    /// Waits for the result of requests, which are made again as our own are.
    fn ask<T>(
        &mut self,
        mut request: impl AsyncFnMut() -> Result<T, Trouble>,
    ) -> Result<T, ObjectFault> {
        for retries in 0.. {
            self.counts.status.store(0, Ordering::Relaxed);
            let trouble = match self.runtime.block_on(request()) {
                Ok(done) => return Ok(done),
                Err(trouble) => trouble,
            };
            let fault = self.fault(trouble, retries);
            let lost = matches!(fault, ObjectFault::Connection { .. });
            let passing = match &fault {
                ObjectFault::Connection { .. } => {
                    self.client.endpoints[self.endpoint].answered.load(Ordering::Relaxed)
                }
                ObjectFault::Refused(refusal) => refusal.is_passing(),
                _ => false,
            };
            if !passing || retries == MOST_RETRIES {
                return Err(fault);
            }
            Counts::add(&self.counts.retries, 1);
            Counts::add(&self.counts.retries_after_loss, u64::from(lost));
            thread::sleep(self.pauses.next(retries));
        }
        unreachable!("the last retry returns")
    }

    fn fault(&self, trouble: Trouble, retries: u32) -> ObjectFault {
        let told = |error: &Error| self.client.conceal(in_words(error).as_bytes());
        let lost = |reason: String| ObjectFault::Connection {
            endpoint: host(&self.client.endpoints[self.endpoint].url),
            source: io::Error::other(reason),
            retries,
        };
        let error = match trouble {
            Trouble::Wrong(what) => return ObjectFault::Answer(what),
            Trouble::Broken(what) => return lost(self.client.conceal(what.as_bytes())),
            Trouble::Asked(error) => error,
        };
        match self.counts.status.load(Ordering::Relaxed) {
            0 => lost(told(&error)),
            status if status >= 300 => {
                let head = Head { status, ..Head::default() };
                let refusal = Refusal::of(&head, told(&error).as_bytes()).after(retries);
                ObjectFault::Refused(Box::new(refusal))
            }
            _ => ObjectFault::Answer(told(&error)),
        }
    }
}

/// An error with what it does not say itself: why.
fn in_words(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// The key, as this crate can name it.
fn path(key: &str) -> Result<Path, ObjectFault> {
    match Path::parse(key) {
        Ok(path) if path.as_ref() == key => Ok(path),
        _ => Err(ObjectFault::Answer("object_store cannot name such keys".to_string())),
    }
}

/// What marks an object as stormlp's.
fn mark() -> Attribute {
    Attribute::Metadata(MARK.trim_start_matches("x-amz-meta-").into())
}

fn marked() -> Attributes {
    Attributes::from_iter([(mark(), "1")])
}

fn listed(meta: ObjectMeta) -> Listed {
    let facts = ObjectFacts { etag: meta.e_tag, ..ObjectFacts::of_size(meta.size) };
    Listed { key: meta.location.to_string(), facts }
}

impl Other for ByObjectStore {
    fn name(&self) -> String {
        NAME.to_string()
    }

    fn tally(&self) -> Tally {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = &self.asking.counts;
        Tally {
            requests: of(&counts.requests),
            retries: of(&counts.retries),
            retries_after_loss: of(&counts.retries_after_loss),
            sent_bytes: of(&counts.sent_bytes),
            received_bytes: of(&counts.received_bytes),
            ..Tally::default()
        }
    }

    fn get(
        &mut self,
        get: Get<'_>,
        target: &mut [u8],
        answered: &mut dyn FnMut(),
    ) -> Result<Head, ObjectFault> {
        let Get { key, offset, .. } = get;
        let (path, wanted) = (path(key)?, target.len() as u64);
        let range =
            (!get.is_whole(target.len())).then(|| GetRange::Bounded(offset..offset + wanted));
        let ended = |filled: usize, error: Option<&Error>| {
            let why = error.map_or_else(String::new, |error| format!(": {}", in_words(error)));
            Trouble::Broken(format!("the body ended after {filled} of {wanted} bytes{why}"))
        };
        let Self { store, asking } = self;
        let head = asking.ask(async || {
            let options = GetOptions { range: range.clone(), ..GetOptions::default() };
            let reply = store.get_opts(&path, options).await?;
            answered();
            let (etag, range) = (reply.meta.e_tag.clone(), reply.range.clone());
            if range.start != offset || range.end - range.start != wanted {
                let bytes = range.end - range.start;
                return Err(Trouble::Wrong(format!("the body has {bytes} bytes, not {wanted}")));
            }
            let size = reply.meta.size;
            let (mut body, mut filled) = (reply.into_stream(), 0);
            while let Some(piece) = body.next().await {
                let piece = piece.map_err(|error| ended(filled, Some(&error)))?;
                let end = filled + piece.len();
                let Some(place) = target.get_mut(filled..end) else {
                    let what = format!("the body is longer than {wanted} bytes");
                    return Err(Trouble::Wrong(what));
                };
                place.copy_from_slice(&piece);
                filled = end;
            }
            if filled as u64 != wanted {
                return Err(ended(filled, None));
            }
            let content_range = format!("bytes {}-{}/{size}", range.start, range.end - 1);
            let content_range = Some(content_range);
            Ok(Head { status: 206, etag, content_range, ..Head::default() })
        })?;
        Counts::add(&asking.counts.received_bytes, wanted);
        Ok(head)
    }

    fn put(&mut self, key: &str, body: &[u8]) -> Result<Option<String>, ObjectFault> {
        let path = path(key)?;
        let payload = PutPayload::from(body.to_vec());
        let Self { store, asking } = self;
        let put = asking.ask(async || {
            let options = PutOptions { attributes: marked(), ..PutOptions::default() };
            Ok(store.put_opts(&path, payload.clone(), options).await?)
        })?;
        Counts::add(&asking.counts.sent_bytes, body.len() as u64);
        Ok(put.e_tag)
    }

    fn head(&mut self, key: &str) -> Result<Option<(u64, Head)>, ObjectFault> {
        let path = path(key)?;
        let Self { store, asking } = self;
        let found = asking.ask(async || {
            let options = GetOptions { head: true, ..GetOptions::default() };
            match store.get_opts(&path, options).await {
                Err(Error::NotFound { .. }) => Ok(None),
                found => Ok(Some(found?)),
            }
        })?;
        Ok(found.map(|found| {
            let marked = found.attributes.get(&mark()).is_some();
            let head = Head { etag: found.meta.e_tag, marked, ..Head::default() };
            (found.meta.size, head)
        }))
    }

    fn list(
        &mut self,
        prefix: &str,
        folders: bool,
        most: usize,
    ) -> Result<(Vec<Listed>, Vec<String>), ObjectFault> {
        let at = prefix.trim_end_matches('/');
        let at = (!at.is_empty()).then(|| path(at)).transpose()?;
        let Self { store, asking } = self;
        if folders {
            let found = asking.ask(async || Ok(store.list_with_delimiter(at.as_ref()).await?))?;
            let folders = found.common_prefixes.iter().map(|folder| format!("{folder}/"));
            return Ok((found.objects.into_iter().map(listed).collect(), folders.collect()));
        }
        let found = asking.ask(async || {
            let (mut pages, mut all) = (store.list(at.as_ref()), Vec::new());
            while all.len() < most
                && let Some(one) = pages.next().await
            {
                all.push(listed(one?));
            }
            Ok(all)
        })?;
        Ok((found, Vec::new()))
    }

    fn delete(&mut self, keys: &[String]) -> Result<(), ObjectFault> {
        let paths: Vec<Path> = keys.iter().map(|key| path(key)).collect::<Result<_, _>>()?;
        let Self { store, asking } = self;
        asking.ask(async || {
            let paths = stream::iter(paths.clone().into_iter().map(Ok)).boxed();
            let mut deleted = store.delete_stream(paths);
            while let Some(one) = deleted.next().await {
                one?;
            }
            Ok(())
        })
    }

    fn begin(&mut self, key: &str) -> Result<String, ObjectFault> {
        let path = path(key)?;
        let Self { store, asking } = self;
        asking.ask(async || {
            let options =
                PutMultipartOptions { attributes: marked(), ..PutMultipartOptions::default() };
            Ok(store.create_multipart_opts(&path, options).await?)
        })
    }

    fn part(
        &mut self,
        key: &str,
        id: &str,
        number: u16,
        body: &[u8],
    ) -> Result<String, ObjectFault> {
        let (path, id) = (path(key)?, id.to_string());
        let payload = PutPayload::from(body.to_vec());
        let number = usize::from(number) - 1;
        let Self { store, asking } = self;
        let put =
            asking.ask(async || Ok(store.put_part(&path, &id, number, payload.clone()).await?))?;
        Counts::add(&asking.counts.sent_bytes, body.len() as u64);
        Ok(put.content_id)
    }

    fn complete(&mut self, key: &str, id: &str, etags: &[String]) -> Result<(), ObjectFault> {
        let (path, id) = (path(key)?, id.to_string());
        let Self { store, asking } = self;
        asking.ask(async || {
            let part = |etag: &String| PartId { content_id: etag.clone() };
            let parts = etags.iter().map(part).collect();
            store.complete_multipart(&path, &id, parts).await?;
            Ok(())
        })
    }
}
