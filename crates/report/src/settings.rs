//! What makes two runs the same work: their numbers compare only where all of it is the same.

use serde::Serialize;
use stormlp_model::checkpoint::CheckpointReport;
use stormlp_model::matrix::{FilePlan, MatrixReport, Span};
use stormlp_model::report::{AnyReport, Report};
use stormlp_model::training::report::TrainReport;
use stormlp_model::training::request::StorageKind;
use stormlp_model::units::{ByteSize, format_duration};
use stormlp_model::warning::WarningKind;

use crate::document::Facts;
use crate::{matrix, training};

/// A setting in which two runs are not the same work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Which one: `I/O sizes`.
    pub setting: String,
    /// What it was before.
    pub baseline: String,
    /// What it is now.
    pub value: String,
}

/// The settings of a report of any command.
pub(crate) fn of(report: &AnyReport) -> Facts {
    match report {
        AnyReport::Gds(report) => of_matrix(report),
        AnyReport::Train(report) => of_training(report),
        AnyReport::Checkpoint(report) => of_checkpoint(report),
    }
}

fn of_matrix(report: &MatrixReport) -> Facts {
    let plan = &report.plan;
    let mut settings = Facts::default();
    matrix::add_combinations(report, &mut settings);
    settings.add("files", files_words(&plan.files));
    settings.add(
        "length of a cell",
        match plan.span {
            Span::Seconds(seconds) => format_duration(seconds),
            Span::Passes(passes) => format!("{passes} × the files"),
        },
    );
    settings.add("warm-up", format_duration(plan.warmup_seconds));
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

/// `2 × 1 GiB`, whatever their names are and wherever they lie.
fn files_words(files: &[FilePlan]) -> String {
    let mut sizes: Vec<u64> = files.iter().map(|file| file.bytes).collect();
    sizes.sort_unstable();
    let alike = sizes.chunk_by(|a, b| a == b);
    let words = alike.map(|alike| format!("{} × {}", alike.len(), ByteSize(alike[0])));
    words.collect::<Vec<_>>().join(", ")
}

fn of_training(report: &TrainReport) -> Facts {
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
    settings.add("dataset", training::data(plan));
    settings.add("loader", training::loader(plan));
    settings.add("compute", plan.compute);
    let client = plan.client.as_ref();
    settings.add(
        "client",
        client.map_or("none".to_string(), ToString::to_string),
    );
    settings.add("cold", switch(plan.cold));
    settings.add("batch", plan.batch_size);
    settings.add("steps", plan.steps_per_epoch);
    settings.add("epochs", plan.epochs);
    of_all(report, settings)
}

fn of_checkpoint(report: &CheckpointReport) -> Facts {
    let plan = &report.plan;
    let mut settings = Facts::default();
    settings.add("model", &plan.model);
    settings.add("profile", plan.profile);
    settings.add("ranks", plan.ranks.len());
    settings.add("scale", plan.scaling.shown());
    settings.add("bytes", plan.total_bytes);
    settings.add("container", plan.content.container);
    settings.add("path", plan.path());
    settings.add("pages", plan.save.pages.name());
    if let Some(words) = plan.save.threads_in_words() {
        settings.add("threads", words);
    }
    settings.add("fsync", plan.fsync);
    settings.add("cold", switch(plan.cold));
    settings.add("verify", switch(plan.verify));
    let beside = plan
        .overlap
        .map(|overlap| format!("steps of {} s", overlap.step_seconds));
    settings.add(
        "training beside",
        beside.unwrap_or_else(|| "none".to_string()),
    );
    of_all(report, settings)
}

/// Where two runs are not the same work.
pub(crate) fn differences(baseline: &Facts, now: &Facts) -> Vec<Difference> {
    let names = baseline.0.iter().chain(&now.0).map(|(name, _)| name);
    let mut differences: Vec<Difference> = Vec::new();
    for name in names {
        let value = |settings: &Facts| {
            let found = settings.0.iter().find(|(other, _)| other == name);
            found.map_or("not set".to_string(), |(_, value)| value.clone())
        };
        let (then, value) = (value(baseline), value(now));
        if then != value && differences.iter().all(|known| known.setting != *name) {
            differences.push(Difference {
                setting: name.clone(),
                baseline: then,
                value,
            });
        }
    }
    differences
}

/// The same as a reader is told it; `None` where nothing differs.
pub(crate) fn difference_words(differences: &[Difference]) -> Option<String> {
    let words = differences.iter().map(|difference| {
        let Difference {
            setting,
            baseline,
            value,
        } = difference;
        format!("{setting} {value} against {baseline}")
    });
    let words: Vec<String> = words.collect();
    (!words.is_empty()).then(|| format!("not the same work: {}", words.join("; ")))
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
