//! Unknown facts of hosts and storage: requests with one assumption changed, which make the range
//! of an answer.

use serde::{Deserialize, Serialize};

use super::case::{Case, Sizing};
use super::overhead::Overhead;
use super::prediction::{LimitedBy, StoragePart};
use super::storage::{LOCAL_READ_AHEAD_BYTES, NETWORK_READ_AHEAD_BYTES};
use stormlp_core::units::{ByteSize, format_duration, short_size};
use stormlp_training::plan::client::Client;

/// AU below which accelerators wait for storage.
const UNDELAYED_AU: f64 = 0.99;
/// Share of a data sheet's figures that file systems reach.
const REACHED_SHARE: f64 = 0.95;
/// Latency of a flash drive if none is given.
const FLASH_LATENCY_SECONDS: f64 = 100e-6;
/// The slowest and the fastest published hosts with local drives, in parts of their middle.
const LOCAL_HOSTS: [f64; 2] = [0.5, 1.2];
/// The same of hosts with storage behind a network: 5 and 55 GiB/s.
const NETWORK_HOSTS: [f64; 2] = [0.25, 2.75];
/// From this latency on, read-ahead decides how fast a single reader is.
const LONG_LATENCY_SECONDS: f64 = 200e-6;
/// No page cache is expected to keep more of a dataset.
const MOST_KEPT: f64 = 0.5;
/// A smaller spread of a measurement changes no answer.
const LEAST_SPREAD: f64 = 0.005;
/// A smaller part does not matter.
const LEAST_KEPT: f64 = 0.01;

/// The unknown fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RangeCause {
    /// Whether the page cache keeps a part of the dataset.
    PageCache,
    /// The time that the client adds to each step.
    Client,
    /// How fast a host reads.
    Host,
    /// How much of their data sheet drives reach.
    Drives,
    /// The latency of drives.
    Latency,
    /// How far the file system reads ahead.
    ReadAhead,
}

/// A request with one assumption changed.
#[derive(Debug, Clone)]
pub struct Variant {
    /// The unknown fact.
    pub cause: RangeCause,
    /// The changed assumption, to follow "if".
    pub assumption: String,
    /// The request.
    pub sizing: Sizing,
    /// The share of the simulated AU that is left.
    pub au_share: f64,
    /// About how many times as many accelerators are fed.
    pub expected: f64,
}

impl Variant {
    fn of(cause: RangeCause, assumption: String, sizing: &Sizing) -> Self {
        Self { cause, assumption, sizing: sizing.clone(), au_share: 1.0, expected: 1.0 }
    }
}

/// The variants of `sizing`, which is limited by `limit` on the hosts and dataset of `case`.
pub fn variants(
    sizing: &Sizing,
    case: &Case,
    limit: (LimitedBy, Option<StoragePart>),
) -> Vec<Variant> {
    let mut all = Vec::new();
    all.extend(client(sizing));
    all.extend(host(sizing, case.hosts));
    if sizing.storage.model.surface.is_none() {
        all.extend(read_ahead(sizing));
        if limit.0 == LimitedBy::Storage {
            all.extend(page_cache(sizing, case));
            all.extend(latency(sizing));
            all.push(drives(sizing));
        }
    } else if limit.0 == LimitedBy::Storage {
        all.extend(varied(sizing));
    }
    all
}

/// The threshold leaves a part of the time. Storage alone has all of it, and here the client.
fn client(sizing: &Sizing) -> Option<Variant> {
    let threshold = sizing.workload.metric.au;
    let left = match &sizing.asked.client_overhead {
        _ if sizing.knows_client() || threshold >= UNDELAYED_AU => return None,
        None => "if the client's own cost takes all the time that the threshold leaves",
        // Its cost on another host is not these hosts'.
        Some(Overhead::Of(Client::Dlio)) => {
            "if DLIO costs more here than where it was measured, and takes all the time that the \
             threshold leaves"
        }
        // Their cost is in the answer.
        Some(_) => return None,
    };
    let mut variant = Variant::of(RangeCause::Client, left.to_string(), sizing);
    variant.sizing.asked.set_host_rate(sizing.host_rate());
    variant.sizing.asked.client_overhead = Some(Overhead::Of(Client::None));
    variant.sizing.workload.metric.au = UNDELAYED_AU;
    variant.au_share = threshold / UNDELAYED_AU;
    variant.expected = variant.au_share;
    Some(variant)
}

/// Where drives or links have less than hosts read, the rate of hosts is no limit.
fn host(sizing: &Sizing, hosts: u32) -> Vec<Variant> {
    let is_given = sizing.asked.host_spec().read_bytes_per_second.is_some();
    let Some(usual) = sizing.host_rate().filter(|_| !is_given) else {
        return Vec::new();
    };
    let storage = sizing.storage.model.of_hosts(hosts);
    let of_drives = storage.read_bytes_per_second() / f64::from(hosts);
    let of_link = storage.link.map_or(f64::INFINITY, |link| link.bytes_per_second);
    let supplied = of_drives.min(of_link);
    let [slow, fast] = if storage.link.is_some() { NETWORK_HOSTS } else { LOCAL_HOSTS };
    let variant = |(times, word)| {
        let rate = usual * times;
        let size = ByteSize(rate as u64);
        let what = format!("if each host reads {size}/s, as the {word} published one");
        let mut variant = Variant::of(RangeCause::Host, what, sizing);
        variant.sizing.asked.set_host_rate(Some(rate));
        variant.expected = rate.min(supplied) / usual.min(supplied);
        variant
    };
    let ends = [(slow, "slowest"), (fast, "fastest")];
    ends.into_iter().filter(|(times, _)| supplied > usual * times.min(1.0)).map(variant).collect()
}

/// Runs in turn find the same part of the dataset in memory, which leaves the rest to storage.
fn page_cache(sizing: &Sizing, case: &Case) -> Option<Variant> {
    let storage = &sizing.storage.model;
    if sizing.is_uncached() || storage.cache_bytes.is_some() {
        return None;
    }
    let room = sizing.host_memory_bytes() as f64 * f64::from(case.hosts);
    let kept = (room / case.size.bytes.max(1) as f64).min(MOST_KEPT);
    if kept < LEAST_KEPT {
        return None;
    }
    let what = format!(
        "if page caches keep the {:.0} % of the dataset that hosts have room for",
        100.0 * kept
    );
    let mut variant = Variant::of(RangeCause::PageCache, what, sizing);
    variant.expected = 1.0 / (1.0 - kept);
    variant.sizing.storage.model.speed_up(variant.expected);
    Some(variant)
}

fn latency(sizing: &Sizing) -> Option<Variant> {
    let device = &sizing.storage.model.device;
    if device.latency_seconds > 0.0 {
        return None;
    }
    let what = format!("if reads have a latency of {}", format_duration(FLASH_LATENCY_SECONDS));
    let mut variant = Variant::of(RangeCause::Latency, what, sizing);
    variant.sizing.storage.model.device.latency_seconds = FLASH_LATENCY_SECONDS;
    Some(variant)
}

fn drives(sizing: &Sizing) -> Variant {
    let what = match sizing.storage.model.has_objects() {
        true => format!("if the store reaches {:.0} % of read=", 100.0 * REACHED_SHARE),
        false => format!("if drives reach {:.0} % of their figures", 100.0 * REACHED_SHARE),
    };
    let mut variant = Variant::of(RangeCause::Drives, what, sizing);
    let device = &mut variant.sizing.storage.model.device;
    device.read_bytes_per_second *= REACHED_SHARE;
    device.reads_per_second = device.reads_per_second.map(|rate| rate * REACHED_SHARE);
    variant.expected = REACHED_SHARE;
    variant
}

/// Measured storage, as slow and as fast as it was at times.
fn varied(sizing: &Sizing) -> Vec<Variant> {
    let spread = sizing.storage.spread;
    let ends = [(1.0 - spread, "slower"), (1.0 + spread, "faster")].into_iter();
    let variant = |(times, word)| {
        let percent = 100.0 * spread;
        let what = format!("if storage is {percent:.0} % {word}: its measurement varied by that");
        let mut variant = Variant::of(RangeCause::Drives, what, sizing);
        variant.sizing.storage.model.speed_up(times);
        variant.expected = times;
        variant
    };
    ends.filter(|_| spread > LEAST_SPREAD).map(variant).collect()
}

fn read_ahead(sizing: &Sizing) -> Option<Variant> {
    let storage = &sizing.storage.model;
    let is_long = storage.device.latency_seconds >= LONG_LATENCY_SECONDS;
    let bytes = match storage.link {
        Some(_) => LOCAL_READ_AHEAD_BYTES,
        None if is_long => NETWORK_READ_AHEAD_BYTES,
        None => return None,
    };
    if storage.read_ahead_bytes.is_some() || sizing.is_uncached() {
        return None;
    }
    let size = short_size(bytes);
    let what = format!("if the file system reads {size} ahead (readahead={size})");
    let mut variant = Variant::of(RangeCause::ReadAhead, what, sizing);
    variant.sizing.storage.model.read_ahead_bytes = Some(bytes);
    Some(variant)
}
