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

/// The rates of both directions for a sentence: `, 2.40 read and 1.00 written`; empty without a mix.
pub(super) fn rates(group: &CellGroup<'_>) -> String {
    let rate = |side: Side| Some(gib_per_second(group, side)?.text());
    match (rate(reads), rate(writes)) {
        (Some(reads), Some(writes)) => format!(", {reads} read and {writes} written"),
        _ => String::new(),
    }
}

/// Takes one direction of a mix.
pub(super) type Side = fn(&MixedParts) -> &PartOfMix;

pub(super) fn reads(mix: &MixedParts) -> &PartOfMix {
    &mix.reads
}

pub(super) fn writes(mix: &MixedParts) -> &PartOfMix {
    &mix.writes
}

/// A figure of one direction: the mean over the repetitions, if all have it.
pub(super) fn known(
    group: &CellGroup<'_>,
    side: Side,
    figure: fn(&PartOfMix) -> Option<f64>,
) -> Option<f64> {
    group.known(|numbers: &Measurement| figure(side(numbers.mix.as_ref()?)))
}

fn gib_per_second(group: &CellGroup<'_>, side: Side) -> Option<Quantity> {
    let rate = known(group, side, |part| Some(part.throughput_bytes_per_second / GIB as f64))?;
    Some(Quantity::higher(rate, "GiB/s"))
}

/// The columns of both directions. Where lines are short, the rates stay, and of the percentiles
/// that of reads, for which somebody waits.
pub(super) fn columns() -> Vec<Column> {
    let figures = [("GiB/s", 0), ("IOPS", 6), ("mean µs", 4), ("p99 µs", 1)];
    let both = |(figure, drop): (&str, u8)| {
        ["read", "write"].map(|what| Column::numbers(format!("{what} {figure}"), drop))
    };
    figures.into_iter().flat_map(both).collect()
}

/// The cells under [`columns`]: means over the repetitions.
pub(super) fn cells(group: &CellGroup<'_>) -> Vec<Cell> {
    let sides: [Side; 2] = [reads, writes];
    let cell = |value: Option<Quantity>| value.map_or("".into(), Cell::from);
    let gib = sides.map(|side| cell(gib_per_second(group, side)));
    let of = |figure: fn(&PartOfMix) -> Option<f64>, quantity: fn(f64) -> Quantity| {
        sides.map(|side| cell(known(group, side, figure).map(quantity)))
    };
    let us = |value| Quantity::lower(value, "µs");
    let iops = of(|part| Some(part.iops), |iops| Quantity::higher(iops, "IOPS"));
    let mean = of(|part| Some(part.latency_us?.mean), us);
    let p99 = of(|part| part.latency_us?.p99, us);
    [gib, iops, mean, p99].into_iter().flatten().collect()
}
