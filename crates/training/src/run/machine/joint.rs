//! The step barrier over several hosts, as seen by the machine of one host.
//!
//! Once all accelerators of this host have arrived, the driver of the machine must wait for the
//! other hosts ([`Machine::take_wish`]) and report how long that took (`Machine::others_came`).
//!
//! The wait counts from the deadline at which the last accelerator arrived. If this host handled it
//! late and notified the other hosts late, they wait longer, but no time is charged here. This
//! matches a single host, where a barrier opens at the last accelerator's deadline, whenever it was
//! handled.

use stormlp_hosts::Next;

use super::Machine;
use super::queue::Nanos;

/// See the [module's description](self).
#[derive(Debug, Default)]
pub struct Joint {
    state: BarrierState,
    waits_us: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum BarrierState {
    /// Accelerators of this host are computing or waiting for data.
    #[default]
    Apart,
    /// All have arrived, but this has not been reported yet.
    Arrived(Nanos),
    /// Waiting for the other hosts since then.
    Waiting(Nanos),
}

impl Joint {
    pub(super) fn begin(&mut self) {
        self.state = BarrierState::Apart;
        self.waits_us.clear();
    }

    /// Ends the wait, of which other hosts caused `waited`. Returns when it began.
    fn pass(&mut self, waited: Nanos) -> Option<Nanos> {
        let BarrierState::Waiting(at) = self.state else {
            return None;
        };
        self.state = BarrierState::Apart;
        self.waits_us.push(u32::try_from(waited / 1000).unwrap_or(u32::MAX));
        Some(at)
    }

    /// The step that ends with a wait for the other hosts; returned once per step.
    pub fn take_wish(&mut self) -> Option<u64> {
        let BarrierState::Arrived(at) = self.state else {
            return None;
        };
        self.state = BarrierState::Waiting(at);
        Some(self.waits_us.len() as u64 + 1)
    }

    /// Waiting time of this host at each barrier of the phase, in microseconds.
    pub fn waits_us(&self) -> &[u32] {
        &self.waits_us
    }
}

impl Machine {
    /// Makes every barrier also wait for other hosts: see [`Joint`].
    #[must_use]
    pub fn with_other_hosts(mut self) -> Self {
        self.joint = Some(Joint::default());
        self
    }

    /// Whether to wait for the other hosts now, and the next step; returned once per barrier.
    pub fn take_wish(&mut self) -> Option<Next> {
        let step = self.joint.as_mut()?.take_wish()?;
        Some(self.after(step))
    }

    /// The work after the barrier of step `step`: before a checkpoint or the end of a phase, one
    /// host may have much more work than another.
    pub fn after(&self, step: u64) -> Next {
        let every = self.spec.checkpoint_steps;
        let is_saved = every.is_some_and(|every| every > 0 && step.is_multiple_of(every));
        if step >= self.spec.steps || is_saved { Next::Work } else { Next::Step }
    }

    /// The barriers with other hosts, if any.
    pub fn joint(&mut self) -> Option<&mut Joint> {
        self.joint.as_mut()
    }

    /// All accelerators of this host have reached the barrier, or all but one that has no steps
    /// left. Other hosts, if any, are then waited for.
    pub(super) fn all_came(&mut self, now: Nanos) {
        let at = now.max(self.last_arrival.0);
        match &mut self.joint {
            None => self.release(at),
            Some(joint) => joint.state = BarrierState::Arrived(at),
        }
    }

    /// All other hosts have reached the barrier; `waited` is the time from this host's arrival to
    /// the end.
    pub fn others_came(&mut self, waited: Nanos, now: Nanos) {
        let passed = self.joint.as_mut().and_then(|joint| joint.pass(waited));
        if let Some(at) = passed
            && !self.aborted
        {
            let opens = (at + waited).min(now);
            self.release(opens);
            self.settle(opens);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::drive_tests::workers;
    use super::super::phase::{Pace, PhaseSpec};
    use super::super::reads::{ReadResult, Share};
    use super::*;

    #[test]
    fn a_step_ends_when_the_other_hosts_have_arrived() {
        let mut machine = Machine::new(vec![workers(1, 1, 1)], false).with_other_hosts();
        let spec = PhaseSpec {
            steps: 2,
            barrier: true,
            shares: vec![Share { batches: 2, ..Share::default() }],
            ..PhaseSpec::nothing()
        };
        assert!(machine.begin(spec, 0));
        for (came, waited) in [(10_000, 80_000), (200_000, 5_000_000)] {
            let read = machine.next_read(came).unwrap();
            let landed = ReadResult { samples: 1, ..ReadResult::default() };
            machine.on_read_complete(read, landed, came);
            assert!(machine.take_wish().is_some());
            assert_eq!(machine.take_wish(), None, "it is reported once");
            assert_eq!(machine.halt(), None);
            machine.others_came(waited, came + waited);
        }
        assert!(machine.halt().is_some());
        assert_eq!(machine.joint().unwrap().waits_us(), [80, 5_000]);
        assert_eq!(machine.blocks()[0][0].barrier_ns, 80_000 + 5_000_000);
    }

    #[test]
    fn a_host_that_is_late_to_tell_the_others_takes_no_time_of_its_own() {
        const MS: Nanos = 1_000_000;
        let mut machine = Machine::new(vec![workers(1, 1, 1)], false).with_other_hosts();
        let spec = PhaseSpec {
            steps: 2,
            barrier: true,
            compute: Pace::Constant(10 * MS),
            shares: vec![Share { batches: 2, ..Share::default() }],
            ..PhaseSpec::nothing()
        };
        assert!(machine.begin(spec, 0));
        let read = |machine: &mut Machine, now| {
            let read = machine.next_read(now).unwrap();
            let landed = ReadResult { samples: 1, ..ReadResult::default() };
            machine.on_read_complete(read, landed, now);
        };
        read(&mut machine, 0);
        // The deadline at 10 ms is handled at 13 ms, and the others take a millisecond.
        machine.on_deadline(13 * MS, || 13 * MS);
        assert!(machine.take_wish().is_some());
        machine.others_came(MS, 15 * MS);
        assert_eq!(machine.joint().unwrap().waits_us(), [1000]);
        // The next batch was requested at 11 ms, and arrived when this host handled it.
        read(&mut machine, 15 * MS);
        assert_eq!(machine.next_deadline(), Some(25 * MS));
        assert_eq!(machine.accelerators[0].block.barrier_ns, MS);
    }
}
