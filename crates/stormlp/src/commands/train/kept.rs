//! Where a run is saved while it runs: its report, and the tree of a rehearsal.

use std::path::Path;

use stormlp_mlperf::training as mlperf;
use stormlp_training::plan::workload::Workload;
use stormlp_training::report::TrainReport;
use stormlp_training::run as training;
use stormlp_training::run::start::Prepared;
use stormlp_training::run::{Course, SoFar, Unit};

use super::super::deliver;
use super::super::submission::rehearsed::RehearsedTree;
use crate::output;
use stormlp_core::failure::Failure;
use stormlp_hosts::savers::Savers;
use stormlp_hosts::session::Session;
use stormlp_transfer::surroundings::unix_seconds;

/// The destinations of a run's results.
pub(super) struct Kept<'a> {
    pub(super) savers: Savers,
    pub(super) rehearsal: Option<RehearsedTree>,
    pub(super) workload: &'a Workload,
}

impl Kept<'_> {
    /// Makes room, and saves the report of a starting run.
    ///
    /// # Errors
    /// With exit code 4 if it cannot be written.
    pub(super) fn begin(&mut self, course: &Course<'_>) -> Result<(), Failure> {
        if let Some(tree) = &mut self.rehearsal {
            tree.set_aside()?;
        }
        if course.plan.transport.path.needs_cufile() {
            let plan = &course.plan;
            let require_gds = plan.request.require_gds;
            let devices = plan.transport.accelerators();
            self.savers.prepare_cufile(require_gds, devices, &course.head.host);
        }
        let begun = training::begun(course);
        self.savers.begin(&begun)
    }

    /// Saves a completed epoch, and adds a completed run to the tree.
    pub(super) fn unit(&mut self, unit: Unit, so_far: SoFar<'_>) {
        match (unit, &mut self.rehearsal) {
            (Unit::Epoch(epoch), _) => self.savers.epoch(&epoch, so_far),
            // What cannot be written now is retried, and reported, when all runs have ended.
            (Unit::Run, Some(tree)) => drop(tree.add_training(&so_far(), self.workload)),
            (Unit::Run, None) => {}
        }
    }

    /// Writes the files for MLPerf's tools, below `folder` unless this is a rehearsal.
    ///
    /// # Errors
    /// With exit code 4 if they cannot be written.
    pub(super) fn for_mlperf(
        &mut self,
        report: &TrainReport,
        folder: Option<&Path>,
    ) -> Result<(), Failure> {
        match &mut self.rehearsal {
            Some(tree) => tree.add_training(report, self.workload),
            None => folder.map_or(Ok(()), |folder| {
                deliver::write_mlperf(Some(folder), |taken| {
                    let steps = &report.results.steps;
                    mlperf::files(report, self.workload, steps, folder, taken)
                })
            }),
        }
    }
}

/// The number of the first run: a resumed rehearsal continues after its existing runs. `None` if it
/// has all of them.
///
/// # Errors
/// If the runs in the tree belong to another plan, or the reports cannot be written.
pub(super) fn first_run(
    tree: Option<&RehearsedTree>,
    is_dry: bool,
    prepared: &mut Prepared,
    session: &Session,
) -> Result<Option<u32>, Failure> {
    let Some(tree) = tree else {
        return Ok(Some(1));
    };
    let mut plan = prepared.plan.clone();
    plan.data.take_sizes(&prepared.data.inventory);
    let next = tree.next_run(&plan, &prepared.facts)?;
    let Some(number) = next else {
        if !is_dry {
            deliver::write_mlperf(Some(tree.folder()), |_| {
                tree.training_reports(&plan, &prepared.facts)
            })?;
        }
        tree.say_whole();
        return Ok(None);
    };
    for warning in tree.warnings(number, unix_seconds()) {
        if !session.quiet {
            output::say(format!("warning: {warning}"));
        }
        prepared.warnings.push(warning);
    }
    Ok(next)
}
