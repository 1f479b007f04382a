//! A signed request.

use std::sync::Arc;

use url::Url;

use super::client::Client;
use super::error::{ObjectError, ObjectFault};
use super::reply::MARK;
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
    /// Writes the lines before the body, signed now.
    pub(super) fn write_head(&self, head: &mut Vec<u8>) {
        use std::io::Write as _;
        head.clear();
        let path = &self.url[url::Position::BeforePath..url::Position::AfterQuery];
        let authority = &self.url[url::Position::BeforeHost..url::Position::AfterPort];
        let settings = &self.client.settings;
        // By the clock as it is: a correction must help.
        let now = std::time::SystemTime::now().into();
        let signer = (&settings.credentials, settings.region.as_str());
        let signed = sign::signed((self.method, &self.url, &self.headers), signer, now);
        let _ = write!(
            head,
            "{} {path} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: stormlp\r\n{}{signed}",
            self.method, self.headers
        );
        if !self.body.is_empty() || matches!(self.method, "PUT" | "POST") {
            let _ = write!(head, "Content-Length: {}\r\n", self.body.len());
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
