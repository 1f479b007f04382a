//! A checkpoint that several hosts save and restore together: ranks are assigned to hosts in order,
//! a barrier opens each phase, and the hosts' measurements are merged.

use std::ops::Range;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::plan::{CheckpointPlan, dealt_to, host_of};
use crate::report::{CheckpointResult, RankResult};
use stormlp_core::evidence::Evidence;
use stormlp_core::histogram::LatencyHistogram;
use stormlp_core::path::PathKind;
use stormlp_core::report::{HostShare, Series};
use stormlp_core::stop::StopToken;
use stormlp_hosts::parts::{count_members_once, evidence_of_all};
use stormlp_transfer::telemetry::{CpuTimes, DeviceCounters};

use super::error::CheckpointError;
use stormlp_hosts::multi_host::{Hosts, sum_of_series};

/// The measurements of one phase: by one host, or by all of them once they have exchanged it.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct PhaseMeasurement {
    pub(super) ranks: Vec<RankResult>,
    pub(super) series: Series,
    /// Latency from submission of a transfer to its completion, over all movers.
    pub(super) latency: LatencyHistogram,
    pub(super) cpu: CpuTimes,
    pub(super) device: Option<DeviceCounters>,
    pub(super) evidence: Option<Evidence>,
    pub(super) verified_bytes: u64,
    /// Whether every rank completed.
    pub(super) complete: bool,
}

/// How one phase went.
pub(super) struct PhaseOutcome {
    /// When its gate opened.
    pub(super) started: Instant,
    pub(super) measured: PhaseMeasurement,
    /// Each host's share, if there are several.
    pub(super) shares: Vec<HostShare>,
    pub(super) failure: Option<CheckpointError>,
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
    let Some(hosts) = hosts.filter(|_| plan.request.local_storage) else {
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
        if plan.request.local_storage {
            hosts.members[hosts.group.rank() as usize].leads_host(&hosts.members)
        } else {
            hosts.group.leads()
        }
    })
}

/// Waits until all hosts have finished a phase, and merges their measurements into this one's.
pub(super) fn put_together(
    hosts: &Hosts,
    path: PathKind,
    phase: &mut PhaseOutcome,
    stop: &StopToken,
) -> Result<(), CheckpointError> {
    let stopped = hosts.edge().map_err(|error| error.during("in a checkpoint"))?;
    let own = &mut phase.measured;
    let Some(all) = hosts.exchange(own, stop)? else {
        own.complete = false;
        return Ok(());
    };
    phase.shares = all.iter().zip(hosts.names()).map(|(one, name)| share(one, name)).collect();
    let counted = count_members_once(&hosts.members, |nth| {
        all[nth].device.map_or(0, |device| device.read_bytes + device.written_bytes)
    });
    let merged = merged(path, all, &counted);
    *own = PhaseMeasurement { complete: merged.complete && !stopped, ..merged };
    Ok(())
}

/// The measurements of all hosts as one; devices are of those that are `counted`.
fn merged(path: PathKind, all: Vec<PhaseMeasurement>, counted: &[bool]) -> PhaseMeasurement {
    let series: Vec<&Series> = all.iter().map(|one| &one.series).collect();
    let mut sum = PhaseMeasurement {
        series: sum_of_series(&series),
        evidence: evidence_of_all(path, all.iter().filter_map(|one| one.evidence.as_ref())),
        device: Some(DeviceCounters::default()),
        complete: true,
        ..PhaseMeasurement::default()
    };
    for (one, counts) in all.into_iter().zip(counted) {
        sum.latency.merge(&one.latency);
        sum.ranks.extend(one.ranks);
        sum.cpu.user_seconds += one.cpu.user_seconds;
        sum.cpu.system_seconds += one.cpu.system_seconds;
        sum.verified_bytes += one.verified_bytes;
        sum.complete &= one.complete;
        if *counts {
            sum.device = sum.device.zip(one.device).map(|(sum, own)| sum + own);
        }
    }
    sum
}

fn share(part: &PhaseMeasurement, name: String) -> HostShare {
    HostShare {
        name,
        bytes: part.ranks.iter().map(|rank| rank.bytes).sum(),
        cpu_seconds: part.cpu.total_seconds(),
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
