//! The files of checkpoints that are written during training.

use crate::plan::train_plan::{CheckpointPlan, TrainPlan};
use rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use stormlp_core::stop::StopToken;
use stormlp_hosts::multi_host::Hosts;
use stormlp_transfer::TransferError;
use stormlp_transfer::storage::{Access, Storage};

use super::super::error::TrainError;

/// The checkpoint writer, if this host writes them; as in DLIO the first accelerator does.
pub(super) fn writer<'a>(
    plan: &'a TrainPlan,
    hosts: Option<&Hosts>,
    storage: &'a dyn Storage,
) -> Result<Option<CheckpointWriter<'a>>, TrainError> {
    let writes = hosts.is_none_or(|hosts| hosts.group.leads());
    let rules = plan.checkpoint.as_ref().filter(|_| writes);
    rules.map(|rules| CheckpointWriter::new(storage, rules)).transpose()
}

/// Bytes per write.
const BUFFER_BYTES: usize = 1 << 20;

/// Writes checkpoints of one size into one folder.
pub(super) struct CheckpointWriter<'a> {
    storage: &'a dyn Storage,
    plan: &'a CheckpointPlan,
    buffer: Vec<u8>,
}

impl<'a> CheckpointWriter<'a> {
    /// Creates the folder and incompressible content.
    pub(super) fn new(
        storage: &'a dyn Storage,
        plan: &'a CheckpointPlan,
    ) -> Result<Self, TrainError> {
        let folder = plan.folder.folder();
        storage.hold(folder);
        storage.make_folder(folder).map_err(failed)?;
        let mut buffer = vec![0; BUFFER_BYTES];
        Xoshiro256PlusPlus::seed_from_u64(plan.bytes).fill_bytes(&mut buffer);
        Ok(Self { storage, plan, buffer })
    }

    /// Writes one checkpoint through the page cache, without fsync, like DLIO. Returns its bytes,
    /// or `None` when `stop` was triggered meanwhile. An incomplete checkpoint is removed.
    pub(super) fn write(
        &mut self,
        epoch: u32,
        step: u64,
        stop: &StopToken,
    ) -> Result<Option<u64>, TrainError> {
        let path = self.plan.folder.join(format!("model-{epoch}-{step}-0.pt"));
        let write = || {
            let file = self.storage.open(&path, Access::Create, false)?;
            let mut written = 0;
            while written < self.plan.bytes {
                if stop.is_stopped() {
                    return Ok(None);
                }
                let left = self.plan.bytes - written;
                let part = left.min(BUFFER_BYTES as u64) as usize;
                let part = &self.buffer[..part];
                self.storage.write_at(&file, &path, written, part)?;
                written += part.len() as u64;
            }
            Ok(Some(self.plan.bytes))
        };
        let written = write();
        if !matches!(written, Ok(Some(_))) {
            self.storage.discard(&path);
        }
        written.map_err(failed)
    }
}

fn failed(error: TransferError) -> TrainError {
    let told = |error| match error {
        TransferError::File { path, source, .. } => {
            TransferError::file("write the checkpoint", path, source)
        }
        other => other,
    };
    TrainError::Checkpoint(match error {
        TransferError::At { offset, source } => told(*source).at(offset),
        other => told(other),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use stormlp_transfer::storage::Disk;

    #[test]
    fn a_checkpoint_has_the_size_it_should_and_is_named_by_epoch_and_step() {
        let folder = tempfile::tempdir().unwrap();
        let plan = CheckpointPlan {
            folder: folder.path().join("sub").into(),
            bytes: 2_500_000,
            after_epoch: Some(1),
            epochs_between: 1,
            steps_between: None,
        };
        let mut writer = CheckpointWriter::new(&Disk, &plan).unwrap();
        let stop = StopToken::default();
        assert_eq!(writer.write(5, 24, &stop).unwrap(), Some(2_500_000));
        let path = plan.folder.join("model-5-24-0.pt");
        assert_eq!(fs::metadata(path).unwrap().len(), 2_500_000);
        stop.stop();
        assert_eq!(writer.write(6, 24, &stop).unwrap(), None);
        assert!(!plan.folder.join("model-6-24-0.pt").exists());
    }
}
