//! The views of reports of checkpoint runs: as a document, as a line of a list, and in a
//! comparison.

use crate::plan::CheckpointPlan;
use crate::report::{CheckpointReport, CheckpointResult, CheckpointResults, PhaseSummary};
use stormlp_show::chart::Group;
use stormlp_show::comparison::Figure;
use stormlp_show::document::{Document, Quantity};
use stormlp_show::outcome::Outcome;
use stormlp_show::settings::{Work, switch};
use stormlp_show::shown::Lane;

use super::charts::charts;
use super::plan::mark;
use super::run::document;

pub(super) use stormlp_show::shown::Shown as _;

impl Lane for CheckpointResults {
    type Plan = CheckpointPlan;

    fn hosts(report: &CheckpointReport) -> usize {
        report.results.hosts.len()
    }

    fn document(report: &CheckpointReport) -> Document {
        document(report)
    }

    fn charts(report: &CheckpointReport) -> Vec<Group> {
        charts(report)
    }

    /// Figures of saves and of restores, of all ranks.
    fn figures(report: &CheckpointReport) -> Vec<Figure> {
        let results = &report.results;
        let saves = (&results.saves, &results.summary.save);
        let restores = (&results.restores, &results.summary.restore);
        let phases = [("save", saves), ("restore", restores)].into_iter().filter_map(
            |(name, (results, summary))| Some(of_phase(report, name, results, summary.as_ref()?)),
        );
        phases.flatten().collect()
    }

    /// Everything that two runs must have in common to be the same work.
    fn work(report: &CheckpointReport) -> Work {
        let plan = &report.plan;
        let hosts = report.hosts().to_string();
        let engines = &["save.engine", "restore.engine"];
        let without = if plan.save.path.has_engine() { &[][..] } else { engines };
        let mut settings = Work::of_plan(plan, &[APART, without].concat())
            .typed_as(OPTIONS)
            .with("folders", &plan.request.folders.len().to_string())
            .with("hosts", &hosts);
        let of_model = &["layout", "parameters", "total_bytes", "dlio_counted_bytes"];
        let of_scale = &["scaling", "layout", "parameters", "dlio_counted_bytes"];
        settings.add("model", &plan.model, of_model);
        let of_profile = &["save", "restore", "pause_seconds"];
        settings.add("edition", plan.profile.name(), of_profile);
        settings.add("ranks", plan.ranks.len(), of_scale);
        settings.add("scale", plan.scaling.shown(), of_scale);
        settings.add("bytes", plan.total_bytes, &["total_bytes", "dlio_counted_bytes"]);
        settings.add("container", plan.content.container, &["content.container"]);
        let of_path = &[
            "save.path",
            "save.memory",
            "save.emulated",
            "save.device",
            "save.devices",
            "restore.path",
            "restore.memory",
            "restore.emulated",
            "restore.device",
            "restore.devices",
        ];
        settings.add("path", plan.path(), of_path);
        let pages = plan.save.pages.name();
        settings.add("pages", pages, &["save.pages", "restore.pages"]);
        if let Some(words) = plan.save.threads_in_words() {
            let explains = &["save.placement", "save.wait", "restore.placement", "restore.wait"];
            settings.add("threads", words, explains);
        }
        settings.add(plan.made_durable_by(), plan.durable(), &["fsync"]);
        settings.add("cold", switch(plan.request.is_cold()), &[]);
        settings.add("verify", switch(plan.request.verify), &[]);
        settings.add("checksum", plan.request.checksum.name(), &[]);
        settings.add("local storage", switch(plan.request.local_storage), &[]);
        let level = plan
            .request
            .tune
            .machine
            .cufile_stats
            .map_or("none".to_string(), |level| level.to_string());
        settings.add("cuFile statistics", level, &[]);
        let client = plan.client.as_ref().map_or("none".to_string(), ToString::to_string);
        settings.add("client", client, &["client"]);
        let step = plan.request.overlap_step_seconds;
        let beside = step.map_or("none".to_string(), |seconds| format!("steps of {seconds} s"));
        settings.add("overlapped training", beside, &[]);
        settings
    }

    /// Rate of the saves, or of the restores if there are no saves, of all ranks.
    fn outcome(report: &CheckpointReport, status: String) -> Outcome {
        let summary = &report.results.summary;
        let rate = |summary: &PhaseSummary| {
            Quantity::higher(summary.all_ranks.gib_per_second.mean, "GiB/s")
        };
        let (what, figure) = match (&summary.save, &summary.restore) {
            (Some(save), _) => ("saved at", Some(rate(save))),
            (None, Some(restore)) => ("restored at", Some(rate(restore))),
            (None, None) => ("", None),
        };
        Outcome { what, figure, verdict: status }
    }

    fn mark(report: &CheckpointReport) -> Option<String> {
        mark(&report.plan)
    }
}

fn of_phase(
    report: &CheckpointReport,
    phase: &'static str,
    results: &[CheckpointResult],
    summary: &PhaseSummary,
) -> Vec<Figure> {
    let mean = &summary.all_ranks;
    let (rate, seconds) = (mean.gib_per_second.mean, mean.duration_seconds.mean);
    let mut figures = vec![
        Figure::throughput(phase, Quantity::higher(rate, "GiB/s")),
        Figure::new(phase, "duration", Quantity::lower(seconds, "s")),
    ];
    if phase == "save" {
        let each = results.iter().map(|result| result.mean_parts.fsync_seconds);
        let seconds = each.sum::<f64>() / results.len().max(1) as f64;
        figures.push(Figure::new(phase, "fsync", Quantity::lower(seconds, "s")));
    }
    figures.push(Figure::cpu(phase, summary.cpu_seconds_per_gib));
    let timed = report
        .histograms
        .iter()
        .filter(|one| one.name.starts_with(phase))
        .filter_map(|one| one.summary_us.p99);
    figures.extend(timed.map(|us| Figure::percentile(phase, "p99 transfer", us)));
    figures
}

/// Plan fields that do not affect whether two checkpoint runs are the same work. The files of ranks
/// follow from the model and its layout; more saves or restores only add samples.
const APART: &[&str] = &[
    "request",
    "run",
    "removed_runs",
    "full_run",
    "ranks",
    "writes",
    "restore_steps",
    // It follows from the hosts.
    "rank_shift",
    "save.requested_engine",
    "restore.requested_engine",
    "content.seed",
    "free_bytes",
    "peak_bytes",
    "buffer_bytes",
    "warnings",
];

/// Fields that follow from one option.
const OPTIONS: &[(&str, &str)] = &[
    ("pause_seconds", "--pause"),
    ("save.chunk_bytes", "--io-size"),
    ("save.engine", "--engine"),
    ("save.streams", "--queue-depth"),
    ("restore.chunk_bytes", "--io-size"),
    ("restore.engine", "--engine"),
    ("restore.streams", "--queue-depth"),
];

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;

    #[test]
    fn every_field_that_is_left_out_is_one_of_the_plan() {
        let plan = fixtures::report(1.0).plan;
        let may_be_absent = ["restore_steps", "removed_runs", "warnings"];
        let options: Vec<&str> = OPTIONS.iter().map(|(place, _)| *place).collect();
        let left_out = [APART, &options].concat();
        let absent = stormlp_show::settings::absent_fields(&plan, &left_out);
        assert!(absent.iter().all(|field| may_be_absent.contains(field)), "{absent:?}");
    }
}
