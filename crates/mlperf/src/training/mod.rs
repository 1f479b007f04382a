//! The files that MLPerf Storage's own tools read: DLIO's `summary.json`, the statistics of each
//! epoch and step, and the configuration folder, in the layout of v2.0 or v3.0.
//!
//! One run is one folder. "MB" and "GB" in DLIO's key names are MiB and GiB.

mod config;
mod steps;
mod summary;

use serde_json::{Value, json};
use stormlp_core::profile::Profile;
use stormlp_core::report::Ending;
use stormlp_training::plan::workload::Workload;
use stormlp_training::report::{EpochReport, StepLists, TrainReport, WrittenCheckpoint};

use crate::official::{Metadata, OutputFile, free_folder, hydra, override_list, pretty};

/// One run of a report.
struct Run<'a> {
    report: &'a TrainReport,
    /// Its number, from 1, and whether it is the warm-up.
    number: u32,
    warm_up: bool,
    epochs: &'a [EpochReport],
    /// Whether it ran to its end.
    complete: bool,
    /// Whether it did, and reached the threshold.
    meets_threshold: bool,
    started: f64,
    duration: f64,
    steps: &'a [StepLists],
    checkpoints: &'a [WrittenCheckpoint],
}

/// The files of every run of `report`. `steps` are the times of every step, run by run; where a
/// run has none, its `load`, `proc` and `compute` lists are left out. A run's folder is named for
/// the second in which it began; where `taken` says that a folder of this name is there already,
/// and for several runs of one second, for the next one that is free.
#[must_use]
pub fn files(
    report: &TrainReport,
    workload: &Workload,
    steps: &[Vec<StepLists>],
    taken: &dyn Fn(&str) -> bool,
) -> Vec<OutputFile> {
    let results = match report.results.profile {
        Profile::V3 => format!("whatif/stormlp/results/{}", report.head.host.hostname),
        Profile::V1 | Profile::V2 | Profile::Native => String::new(),
    };
    files_below(&results, report, workload, steps, Which::All, taken)
}

/// Which runs of a report have their files written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// Those that were cut short, too.
    All,
    /// Those that came to their end, beyond the first so many, which have theirs.
    EndedBeyond(u32),
}

impl Which {
    fn has(self, run: &Run) -> bool {
        match self {
            Self::All => true,
            Self::EndedBeyond(written) => run.complete && run.number > written,
        }
    }
}

/// The same of some of the runs, below the folder `results`.
pub(crate) fn files_below(
    results: &str,
    report: &TrainReport,
    workload: &Workload,
    steps: &[Vec<StepLists>],
    which: Which,
    taken: &dyn Fn(&str) -> bool,
) -> Vec<OutputFile> {
    let mut files = Vec::new();
    let mut folders: Vec<String> = Vec::new();
    let mut runs = runs(report, steps);
    runs.retain(|run| which.has(run));
    for (index, run) in runs.iter().enumerate() {
        let is_taken = |name: &str| taken(name) || folders.iter().any(|folder| folder == name);
        let free = free_folder(&parent(results, run), run.started, is_taken);
        folders.push(free);
        run_files(run, workload, &folders[index], &mut files);
    }
    files
}

fn runs<'a>(report: &'a TrainReport, steps: &'a [Vec<StepLists>]) -> Vec<Run<'a>> {
    let steps_of = |index: usize| steps.get(index).map_or(&[][..], Vec::as_slice);
    if report.results.runs.is_empty() {
        return vec![Run {
            report,
            number: 1,
            warm_up: false,
            epochs: &report.results.epochs,
            complete: report.ending == Ending::Complete,
            meets_threshold: report.results.meets_threshold,
            started: report.results.started_unix_seconds,
            duration: report.results.duration_seconds,
            steps: steps_of(0),
            checkpoints: &report.results.checkpoints,
        }];
    }
    let several = report.results.runs.iter().enumerate().map(|(index, one)| Run {
        report,
        number: one.run,
        warm_up: one.warm_up,
        epochs: &one.epochs,
        complete: one.complete,
        meets_threshold: one.meets_threshold,
        started: one.started_unix_seconds,
        duration: one.duration_seconds,
        steps: steps_of(index),
        checkpoints: &one.checkpoints,
    });
    several.collect()
}

impl<'a> Run<'a> {
    /// Whose run it is, for files that look like those of others.
    fn mark(&self) -> Value {
        json!({
            "version": self.report.head.host.stormlp_version,
            "profile": self.report.results.profile,
            "run": self.number,
            "warm_up": self.warm_up,
            "held_to_closed_rules": self.report.plan.closed,
            "client": self.report.plan.client.map(|client| json!({
                "step_seconds": client.step_seconds,
                "cpu_seconds_per_gib": client.cpu_seconds_per_gib,
                "estimated": client.estimated,
            })),
        })
    }

    /// The epochs that count: all but one that was cut short.
    fn scored(&self) -> impl Iterator<Item = &'a EpochReport> {
        let plan = &self.report.plan;
        self.epochs.iter().filter(|epoch| epoch.is_whole(plan))
    }
}

/// The folder of the runs.
fn parent(results: &str, run: &Run) -> String {
    let runs = format!("training/{}/run", run.report.plan.workload);
    match results {
        "" => runs,
        results => format!("{results}/{runs}"),
    }
}

fn run_files(run: &Run, workload: &Workload, folder: &str, files: &mut Vec<OutputFile>) {
    let plan = &run.report.plan;
    let mut push = |name: &str, content: String| {
        files.push(OutputFile { path: format!("{folder}/{name}"), content });
    };
    push("summary.json", pretty(&summary::summary(run)));
    for rank in 0..run.report.results.accelerators {
        let name = format!("{rank}_per_epoch_stats.json");
        push(&name, pretty(&steps::per_epoch(run, rank)));
        push(&format!("{rank}_output.json"), pretty(&steps::output(run, rank)));
    }
    let overrides = config::overrides(plan, workload);
    let planned = workload.as_planned(plan);
    push("dlio_config/config.yaml", planned.to_yaml());
    push("dlio_config/overrides.yaml", override_list(&overrides));
    let name = format!("{}_{}", plan.workload, plan.accelerator);
    push("dlio_config/hydra.yaml", hydra(&name, folder));
    let metadata = Metadata {
        benchmark: "training",
        folder,
        started_unix_seconds: run.started,
        runtime_seconds: run.duration,
        command: &run.report.head.command,
        args: config::args(run),
        overrides: &overrides,
        // It was just written, so it is read again.
        config: serde_yaml::from_str(&planned.to_yaml()).unwrap_or_default(),
        mark: run.mark(),
    };
    files.push(metadata.file());
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
