//! One run on several hosts: the part of this one, and the evidence of all.

use std::ops::Range;

use crate::plan::probe::Judge;
use crate::plan::train_plan::TrainPlan;
use stormlp_core::evidence::Evidence;
use stormlp_core::path::PathKind;
use stormlp_core::stop::StopToken;

use stormlp_hosts::multi_host::Hosts;
use stormlp_hosts::parts::evidence_of_all;

/// Other participants in a run.
#[derive(Default)]
pub(super) struct Others<'a> {
    /// The other hosts, if any.
    pub(super) hosts: Option<&'a Hosts>,
    /// The judge that ends the run early, if any.
    pub(super) judge: Option<&'a mut Judge>,
}

/// The accelerators of this process: all of them without `hosts`.
pub(super) fn accelerators(hosts: Option<&Hosts>, plan: &TrainPlan) -> Range<u32> {
    match hosts {
        Some(hosts) => plan.accelerators_of(hosts.group.rank()),
        None => 0..plan.accelerators,
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
        Some(all) => evidence_of_all(PathKind::S3, all.iter().flatten()),
        None => own,
    }
}
