//! What is looked at while a run goes on: its devices, its host, its network, its GPUs.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};
use strum::{EnumIter, IntoStaticStr};

use crate::units::parse_duration;

/// Looks less far apart than this would cost a visible part of a CPU.
const SHORTEST: Duration = Duration::from_millis(10);
/// A minute without a look says nothing about a run.
const LONGEST: Duration = Duration::from_secs(60);
/// How far looks are apart when nothing is said.
const USUAL: Duration = Duration::from_millis(100);

/// How often a run looks at what is around it. Saved as seconds, or null.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Option<f64>", into = "Option<f64>")]
pub enum Telemetry {
    /// Never: bytes, transfers in flight and CPU time of the process are followed all the same.
    Off,
    /// Every so often.
    Every(Duration),
}

impl Telemetry {
    /// Nothing is looked at.
    pub fn off() -> Self {
        Self::Off
    }

    /// Length of the intervals of a series to begin with.
    pub fn interval(self) -> Duration {
        match self {
            Self::Off => USUAL,
            Self::Every(interval) => interval,
        }
    }

    /// Length of the first intervals of what may be over at once, as a save: up to an eighth of the
    /// others, so that a short one has a course, too.
    pub fn first_interval(self) -> Duration {
        let mut interval = self.interval();
        for _ in 0..3 {
            if interval / 2 >= SHORTEST {
                interval /= 2;
            }
        }
        interval
    }

    /// How long whoever looks may sleep: progress and Ctrl-C do not wait for a distant look.
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
            .map_err(|error| format!("{error}; an interval such as 100ms, or `off`"))?;
        if (SHORTEST..=LONGEST).contains(&interval) {
            Ok(Self::Every(interval))
        } else {
            Err("an interval is between 10ms and 60s; `off` looks at nothing".to_string())
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

/// What a track follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, EnumIter, IntoStaticStr)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Measure {
    /// Bytes that a block device read.
    DeviceReadBytes,
    /// Reads that a block device completed, after the kernel merged them.
    DeviceReads,
    /// Bytes that a block device wrote.
    DeviceWrittenBytes,
    /// Writes that a block device completed, after the kernel merged them.
    DeviceWrites,
    /// Share of the interval in which a block device had something in flight, 0 to 1. On a device
    /// that serves many requests at once 1 does not mean that it can do no more.
    DeviceBusyShare,
    /// Requests in flight at a block device, as their mean over the interval's time.
    DeviceInFlight,
    /// CPU seconds of the whole host, idle and waiting time excluded.
    HostCpuSeconds,
    /// Bytes of memory that programs could still have, at the end of the interval.
    MemoryAvailableBytes,
    /// Bytes in the host's page cache, at the end of the interval.
    PageCacheBytes,
    /// Share of the data in the page cache, 0 to 1, at the end of the interval: of up to 64 files,
    /// evenly spread.
    DataCachedShare,
    /// Bytes that a network interface or a port of an RDMA adapter received.
    NetworkReceivedBytes,
    /// Bytes that a network interface or a port of an RDMA adapter sent.
    NetworkSentBytes,
    /// Share of a GPU's last sample period in which a kernel ran on it, 0 to 1.
    GpuBusyShare,
    /// Bytes that a GPU received over PCIe.
    PcieReceivedBytes,
    /// Bytes that a GPU sent over PCIe.
    PcieSentBytes,
    /// Bytes of data that a GPU received over NVLink.
    NvlinkReceivedBytes,
    /// Bytes of data that a GPU sent over NVLink.
    NvlinkSentBytes,
}

/// How a value of an interval comes from what is read at its two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// A count since some start: the difference.
    Count,
    /// A count of seconds since some start: the difference for each second that passed.
    Seconds,
    /// A level: what it was at the end.
    Level,
}

impl Measure {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The most that a value can be. Devices count time in their kernel's ticks and looks do not
    /// come in step with them, so that a short interval may seem to hold more than all of its time.
    pub fn most(self) -> f64 {
        match self {
            Self::DeviceBusyShare | Self::GpuBusyShare | Self::DataCachedShare => 1.0,
            _ => f64::INFINITY,
        }
    }

    /// How its values come about.
    pub fn reading(self) -> Reading {
        match self {
            Self::DeviceReadBytes
            | Self::DeviceReads
            | Self::DeviceWrittenBytes
            | Self::DeviceWrites
            | Self::HostCpuSeconds
            | Self::NetworkReceivedBytes
            | Self::NetworkSentBytes
            | Self::PcieReceivedBytes
            | Self::PcieSentBytes
            | Self::NvlinkReceivedBytes
            | Self::NvlinkSentBytes => Reading::Count,
            Self::DeviceBusyShare | Self::DeviceInFlight => Reading::Seconds,
            Self::MemoryAvailableBytes
            | Self::PageCacheBytes
            | Self::DataCachedShare
            | Self::GpuBusyShare => Reading::Level,
        }
    }
}

/// One number that was followed, for each interval of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Track {
    /// What was followed.
    pub measure: Measure,
    /// Of what: `nvme0n1`, `eth0`, `cuda:0`, `host`.
    pub of: String,
    /// A value for each interval; not a number, and saved as null, where a level was not read.
    #[serde(deserialize_with = "nulls_as_nan")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Option<f64>>"))]
    pub values: Vec<f64>,
}

fn nulls_as_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
    let values = Vec::<Option<f64>>::deserialize(deserializer)?;
    Ok(values.into_iter().map(|value| value.unwrap_or(f64::NAN)).collect())
}

/// What a run asked of its storage, transfer by transfer: counted, not sampled.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Load {
    /// How many transfers were submitted at which queue depth of all threads together; depths that
    /// did not occur are left out, and those above 1024 are counted there.
    pub depths: Vec<DepthCount>,
    /// How many transfers there were of which size, by powers of two.
    pub sizes: Vec<SizeCount>,
}

/// Transfers submitted at one queue depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DepthCount {
    /// Transfers in flight once the transfer was submitted, itself included.
    pub depth: u32,
    /// How many.
    pub transfers: u64,
}

/// Transfers of sizes up to a power of two, and above half of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SizeCount {
    /// The power of two, in bytes.
    pub up_to_bytes: u64,
    /// How many.
    pub transfers: u64,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_over_at_once_begins_with_an_eighth_of_its_intervals() {
        let first = |ms| Telemetry::Every(Duration::from_millis(ms)).first_interval();
        assert_eq!(first(100), Duration::from_micros(12_500));
        assert_eq!(first(30), Duration::from_millis(15));
        assert_eq!(first(10), Duration::from_millis(10));
        assert_eq!(Telemetry::Off.first_interval(), first(100));
    }

    #[test]
    fn what_was_not_read_is_saved_as_null() {
        let track = Track {
            measure: Measure::DataCachedShare,
            of: "data".to_string(),
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
