//! The storage model: figures of devices, network and page cache.

use serde::{Deserialize, Serialize};

use super::surface::Surface;
use super::typed::{typed_count, typed_rate};
use stormlp_core::failure::Problems;
use stormlp_core::units::{ByteSize, KIB, MIB};

/// Default stripe size, as in `mdadm`.
pub const DEFAULT_STRIPE_BYTES: u64 = 512 * KIB;
/// Default kernel read-ahead of local drives: Linux's default `read_ahead_kb`.
pub const LOCAL_READ_AHEAD_BYTES: u64 = 128 * KIB;
/// Default read-ahead over a network, where clients of parallel file systems read further ahead.
pub const NETWORK_READ_AHEAD_BYTES: u64 = 4 * MIB;
/// Largest number of devices.
pub const MAX_DEVICES: u32 = 65_536;
/// Operation size of data sheets' IOPS.
const SHEET_OPERATION_BYTES: f64 = 4096.0;
/// IOPS times 4 KiB may exceed the bandwidth by this factor, as figures are rounded.
const ROUNDING: f64 = 1.1;
/// Largest operation of any device.
const LARGEST_OPERATION_BYTES: f64 = (16 * MIB) as f64;

/// The simulated storage. Valid if [`Self::problems`] is empty.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StorageModel {
    /// Number of identical devices, over which all files are striped.
    pub devices: u32,
    /// Whether each host has so many devices, with the files that it reads. Otherwise all hosts
    /// share them.
    pub is_per_host: bool,
    /// Figures of one device.
    pub device: DeviceFigures,
    /// Stripe size; [`DEFAULT_STRIPE_BYTES`] if `None`.
    pub stripe_bytes: Option<u64>,
    /// Kernel read-ahead for reads through the page cache; 0 if requests reach devices unchanged,
    /// [`Self::read_ahead_bytes_or_default`] if `None`.
    pub read_ahead_bytes: Option<u64>,
    /// Network of each host; `None` if storage is local.
    pub link: Option<Link>,
    /// Connections of each host to an object store; `None` for storage of files.
    #[serde(default)]
    pub connections: Option<Connections>,
    /// Page cache of each host for the dataset, if any.
    pub cache_bytes: Option<u64>,
    /// Measured throughput and latency; replaces the figures above.
    pub surface: Option<Surface>,
    /// Whether objects were measured.
    #[serde(default)]
    pub measured_objects: bool,
}

/// Figures of one device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DeviceFigures {
    /// Read bandwidth.
    pub read_bytes_per_second: f64,
    /// Write bandwidth, if known.
    pub write_bytes_per_second: Option<f64>,
    /// 4 KiB reads per second; `None` if limited by bandwidth only.
    pub reads_per_second: Option<f64>,
    /// 4 KiB writes per second; `None` if limited by bandwidth only.
    pub writes_per_second: Option<f64>,
    /// Latency of a read.
    pub latency_seconds: f64,
    /// Requests served at a time; `None` for no limit.
    pub queue_depth: Option<u32>,
}

/// The network between one host and storage.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Bandwidth.
    pub bytes_per_second: f64,
    /// Round-trip time added to each request.
    pub round_trip_seconds: f64,
}

/// The connections of one host to an object store. A request occupies one of them until its last
/// byte.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Connections {
    /// Bandwidth of one.
    pub bytes_per_second: f64,
    /// Their number; as many as are wanted if `None`.
    pub number: Option<u32>,
}

impl StorageModel {
    /// One device limited only by its read bandwidth.
    pub fn of_bandwidth(read_bytes_per_second: f64) -> Self {
        Self {
            devices: 1,
            is_per_host: false,
            device: DeviceFigures {
                read_bytes_per_second,
                write_bytes_per_second: None,
                reads_per_second: None,
                writes_per_second: None,
                latency_seconds: 0.0,
                queue_depth: None,
            },
            stripe_bytes: None,
            read_ahead_bytes: None,
            link: None,
            connections: None,
            cache_bytes: None,
            surface: None,
            measured_objects: false,
        }
    }

    /// Whether it is an object store.
    pub fn has_objects(&self) -> bool {
        self.connections.is_some() || self.measured_objects
    }

    /// Read bandwidth of all devices.
    pub fn read_bytes_per_second(&self) -> f64 {
        self.device.read_bytes_per_second * f64::from(self.devices)
    }

    /// Write bandwidth of all devices, if known.
    pub fn write_bytes_per_second(&self) -> Option<f64> {
        let of_one = self.device.write_bytes_per_second?;
        Some(of_one * f64::from(self.devices))
    }

    /// Makes drives and network `times` as fast.
    pub fn speed_up(&mut self, times: f64) {
        let device = &mut self.device;
        device.read_bytes_per_second *= times;
        device.reads_per_second = device.reads_per_second.map(|rate| rate * times);
        device.latency_seconds /= times;
        if let Some(link) = &mut self.link {
            link.bytes_per_second *= times;
            link.round_trip_seconds /= times;
        }
        if let Some(connections) = &mut self.connections {
            connections.bytes_per_second *= times;
        }
        if let Some(surface) = &mut self.surface {
            surface.speed_up(times);
        }
    }

    /// All drives that `hosts` read from.
    pub fn of_hosts(&self, hosts: u32) -> Self {
        let times = if self.is_per_host { hosts.max(1) } else { 1 };
        Self { devices: self.devices.saturating_mul(times), ..self.clone() }
    }

    /// The stripe size or its default.
    pub fn stripe_bytes_or_default(&self) -> u64 {
        self.stripe_bytes.unwrap_or(DEFAULT_STRIPE_BYTES)
    }

    /// The read-ahead, or its default: [`NETWORK_READ_AHEAD_BYTES`] behind a link, else
    /// [`LOCAL_READ_AHEAD_BYTES`].
    pub fn read_ahead_bytes_or_default(&self) -> u64 {
        self.read_ahead_bytes.unwrap_or(match self.link {
            Some(_) => NETWORK_READ_AHEAD_BYTES,
            None => LOCAL_READ_AHEAD_BYTES,
        })
    }

    /// Figures that contradict each other.
    pub fn problems(&self) -> Problems {
        let mut problems = Problems::default();
        if self.is_per_host && self.link.is_some() {
            problems.plan(
                "storage: link= is the network to drives that all hosts share, and Nx/host: are drives \
                 inside each host",
                "remove link, or put Nx: before the drive",
            );
        }
        if self.connections.is_some() {
            let of_files = [
                ("stripe", self.stripe_bytes.is_some()),
                ("readahead", self.read_ahead_bytes.is_some()),
                ("cache", self.cache_bytes.is_some()),
                ("Nx/host:", self.is_per_host),
            ];
            for (key, _) in of_files.into_iter().filter(|(_, is_given)| *is_given) {
                problems.plan(
                    format!("storage: connection= is of an object store, and {key} of files"),
                    format!("remove {key}, or connection and connections"),
                );
            }
        }
        if problems.is_empty() {
            self.device.contradictions(&mut problems);
        }
        problems
    }
}

impl DeviceFigures {
    fn contradictions(&self, problems: &mut Problems) {
        let directions = [
            (("read", "iops"), Some(self.read_bytes_per_second), self.reads_per_second),
            (("write", "write-iops"), self.write_bytes_per_second, self.writes_per_second),
        ];
        for ((bandwidth_key, rate_key), bandwidth, rate) in directions {
            let (Some(bandwidth), Some(rate)) = (bandwidth, rate) else {
                continue;
            };
            let moved = rate * SHEET_OPERATION_BYTES;
            let needed = bandwidth / rate;
            let what = if moved > bandwidth * ROUNDING {
                format!("4 KiB operations would move {}/s", shown(moved))
            } else if needed > LARGEST_OPERATION_BYTES {
                format!("that implies operations of {} each", shown(needed))
            } else {
                continue;
            };
            problems.plan(
                format!(
                    "storage: {rate_key}={} and {bandwidth_key}={} contradict each other: {what}",
                    typed_count(rate),
                    typed_rate(bandwidth)
                ),
                format!(
                    "both are per device, {rate_key} in 4 KiB operations as in data sheets: correct \
                     one of them, or remove {rate_key}"
                ),
            );
        }
    }
}

fn shown(bytes: f64) -> ByteSize {
    ByteSize(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_rate(bandwidth: f64, rate: f64) -> Problems {
        let mut storage = StorageModel::of_bandwidth(bandwidth);
        storage.device.reads_per_second = Some(rate);
        storage.problems()
    }

    #[test]
    fn data_sheet_figures_are_valid_and_impossible_ones_are_not() {
        // A fast drive, a dense one, a SATA drive, a hard disk.
        for (bandwidth, rate) in [(14.5e9, 2.8e6), (7e9, 1.005e6), (550e6, 98e3), (270e6, 170.0)] {
            assert!(with_rate(bandwidth, rate).is_empty(), "{bandwidth} {rate}");
        }
        let over = with_rate(1e9, 10e6).to_string();
        assert!(over.contains("would move 38.15 GiB/s"), "{over}");
        let under = with_rate(14.5e9, 100.0).to_string();
        assert!(under.contains("operations of 138.28 MiB each"), "{under}");
    }
}
