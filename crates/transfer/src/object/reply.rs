//! Heads of replies, and the content of error documents.

use std::fmt;

use stormlp_core::evidence::REFUSED_HELP;
use stormlp_core::printable::printable;
use url::Url;

use super::checksum::Checksum;
use super::document::element;
use super::retry::after_retries;

/// The header of every object that stormlp puts, which the endpoint keeps with it.
pub(super) const MARK: &str = "x-amz-meta-stormlp";
/// Maximum length of a quoted code or message.
const MOST_CHARACTERS: usize = 200;
/// Longer words of a code, or of a message, may be keys, tokens or signatures.
const LONGEST_CODE: usize = 30;
const LONGEST_WORD: usize = 18;
/// Maximum number of headers of a reply.
const MOST_HEADERS: usize = 64;

/// Takes out of a text what may be a credential, and words longer than a number of bytes.
type Concealer<'a> = &'a dyn Fn(usize, &str) -> String;

/// The facts in the first lines of a reply.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Head {
    pub(super) status: u16,
    /// Minor version of HTTP/1.
    pub(super) version: u8,
    pub(super) length: Option<u64>,
    pub(super) chunked: bool,
    /// Whether the connection ends with this reply.
    pub(super) closes: bool,
    pub(super) etag: Option<String>,
    pub(super) server: Option<String>,
    pub(super) content_range: Option<String>,
    pub(super) location: Option<String>,
    pub(super) region: Option<String>,
    /// Whether stormlp put the object: see [`MARK`].
    pub(super) marked: bool,
    /// The checksum of the whole object or part.
    pub(super) checksum: Option<Checksum>,
}

impl Head {
    /// Parses the head at the start of `bytes`; its length too, or `None` if it is incomplete.
    ///
    /// # Errors
    /// When it is not HTTP/1, or its lengths contradict each other.
    pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, String> {
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut parsed = httparse::Response::new(&mut headers);
        let used = match parsed.parse(bytes) {
            Ok(httparse::Status::Complete(used)) => used,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(error) => return Err(format!("the reply is not HTTP/1: {error}")),
        };
        let version = parsed.version.unwrap_or_default();
        let mut head = Self {
            status: parsed.code.unwrap_or_default(),
            version,
            closes: version == 0,
            ..Self::default()
        };
        for header in parsed.headers.iter() {
            head.take(header.name, header.value)?;
        }
        if head.chunked {
            head.length = None;
        }
        Ok(Some((head, used)))
    }

    fn take(&mut self, name: &str, value: &[u8]) -> Result<(), String> {
        let text = || printable(String::from_utf8_lossy(value).trim()).into_owned();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => {
                let length: u64 =
                    text().parse().map_err(|_| format!("Content-Length is `{}`", text()))?;
                if self.length.replace(length).is_some_and(|other| other != length) {
                    return Err("the reply has two different Content-Lengths".to_string());
                }
            }
            "transfer-encoding" => self.chunked = text().eq_ignore_ascii_case("chunked"),
            "connection" if text().eq_ignore_ascii_case("close") => self.closes = true,
            "connection" if text().eq_ignore_ascii_case("keep-alive") => self.closes = false,
            "etag" => self.etag = Some(text()),
            "server" => self.server = Some(text()),
            "content-range" => self.content_range = Some(text()),
            "location" => self.location = Some(text()),
            "x-amz-bucket-region" => self.region = Some(text()),
            MARK => self.marked = true,
            name => self.checksum = self.checksum.or_else(|| Checksum::of_header(name, &text())),
        }
        Ok(())
    }

    /// The size of the whole object, from a reply with a range of it or all of it.
    pub(super) fn whole_bytes(&self) -> Option<u64> {
        match &self.content_range {
            Some(range) => range.rsplit_once('/')?.1.parse().ok(),
            None => self.length,
        }
    }

    /// Whether the request succeeded.
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// An error status with the content of its document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub(super) status: u16,
    pub(super) code: String,
    message: String,
    /// Where the endpoint would send the request, and the bucket's region.
    elsewhere: Option<String>,
    /// The place to which the request may follow.
    pub(super) moved: Option<Box<Url>>,
    retries: u32,
    /// Whether the connection can be used again.
    pub(super) keeps_connection: bool,
}

impl Refusal {
    /// The error in a reply with an error status; its texts are those that `conceal` leaves.
    pub(super) fn of(head: &Head, body: &[u8], conceal: Concealer<'_>) -> Self {
        let text = String::from_utf8_lossy(body);
        let region = head.region.as_ref().map(|region| format!("region {region}"));
        // Its query may be a signature.
        let location = head.location.as_ref().and_then(|to| to.split('?').next());
        let elsewhere = [location.map(str::to_string), region];
        let elsewhere: Vec<String> = elsewhere.into_iter().flatten().collect();
        let told =
            |name, longest| shortened(&conceal(longest, &element(&text, name).unwrap_or_default()));
        let code = told("Code", LONGEST_CODE);
        Self {
            status: head.status,
            // HEAD has no body; the status says as much.
            code: match head.status {
                404 if code.is_empty() => "NotFound".to_string(),
                _ => code,
            },
            // A server may speak plainly, such as one for TLS to plain HTTP.
            message: match told("Message", LONGEST_WORD) {
                none if none.is_empty() && !text.contains('<') => {
                    shortened(&conceal(LONGEST_WORD, &text))
                }
                message => message,
            },
            elsewhere: Some(conceal(usize::MAX, &elsewhere.join(", ")))
                .filter(|text| !text.is_empty()),
            moved: None,
            retries: 0,
            keeps_connection: !head.closes,
        }
    }

    /// The error in a document that came after the status 200 was sent.
    pub(super) fn late(head: &Head, body: &[u8], conceal: Concealer<'_>) -> Self {
        let told = Self::of(head, body, conceal);
        Self { status: status_of(&told.code), ..told }
    }

    /// The error in a successful reply about one of its objects: there is no status for each.
    pub(super) fn of_object(code: &str, message: &str, conceal: Concealer<'_>) -> Self {
        Self {
            status: status_of(code),
            code: shortened(&conceal(LONGEST_CODE, code)),
            message: shortened(&conceal(LONGEST_WORD, message)),
            elsewhere: None,
            moved: None,
            retries: 0,
            keeps_connection: true,
        }
    }

    /// Its code and message.
    pub(super) fn reason(&self) -> String {
        format!("{} ({})", self.code, self.message)
    }

    /// The same after so many retries.
    pub(super) fn after(self, retries: u32) -> Self {
        Self { retries, ..self }
    }

    /// Whether the same request may succeed later.
    pub(super) fn is_passing(&self) -> bool {
        matches!(self.status, 429 | 500 | 502 | 503 | 504)
    }

    /// What to do now.
    pub(super) fn remedy(&self) -> &'static str {
        match (self.status, self.code.as_str()) {
            (_, "RequestTimeTooSkewed") => "set this machine's clock (NTP): signatures need it",
            (_, "ExpiredToken") => "get a new AWS_SESSION_TOKEN: this one has expired",
            // The second is versitygw's name for it.
            (_, "InvalidAccessKeyId" | "XAdminUserNotFound") => {
                "the endpoint has no such access key: correct AWS_ACCESS_KEY_ID, or name the endpoint \
                 that it belongs to"
            }
            (_, "SignatureDoesNotMatch") => {
                "AWS_SECRET_ACCESS_KEY is not the one of AWS_ACCESS_KEY_ID, or AWS_REGION is not the \
                 bucket's: correct them"
            }
            (_, "BadDigest") => {
                "the data was changed on its way, or in memory: check the network, proxies \
                 before the endpoint, and this machine's memory"
            }
            (_, "NoSuchUpload") => "the endpoint lost the upload, as if it restarted: run again",
            (_, "NoSuchBucket") => "create the bucket first, or correct its name",
            // A HEAD has no document that says more.
            (401 | 403, "") => {
                "the credentials are wrong, have no permission for this, or none to list, so that \
                 missing objects look the same: `stormlp doctor` with the same prefix shows which"
            }
            (401 | 403, _) => {
                "the credentials have no permission for this: change the bucket's policy or the \
                 credentials"
            }
            (404, _) => "correct the name, or create the object first",
            (300..=399, _) => "set AWS_ENDPOINT_URL and AWS_REGION to where the bucket is",
            (429 | 503, _) => REFUSED_HELP,
            (500.., _) => "look at the endpoint's log",
            _ => "look at the endpoint's log; stormlp's request may not be one it supports",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the endpoint answered {}", self.status)?;
        if !self.code.is_empty() {
            write!(f, " {}", self.code)?;
        }
        if !self.message.is_empty() {
            write!(f, " ({})", self.message)?;
        }
        if let Some(elsewhere) = &self.elsewhere {
            let rule = "only a 307 to the same object and scheme is followed, and once";
            write!(f, ", which leads to {elsewhere}; {rule}")?;
        }
        f.write_str(&after_retries(self.retries))
    }
}

/// The status that usually comes with a code.
fn status_of(code: &str) -> u16 {
    match code {
        "AccessDenied" => 403,
        "NoSuchUpload" | "NoSuchKey" | "NoSuchBucket" => 404,
        "SlowDown" | "ServiceUnavailable" => 503,
        "InternalError" => 500,
        _ => 400,
    }
}

fn shortened(text: &str) -> String {
    printable(text.trim()).chars().take(MOST_CHARACTERS).collect()
}
