//! Signs of other programs' load, and of limits of the control group, in the samples of a run: its
//! figures then do not show the storage alone.

use std::collections::BTreeMap;

use crate::group::GroupFacts;
use crate::report::{NamedSeries, Series};
use crate::telemetry::Measure;
use crate::units::ByteSize;
use crate::warning::{Warning, WarningKind};

/// What to do about it.
pub const REMEDY: &str = "measure when this machine and its storage are idle";
/// More CPUs in use by other programs than this disturb a measurement.
const CPUS: f64 = 0.5;
/// Device bytes beyond the run's, as a share of them, that count as other programs'. File systems
/// move slightly more than requested.
const DEVICE_SHARE: f64 = 0.05;
/// A limit is in full use from this share of it on: the kernel grants it in slices.
const FULL: f64 = 0.8;
/// Minimum share of the time in which it is, to have held the run back.
const MUCH: f64 = 0.2;
/// Minimum number of whole intervals for which CPU time is meaningful: the kernel counts it in
/// ticks.
const FEWEST: usize = 5;
/// Shortest time in which it does: a tick on each CPU is much of a shorter one.
const SHORTEST_SECONDS: f64 = 0.5;

/// CPUs that other programs used in addition to this process's (`own`), on the mean over `series`,
/// if that is enough to disturb a measurement; `None` if not, or if it is unknown.
pub fn cpus(series: &Series, own: f64) -> Option<f64> {
    let host = series.tracks.iter().find(|track| track.measure == Measure::HostCpuSeconds)?;
    let known = series.timed(&host.values).filter(|(_, value)| value.is_finite());
    let (seconds, used) =
        known.fold((0.0, 0.0), |(s, u), (interval, value)| (s + interval.seconds, u + value));
    let others = if seconds > 0.0 { used / seconds - own } else { 0.0 };
    let is_told = seconds >= SHORTEST_SECONDS.max(FEWEST as f64 * series.interval_seconds);
    (is_told && others > CPUS).then_some(others)
}

/// The same in words.
pub fn of_cpus(series: &Series, own: f64) -> Option<String> {
    cpus(series, own).map(|others| format!("other programs used {others:.1} CPUs"))
}

/// Bytes that `devices` moved `beyond` the `own` ones.
pub fn of_devices(devices: &str, beyond: u64, own: u64, whose: &str) -> Option<String> {
    (beyond as f64 > DEVICE_SHARE * own as f64).then(|| {
        let (beyond, own) = (ByteSize(beyond), ByteSize(own));
        format!("{devices} moved {beyond} beyond the {own} of {whose}")
    })
}

/// The limits of this process's control group that held a run back.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitsInForce {
    /// Each with its share of the time: `reads of vda at 50.0 MB/s (io.max), 90 % of the time`.
    pub words: String,
    /// Whether CPU time is limited.
    pub of_cpus: bool,
}

/// The limits in full use for much of the time of `parts`. `None` without any, or without telemetry.
pub fn limits_in_force<'a>(parts: impl IntoIterator<Item = &'a Series>) -> Option<LimitsInForce> {
    let mut used: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for series in parts {
        let limits = series.tracks.iter().filter(|one| one.measure == Measure::LimitUsedShare);
        for track in limits {
            let (full, all) = used.entry(&track.of).or_default();
            for (interval, share) in series.timed(&track.values).filter(|(_, s)| s.is_finite()) {
                *all += interval.seconds;
                *full += if share >= FULL { interval.seconds } else { 0.0 };
            }
        }
    }
    let used = used.iter().filter(|(_, (full, all))| *all > 0.0 && *full >= MUCH * *all);
    let used =
        used.map(|(name, (full, all))| format!("{name}, {:.0} % of the time", 100.0 * full / all));
    let words: Vec<String> = used.collect();
    // Names end with the file that sets the limit: cpu.max, cpu.cfs_quota_us.
    let of_cpus = words.iter().any(|words| words.contains("(cpu."));
    (!words.is_empty()).then(|| LimitsInForce { words: words.join("; "), of_cpus })
}

/// The warning about them; it takes the place of guesses at other causes.
pub fn limit_warning<'a>(parts: impl IntoIterator<Item = &'a Series>) -> Option<Warning> {
    let fact = format!("the control group's limit was reached: {}", limits_in_force(parts)?.words);
    let remedy = "raise it (docker --cpus, --device-read-bps; Kubernetes limits; systemd CPUQuota=, \
                  IOReadBandwidthMax=): the figures show the limit, not the storage";
    Some(Warning::new(WarningKind::GroupLimit, fact, remedy))
}

/// One warning about all parts of a run; `None` without a sign. Limits of the control group come
/// first. Device bytes are compared where the path is `direct`: the page cache reads ahead and writes
/// later. Processes that share a host cannot tell each other's load from other programs', so they do
/// not warn.
pub fn warning(parts: &[NamedSeries], direct: bool, group: Option<&GroupFacts>) -> Option<Warning> {
    if let Some(limit) = limit_warning(parts.iter().map(|part| &part.series)) {
        return Some(limit);
    }
    let shares = |group: &GroupFacts| group.machines.iter().any(|machine| machine.ranks.len() > 1);
    if group.is_some_and(shares) {
        return None;
    }
    let signs = |part: &NamedSeries| -> Option<String> {
        let series = &part.series;
        let seconds: f64 =
            series.timed(&series.interval_cpu_seconds).map(|(interval, _)| interval.seconds).sum();
        let own = series.interval_cpu_seconds.iter().sum::<f64>() / seconds.max(1e-9);
        let cpus = (seconds > 0.0).then(|| of_cpus(series, own)).flatten();
        let device: Option<u64> = series.interval_device_bytes.as_ref().map(|all| all.iter().sum());
        let bytes: u64 = series.interval_bytes.iter().sum();
        let beyond = device.filter(|_| direct).map(|device| device.saturating_sub(bytes));
        let devices =
            beyond.and_then(|beyond| of_devices("the devices", beyond, bytes, "this run"));
        let signs: Vec<String> = cpus.into_iter().chain(devices).collect();
        (!signs.is_empty()).then(|| format!("{}: {}", part.name, signs.join("; ")))
    };
    let found: Vec<String> = parts.iter().filter_map(signs).collect();
    let first = found.first()?;
    let fact = match (parts.len(), found.len()) {
        (1, _) => first.clone(),
        (all, some) => format!("in {some} of {all} parts of the run, the first {first}"),
    };
    Some(Warning::new(WarningKind::OthersLoad, fact, REMEDY))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Track;

    /// Ten intervals of 100 ms in which the host used `host` CPUs, this process half of one, and the
    /// devices moved `device` bytes for each of ours.
    fn part(host: f64, device: u64) -> NamedSeries {
        let series = Series {
            interval_seconds: 0.1,
            last_interval_seconds: Some(0.1),
            interval_bytes: vec![1 << 20; 10],
            interval_device_bytes: Some(vec![device << 20; 10]),
            interval_cpu_seconds: vec![0.05; 10],
            tracks: vec![Track {
                measure: Measure::HostCpuSeconds,
                of: "host".to_string(),
                values: vec![host / 10.0; 10],
            }],
            ..Series::default()
        };
        NamedSeries { name: "run 1".to_string(), series }
    }

    #[test]
    fn a_limit_of_the_control_group_comes_before_other_programs() {
        let mut busy = part(1.5, 2);
        let of = "reads of vda at 50.0 MB/s (io.max)".to_string();
        let mut values = vec![0.97; 10];
        values[0] = 0.1;
        busy.series.tracks.push(Track { measure: Measure::LimitUsedShare, of, values });
        let warning = warning(std::slice::from_ref(&busy), true, None).unwrap();
        assert_eq!(warning.kind, WarningKind::GroupLimit);
        assert!(!limits_in_force([&busy.series]).unwrap().of_cpus);
        busy.series.tracks[1].of = "0.20 CPUs (cpu.max)".to_string();
        assert!(limits_in_force([&busy.series]).unwrap().of_cpus);
        assert_eq!(
            warning.fact,
            "the control group's limit was reached: reads of vda at 50.0 MB/s (io.max), 90 % of \
             the time"
        );
        busy.series.tracks[1].values = vec![0.5; 10];
        assert_eq!(limits_in_force([&busy.series]), None);
    }

    #[test]
    fn load_of_others_is_named_and_that_of_this_run_is_not() {
        assert_eq!(warning(&[part(0.9, 1)], true, None), None);
        let busy = warning(&[part(1.5, 2)], true, None).unwrap();
        assert_eq!(
            busy.fact,
            "run 1: other programs used 1.0 CPUs; the devices moved 10 MiB beyond the 10 MiB of \
             this run"
        );
        // Read-ahead is no other program.
        assert_eq!(warning(&[part(0.9, 2)], false, None), None);
        let some = warning(&[part(0.9, 1), part(1.5, 1)], true, None).unwrap();
        assert!(some.fact.starts_with("in 1 of 2 parts of the run, the first run 1: "));
    }
}
