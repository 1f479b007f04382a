//! Cells with reads and writes: both directions apart.

use crate::plan::{Measurement, MixedParts, PartOfMix};
use stormlp_core::units::GIB;
use stormlp_show::document::{Cell, Column, Quantity};

use super::group::CellGroup;

/// Describes the mix of a mixed run.
pub(super) fn words(read_percent: u8) -> String {
    let writes = 100 - read_percent.min(100);
    format!("{read_percent} % reads and {writes} % writes in each cell")
}

/// The columns of both directions.
pub(super) fn columns() -> Vec<Column> {
    let figures = [("GiB/s", 0), ("IOPS", 6), ("mean µs", 3), ("p99 µs", 0)];
    let both = |(figure, drop): (&str, u8)| {
        ["read", "write"].map(|what| Column::numbers(format!("{what} {figure}"), drop))
    };
    figures.into_iter().flat_map(both).collect()
}

/// The cells under [`columns`]: means over the repetitions.
pub(super) fn cells(group: &CellGroup<'_>) -> Vec<Cell> {
    type Side = fn(&MixedParts) -> &PartOfMix;
    let sides: [Side; 2] = [|mix| &mix.reads, |mix| &mix.writes];
    let known = |side: Side, figure: fn(&PartOfMix) -> Option<f64>| {
        group.known(|numbers: &Measurement| figure(side(numbers.mix.as_ref()?)))
    };
    let cell = |value: Option<f64>, quantity: fn(f64) -> Quantity| {
        value.map_or("".into(), |value| Cell::from(quantity(value)))
    };
    let gib = sides.map(|side| {
        let rate = known(side, |part| Some(part.throughput_bytes_per_second / GIB as f64));
        cell(rate, |rate| Quantity::higher(rate, "GiB/s"))
    });
    let iops = sides.map(|side| {
        cell(known(side, |part| Some(part.iops)), |iops| Quantity::higher(iops, "IOPS"))
    });
    let mean = sides.map(|side| {
        let mean = known(side, |part| Some(part.latency_us?.mean));
        cell(mean, |us| Quantity::lower(us, "µs"))
    });
    let p99 = sides
        .map(|side| cell(known(side, |part| part.latency_us?.p99), |us| Quantity::lower(us, "µs")));
    [gib, iops, mean, p99].into_iter().flatten().collect()
}
