//! Resumes a search: the plan is made again, and runs of the same plan are reused.

use std::path::{Path, PathBuf};

use crate::any_report::AnyReport;
use serde_json::Value;
use stormlp_core::report::ReportKind;
use stormlp_core::warning::{Warning, WarningKind};
use stormlp_training::plan::find_max::FindMax;
use stormlp_training::plan::train_plan::TrainPlan;
use stormlp_training::report::TrainReport;

use super::AcceleratorFinder;
use crate::commands::saved;
use stormlp_core::failure::Failure;

/// The saved report of a search.
pub(super) struct SavedSearch {
    pub(super) path: PathBuf,
    report: TrainReport,
    find: FindMax,
}

/// Reads the report of a search.
///
/// # Errors
/// If it cannot be read, or does not contain a search.
pub(super) fn read(path: &Path) -> Result<SavedSearch, Failure> {
    let path = saved::file(path);
    let report = saved::of_kind(&path, ReportKind::Train)?;
    match report {
        AnyReport::Train(mut report) => match report.results.find_max.take() {
            Some(find) => Ok(SavedSearch { path, report, find }),
            None => Err(Failure::no_plan(anyhow::anyhow!(
                "{} is the report of one run, not of `stormlp train --find-max`",
                path.display()
            ))),
        },
        _ => Err(Failure::usage("--resume continues a report of --find-max")),
    }
}

impl AcceleratorFinder<'_> {
    /// Reuses the runs of a saved search.
    ///
    /// # Errors
    /// With exit code 3 if it is from another machine or for other work.
    pub(super) fn take(&mut self, saved: SavedSearch) -> Result<(), Failure> {
        let SavedSearch { path, report, find } = saved;
        let refuse = |what: String| {
            let error = anyhow::anyhow!("{} {what}", path.display());
            Err(Failure::no_plan(error).with_help(format!(
                "use the original options with --resume: `{}`",
                report.head.command
            )))
        };
        let (here, there) = (&self.facts.hostname, &report.head.host.hostname);
        if here != there {
            return refuse(format!("was measured on {there}, but this host is {here}"));
        }
        let now = self.plan_as_it_is(report.plan.accelerators);
        if let Some(key) = difference(now.as_ref().unwrap_or(&self.first), &report.plan) {
            return refuse(format!("is from a different run: `{key}` differs"));
        }
        // The plan does not record storage impairment.
        let impaired = |warnings: &[Warning]| -> Vec<Warning> {
            let impaired = warnings.iter().filter(|w| w.kind == WarningKind::Impaired);
            impaired.cloned().collect()
        };
        if impaired(&self.warnings) != impaired(&report.warnings) {
            return refuse(
                "is from a different run: `--throttle` or `--inject-fault` differs".to_string(),
            );
        }
        self.head.started_at.clone_from(&report.head.started_at);
        self.before_seconds = find.search_seconds;
        self.find = FindMax {
            confirm_runs: self.find.confirm_runs,
            // The limit of the search will be found again.
            limited_by: None,
            limit: None,
            ..find
        };
        if let Some(estimate) = self.find.estimate {
            self.begin_at(estimate.accelerators);
        }
        for tried in &self.find.tried {
            self.search.tell(tried.trial(self.threshold_percent));
        }
        self.find.conclude(&self.search);
        if !report.results.epochs.is_empty() {
            self.full.push(report);
        }
        Ok(())
    }
}

/// The first key in which two plans differ, except for values that are drawn again or read from the
/// files. A search enlarges its dataset, so there may be more files by now, and therefore more
/// steps.
fn difference(now: &TrainPlan, then: &TrainPlan) -> Option<String> {
    let has_grown = now.data.files > then.data.files && then.data.folder == now.data.folder;
    let value = |plan: &TrainPlan| {
        let mut value = serde_json::to_value(plan).unwrap_or_default();
        // The other options decide the rest of the plan, or are none of its business.
        let asked = value["request"].take();
        for key in ["workload", "barrier", "cold", "require_gds", "cufile_stats"] {
            value[key] = asked[key].clone();
        }
        if has_grown {
            value["data"]["files"] = Value::Null;
            value["data"]["eval_files"] = Value::Null;
            value["steps_per_epoch"] = Value::Null;
        }
        value["shuffle"]["file_seed"] = Value::Null;
        value["data"]["bytes"] = Value::Null;
        value["data"]["eval_bytes"] = Value::Null;
        value["memory_bytes"] = Value::Null;
        value
    };
    let (now, then) = (value(now), value(then));
    let keys = now.as_object()?.keys();
    keys.into_iter().find(|key| now[key.as_str()] != then[key.as_str()]).cloned()
}
