//! Throughput of objects in slices of a second, as tools for object stores show it.

use stormlp_core::path::PathKind;
use stormlp_core::units::MIB;
use stormlp_show::document::{Column, Quantity, Table};
use stormlp_show::series;

use super::group::CellGroup;

/// Fewer slices than these have no median of their own.
const FEWEST: usize = 3;

/// A row for each setting that moved objects for long enough; `None` without any.
pub(super) fn table(groups: &[CellGroup<'_>]) -> Option<Table> {
    let words = ["op", "I/O", "threads"].map(|name| Column::words(name, 0));
    let rates = ["slowest MiB/s", "median MiB/s", "fastest MiB/s", "slices", "every s"];
    let numbers = rates.map(|name| Column::numbers(name, 0));
    let mut table = Table::new(words.into_iter().chain(numbers));
    for group in groups.iter().filter(|group| group.key.path == PathKind::S3) {
        let measured = group.cells.iter().filter_map(|cell| cell.result());
        let slices: Vec<_> = measured.map(|numbers| series::slices(&numbers.series)).collect();
        let seconds = slices.iter().map(|(seconds, _)| *seconds).fold(0.0, f64::max);
        let mut rates: Vec<f64> = slices.into_iter().flat_map(|(_, rates)| rates).collect();
        if rates.len() < FEWEST {
            continue;
        }
        rates.sort_by(f64::total_cmp);
        let of = |nth: usize| Quantity::higher(rates[nth] / MIB as f64, "MiB/s").into();
        let combination = &group.key.combination;
        let row = vec![
            combination.operation().into(),
            combination.io_size().into(),
            combination.threads.to_string().into(),
            of(0),
            of(rates.len() / 2),
            of(rates.len() - 1),
            rates.len().to_string().into(),
            Quantity::neutral(seconds, "s").into(),
        ];
        table.row(group.key.name(), row);
    }
    (!table.rows.is_empty()).then_some(table)
}
