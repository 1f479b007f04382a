//! The settings that make two runs of this lane comparable.

use crate::report::TrainReport;

use stormlp_show::settings::{Work, switch};

/// Keys of the plan that do not change the work; of its runs only the presence of a warm-up counts.
/// Of the request, what no other field follows from is added by name.
const APART: &[&str] = &[
    "request",
    "runs",
    "data.folder",
    "metric.threshold_percent",
    "shuffle.seed",
    "shuffle.file_seed",
    "checkpoint.folder",
    "transport.engine_asked",
    "memory_bytes",
];

/// All settings that two runs must share to be the same work.
pub(super) fn work(report: &TrainReport) -> Work {
    let plan = &report.plan;
    let warm_up = if plan.runs > 1 { "yes" } else { "no" };
    let of_cufile = plan.request.cufile_stats.map_or("none".to_string(), |level| level.to_string());
    let mut settings = Work::of_plan(plan, APART)
        .with("a warm-up run", warm_up)
        .with("barrier", &plan.request.barrier.to_string())
        .with("cufile_stats", &of_cufile);
    let of_workload = &[
        "data",
        "loader",
        "reads",
        "compute",
        "preprocess",
        "metric",
        "shuffle",
        "evaluation",
        "checkpoint",
    ];
    settings.add("workload", &plan.workload, of_workload);
    settings.add("accelerator", &plan.accelerator, &["compute"]);
    settings.add("accelerators", plan.accelerators, &["steps_per_epoch"]);
    let of_profile = &["loader", "reads", "metric", "client", "block_end", "prewarm"];
    settings.add("profile", plan.profile, of_profile);
    let of_path = &["transport.path", "transport.memory", "transport.emulated", "transport.device"];
    settings.add("path", plan.transport.path, of_path);
    settings.add("pages", plan.transport.pages.name(), &["transport.pages"]);
    if let Some(words) = plan.transport.threads_in_words() {
        let explains = &["transport.placement", "transport.wait"];
        settings.add("threads", words, explains);
    }
    let storage = if plan.is_null() { "null" } else { "real" };
    settings.add("storage", storage, &["data.bytes", "data.eval_bytes"]);
    settings.add("dataset", super::plan::data(plan), &["data", "steps_per_epoch"]);
    settings.add("loader", super::plan::loader(plan), &["loader"]);
    settings.add("compute", plan.compute, &["compute"]);
    let client = plan.client.as_ref().map_or("none".to_string(), ToString::to_string);
    settings.add("client", client, &["client"]);
    settings.add("cold", switch(plan.request.cold), &[]);
    settings.add("batch", plan.batch_size, &["batch_size", "steps_per_epoch"]);
    settings.add("steps", plan.steps_per_epoch, &["steps_per_epoch"]);
    settings.add("epochs", plan.epochs, &["epochs"]);
    settings
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;

    #[test]
    fn every_field_that_is_left_out_is_one_of_the_plan() {
        let plan = fixtures::report().plan;
        let may_be_absent = ["checkpoint.folder"];
        let absent = stormlp_show::settings::absent_fields(&plan, APART);
        assert!(absent.iter().all(|field| may_be_absent.contains(field)), "{absent:?}");
    }
}
