//! Hosts as command lines describe them: how many there are, and the equipment of one.

use std::collections::BTreeSet;
use std::str::FromStr;

use crate::numbers::{whole, within};
use crate::units::{parse_rate, parse_seconds, parse_some_bytes};

/// Maximum number of hosts, CPUs or accelerators.
const MAX_COUNT: u64 = 100_000;

/// Parses the number of hosts, typed as a number or as names: `8`, or `h1,h2`.
///
/// # Errors
/// If it is neither.
pub fn host_count(text: &str) -> Result<u32, String> {
    if !text.contains(',') {
        return whole(1..=MAX_COUNT)(text);
    }
    let names: Vec<&str> = text.split(',').map(str::trim).collect();
    let distinct: BTreeSet<&str> = names.iter().copied().collect();
    if distinct.len() < names.len() || distinct.contains("") || text.contains('[') {
        return Err(format!(
            "`{text}` repeats or lacks a name, or has a range: use a number, or names as in h1,h2"
        ));
    }
    Ok(names.len() as u32)
}

/// The equipment of one host; `None` where it was not given.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct HostSpec {
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Number of CPUs.
    pub cpus: Option<u32>,
    /// Maximum rate of reads through the page cache in bytes per second; infinite for `none`.
    pub read_bytes_per_second: Option<f64>,
    /// Maximum number of accelerators.
    pub accelerators: Option<u32>,
    /// Duration of a barrier with the other hosts, in seconds.
    pub barrier_seconds: Option<f64>,
}

impl FromStr for HostSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut spec = Self::default();
        let mut keys = BTreeSet::new();
        for part in text.split(',') {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            match key {
                "memory" => {
                    let bytes = parse_some_bytes(value).map_err(|error| error.to_string())?;
                    spec.memory_bytes = Some(bytes);
                }
                "cpus" => spec.cpus = Some(whole(1..=MAX_COUNT)(value)?),
                "accelerators" => spec.accelerators = Some(whole(1..=MAX_COUNT)(value)?),
                "barrier" => {
                    let seconds = within(parse_seconds, 0.0..=60.0, "0 to 60s")(value)?;
                    spec.barrier_seconds = Some(seconds);
                }
                "read" if value == "none" => spec.read_bytes_per_second = Some(f64::INFINITY),
                "read" => spec.read_bytes_per_second = Some(parse_rate(value)?),
                _ => {
                    return Err(format!(
                        "`{part}` is not a part of a host: use \
                         memory=1TiB,cpus=104,read=30GB/s,accelerators=8,barrier=50us, or some of \
                         these"
                    ));
                }
            }
            if !keys.insert(key) {
                return Err(format!("`{key}` is set twice"));
            }
        }
        Ok(spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::TIB;

    #[test]
    fn hosts_are_counted_or_named() {
        assert_eq!(host_count("8"), Ok(8));
        assert_eq!(host_count("h1,h2, h3"), Ok(3));
        for wrong in ["n[1-4],h9", "0", "few", "h1,h1", "h1,", "-1", "1e3"] {
            assert!(host_count(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_host_is_described_by_its_parts() {
        let all: HostSpec = "memory=1TiB,cpus=104,read=30GB/s,accelerators=8".parse().unwrap();
        assert_eq!((all.memory_bytes, all.cpus, all.accelerators), (Some(TIB), Some(104), Some(8)));
        assert_eq!(all.read_bytes_per_second, Some(30e9));
        let slow: HostSpec = "barrier=50us".parse().unwrap();
        assert_eq!(slow.barrier_seconds, Some(50e-6));
        let unlimited: HostSpec = "read=none".parse().unwrap();
        assert_eq!(unlimited.read_bytes_per_second, Some(f64::INFINITY));
        for (wrong, why) in [
            ("1TiB", "is not a part of a host"),
            ("memory=0", "1 byte or more"),
            ("memory=1T,memory=2T", "set twice"),
            ("cpus=many", "not a whole number"),
            ("read=5", "missing unit: 5GB/s"),
            ("read=30Gb/s", "not bits"),
        ] {
            let error = wrong.parse::<HostSpec>().unwrap_err();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }
}
