//! The settings that must match for two runs of this kind to be the same work.

use crate::plan::checkpoint_plan::DECIDED_FURTHER_ON;
use crate::report::CheckpointReport;

use stormlp_show::settings::{Work, switch};
pub(super) use stormlp_show::shown::Shown as _;

/// Plan fields that do not affect whether two checkpoint runs are the same work. What ranks write
/// follows from the model and its layout; more saves or restores only add samples.
const APART: &[&str] = &[
    "request.closed",
    "full_run",
    "ranks",
    "writes",
    "restore_steps",
    "save.engine_asked",
    "restore.engine_asked",
    "content.seed",
    "request.require_gds",
    "request.telemetry_seconds",
    "free_bytes",
    "peak_bytes",
    "buffer_bytes",
    "warnings",
];

/// Everything that two runs must have in common to be the same work.
pub(super) fn work(report: &CheckpointReport) -> Work {
    let plan = &report.plan;
    let hosts = if report.results.is_of_detached_hosts() {
        format!("{} with checkpoints of their own", report.hosts())
    } else {
        report.hosts().to_string()
    };
    let mut settings = Work::of_plan(plan, &[APART, &DECIDED_FURTHER_ON].concat())
        .with("folders", &plan.request.folders.len().to_string())
        .with("hosts", &hosts);
    let of_model = &["layout", "parameters", "total_bytes", "dlio_counted_bytes"];
    let of_scale = &["scaling", "layout", "parameters", "dlio_counted_bytes"];
    settings.add("model", &plan.model, of_model);
    let of_profile = &["save", "restore", "pause_seconds"];
    settings.add("profile", plan.profile, of_profile);
    settings.add("ranks", plan.ranks.len(), of_scale);
    settings.add("scale", plan.scaling.shown(), of_scale);
    settings.add("bytes", plan.total_bytes, &["total_bytes", "dlio_counted_bytes"]);
    settings.add("container", plan.content.container, &["content.container"]);
    let of_path = &[
        "save.path",
        "save.memory",
        "save.emulated",
        "save.device",
        "restore.path",
        "restore.memory",
        "restore.emulated",
        "restore.device",
    ];
    settings.add("path", plan.path(), of_path);
    let pages = plan.save.pages.name();
    settings.add("pages", pages, &["save.pages", "restore.pages"]);
    if let Some(words) = plan.save.threads_in_words() {
        let explains = &["save.placement", "save.wait", "restore.placement", "restore.wait"];
        settings.add("threads", words, explains);
    }
    settings.add("fsync", plan.fsync, &["fsync"]);
    settings.add("cold", switch(plan.request.cold), &["request.cold"]);
    settings.add("verify", switch(plan.request.verify), &["request.verify"]);
    let step = plan.request.overlap_step_seconds;
    let beside = step.map_or("none".to_string(), |seconds| format!("steps of {seconds} s"));
    settings.add("overlapped training", beside, &["request.overlap_step_seconds"]);
    settings
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;

    #[test]
    fn every_field_that_is_left_out_is_one_of_the_plan() {
        let plan = fixtures::report(1.0).plan;
        let may_be_absent = ["restore_steps", "warnings"];
        let left_out = [APART, &DECIDED_FURTHER_ON].concat();
        let absent = stormlp_show::settings::absent_fields(&plan, &left_out);
        assert!(absent.iter().all(|field| may_be_absent.contains(field)), "{absent:?}");
    }
}
