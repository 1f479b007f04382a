//! The official client's time in checkpoints, which is added to a run on request.

use std::fmt;

use serde::{Deserialize, Serialize};

use stormlp_core::calibration::CalibrationOrigin;
use stormlp_core::operation::Direction;

/// DLIO's time for a rank's data beyond this program's: it serialises, checks and copies it, on one
/// CPU for each rank.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckpointClient {
    /// Seconds for each GiB that a rank saves.
    pub save_seconds_per_gib: f64,
    /// Seconds for each GiB that a rank restores.
    pub restore_seconds_per_gib: f64,
    /// CPUs of a host, which its ranks share.
    pub cpus: u32,
    /// Where they were measured.
    pub origin: CalibrationOrigin,
}

impl CheckpointClient {
    /// Seconds for each GiB of a rank, one of so many on a host.
    pub fn seconds_per_gib(&self, direction: Direction, ranks: usize) -> f64 {
        let alone = match direction {
            Direction::Write => self.save_seconds_per_gib,
            Direction::Read => self.restore_seconds_per_gib,
        };
        alone * (ranks as f64 / f64::from(self.cpus.max(1))).max(1.0)
    }
}

impl fmt::Display for CheckpointClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "DLIO's overhead is added: {:.2} s for each GiB that a rank saves, {:.2} restores, {}",
            self.save_seconds_per_gib, self.restore_seconds_per_gib, self.origin
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_beyond_the_cpus_take_turns() {
        let client = CheckpointClient {
            save_seconds_per_gib: 0.5,
            restore_seconds_per_gib: 1.5,
            cpus: 4,
            ..CheckpointClient::default()
        };
        assert_eq!(client.seconds_per_gib(Direction::Write, 2), 0.5);
        assert_eq!(client.seconds_per_gib(Direction::Read, 8), 3.0);
        assert!(
            client.to_string().contains("0.50 s for each GiB that a rank saves, 1.50 restores")
        );
    }
}
