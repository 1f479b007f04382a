//! The contents of a chart: axes, lines and bars, cut down to a readable number.

use stormlp_core::histogram::{self, NamedHistogram};

/// Maximum number of rows that are readable.
const MOST_ROWS: usize = 32;
/// Maximum number of lines in one chart that are distinguishable.
pub const MOST_LINES: usize = 5;
/// Maximum number of points, limited by the pixels of a chart. Series have at most 1024.
const MOST_POINTS: usize = 1100;

/// Charts that answer one question.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Group {
    /// The question, as a title.
    pub title: String,
    /// The charts.
    pub charts: Vec<Chart>,
    /// Charts that could not be drawn, with the reason.
    pub absent: Vec<String>,
    /// Whether a page collapses it.
    pub is_folded: bool,
}

/// One chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Its title.
    pub title: String,
    /// Notes about it.
    pub notes: Vec<String>,
    /// Its data.
    pub plot: Plot,
}

/// The form of a chart.
#[derive(Debug, Clone, PartialEq)]
pub enum Plot {
    /// Lines over an axis.
    Lines(Lines),
    /// Horizontal bars.
    Bars(Bars),
}

/// An axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Its label: `GiB/s`, `seconds`.
    pub name: String,
    /// Its scale.
    pub scale: Scale,
}

/// Lines over an axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Lines {
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines.
    pub lines: Vec<Line>,
    /// Labelled positions on the horizontal axis.
    pub marks: Vec<(f64, String)>,
}

/// A line through points, interrupted where values are unknown.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// The points of each segment from left to right, or in the order of their settings.
    pub(super) pieces: Vec<Vec<(f64, f64)>>,
    /// The name of each point, if the line connects settings.
    pub(super) settings: Vec<String>,
    /// The setting to point out.
    pub(super) knee: Option<usize>,
}

/// A setting and its measurement, both axes included.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Its name, short enough to stand next to the point.
    pub name: String,
    /// Its position; both values are above 0.
    pub at: (f64, f64),
}

/// Horizontal bars, each with one segment per entry of `parts`.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    /// The unit of the values.
    pub unit: String,
    /// The names of the segments; a single one makes plain bars.
    pub parts: Vec<String>,
    /// The bars.
    pub rows: Vec<Bar>,
    /// A target value and its name.
    pub limit: Option<(f64, String)>,
}

/// A bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// Its name.
    pub name: String,
    /// A value for each segment.
    pub values: Vec<f64>,
    /// The interval of their sum, drawn as a line.
    pub interval: Option<[f64; 2]>,
}

impl Group {
    /// An empty group.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// The latency distributions of `histograms`, drawn as a chart titled `what`.
    pub fn of_histograms(title: &str, what: &str, histograms: &[NamedHistogram]) -> Self {
        let mut drawn = Self::new(title);
        let curves = histograms.iter().map(|one| (one.name.replace('_', " "), one.data.as_str()));
        let why = "the report contains no readable distribution";
        drawn.add(what, percentiles(what, curves), why);
        drawn
    }

    /// Adds a chart, or notes that `what` is not drawn because of `why`.
    pub fn add(&mut self, what: &str, chart: Option<Chart>, why: &str) {
        match chart {
            Some(chart) => self.charts.push(chart),
            None => self.absent.push(format!("{what}: {why}")),
        }
    }
}

impl Axis {
    /// An axis labelled `name`.
    pub fn new(name: impl Into<String>, scale: Scale) -> Self {
        Self { name: name.into(), scale }
    }
}

impl Line {
    /// A line through the drawable `points`, reduced to the extremes of each range if there are too
    /// many. It is interrupted where a point has no value.
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let mut pieces = vec![Vec::new()];
        for (x, y) in points.into_iter().filter(|(x, _)| is_amount(*x)) {
            if is_amount(y) {
                pieces.last_mut().into_iter().for_each(|piece| piece.push((x, y)))
            } else {
                pieces.push(Vec::new())
            }
        }
        Self::of(name, pieces)
    }

    /// A step line: each value holds until the next position.
    pub fn steps(
        name: impl Into<String>,
        steps: impl IntoIterator<Item = ((f64, f64), f64)>,
    ) -> Self {
        let holds = |((from, to), value)| vec![(from, value), (to, value)];
        let is_drawn =
            |piece: &Vec<(f64, f64)>| (piece.iter()).all(|(x, y)| is_amount(*x) && is_amount(*y));
        let pieces = steps.into_iter().map(holds).filter(is_drawn);
        Self::of(name, pieces.collect())
    }

    fn of(name: impl Into<String>, mut pieces: Vec<Vec<(f64, f64)>>) -> Self {
        pieces.retain(|piece| !piece.is_empty());
        let all: usize = pieces.iter().map(Vec::len).sum();
        // This many segments would be too small to be visible.
        if pieces.len() > MOST_POINTS / 4 {
            pieces = vec![pieces.concat()];
        }
        let share = |piece: &Vec<(f64, f64)>| (MOST_POINTS * piece.len() / all.max(1)).max(4);
        let thin = |piece: Vec<(f64, f64)>| {
            let most = share(&piece);
            thinned(piece, if all > MOST_POINTS { most } else { MOST_POINTS })
        };
        let pieces = pieces.into_iter().map(thin).collect();
        Self { name: name.into(), pieces, settings: Vec::new(), knee: None }
    }

    /// A line from setting to setting in their order, of which one is the `knee`.
    pub fn through(name: impl Into<String>, settings: Vec<Setting>, knee: Option<usize>) -> Self {
        let is_drawn = |(x, y): (f64, f64)| is_amount(x) && is_amount(y) && x > 0.0 && y > 0.0;
        let knee = knee.and_then(|nth| settings.get(nth)).map(|one| one.name.clone());
        let drawn: Vec<Setting> = settings.into_iter().filter(|one| is_drawn(one.at)).collect();
        Self {
            name: name.into(),
            pieces: vec![drawn.iter().map(|one| one.at).collect()],
            knee: drawn.iter().position(|one| Some(&one.name) == knee.as_ref()),
            settings: drawn.into_iter().map(|one| one.name).collect(),
        }
    }

    /// Its points from left to right, or in the order of their settings.
    pub fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        self.pieces.iter().flatten().copied()
    }
}

impl Lines {
    /// Whether its lines connect settings, so that they may go back and forth.
    pub(super) fn has_settings(&self) -> bool {
        self.lines.iter().any(|line| !line.settings.is_empty())
    }
}

impl Bar {
    /// A bar with a single segment.
    pub fn one(name: impl Into<String>, value: f64) -> Self {
        Self { name: name.into(), values: vec![value], interval: None }
    }

    pub(super) fn total(&self) -> f64 {
        self.values.iter().sum()
    }

    /// Where the longest part of it ends.
    pub(super) fn end(&self) -> f64 {
        self.interval.map_or(0.0, |[_, high]| high).max(self.total())
    }
}

impl Chart {
    /// A line chart; `None` if no line has two points, or no value is above 0. A line of one point
    /// is a mark if there are more lines.
    pub fn lines(title: impl Into<String>, x: Axis, y: Axis, lines: Vec<Line>) -> Option<Self> {
        let is_above_zero = |point: &(f64, f64)| y.scale != Scale::Log || point.1 > 0.0;
        let drawn = lines.into_iter().map(|mut line| {
            let pieces = line.pieces.iter_mut();
            pieces.for_each(|piece| piece.retain(is_above_zero));
            line.pieces.retain(|piece| !piece.is_empty());
            line
        });
        let lines: Vec<Line> = drawn.filter(|line| line.points().next().is_some()).collect();
        let is_line = lines.iter().any(|line| line.points().nth(1).is_some());
        let is_something = lines.iter().flat_map(Line::points).any(|(_, value)| value > 0.0);
        (is_line && is_something)
            .then(|| Self::of(title, Plot::Lines(Lines { x, y, lines, marks: Vec::new() })))
    }

    /// A chart of plain bars; `None` for a single bar, which is no comparison.
    pub fn bars(title: impl Into<String>, unit: &str, rows: Vec<Bar>) -> Option<Self> {
        if rows.len() < 2 { None } else { Self::stacked(title, unit, &[""], rows) }
    }

    /// A chart of stacked bars; `None` without bars.
    pub fn stacked(
        title: impl Into<String>,
        unit: &str,
        parts: &[&str],
        mut rows: Vec<Bar>,
    ) -> Option<Self> {
        rows.retain(|row| row.values.iter().all(|value| is_amount(*value)));
        let all = rows.len();
        let rows = few(rows);
        let mut chart = (!rows.is_empty()).then(|| {
            let bars = Bars {
                unit: unit.to_string(),
                parts: parts.iter().map(ToString::to_string).collect(),
                rows,
                limit: None,
            };
            Self::of(title, Plot::Bars(bars))
        })?;
        if all > MOST_ROWS {
            chart.notes.push(format!(
                "{MOST_ROWS} of {all} are drawn, the longest and the shortest among them; \
                 the report has all."
            ));
        }
        Some(chart)
    }

    fn of(title: impl Into<String>, plot: Plot) -> Self {
        Self { title: title.into(), notes: Vec::new(), plot }
    }

    /// Adds a note.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Adds a target value.
    #[must_use]
    pub fn limit(mut self, value: f64, name: impl Into<String>) -> Self {
        if let (Plot::Bars(bars), true) = (&mut self.plot, is_amount(value)) {
            bars.limit = Some((value, name.into()));
        }
        self
    }

    /// Adds labelled positions on the horizontal axis.
    #[must_use]
    pub fn marks(mut self, marks: Vec<(f64, String)>) -> Self {
        if let Plot::Lines(lines) = &mut self.plot {
            lines.marks = marks.into_iter().filter(|(at, _)| is_amount(*at)).collect();
        }
        self
    }
}

/// Whether a number can be drawn: no measured value is negative or larger than this.
fn is_amount(value: f64) -> bool {
    (0.0..=1e20).contains(&value)
}

/// At most [`MOST_ROWS`] of `rows` in order: the longest, the shortest and some between.
fn few(rows: Vec<Bar>) -> Vec<Bar> {
    if rows.len() <= MOST_ROWS {
        return rows;
    }
    let by_length = |a: &usize, b: &usize| rows[*a].total().total_cmp(&rows[*b].total());
    let ends = [(0..rows.len()).min_by(by_length), (0..rows.len()).max_by(by_length)];
    let even = (0..MOST_ROWS - 2).map(|nth| nth * rows.len() / (MOST_ROWS - 2));
    let mut kept: Vec<usize> = even.chain(ends.into_iter().flatten()).collect();
    kept.sort_unstable();
    kept.dedup();
    let mut rows: Vec<Option<Bar>> = rows.into_iter().map(Some).collect();
    kept.into_iter().filter_map(|row| rows[row].take()).collect()
}

/// Reduces `points` to at most `most`: the lowest and highest of each range.
fn thinned(points: Vec<(f64, f64)>, most: usize) -> Vec<(f64, f64)> {
    if points.len() <= most {
        return points;
    }
    let stretch = points.len().div_ceil(most / 2);
    let ends = points.chunks(stretch).flat_map(|part| {
        let indices = 0..part.len();
        let low = indices.clone().min_by(|a, b| part[*a].1.total_cmp(&part[*b].1));
        let high = indices.max_by(|a, b| part[*a].1.total_cmp(&part[*b].1));
        let mut ends: Vec<usize> = low.into_iter().chain(high).collect();
        ends.sort_unstable();
        ends.dedup();
        ends.into_iter().map(|end| part[end])
    });
    ends.collect()
}

/// The scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Linear, from zero.
    Linear,
    /// Logarithmic.
    Log,
    /// Sizes in bytes, by their doublings.
    Sizes,
    /// Numbers as equidistant categories.
    Counts,
    /// Quantiles from 0 to 1, by the logarithm of the remainder.
    Quantiles,
}

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

#[cfg(test)]
#[path = "plot_tests.rs"]
mod tests;
