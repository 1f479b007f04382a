//! What makes two runs the same work: their numbers compare only where all of it is the same.

use stormlp_model::checkpoint::CheckpointReport;
use stormlp_model::matrix::MatrixReport;
use stormlp_model::report::Report;
use stormlp_model::training::report::TrainReport;
use stormlp_model::training::request::StorageKind;
use stormlp_model::warning::WarningKind;

use crate::document::Facts;
use crate::matrix;

/// Of a matrix, whose cells are matched by what they are.
pub(crate) fn of_matrix(report: &MatrixReport) -> Facts {
    let plan = &report.plan;
    let mut settings = Facts::default();
    settings.add("page cache", plan.cache.name());
    settings.add("engine", plan.host_engine());
    settings.add("memory", matrix::memory_words(report));
    settings.add("pages", plan.pages().name());
    if let Some(words) = plan.threads_in_words() {
        settings.add("threads", words);
    }
    settings.add("verify", switch(plan.verify));
    settings.add("fsync", matrix::fsync_setting(plan));
    of_all(report, settings)
}

/// Of a training run.
pub(crate) fn of_training(report: &TrainReport) -> Facts {
    let plan = &report.plan;
    let mut settings = Facts::default();
    settings.add("workload", &plan.workload);
    settings.add("accelerator", &plan.accelerator);
    settings.add("accelerators", plan.accelerators);
    settings.add("profile", plan.profile);
    settings.add("path", plan.transport.path);
    settings.add("pages", plan.transport.pages.name());
    if let Some(words) = plan.transport.threads_in_words() {
        settings.add("threads", words);
    }
    settings.add(
        "storage",
        match plan.storage {
            StorageKind::Real => "real",
            StorageKind::Null => "null",
        },
    );
    settings.add("cold", switch(plan.cold));
    settings.add("batch", plan.batch_size);
    settings.add("steps", plan.steps_per_epoch);
    of_all(report, settings)
}

/// Of a checkpoint run.
pub(crate) fn of_checkpoint(report: &CheckpointReport) -> Facts {
    let plan = &report.plan;
    let mut settings = Facts::default();
    settings.add("model", &plan.model);
    settings.add("ranks", plan.ranks.len());
    settings.add("scale", plan.scaling.shown());
    settings.add("path", plan.path());
    settings.add("pages", plan.save.pages.name());
    if let Some(words) = plan.save.threads_in_words() {
        settings.add("threads", words);
    }
    settings.add("fsync", plan.fsync);
    settings.add("cold", switch(plan.cold));
    of_all(report, settings)
}

/// What differs, as a reader is told it; `None` where nothing does.
pub(crate) fn differences(now: &Facts, then: &Facts) -> Option<String> {
    let pairs = now.0.iter().filter_map(|(name, value)| {
        let (_, other) = then.0.iter().find(|(other, _)| other == name)?;
        (value != other).then(|| format!("{name} {value} against {other}"))
    });
    let pairs: Vec<String> = pairs.collect();
    (!pairs.is_empty()).then(|| format!("not the same work: {}", pairs.join(", ")))
}

/// With how the program was built and what was done to the storage.
fn of_all<P, R>(report: &Report<P, R>, mut settings: Facts) -> Facts {
    let build = match report.head.host.release_build {
        true => "release",
        false => "debug",
    };
    settings.add("build", build);
    let impaired = (report.warnings.iter()).filter(|w| w.kind == WarningKind::Impaired);
    let impaired: Vec<&str> = impaired.map(|warning| &*warning.fact).collect();
    settings.add(
        "impairment",
        match impaired.is_empty() {
            true => "none".to_string(),
            false => format!("({})", impaired.join("; ")),
        },
    );
    settings
}

fn switch(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}
