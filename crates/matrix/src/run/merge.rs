//! Merges the results of several hosts: bytes, transfers and CPU time are summed, the duration is
//! the longest, and latency histograms are combined.

use crate::plan::{
    CellReport, CellStatus, CellVerification, HostCell, JobReport, MatrixPlan, Measurement,
    MixedParts, Transfers,
};
use stormlp_core::distinct::distinct;
use stormlp_core::evidence::Evidence;
use stormlp_core::histogram::LatencyHistogram;
use stormlp_core::report::HostShare;
use stormlp_core::warning::{Warning, WarningKind};
use stormlp_hosts::parts::{evidence_of_all, share_at_once};

use super::warnings;
use stormlp_hosts::multi_host::sum_of_series;

/// One host's results of a cell.
pub(crate) struct CellPart<'a> {
    pub(crate) host: &'a str,
    /// Whether its device counters are included: processes of one host share the devices.
    pub(crate) counts_devices: bool,
    pub(crate) cell: &'a CellReport,
}

/// A cell of all hosts with the warnings about its storage, by the counters of all of them.
pub(crate) fn with_storage(plan: &MatrixPlan, mut whole: CellReport) -> CellReport {
    let planned = plan.cells.get(whole.cell);
    if let (Some(planned), Some(numbers)) = (planned, &whole.measurement) {
        let hosts = whole.hosts.len().max(1);
        whole.warnings.extend(warnings::of_storage(plan, planned, numbers, hosts));
    }
    whole
}

/// All hosts' warnings about a cell, equal ones once. Processes that share a host cannot tell each
/// other's load from other programs', so they do not warn of it.
fn warnings_of(parts: &[CellPart<'_>]) -> Vec<Warning> {
    let share_a_host = parts.iter().any(|part| !part.counts_devices);
    let is_moot = |one: &Warning| share_a_host && one.kind == WarningKind::OthersLoad;
    let mut warnings: Vec<Warning> = Vec::new();
    for warning in parts.iter().flat_map(|part| &part.cell.warnings) {
        let is_known = warnings.iter().any(|known| known.is_like(warning));
        if !is_known && !is_moot(warning) {
            warnings.push(warning.clone());
        }
    }
    warnings
}

/// The merged cell of all hosts, without warnings about storage; `None` without any.
pub(crate) fn together(parts: &[CellPart<'_>]) -> Option<CellReport> {
    let first = parts.first()?.cell;
    // None unless each host has some.
    let evidence: Option<Vec<&Evidence>> =
        parts.iter().map(|part| part.cell.evidence.as_ref()).collect();
    let mut whole = CellReport {
        hosts: parts.iter().filter_map(host_cell).collect(),
        overlap_share: at_once(parts),
        measurement: measurement(parts).map(warnings::with_levels),
        verification: verification(parts),
        warnings: warnings_of(parts),
        evidence: evidence_of_all(first.requested_path, evidence.iter().flatten().copied()),
        ..first.clone()
    };
    let shown = whole.evidence.as_ref();
    whole.effective_path = shown.and_then(|evidence| evidence.effective_path);
    if let Some(bad) = parts.iter().find(|part| part.cell.status != CellStatus::Ok) {
        let reason = bad.cell.reason.as_deref().unwrap_or_default();
        whole.status = bad.cell.status;
        whole.reason = Some(format!("{}: {reason}", bad.host));
        whole.remedy.clone_from(&bad.cell.remedy);
        whole.errno = bad.cell.errno;
    }
    Some(whole)
}

/// Each host's share of `cells`, which all of them measured; empty for a single host.
pub fn shares(cells: &[CellReport]) -> Vec<HostShare> {
    let mut shares: Vec<HostShare> = Vec::new();
    for cell in cells {
        let slowest =
            cell.hosts.iter().max_by(|a, b| a.duration_seconds.total_cmp(&b.duration_seconds));
        for host in &cell.hosts {
            let is_slowest = slowest.is_some_and(|slowest| slowest.name == host.name);
            let known = shares.iter().position(|share| share.name == host.name);
            let nth = known.unwrap_or(shares.len());
            if known.is_none() {
                let name = host.name.clone();
                shares.push(HostShare { name, bytes: 0, cpu_seconds: 0.0, slowest: 0 });
            }
            let share = &mut shares[nth];
            share.bytes += host.bytes;
            share.cpu_seconds += host.cpu_seconds;
            share.slowest += u64::from(is_slowest);
        }
    }
    shares
}

/// The share of the longest duration in which all hosts measured a cell at once, by their clocks.
fn at_once(parts: &[CellPart<'_>]) -> Option<f64> {
    let own = |part: &CellPart<'_>| {
        let numbers = part.cell.measurement.as_ref()?;
        Some((numbers.started_unix_seconds?, numbers.duration_seconds))
    };
    let times: Option<Vec<(f64, f64)>> = parts.iter().map(own).collect();
    share_at_once(&times.filter(|times| times.len() > 1)?)
}

fn host_cell(part: &CellPart<'_>) -> Option<HostCell> {
    let numbers = part.cell.measurement.as_ref()?;
    Some(HostCell {
        name: part.host.to_string(),
        bytes: numbers.bytes,
        operations: numbers.operations,
        duration_seconds: numbers.duration_seconds,
        throughput_bytes_per_second: numbers.throughput_bytes_per_second,
        latency_us: numbers.latency_us,
        cpu_seconds: numbers.cpu_user_seconds + numbers.cpu_system_seconds,
        device_read_bytes: numbers.device_read_bytes.filter(|_| part.counts_devices),
        device_written_bytes: numbers.device_written_bytes.filter(|_| part.counts_devices),
    })
}

/// The merged results; `None` unless each host has some.
fn measurement(parts: &[CellPart<'_>]) -> Option<Measurement> {
    let all: Option<Vec<&Measurement>> =
        parts.iter().map(|part| part.cell.measurement.as_ref()).collect();
    let all = all?;
    let mut latencies = LatencyHistogram::new();
    for one in &all {
        let own = LatencyHistogram::of_report(&one.latency_histogram, &one.latency_us)?;
        latencies.merge(&own);
    }
    let counted = parts.iter().zip(&all).filter(|(part, _)| part.counts_devices);
    let devices: Vec<&Measurement> = counted.map(|(_, one)| *one).collect();
    let bytes: u64 = all.iter().map(|one| one.bytes).sum();
    let operations: u64 = all.iter().map(|one| one.operations).sum();
    let cpu_user_seconds: f64 = all.iter().map(|one| one.cpu_user_seconds).sum();
    let cpu_system_seconds: f64 = all.iter().map(|one| one.cpu_system_seconds).sum();
    let most = |number: fn(&Measurement) -> f64| {
        let numbers = all.iter().map(|one| number(one));
        numbers.fold(0.0, f64::max)
    };
    let most_known = |number: fn(&Measurement) -> Option<f64>| {
        let numbers = all.iter().filter_map(|one| number(one));
        numbers.reduce(f64::max)
    };
    let sum_known = |number: fn(&Measurement) -> Option<u64>| {
        let numbers: Option<Vec<u64>> = devices.iter().map(|one| number(one)).collect();
        numbers.map(|numbers| numbers.iter().sum())
    };
    let duration_seconds = most(|one| one.duration_seconds);
    let began = all.iter().filter_map(|one| one.started_unix_seconds);
    let first_done = all.iter().map(|one| one.first_done_seconds);
    let series: Vec<_> = all.iter().map(|one| &one.series).collect();
    Some(Measurement {
        throughput_bytes_per_second: bytes as f64 / duration_seconds,
        iops: operations as f64 / duration_seconds,
        latency_us: latencies.summary()?,
        latency_histogram: latencies.to_base64(),
        operations,
        bytes,
        duration_seconds,
        first_done_seconds: first_done.fold(f64::INFINITY, f64::min),
        last_done_seconds: most(|one| one.last_done_seconds),
        cpu_user_seconds,
        cpu_system_seconds,
        cpu_seconds_per_gib: per_gib(cpu_user_seconds + cpu_system_seconds, bytes),
        series: sum_of_series(&series),
        device_names: distinct(all.iter().flat_map(|one| one.device_names.iter().cloned())),
        device_read_bytes: sum_known(|one| one.device_read_bytes),
        device_written_bytes: sum_known(|one| one.device_written_bytes),
        page_cache_share: most_known(|one| one.page_cache_share),
        page_cache_share_after: most_known(|one| one.page_cache_share_after),
        fsync_seconds: most_known(|one| one.fsync_seconds),
        memory: distinct(all.iter().map(|one| one.memory.clone())).join(", "),
        memory_emulated: all.iter().any(|one| one.memory_emulated),
        peak_rss_bytes: all.iter().map(|one| one.peak_rss_bytes).max()?,
        jobs: jobs(&all),
        mix: mix(&all, duration_seconds),
        interrupted: all.iter().any(|one| one.interrupted),
        started_unix_seconds: began.reduce(f64::min),
        ..(*all.first()?).clone()
    })
}

/// Reads and writes apart over all hosts; `None` unless each has them.
fn mix(all: &[&Measurement], seconds: f64) -> Option<MixedParts> {
    let parts: Option<Vec<&MixedParts>> = all.iter().map(|one| one.mix.as_ref()).collect();
    let parts = parts?;
    let reads = Transfers::sum(parts.iter().map(|mix| &mix.reads), seconds)?;
    let writes = Transfers::sum(parts.iter().map(|mix| &mix.writes), seconds)?;
    Some(MixedParts { reads, writes })
}

/// Seconds per GiB; 0 if no byte was moved.
pub(super) fn per_gib(seconds: f64, bytes: u64) -> f64 {
    match bytes {
        0 => 0.0,
        _ => seconds / (bytes as f64 / (1u64 << 30) as f64),
    }
}

/// Results of each job over all hosts, based on its longest duration.
fn jobs(all: &[&Measurement]) -> Vec<JobReport> {
    let of_job = |first: &JobReport| {
        let own = || all.iter().flat_map(|one| &one.jobs).filter(|job| job.name == first.name);
        let duration_seconds = own().map(|job| job.duration_seconds).fold(0.0, f64::max);
        Some(JobReport {
            name: first.name.clone(),
            threads: own().map(|job| job.threads).sum(),
            duration_seconds,
            transfers: Transfers::sum(own().map(|job| &job.transfers), duration_seconds)?,
        })
    };
    let first = all.first().map_or(&[][..], |first| &first.jobs);
    first.iter().filter_map(of_job).collect()
}

fn verification(parts: &[CellPart<'_>]) -> Option<CellVerification> {
    let all = parts.iter().filter_map(|part| part.cell.verification.clone());
    all.reduce(|sum, one| CellVerification {
        checked_bytes: sum.checked_bytes + one.checked_bytes,
        mismatches: [sum.mismatches, one.mismatches].concat(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use stormlp_core::path::PathKind;

    fn measured(latencies_us: &[u64], seconds: f64) -> CellReport {
        let plan = crate::show::fixtures::cell_plan(PathKind::Cpu);
        let mut histogram = LatencyHistogram::new();
        for latency in latencies_us {
            histogram.record_ns(latency * 1000);
        }
        let operations = latencies_us.len() as u64;
        let mut cell = CellReport::without_numbers(0, &plan, "");
        (cell.status, cell.reason) = (CellStatus::Ok, None);
        cell.measurement = Some(Measurement {
            latency_us: histogram.summary().unwrap(),
            latency_histogram: histogram.to_base64(),
            operations,
            bytes: operations << 20,
            duration_seconds: seconds,
            last_done_seconds: seconds,
            first_done_seconds: seconds,
            ..crate::show::fixtures::measurement()
        });
        cell
    }

    fn of_hosts(cells: &[CellReport]) -> CellReport {
        let hosts = ["h1", "h2", "h3"];
        let parts: Vec<CellPart<'_>> = cells
            .iter()
            .zip(hosts)
            .map(|(cell, host)| CellPart { host, counts_devices: host != "h2", cell })
            .collect();
        together(&parts).unwrap()
    }

    #[test]
    fn rates_are_over_the_longest_time() {
        let whole = of_hosts(&[measured(&[10; 100], 1.0), measured(&[20; 300], 2.0)]);
        let numbers = whole.measurement.as_ref().unwrap();
        assert_eq!((numbers.operations, numbers.duration_seconds), (400, 2.0));
        assert_eq!(numbers.iops, 200.0);
        // The second process runs on the first one's host.
        assert_eq!(numbers.device_read_bytes, Some(1 << 30));
        let of_devices = whole.hosts.iter().map(|host| host.device_read_bytes);
        assert_eq!(of_devices.collect::<Vec<_>>(), [Some(1 << 30), None]);
        let shares = shares(std::slice::from_ref(&whole));
        assert_eq!((shares[0].slowest, shares[1].slowest), (0, 1));
        assert_eq!(shares[1].bytes, 300 << 20);
    }

    #[test]
    fn a_failure_names_its_host() {
        let mut broken = measured(&[20; 3], 1.0);
        broken.status = CellStatus::Failed;
        broken.reason = Some("EIO".to_string());
        broken.measurement = None;
        let whole = of_hosts(&[measured(&[10; 3], 1.0), broken]);
        assert_eq!(whole.status, CellStatus::Failed);
        assert_eq!(whole.reason.as_deref(), Some("h2: EIO"));
        assert_eq!(whole.measurement, None);
        assert_eq!(whole.hosts.len(), 1);
    }

    proptest! {
        #[test]
        fn latencies_are_those_of_all_hosts_together(
            samples in prop::collection::vec(prop::collection::vec(1u64..10_000_000, 1..50), 1..4)
        ) {
            let cells: Vec<CellReport> = samples.iter().map(|own| measured(own, 1.0)).collect();
            let whole = of_hosts(&cells).measurement.unwrap();
            let together = measured(&samples.concat(), 1.0).measurement.unwrap();
            let all = LatencyHistogram::of_report(&whole.latency_histogram, &whole.latency_us);
            let one = LatencyHistogram::of_report(&together.latency_histogram, &together.latency_us);
            let quantiles = |histogram: Option<LatencyHistogram>| {
                let histogram = histogram.unwrap();
                [0.0, 0.5, 0.9, 0.99, 1.0].map(|quantile| histogram.quantile_ns(quantile))
            };
            prop_assert_eq!(quantiles(all), quantiles(one));
            prop_assert!((whole.latency_us.mean / together.latency_us.mean - 1.0).abs() < 1e-9);
            prop_assert_eq!(whole.operations, together.operations);
        }
    }
}
