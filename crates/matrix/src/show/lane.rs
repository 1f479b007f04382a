//! Contents of this lane's reports.

use crate::plan::compared::apart_from_work;
use crate::plan::{
    CellReport, CellStatus, FilePlan, MatrixPlan, MatrixReport, MatrixResults, Measurement,
};
use stormlp_core::evidence::Evidence;
use stormlp_core::report::Series;
use stormlp_core::units::ByteSize;
use stormlp_show::chart::Group;
use stormlp_show::comparison::Figure;
use stormlp_show::document::{Document, Quantity};
use stormlp_show::numbers::percent;
use stormlp_show::outcome::Outcome;
use stormlp_show::settings::Work;

use super::group::{CellGroup, groups};

pub(super) use stormlp_show::shown::Shown as _;
pub(super) use stormlp_show::shown::{Lane, Subject};

impl Lane for MatrixResults {
    type Plan = MatrixPlan;

    fn hosts(report: &MatrixReport) -> usize {
        report.results.hosts.len()
    }

    fn document(report: &MatrixReport) -> Document {
        super::run::document(report)
    }

    fn charts(report: &MatrixReport) -> Vec<Group> {
        super::charts(report)
    }

    fn evidence(report: &MatrixReport) -> Vec<&Evidence> {
        report.results.cells.iter().filter_map(|cell| cell.evidence.as_ref()).collect()
    }

    /// The figures of every measured combination. IOPS are omitted as they follow from throughput,
    /// and so is the maximum latency, which comes from a single transfer.
    fn figures(report: &MatrixReport) -> Vec<Figure> {
        groups(report).iter().flat_map(of_group).collect()
    }

    /// Everything that must match for two runs to be the same work.
    fn work(report: &MatrixReport) -> Work {
        let plan = &report.plan;
        let mut settings = Work::of_plan(&once(plan), &apart_from_work())
            .typed_as(OPTIONS)
            .with("hosts", &report.hosts().to_string())
            .with("holes", &plan.hole_share().map_or("none".to_string(), percent));
        for (name, words) in super::group::combinations(report) {
            settings.add(name, words, &["cells", "thread_groups", "devices"]);
        }
        settings.add("files", files_words(&plan.files), &["files", "thread_groups"]);
        settings.add(
            "memory",
            super::run::memory_words(report),
            &[
                "devices",
                "cells.memory",
                "cells.emulated",
                "cells.device",
                "thread_groups.workers.device",
            ],
        );
        if let Some(words) = plan.threads_in_words() {
            let explains = &["placement", "cells.placement", "cells.wait", "thread_groups.workers"];
            settings.add("threads", words, explains);
        }
        settings
    }

    /// The fastest combination, and the number of failed cells.
    fn outcome(report: &MatrixReport, status: String) -> Outcome {
        let cells = &report.results.cells;
        let failed = cells.iter().filter(|cell| cell.status == CellStatus::Failed).count();
        Outcome {
            what: "up to",
            figure: super::run::best(report)
                .map(|rate| Quantity::higher(rate.value, "GiB/s").spread(rate.spread)),
            verdict: match failed {
                0 => status,
                failed => format!("{status}, {failed} of {} cells failed", cells.len()),
            },
        }
    }

    fn mismatch(report: &MatrixReport) -> Option<String> {
        super::mismatch::headline(report)
    }

    fn subjects(report: &MatrixReport) -> Vec<Subject> {
        let done = &report.results.cells;
        let planned = report.plan.cells.iter().enumerate();
        let left_out = planned
            .filter(|(index, _)| done.iter().all(|cell| cell.cell != *index))
            .map(|(index, planned)| {
                let cell = CellReport::without_numbers(index, planned, "it did not run");
                (super::group::subject(report, &cell), cell.reason)
            });
        let done = done.iter().map(|cell| {
            let reason = cell.reason.clone().unwrap_or_default();
            let fault = cell.result().is_none().then_some(reason);
            (super::group::subject(report, cell), fault)
        });
        done.chain(left_out).collect()
    }

    fn series(report: &MatrixReport) -> Vec<(String, &Series)> {
        let cells = report.results.cells.iter();
        let measured = cells.filter_map(|cell| Some((cell, &cell.measurement.as_ref()?.series)));
        let named = measured.map(|(cell, series)| {
            (format!("{}, repeat {}", super::group::subject(report, cell), cell.repeat), series)
        });
        named.collect()
    }
}

fn of_group(group: &CellGroup<'_>) -> Vec<Figure> {
    let subject = group.key.name();
    let Some(throughput) = group.throughput() else {
        return Vec::new();
    };
    let throughput = Quantity::higher(throughput.value, "GiB/s").spread(throughput.spread);
    let mean = |number: fn(&Measurement) -> f64| group.estimate(number).map_or(0.0, |e| e.value);
    let latency = Quantity::lower(mean(|m| m.latency_us.mean), "µs");
    let percentile = |name, number: fn(&Measurement) -> Option<f64>| {
        Some(Figure::percentile(&subject, name, group.known(number)?))
    };
    let figures = [
        Some(Figure::throughput(&subject, throughput)),
        Some(Figure::new(&subject, "mean latency", latency)),
        percentile("p50 latency", |m| m.latency_us.p50),
        percentile("p99 latency", |m| m.latency_us.p99),
        percentile("p99.9 latency", |m| m.latency_us.p999),
        Some(Figure::cpu(&subject, mean(|m| m.cpu_seconds_per_gib))),
    ];
    figures.into_iter().flatten().collect()
}

/// Fields that follow from one option.
const OPTIONS: &[(&str, &str)] = &[
    ("cells.engine", "--engine"),
    ("cells.fsync", "--fsync"),
    ("cells.pages", "--tune pages"),
    ("cells.submit_batch", "--tune submit-batch"),
    ("cells.register_buffers", "--tune register"),
    ("request.cache", "--cache"),
    ("request.tune.cufile_stats", "--tune cufile-stats"),
    ("request.duration", "--duration"),
    ("request.fill", "--fill"),
    ("request.read_percent", "--read-percent"),
    ("request.tune.random_alignment_bytes", "--tune alignment"),
    ("request.tune.regenerate", "--tune regenerate"),
    ("request.checksum", "--checksum"),
    ("request.verify", "--verify"),
    ("request.warmup_seconds", "--warmup"),
];

/// `2 × 1 GiB`, regardless of names and locations.
fn files_words(files: &[FilePlan]) -> String {
    let mut sizes: Vec<u64> = files.iter().map(|file| file.bytes).collect();
    sizes.sort_unstable();
    let alike = sizes.chunk_by(|a, b| a == b);
    let words = alike.map(|alike| format!("{} × {}", alike.len(), ByteSize(alike[0])));
    words.collect::<Vec<_>>().join(", ")
}

/// The plan with one cell of each combination.
fn once(plan: &MatrixPlan) -> MatrixPlan {
    let mut plan = plan.clone();
    plan.cells.retain(|cell| cell.repeat == 1);
    plan
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;

    #[test]
    fn every_field_that_is_left_out_is_one_of_the_plan() {
        let plan = fixtures::run_of(20.0).plan;
        // Empty lists have no places.
        let may_be_absent = ["warnings", "request.require"];
        let options = OPTIONS.iter().map(|(place, _)| *place);
        let all: Vec<&str> = apart_from_work().into_iter().chain(options).collect();
        let absent = stormlp_show::settings::absent_fields(&plan, &all);
        assert!(absent.iter().all(|field| may_be_absent.contains(field)), "{absent:?}");
    }
}
