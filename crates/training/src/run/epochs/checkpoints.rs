//! Checkpoints written during training: within an epoch, where one accelerator stays behind for it,
//! and between epochs.

use crate::plan::train_plan::TrainPlan;
use crate::report::WrittenCheckpoint;
use stormlp_transfer::storage::Storage;

use super::super::checkpoint::Writer;
use super::super::error::TrainError;
use super::hosts::has_failed;
use super::{Cut, Runner};
use stormlp_hosts::company::Hosts;

/// The checkpoint writer, if this host writes them; as in DLIO the first accelerator does.
pub(super) fn writer<'a>(
    plan: &'a TrainPlan,
    hosts: Option<&Hosts>,
    storage: &'a dyn Storage,
) -> Result<Option<Writer<'a>>, TrainError> {
    let writes = hosts.is_none_or(|hosts| hosts.group.leads());
    let rules = plan.checkpoint.as_ref().filter(|_| writes);
    rules.map(|rules| Writer::new(storage, rules)).transpose()
}

impl Runner<'_> {
    /// Writes the checkpoint after a step; other hosts learn of it at the end of the epoch.
    pub(super) fn checkpoint_within(&mut self, epoch: u32, step: u64) -> Result<(), Cut> {
        let stop = self.surroundings.stop;
        let written = match self.hosts {
            None => self.write(epoch, step)?,
            // Nothing else checks on the other hosts in the meantime.
            Some(hosts) => {
                let written = hosts.watched(stop, || self.write(epoch, step));
                written.map_err(TrainError::from)??
            }
        };
        self.written.extend(written);
        Ok(())
    }

    /// Writes the checkpoint after an epoch. The other hosts wait for it, unless each host proceeds
    /// independently.
    pub(super) fn checkpoint_after(&mut self, epoch: u32) -> Result<(), Cut> {
        let step = self.plan.steps_per_epoch;
        let together = self.hosts.filter(|_| !self.is_on_its_own());
        let Some(hosts) = together else {
            let written = self.write(epoch, step)?;
            self.measured.report.checkpoints.extend(written);
            return Ok(());
        };
        let stop = self.surroundings.stop;
        let (written, heard) = hosts.alongside(stop, || self.write(epoch, step), has_failed);
        let stopped = heard.map_err(TrainError::from)?;
        let written = written?;
        if stopped {
            return Err(Cut::Stopped);
        }
        let all = hosts
            .exchange(&written, stop)
            .map_err(TrainError::from)?
            .ok_or(Cut::Stopped)?
            .into_iter()
            .flatten();
        self.measured.report.checkpoints.extend(all);
        self.works()
    }

    /// Writes a checkpoint if this host is responsible for it.
    fn write(&mut self, epoch: u32, step: u64) -> Result<Option<WrittenCheckpoint>, Cut> {
        let Some(writer) = &mut self.writer else {
            return Ok(None);
        };
        let started = self.crew.shared.now();
        let Some(bytes) = writer.write(epoch, step, self.surroundings.stop)? else {
            return Err(Cut::Stopped);
        };
        Ok(Some(WrittenCheckpoint {
            epoch,
            step,
            bytes,
            started_seconds: started as f64 / 1e9,
            duration_seconds: (self.crew.shared.now() - started) as f64 / 1e9,
        }))
    }
}
