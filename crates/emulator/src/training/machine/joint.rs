//! The barrier of a step over several hosts, as the machine of one of them sees it.
//!
//! Once all accelerators of this host have come, whoever drives the machine is to wait for the
//! other hosts ([`Joint::take_wish`]) and to say when they have come (`Machine::others_came`).

use super::{Machine, Nanos};

/// See the [module's description](self).
#[derive(Debug, Default)]
pub struct Joint {
    state: State,
    waits_us: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// Accelerators of this host compute or wait for data.
    #[default]
    Apart,
    /// All of them have come, which nobody has been told yet.
    Came { for_the_last: bool },
    /// The others are being waited for.
    Waiting { for_the_last: bool },
}

impl Joint {
    pub(super) fn begin(&mut self) {
        self.state = State::Apart;
        self.waits_us.clear();
    }

    fn come(&mut self, for_the_last: bool) {
        self.state = State::Came { for_the_last };
    }

    /// The wait is over; whether it was for the accelerator that came last.
    fn pass(&mut self, came: Nanos, now: Nanos) -> Option<bool> {
        let State::Waiting { for_the_last } = self.state else {
            return None;
        };
        self.state = State::Apart;
        let wait_us = now.saturating_sub(came) / 1000;
        self.waits_us
            .push(u32::try_from(wait_us).unwrap_or(u32::MAX));
        Some(for_the_last)
    }

    /// Whether the other hosts are to be waited for now; says so once for each barrier.
    pub fn take_wish(&mut self) -> bool {
        let State::Came { for_the_last } = self.state else {
            return false;
        };
        self.state = State::Waiting { for_the_last };
        true
    }

    /// How long each barrier of the phase kept this host waiting, in microseconds.
    pub fn waits_us(&self) -> &[u32] {
        &self.waits_us
    }
}

impl Machine {
    /// Lets every barrier wait for other hosts, too: see [`Joint`].
    #[must_use]
    pub fn with_other_hosts(mut self) -> Self {
        self.joint = Some(Joint::default());
        self
    }

    /// The barriers with other hosts, where there are any.
    pub fn joint(&mut self) -> Option<&mut Joint> {
        self.joint.as_mut()
    }

    /// All accelerators of this host have come to the barrier, or all but one that has nothing left
    /// to compute. Where there are other hosts, they are waited for.
    pub(super) fn all_came(&mut self, for_the_last: bool, now: Nanos) {
        match &mut self.joint {
            None => self.release(for_the_last, now),
            Some(joint) => joint.come(for_the_last),
        }
    }

    /// All other hosts have come to the barrier to which this one came at `came`.
    pub fn others_came(&mut self, came: Nanos, now: Nanos) {
        let passed = self.joint.as_mut().and_then(|joint| joint.pass(came, now));
        if let Some(for_the_last) = passed
            && !self.aborted
        {
            self.release(for_the_last, now);
            self.settle(now);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::drive_tests::workers;
    use super::super::{Landed, PhaseSpec, Share};
    use super::*;

    #[test]
    fn a_step_ends_when_the_other_hosts_have_come_too() {
        let mut machine = Machine::new(vec![workers(1, 1, 1)], false).with_other_hosts();
        let spec = PhaseSpec {
            steps: 2,
            barrier: true,
            shares: vec![Share {
                batches: 2,
                ..Share::default()
            }],
            ..PhaseSpec::nothing()
        };
        assert!(machine.begin(spec, 0));
        for (came, passed) in [(10_000, 90_000), (200_000, 5_200_000)] {
            let read = machine.next_read(came).unwrap();
            let landed = Landed {
                samples: 1,
                ..Landed::default()
            };
            machine.on_read_complete(read, landed, came);
            assert!(machine.joint().unwrap().take_wish());
            assert!(!machine.joint().unwrap().take_wish(), "it is told once");
            assert_eq!(machine.halt(), None);
            machine.others_came(came, passed);
        }
        assert!(machine.halt().is_some());
        assert_eq!(machine.joint().unwrap().waits_us(), [80, 5_000]);
        assert_eq!(machine.blocks()[0][0].barrier_ns, 80_000 + 5_000_000);
    }
}
