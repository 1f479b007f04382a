//! A run under way, and the events that cut it short.

use std::ops::Range;

use stormlp_hosts::multi_host::Hosts;
use stormlp_transfer::run_context::RunContext;
use stormlp_transfer::sampler::Sampler;
use stormlp_transfer::storage::Storage;
use stormlp_transfer::telemetry::BlockDevices;

use super::checkpoints::CheckpointWriter;
use crate::plan::probe::Judge;
use crate::plan::train_plan::TrainPlan;
use crate::report::WrittenCheckpoint;
use crate::run::error::TrainError;
use crate::run::machine::Nanos;
use crate::run::measure::{Distributions, RunMeasured};
use crate::run::thread_group::ThreadGroup;

/// Why a run ends early.
pub(super) enum Cut {
    /// The user stopped it.
    Stopped,
    /// Another thread failed and reported the reason.
    Failed,
    /// This thread failed.
    Error(TrainError),
}

impl<E: Into<TrainError>> From<E> for Cut {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

/// Whether this host ends the run, so waiting is useless.
pub(super) fn has_failed<T>(went: &Result<T, Cut>) -> bool {
    matches!(went, Err(Cut::Error(_) | Cut::Failed))
}

/// Called after each epoch, with a time on the run's clock, the run's measurements (not yet summed
/// up) and its distributions.
pub(in crate::run) type OnEpoch<'a> = &'a mut dyn FnMut(&mut RunMeasured, &Distributions, Nanos);

/// A run under way.
pub(super) struct Runner<'a> {
    pub(super) plan: &'a TrainPlan,
    pub(super) surroundings: &'a RunContext<'a>,
    pub(super) distributions: &'a mut Distributions,
    pub(super) on_epoch: OnEpoch<'a>,
    pub(super) judge: Option<&'a mut Judge>,
    pub(super) devices: BlockDevices,
    pub(super) sampler: Sampler<'a>,
    pub(super) measured: RunMeasured,
    /// Writes checkpoints, if this host does.
    pub(super) writer: Option<CheckpointWriter<'a>>,
    /// Checkpoints of the current phase.
    pub(super) written: Vec<WrittenCheckpoint>,
    pub(super) storage: &'a dyn Storage,
    pub(super) thread_group: ThreadGroup,
    pub(super) hosts: Option<&'a Hosts>,
    /// The accelerators of this host.
    pub(super) own: Range<u32>,
}

impl Runner<'_> {
    /// Ends the phase because the user stopped the run.
    pub(super) fn abort(&self) -> Cut {
        self.thread_group.shared.with(|machine, now| machine.abort(now));
        Cut::Stopped
    }

    /// Whether a thread has failed.
    pub(super) fn verdict(&self) -> Result<(), Cut> {
        if self.thread_group.shared.failed() { Err(Cut::Failed) } else { Ok(()) }
    }
}
