//! A checkpoint that several hosts save and restore together: ranks are assigned to hosts in order,
//! a barrier opens each phase, and the hosts' measurements are merged.

use std::ops::Range;

use crate::plan::{CheckpointPlan, CheckpointResult, RankResult, dealt_to, host_of};
use serde::{Deserialize, Serialize};
use stormlp_core::evidence::Evidence;
use stormlp_core::histogram::{LatencyHistogram, PackedHistogram};
use stormlp_core::report::HostShare;
use stormlp_core::report::Series;
use stormlp_core::stop::StopToken;
use stormlp_hosts::parts::count_members_once;
use stormlp_transfer::telemetry::{CpuTimes, DeviceCounters};

use super::error::CheckpointError;
use super::phase::PhaseMeasurement;
use stormlp_hosts::company::{Hosts, garbled, sum_of_series};

/// A host's measurements of a phase, as sent to the others.
#[derive(Serialize, Deserialize)]
struct Part {
    ranks: Vec<RankResult>,
    latency: PackedHistogram,
    cpu: CpuTimes,
    device: Option<DeviceCounters>,
    verified_bytes: u64,
    complete: bool,
    series: Series,
    evidence: Option<Evidence>,
}

/// This host's ranks among `count`: all of them without `hosts`.
pub(super) fn own_ranks(hosts: Option<&Hosts>, count: usize) -> Range<usize> {
    let Some(hosts) = hosts else {
        return 0..count;
    };
    let (host, of) = (hosts.group.rank() as usize, hosts.group.size() as usize);
    dealt_to(host, of, count)
}

/// The plan restricted to the folders that this host sees. Local folders hold only the ranks
/// assigned to processes of the same host.
pub(super) fn plan_here(plan: &CheckpointPlan, hosts: Option<&Hosts>) -> CheckpointPlan {
    let mut here = plan.clone();
    let Some(hosts) = hosts.filter(|_| plan.request.local_data) else {
        return here;
    };
    let own = &hosts.members[hosts.group.rank() as usize];
    let (of, count) = (hosts.members.len(), plan.ranks.len());
    let mut nth = 0..count;
    here.ranks.retain(|_| {
        let writer = nth.next().map(|nth| host_of(nth, of, count));
        writer.is_some_and(|writer| hosts.members[writer].shares_host_with(own))
    });
    here
}

/// Whether this process creates and removes folders and marks checkpoints complete.
pub(super) fn leads(plan: &CheckpointPlan, hosts: Option<&Hosts>) -> bool {
    hosts.is_none_or(|hosts| {
        if plan.request.local_data {
            hosts.members[hosts.group.rank() as usize].leads_host(&hosts.members)
        } else {
            hosts.group.leads()
        }
    })
}

/// Waits until all hosts have finished a phase, and merges their measurements into this one's.
pub(super) fn put_together(
    hosts: &Hosts,
    measured: &mut PhaseMeasurement,
    stop: &StopToken,
) -> Result<(), CheckpointError> {
    let stopped = hosts.edge().map_err(|error| error.during("in a checkpoint"))?;
    let own = Part {
        ranks: measured.ranks.clone(),
        latency: measured.latency.pack(),
        cpu: measured.cpu,
        device: measured.device,
        verified_bytes: measured.verified_bytes,
        complete: measured.complete,
        // The load is this host's alone.
        series: Series { load: None, ..measured.series.clone() },
        evidence: measured.evidence.clone(),
    };
    let Some(parts) = hosts.exchange(&own, stop)? else {
        measured.complete = false;
        return Ok(());
    };
    let counted = count_members_once(&hosts.members);
    let mut latency = LatencyHistogram::new();
    let (mut ranks, mut cpu) = (Vec::new(), CpuTimes::default());
    let mut devices = Some(DeviceCounters::default());
    for (part, counts) in parts.iter().zip(counted) {
        let own = LatencyHistogram::unpack(&part.latency);
        latency.merge(&own.ok_or_else(|| garbled(&"a histogram is none"))?);
        ranks.extend(part.ranks.iter().copied());
        cpu.user_seconds += part.cpu.user_seconds;
        cpu.system_seconds += part.cpu.system_seconds;
        if counts {
            devices = devices.zip(part.device).map(|(sum, own)| sum + own);
        }
    }
    measured.complete = !stopped && parts.iter().all(|part| part.complete);
    measured.verified_bytes = parts.iter().map(|part| part.verified_bytes).sum();
    let series: Vec<&Series> = parts.iter().map(|part| &part.series).collect();
    measured.series = sum_of_series(&series);
    measured.evidence = of_all(parts.iter().filter_map(|part| part.evidence.as_ref())).cloned();
    measured.shares =
        parts.iter().zip(hosts.names()).map(|(part, name)| share(part, name)).collect();
    (measured.ranks, measured.latency) = (ranks, latency);
    (measured.cpu, measured.device) = (cpu, devices);
    Ok(())
}

/// Evidence for all hosts: that of the first host whose path differs from the first one's, so that
/// a fallback on any host is never hidden.
pub(super) fn of_all<'e>(mut evidence: impl Iterator<Item = &'e Evidence>) -> Option<&'e Evidence> {
    let first = evidence.next()?;
    let other = evidence.find(|one| one.effective_path != first.effective_path);
    other.or(Some(first))
}

fn share(part: &Part, name: String) -> HostShare {
    HostShare {
        name,
        bytes: part.ranks.iter().map(|rank| rank.bytes).sum(),
        cpu_seconds: part.cpu.user_seconds + part.cpu.system_seconds,
        slowest: 0,
    }
}

/// Adds the shares of a checkpoint to the earlier ones; the host of its slowest rank counts as the
/// slowest.
pub(super) fn add(all: &mut Vec<HostShare>, shares: Vec<HostShare>, result: &CheckpointResult) {
    let slowest = result.ranks.iter().enumerate().max_by(|(_, one), (_, other)| {
        let [one, other] = [one, other].map(|rank| rank.duration_seconds);
        one.total_cmp(&other)
    });
    let (of, count) = (shares.len(), result.ranks.len());
    let host = slowest.map(|(nth, _)| host_of(nth, of, count));
    for (nth, share) in shares.into_iter().enumerate() {
        let is_slowest = u64::from(host == Some(nth));
        match all.get_mut(nth) {
            Some(known) => {
                known.bytes += share.bytes;
                known.cpu_seconds += share.cpu_seconds;
                known.slowest += is_slowest;
            }
            None => all.push(HostShare { slowest: is_slowest, ..share }),
        }
    }
}
