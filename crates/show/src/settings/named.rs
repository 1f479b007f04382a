//! The settings that people know by a name, as a page tells them.

use stormlp_core::checkpoint::CheckpointReport;
use stormlp_core::matrix::{FilePlan, MatrixReport, Span};
use stormlp_core::report::{AnyReport, Report};
use stormlp_core::training::report::TrainReport;
use stormlp_core::training::request::StorageKind;
use stormlp_core::units::{ByteSize, format_duration};
use stormlp_core::warning::WarningKind;

use super::Setting;
use crate::{matrix, training};

/// The settings of a report of any command.
pub(super) fn of(report: &AnyReport) -> Vec<Setting> {
    match report {
        AnyReport::Gds(report) => of_matrix(report),
        AnyReport::Train(report) => of_training(report),
        AnyReport::Checkpoint(report) => of_checkpoint(report),
    }
}

#[derive(Default)]
struct Settings(Vec<Setting>);

impl Settings {
    /// Adds a setting; what `explains` names of the plan follows from it.
    fn add(&mut self, name: &'static str, words: impl ToString, explains: &'static [&'static str]) {
        self.0.push(Setting { name, words: words.to_string(), explains });
    }

    /// With how the program was built and what was done to the storage.
    fn of_all<P, R>(mut self, report: &Report<P, R>) -> Vec<Setting> {
        let build = if report.head.host.release_build { "release" } else { "debug" };
        self.add("build", build, &[]);
        let impaired: Vec<&str> = (report.warnings.iter())
            .filter(|w| w.kind == WarningKind::Impaired)
            .map(|warning| &*warning.fact)
            .collect();
        let words = if impaired.is_empty() {
            "none".to_string()
        } else {
            format!("({})", impaired.join("; "))
        };
        self.add("impairment", words, &[]);
        self.0
    }
}

fn of_matrix(report: &MatrixReport) -> Vec<Setting> {
    let plan = &report.plan;
    let mut settings = Settings::default();
    for (name, words) in matrix::combinations(report) {
        settings.add(name, words, &["cells", "crews", "devices"]);
    }
    settings.add("files", files_words(&plan.files), &["files", "crews"]);
    let length = match plan.span {
        Span::Seconds(seconds) => format_duration(seconds),
        Span::Passes(passes) => format!("{passes} × the files"),
    };
    settings.add("length of a cell", length, &["span"]);
    let warm_up = format_duration(plan.warmup_seconds);
    settings.add("warm-up", warm_up, &["warmup_seconds"]);
    settings.add("page cache", plan.cache.name(), &["cache"]);
    settings.add("engine", plan.host_engine(), &["cells.engine"]);
    settings.add(
        "memory",
        matrix::memory_words(report),
        &["devices", "cells.memory", "cells.emulated", "cells.device", "crews.workers.device"],
    );
    settings.add("pages", plan.pages().name(), &["cells.pages"]);
    if let Some(words) = plan.threads_in_words() {
        let explains = &["placement", "cells.placement", "cells.wait", "crews.workers"];
        settings.add("threads", words, explains);
    }
    settings.add("verify", switch(plan.verify), &["verify"]);
    let fsync = matrix::fsync_setting(plan);
    settings.add("fsync", fsync, &["fsync", "cells.fsync"]);
    settings.of_all(report)
}

/// `2 × 1 GiB`, whatever their names are and wherever they lie.
fn files_words(files: &[FilePlan]) -> String {
    let mut sizes: Vec<u64> = files.iter().map(|file| file.bytes).collect();
    sizes.sort_unstable();
    let alike = sizes.chunk_by(|a, b| a == b);
    let words = alike.map(|alike| format!("{} × {}", alike.len(), ByteSize(alike[0])));
    words.collect::<Vec<_>>().join(", ")
}

fn of_training(report: &TrainReport) -> Vec<Setting> {
    let plan = &report.plan;
    let mut settings = Settings::default();
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
    let storage = match plan.storage {
        StorageKind::Real => "real",
        StorageKind::Null => "null",
    };
    settings.add("storage", storage, &["storage", "data.bytes", "data.eval_bytes"]);
    settings.add("dataset", training::data(plan), &["data", "steps_per_epoch"]);
    settings.add("loader", training::loader(plan), &["loader"]);
    settings.add("compute", plan.compute, &["compute"]);
    let client = plan.client.as_ref().map_or("none".to_string(), ToString::to_string);
    settings.add("client", client, &["client"]);
    settings.add("cold", switch(plan.cold), &["cold"]);
    settings.add("batch", plan.batch_size, &["batch_size", "steps_per_epoch"]);
    settings.add("steps", plan.steps_per_epoch, &["steps_per_epoch"]);
    settings.add("epochs", plan.epochs, &["epochs"]);
    settings.of_all(report)
}

fn of_checkpoint(report: &CheckpointReport) -> Vec<Setting> {
    let plan = &report.plan;
    let mut settings = Settings::default();
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
    settings.of_all(report)
}

fn switch(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}
