//! The figures of a matrix for comparisons, by combination.

use crate::plan::{MatrixReport, Measurement};

use super::group::{Group, groups};
use stormlp_show::comparison::Figure;
use stormlp_show::document::Quantity;

/// The figures of every measured combination. IOPS are omitted as they follow from throughput, and
/// so is the maximum latency, which is that of a single transfer.
pub(crate) fn figures(report: &MatrixReport) -> Vec<Figure> {
    groups(report).iter().flat_map(of_group).collect()
}

fn of_group(group: &Group<'_>) -> Vec<Figure> {
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
