//! Checksums of bodies, in the headers that S3 has for them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crc_fast::{CrcAlgorithm, checksum, checksum_combine};

/// Asks for the checksum of an object that is read.
pub(super) const ASK: (&str, &str) = ("x-amz-checksum-mode", "ENABLED");
/// Headers at the beginning of an upload: its checksum covers the whole object, and is the one that
/// S3 recommends.
pub(super) const OF_UPLOAD: [(&str, &str); 2] =
    [("x-amz-checksum-algorithm", "CRC64NVME"), ("x-amz-checksum-type", "FULL_OBJECT")];

/// A kind of checksum that S3 has.
#[derive(Debug, PartialEq)]
struct Kind {
    header: &'static str,
    name: &'static str,
    algorithm: CrcAlgorithm,
    /// Bytes of it, most significant first, of which the header is the base64.
    bytes: usize,
}

/// The kinds that are checked. The first is sent, since parts of it make up the whole.
static KINDS: [Kind; 3] = [
    Kind {
        header: "x-amz-checksum-crc64nvme",
        name: "CRC64NVME",
        algorithm: CrcAlgorithm::Crc64Nvme,
        bytes: 8,
    },
    Kind {
        header: "x-amz-checksum-crc32c",
        name: "CRC32C",
        algorithm: CrcAlgorithm::Crc32Iscsi,
        bytes: 4,
    },
    Kind {
        header: "x-amz-checksum-crc32",
        name: "CRC32",
        algorithm: CrcAlgorithm::Crc32IsoHdlc,
        bytes: 4,
    },
];

/// A checksum of an object or a part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Checksum {
    kind: &'static Kind,
    value: u64,
}

impl Checksum {
    /// The checksum of `body`, as it is sent.
    pub(crate) fn of(body: &[u8]) -> Self {
        let kind = &KINDS[0];
        Self { kind, value: checksum(kind.algorithm, body) }
    }

    /// The checksum of `body` of the same kind.
    pub(crate) fn like(self, body: &[u8]) -> Self {
        Self { value: checksum(self.kind.algorithm, body), ..self }
    }

    /// The checksum of this body with the one of `next`, of `bytes`, after it.
    pub(crate) fn then(self, next: Self, bytes: u64) -> Self {
        let value = checksum_combine(self.kind.algorithm, self.value, next.value, bytes);
        Self { value, ..self }
    }

    /// The checksum in a header of a reply; `None` if it is not known here, or one of parts, as its
    /// end `-3` tells.
    pub(super) fn of_header(name: &str, text: &str) -> Option<Self> {
        let kind = KINDS.iter().find(|kind| kind.header.eq_ignore_ascii_case(name))?;
        let bytes = STANDARD.decode(text).ok().filter(|bytes| bytes.len() == kind.bytes)?;
        let value = bytes.iter().fold(0, |value, byte| (value << 8) | u64::from(*byte));
        Some(Self { kind, value })
    }

    /// The element in the list of an upload's parts.
    pub(super) fn element(self) -> (String, String) {
        (format!("Checksum{}", self.kind.name), self.header().1)
    }

    /// The header, for a request.
    pub(super) fn header(self) -> (&'static str, String) {
        let bytes = self.value.to_be_bytes();
        (self.kind.header, STANDARD.encode(&bytes[bytes.len() - self.kind.bytes..]))
    }

    /// Checks that it is the one of `body`, otherwise returns the fault.
    pub(super) fn check(self, body: &[u8]) -> Result<(), String> {
        self.check_same(self.like(body))
    }

    /// Checks that the endpoint has computed the same; `None` if it used another kind.
    pub(crate) fn check_sent(self, of_endpoint: Self) -> Option<Result<(), String>> {
        (self.kind == of_endpoint.kind).then(|| of_endpoint.check_same(self))
    }

    fn check_same(self, found: Self) -> Result<(), String> {
        if found.value == self.value {
            return Ok(());
        }
        let digits = 2 * self.kind.bytes;
        Err(format!(
            "its {} is {:0digits$x}, and the endpoint's {:0digits$x}: these are not the same bytes",
            self.kind.name, found.value, self.value
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check values of the catalogue of CRCs, and the value that AWS shows for `123456789`.
    #[test]
    fn headers_are_those_of_s3() {
        let body = b"123456789";
        let sent = Checksum::of(body);
        assert_eq!(sent.header(), ("x-amz-checksum-crc64nvme", "rosUhgp5mIg=".to_string()));
        for (name, text) in [
            ("x-amz-checksum-crc64nvme", "rosUhgp5mIg="),
            ("X-Amz-Checksum-CRC32C", "4waSgw=="),
            ("x-amz-checksum-crc32", "y/Q5Jg=="),
        ] {
            let told = Checksum::of_header(name, text).unwrap();
            told.check(body).unwrap();
            let wrong = told.check(b"123456780").unwrap_err();
            assert!(wrong.contains("not the same bytes"), "{wrong}");
        }
        for (name, text) in [
            ("x-amz-checksum-crc32c", "4waSgw==-3"),
            ("x-amz-checksum-crc32c", "rosUhgp5mIg="),
            ("x-amz-checksum-crc32c", "?"),
            ("x-amz-checksum-sha256", "4waSgw=="),
        ] {
            assert_eq!(Checksum::of_header(name, text), None, "{name}: {text}");
        }
    }

    #[test]
    fn parts_make_up_the_whole() {
        let (one, two) = (b"12345".as_slice(), b"6789".as_slice());
        let whole = Checksum::of(one).then(Checksum::of(two), two.len() as u64);
        assert_eq!(whole, Checksum::of(b"123456789"));
        assert_eq!(whole.check_sent(Checksum::of(b"123456789")), Some(Ok(())));
        assert!(whole.check_sent(Checksum::of(b"12345678")).unwrap().is_err());
        let other = Checksum::of_header("x-amz-checksum-crc32c", "4waSgw==").unwrap();
        assert_eq!(whole.check_sent(other), None);
    }
}
