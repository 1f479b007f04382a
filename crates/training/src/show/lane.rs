//! How reports of this lane are shown.

use crate::plan::train_plan::TrainPlan;
use crate::report::{Measures, TrainReport, TrainResults};
use stormlp_core::report::Ending;
use stormlp_core::transport::Transport;
use stormlp_core::units::GIB;
use stormlp_core::verify::Verify;
use stormlp_show::chart::Group;
use stormlp_show::comparison::Figure;
use stormlp_show::document::{Document, Quantity};
use stormlp_show::outcome::Outcome;
use stormlp_show::settings::{Work, switch};
use stormlp_show::shown::Lane;

impl Lane for TrainResults {
    type Plan = TrainPlan;

    fn hosts(report: &TrainReport) -> usize {
        report.plan.hosts.len()
    }

    fn document(report: &TrainReport) -> Document {
        super::run::document(report)
    }

    fn charts(report: &TrainReport) -> Vec<Group> {
        super::charts(report)
    }

    /// The figures of a run; none without measurements.
    fn figures(report: &TrainReport) -> Vec<Figure> {
        let results = &report.results;
        if !is_measured(results) {
            return Vec::new();
        }
        let mean: &Measures = &results.mean;
        let (higher, lower) = (Quantity::higher, Quantity::lower);
        let mut figures = vec![
            Figure::new("", "AU", higher(mean.au_percent.profile, "%")),
            Figure::throughput("", higher(mean.samples_per_second, "samples/s")),
        ];
        if report.plan.data.folder.is_some() {
            figures.push(Figure::new("", "reading", higher(mean.read_mib_per_second, "MiB/s")));
        }
        let waiting = &mean.waiting_seconds;
        figures.extend([
            Figure::new("", "storage wait", lower(waiting.storage, "s")),
            Figure::new("", "CPU wait", lower(waiting.cpu, "s")),
            Figure::new("", "start-up wait", lower(waiting.startup, "s")),
        ]);
        figures.extend(cpu(report));
        let latency = &results.latency;
        let percentiles =
            [("p99 fetch wait", latency.fetch_wait_us), ("p99 read", latency.read_us)]
                .into_iter()
                .filter_map(|(name, us)| {
                    let us = us?.p99?;
                    Some(Figure::percentile("", name, us))
                });
        figures.extend(percentiles);
        figures
    }

    /// All settings that two runs must share to be the same work.
    fn work(report: &TrainReport) -> Work {
        let plan = &report.plan;
        let warm_up = if plan.runs > 1 { "yes" } else { "no" };
        let of_cufile =
            plan.request.tune.cufile_stats.map_or("none".to_string(), |level| level.to_string());
        let without =
            if plan.transport.path.has_engine() { &[][..] } else { &["transport.engine"] };
        let mut settings = Work::of_plan(plan, &[APART, without].concat())
            .typed_as(OPTIONS)
            .with("a warm-up run", warm_up)
            .with("cufile_stats", &of_cufile);
        let of_workload = &[
            "data",
            "loader",
            "reads",
            "compute",
            "preprocess",
            "metric",
            "shuffle",
            "checkpoint",
        ];
        settings.add("workload", &plan.workload, of_workload);
        settings.add("accelerator", &plan.accelerator, &["compute"]);
        settings.add("accelerators", plan.accelerators, &["steps_per_epoch"]);
        let of_profile = &["loader", "reads", "metric", "client", "block_end", "prewarm"];
        settings.add("profile", plan.profile, of_profile);
        settings.add("path", plan.transport.path, of_path(&plan.transport));
        settings.add("pages", plan.transport.pages.name(), &["transport.pages"]);
        if let Some(words) = plan.transport.threads_in_words() {
            let explains = &["transport.placement", "transport.wait"];
            settings.add("threads", words, explains);
        }
        settings.add("dataset", super::plan::data(plan), &["data", "steps_per_epoch"]);
        settings.add("loader", super::plan::loader(plan), &["loader"]);
        settings.add("compute", plan.compute, &["compute"]);
        let client = plan.client.as_ref().map_or("none".to_string(), ToString::to_string);
        settings.add("client", client, &["client"]);
        settings.add("cold", switch(plan.request.is_cold()), &[]);
        if plan.request.checksum != Verify::default() {
            settings.add("checksum", plan.request.checksum.name(), &[]);
        }
        settings
    }

    fn outcome(report: &TrainReport, status: String) -> Outcome {
        let results = &report.results;
        if let Some(find) = &results.find_max {
            let largest = f64::from(find.largest);
            return Outcome {
                what: if find.is_lower_bound { "at least" } else { "" },
                figure: (!find.tried.is_empty()).then(|| Quantity::higher(largest, "accelerators")),
                verdict: match report.ending {
                    Ending::Complete => {
                        format!("meet {:.1} %", report.plan.metric.threshold_percent)
                    }
                    _ => status,
                },
            };
        }
        let verb = if results.meets_threshold { "meets" } else { "misses" };
        Outcome {
            what: "AU",
            figure: is_measured(results)
                .then(|| Quantity::higher(results.mean.au_percent.profile, "%")),
            verdict: match report.ending {
                Ending::Complete => format!("{verb} {:.1} %", report.plan.metric.threshold_percent),
                _ => status,
            },
        }
    }
}

/// Keys of the plan that do not change the work; of its runs only the presence of a warm-up counts.
/// Fields of the request that nothing else in the plan reflects are added by name.
const APART: &[&str] = &[
    "request",
    "runs",
    "data.folder",
    "metric.threshold_percent",
    "shuffle.seed",
    "shuffle.file_seed",
    "checkpoint.folder",
    "transport.requested_engine",
    "memory_bytes",
];

/// Fields that follow from one option.
const OPTIONS: &[(&str, &str)] = &[
    ("cufile_stats", "--tune cufile-stats"),
    ("transport.engine", "--engine"),
    ("transport.threads", "--threads"),
];

/// Fields that follow from the path; the engine if it has none to choose.
fn of_path(transport: &Transport) -> &'static [&'static str] {
    let all = &[
        "transport.path",
        "transport.memory",
        "transport.emulated",
        "transport.device",
        "transport.devices",
        "transport.engine",
    ];
    if transport.path.has_engine() { &all[..5] } else { all }
}

/// Whether a step ended in the counted part: without one, all figures are 0.
fn is_measured(results: &TrainResults) -> bool {
    results.scored_epochs().iter().any(|epoch| epoch.fewest_steps() > 0)
}

/// CPU time per GiB read.
fn cpu(report: &TrainReport) -> Option<Figure> {
    let cost = &report.results.cost;
    let gib = cost.bytes_read as f64 / GIB as f64;
    let seconds = cost.cpu_user_seconds + cost.cpu_system_seconds;
    (gib > 0.0).then(|| Figure::cpu("", seconds / gib))
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
