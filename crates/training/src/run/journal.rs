//! A line of the report's journal after each epoch, and the report of a killed run with these lines.

use serde::{Deserialize, Serialize};
use stormlp_core::report::Ending;

use super::machine::Nanos;
use super::measure::{self, RunMeasured};
use crate::report::{EpochReport, RunReport, StepLatency, TrainReport, WrittenCheckpoint};

/// An epoch, and further changes in the report since the one before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedEpoch {
    /// The run it is from.
    pub run: u32,
    /// When that run started, in seconds since 1970.
    pub started_unix_seconds: f64,
    /// How long it had taken when the epoch ended.
    pub duration_seconds: f64,
    /// The checkpoints of this epoch so far, and of the one before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<WrittenCheckpoint>,
    /// The epoch.
    pub epoch: EpochReport,
}

impl SavedEpoch {
    /// The last epoch of `measured`, which is run `run`, at `now` on its clock; `None` before the
    /// first.
    pub(super) fn last_of(run: u32, measured: &RunMeasured, now: Nanos) -> Option<Self> {
        let report = &measured.report;
        let epoch = report.epochs.last()?.clone();
        let written = report.checkpoints.iter().rev();
        let mut checkpoints: Vec<WrittenCheckpoint> =
            written.take_while(|one| is_recent(one, &epoch)).copied().collect();
        checkpoints.reverse();
        Some(Self {
            run,
            started_unix_seconds: report.started_unix_seconds,
            duration_seconds: measure::seconds(now),
            checkpoints,
            epoch,
        })
    }

    /// Adds the epoch to `run`, in place of its entries from that epoch on.
    fn add_to(self, run: &mut RunReport) {
        let number = self.epoch.epoch;
        while run.checkpoints.pop_if(|one| is_recent(one, &self.epoch)).is_some() {}
        run.checkpoints.extend(self.checkpoints);
        while run.epochs.pop_if(|one| one.epoch >= number).is_some() {}
        run.epochs.push(self.epoch);
        run.started_unix_seconds = self.started_unix_seconds;
        run.duration_seconds = self.duration_seconds;
    }
}

/// Whether a checkpoint belongs to `epoch` or to the one before, after which it may have been
/// written.
fn is_recent(checkpoint: &WrittenCheckpoint, epoch: &EpochReport) -> bool {
    checkpoint.epoch.saturating_add(1) >= epoch.epoch
}

/// The `report` of a run that was killed, with the epochs in its journal. Figures that follow from
/// epochs are computed again; distributions and series, which cover fewer of them, are left out.
pub fn with_epochs(mut report: TrainReport, saved: Vec<SavedEpoch>) -> TrainReport {
    let plan = &report.plan;
    let mut runs = report.results.all_runs(plan);
    let mut is_new = false;
    for line in saved {
        let known = runs.iter().position(|run| run.run == line.run);
        // A report that was written just before the kill has epochs of the journal too.
        if known.is_some_and(|nth| has(&runs[nth], &line.epoch)) {
            continue;
        }
        is_new = true;
        let nth = known.unwrap_or_else(|| {
            // A run begins when the one before is complete.
            runs.iter_mut().for_each(|run| run.complete = true);
            let warm_up = plan.runs > 1 && line.run == 1;
            runs.push(RunReport { run: line.run, warm_up, ..RunReport::default() });
            runs.len() - 1
        });
        line.add_to(&mut runs[nth]);
    }
    if !is_new {
        return report;
    }
    for run in &mut runs {
        let (complete, seconds) = (run.complete, run.duration_seconds);
        measure::sum_up(run, plan, complete, seconds);
    }
    measure::take_runs(&mut report.results, plan, runs, &Ending::Unfinished);
    report.results.latency = StepLatency::default();
    if let Some(group) = &mut report.results.group {
        group.own_barrier_us = None;
    }
    report.histograms.clear();
    report.series.clear();
    report
}

/// Whether `run` has this very epoch.
fn has(run: &RunReport, epoch: &EpochReport) -> bool {
    let found = run.epochs.binary_search_by_key(&epoch.epoch, |one| one.epoch);
    found.is_ok_and(|nth| run.epochs[nth] == *epoch)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use stormlp_core::event::Silent;
    use stormlp_core::path::PathKind;
    use stormlp_core::report::{Head, ReportKind};
    use stormlp_core::stop::StopToken;
    use stormlp_dataset::inventory::facts::Inventory;
    use stormlp_transfer::run_context::RunContext;
    use stormlp_transfer::storage::{Disk, Storage};

    use super::super::training::{RunInputs, begun, run};
    use super::*;
    use crate::plan::catalog;
    use crate::plan::distribution::Distribution;
    use crate::plan::request::{RunLength, TrainRequest};
    use crate::plan::train_plan::TrainPlan;

    /// A run on null storage with `runs` of three epochs: its report when it has begun and after
    /// each line, and the lines.
    fn saved(runs: u32) -> (Vec<TrainReport>, Vec<SavedEpoch>) {
        let mut workload = catalog::find("unet3d", Some("h100")).unwrap().workload(&[]).unwrap();
        workload.reader.batch_size = 2;
        let request = TrainRequest {
            accelerators: Some(2),
            length: RunLength { epochs: Some(3), steps: Some(4) },
            compute: Some(Distribution::Constant { seconds: 0.0005 }),
            path: Some(PathKind::Null),
            runs: Some(runs),
            ..TrainRequest::default()
        };
        let (facts, nothing) = (stormlp_fixtures::host(), Inventory::default());
        let plan = TrainPlan::resolve(&workload, &request, &facts, &nothing).unwrap().plan;
        let head = Head::new(ReportKind::Train, String::new(), String::new(), facts);
        let course = RunInputs { head, plan, warnings: Vec::new(), inventory: &nothing };
        let storage: Arc<dyn Storage> = Arc::new(Disk);
        let stop = StopToken::default();
        let surroundings = RunContext { storage: &storage, observer: &Silent, stop: &stop };
        let (mut reports, mut lines) = (vec![begun(&course)], Vec::new());
        run(&course, &surroundings, &mut |epoch, so_far| {
            reports.push(so_far());
            lines.push(epoch);
        })
        .unwrap();
        (reports, lines)
    }

    /// A report as it is read from a file.
    fn read(report: &TrainReport) -> TrainReport {
        serde_json::from_str(&serde_json::to_string(report).unwrap()).unwrap()
    }

    /// The remains of `report`, of which the last lines are in the journal.
    fn left(report: &TrainReport) -> TrainReport {
        let mut left = read(report);
        left.results.latency = StepLatency::default();
        left.results.peak_rss_bytes = 0;
        (left.histograms, left.series) = (Vec::new(), Vec::new());
        (left.evidence, left.warnings) = (Vec::new(), Vec::new());
        // A run lasts a moment longer than to the end of its last epoch.
        left.results.runs.iter_mut().filter(|run| run.complete).for_each(|run| {
            run.duration_seconds = 0.0;
        });
        if !left.results.runs.is_empty() {
            left.results.duration_seconds = 0.0;
        }
        left
    }

    #[test]
    fn a_report_with_the_lines_since_is_the_report_of_all_its_epochs() {
        for runs in [1, 2] {
            let (reports, lines) = saved(runs);
            assert_eq!(lines.len() as u32, 3 * reports[0].plan.runs);
            let lines: Vec<SavedEpoch> =
                serde_json::from_str(&serde_json::to_string(&lines).unwrap()).unwrap();
            for whole in 0..reports.len() {
                // Lines from before the last save are left where a kill comes just after it.
                for (from, to) in [(whole, lines.len()), (whole / 2, lines.len()), (0, whole)] {
                    let found = with_epochs(read(&reports[whole]), lines[from..to].to_vec());
                    assert_eq!(left(&found), left(&reports[whole.max(to)]), "{whole}: {from}-{to}");
                    let has_all = !found.series.is_empty();
                    assert_eq!(has_all, whole > 0 && whole >= to, "{whole}: {from}-{to}");
                }
            }
        }
    }
}
