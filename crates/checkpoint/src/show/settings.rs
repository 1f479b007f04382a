//! The settings that must match for two runs of this kind to be the same work.

use crate::plan::CheckpointReport;

use stormlp_show::settings::{Work, switch};
pub(super) use stormlp_show::shown::Shown as _;

/// Plan fields that do not affect whether two checkpoint runs are the same work. What ranks write
/// follows from the model and its layout; more saves or restores only add samples.
const APART: &[&str] = &[
    "closed",
    "full_run",
    "ranks",
    "folders",
    "writes",
    "restore_steps",
    "save.engine_asked",
    "restore.engine_asked",
    "content.seed",
    "require_gds",
    "telemetry_seconds",
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
    let mut settings = Work::of_plan(plan, APART)
        .with("folders", &plan.folders.len().to_string())
        .with("hosts", &hosts);
    let of_model = &["layout", "parameters", "total_bytes", "dlio_counted_bytes"];
    let of_scale = &["scale", "scaling", "layout", "parameters", "dlio_counted_bytes"];
    settings.add("model", &plan.model, of_model);
    let of_profile = &["save", "restore", "split_restores", "pause_seconds"];
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
    settings.add("cold", switch(plan.cold), &["cold"]);
    settings.add("verify", switch(plan.verify), &["verify"]);
    let beside = plan
        .overlap
        .map(|overlap| format!("steps of {} s", overlap.step_seconds))
        .unwrap_or_else(|| "none".to_string());
    settings.add("training beside", beside, &["overlap"]);
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
        let absent = stormlp_show::settings::absent_fields(&plan, APART);
        assert!(absent.iter().all(|field| may_be_absent.contains(field)), "{absent:?}");
    }
}
