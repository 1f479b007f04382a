//! A trial of several hosts: they begin at the same moment, each with users and a folder of its own,
//! and what they measured is put together.

use serde::{Deserialize, Serialize};
use stormlp_core::evidence::Evidence;
use stormlp_hosts::multi_host::{Hosts, sum_of_series};
use stormlp_hosts::parts::{count_members_once, evidence_of_all};

use super::error::KvcacheError;
use super::tally::Tally;
use super::trial::{Stage, TrialId, TrialOutcome, Watched};
use crate::report::{BytesOfDevices, HostTrial, TrialResult};

/// What was measured in a trial: by one host, or by all of them once they have exchanged it.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) seed: u32,
    pub(super) tally: Tally,
    pub(super) watched: Watched,
    pub(super) evidence: Option<Evidence>,
}

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
        outcome: TrialOutcome,
    ) -> Result<Together, KvcacheError> {
        let TrialOutcome { started_at_seconds, measured, failure } = outcome;
        let result_of = |measured: &Measured| {
            measured.tally.result((self.plan, id), started_at_seconds, &measured.watched)
        };
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
        let measured = merged(hosts, &all);
        let result = TrialResult { hosts: each, ..result_of(&measured) };
        Ok(Together { trial: Some((result, measured)), is_stopped, failure: None })
    }
}

/// The measurements of `all` hosts as one; devices are those of each machine once.
fn merged(hosts: &Hosts, all: &[Measured]) -> Measured {
    let series: Vec<_> = all.iter().map(|one| &one.watched.series).collect();
    let mut sum = Measured {
        seed: all.first().map_or(0, |first| first.seed),
        tally: Tally::like(all.first().map(|first| &first.tally)),
        watched: Watched {
            device: Some(BytesOfDevices::default()),
            series: sum_of_series(&series),
            ..Watched::default()
        },
        evidence: evidence_of_all(all.iter().filter_map(|one| one.evidence.as_ref())),
    };
    let counted = count_members_once(&hosts.members, |nth| {
        all[nth].watched.device.map_or(0, |device| device.read_bytes + device.written_bytes)
    });
    for (one, counts) in all.iter().zip(counted) {
        let (all, own) = (&mut sum.watched, &one.watched);
        sum.tally.add(&one.tally);
        // The window of all is over when that of the last one is.
        all.total_seconds = all.total_seconds.max(own.total_seconds);
        all.cpu.user_seconds += own.cpu.user_seconds;
        all.cpu.system_seconds += own.cpu.system_seconds;
        if counts {
            all.device = all.device.zip(own.device).map(|(sum, own)| sum + own);
        }
    }
    sum
}
