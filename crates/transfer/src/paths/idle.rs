//! How a thread waits when it gets no completion notification.

use std::time::Duration;

use stormlp_core::transport::WaitMode;

/// Polls before the first sleep, a few microseconds in total.
const LOOKS: u32 = 200;
/// The sleep time: short compared with any transfer worth sleeping for.
pub(super) const NAP: Duration = Duration::from_micros(20);

/// Waits between two polls: first by spinning, then by sleeping, unless it should only spin.
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

    /// Something was found: poll at once again.
    pub(super) fn found(&mut self) {
        self.looks = 0;
    }

    /// No transfer was found: wait before the next poll.
    pub(super) fn rest(&mut self) {
        self.looks = self.looks.saturating_add(1);
        if self.looks < LOOKS || self.wait == WaitMode::Spin {
            std::hint::spin_loop();
        } else {
            std::thread::sleep(NAP);
        }
    }
}
