//! A signed request.

use std::sync::Arc;

use url::Url;

use super::client::Client;
use super::error::{ObjectError, ObjectFault};
use super::reply::{Head, MARK};
use super::sign;

/// A request that is ready to be sent, any number of times.
pub(super) struct Request<'a> {
    pub(super) client: Arc<Client>,
    pub(super) bucket: String,
    /// The name of the request in errors.
    pub(super) name: &'a str,
    pub(super) method: &'static str,
    pub(super) key: &'a str,
    pub(super) offset: Option<u64>,
    pub(super) url: Url,
    /// Header lines in addition to the host, the length and the signature.
    pub(super) headers: String,
    pub(super) body: &'a [u8],
}

impl Request<'_> {
    /// The place where a reply sends this request: a host that the endpoint names, for the same
    /// object, over the same scheme. Only a 307 means this request, whatever its method.
    pub(super) fn moved(&self, reply: &Head) -> Option<Box<Url>> {
        let place = reply.location.as_deref().filter(|_| reply.status == 307)?;
        let place = self.url.join(place).ok()?;
        let mut asked = self.url.query_pairs();
        let is_same = place.scheme() == self.url.scheme()
            && place.path() == self.url.path()
            && asked.all(|one| place.query_pairs().any(|other| other == one));
        is_same.then(|| Box::new(place))
    }

    /// Writes the lines before the body, signed now for `url`. One that `asks` is told by an interim
    /// reply to send the body.
    pub(super) fn write_head(&self, url: &Url, asks: bool, head: &mut Vec<u8>) {
        use std::io::Write as _;
        head.clear();
        let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
        let authority = &url[url::Position::BeforeHost..url::Position::AfterPort];
        let settings = &self.client.settings;
        // By the clock as it is: a correction must help.
        let now = std::time::SystemTime::now().into();
        let signer = (&settings.credentials, settings.region.as_str());
        let signed = sign::signed((self.method, url, &self.headers), signer, now);
        let _ = write!(
            head,
            "{} {path} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: stormlp\r\n{}{signed}",
            self.method, self.headers
        );
        if !self.body.is_empty() || matches!(self.method, "PUT" | "POST") {
            let _ = write!(head, "Content-Length: {}\r\n", self.body.len());
        }
        if asks {
            head.extend_from_slice(b"Expect: 100-continue\r\n");
        }
        head.extend_from_slice(b"\r\n");
    }

    /// The error of this request.
    pub(super) fn error(&self, fault: ObjectFault) -> ObjectError {
        let of = (self.bucket.as_str(), self.key);
        ObjectError::new(self.name, of, self.offset, self.client.concealed(fault))
    }
}

/// The header of objects that stormlp puts.
pub(super) fn mark() -> (&'static str, String) {
    (MARK, "1".to_string())
}
