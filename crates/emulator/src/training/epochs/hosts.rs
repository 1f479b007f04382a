//! What a run has to do with other hosts: meeting them, and putting together what each measured.

use std::time::Duration;

use super::super::error::TrainError;
use super::super::machine::Machine;
use super::super::measure::PhaseMeasured;
use super::{Cut, Kind, Runner};

/// How often to look whether other hosts keep this one waiting.
const LOOK_AT_HOSTS: Duration = Duration::from_millis(500);

impl Runner<'_> {
    /// Makes what this host measured what all of them measured.
    pub(super) fn put_together(
        &mut self,
        kind: Kind<'_>,
        measured: &mut PhaseMeasured,
    ) -> Result<(), Cut> {
        let Some(hosts) = self.hosts else {
            return Ok(());
        };
        let tally = match kind {
            Kind::Training => Some(&mut self.distributions.hosts),
            Kind::Evaluation(_) => None,
        };
        let stop = self.surroundings.stop;
        match hosts.put_together(self.plan, measured, tally, stop)? {
            true => Ok(()),
            false => Err(self.abort()),
        }
    }

    /// Waits for the other hosts, where there are any.
    pub(super) fn meet(&self) -> Result<(), Cut> {
        let Some(hosts) = self.hosts else {
            return Ok(());
        };
        let went = hosts.meet(&|| !self.surroundings.stop.is_stopped());
        let went = went.map_err(TrainError::from)?;
        if went { Ok(()) } else { Err(self.abort()) }
    }

    /// Goes on meeting the other hosts at the ends of steps for which this one had no data left.
    pub(super) fn catch_up(&self, kind: Kind<'_>, steps: u64) -> Result<(), Cut> {
        if let (Some(_), Kind::Training) = (self.hosts, kind) {
            let met = |machine: &mut Machine| machine.joint().map_or(0, |j| j.waits_us().len());
            let met = self.crew.shared.with(|machine, _| met(machine)) as u64;
            for _ in met..steps {
                self.meet()?;
            }
        }
        Ok(())
    }

    /// Ends the run where the other hosts have kept this one waiting for too long.
    pub(super) fn check_hosts(&self) {
        let Some(hosts) = self.hosts else {
            return;
        };
        let steps = self.crew.shared.with(|machine, _| machine.steps_done());
        if let Some(error) = hosts.overdue(steps > 0) {
            self.crew.shared.fail(error.into());
        }
    }

    /// How long to wait before the next look at the counters and at the other hosts.
    pub(super) fn patience(&self) -> Duration {
        let tick = self.plan.telemetry.tick();
        match self.hosts {
            None => tick,
            Some(_) => tick.min(LOOK_AT_HOSTS),
        }
    }
}
