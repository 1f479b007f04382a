//! Deliberate impairment of storage: rate and latency limits of a run, and operations made to fail.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, VariantNames};

use crate::names::{Named, unknown};
use crate::units::{ByteSize, format_duration, parse_duration};
use crate::warning::{Warning, WarningKind};

/// Limits on storage, shared by all threads of a run; `None` means unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Throttle {
    /// Bytes read per second.
    pub read_bytes_per_second: Option<u64>,
    /// Bytes written per second.
    pub write_bytes_per_second: Option<u64>,
    /// Minimum latency of each read or write.
    pub latency: Option<Duration>,
    /// Reads and writes started per second.
    pub requests_per_second: Option<u64>,
}

/// A storage operation that may be made to fail.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Display, EnumString, VariantNames,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum StorageOperation {
    /// Opening an existing file.
    Open,
    /// Creating a file.
    Create,
    /// A read.
    Read,
    /// A write.
    Write,
    /// Making written data durable.
    Sync,
    /// Renaming a file or directory.
    Rename,
    /// Removing a file or directory.
    Remove,
    /// Setting up a transfer path.
    Build,
    /// Reading the metadata of a name.
    Stat,
    /// Reading the entries of a folder.
    List,
    /// Querying the free space of a file system.
    Statfs,
    /// Creating a folder.
    Mkdir,
    /// Allocating the space of a file.
    Allocate,
    /// Locking a folder.
    Lock,
    /// Finding the holes of a file.
    Holes,
    /// Querying how much of a file is in the page cache.
    Residency,
    /// Dropping a file from the page cache.
    Evict,
}

impl Named for StorageOperation {
    const WHAT: &'static str = "an operation";
}

/// The kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FaultKind {
    /// The operation fails with this error number.
    Errno(i32),
    /// Only half of the bytes are transferred.
    Short,
    /// The process is killed (SIGKILL) before the operation.
    Kill,
}

/// An operation that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The operations that are counted; `None` for all.
    pub operation: Option<StorageOperation>,
    /// Which of them fails, starting at 1.
    pub nth: u64,
    /// The kind of failure.
    pub kind: FaultKind,
    /// Whether the operations of the whole process count, reports included, or only a run's
    /// operations on its data.
    pub everywhere: bool,
}

/// Errors that have a name on the command line, with Linux's numbers.
const ERRNOS: [(&str, i32); 12] = [
    ("EPERM", 1),
    ("ENOENT", 2),
    ("EIO", 5),
    ("EAGAIN", 11),
    ("EACCES", 13),
    ("EINVAL", 22),
    ("ENOSPC", 28),
    ("EROFS", 30),
    ("EOPNOTSUPP", 95),
    ("ETIMEDOUT", 110),
    ("ESTALE", 116),
    ("EDQUOT", 122),
];

impl FromStr for Throttle {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut throttle = Self::default();
        for part in text.split(',') {
            let bad = |why: &str| {
                format!(
                    "--throttle: `{part}` {why}; write read=500MB/s, write=200MB/s, latency=1ms, \
                     iops=4000, or several, separated by commas"
                )
            };
            let (key, value) = part.split_once('=').ok_or_else(|| bad("is not KEY=VALUE"))?;
            match key {
                "read" => throttle.read_bytes_per_second = Some(rate(value).map_err(|e| bad(&e))?),
                "write" => {
                    throttle.write_bytes_per_second = Some(rate(value).map_err(|e| bad(&e))?);
                }
                "latency" => {
                    let latency = parse_duration(value).map_err(|e| bad(&e.to_string()))?;
                    throttle.latency = Some(latency);
                }
                "iops" => {
                    let requests = value
                        .parse()
                        .ok()
                        .filter(|requests| *requests > 0)
                        .ok_or_else(|| bad("needs a number above 0"))?;
                    throttle.requests_per_second = Some(requests);
                }
                _ => return Err(bad("has an unknown key")),
            }
        }
        Ok(throttle)
    }
}

/// Bytes per second, written as a size with or without `/s`.
fn rate(text: &str) -> Result<u64, String> {
    let size: ByteSize = text
        .strip_suffix("/s")
        .unwrap_or(text)
        .parse()
        .map_err(|error| format!("has an invalid rate: {error}"))?;
    match size.bytes() {
        0 => Err("needs a rate above 0".to_string()),
        bytes => Ok(bytes),
    }
}

impl fmt::Display for Throttle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = |name, bytes: Option<u64>| bytes.map(|b| format!("{name} {}/s", ByteSize(b)));
        let parts: Vec<String> = [
            rate("reads", self.read_bytes_per_second),
            rate("writes", self.write_bytes_per_second),
            self.latency.map(|l| format!("latency {}", format_duration(l.as_secs_f64()))),
            self.requests_per_second.map(|r| format!("{r} requests/s")),
        ]
        .into_iter()
        .flatten()
        .collect();
        f.write_str(&parts.join(", "))
    }
}

impl FromStr for Fault {
    type Err = String;

    /// Parses `CALL:NTH:ERROR`, for a run's operations on its data, or
    /// `nth=N[,call=CALL][,errno=ERROR]`, for all operations of the process.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = |why: String| {
            format!(
                "--inject-fault: `{text}` {why}; write OPERATION:NTH:ERROR, as in read:17:EIO, or \
                 nth=17,call=read,errno=EIO for any call of the process"
            )
        };
        let parts: Vec<&str> = text.split(':').collect();
        let (call, nth, kind, everywhere) = match parts[..] {
            [call, nth, kind] => (Some(call), nth, kind, false),
            [keys] if keys.contains('=') => {
                let (mut call, mut nth, mut kind) = (None, None, "EIO");
                for part in keys.split(',') {
                    match part.split_once('=') {
                        Some(("call", value)) => call = Some(value),
                        Some(("nth", value)) => nth = Some(value),
                        Some(("errno", value)) => kind = value,
                        _ => return Err(bad(format!("has an unknown part, `{part}`"))),
                    }
                }
                (call, nth.unwrap_or_default(), kind, true)
            }
            _ => return Err(bad("does not have three parts".to_string())),
        };
        let operation = call.map(str::parse).transpose();
        let operation: Option<StorageOperation> =
            operation.map_err(|why| format!("--inject-fault: in `{text}`, {why}"))?;
        let nth = nth
            .parse()
            .ok()
            .filter(|nth| *nth > 0)
            .ok_or_else(|| bad("needs a number above 0 that says which call".to_string()))?;
        let transfers = [StorageOperation::Read, StorageOperation::Write];
        let kind = match kind {
            "short" if operation.is_some_and(|operation| transfers.contains(&operation)) => {
                FaultKind::Short
            }
            "short" => {
                return Err(bad("uses `short`, which is only for read and write".to_string()));
            }
            "KILL" => FaultKind::Kill,
            name => FaultKind::Errno(errno(name).map_err(bad)?),
        };
        Ok(Self { operation, nth, kind, everywhere })
    }
}

/// The number of an error, by its name or by itself.
fn errno(name: &str) -> Result<i32, String> {
    let named = ERRNOS.iter().find(|(known, _)| *known == name);
    let number = named.map(|(_, number)| *number).or(name.parse().ok());
    number.filter(|number| *number > 0).ok_or_else(|| {
        let names: Vec<&str> = ERRNOS.iter().map(|(known, _)| *known).collect();
        format!("has an unknown error (use short, KILL, {}, or a number)", names.join(", "))
    })
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.operation {
            Some(operation) => write!(f, "{operation} {} ", self.nth)?,
            None => write!(f, "call {} ", self.nth)?,
        }
        match self.kind {
            FaultKind::Short => f.write_str("moves half of its bytes"),
            FaultKind::Kill => f.write_str("kills the process"),
            FaultKind::Errno(number) => match ERRNOS.iter().find(|(_, known)| *known == number) {
                Some((name, _)) => write!(f, "fails with {name}"),
                None => write!(f, "fails with error {number}"),
            },
        }
    }
}

/// The warning in a report that `option` slowed storage down or made it fail, so that the results
/// are not attributed to the storage.
pub fn warning(option: &str, what: &str) -> Warning {
    Warning::new(
        WarningKind::Impaired,
        format!("the storage was altered for this run: {option} {what}"),
        format!("do not use this run as a result of the storage; leave {option} out"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_throttle_is_parsed_as_typed() {
        let throttle: Throttle = "read=500MB/s,write=1G,latency=1ms,iops=4000".parse().unwrap();
        assert_eq!(throttle.read_bytes_per_second, Some(500_000_000));
        assert_eq!(throttle.write_bytes_per_second, Some(1 << 30));
        assert_eq!(throttle.latency, Some(Duration::from_millis(1)));
        assert_eq!(throttle.requests_per_second, Some(4000));
        for text in ["", "read", "read=0", "read=x", "speed=1", "iops=0", "latency=1"] {
            let parsed = text.parse::<Throttle>();
            let refused = parsed.is_err_and(|error| error.starts_with("--throttle: "));
            assert_eq!(refused, text != "latency=1", "{text}");
        }
    }

    #[test]
    fn a_fault_is_parsed_as_typed() {
        let fault: Fault = "read:17:EIO".parse().unwrap();
        assert_eq!(fault.to_string(), "read 17 fails with EIO");
        let short: Fault = "write:1:short".parse().unwrap();
        assert_eq!(short.kind, FaultKind::Short);
        let numbered: Fault = "sync:2:121".parse().unwrap();
        assert_eq!(numbered.kind, FaultKind::Errno(121));
        let any: Fault = "nth=17".parse().unwrap();
        assert_eq!((any.to_string().as_str(), any.everywhere), ("call 17 fails with EIO", true));
        let killed: Fault = "call=rename,nth=2,errno=KILL".parse().unwrap();
        assert_eq!(killed.to_string(), "rename 2 kills the process");
        let invalid = ["read", "reed:1:EIO", "read:0:EIO", "read:1:EXY", "open:1:short"];
        let keyed = ["nth=0", "call=read", "nth=1,errno=short", "nth=1,who=me", "nth=1,call=reed"];
        for text in [invalid, keyed].concat() {
            let error = text.parse::<Fault>().unwrap_err();
            assert!(error.starts_with("--inject-fault: "), "{error}");
        }
    }
}
