//! What a reader gets to see, before anyone decides how it is drawn.
//!
//! A lane builds a [`Document`] from its report; the renderers know documents alone. So a new
//! output is one file, and a new lane has nothing to draw.

use std::fmt::Display;

use stormlp_core::report::Ending;
use stormlp_core::warning::Warning;

use crate::numbers::{short, with_decimals_of};
use crate::records::Records;
use crate::series::{Distribution, Series};

/// A report, a plan or an answer, ready to be drawn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    /// What every line begins with, so that none can be taken for another: `SCALED 0.27`.
    pub mark: Option<String>,
    /// The answer in one sentence, with its number.
    pub headline: String,
    /// What keeps the numbers from being compared with those of the baseline, below the headline.
    pub caveat: Option<String>,
    /// What was asked, on what.
    pub facts: Facts,
    /// The rest, in the order in which it is read.
    pub sections: Vec<Section>,
    /// What the reader should know before trusting the numbers.
    pub warnings: Vec<String>,
    /// The same for programs: a row for each unit that was measured.
    pub records: Records,
}

/// Names and values, one a line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts(pub Vec<(String, String)>);

/// A part of a document; what is empty is not drawn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Section {
    /// Its title.
    pub title: String,
    /// A table.
    pub table: Option<Table>,
    /// How what it tells of went over time.
    pub series: Vec<Series>,
    /// How its times spread.
    pub distributions: Vec<Distribution>,
    /// Names and values below it.
    pub facts: Facts,
    /// Sentences below those.
    pub lines: Vec<String>,
}

/// Rows of cells under named columns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows.
    pub rows: Vec<Row>,
    /// What cells refer to as `[1]`, `[2]` and so on.
    pub footnotes: Vec<String>,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name, with the unit of its numbers.
    pub name: String,
    /// Whether it is aligned to the right, as numbers are.
    pub numbers: bool,
    /// When it goes where there is no room: the highest first; one with 0 stays.
    pub drop: u8,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What the same row of another report is called too.
    pub key: String,
    /// Its cells; columns beyond them are empty.
    pub cells: Vec<Cell>,
}

/// What stands in a row under a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A number, and what is added to it: `[2]`.
    Number(Quantity, String),
}

/// Whether more of something is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// More is better: throughput.
    Higher,
    /// Less is better: latency, cost.
    Lower,
    /// Neither.
    Neutral,
}

/// A value and how far its samples lie from it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The value, a mean where there are several samples.
    pub value: f64,
    /// Their standard deviation; `None` for a single sample.
    pub spread: Option<f64>,
}

/// A measured number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantity {
    /// The number.
    pub estimate: Estimate,
    /// Its unit.
    pub unit: &'static str,
    /// Whether more of it is better.
    pub direction: Direction,
}

impl Document {
    /// The document of a report: its warnings and its rows for programs are the caller's.
    pub fn new(headline: impl Into<String>) -> Self {
        Self { headline: headline.into(), ..Self::default() }
    }

    /// Adds a section without a title that holds a table.
    pub fn table(&mut self, table: Table) -> &mut Section {
        self.section("", Some(table))
    }

    /// Adds a section.
    pub fn section(&mut self, title: &str, table: Option<Table>) -> &mut Section {
        self.sections.push(Section { title: title.to_string(), table, ..Section::default() });
        let last = self.sections.len() - 1;
        &mut self.sections[last]
    }

    /// Adds warnings, each once.
    pub fn warn<'a>(&mut self, warnings: impl IntoIterator<Item = &'a Warning>) {
        for warning in warnings {
            let text = warning.to_string();
            if !self.warnings.contains(&text) {
                self.warnings.push(text);
            }
        }
    }
}

/// What a headline adds when a run did not come to its end.
pub fn ended(ending: &Ending) -> String {
    match ending {
        Ending::Complete => String::new(),
        Ending::Unfinished => "; unfinished: the run goes on, or was killed".to_string(),
        Ending::Stopped => "; stopped by the user".to_string(),
        Ending::Failed { message, .. } => format!("; FAILED: {message}"),
    }
}

impl Facts {
    /// Adds one.
    pub fn add(&mut self, name: impl Into<String>, value: impl Display) {
        self.0.push((name.into(), value.to_string()));
    }
}

impl Section {
    /// What its series and distributions come down to.
    pub(crate) fn summaries(&self) -> impl Iterator<Item = Table> {
        let series = Table::of_series(&self.series);
        let distributions = Table::of_distributions(&self.distributions);
        series.into_iter().chain(distributions)
    }
}

impl Table {
    /// A table without rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), ..Self::default() }
    }

    /// Adds a row that is called `key` in every report.
    pub fn row(&mut self, key: impl Into<String>, cells: Vec<Cell>) {
        let key = key.into();
        self.rows.push(Row { key, cells });
    }

    /// The mark of a footnote; the same text gets the same mark.
    pub fn footnote(&mut self, text: String) -> String {
        let known = self.footnotes.iter().position(|note| *note == text);
        let index = known.unwrap_or_else(|| {
            self.footnotes.push(text);
            self.footnotes.len() - 1
        });
        format!("[{}]", index + 1)
    }

    /// Each column with the text of its cells.
    pub fn texts(&self) -> Vec<(Column, Vec<String>)> {
        let columns = self.columns.iter().enumerate();
        let texts = columns.map(|(index, column)| {
            let cells = self.rows.iter().map(|row| row.cells.get(index));
            let shown = cells.map(|cell| cell.map_or(String::new(), Cell::text));
            (column.clone(), shown.collect())
        });
        texts.collect()
    }
}

impl Column {
    /// A column of words.
    pub fn words(name: impl Into<String>, drop: u8) -> Self {
        Self { name: name.into(), numbers: false, drop }
    }

    /// A column of numbers.
    pub fn numbers(name: impl Into<String>, drop: u8) -> Self {
        Self { numbers: true, ..Self::words(name, drop) }
    }
}

impl Cell {
    /// What a terminal or a page shows of it.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(quantity, mark) if mark.is_empty() => quantity.text(),
            Self::Number(quantity, mark) => format!("{} {mark}", quantity.text()),
        }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_string())
    }
}

impl From<Quantity> for Cell {
    fn from(quantity: Quantity) -> Self {
        Self::Number(quantity, String::new())
    }
}

impl Estimate {
    /// `self` by `other`, the relative deviations added in squares.
    #[must_use]
    pub fn ratio(self, other: Self) -> Self {
        let value = self.value / other.value;
        let relative = |one: Self| one.spread.map(|spread| spread / one.value);
        let spread = match (relative(self), relative(other)) {
            (None, None) => None,
            (a, b) => Some(value * a.unwrap_or(0.0).hypot(b.unwrap_or(0.0))),
        };
        Self { value, spread }
    }

    /// With as many digits as it deserves.
    pub fn text(self) -> String {
        match self.spread {
            Some(spread) => {
                format!("{} ± {}", short(self.value), with_decimals_of(spread, self.value))
            }
            None => short(self.value),
        }
    }
}

impl Quantity {
    /// More of it is better.
    pub fn higher(value: f64, unit: &'static str) -> Self {
        Self::new(value, unit, Direction::Higher)
    }

    /// Less of it is better.
    pub fn lower(value: f64, unit: &'static str) -> Self {
        Self::new(value, unit, Direction::Lower)
    }

    /// A number that is neither good nor bad.
    pub fn neutral(value: f64, unit: &'static str) -> Self {
        Self::new(value, unit, Direction::Neutral)
    }

    fn new(value: f64, unit: &'static str, direction: Direction) -> Self {
        Self { estimate: Estimate { value, spread: None }, unit, direction }
    }

    /// With the deviation of its samples.
    #[must_use]
    pub fn spread(mut self, spread: Option<f64>) -> Self {
        self.estimate.spread = spread;
        self
    }

    /// As a cell shows it: percentages, which are read down a column, to one decimal all of them.
    pub fn text(&self) -> String {
        let Estimate { value, spread } = self.estimate;
        match (self.unit, spread) {
            ("%", Some(spread)) => format!("{value:.1} ± {spread:.1}"),
            ("%", None) => format!("{value:.1}"),
            _ => self.estimate.text(),
        }
    }
}
