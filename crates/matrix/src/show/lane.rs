//! Contents of this lane's reports.

use crate::plan::{CellReport, CellStatus, MatrixPlan, MatrixReport, MatrixResults, Measurement};
use crate::report::contradictions;

use super::group::{CellGroup, groups};
use stormlp_show::chart::Group;
use stormlp_show::comparison::Figure;
use stormlp_show::document::{Document, Quantity};
use stormlp_show::outcome::Outcome;
use stormlp_show::settings::Work;
pub(super) use stormlp_show::shown::{Lane, Subject};

impl Lane for MatrixResults {
    type Plan = MatrixPlan;

    fn hosts(report: &MatrixReport) -> usize {
        report.results.hosts.len()
    }

    fn contradictions(report: &MatrixReport) -> Vec<String> {
        contradictions::contradictions(report)
    }

    fn document(report: &MatrixReport) -> Document {
        super::run::document(report, super::run::Columns::Standard)
    }

    fn charts(report: &MatrixReport) -> Vec<Group> {
        super::charts(report)
    }

    fn figures(report: &MatrixReport) -> Vec<Figure> {
        figures(report)
    }

    fn work(report: &MatrixReport) -> Work {
        super::settings::work(report)
    }

    fn outcome(report: &MatrixReport, status: String) -> Outcome {
        outcome(report, status)
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

/// The figures of every measured combination. IOPS are omitted as they follow from throughput, and
/// so is the maximum latency, which is that of a single transfer.
fn figures(report: &MatrixReport) -> Vec<Figure> {
    groups(report).iter().flat_map(of_group).collect()
}

fn of_group(group: &CellGroup<'_>) -> Vec<Figure> {
    let (subject, results) = (group.key.name(), group.results());
    let Some(throughput) = group.throughput() else {
        return Vec::new();
    };
    let throughput = Quantity::higher(throughput.value, "GiB/s").spread(throughput.spread);
    let rates = results.iter().map(|m| m.throughput_bytes_per_second);
    let throughput = Figure::new(&subject, "throughput", throughput)
        .parts(rates)
        .or_rates(results.iter().map(|m| &m.series));
    let mean = |number: fn(&Measurement) -> f64| group.estimate(number).map_or(0.0, |e| e.value);
    let latency = Quantity::lower(mean(|m| m.latency_us.mean), "µs");
    let latency = Figure::new(&subject, "mean latency", latency)
        .parts(results.iter().map(|m| m.latency_us.mean));
    let cpu = Figure::cpu(&subject, mean(|m| m.cpu_seconds_per_gib))
        .parts(results.iter().map(|m| m.cpu_seconds_per_gib));
    let percentile = |name, number: fn(&Measurement) -> Option<f64>| {
        let figure = Figure::percentile(&subject, name, group.known(number)?);
        Some(figure.parts(results.iter().filter_map(|m| number(m))))
    };
    let figures = [
        Some(throughput),
        Some(latency),
        percentile("p50 latency", |m| m.latency_us.p50),
        percentile("p99 latency", |m| m.latency_us.p99),
        percentile("p99.9 latency", |m| m.latency_us.p999),
        Some(cpu),
    ];
    figures.into_iter().flatten().collect()
}
