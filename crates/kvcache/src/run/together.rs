//! A trial of several hosts: they begin at the same moment, each with separate users and a separate
//! folder, and their measurements are combined.

use stormlp_core::path::PathKind;
use stormlp_hosts::multi_host::{Hosts, sum_of_series};
use stormlp_hosts::parts::{count_members_once, evidence_of_all};

use super::error::KvcacheError;
use super::stage::Stage;
use super::tally::{Measured, TrialId, Watched};
use crate::report::{HostTrial, TrialResult};

/// A trial of all hosts.
pub(super) struct Together {
    /// `None` if this host knows only what it measured itself: that is no trial of all.
    pub(super) trial: Option<(TrialResult, Measured)>,
    /// Whether it is the last, since the run was interrupted.
    pub(super) is_stopped: bool,
    pub(super) failure: Option<KvcacheError>,
}

impl Stage<'_> {
    /// The trial `id` of all hosts, which had this `outcome` here.
    ///
    /// # Errors
    /// If another host has been silent for too long.
    pub(super) fn together(
        &self,
        id: TrialId,
        (measured, failure): (Measured, Option<KvcacheError>),
    ) -> Result<Together, KvcacheError> {
        let result_of = |measured: &Measured| measured.result(self.plan, id);
        let Some(hosts) = self.hosts else {
            let trial = Some((result_of(&measured), measured));
            return Ok(Together { trial, is_stopped: self.stop.is_stopped(), failure });
        };
        // A failure here also ends the other hosts.
        if failure.is_some() {
            return Ok(Together { trial: None, is_stopped: false, failure });
        }
        let is_stopped = hosts.edge().map_err(|error| error.during("in a trial"))?;
        let Some(all) = hosts.exchange(&measured, self.stop)? else {
            return Ok(Together { trial: None, is_stopped: true, failure: None });
        };
        let each = all.iter().zip(hosts.names()).map(|(one, name)| HostTrial {
            name,
            seed: one.seed,
            result: result_of(one),
        });
        let each = each.collect();
        let measured = merged(hosts, self.plan.transport.path, all);
        let result = TrialResult { hosts: each, ..result_of(&measured) };
        Ok(Together { trial: Some((result, measured)), is_stopped, failure: None })
    }
}

/// The measurements of `all` hosts as one; the devices of each machine count once.
fn merged(hosts: &Hosts, path: PathKind, all: Vec<Measured>) -> Measured {
    let counted = count_members_once(&hosts.members, |nth| {
        all[nth].watched.device.map_or(0, |device| device.read_bytes + device.written_bytes)
    });
    let counting = all.iter().zip(counted).filter_map(|(one, counts)| counts.then_some(one));
    let device = counting.map(|one| one.watched.device).reduce(|sum, one| Some(sum? + one?));
    let series: Vec<_> = all.iter().map(|one| &one.watched.series).collect();
    let series = sum_of_series(&series);
    let evidence = evidence_of_all(path, all.iter().filter_map(|one| one.evidence.as_ref()));
    let mut all = all.into_iter();
    let mut sum = all.next().unwrap_or_default();
    for Measured { tally, watched, .. } in all {
        sum.tally.add(&tally);
        let sum = &mut sum.watched;
        // The window of all is over when the last one's is.
        sum.total_seconds = sum.total_seconds.max(watched.total_seconds);
        sum.cpu.user_seconds += watched.cpu.user_seconds;
        sum.cpu.system_seconds += watched.cpu.system_seconds;
    }
    let watched = Watched { device: device.flatten(), series, ..sum.watched };
    Measured { watched, evidence, ..sum }
}
