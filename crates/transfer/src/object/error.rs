//! Errors about an object: the request, the object, the position, and the remedy.

use std::fmt;
use std::io;

use super::reply::Refusal;
use super::retry::after_retries;

/// A request that did not succeed.
#[derive(Debug)]
pub struct ObjectError {
    /// The request: `GET`, `upload part 3 of`.
    pub(super) request: String,
    /// The object or bucket: `s3://bucket/key`.
    pub(super) object: String,
    /// The first byte of the range, for requests of a range.
    pub(super) offset: Option<u64>,
    /// The reason.
    pub(super) fault: ObjectFault,
}

/// Why a request did not succeed.
#[derive(Debug)]
pub enum ObjectFault {
    /// The endpoint cannot be reached, or the connection to it broke.
    Connection {
        /// Scheme, host and port.
        endpoint: String,
        /// The kernel's error.
        source: io::Error,
        /// How often it was tried again.
        retries: u32,
    },
    /// The certificate or the protocol of TLS was not accepted.
    Tls {
        /// Scheme, host and port.
        endpoint: String,
        /// Why not.
        reason: String,
    },
    /// The endpoint answered with an error.
    Refused(Box<Refusal>),
    /// The endpoint kept an object that it was to delete.
    Kept(Box<Refusal>),
    /// The endpoint's answer cannot be right: a body of another length, malformed XML.
    Answer(String),
    /// The data is not as expected: another object, a missing part.
    Data(String),
}

impl fmt::Display for ObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.request, self.object)?;
        if let Some(offset) = self.offset {
            write!(f, " at byte {offset}")?;
        }
        write!(f, ": {}", self.fault)
    }
}

impl fmt::Display for ObjectFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection { endpoint, source, retries } => {
                write!(f, "{endpoint}: {source}{}", after_retries(*retries))
            }
            Self::Tls { endpoint, reason } => write!(f, "TLS with {endpoint}: {reason}"),
            Self::Refused(refusal) => write!(f, "{refusal}"),
            Self::Kept(refusal) => write!(f, "it was kept: {}", refusal.reason()),
            Self::Answer(what) | Self::Data(what) => write!(f, "{what}"),
        }
    }
}

impl std::error::Error for ObjectError {}
impl std::error::Error for ObjectFault {}

impl ObjectError {
    /// The error of a request for an object, or for a range of it from `offset`.
    pub(crate) fn new(
        request: &str,
        (bucket, key): (&str, &str),
        offset: Option<u64>,
        fault: ObjectFault,
    ) -> Self {
        let object = format!("s3://{bucket}/{key}");
        Self { request: request.to_string(), object, offset, fault }
    }

    /// The first byte of the range, for requests of a range.
    pub fn offset(&self) -> Option<u64> {
        self.offset
    }

    /// The reason alone, as for a file's error.
    pub(crate) fn into_fault(self) -> ObjectFault {
        self.fault
    }

    /// The reason, for messages that have named the object already.
    pub(crate) fn reason(&self) -> String {
        match self.offset {
            Some(offset) => format!("at byte {offset}: {}", self.fault),
            None => self.fault.to_string(),
        }
    }

    /// What to do now.
    pub fn remedy(&self) -> &'static str {
        self.fault.remedy()
    }

    /// Whether there is no such object.
    pub fn is_not_found(&self) -> bool {
        matches!(&self.fault, ObjectFault::Refused(refusal)
            if refusal.status == 404 && matches!(refusal.code.as_str(), "NoSuchKey" | "NotFound"))
    }

    /// Whether the data is not as expected.
    pub(crate) fn is_of_data(&self) -> bool {
        matches!(self.fault, ObjectFault::Data(_))
    }

    /// Whether there is no such upload any more, or no such object.
    pub(super) fn is_gone(&self) -> bool {
        matches!(&self.fault, ObjectFault::Refused(refusal)
            if refusal.status == 404 && refusal.code != "NoSuchBucket")
    }

    /// Whether the endpoint does not know such requests.
    pub(super) fn is_not_implemented(&self) -> bool {
        matches!(&self.fault, ObjectFault::Refused(refusal) if matches!(refusal.status, 405 | 501))
    }

    /// Whether the endpoint or the way to it failed, as opposed to a request that it refused.
    pub fn is_failure(&self) -> bool {
        self.fault.is_failure()
    }
}

impl ObjectFault {
    /// The fault behind an error of the system, which readers of files pass on.
    pub fn behind(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    /// What to do now.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Connection { .. } => {
                "check that the endpoint (AWS_ENDPOINT_URL) is running and reachable from here"
            }
            Self::Tls { .. } => {
                "name the certificate authority in AWS_CA_BUNDLE, use a name and a day that the \
                 certificate is valid for, give the endpoint a server's certificate (not an \
                 authority's), or correct its scheme"
            }
            Self::Refused(refusal) | Self::Kept(refusal) => refusal.remedy(),
            Self::Answer(_) => {
                "compare with another client: the endpoint, or a proxy before it, is at fault"
            }
            Self::Data(_) => "write the object again, and find out why it changed",
        }
    }

    /// Whether the endpoint or the way to it failed, as opposed to a request that it refused.
    pub fn is_failure(&self) -> bool {
        match self {
            Self::Connection { .. } | Self::Kept(_) | Self::Answer(_) | Self::Data(_) => true,
            Self::Tls { .. } => false,
            Self::Refused(refusal) => {
                refusal.status >= 500 || refusal.status == 429 || refusal.code == "NoSuchUpload"
            }
        }
    }
}
