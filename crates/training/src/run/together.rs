//! One run on several hosts: each host's measurements of a phase are exchanged and merged, so that
//! every host has the complete result.
//!
//! Only durations are exchanged; clocks are never compared. The waiting time of each host at a
//! barrier shows who came last: the host that waited least. Its wait is the cost of the barrier
//! itself.

use std::ops::Range;

use crate::plan::metrics;
use crate::plan::metrics::Rule;
use crate::plan::probe::Judge;
use crate::plan::train_plan::TrainPlan;
use crate::report::{AcceleratorEpoch, BlockSums, WrittenCheckpoint};
use stormlp_core::evidence::Evidence;
use stormlp_core::group::{BarrierUs, GroupFacts, HostReport};
use stormlp_core::path::PathKind;
use stormlp_core::stop::StopToken;
use stormlp_core::warning::{Warning, WarningKind};

use super::error::TrainError;
use super::measure::PhaseMeasured;
use stormlp_hosts::company::Hosts;
use stormlp_hosts::parts::evidence_of_all;

/// Other participants in a run.
pub(super) struct Others<'a> {
    /// The other hosts, if any.
    pub(super) hosts: Option<&'a Hosts>,
    /// The judge that ends the run early, if any.
    pub(super) judge: Option<&'a mut Judge>,
}

impl<'a> Others<'a> {
    /// The other hosts, if any, without a judge.
    pub(super) fn on(hosts: Option<&'a Hosts>) -> Self {
        Self { hosts, judge: None }
    }

    /// A judge, without other hosts.
    pub(super) fn judged_by(judge: &'a mut Judge) -> Self {
        Self { hosts: None, judge: Some(judge) }
    }
}

/// The accelerators of this process: all of them without `hosts`.
pub(super) fn accelerators(hosts: Option<&Hosts>, plan: &TrainPlan) -> Range<u32> {
    match hosts {
        Some(hosts) => plan.accelerators_of(hosts.group.rank()),
        None => 0..plan.accelerators,
    }
}

/// Exchanges each host's measurements of a phase and merges them into `phase`. Per-host data is
/// added to `tally` if the phase was a training of `plan`. Returns `false` if this host was stopped
/// before it received the others' data.
pub(super) fn put_together(
    hosts: &Hosts,
    plan: &TrainPlan,
    phase: &mut PhaseMeasured,
    tally: Option<&mut HostsTally>,
    stop: &StopToken,
) -> Result<bool, TrainError> {
    let Some(all) = hosts.exchange(&*phase, stop)? else {
        return Ok(false);
    };
    merge(hosts, plan, phase, tally, &all);
    Ok(true)
}

/// Makes `phase` that of `all` hosts, by rank.
fn merge(
    hosts: &Hosts,
    plan: &TrainPlan,
    phase: &mut PhaseMeasured,
    tally: Option<&mut HostsTally>,
    all: &[PhaseMeasured],
) {
    phase.become_of_all(all);
    if let Some(tally) = tally {
        tally.add(hosts, plan, (0, all));
    }
}

/// The evidence of a run that this host completed, with the requests for objects of the other hosts,
/// if they can be heard: retries of any host are to be in the report of all.
pub(super) fn evidence(
    others: Option<&Hosts>,
    plan: &TrainPlan,
    own: Option<Evidence>,
    stop: &StopToken,
) -> Option<Evidence> {
    let others = others.filter(|_| plan.transport.path == PathKind::S3);
    let all = others.and_then(|hosts| hosts.exchange(&own, stop).ok().flatten());
    match all {
        Some(all) => evidence_of_all(all.iter().flatten()),
        None => own,
    }
}

/// The same for the `phases` of a run that all hosts completed, with the `checkpoints` between
/// them; returns the number of such phases. Each training phase is added to its tally.
pub(super) fn put_run_together<'p>(
    hosts: &Hosts,
    plan: &TrainPlan,
    phases: impl Iterator<Item = (bool, &'p mut PhaseMeasured)>,
    checkpoints: &mut Vec<WrittenCheckpoint>,
    (tally, stop): (&mut HostsTally, &StopToken),
) -> Result<Option<usize>, TrainError> {
    let phases: Vec<(bool, &mut PhaseMeasured)> = phases.collect();
    let own: Vec<PhaseMeasured> = phases.iter().map(|(_, phase)| (*phase).clone()).collect();
    let Some(all) = hosts.exchange(&(own, checkpoints.clone()), stop)? else {
        return Ok(None);
    };
    let whole = all.iter().map(|(parts, _)| parts.len()).min().unwrap_or(0);
    for (nth, (is_training, phase)) in phases.into_iter().take(whole).enumerate() {
        let parts: Vec<PhaseMeasured> =
            all.iter().filter_map(|(parts, _)| parts.get(nth)).cloned().collect();
        let tally = is_training.then_some(&mut *tally);
        merge(hosts, plan, phase, tally, &parts);
    }
    *checkpoints = all.into_iter().flat_map(|(_, theirs)| theirs).collect();
    Ok(Some(whole))
}

/// Results by host and of the barriers between hosts, over the epochs so far.
#[derive(Debug, Clone, Default)]
pub(super) struct HostsTally {
    facts: Option<GroupFacts>,
    hosts: Vec<HostReport>,
    epochs: u32,
    own_us: Vec<f64>,
    /// `None` without step barriers.
    ideal_au_percent: Option<f64>,
}

impl HostsTally {
    /// Adds an epoch of this host alone, when the others' data is unknown.
    pub(super) fn add_own(&mut self, hosts: &Hosts, plan: &TrainPlan, phase: &PhaseMeasured) {
        let rank = hosts.group.rank() as usize;
        self.add(hosts, plan, (rank, std::slice::from_ref(phase)));
    }

    /// Adds the parts of an epoch for the hosts from rank `first` on.
    fn add(&mut self, hosts: &Hosts, plan: &TrainPlan, (first, parts): (usize, &[PhaseMeasured])) {
        if self.hosts.is_empty() {
            let all = hosts.names().into_iter().zip(&plan.hosts);
            let named = all.map(|(name, accelerators)| HostReport::new(&name, *accelerators));
            self.hosts = named.skip(first).take(parts.len()).collect();
            self.facts = Some(hosts.facts.clone());
        }
        for (host, part) in self.hosts.iter_mut().zip(parts) {
            host.bytes_read += part.bytes_read;
        }
        // An epoch cut short is excluded from the mean, if there are others.
        let steps = |one: &AcceleratorEpoch| one.blocks.iter().map(|block| block.steps).sum();
        let most: Option<u64> = parts.iter().flat_map(|part| &part.accelerators).map(steps).max();
        if self.epochs > 0 && most < Some(plan.steps_per_epoch) {
            return;
        }
        self.epochs += 1;
        let rule = Rule::of(plan);
        for (host, part) in self.hosts.iter_mut().zip(parts) {
            let blocks: Vec<&[BlockSums]> = blocks(&part.accelerators);
            let au = metrics::epoch_measures(&rule, &blocks).au_percent.profile;
            // A running mean: all epochs weigh the same, as in the mean of the run.
            host.au_percent += (au - host.au_percent) / f64::from(self.epochs);
        }
        if !plan.request.barrier.is_at_every_step() {
            return;
        }
        let waits: Vec<&[u32]> = parts.iter().map(|part| part.waits_us.as_slice()).collect();
        let split = split(&waits);
        for (nth, host) in self.hosts.iter_mut().enumerate() {
            let last = split.iter().filter(|(slowest, _)| *slowest == nth).count();
            *host.slowest_steps.get_or_insert(0) += last as u64;
        }
        let own: Vec<f64> = split.iter().map(|(_, own_us)| f64::from(*own_us)).collect();
        let ideal = ideal_au_percent(plan, parts, &own);
        let mean = self.ideal_au_percent.get_or_insert(0.0);
        *mean += (ideal - *mean) / f64::from(self.epochs);
        self.own_us.extend(own);
    }

    /// `plan` restricted to the accelerators of the known hosts, if others are missing.
    pub(super) fn plan_of(&self, plan: &TrainPlan) -> TrainPlan {
        let mut plan = plan.clone();
        if self.lacks_some_of(&plan) {
            plan.accelerators = self.hosts.iter().map(|host| host.accelerators).sum();
        }
        plan
    }

    /// Whether only some of the hosts of `plan` are known.
    fn lacks_some_of(&self, plan: &TrainPlan) -> bool {
        !self.hosts.is_empty() && self.hosts.len() < plan.hosts.len()
    }

    /// The warning for missing hosts.
    pub(super) fn warning(&self, plan: &TrainPlan) -> Option<Warning> {
        self.lacks_some_of(plan).then(|| {
            let names: Vec<&str> = self.hosts.iter().map(|host| host.name.as_str()).collect();
            Warning::new(
                WarningKind::Hosts,
                format!(
                    "this covers {}, not all {} hosts: with --barrier none hosts exchange their \
                     results at the end of the run, which was not reached",
                    names.join(", "),
                    plan.hosts.len()
                ),
                "`stormlp report merge` with the folder of an interrupted run merges the parts of \
                 all hosts",
            )
        })
    }

    /// The hosts, by rank.
    pub(super) fn hosts(&self) -> Vec<HostReport> {
        self.hosts.clone()
    }

    /// The group, with the cost of its barriers.
    pub(super) fn group(&self) -> Option<GroupFacts> {
        let facts = self.facts.clone()?;
        Some(GroupFacts {
            own_barrier_us: BarrierUs::of(&self.own_us),
            ideal_au_percent: self.ideal_au_percent,
            ..facts
        })
    }
}

fn blocks(accelerators: &[AcceleratorEpoch]) -> Vec<&[BlockSums]> {
    let blocks = accelerators.iter().map(|one| one.blocks.as_slice());
    blocks.collect()
}

/// For each step whose end all hosts waited for: who came last, and the time the barrier took after
/// that. Of hosts that arrived together the first is taken.
fn split(waits: &[&[u32]]) -> Vec<(usize, u32)> {
    let steps = waits.iter().map(|waits| waits.len()).min().unwrap_or(0);
    let of_step = |step: usize| {
        let waits = waits.iter().map(|waits| waits[step]);
        waits.enumerate().min_by_key(|(_, wait)| *wait)
    };
    (0..steps).filter_map(of_step).collect()
}

/// The AU if the barriers between hosts cost nothing once all had arrived.
fn ideal_au_percent(plan: &TrainPlan, parts: &[PhaseMeasured], own_us: &[f64]) -> f64 {
    let first = plan.metric.exclude_start_steps as usize;
    let end = own_us.len().saturating_sub(plan.metric.exclude_end_steps as usize);
    let of_window: f64 = own_us.get(first..end).unwrap_or_default().iter().sum();
    let shorter =
        |block: &BlockSums| BlockSums { seconds: block.seconds - of_window / 1e6, ..*block };
    let accelerators = parts.iter().flat_map(|part| &part.accelerators);
    let blocks: Vec<Vec<BlockSums>> =
        accelerators.map(|one| one.blocks.iter().map(shorter).collect()).collect();
    let blocks: Vec<&[BlockSums]> = blocks.iter().map(Vec::as_slice).collect();
    let au = metrics::epoch_measures(&Rule::of(plan), &blocks).au_percent;
    au.profile
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_least_came_last() {
        // The second host is late in the second step, so the first one waits for it.
        let [one, other] = [[30, 20_060, 40], [90, 45, 41]];
        assert_eq!(split(&[&one, &other]), [(0, 30), (1, 45), (0, 40)]);
    }

    #[test]
    fn steps_not_shared_by_all_are_ignored() {
        assert_eq!(split(&[&[1, 2], &[3]]), [(0, 1)]);
        assert_eq!(split(&[]), []);
    }
}
