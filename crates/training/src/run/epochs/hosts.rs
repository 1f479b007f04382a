//! Coordination with other hosts: meeting them and merging measurements.

use std::time::Duration;

use stormlp_hosts::multi_host::Hosts;

use super::super::error::TrainError;
use super::super::machine::Machine;
use super::super::measure::PhaseMeasured;
use super::runner::{Cut, Runner, has_failed};
use crate::run::prepare::Order;

/// Interval for checking whether other hosts keep this one waiting.
const LOOK_AT_HOSTS: Duration = Duration::from_millis(200);

impl Runner<'_> {
    /// Runs all epochs, and waits for the other hosts at their end.
    pub(super) fn all_epochs(&mut self, order: &dyn Order) -> Result<(), Cut> {
        let Some(hosts) = self.hosts else {
            return self.epochs(order);
        };
        self.works()?;
        let went = self.epochs(order);
        if has_failed(&went) {
            return went;
        }
        // Saving the last epoch may be slower on one host than on the rest.
        hosts.edge().map_err(TrainError::from)?;
        went
    }

    /// Merges this host's measurements with all hosts'.
    pub(super) fn put_together(&mut self, measured: &mut PhaseMeasured) -> Result<(), Cut> {
        let Some(hosts) = self.hosts else {
            return Ok(());
        };
        let all = hosts.exchange(measured, self.surroundings.stop).map_err(TrainError::from)?;
        let Some(all) = all else {
            return Err(self.abort());
        };
        measured.take_all(all, hosts.names());
        self.works()
    }

    /// Whether the result of a phase can be merged: it finished on all hosts, or all were informed
    /// that one was stopped.
    pub(super) fn ends_with_others(&self, went: &Result<(), Cut>) -> bool {
        let told = |hosts: &Hosts| hosts.was_terminated() && !hosts.are_apart();
        match went {
            Ok(()) => true,
            Err(Cut::Stopped) => self.hosts.is_some_and(told),
            Err(Cut::Failed | Cut::Error(_)) => false,
        }
    }

    /// Informs the other hosts that this one is busy until all meet again: in the meantime it
    /// evicts caches and saves reports.
    pub(super) fn works(&self) -> Result<(), Cut> {
        let works = self.hosts.map_or(Ok(()), |hosts| hosts.works(self.surroundings.stop));
        Ok(works.map_err(TrainError::from)?)
    }

    /// Waits for the other hosts before a phase. Hosts send no
    /// heartbeats between the barriers of consecutive steps, but they do before the first step and
    /// after a checkpoint.
    pub(super) fn meet_before_phase(&self) -> Result<(), Cut> {
        let Some(hosts) = self.hosts else {
            return Ok(());
        };
        let stop = self.surroundings.stop;
        let went = hosts.meet(&|| !stop.is_stopped()).map_err(TrainError::from)?;
        if !went {
            return Err(self.abort());
        }
        Ok(hosts.run_with_heartbeat(stop).map(drop).map_err(TrainError::from)?)
    }

    /// Keeps meeting the other hosts at the ends of steps for which this host has no data left.
    pub(super) fn catch_up(&self, steps: u64) -> Result<(), Cut> {
        let Some(hosts) = self.hosts else {
            return Ok(());
        };
        let met = |machine: &mut Machine| machine.joint().map_or(0, |j| j.waits_us().len());
        let met = self.thread_group.shared.with(|machine, _| met(machine)) as u64;
        let stop = self.surroundings.stop;
        let goes_on = || {
            if hosts.waits_for_stopped() {
                stop.stop();
            }
            !stop.is_stopped()
        };
        for step in met + 1..=steps {
            let next = self.thread_group.shared.with(|machine, _| machine.after(step));
            let went = hosts.step(next, &goes_on).map_err(TrainError::from)?;
            if !went {
                return Err(self.abort_for_all());
            }
        }
        Ok(())
    }

    /// Ends the run if the other hosts have kept this one waiting for too long.
    pub(super) fn check_hosts(&self) {
        let Some(hosts) = self.hosts else {
            return;
        };
        if hosts.waits_for_stopped() {
            self.surroundings.stop.stop();
            return;
        }
        if let Some(error) = hosts.lost() {
            self.thread_group.shared.fail(error.into());
        }
    }

    /// Aborts the phase because this host was stopped, and informs hosts that wait at a step
    /// barrier.
    pub(super) fn abort_for_all(&self) -> Cut {
        // This host no longer reaches any barrier.
        let cut = self.abort();
        let Some(hosts) = self.hosts else {
            return cut;
        };
        // Before the first step, and after a checkpoint, hosts learn of it from each other. A lost
        // host also triggers the stop.
        if let Err(error) = hosts.edge() {
            return TrainError::from(error).into();
        }
        if !hosts.was_terminated() {
            hosts.say_stopped(self.surroundings.stop);
        }
        cut
    }

    /// Wait time until the next check of the counters and the other hosts.
    pub(super) fn patience(&self) -> Duration {
        let tick = self.plan.request.tune.telemetry.tick();
        match self.hosts {
            None => tick,
            Some(_) => tick.min(LOOK_AT_HOSTS),
        }
    }
}
