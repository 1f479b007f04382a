//! Warnings about the results of a finished matrix that only a comparison of its cells shows.

use crate::report::{CellReport, MatrixReport, Measurement};
use stormlp_core::path::PathKind;
use stormlp_core::stats::{mean, sample_deviation};
use stormlp_core::warning::{Warning, WarningKind};

/// Minimum deviation of the first repetition from the mean of the others for a warning.
const FIRST_DIFFERS_BY: f64 = 0.1;

/// All warnings that follow from the cells together; cells must be complete.
pub fn result_warnings(report: &MatrixReport) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for group in groups(report) {
        let rates: Vec<f64> =
            (group.iter()).map(|(_, numbers)| numbers.throughput_bytes_per_second).collect();
        let Some((cell, _)) = group.first() else {
            continue;
        };
        warnings.extend(first_differs(cell, &rates));
    }
    warnings.extend(near_ceiling(report));
    warnings
}

type MeasuredCell<'a> = (&'a CellReport, &'a Measurement);

/// The valid cells grouped by combination, in execution order.
fn groups(report: &MatrixReport) -> Vec<Vec<MeasuredCell<'_>>> {
    let mut groups: Vec<Vec<MeasuredCell<'_>>> = Vec::new();
    for cell in &report.results.cells {
        let Some(numbers) = cell.result() else {
            continue;
        };
        let same = |group: &&mut Vec<MeasuredCell<'_>>| {
            let first = group[0].0;
            first.requested_path == cell.requested_path && same_combination(first, cell)
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push((cell, numbers)),
            None => groups.push(vec![(cell, numbers)]),
        }
    }
    groups
}

fn same_combination(a: &CellReport, b: &CellReport) -> bool {
    let combination = |cell: &CellReport| (cell.op, cell.io_size, cell.threads, cell.queue_depth);
    combination(a) == combination(b)
}

fn words(cell: &CellReport) -> String {
    format!(
        "{} {} of {}, {} threads",
        cell.requested_path,
        cell.op,
        cell.io_size.words(),
        cell.threads
    )
}

/// The first repetition differs from the others: something was warming up.
fn first_differs(cell: &CellReport, rates: &[f64]) -> Option<Warning> {
    let (first, others) = rates.split_first()?;
    if others.len() < 2 {
        return None;
    }
    let usual = mean(others);
    let far = (first - usual).abs();
    (far > FIRST_DIFFERS_BY * usual && far > 3.0 * sample_deviation(others)).then(|| {
        Warning::new(
            WarningKind::Outliers,
            format!(
                "{}: the first repetition had {:.0} % of the others' throughput",
                words(cell),
                100.0 * first / usual
            ),
            "use --warmup, or leave the first repetition out",
        )
    })
}

/// A path within twice the time of the null path: stormlp itself was the bottleneck.
fn near_ceiling(report: &MatrixReport) -> Option<Warning> {
    let groups = groups(report);
    let rate =
        |group: &[MeasuredCell<'_>]| mean(&group.iter().map(|(_, m)| m.iops).collect::<Vec<_>>());
    groups.iter().find_map(|group| {
        let cell = group[0].0;
        let ceiling = groups.iter().find(|other| {
            let other = other[0].0;
            other.requested_path == PathKind::Null && same_combination(other, cell)
        })?;
        let (own, most) = (rate(group), rate(ceiling));
        (cell.requested_path != PathKind::Null && own * 2.0 > most).then(|| {
            Warning::new(
                WarningKind::HarnessBound,
                format!(
                    "{}: {own:.0} transfers/s, and the null path makes {most:.0}: stormlp itself \
                     took much of the time",
                    words(cell)
                ),
                "use more --threads or a larger --io-size",
            )
        })
    })
}
