//! How a thread passes the time when nothing tells it that a transfer is over.

use std::time::Duration;

use stormlp_core::transport::WaitMode;

/// Looks in a row before the first nap, a few microseconds in all.
const LOOKS: u32 = 200;
/// How long a nap is: short against any transfer that is worth sleeping for.
pub(super) const NAP: Duration = Duration::from_micros(20);

/// Passes the time between two looks: at first at once, then asleep, unless it is to spin.
#[derive(Debug)]
pub(super) struct Idle {
    looks: u32,
    wait: WaitMode,
}

impl Idle {
    /// Waits as `wait` says.
    pub(super) fn waiting(wait: WaitMode) -> Self {
        Self { looks: 0, wait }
    }

    /// Something was found: the next look is at once again.
    pub(super) fn found(&mut self) {
        self.looks = 0;
    }

    /// Nothing was found.
    pub(super) fn rest(&mut self) {
        self.looks = self.looks.saturating_add(1);
        if self.looks < LOOKS || self.wait == WaitMode::Spin {
            std::hint::spin_loop();
        } else {
            std::thread::sleep(NAP);
        }
    }
}
