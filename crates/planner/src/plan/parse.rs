//! The syntax of `--storage`: `4x:read=550MB/s,latency=100us,stripe=128K`.
//!
//! An optional number of devices (`4x:` in all, `4x/host:` in each host), an optional preset name, then KEY=VALUE pairs:
//!
//! | key | value | per |
//! |---|---|---|
//! | `read`, `write` | bytes per second, `14.5GB/s` | one device |
//! | `iops`, `write-iops` | operations of 4 KiB per second, `2.8M` | one device |
//! | `latency` | latency of a read, `80us` | one device |
//! | `queue` | requests served at a time | one device |
//! | `stripe` | stripe size, `128K` | array |
//! | `link` | network bandwidth in bytes per second, `25GB/s` | host |
//! | `round-trip` | network round-trip time, `50us` | host |
//! | `connection` | bandwidth of a connection to an object store, `90MB/s` | connection |
//! | `connections` | number of such connections | host |
//! | `readahead` | kernel read-ahead, 0 for none, `128K` | host |
//! | `cache` | page cache for the dataset, `200GiB` | host |

use std::fmt;
use std::str::FromStr;

use super::presets;
use super::storage::{Connections, Link, MAX_DEVICES, StorageModel};
use super::typed::{typed_count, typed_rate, typed_time};
use stormlp_core::failure::Problems;
use stormlp_core::names::nearest;
use stormlp_core::printable::printable;
use stormlp_core::units::{ByteSize, parse_duration, parse_rate, short_size};

/// The place of a figure in a model, by the kind of its value.
enum Slot<'a> {
    Rate(&'a mut f64),
    Seconds(&'a mut f64),
    MaybeRate(&'a mut Option<f64>),
    Operations(&'a mut Option<f64>),
    Count(&'a mut Option<u32>),
    /// So many bytes at least.
    Bytes(&'a mut Option<u64>, u64),
}

/// The place of a key in a model of storage.
type SlotOf = fn(&mut StorageModel) -> Slot<'_>;

const KEYS: [(&str, SlotOf); 13] = [
    ("read", |all| Slot::Rate(&mut all.device.read_bytes_per_second)),
    ("write", |all| Slot::MaybeRate(&mut all.device.write_bytes_per_second)),
    ("iops", |all| Slot::Operations(&mut all.device.reads_per_second)),
    ("write-iops", |all| Slot::Operations(&mut all.device.writes_per_second)),
    ("latency", |all| Slot::Seconds(&mut all.device.latency_seconds)),
    ("queue", |all| Slot::Count(&mut all.device.queue_depth)),
    ("stripe", |all| Slot::Bytes(&mut all.stripe_bytes, LEAST_STRIPE_BYTES)),
    ("readahead", |all| Slot::Bytes(&mut all.read_ahead_bytes, 0)),
    ("link", |all| Slot::Rate(&mut link(all).bytes_per_second)),
    ("round-trip", |all| Slot::Seconds(&mut link(all).round_trip_seconds)),
    ("connection", |all| Slot::Rate(&mut connections(all).bytes_per_second)),
    ("connections", |all| Slot::Count(&mut connections(all).number)),
    ("cache", |all| Slot::Bytes(&mut all.cache_bytes, 1)),
];

impl Slot<'_> {
    fn set(self, value: &str) -> Result<(), String> {
        match self {
            Self::Rate(slot) => *slot = rate(value)?,
            Self::Seconds(slot) => *slot = seconds(value)?,
            Self::MaybeRate(slot) => *slot = Some(rate(value)?),
            Self::Operations(slot) => *slot = Some(operations(value)?),
            Self::Count(slot) => *slot = Some(whole(value)?),
            Self::Bytes(slot, least) => *slot = Some(size(value, least)?),
        }
        Ok(())
    }

    /// The value as it would be typed, if there is one.
    fn shown(self) -> Option<String> {
        match self {
            Self::Rate(slot) => (*slot > 0.0).then(|| typed_rate(*slot)),
            Self::Seconds(slot) => typed_time(*slot),
            Self::MaybeRate(slot) => slot.map(typed_rate),
            Self::Operations(slot) => slot.map(typed_count),
            Self::Count(slot) => slot.map(|count| count.to_string()),
            Self::Bytes(slot, _) => slot.map(short_size),
        }
    }
}

fn link(storage: &mut StorageModel) -> &mut Link {
    storage.link.get_or_insert(Link { bytes_per_second: 0.0, round_trip_seconds: 0.0 })
}

fn connections(storage: &mut StorageModel) -> &mut Connections {
    storage.connections.get_or_insert(Connections { bytes_per_second: 0.0, number: None })
}

/// Largest value of any key: 1 PB or 1 PB/s.
const MOST: f64 = 1e15;
/// Smallest stripe of any file system.
const LEAST_STRIPE_BYTES: u64 = 4096;
/// Longest latency accepted.
const LONGEST_SECONDS: f64 = 60.0;

impl FromStr for StorageModel {
    type Err = Problems;

    fn from_str(text: &str) -> Result<Self, Problems> {
        let mut reader = Reader { text, seen: Vec::new(), problems: Problems::default() };
        let (devices, is_per_host, rest) = reader.devices();
        let mut parts = rest.split(',').map(str::trim).peekable();
        let preset = parts.next_if(|first| !first.is_empty() && !first.contains('='));
        let mut storage = match preset {
            None => StorageModel::of_bandwidth(0.0),
            Some(name) => presets::find(name)?.storage,
        };
        for part in parts {
            reader.part(part, &mut storage);
        }
        (storage.devices, storage.is_per_host) = (devices, is_per_host);
        reader.check(preset.is_some(), &storage);
        reader.problems.or(())?;
        storage.problems().or(storage)
    }
}

/// The number before `x:` or `x/host:`, whether it is of each host, and the text after it.
pub(super) fn counted_devices(text: &str) -> Option<(&str, bool, &str)> {
    let of_all = text.split_once("x:").map(|(count, rest)| (count, false, rest));
    of_all.or_else(|| text.split_once("x/host:").map(|(count, rest)| (count, true, rest)))
}

struct Reader<'a> {
    text: &'a str,
    /// Keys given so far.
    seen: Vec<&'a str>,
    problems: Problems,
}

impl<'a> Reader<'a> {
    /// The number of devices, whether each host has as many, and the rest of the text.
    fn devices(&mut self) -> (u32, bool, &'a str) {
        let Some((count, is_per_host, rest)) = counted_devices(self.text) else {
            return (1, false, self.text);
        };
        let count = count.trim();
        match count.parse() {
            Ok(devices) if (1..=MAX_DEVICES).contains(&devices) => (devices, is_per_host, rest),
            _ => {
                let at = self.place(count);
                let message = format!("{at}: `{}` is not a number of devices", printable(count));
                let help = format!("put a number from 1 to {MAX_DEVICES} before `x:`, as in 4x:");
                self.problems.plan(message, help);
                (1, is_per_host, rest)
            }
        }
    }

    /// The position of `part`, a slice of the text, for messages.
    fn place(&self, part: &str) -> String {
        let offset = (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        let before = self.text.get(..offset).unwrap_or_default();
        format!("--storage, character {}", before.chars().count() + 1)
    }

    fn part(&mut self, part: &'a str, storage: &mut StorageModel) {
        let at = self.place(part);
        let shown = printable(part);
        let Some((key, value)) = part.split_once('=') else {
            let message = match part {
                "" => format!("{at}: empty item"),
                _ => format!("{at}: `{shown}` is not KEY=VALUE"),
            };
            return self.problems.plan(message, USAGE);
        };
        let (key, value) = (key.trim(), value.trim());
        let Some((known, slot)) = KEYS.iter().find(|(known, _)| *known == key) else {
            let meant = nearest(key, KEYS.iter().map(|(known, _)| *known))
                .map_or(String::new(), |name| format!("; did you mean `{name}`?"));
            let message = format!("{at}: `{}` is not a storage key{meant}", printable(key));
            return self.problems.plan(message, USAGE);
        };
        if self.seen.contains(known) {
            let message = format!("{at}: duplicate key {known}");
            return self.problems.plan(message, "remove one of them");
        }
        self.seen.push(known);
        if let Err(why) = slot(storage).set(value) {
            let message = format!("{at}: {known}={}: {why}", printable(value));
            self.problems.plan(message, USAGE);
        }
    }

    /// Checks for required keys, and keys that need further keys.
    fn check(&mut self, of_preset: bool, storage: &StorageModel) {
        let has = |key: &str| self.seen.contains(&key);
        let has_link = storage.link.is_none_or(|link| link.bytes_per_second > 0.0);
        for (is_wrong, fact, remedy) in [
            (
                !of_preset && !has("read"),
                "read bandwidth is missing",
                "set e.g. read=14.5GB/s, or use a preset (`stormlp plan --storage list`)",
            ),
            (
                has("stripe") && storage.devices == 1,
                "stripe has no effect with one device",
                "put the number of devices first, as in 4x:read=550MB/s,stripe=128K, or remove stripe",
            ),
            (
                storage.connections.is_some() && !has("latency"),
                "the latency of the object store is missing",
                "set its time to first byte, e.g. latency=20ms (`stormlp gds --dir s3://…` measures it)",
            ),
            (
                has("connections") && !has("connection"),
                "connections needs connection",
                "set the bandwidth of one connection, too, e.g. connection=90MB/s",
            ),
            (
                has("round-trip") && !has_link,
                "round-trip needs link",
                "set the network bandwidth, too, e.g. link=25GB/s, or add the time to latency",
            ),
        ] {
            if is_wrong {
                self.problems.plan(format!("--storage: {fact}"), remedy);
            }
        }
    }
}

/// Examples of the syntax.
const USAGE: &str = "examples: read=14.5GB/s,write=10GB/s,iops=2.8M,latency=80us,queue=1024, \
                     4x:read=550MB/s,stripe=128K for four devices, link=25GB/s,round-trip=50us for \
                     a network, cache=200GiB for a page cache, \
                     read=40GB/s,latency=20ms,connection=90MB/s,connections=64 for an object store";

fn whole(value: &str) -> Result<u32, String> {
    let number = value.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "expected a whole number above 0".to_string())
}

/// A size of so many bytes at least.
fn size(value: &str, least: u64) -> Result<u64, String> {
    let size = value.parse::<ByteSize>().map_err(|error| error.to_string())?;
    match size.bytes() {
        0 if least > 0 => Err("must be above 0".to_string()),
        bytes if bytes < least => Err(format!("must be at least {}", short_size(least))),
        bytes if bytes as f64 > MOST => Err("too large".to_string()),
        bytes => Ok(bytes),
    }
}

/// Bytes per second.
fn rate(value: &str) -> Result<f64, String> {
    match parse_rate(value)? {
        rate if rate > MOST => Err("too large".to_string()),
        rate => Ok(rate),
    }
}

/// Operations per second: `2.8M`, `98K`, `170`.
fn operations(value: &str) -> Result<f64, String> {
    let (number, factor) = match value.strip_suffix(['K', 'k']) {
        Some(number) => (number, 1e3),
        None => value.strip_suffix('M').map_or((value, 1.0), |number| (number, 1e6)),
    };
    let is_plain = number.chars().all(|c| c.is_ascii_digit() || c == '.');
    let count = number.parse::<f64>().ok().filter(|_| is_plain);
    let count = count.map(|count| (count * factor).round());
    match count {
        None => Err("expected a number such as 98K or 2.8M".to_string()),
        Some(count) if count < 1.0 => Err("must be at least 1".to_string()),
        Some(count) if count > MOST => Err("too large".to_string()),
        Some(count) => Ok(count),
    }
}

fn seconds(value: &str) -> Result<f64, String> {
    let time = parse_duration(value).map_err(|error| error.to_string())?.as_secs_f64();
    match value.ends_with(|c: char| c.is_ascii_digit()) && time > 0.0 {
        true => Err("missing unit: us, ms or s".to_string()),
        false if time == 0.0 => Err("must be above 0, or omitted".to_string()),
        false if time > LONGEST_SECONDS => Err("must be at most a minute".to_string()),
        false => Ok(time),
    }
}

/// Prints the figures in the syntax of `--storage`, unless they were measured.
impl fmt::Display for StorageModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = &self.device;
        if self.surface.is_some() {
            let rate = typed_rate((device.read_bytes_per_second / 1e6).round() * 1e6);
            return write!(f, "measured, reads up to {rate}");
        }
        if self.is_per_host {
            write!(f, "{}x/host:", self.devices)?;
        } else if self.devices != 1 {
            write!(f, "{}x:", self.devices)?;
        }
        let mut figures = self.clone();
        let parts = KEYS
            .iter()
            .filter_map(|(key, slot)| Some(format!("{key}={}", slot(&mut figures).shown()?)));
        f.write_str(&parts.collect::<Vec<String>>().join(","))
    }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
#[allow(clippy::unwrap_used)]
mod tests;
