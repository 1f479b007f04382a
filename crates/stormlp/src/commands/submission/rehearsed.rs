//! Writes the tree of a rehearsal while its runs are made.

use std::path::Path;

use derive_more::{Deref, From};
use stormlp_checkpoint::report::CheckpointReport;
use stormlp_core::failure::Failure;
use stormlp_hosts::session::Session;
use stormlp_mlperf::rehearsed::RehearsedResult;
use stormlp_mlperf::submission::Edition;
use stormlp_training::plan::workload::Workload;
use stormlp_training::report::TrainReport;

use crate::commands::deliver;
use crate::output;

/// The tree of a rehearsal, which its runs are written to.
#[derive(Debug, Deref, From)]
pub(crate) struct RehearsedTree(RehearsedResult);

impl RehearsedTree {
    /// Whether the one run of a checkpointing result exists.
    ///
    /// # Errors
    /// With exit code 3 if another command created it.
    pub(crate) fn has_checkpoints(&self) -> Result<bool, Failure> {
        self.0.has_checkpoints(&Session::command_line().to_string())
    }

    /// Reports that no runs are left.
    pub(crate) fn say_whole(&self) {
        let made = self.folder().join("rehearsal");
        output::say(format!("nothing left to run: the result is complete in {}", made.display()));
    }

    /// Moves interrupted runs out of the tree, before the first run.
    ///
    /// # Errors
    /// With exit code 4 if they cannot be moved.
    pub(crate) fn set_aside(&mut self) -> Result<(), Failure> {
        self.0.set_aside(output::say)
    }

    /// Adds the completed runs of a report that the tree does not have yet.
    ///
    /// # Errors
    /// With exit code 4 if they cannot be written.
    pub(crate) fn add_training(
        &mut self,
        report: &TrainReport,
        workload: &Workload,
    ) -> Result<(), Failure> {
        let mut in_tree = Vec::new();
        deliver::write_mlperf(Some(self.folder()), |taken| {
            let (files, runs) = self.training(report, workload, taken);
            in_tree = runs;
            files
        })?;
        self.0.take(in_tree);
        Ok(())
    }

    /// Adds a checkpointing result, if it completed.
    ///
    /// # Errors
    /// With exit code 4 if it cannot be written.
    pub(crate) fn add_checkpointing(&self, report: &CheckpointReport) -> Result<(), Failure> {
        deliver::write_mlperf(Some(self.folder()), |taken| self.checkpointing(report, taken))
    }
}

/// Rejects files for MLPerf's tools in a rehearsal, which writes its own.
///
/// # Errors
/// With exit code 2.
pub(crate) fn refuse_output(asked: Option<&Path>) -> Result<(), Failure> {
    match asked {
        None => Ok(()),
        Some(_) => Err(Failure::usage(
            "--mlperf-output has no effect in a rehearsal: its files go below --tree",
        )),
    }
}

/// The failure if an option asks for another edition than `--edition`.
pub(crate) fn other_edition(option: &str, edition: Edition) -> Failure {
    Failure::usage(format!(
        "--edition {edition} and {option} are of different editions: leave out one of them"
    ))
}
