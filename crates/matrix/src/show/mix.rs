//! Cells with reads and writes: both directions apart.

use crate::plan::{Measurement, MixedParts, Transfers};
use stormlp_core::units::GIB;
use stormlp_show::document::{Col, Quantity, number};

use super::group::{CellGroup, Rated};

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

/// Selects one direction of a mix.
pub(super) type Side = fn(&MixedParts) -> &Transfers;

pub(super) fn reads(mix: &MixedParts) -> &Transfers {
    &mix.reads
}

pub(super) fn writes(mix: &MixedParts) -> &Transfers {
    &mix.writes
}

/// A figure of one direction: the mean over the repetitions, if all have it.
pub(super) fn known(
    group: &CellGroup<'_>,
    side: Side,
    figure: fn(&Transfers) -> Option<f64>,
) -> Option<f64> {
    group.known(|numbers: &Measurement| figure(side(numbers.mix.as_ref()?)))
}

fn gib_per_second(group: &CellGroup<'_>, side: Side) -> Option<Quantity> {
    let rate = known(group, side, |part| Some(part.throughput_bytes_per_second / GIB as f64))?;
    Some(Quantity::higher(rate, "GiB/s"))
}

/// The columns of both directions: means over the repetitions. Where lines are short, the rates
/// stay, and of the percentiles the reads', which applications wait for.
pub(super) fn columns<'a>() -> impl Iterator<Item = Col<'a, Rated<'a>>> {
    type Figure = fn(&Transfers) -> Option<f64>;
    type Rating = fn(f64) -> Quantity;
    let gib: Figure = |part| Some(part.throughput_bytes_per_second / GIB as f64);
    let figures: [(&str, u8, Figure, Rating); 4] = [
        ("GiB/s", 0, gib, |rate| Quantity::higher(rate, "GiB/s")),
        ("IOPS", 6, |part| Some(part.iops), |iops| Quantity::higher(iops, "IOPS")),
        ("mean µs", 4, |part| Some(part.latency_us?.mean), |us| Quantity::lower(us, "µs")),
        ("p99 µs", 1, |part| part.latency_us?.p99, |us| Quantity::lower(us, "µs")),
    ];
    figures.into_iter().flat_map(|(figure, drop, of, quantity)| {
        [("read", reads as Side), ("write", writes)].map(|(what, side)| {
            let name = format!("{what} {figure}");
            number(&name, drop, move |(group, _): &Rated<'_>| known(group, side, of).map(quantity))
        })
    })
}
