//! Coordination with other hosts: meeting them and merging measurements.

use std::time::Duration;

use crate::plan::barrier::StepBarrier;
use crate::report::WaitingSeconds;

use super::super::attribution::Reading;
use super::super::together::{put_run_together, put_together};
use stormlp_hosts::company::Hosts;

use super::super::error::TrainError;
use super::super::machine::Machine;
use super::super::measure::PhaseMeasured;
use super::super::together::HostsTally;
use super::{Cut, Distributions, PhaseKind, Runner};
use crate::run::prepare::Orders;

/// Interval for checking whether other hosts keep this one waiting.
const LOOK_AT_HOSTS: Duration = Duration::from_millis(200);

impl<'a> Runner<'a> {
    /// Runs all epochs. Independent hosts meet only before the first and after the last epoch.
    pub(super) fn all_epochs(&mut self, orders: &Orders) -> Result<(), Cut> {
        let Some(hosts) = self.hosts else {
            return self.epochs(orders);
        };
        self.works()?;
        if !self.is_on_its_own() {
            let went = self.epochs(orders);
            if has_failed(&went) {
                return went;
            }
            // Saving the last epoch may take one host longer than the others.
            hosts.edge().map_err(TrainError::from)?;
            return went;
        }
        self.meet()?;
        let stop = self.surroundings.stop;
        let (went, heard) = hosts.alongside(stop, || self.epochs(orders), has_failed);
        let went = match heard {
            Err(error) => Err(TrainError::from(error).into()),
            Ok(true) => went.and(Err(Cut::Stopped)),
            Ok(false) => went,
        };
        // After losing a host nothing can be exchanged: this host keeps its own measurements.
        let ends_alike = matches!(went, Ok(()) | Err(Cut::Stopped)) && !hosts.are_apart();
        if ends_alike { self.put_run_together().and(went) } else { went }
    }

    /// Keeps a phase of this host for merging with those of the others at the end of the run,
    /// unless it was `cut`, and records it as this host's own until then. Earlier runs cover all
    /// hosts, and one host's epochs are not mixed with them.
    pub(super) fn keep_own(
        &mut self,
        (epoch, kind, measured): (u32, PhaseKind<'a>, PhaseMeasured),
        cut: bool,
    ) {
        if let Some(hosts) = self.hosts.filter(|_| self.plan.runs == 1) {
            if matches!(kind, PhaseKind::Training) {
                let tally = &mut self.distributions.hosts;
                tally.add_own(hosts, self.plan, &measured);
            }
            self.book(epoch, kind, &measured);
        }
        if !cut {
            self.pending.push((epoch, kind, measured));
        }
    }

    /// Whether this host proceeds from epoch to epoch without waiting for others.
    pub(super) fn is_on_its_own(&self) -> bool {
        self.hosts.is_some() && self.plan.request.barrier == StepBarrier::None
    }

    /// Whether a barrier over all hosts ends each step of a phase.
    fn has_step_barrier(&self, kind: PhaseKind<'_>) -> bool {
        matches!(kind, PhaseKind::Training) && self.plan.request.barrier.is_at_every_step()
    }

    /// Merges this host's measurements with those of all hosts.
    pub(super) fn put_together(
        &mut self,
        kind: PhaseKind<'_>,
        measured: &mut PhaseMeasured,
    ) -> Result<(), Cut> {
        let Some(hosts) = self.hosts else {
            return Ok(());
        };
        let tally = match kind {
            PhaseKind::Training => Some(&mut self.distributions.hosts),
            PhaseKind::Evaluation(_) => None,
        };
        let stop = self.surroundings.stop;
        if put_together(hosts, self.plan, measured, tally, stop)? {
            self.works()
        } else {
            Err(self.abort())
        }
    }

    /// Whether the result of a phase can be merged: it finished on all hosts, or all were informed
    /// that one was stopped.
    pub(super) fn ends_with_others(&self, went: &Result<(), Cut>) -> bool {
        let told = |hosts: &Hosts| hosts.were_told_to_end() && !hosts.are_apart();
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

    /// The same for all phases of the run that every host completed.
    fn put_run_together(&mut self) -> Result<(), Cut> {
        let Some(hosts) = self.hosts else {
            return Ok(());
        };
        let mut pending = std::mem::take(&mut self.pending);
        let phases = pending
            .iter_mut()
            .map(|(_, kind, measured)| (matches!(kind, PhaseKind::Training), measured));
        let mut checkpoints = self.measured.report.checkpoints.clone();
        let mut tally = match self.plan.runs {
            1 => HostsTally::default(),
            _ => self.distributions.hosts.clone(),
        };
        let others = (&mut tally, self.surroundings.stop);
        let whole = put_run_together(hosts, self.plan, phases, &mut checkpoints, others)?
            .ok_or(Cut::Stopped)?;
        if whole == 0 {
            return Ok(());
        }
        if self.plan.runs == 1 {
            // They replace this host's own.
            *self.distributions = Distributions::default();
            self.measured.report.epochs.clear();
            self.measured.steps.clear();
        }
        self.distributions.hosts = tally;
        self.measured.report.checkpoints = checkpoints;
        pending.truncate(whole);
        for (epoch, kind, measured) in pending {
            self.book(epoch, kind, &measured);
        }
        Ok(())
    }

    /// Waits for the other hosts before a phase, if all begin it together. Hosts send no
    /// heartbeats between the barriers of consecutive steps, but they do before the first step and
    /// after a checkpoint.
    pub(super) fn meet_before_phase(&self, kind: PhaseKind<'_>) -> Result<(), Cut> {
        if self.is_on_its_own() {
            return Ok(());
        }
        self.meet()?;
        let hosts = self.hosts.filter(|_| self.has_step_barrier(kind));
        let works = hosts.map(|hosts| hosts.works_watchfully(self.surroundings.stop));
        Ok(works.transpose().map(drop).map_err(TrainError::from)?)
    }

    /// Waits for the other hosts, if any.
    fn meet(&self) -> Result<(), Cut> {
        let Some(hosts) = self.hosts else {
            return Ok(());
        };
        let went =
            hosts.meet(&|| !self.surroundings.stop.is_stopped()).map_err(TrainError::from)?;
        if went { Ok(()) } else { Err(self.abort()) }
    }

    /// Watches a phase. Hosts without step barriers send heartbeats meanwhile, and wait for each
    /// other at its end.
    pub(super) fn watch_with_others(
        &mut self,
        epoch: u32,
        kind: PhaseKind<'_>,
        first: Reading,
    ) -> (Reading, WaitingSeconds, Result<(), Cut>) {
        let apart = !self.has_step_barrier(kind) && !self.is_on_its_own();
        let Some(hosts) = self.hosts.filter(|_| apart) else {
            return self.watch(epoch, first);
        };
        let stop = self.surroundings.stop;
        let watch = || {
            let (last, waiting, went) = self.watch(epoch, first);
            (last, waiting, went.and_then(|()| self.verdict()))
        };
        let ((last, waiting, went), heard) =
            hosts.alongside(stop, watch, |(_, _, went)| has_failed(went));
        let went = match heard {
            Err(error) => Err(TrainError::from(error).into()),
            Ok(true) => went.and(Err(self.abort())),
            Ok(false) => went,
        };
        (last, waiting, went)
    }

    /// Keeps meeting the other hosts at the ends of steps for which this host has no data left.
    pub(super) fn catch_up(&self, kind: PhaseKind<'_>, steps: u64) -> Result<(), Cut> {
        let Some(hosts) = self.hosts.filter(|_| self.has_step_barrier(kind)) else {
            return Ok(());
        };
        let met = |machine: &mut Machine| machine.joint().map_or(0, |j| j.waits_us().len());
        let met = self.crew.shared.with(|machine, _| met(machine)) as u64;
        let stop = self.surroundings.stop;
        let goes_on = || {
            if hosts.waits_for_stopped() {
                stop.stop();
            }
            !stop.is_stopped()
        };
        for step in met + 1..=steps {
            let next = self.crew.shared.with(|machine, _| machine.after(step));
            let went = hosts.step(next, &goes_on).map_err(TrainError::from)?;
            if !went {
                return Err(self.abort_for_all());
            }
        }
        Ok(())
    }

    /// Ends the run if the other hosts have kept this one waiting for too long.
    pub(super) fn check_hosts(&self) {
        // Without step barriers hosts send heartbeats.
        let waits = self.plan.request.barrier.is_at_every_step();
        let Some(hosts) = self.hosts.filter(|_| waits) else {
            return;
        };
        if hosts.waits_for_stopped() {
            self.surroundings.stop.stop();
            return;
        }
        if let Some(error) = hosts.lost() {
            self.crew.shared.fail(error.into());
        }
    }

    /// Aborts the phase because this host was stopped, and informs hosts that wait at a step
    /// barrier.
    pub(super) fn abort_for_all(&self) -> Cut {
        // This host no longer reaches any barrier.
        let cut = self.abort();
        let waited_for = self.hosts.filter(|_| self.plan.request.barrier.is_at_every_step());
        let Some(hosts) = waited_for else {
            return cut;
        };
        // Before the first step, and after a checkpoint, hosts learn of it from each other. A lost
        // host also triggers the stop.
        if let Err(error) = hosts.edge() {
            return TrainError::from(error).into();
        }
        if !hosts.were_told_to_end() {
            hosts.say_stopped(self.surroundings.stop);
        }
        cut
    }

    /// Wait time until the next check of the counters and the other hosts.
    pub(super) fn patience(&self) -> Duration {
        let tick = self.plan.request.telemetry.tick();
        match self.hosts {
            None => tick,
            Some(_) => tick.min(LOOK_AT_HOSTS),
        }
    }
}

/// Whether this host ends the run, so there is nothing to wait for.
pub(super) fn has_failed<T>(went: &Result<T, Cut>) -> bool {
    matches!(went, Err(Cut::Error(_) | Cut::Failed))
}
