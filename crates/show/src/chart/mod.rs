//! Charts before they are drawn: what a picture shows, and the same numbers as a table.
//!
//! A lane says which charts its report has; `draw` draws them and knows no lane. Two forms are
//! enough: lines over an axis, and bars that may be stacked.

mod curve;
mod draw;
mod palette;
mod ruler;
mod table;

use std::collections::BTreeMap;

use stormlp_core::histogram::NamedHistogram;

pub use curve::percentiles;
pub use draw::svg;
pub(crate) use palette::dark_rules;
pub use ruler::Scale;

/// More rows than this are not taken in at a glance.
pub(crate) const MOST_ROWS: usize = 32;
/// More lines than this in one chart cannot be told apart.
pub const MOST_LINES: usize = 5;
/// More points than this are more than a chart has pixels for. Series have at most 1024.
const MOST_POINTS: usize = 1100;

/// Charts that answer one question.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Group {
    /// The question, as a title.
    pub title: String,
    /// The charts.
    pub charts: Vec<Chart>,
    /// What could have been drawn and was not, and why.
    pub absent: Vec<String>,
    /// Whether it is shown only when it is asked for.
    pub folded: bool,
}

/// One chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// What to know of it.
    pub notes: Vec<String>,
    /// Its data.
    pub plot: Plot,
    /// What its axes hold too, so that charts beside each other have one scale.
    pub stretch: Extent,
}

/// Values that lie on the axes of a chart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Extent {
    /// On the horizontal axis of lines.
    pub across: Vec<f64>,
    /// On the axis of what was measured.
    pub values: Vec<f64>,
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
    /// What it counts: `GiB/s`, `seconds`.
    pub name: String,
    /// How values lie on it.
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
    /// Places on the horizontal axis that have a name.
    pub marks: Vec<(f64, String)>,
}

/// A line through points, in pieces where something between them is not known.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// What it is of.
    pub name: String,
    /// The points of each piece from left to right.
    pieces: Vec<Vec<(f64, f64)>>,
}

/// Horizontal bars, each in as many parts as `parts` has names.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    /// The unit of the values.
    pub unit: String,
    /// What the parts of a bar are; one is a plain bar.
    pub parts: Vec<String>,
    /// The bars.
    pub rows: Vec<Bar>,
    /// A value to reach, and what it is.
    pub limit: Option<(f64, String)>,
}

/// A bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// What it is of.
    pub name: String,
    /// A value for each part.
    pub values: Vec<f64>,
}

impl Group {
    /// A group that has nothing yet.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// How the times of `histograms` spread, drawn as a chart that is called `what`.
    pub fn of_histograms(title: &str, what: &str, histograms: &[NamedHistogram]) -> Self {
        let mut drawn = Self::new(title);
        let curves = histograms.iter().map(|one| (one.name.replace('_', " "), one.data.as_str()));
        let why = "the report holds no distribution that can be read";
        drawn.add(what, percentiles(what, curves), why);
        drawn
    }

    /// Adds a chart, or says that `what` is not drawn because of `why`.
    pub fn add(&mut self, what: &str, chart: Option<Chart>, why: &str) {
        match chart {
            Some(chart) => self.charts.push(chart),
            None => self.absent.push(format!("{what}: {why}")),
        }
    }
}

impl Axis {
    /// An axis of `name`.
    pub fn new(name: impl Into<String>, scale: Scale) -> Self {
        Self { name: name.into(), scale }
    }
}

impl Line {
    /// A line through those of `points` that can be drawn, the extremes of each stretch where there
    /// are more than a chart has room for. It is interrupted where a point has no value.
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

    /// A line of steps: a value that holds from one place to another.
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
        // So many pieces have no room to be seen as such.
        if pieces.len() > MOST_POINTS / 4 {
            pieces = vec![pieces.concat()];
        }
        let share = |piece: &Vec<(f64, f64)>| (MOST_POINTS * piece.len() / all.max(1)).max(4);
        let thin = |piece: Vec<(f64, f64)>| {
            let most = share(&piece);
            thinned(piece, if all > MOST_POINTS { most } else { MOST_POINTS })
        };
        Self { name: name.into(), pieces: pieces.into_iter().map(thin).collect() }
    }

    /// Its points from left to right.
    pub fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        self.pieces.iter().flatten().copied()
    }
}

impl Bar {
    /// A bar of one part.
    pub fn one(name: impl Into<String>, value: f64) -> Self {
        Self { name: name.into(), values: vec![value] }
    }

    fn total(&self) -> f64 {
        self.values.iter().sum()
    }
}

impl Chart {
    /// A chart of lines; `None` where no line has two points.
    pub fn lines(title: impl Into<String>, x: Axis, y: Axis, lines: Vec<Line>) -> Option<Self> {
        let is_above_zero = |point: &(f64, f64)| y.scale != Scale::Log || point.1 > 0.0;
        let drawn = lines.into_iter().map(|mut line| {
            let pieces = line.pieces.iter_mut();
            pieces.for_each(|piece| piece.retain(is_above_zero));
            line.pieces.retain(|piece| !piece.is_empty());
            line
        });
        let lines: Vec<Line> = drawn.filter(|line| line.points().count() > 1).collect();
        (!lines.is_empty())
            .then(|| Self::of(title, Plot::Lines(Lines { x, y, lines, marks: Vec::new() })))
    }

    /// A chart of bars of one part; `None` without a bar.
    pub fn bars(title: impl Into<String>, unit: &str, rows: Vec<Bar>) -> Option<Self> {
        Self::stacked(title, unit, &[""], rows)
    }

    /// A chart of bars in parts; `None` without a bar.
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
        Self { title: title.into(), notes: Vec::new(), plot, stretch: Extent::default() }
    }

    /// With something to know of it.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// With a value to reach.
    #[must_use]
    pub fn limit(mut self, value: f64, name: impl Into<String>) -> Self {
        if let (Plot::Bars(bars), true) = (&mut self.plot, is_amount(value)) {
            bars.limit = Some((value, name.into()));
        }
        self
    }

    /// With names of places on the horizontal axis.
    #[must_use]
    pub fn marks(mut self, marks: Vec<(f64, String)>) -> Self {
        if let Plot::Lines(lines) = &mut self.plot {
            lines.marks = marks.into_iter().filter(|(at, _)| is_amount(*at)).collect();
        }
        self
    }

    /// What its axes hold: the least and the most, and of an axis that has its values beside each
    /// other all of them.
    fn extent(&self) -> Extent {
        let ends = |values: Vec<f64>| {
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            vec![least, values.iter().copied().fold(0.0, f64::max)]
        };
        match &self.plot {
            Plot::Lines(lines) => {
                let points = || lines.lines.iter().flat_map(Line::points);
                let marks = lines.marks.iter().map(|(at, _)| *at);
                let across = points().map(|(x, _)| x).chain(marks).collect();
                Extent {
                    across: match lines.x.scale {
                        Scale::Sizes | Scale::Counts => across,
                        Scale::Linear | Scale::Log | Scale::Quantiles => ends(across),
                    },
                    values: ends(points().map(|(_, y)| y).collect()),
                }
            }
            Plot::Bars(bars) => Extent {
                across: Vec::new(),
                values: ends(bars.rows.iter().map(Bar::total).collect()),
            },
        }
    }
}

/// Gives charts of the same name one scale, so that they can be looked at beside each other.
pub(crate) fn align(sheets: &mut [&mut Vec<Group>]) {
    let name = |group: &str, chart: &Chart| format!("{group}\n{}", chart.title);
    let mut extents: BTreeMap<String, Extent> = BTreeMap::new();
    for group in sheets.iter().flat_map(|groups| groups.iter()) {
        for chart in &group.charts {
            let own = chart.extent();
            let all = extents.entry(name(&group.title, chart)).or_default();
            all.across.extend(own.across);
            all.values.extend(own.values);
        }
    }
    for group in sheets.iter_mut().flat_map(|groups| groups.iter_mut()) {
        for chart in &mut group.charts {
            let all = extents.get(&name(&group.title, chart));
            chart.stretch = all.cloned().unwrap_or_default();
        }
    }
}

/// Whether a number can be drawn: nothing that is measured is below zero, or more than this.
fn is_amount(value: f64) -> bool {
    (0.0..=1e20).contains(&value)
}

/// At most [`MOST_ROWS`] of `rows` in their order: the longest, the shortest and some between.
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

/// At most so many of `points`: the lowest and the highest of each stretch.
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
