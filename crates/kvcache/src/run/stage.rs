//! The part of a run that all its trials share.

use std::time::{Duration, Instant};

use stormlp_core::event::Observer;
use stormlp_core::stop::StopToken;
use stormlp_hosts::multi_host::Hosts;
use stormlp_transfer::storage::Storage;
use stormlp_transfer::telemetry::{BlockDevices, Instruments};

use super::chunk_files::ServingState;
use crate::plan::{KvcachePlan, Noise};

/// See the [module's description](self).
pub(super) struct Stage<'a> {
    pub(super) plan: &'a KvcachePlan,
    pub(super) folder: &'a std::path::Path,
    pub(super) storage: &'a dyn Storage,
    pub(super) observer: &'a dyn Observer,
    pub(super) stop: &'a StopToken,
    pub(super) devices: &'a BlockDevices,
    pub(super) instruments: &'a Instruments,
    pub(super) noise: &'a Noise,
    pub(super) started: Instant,
    /// The chunks that several runs share, if they do.
    pub(super) serving: Option<&'a ServingState<'a>>,
    /// The hosts, if several measure together.
    pub(super) hosts: Option<&'a Hosts>,
}

impl Stage<'_> {
    /// The time in which a trial is measured.
    pub(super) fn window(&self) -> Duration {
        Duration::from_secs_f64(self.plan.duration_seconds)
    }

    /// Whether chunks are moved with `O_DIRECT`.
    pub(super) fn is_direct(&self) -> bool {
        self.plan.transport.path.wants_direct()
    }
}
