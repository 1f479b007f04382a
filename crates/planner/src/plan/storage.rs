//! Storage in figures: what its devices, the network before them and the page cache give.

use serde::{Deserialize, Serialize};

use super::parse::{typed_count, typed_rate};
use super::surface::Surface;
use stormlp_core::problem::Problems;
use stormlp_core::units::{ByteSize, KIB, MIB};

/// Bytes of a stripe on one device where nothing says how many: what `mdadm` makes by default.
pub const DEFAULT_STRIPE_BYTES: u64 = 512 * KIB;
/// Bytes that the kernel reads ahead of a program where nothing says how many: Linux's
/// `read_ahead_kb`.
pub const DEFAULT_READ_AHEAD_BYTES: u64 = 128 * KIB;
/// Devices in one stripe at most.
pub const MAX_DEVICES: u32 = 65_536;
/// Data sheets count operations of this size.
const SHEET_OPERATION_BYTES: f64 = 4096.0;
/// Operations of 4 KiB may seem to move more than the bandwidth by so much: figures are rounded.
const ROUNDING: f64 = 1.1;
/// No device takes an operation of more bytes at once.
const LARGEST_OPERATION_BYTES: f64 = (16 * MIB) as f64;

/// Storage as a simulation sees it. What [`Self::problems`] finds nothing wrong with is usable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StorageModel {
    /// Devices, all alike, over which every file is striped.
    pub devices: u32,
    /// What each of them gives.
    pub device: DeviceFigures,
    /// Bytes of a stripe on one device; `None` takes [`DEFAULT_STRIPE_BYTES`].
    pub stripe_bytes: Option<u64>,
    /// Bytes that the kernel asks devices for ahead of a program that reads through the page cache;
    /// 0 where requests reach them as they are made.
    pub read_ahead_bytes: u64,
    /// The network of each host; `None` where storage is local.
    pub link: Option<Link>,
    /// Page cache of each host that keeps files of the dataset; `None` keeps nothing.
    pub cache_bytes: Option<u64>,
    /// What was measured over transfer size and depth; it then stands for the whole storage.
    pub surface: Option<Surface>,
}

/// What one device gives.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DeviceFigures {
    /// Bytes that it reads in a second.
    pub read_bytes_per_second: f64,
    /// Bytes that it writes in a second, where that is known.
    pub write_bytes_per_second: Option<f64>,
    /// Reads of 4 KiB that it completes in a second; `None` where only bytes bound them.
    pub reads_per_second: Option<f64>,
    /// Writes of 4 KiB that it completes in a second; `None` where only bytes bound them.
    pub writes_per_second: Option<f64>,
    /// What a read takes besides its bytes.
    pub latency_seconds: f64,
    /// Requests that it serves at a time; `None` takes all.
    pub queue_depth: Option<u32>,
}

/// The network between one host and storage.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Bytes that come through it in a second.
    pub bytes_per_second: f64,
    /// What a request takes longer for it.
    pub round_trip_seconds: f64,
}

impl StorageModel {
    /// One device of so many bytes per second and nothing else that holds reads up.
    pub fn of_bandwidth(read_bytes_per_second: f64) -> Self {
        Self {
            devices: 1,
            device: DeviceFigures {
                read_bytes_per_second,
                write_bytes_per_second: None,
                reads_per_second: None,
                writes_per_second: None,
                latency_seconds: 0.0,
                queue_depth: None,
            },
            stripe_bytes: None,
            read_ahead_bytes: DEFAULT_READ_AHEAD_BYTES,
            link: None,
            cache_bytes: None,
            surface: None,
        }
    }

    /// Bytes that all devices read in a second.
    pub fn read_bytes_per_second(&self) -> f64 {
        self.device.read_bytes_per_second * f64::from(self.devices)
    }

    /// Bytes that all devices write in a second, where that is known.
    pub fn write_bytes_per_second(&self) -> Option<f64> {
        let of_one = self.device.write_bytes_per_second?;
        Some(of_one * f64::from(self.devices))
    }

    /// Bytes of a stripe on one device.
    pub fn stripe_bytes_or_default(&self) -> u64 {
        self.stripe_bytes.unwrap_or(DEFAULT_STRIPE_BYTES)
    }

    /// What is wrong with the figures: each alone, and two that contradict each other.
    pub fn problems(&self) -> Problems {
        let mut problems = Problems::default();
        if !(1..=MAX_DEVICES).contains(&self.devices) {
            problems.plan(
                format!("storage has {} devices", self.devices),
                format!("it must be 1 to {MAX_DEVICES}"),
            );
        }
        let device = &self.device;
        let link = self.link.as_ref();
        let above_zero = [
            ("read", Some(device.read_bytes_per_second)),
            ("write", device.write_bytes_per_second),
            ("iops", device.reads_per_second),
            ("write-iops", device.writes_per_second),
            ("queue", device.queue_depth.map(f64::from)),
            ("stripe", self.stripe_bytes.map(|bytes| bytes as f64)),
            ("link", link.map(|link| link.bytes_per_second)),
            ("cache", self.cache_bytes.map(|bytes| bytes as f64)),
        ];
        for (key, value) in above_zero {
            if value.is_some_and(|value| !(value.is_finite() && value > 0.0)) {
                problems.plan(
                    format!("storage: {key} is not above 0"),
                    format!("give {key} a value above 0, or leave it out"),
                );
            }
        }
        let times = [
            ("latency", Some(device.latency_seconds)),
            ("round-trip", link.map(|link| link.round_trip_seconds)),
        ];
        for (key, value) in times {
            if value.is_some_and(|value| !(value.is_finite() && value >= 0.0)) {
                problems.plan(format!("storage: {key} is no time"), "");
            }
        }
        if problems.is_empty() {
            device.contradictions(&mut problems);
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
                format!("operations of 4 KiB would move {}/s", shown(moved))
            } else if needed > LARGEST_OPERATION_BYTES {
                format!("that takes operations of {} each", shown(needed))
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
                    "both are of one device, {rate_key} in operations of 4 KiB as data sheets \
                     count them: correct one, or leave {rate_key} out"
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
    fn figures_of_data_sheets_agree_and_impossible_ones_do_not() {
        // A fast drive, a dense one, a SATA drive, a hard disk.
        for (bandwidth, rate) in [(14.5e9, 2.8e6), (7e9, 1.005e6), (550e6, 98e3), (270e6, 170.0)] {
            assert!(with_rate(bandwidth, rate).is_empty(), "{bandwidth} {rate}");
        }
        let over = with_rate(1e9, 10e6).to_string();
        assert!(over.contains("would move 38.15 GiB/s"), "{over}");
        let under = with_rate(14.5e9, 100.0).to_string();
        assert!(under.contains("operations of 138.28 MiB each"), "{under}");
    }

    #[test]
    fn what_is_not_above_zero_is_named_by_its_key() {
        let mut storage = StorageModel::of_bandwidth(0.0);
        storage.cache_bytes = Some(0);
        storage.device.latency_seconds = -1.0;
        let told = storage.problems().to_string();
        for key in ["read is", "cache is", "latency is"] {
            assert!(told.contains(key), "{told}");
        }
        storage.devices = 0;
        assert!(storage.problems().to_string().contains("0 devices"));
    }
}
