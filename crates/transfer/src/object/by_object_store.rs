//! Objects by the crate object_store: a runtime and a connection for each session, so that as many
//! requests are under way as with our own client.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};
use object_store::multipart::{MultipartStore as _, PartId};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, BackoffConfig, ClientOptions, Error, GetOptions, GetRange, ObjectMeta,
    ObjectStore as _, PutMultipartOptions, PutOptions, PutPayload, RetryConfig,
};
use tokio::runtime::{Builder, Runtime};

use super::client::{Client, Seen};
use super::error::ObjectFault;
use super::other::Other;
use super::reply::{Head, MARK, Refusal};
use super::retry::MOST_RETRIES;
use super::session::{Listed, ObjectFacts};
use super::settings::{Addressing, host};
use super::wire::Tally;
use crate::error::TransferError;

/// What Cargo.toml asks for.
const NAME: &str = "object_store 0.14";

/// A session by object_store.
pub(super) struct ByObjectStore {
    runtime: Runtime,
    store: AmazonS3,
    client: Arc<Client>,
    endpoint: usize,
    counts: Arc<Counts>,
}

/// What its requests came to.
#[derive(Debug, Default)]
struct Counts {
    requests: AtomicU64,
    /// Attempts that may be made again.
    failed: AtomicU64,
    retries: AtomicU64,
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
    /// Of the last reply; 0 if there was none.
    status: AtomicU16,
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
            let reply = self.http.execute(request).await;
            self.by.note(reply)
        })
    }
}

impl Counting {
    /// Remembers what a reply says of the endpoint, and whether it may be asked again.
    fn note(&self, reply: Result<HttpResponse, HttpError>) -> Result<HttpResponse, HttpError> {
        let answered = &self.client.endpoints[self.endpoint].answered;
        let status = reply.as_ref().map_or(0, |reply| reply.status().as_u16());
        self.counts.status.store(status, Ordering::Relaxed);
        if status == 0 || status >= 500 || status == 429 {
            Counts::add(&self.counts.failed, 1);
        }
        match reply {
            Ok(reply) => {
                answered.store(true, Ordering::Relaxed);
                let server = reply.headers().get("server");
                self.client.seen.get_or_init(|| Seen {
                    server: server.and_then(|text| text.to_str().ok()).map(str::to_string),
                    http_minor: u8::from(format!("{:?}", reply.version()) == "HTTP/1.1"),
                    tls: None,
                });
                Ok(reply)
            }
            // An endpoint that is down is reported at once.
            Err(error) if !answered.load(Ordering::Relaxed) => {
                Err(HttpError::new(HttpErrorKind::Unknown, error))
            }
            Err(error) => Err(error),
        }
    }
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
        let retries = RetryConfig {
            max_retries: MOST_RETRIES as usize,
            backoff: BackoffConfig {
                init_backoff: Duration::from_millis(100),
                max_backoff: Duration::from_secs(4),
                base: 2.0,
            },
            ..RetryConfig::default()
        };
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
        Ok(Self {
            runtime: runtime.map_err(|error| cannot(error.to_string()))?,
            store: store?,
            client: Arc::clone(client),
            endpoint,
            counts,
        })
    }

    /// Waits for the result of requests.
    fn ask<T>(
        &self,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, ObjectFault> {
        let failed = || self.counts.failed.load(Ordering::Relaxed);
        let before = failed();
        self.counts.status.store(0, Ordering::Relaxed);
        let done = self.runtime.block_on(request);
        // Each attempt that failed was made again, except one that was the last.
        let retries = (failed() - before).saturating_sub(u64::from(done.is_err()));
        Counts::add(&self.counts.retries, retries);
        done.map_err(|error| self.fault(&error, retries))
    }

    fn fault(&self, error: &Error, retries: u64) -> ObjectFault {
        let text = self.client.conceal(error.to_string().as_bytes());
        match self.counts.status.load(Ordering::Relaxed) {
            0 => ObjectFault::Connection {
                endpoint: host(&self.client.endpoints[self.endpoint].url),
                source: io::Error::other(text),
            },
            status if status >= 300 => {
                let head = Head { status, ..Head::default() };
                let retries = u32::try_from(retries).unwrap_or(u32::MAX);
                let refusal = Refusal::of(&head, text.as_bytes()).after(retries);
                ObjectFault::Refused(Box::new(refusal))
            }
            _ => ObjectFault::Answer(text),
        }
    }
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

fn wrong(what: String) -> Error {
    Error::Generic { store: "S3", source: what.into() }
}

impl Other for ByObjectStore {
    fn name(&self) -> String {
        NAME.to_string()
    }

    fn tally(&self) -> Tally {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Tally {
            requests: of(&self.counts.requests),
            retries: of(&self.counts.retries),
            sent_bytes: of(&self.counts.sent_bytes),
            received_bytes: of(&self.counts.received_bytes),
            ..Tally::default()
        }
    }

    fn get(
        &mut self,
        key: &str,
        offset: u64,
        whole: bool,
        target: &mut [u8],
        answered: &mut dyn FnMut(),
    ) -> Result<(Head, usize), ObjectFault> {
        let (path, wanted) = (path(key)?, target.len() as u64);
        let range = (!whole).then(|| GetRange::Bounded(offset..offset + wanted));
        let got = self.ask(async {
            let options = GetOptions { range, ..GetOptions::default() };
            let reply = self.store.get_opts(&path, options).await?;
            answered();
            let (etag, range) = (reply.meta.e_tag.clone(), reply.range.clone());
            if range.start != offset || range.end - range.start != wanted {
                let bytes = range.end - range.start;
                return Err(wrong(format!("the body has {bytes} bytes, not {wanted}")));
            }
            let size = reply.meta.size;
            let (mut body, mut filled) = (reply.into_stream(), 0);
            while let Some(piece) = body.next().await {
                let piece = piece?;
                let end = filled + piece.len();
                let Some(place) = target.get_mut(filled..end) else {
                    return Err(wrong(format!("the body is longer than {wanted} bytes")));
                };
                place.copy_from_slice(&piece);
                filled = end;
            }
            let content_range = format!("bytes {}-{}/{size}", range.start, range.end - 1);
            let content_range = Some(content_range);
            Ok((Head { status: 206, etag, content_range, ..Head::default() }, filled))
        })?;
        Counts::add(&self.counts.received_bytes, got.1 as u64);
        Ok(got)
    }

    fn put(&mut self, key: &str, body: &[u8]) -> Result<Option<String>, ObjectFault> {
        let path = path(key)?;
        let payload = PutPayload::from(body.to_vec());
        let options = PutOptions { attributes: marked(), ..PutOptions::default() };
        let put = self.ask(self.store.put_opts(&path, payload, options))?;
        Counts::add(&self.counts.sent_bytes, body.len() as u64);
        Ok(put.e_tag)
    }

    fn head(&mut self, key: &str) -> Result<Option<(u64, Head)>, ObjectFault> {
        let path = path(key)?;
        let options = GetOptions { head: true, ..GetOptions::default() };
        let found = self.ask(async {
            match self.store.get_opts(&path, options).await {
                Err(Error::NotFound { .. }) => Ok(None),
                found => found.map(Some),
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
        if folders {
            let found = self.ask(self.store.list_with_delimiter(at.as_ref()))?;
            let folders = found.common_prefixes.iter().map(|folder| format!("{folder}/"));
            return Ok((found.objects.into_iter().map(listed).collect(), folders.collect()));
        }
        let found = self.ask(async {
            let (mut pages, mut all) = (self.store.list(at.as_ref()), Vec::new());
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
        self.ask(async {
            let paths = stream::iter(paths.into_iter().map(Ok)).boxed();
            let mut deleted = self.store.delete_stream(paths);
            while let Some(one) = deleted.next().await {
                one?;
            }
            Ok(())
        })
    }

    fn begin(&mut self, key: &str) -> Result<String, ObjectFault> {
        let path = path(key)?;
        let options =
            PutMultipartOptions { attributes: marked(), ..PutMultipartOptions::default() };
        self.ask(self.store.create_multipart_opts(&path, options))
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
        let put = self.ask(self.store.put_part(&path, &id, usize::from(number) - 1, payload))?;
        Counts::add(&self.counts.sent_bytes, body.len() as u64);
        Ok(put.content_id)
    }

    fn complete(&mut self, key: &str, id: &str, etags: &[String]) -> Result<(), ObjectFault> {
        let (path, id) = (path(key)?, id.to_string());
        let part = |etag: &String| PartId { content_id: etag.clone() };
        let parts = etags.iter().map(part).collect();
        self.ask(self.store.complete_multipart(&path, &id, parts)).map(drop)
    }
}
