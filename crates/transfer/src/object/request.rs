//! A signed request.

use std::time::Duration;

use rusty_s3::{Bucket, S3Action};
use url::Url;

use super::error::{ObjectError, ObjectFault};
use super::reply::MARK;

/// How long a signature is valid: longer than any request with all of its retries.
const SIGNED_FOR: Duration = Duration::from_secs(3600);

/// A request that is ready to be sent, any number of times.
pub(super) struct Request<'a> {
    /// The name of the request in errors.
    pub(super) name: &'a str,
    pub(super) method: &'static str,
    pub(super) key: &'a str,
    pub(super) offset: Option<u64>,
    pub(super) url: Url,
    /// Header lines in addition to the host and the length.
    pub(super) headers: String,
    pub(super) body: &'a [u8],
}

impl<'a> Request<'a> {
    /// A signed request without headers or body.
    pub(super) fn of<A: S3Action<'a>>(action: &A, name: &'a str, key: &'a str) -> Self {
        Self {
            name,
            method: A::METHOD.to_str(),
            key,
            offset: None,
            url: action.sign(SIGNED_FOR),
            headers: String::new(),
            body: &[],
        }
    }

    /// The same with headers of S3, which have to be signed.
    pub(super) fn with_headers<A: S3Action<'a>>(
        action: &mut A,
        name: &'a str,
        key: &'a str,
        headers: impl IntoIterator<Item = (&'static str, String)>,
    ) -> Self {
        let mut lines = String::new();
        for (header, value) in headers {
            lines += &format!("{header}: {value}\r\n");
            action.headers_mut().insert(header, value);
        }
        Self { headers: lines, ..Self::of(action, name, key) }
    }

    /// Writes the lines before the body.
    pub(super) fn write_head(&self, head: &mut Vec<u8>) {
        use std::io::Write as _;
        head.clear();
        let path = &self.url[url::Position::BeforePath..url::Position::AfterQuery];
        let authority = &self.url[url::Position::BeforeHost..url::Position::AfterPort];
        let _ = write!(
            head,
            "{} {path} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: stormlp\r\n{}",
            self.method, self.headers
        );
        if !self.body.is_empty() || matches!(self.method, "PUT" | "POST") {
            let _ = write!(head, "Content-Length: {}\r\n", self.body.len());
        }
        head.extend_from_slice(b"\r\n");
    }
}

impl Request<'_> {
    /// The error of this request.
    pub(super) fn error(&self, bucket: &Bucket, fault: ObjectFault) -> ObjectError {
        ObjectError::new(self.name, (bucket.name(), self.key), self.offset, fault)
    }
}

/// The header of objects that stormlp puts.
pub(super) fn mark() -> (&'static str, String) {
    (MARK, "1".to_string())
}
