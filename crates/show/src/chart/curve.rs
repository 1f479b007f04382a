//! Percentile curves: latency distributions on logarithmic axes.

use stormlp_core::histogram;

use super::ruler::Scale;
use super::{Axis, Chart, Line};

/// A curve for each saved histogram that is readable.
pub fn percentiles<'a>(
    title: impl Into<String>,
    histograms: impl IntoIterator<Item = (String, &'a str)>,
) -> Option<Chart> {
    let lines = histograms.into_iter().filter_map(|(name, data)| {
        let points = histogram::curve(data)?;
        Some(Line::new(name, points))
    });
    Chart::lines(
        title,
        Axis::new("percentile", Scale::Quantiles),
        Axis::new("µs", Scale::Log),
        lines.collect(),
    )
}
