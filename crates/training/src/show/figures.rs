//! The figures of a training run, for comparisons.

use crate::report::{EpochReport, Measures, TrainReport};
use stormlp_core::units::GIB;

use stormlp_show::comparison::Figure;
use stormlp_show::document::Quantity;

/// Reads a number from the measures of a report or an epoch.
type Number = fn(&Measures) -> f64;

/// The figures of a run; its epochs show their variation.
pub(crate) fn figures(report: &TrainReport) -> Vec<Figure> {
    let results = &report.results;
    let mut epochs = results.scored_epochs();
    epochs.retain(|epoch| epoch.is_whole(&report.plan));
    let figure = |name, make: fn(f64, &'static str) -> Quantity, unit, number: Number| {
        let figure = Figure::new("", name, make(number(&results.mean), unit));
        figure.parts(epochs.iter().map(|epoch| number(&epoch.measures)))
    };
    let (higher, lower) = (Quantity::higher, Quantity::lower);
    let mut figures = vec![
        figure("AU", higher, "%", |m| m.au_percent.profile),
        figure("throughput", higher, "samples/s", |m| m.samples_per_second),
    ];
    if report.plan.data.folder.is_some() {
        let read = figure("reading", higher, "MiB/s", |m| m.read_mib_per_second);
        figures.push(read.or_rates(report.series.iter().map(|named| &named.series)));
    }
    figures.extend([
        figure("storage wait", lower, "s", |m| m.waiting_seconds.storage),
        figure("CPU wait", lower, "s", |m| m.waiting_seconds.cpu),
        figure("start-up wait", lower, "s", |m| m.waiting_seconds.startup),
    ]);
    figures.extend(cpu(report, &epochs));
    let latency = &results.latency;
    let percentiles = [("p99 fetch wait", latency.fetch_wait_us), ("p99 read", latency.read_us)]
        .into_iter()
        .filter_map(|(name, us)| {
            let us = us?.p99?;
            Some(Figure::percentile("", name, us))
        });
    figures.extend(percentiles);
    figures
}

/// CPU time per GiB read.
fn cpu(report: &TrainReport, epochs: &[&EpochReport]) -> Option<Figure> {
    let each = |cost: &crate::report::Cost| {
        let gib = cost.bytes_read as f64 / GIB as f64;
        (gib > 0.0).then(|| (cost.cpu_user_seconds + cost.cpu_system_seconds) / gib)
    };
    let value = each(&report.results.cost)?;
    let figure = Figure::cpu("", value);
    Some(figure.parts(epochs.iter().filter_map(|epoch| each(&epoch.cost))))
}
