//! The path that ran, and the evidence for it: a path is never reported without its evidence.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::histogram::NamedHistogram;
use crate::path::{EngineKind, PathKind};
use crate::units::{ByteSize, counted};
use crate::warning::{Warning, WarningKind};

/// What to do when an object store refuses requests for want of capacity (429, 5xx).
pub const REFUSED_HELP: &str = "use fewer threads or connections (--threads, checkpoint: --queue-depth), \
     or let the endpoint accept more requests: its log shows the refused ones";

/// Whether `O_DIRECT` took effect on the files of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DirectIo {
    /// The path goes through the page cache by design, or touches no file.
    #[default]
    NotAsked,
    /// Every file was opened with `O_DIRECT` and `fcntl(F_GETFL)` shows it still set.
    Honoured,
    /// The file system refused it, or is known to buffer what it accepts: the bytes went through a
    /// cache.
    Refused,
}

/// The configuration of the I/O engine under a path, as granted by the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EngineFacts {
    /// The engine that ran.
    pub engine: EngineKind,
    /// Flags of the ring, by their kernel names; empty without a ring.
    pub ring_flags: Vec<String>,
    /// Whether the buffers were registered with the ring.
    pub registered_buffers: bool,
    /// Whether the files were registered with the ring.
    pub registered_files: bool,
    /// Why any of the above falls short of the request.
    pub fallbacks: Vec<String>,
}

/// How bytes move between a device and the memory of a GPU without passing through host memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mechanism {
    /// The kernel's PCI peer-to-peer DMA.
    P2pdma,
    /// NVIDIA's kernel driver nvidia-fs.
    NvidiaFs,
    /// Buffers that kernel drivers share (dma-buf).
    Dmabuf,
    /// The coherent link between CPU and GPU (NVLink-C2C).
    C2c,
    /// NVIDIA's kernel module nvidia_peermem, for RDMA.
    NvidiaPeermem,
}

impl Mechanism {
    /// Its name in sentences.
    pub fn words(self) -> &'static str {
        match self {
            Self::P2pdma => "peer-to-peer",
            Self::NvidiaFs => "nvidia-fs",
            Self::Dmabuf => "dma-buf",
            Self::C2c => "C2C",
            Self::NvidiaPeermem => "nvidia_peermem",
        }
    }
}

/// Operations by the mechanism that moved them.
pub type OperationsBy = BTreeMap<Mechanism, u64>;

/// The evidence for the route of transfers through a library for direct storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RouteProof {
    /// The library's counters of each route.
    Counters,
    /// The statistics of a kernel driver (nvidia-fs), which cover the whole host: they show as many
    /// transfers and bytes as the run made, or too few.
    KernelDriver,
    /// The fallback was forbidden, so it would have been an error.
    FallbackForbidden,
    /// No other route exists on this machine.
    Elimination,
    /// None: the route is not proven, though no evidence contradicts it either.
    #[default]
    None,
}

/// When the library counted transfers per route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    /// Never: the library has no counters, or they were disabled or set to a level without routes.
    #[default]
    Never,
    /// During transfers of the same kind before the measured part, which itself is not counted.
    Beforehand,
    /// During the first transfers, which are part of the measurement.
    AtFirst,
    /// Throughout the measured part, as requested.
    Throughout,
}

/// Bytes that a GPU vendor's library for direct storage moved in a cell or a part of a run: by
/// direct routes, or by its fallback through host memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DirectStorage {
    /// Name of the library, `libcufile`.
    pub library: String,
    /// Its version, `1.16`.
    pub library_version: String,
    /// Where it was found.
    pub library_path: String,
    /// Transfers by direct routes, for each mechanism (`p2pdma`, `nvidia_fs`); `None` if the
    /// library does not count them. libcufile counts these two; what it has in no counter belongs to
    /// the only other mechanism that it offers, if there is just one.
    pub direct_operations: Option<OperationsBy>,
    /// Transfers by the fallback, POSIX reads and writes; `None` if the library does not count
    /// them.
    pub fallback_operations: Option<u64>,
    /// Operations that kernel drivers counted on the whole host in the same period
    /// (`/proc/driver/nvidia-fs/stats`); empty if none counts.
    pub kernel_operations: OperationsBy,
    /// Transfers of streams and batches that moved less than asked, so that blocking calls moved the
    /// rest.
    #[serde(default)]
    pub continued_operations: u64,
    /// When the library counted transfers per route.
    pub counted: Counted,
    /// The evidence for the route they took.
    pub proof: RouteProof,
    /// The missing proof of the route, if it is unproven.
    pub to_prove: Option<String>,
    /// Whether the library was allowed to fall back.
    pub fallback_allowed: Option<bool>,
    /// Properties of the library that affect the path, in words.
    pub properties: Vec<String>,
}

impl DirectStorage {
    /// The transfers that the library counted, by any route.
    pub fn counted_operations(&self) -> u64 {
        let direct = self.direct_operations.iter().flat_map(BTreeMap::values);
        direct.chain(&self.fallback_operations).fold(0, |sum, count| sum.saturating_add(*count))
    }
}

/// An object store as its replies describe it, and its traffic, from the first request of a cell to
/// its last: warm-up included.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ObjectStore {
    /// Scheme, host and port; several are separated by commas.
    pub endpoint: String,
    /// Whether buckets stand in the path or in the host name: `path`, `virtual`.
    pub addressing: String,
    /// The reply's header `Server`.
    pub server: Option<String>,
    /// The version in the replies, `HTTP/1.1`.
    pub http: Option<String>,
    /// The version of TLS, if the endpoint uses it.
    pub tls: Option<String>,
    /// Requests sent, retries included.
    pub requests: u64,
    /// Requests sent again, because the endpoint was busy or a connection broke.
    pub retries: u64,
    /// Retries because a connection broke, or was silent for too long.
    pub retries_after_loss: u64,
    /// Requests sent again to the place to which the endpoint redirected them.
    #[serde(default)]
    pub redirects: u64,
    /// Connections opened.
    pub connections: u64,
    /// Bytes sent, heads of requests included. With TLS, as encrypted.
    pub sent_bytes: u64,
    /// Bytes received, heads of replies included. With TLS, as encrypted.
    pub received_bytes: u64,
    /// Times from sending a GET until the head of its reply, of the measured ones. Unlike latencies,
    /// they leave out the wait for the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte: Option<NamedHistogram>,
    /// The result of checksums, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksums: Option<ObjectChecksums>,
}

/// The result of comparing the checksums of bodies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ObjectChecksums {
    /// Bytes of bodies with the same checksum here and at the endpoint: received ones, and sent
    /// ones if its reply repeats it.
    pub checked_bytes: u64,
    /// Replies to GETs, PUTs and parts that were not compared, for want of a checksum.
    pub responses_unverified: u64,
    /// Unverified replies to PUTs and parts that were sent with a checksum.
    pub uploads_unverified: u64,
    /// Unverified ranges of objects with a checksum that do not make up an object.
    pub ranges_unverified: u64,
    /// Checksums that differed between here and the endpoint, each of which ends a run.
    pub differed: u64,
}

/// `1 reply`, `2 replies`.
fn of_replies(count: u64) -> String {
    format!("{count} {}", if count == 1 { "reply" } else { "replies" })
}

impl ObjectChecksums {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            checked_bytes: self.checked_bytes.saturating_add(other.checked_bytes),
            responses_unverified: self
                .responses_unverified
                .saturating_add(other.responses_unverified),
            uploads_unverified: self.uploads_unverified.saturating_add(other.uploads_unverified),
            ranges_unverified: self.ranges_unverified.saturating_add(other.ranges_unverified),
            differed: self.differed.saturating_add(other.differed),
        }
    }

    /// Replies that had no checksum, as opposed to ranges, which never have one.
    fn bare_replies(self) -> u64 {
        self.responses_unverified.saturating_sub(self.ranges_unverified)
    }

    /// The compared bytes and replies, as text.
    pub fn to_text(self) -> String {
        let checked = match self.checked_bytes {
            0 => "nothing".to_string(),
            bytes => format!("{} by checksum", ByteSize(bytes)),
        };
        if self.differed > 0 {
            return format!("{checked} before a checksum differed");
        }
        let mut words = vec![checked];
        let replies = self.bare_replies();
        words.extend((replies > 0).then(|| format!("{} had no checksum", of_replies(replies))));
        words.extend((self.ranges_unverified > 0).then(|| self.ranges_in_words()));
        words.join("; ")
    }

    fn ranges_in_words(self) -> String {
        let ranges = counted(self.ranges_unverified, "range");
        format!("{ranges} that do not make up an object")
    }

    /// The warnings if bytes could not be verified as was asked. A run that ended because a checksum
    /// differed has none: it was about to compare the rest.
    fn warnings(self) -> impl Iterator<Item = Warning> {
        let checked = match self.checked_bytes {
            0 => "no bytes were verified".to_string(),
            bytes => format!("{} were verified", ByteSize(bytes)),
        };
        let of = |without: u64, what: String, remedy: &str| {
            (without > 0 && self.differed == 0).then(|| {
                let fact = format!("verification by checksums: {checked}; {what}");
                Warning::new(WarningKind::NotVerified, fact, remedy)
            })
        };
        let read_without = self.bare_replies().saturating_sub(self.uploads_unverified);
        let read = of(
            read_without,
            format!("{} had no checksum of the data read", of_replies(read_without)),
            "have the objects written with checksums (--checksum crc) to an endpoint that keeps them, and read all of each",
        );
        let ranges = of(
            self.ranges_unverified,
            format!("{} were not compared", self.ranges_in_words()),
            "only a whole object has a checksum: let one thread read all of each, and not at random \
             (train: --threads 1), or verify datasets with datagen --check",
        );
        let sent = of(
            self.uploads_unverified,
            format!("{} did not repeat the checksum sent", of_replies(self.uploads_unverified)),
            "whether the endpoint compared it is unknown: read the objects with --checksum crc, or their \
             content with --verify",
        );
        [read, ranges, sent].into_iter().flatten()
    }
}

impl ObjectStore {
    /// The store with the counts of `other` added.
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        let Self { endpoint, server, http, tls, .. } = other;
        for endpoint in endpoint.split(", ") {
            if !self.endpoint.split(", ").any(|one| one == endpoint) {
                self.endpoint = format!("{}, {endpoint}", self.endpoint);
            }
        }
        self.first_byte = match (self.first_byte, &other.first_byte) {
            (Some(one), Some(other)) => one.plus(other),
            (one, other) => one.or_else(|| other.clone()),
        };
        self.checksums = match (self.checksums, other.checksums) {
            (Some(one), Some(other)) => Some(one.plus(other)),
            (one, other) => one.or(other),
        };
        self.server = self.server.or_else(|| server.clone());
        self.http = self.http.or_else(|| http.clone());
        self.tls = self.tls.or_else(|| tls.clone());
        self.requests = self.requests.saturating_add(other.requests);
        self.retries = self.retries.saturating_add(other.retries);
        self.retries_after_loss = self.retries_after_loss.saturating_add(other.retries_after_loss);
        self.redirects = self.redirects.saturating_add(other.redirects);
        self.connections = self.connections.saturating_add(other.connections);
        self.sent_bytes = self.sent_bytes.saturating_add(other.sent_bytes);
        self.received_bytes = self.received_bytes.saturating_add(other.received_bytes);
        self
    }

    /// The endpoints and their servers, in one sentence.
    pub fn to_text(&self) -> String {
        let of = |what: &Option<String>| what.clone().unwrap_or_else(|| "unknown".to_string());
        let tls = self.tls.as_ref().map_or_else(String::new, |tls| format!(" over {tls}"));
        let redirects = if self.redirects > 0 { ", which redirects requests" } else { "" };
        format!(
            "{}{tls} with {} (Server: {}){redirects}; its caches are unknown",
            of(&self.http),
            self.endpoint,
            of(&self.server)
        )
    }

    /// The warnings if requests were made again, as the figures then include waits that no transfer
    /// needs, and if some bytes could not be verified as was asked.
    pub fn warnings(&self) -> impl Iterator<Item = Warning> {
        let checksums = self.checksums.into_iter().flat_map(ObjectChecksums::warnings);
        self.retry_warnings("requests").chain(checksums)
    }

    /// The warnings if any of these `requests`, named in the plural, were made again: after refusals,
    /// and after losses.
    pub fn retry_warnings(&self, requests: &str) -> impl Iterator<Item = Warning> + use<> {
        let of = |count: u64, after: &str, remedy: &str| {
            (count > 0).then(|| {
                let fact =
                    format!("{count} of {} {requests} were retries after {after}", self.requests);
                Warning::new(WarningKind::Retried, fact, remedy)
            })
        };
        let refused = of(
            self.retries.saturating_sub(self.retries_after_loss),
            "the endpoint refused them (429 or 5xx)",
            REFUSED_HELP,
        );
        let lost = of(
            self.retries_after_loss,
            "connections broke or stood still",
            "look at the network, at proxies before the endpoint, and whether the endpoint was \
             restarted",
        );
        refused.into_iter().chain(lost)
    }
}

/// The path that ran, with the facts that prove it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evidence {
    /// The path the bytes actually took; `None` if it could not be determined.
    pub effective_path: Option<PathKind>,
    /// The route in one sentence, with its evidence.
    pub summary: String,
    /// Whether `O_DIRECT` took effect.
    pub direct_io: DirectIo,
    /// The engine, for CPU-driven paths.
    pub engine: Option<EngineFacts>,
    /// Bytes that the vendor's library moved, for cuFile's paths.
    pub direct_storage: Option<DirectStorage>,
    /// The object store, for path `s3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_store: Option<ObjectStore>,
}

impl Evidence {
    /// The times to first byte of the GETs of objects, if there were any.
    pub fn first_byte(&self) -> Option<&NamedHistogram> {
        self.object_store.as_ref()?.first_byte.as_ref()
    }

    /// The same with the object stores of `all`, of threads or hosts: their endpoints and counts.
    #[must_use]
    pub fn with_stores_of<'e>(mut self, all: impl IntoIterator<Item = &'e Self>) -> Self {
        let stores = all.into_iter().filter_map(|one| one.object_store.clone());
        self.object_store = stores.reduce(|sum, one| sum.plus(&one));
        if self.effective_path == Some(PathKind::S3)
            && let Some(store) = &self.object_store
        {
            self.summary = store.to_text();
        }
        self
    }

    /// Whether a run of the path `asked` can leave this evidence: the path's, or its fallback's.
    pub fn may_be_of(&self, asked: PathKind) -> bool {
        self.effective_path.is_none_or(|shown| {
            shown == asked
                || (shown == PathKind::GdsCompat && asked.needs_cufile())
                || (self.direct_io == DirectIo::Refused && shown == asked.without_direct())
        })
    }

    /// The warning when path `asked` was requested but is not known to have run: either another
    /// path ran, or its route is not proven, which is not a fallback.
    pub fn of_another_path(&self, asked: PathKind) -> Option<Warning> {
        let storage = self.direct_storage.as_ref();
        let rest = match storage.map_or(0, |storage| storage.continued_operations) {
            0 => String::new(),
            some => format!(
                "; blocking calls, as of path gds, moved the rest of {} that moved less than asked",
                counted(some, "transfer")
            ),
        };
        let ran = self.effective_path == Some(asked);
        if ran && rest.is_empty() {
            return None;
        }
        let fact = format!("{asked} was requested: {}{rest}", self.summary);
        let unproven =
            storage.filter(|it| self.effective_path.is_none() && it.proof == RouteProof::None);
        let (kind, remedy) = match unproven {
            Some(it) => (WarningKind::PathNotProven, it.to_prove.as_deref().unwrap_or_default()),
            None if ran => (
                WarningKind::PathFellBack,
                "see cufile.log beside the report; use a smaller --io-size, or --path gds",
            ),
            None => (
                WarningKind::PathFellBack,
                "run `stormlp doctor`; use --require gds to make this an error",
            ),
        };
        Some(Warning::new(kind, fact, remedy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_and_what_was_not_verified_are_told_apart() {
        let of = |retries, retries_after_loss, checksums| {
            let store = ObjectStore {
                requests: 10,
                retries,
                retries_after_loss,
                checksums,
                ..ObjectStore::default()
            };
            store.warnings().map(|warning| warning.to_string()).collect::<Vec<_>>()
        };
        assert!(of(0, 0, None).is_empty());
        let both = of(3, 1, None);
        assert!(both[0].starts_with("2 of 10 requests were retries after the endpoint refused"));
        assert!(both[1].starts_with("1 of 10 requests were retries after connections broke"));
        let whole = ObjectChecksums { checked_bytes: 9, ..ObjectChecksums::default() };
        assert!(of(0, 0, Some(whole)).is_empty());
        let none = ObjectChecksums { responses_unverified: 5, uploads_unverified: 2, ..whole };
        let [read, sent] = &of(0, 0, Some(none))[..] else { panic!() };
        assert!(read.contains("9 B were verified; 3 replies had no checksum of the data read"));
        assert!(sent.contains("2 replies did not repeat the checksum sent"));
        // Ranges of objects that have checksums.
        let ranges = ObjectChecksums { responses_unverified: 5, ranges_unverified: 5, ..whole };
        let [apart] = &of(0, 0, Some(ranges))[..] else { panic!() };
        assert!(apart.contains("5 ranges that do not make up an object"), "{apart}");
        assert!(!apart.contains("no checksum"), "{apart}");
        assert_eq!(ranges.to_text(), "9 B by checksum; 5 ranges that do not make up an object");
        // A range that was about to be compared when another was found wrong.
        let wrong = ObjectChecksums { differed: 1, ..ranges };
        assert!(of(0, 0, Some(wrong)).is_empty());
        assert_eq!(wrong.to_text(), "9 B by checksum before a checksum differed");
    }

    fn evidence(effective_path: Option<PathKind>, proof: RouteProof) -> Evidence {
        Evidence {
            effective_path,
            summary: "so it went".to_string(),
            direct_io: DirectIo::Honoured,
            engine: None,
            direct_storage: Some(DirectStorage {
                proof,
                to_prove: Some("count".to_string()),
                ..DirectStorage::default()
            }),
            object_store: None,
        }
    }

    #[test]
    fn evidence_belongs_to_a_path_or_to_what_it_falls_back_to() {
        let of = |effective, direct_io, asked| {
            Evidence { direct_io, ..evidence(Some(effective), RouteProof::None) }.may_be_of(asked)
        };
        use DirectIo::{Honoured, NotAsked, Refused};
        assert!(of(PathKind::Cpu, Honoured, PathKind::Cpu));
        assert!(of(PathKind::Buffered, Refused, PathKind::Cpu));
        assert!(of(PathKind::GdsCompat, Honoured, PathKind::GdsBatch));
        assert!(!of(PathKind::Buffered, NotAsked, PathKind::Gds));
        assert!(!of(PathKind::Buffered, NotAsked, PathKind::Cpu));
        assert!(!of(PathKind::GdsCompat, Honoured, PathKind::CpuGpu));
    }

    #[test]
    fn an_unproven_route_is_not_a_fallback() {
        let kind = |effective, proof| {
            let warning = evidence(effective, proof).of_another_path(PathKind::Gds);
            warning.map(|warning| warning.kind)
        };
        assert_eq!(kind(Some(PathKind::Gds), RouteProof::Counters), None);
        let unproven = evidence(None, RouteProof::None).of_another_path(PathKind::Gds);
        assert_eq!(unproven.as_ref().unwrap().kind, WarningKind::PathNotProven);
        let unproven = unproven.unwrap();
        assert_eq!(unproven.remedy, "count");
        // Perhaps no transfer succeeded; then the path did not run.
        assert_eq!(unproven.fact, "gds was requested: so it went");
        let fell_back = Some(WarningKind::PathFellBack);
        assert_eq!(kind(None, RouteProof::Counters), fell_back);
        let compat = Some(PathKind::GdsCompat);
        assert_eq!(kind(compat, RouteProof::Elimination), fell_back);
    }
}
