//! A saved search that is resumed: the plan is made again, and runs of the same plan are reused.

use std::path::PathBuf;

use serde_json::Value;
use stormlp_core::facts::HostFacts;
use stormlp_core::failure::Failure;
use stormlp_core::note::Cause;
use stormlp_core::warning::{Warning, WarningKind};

use crate::plan::find_max::FindMax;
use crate::plan::train_plan::TrainPlan;
use crate::report::TrainReport;

/// The saved report of a search.
pub struct SavedSearch {
    /// Where it is saved.
    pub path: PathBuf,
    /// The report, except for the search.
    pub(super) report: TrainReport,
    pub(super) find: FindMax,
}

impl SavedSearch {
    /// The search in the report at `path`.
    ///
    /// # Errors
    /// With exit code 3 if it has none.
    pub fn of(path: PathBuf, mut report: TrainReport) -> Result<Self, Failure> {
        match report.results.find_max.take() {
            Some(find) => Ok(Self { path, report, find }),
            None => Err(Failure::saying(
                Cause::Plan,
                format!(
                    "{} is the report of one run, not of `stormlp train --find-max`",
                    path.display()
                ),
            )),
        }
    }

    /// Checks that its runs can be reused by a search on the machine `here` with `warnings` and a
    /// plan for the same number of accelerators is `now`.
    ///
    /// # Errors
    /// With exit code 3 if it is from another machine or for other work.
    pub(super) fn check(
        &self,
        here: &HostFacts,
        now: &TrainPlan,
        warnings: &[Warning],
    ) -> Result<(), Failure> {
        let Self { path, report, .. } = self;
        let refuse = |what: String| {
            let fact = format!("{} {what}", path.display());
            Err(Failure::saying(Cause::Plan, fact).with_help(format!(
                "use the original options with --resume: `{}`",
                report.head.command
            )))
        };
        let (here, there) = (&here.hostname, &report.head.host.hostname);
        if here != there {
            return refuse(format!("was measured on {there}, but this host is {here}"));
        }
        if let Some(key) = difference(now, &report.plan) {
            return refuse(format!("is from a different run: `{key}` differs"));
        }
        // The plan does not record storage impairment.
        let impaired = |warnings: &[Warning]| -> Vec<Warning> {
            let impaired = warnings.iter().filter(|w| w.kind == WarningKind::Impaired);
            impaired.cloned().collect()
        };
        if impaired(warnings) != impaired(&report.warnings) {
            return refuse(
                "is from a different run: `--throttle` or `--inject-fault` differs".to_string(),
            );
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
        for key in ["workload", "cache", "require", "checksum"] {
            value[key] = asked[key].clone();
        }
        value["cufile_stats"] = asked["tune"]["cufile_stats"].clone();
        if has_grown {
            value["data"]["files"] = Value::Null;
            value["steps_per_epoch"] = Value::Null;
        }
        value["shuffle"]["file_seed"] = Value::Null;
        value["data"]["bytes"] = Value::Null;
        value["memory_bytes"] = Value::Null;
        value
    };
    let (now, then) = (value(now), value(then));
    let keys = now.as_object()?.keys();
    keys.into_iter().find(|key| now[key.as_str()] != then[key.as_str()]).cloned()
}
