//! Charts before they are drawn: what a picture shows, and the same numbers as a table.
//!
//! A lane says which charts its report has; `draw` draws them and knows no lane. Two forms are
//! enough: lines over an axis, and bars that may be stacked.

mod curve;
mod draw;
mod palette;
mod ruler;
mod table;

use stormlp_model::histogram::NamedHistogram;

pub(crate) use curve::percentiles;
pub use draw::svg;
pub(crate) use palette::dark_rules;
pub use ruler::Scale;

/// More rows than this are not taken in at a glance.
pub(crate) const MOST_ROWS: usize = 32;
/// More lines than this in one chart cannot be told apart.
pub(crate) const MOST_LINES: usize = 5;
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
    /// Values that its axis holds too, so that charts beside each other have one scale.
    pub stretch: Vec<f64>,
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

/// A line through points.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// What it is of.
    pub name: String,
    /// Its points from left to right.
    pub points: Vec<(f64, f64)>,
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
        Self {
            title: title.into(),
            ..Self::default()
        }
    }

    /// How the times of `histograms` spread, drawn as a chart that is called `what`.
    pub(crate) fn of_histograms(title: &str, what: &str, histograms: &[NamedHistogram]) -> Self {
        let mut drawn = Self::new(title);
        let curves = histograms.iter();
        let curves = curves.map(|one| (one.name.replace('_', " "), one.data.as_str()));
        let why = "the report holds no distribution that can be read";
        drawn.add(what, percentiles(what, curves), why);
        drawn
    }

    /// Adds a chart, or says that `what` is not drawn because of `why`.
    pub(crate) fn add(&mut self, what: &str, chart: Option<Chart>, why: &str) {
        match chart {
            Some(chart) => self.charts.push(chart),
            None => self.absent.push(format!("{what}: {why}")),
        }
    }
}

impl Axis {
    /// An axis of `name`.
    pub(crate) fn new(name: impl Into<String>, scale: Scale) -> Self {
        Self {
            name: name.into(),
            scale,
        }
    }
}

impl Line {
    /// A line through those of `points` that can be drawn, the extremes of each stretch where there
    /// are more than a chart has room for.
    pub(crate) fn new(
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        let fits = |(x, y): &(f64, f64)| is_amount(*x) && is_amount(*y);
        let points: Vec<(f64, f64)> = points.into_iter().filter(fits).collect();
        Self {
            name: name.into(),
            points: thinned(points, MOST_POINTS),
        }
    }
}

impl Bar {
    /// A bar of one part.
    pub(crate) fn one(name: impl Into<String>, value: f64) -> Self {
        Self {
            name: name.into(),
            values: vec![value],
        }
    }

    fn total(&self) -> f64 {
        self.values.iter().sum()
    }
}

impl Chart {
    /// A chart of lines; `None` where no line has two points.
    pub(crate) fn lines(
        title: impl Into<String>,
        x: Axis,
        y: Axis,
        lines: Vec<Line>,
    ) -> Option<Self> {
        let is_above_zero = |point: &(f64, f64)| y.scale != Scale::Log || point.1 > 0.0;
        let drawn = lines.into_iter().map(|mut line| {
            line.points.retain(is_above_zero);
            line
        });
        let lines: Vec<Line> = drawn.filter(|line| line.points.len() > 1).collect();
        (!lines.is_empty()).then(|| {
            Self::of(
                title,
                Plot::Lines(Lines {
                    x,
                    y,
                    lines,
                    marks: Vec::new(),
                }),
            )
        })
    }

    /// A chart of bars of one part; `None` without a bar.
    pub(crate) fn bars(title: impl Into<String>, unit: &str, rows: Vec<Bar>) -> Option<Self> {
        Self::stacked(title, unit, &[""], rows)
    }

    /// A chart of bars in parts; `None` without a bar.
    pub(crate) fn stacked(
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
        Self {
            title: title.into(),
            notes: Vec::new(),
            plot,
            stretch: Vec::new(),
        }
    }

    /// With something to know of it.
    #[must_use]
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// With a value to reach.
    #[must_use]
    pub(crate) fn limit(mut self, value: f64, name: impl Into<String>) -> Self {
        if let (Plot::Bars(bars), true) = (&mut self.plot, is_amount(value)) {
            bars.limit = Some((value, name.into()));
        }
        self
    }

    /// With names of places on the horizontal axis.
    #[must_use]
    pub(crate) fn marks(mut self, marks: Vec<(f64, String)>) -> Self {
        if let Plot::Lines(lines) = &mut self.plot {
            lines.marks = marks.into_iter().filter(|(at, _)| is_amount(*at)).collect();
        }
        self
    }

    /// The least and the most that its axis of values holds.
    fn extent(&self) -> [f64; 2] {
        let values: Vec<f64> = match &self.plot {
            Plot::Lines(lines) => {
                let points = lines.lines.iter().flat_map(|line| &line.points);
                points.map(|(_, y)| *y).collect()
            }
            Plot::Bars(bars) => bars.rows.iter().map(Bar::total).collect(),
        };
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        [least, values.iter().copied().fold(0.0, f64::max)]
    }
}

/// Gives charts of the same name one scale, so that they can be looked at beside each other.
pub(crate) fn align(sheets: &mut [&mut Vec<Group>]) {
    let mut extents: Vec<(String, [f64; 2])> = Vec::new();
    for group in sheets.iter().flat_map(|groups| groups.iter()) {
        for chart in &group.charts {
            extents.push((format!("{}\n{}", group.title, chart.title), chart.extent()));
        }
    }
    extents.sort_by(|a, b| a.0.cmp(&b.0));
    for group in sheets.iter_mut().flat_map(|groups| groups.iter_mut()) {
        for chart in &mut group.charts {
            let name = format!("{}\n{}", group.title, chart.title);
            let first = extents.partition_point(|(other, _)| *other < name);
            let same = extents[first..]
                .iter()
                .take_while(|(other, _)| *other == name);
            chart.stretch = same.flat_map(|(_, extent)| *extent).collect();
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
    let ends = [
        (0..rows.len()).min_by(by_length),
        (0..rows.len()).max_by(by_length),
    ];
    let even = (0..MOST_ROWS - 2).map(|nth| nth * rows.len() / (MOST_ROWS - 2));
    let mut kept: Vec<usize> = even.chain(ends.into_iter().flatten()).collect();
    kept.sort_unstable();
    kept.dedup();
    let mut rows: Vec<Option<Bar>> = rows.into_iter().map(Some).collect();
    kept.into_iter()
        .filter_map(|row| rows[row].take())
        .collect()
}

/// At most so many of `points`: the lowest and the highest of each stretch.
fn thinned(points: Vec<(f64, f64)>, most: usize) -> Vec<(f64, f64)> {
    if points.len() <= most {
        return points;
    }
    let stretch = points.len().div_ceil(most / 2);
    let ends = points.chunks(stretch).flat_map(|part| {
        let indices = 0..part.len();
        let low = indices
            .clone()
            .min_by(|a, b| part[*a].1.total_cmp(&part[*b].1));
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
