//! The figures of a checkpoint run for a comparison.

use crate::plan::Arithmetic;
use crate::report::headline_arithmetic;
use crate::report::{CheckpointReport, CheckpointResult, PhaseSummary};
use stormlp_core::units::GIB;

use super::run::figure;
use stormlp_show::comparison::Figure;
use stormlp_show::document::Quantity;

/// Figures of saves and of restores, by the profile's own arithmetic. The individual saves and
/// restores give the variation.
pub(crate) fn figures(report: &CheckpointReport) -> Vec<Figure> {
    let results = &report.results;
    let saves = (&results.saves, &results.summary.save);
    let restores = (&results.restores, &results.summary.restore);
    let phases = [("save", saves), ("restore", restores)].into_iter().filter_map(
        |(name, (results, summary))| Some(of_phase(report, name, results, summary.as_ref()?)),
    );
    phases.flatten().collect()
}

fn of_phase(
    report: &CheckpointReport,
    phase: &'static str,
    results: &[CheckpointResult],
    summary: &PhaseSummary,
) -> Vec<Figure> {
    let own = headline_arithmetic(report);
    let mean = figure(summary, own);
    let (rate, seconds) = (mean.gib_per_second.mean, mean.duration_seconds.mean);
    let series = report.series.iter().filter(|one| one.name.starts_with(phase));
    let mut figures = vec![
        Figure::new(phase, "throughput", Quantity::higher(rate, "GiB/s"))
            .parts(results.iter().map(|result| rate_of(result, own)))
            .or_rates(series.map(|one| &one.series)),
        Figure::new(phase, "duration", Quantity::lower(seconds, "s"))
            .parts(results.iter().map(|result| seconds_of(result, own))),
    ];
    if phase == "save" {
        let each = || results.iter().map(|result| result.mean_parts.fsync_seconds);
        let seconds = each().sum::<f64>() / results.len().max(1) as f64;
        figures.push(Figure::new(phase, "fsync", Quantity::lower(seconds, "s")).parts(each()));
    }
    let cpu = Figure::cpu(phase, summary.cpu_seconds_per_gib);
    figures.push(cpu.parts(results.iter().map(cpu_of)));
    let timed = report
        .histograms
        .iter()
        .filter(|one| one.name.starts_with(phase))
        .filter_map(|one| one.summary_us.p99);
    figures.extend(timed.map(|us| Figure::percentile(phase, "p99 transfer", us)));
    figures
}

fn rate_of(result: &CheckpointResult, arithmetic: Arithmetic) -> f64 {
    match arithmetic {
        Arithmetic::MlperfRules => result.gib_per_second.min_rank,
        Arithmetic::Dlio => result.gib_per_second.rank0,
        Arithmetic::AllRanks => result.gib_per_second.total,
    }
}

fn seconds_of(result: &CheckpointResult, arithmetic: Arithmetic) -> f64 {
    match arithmetic {
        Arithmetic::MlperfRules | Arithmetic::AllRanks => result.duration_seconds.max,
        Arithmetic::Dlio => result.duration_seconds.rank0,
    }
}

/// CPU seconds per GiB.
fn cpu_of(result: &CheckpointResult) -> f64 {
    let gib = result.bytes.max(1) as f64 / GIB as f64;
    (result.cpu_user_seconds + result.cpu_system_seconds) / gib
}
