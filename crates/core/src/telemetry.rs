//! Telemetry of a run: its devices, host, network and GPUs.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};
use strum::{EnumIter, IntoStaticStr};

use crate::units::parse_duration;

/// A shorter interval would cost a visible part of a CPU.
const SHORTEST: Duration = Duration::from_millis(10);
/// Samples more than a minute apart are not informative.
const LONGEST: Duration = Duration::from_secs(60);
/// The default telemetry interval.
const USUAL: Duration = Duration::from_millis(100);

/// The telemetry interval. Saved as seconds, or null.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Option<f64>", into = "Option<f64>")]
pub enum Telemetry {
    /// No telemetry; bytes, transfers in flight and the process's CPU time are still recorded.
    Off,
    /// Sample at this interval.
    Every(Duration),
}

impl Telemetry {
    /// Disables telemetry.
    pub fn off() -> Self {
        Self::Off
    }

    /// Initial interval length of a series.
    pub fn interval(self) -> Duration {
        match self {
            Self::Off => USUAL,
            Self::Every(interval) => interval,
        }
    }

    /// Initial interval length for work that may end quickly, such as a save: down to an eighth of
    /// the normal length, so that short work has a time series too.
    pub fn first_interval(self) -> Duration {
        let halves = |interval: &Duration| Some(*interval / 2).filter(|half| *half >= SHORTEST);
        std::iter::successors(Some(self.interval()), halves).take(4).last().unwrap_or(USUAL)
    }

    /// How long the sampler may sleep: progress and Ctrl-C do not wait for a long telemetry
    /// interval.
    pub fn tick(self) -> Duration {
        self.interval().min(USUAL)
    }
}

impl Default for Telemetry {
    fn default() -> Self {
        Self::Every(USUAL)
    }
}

impl From<Option<f64>> for Telemetry {
    fn from(seconds: Option<f64>) -> Self {
        let interval = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        interval.map_or(Self::Off, |interval| Self::Every(interval.clamp(SHORTEST, LONGEST)))
    }
}

impl From<Telemetry> for Option<f64> {
    fn from(telemetry: Telemetry) -> Self {
        match telemetry {
            Telemetry::Off => None,
            Telemetry::Every(interval) => Some(interval.as_secs_f64()),
        }
    }
}

impl FromStr for Telemetry {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let interval = parse_duration(text)
            .map_err(|error| format!("{error}; use an interval such as 100ms, or `off`"))?;
        if (SHORTEST..=LONGEST).contains(&interval) {
            Ok(Self::Every(interval))
        } else {
            Err("the telemetry interval must be 10ms to 60s; `off` disables it".to_string())
        }
    }
}

impl fmt::Display for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Every(interval) => write!(f, "every {} ms", interval.as_millis()),
        }
    }
}

/// The quantity of a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, EnumIter, IntoStaticStr)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Measure {
    /// Bytes that a block device read.
    DeviceReadBytes,
    /// Reads completed by a block device, after merging by the kernel.
    DeviceReads,
    /// Bytes that a block device wrote.
    DeviceWrittenBytes,
    /// Writes completed by a block device, after merging by the kernel.
    DeviceWrites,
    /// Utilisation of a block device, 0 to 1: share of the interval with requests in flight. On a
    /// device that serves many requests at once, 1 does not mean saturation.
    DeviceBusyShare,
    /// Time-weighted mean of the requests in flight at a block device.
    DeviceInFlight,
    /// Seconds that the reads completed by a block device took, summed over all of them: divided by
    /// their number, their mean latency.
    DeviceReadSeconds,
    /// The same of its writes.
    DeviceWriteSeconds,
    /// CPU seconds of the whole host, excluding idle and I/O wait time.
    HostCpuSeconds,
    /// Memory available to programs in bytes, at the end of the interval.
    MemoryAvailableBytes,
    /// Bytes in the host's page cache, at the end of the interval.
    PageCacheBytes,
    /// Use of a limit of the control group: share of a device's rate, or of the time in which the
    /// CPU quota was exhausted.
    LimitUsedShare,
    /// Bytes received by a network interface or an RDMA port.
    NetworkReceivedBytes,
    /// Bytes sent by a network interface or an RDMA port.
    NetworkSentBytes,
    /// GPU utilisation, 0 to 1: share of the last sample period in which a kernel was running.
    GpuBusyShare,
    /// Bytes received by a GPU over PCIe.
    PcieReceivedBytes,
    /// Bytes sent by a GPU over PCIe.
    PcieSentBytes,
    /// Data bytes received by a GPU over NVLink.
    NvlinkReceivedBytes,
    /// Data bytes sent by a GPU over NVLink.
    NvlinkSentBytes,
}

/// How an interval's value is derived from the readings at its two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// A cumulative count: the difference.
    Count,
    /// A cumulative count of seconds: the difference per elapsed second.
    Seconds,
    /// A gauge: the reading at the end.
    Level,
}

impl Measure {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The maximum value. Devices count time in kernel ticks that are not aligned with the samples,
    /// so a short interval may appear more than fully used.
    pub fn most(self) -> f64 {
        match self {
            Self::DeviceBusyShare | Self::GpuBusyShare => 1.0,
            _ => f64::INFINITY,
        }
    }

    /// How its values are derived.
    pub fn reading(self) -> Reading {
        match self {
            Self::DeviceBusyShare | Self::DeviceInFlight | Self::LimitUsedShare => Reading::Seconds,
            Self::MemoryAvailableBytes | Self::PageCacheBytes | Self::GpuBusyShare => {
                Reading::Level
            }
            _ => Reading::Count,
        }
    }
}

/// A measured quantity, with a value for each interval of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Track {
    /// The quantity.
    pub measure: Measure,
    /// The object measured: `nvme0n1`, `eth0`, `cuda:0`, `host`.
    pub of: String,
    /// One value per interval; NaN, saved as null, where a gauge was not read.
    #[serde(deserialize_with = "nulls_as_nan")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Option<f64>>"))]
    pub values: Vec<f64>,
}

fn nulls_as_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
    let values = Vec::<Option<f64>>::deserialize(deserializer)?;
    Ok(values.into_iter().map(|value| value.unwrap_or(f64::NAN)).collect())
}

/// The load a run put on its storage, per transfer: counted, not sampled.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Load {
    /// Transfers by the total queue depth of all threads at submission; depths that did not occur
    /// are omitted, and depths above 1024 are counted as 1024.
    pub depths: Vec<DepthCount>,
    /// Transfers by size, in powers of two.
    pub sizes: Vec<SizeCount>,
}

/// Transfers submitted at one queue depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DepthCount {
    /// Transfers in flight after the submission, including the transfer itself.
    pub depth: u32,
    /// The number of transfers.
    pub transfers: u64,
}

/// Transfers of sizes up to a power of two and above half of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SizeCount {
    /// The power of two, in bytes.
    pub up_to_bytes: u64,
    /// The number of transfers.
    pub transfers: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_parts_begin_with_an_eighth_of_the_interval() {
        let first = |ms| Telemetry::Every(Duration::from_millis(ms)).first_interval();
        assert_eq!(first(100), Duration::from_micros(12_500));
        assert_eq!(first(30), Duration::from_millis(15));
        assert_eq!(first(10), Duration::from_millis(10));
        assert_eq!(Telemetry::Off.first_interval(), first(100));
    }

    #[test]
    fn unread_values_are_saved_as_null() {
        let track = Track {
            measure: Measure::GpuBusyShare,
            of: "cuda:0".to_string(),
            values: vec![f64::NAN, 0.5],
        };
        let saved = serde_json::to_string(&track).unwrap();
        assert!(saved.ends_with(r#""values":[null,0.5]}"#), "{saved}");
        let read: Track = serde_json::from_str(&saved).unwrap();
        assert!(read.values[0].is_nan() && read.values[1] == 0.5);
    }

    #[test]
    fn an_interval_is_read_within_its_bounds() {
        assert_eq!("off".parse(), Ok(Telemetry::Off));
        let every = |ms| Ok(Telemetry::Every(Duration::from_millis(ms)));
        assert_eq!("250ms".parse(), every(250));
        assert_eq!("10ms".parse(), every(10));
        for wrong in ["9ms", "61s", "0s", "often", "", "-1s"] {
            let refused = wrong.parse::<Telemetry>().unwrap_err();
            assert!(refused.contains("off"), "{wrong}: {refused}");
        }
    }
}
