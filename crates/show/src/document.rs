//! The content of an output, independent of its format.
//!
//! A lane builds a [`Document`] from its report; the renderers only know documents. So a new output
//! format is one file, and a new lane needs no rendering code.

use std::fmt::Display;

use serde::Serialize;
use stormlp_core::json::Integrity;
use stormlp_core::note::{Cause, DATA_MISMATCH, Note};
use stormlp_core::report::Ending;
use stormlp_core::warning::{Warning, WarningKind};

use crate::numbers::{short, with_decimals_of};
use crate::records::Records;

/// A report, a plan or an answer, ready for rendering.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    /// Prefix of the headline, to avoid confusion with real work: `SCALED to 27 %`.
    pub mark: Option<String>,
    /// The answer in one sentence, with its number.
    pub headline: String,
    /// Why the numbers are not comparable with the baseline's, in lines below the headline.
    pub caveat: Vec<String>,
    /// Facts that a reader needs with the answer, on every screen and in every format.
    pub brief: Facts,
    /// The settings and the machine; on a terminal only with `--details`.
    pub facts: Facts,
    /// The remaining sections in reading order.
    pub sections: Vec<Section>,
    /// Warnings about the reliability of the numbers, the most important first.
    pub warnings: Vec<Warning>,
    /// The data for programs: one row for each measured unit.
    pub records: Records,
}

/// A plan of a dry run, with the problems that prevent it from running here. Its JSON has these
/// fields.
#[derive(Debug, Serialize)]
pub struct DryRun<'a, P> {
    /// The plan.
    #[serde(flatten)]
    pub plan: &'a P,
    /// Requirements that do not fit or are missing; empty if the plan can run.
    pub problems: &'a [Note<Cause>],
}

impl<P> DryRun<'_, P> {
    /// Adds the problems, if there are any.
    pub fn add_problems(&self, document: &mut Document) {
        if !self.problems.is_empty() {
            let lines = self.problems.iter().map(ToString::to_string).collect();
            document.section("This cannot run here:", None).lines = lines;
        }
    }
}

/// Names and values, one per line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts(pub Vec<(String, String)>);

/// Where text shows a part of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DetailLevel {
    /// On the screen that a command ends with.
    #[default]
    Screen,
    /// With `--details` only.
    Details,
}

/// A part of a document; empty elements are not rendered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Section {
    /// Its title.
    pub title: String,
    /// Where it is shown as text. Other formats show every section.
    pub place: DetailLevel,
    /// A table.
    pub table: Option<Table>,
    /// Its latency distributions.
    pub distributions: Vec<TimeSummary>,
    /// Names and values below the table.
    pub facts: Facts,
    /// Sentences below the facts.
    pub lines: Vec<String>,
}

/// Rows of cells under named columns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows.
    pub rows: Vec<Row>,
    /// The footnotes that cells refer to as `[1]`, `[2]` and so on.
    pub footnotes: Vec<String>,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name, with the unit of its numbers.
    pub name: String,
    /// Whether it is right-aligned, as numbers are.
    pub numbers: bool,
    /// Priority for hiding if space is short: the highest goes first; 0 is never hidden.
    pub drop: u8,
    /// Whether it is a setting, not a measurement. A screen shows one that is the same in all rows
    /// above the table, and never hides another.
    pub is_setting: bool,
    /// Whether it holds the answer, which narrow pages show next to the first column.
    pub leads: bool,
    /// Whether its cells are never broken over lines, such as names to copy.
    pub is_whole: bool,
}

/// A column with its cell in the row of each `R`.
pub struct Col<'a, R: ?Sized> {
    column: Column,
    cell: Box<dyn Fn(&R) -> Cell + 'a>,
    is_left_out: bool,
}

/// A column of numbers, hidden first if `drop` is high, and its cell.
pub fn number<'a, R: ?Sized, C: Into<Cell>>(
    name: &str,
    drop: u8,
    cell: impl Fn(&R) -> C + 'a,
) -> Col<'a, R> {
    let cell = Box::new(move |row: &R| cell(row).into());
    Col { column: Column::numbers(name, drop), cell, is_left_out: false }
}

/// A column of text and its cell.
pub fn word<'a, R: ?Sized, C: Into<Cell>>(
    name: &str,
    drop: u8,
    cell: impl Fn(&R) -> C + 'a,
) -> Col<'a, R> {
    let col = number(name, drop, cell);
    Col { column: Column { numbers: false, ..col.column }, ..col }
}

impl<R: ?Sized> Col<'_, R> {
    /// Marks it as a setting.
    #[must_use]
    pub fn setting(mut self) -> Self {
        self.column.is_setting = true;
        self
    }

    /// Marks it as the one that holds the answer.
    #[must_use]
    pub fn leading(mut self) -> Self {
        self.column.leads = true;
        self
    }

    /// Never breaks its cells over lines.
    #[must_use]
    pub fn whole(mut self) -> Self {
        self.column.is_whole = true;
        self
    }

    /// Leaves it out unless it means something here.
    #[must_use]
    pub fn when(mut self, means_something: bool) -> Self {
        self.is_left_out |= !means_something;
        self
    }
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Identifies the same row in other reports.
    pub key: String,
    /// Its cells; missing ones are empty.
    pub cells: Vec<Cell>,
}

/// The value in a row and column.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Text.
    Text(String),
    /// A number and its suffix: `[2]`.
    Number(Quantity, String),
}

/// Whether higher values are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// More is better: throughput.
    Higher,
    /// Less is better: latency, cost.
    Lower,
    /// Neither is better.
    Neutral,
}

/// A value and the deviation of its samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The value; the mean if there are several samples.
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
    /// Whether higher values are better.
    pub direction: Better,
}

impl Document {
    /// A document with this headline; the caller adds warnings and records.
    pub fn new(headline: impl Into<String>) -> Self {
        Self { headline: headline.into(), ..Self::default() }
    }

    /// The headline with the mark.
    pub(crate) fn answer(&self) -> String {
        match &self.mark {
            Some(mark) => format!("{mark}: {}", self.headline),
            None => self.headline.clone(),
        }
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

    /// Adds a section that a screen leaves out.
    pub fn details(&mut self, title: &str, table: Option<Table>) -> &mut Section {
        let section = self.section(title, table);
        section.place = DetailLevel::Details;
        section
    }

    /// All names and values that belong to no section.
    pub fn all_facts(&self) -> Facts {
        Facts(self.brief.0.iter().chain(&self.facts.0).cloned().collect())
    }

    /// Adds warnings, each once, in the order of their ranks.
    pub fn warn<'a>(&mut self, warnings: impl IntoIterator<Item = &'a Warning>) {
        for warning in warnings {
            if !self.warnings.contains(warning) {
                self.warnings.push(warning.clone());
            }
        }
        self.warnings.sort_by_key(|warning| warning.kind.rank());
    }

    /// Adds a warning about the report itself: whether it is as it was written.
    pub fn warn_of_changes(&mut self, integrity: &Integrity) {
        if let Some(doubt) = integrity.doubt() {
            let help = "if you do not know why, run the command again for figures to rely on";
            self.warn(&[Warning::new(WarningKind::Changed, format!("this report {doubt}"), help)]);
        }
    }
}

/// The headline of a run that got other data than expected, which says that alone.
pub fn mismatch(ending: &Ending) -> Option<String> {
    match ending {
        Ending::Failed(note) if note.fact.starts_with(DATA_MISMATCH) => Some(note.fact.clone()),
        _ => None,
    }
}

/// The suffix of a headline if a run did not complete.
pub fn ended(ending: &Ending) -> String {
    match ending {
        Ending::Complete => String::new(),
        Ending::Unfinished => "; unfinished: still running, or killed".to_string(),
        Ending::Stopped => "; stopped by the user".to_string(),
        Ending::Failed(note) => format!("; FAILED: {}", note.fact),
    }
}

impl Facts {
    /// Adds a name and a value.
    pub fn add(&mut self, name: impl Into<String>, value: impl Display) {
        self.0.push((name.into(), value.to_string()));
    }
}

impl Section {
    /// Whether it is empty on a screen.
    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_none() && self.facts.0.is_empty() && self.lines.is_empty()
    }

    /// A table of its distributions.
    pub(crate) fn summary(&self) -> Option<Table> {
        Table::of_distributions(&self.distributions)
    }
}

impl Table {
    /// A table without rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), ..Self::default() }
    }

    /// A row for each of `rows`, with the values of the columns.
    pub fn of<R>(
        rows: impl IntoIterator<Item = R>,
        key: impl Fn(&R) -> String,
        columns: Vec<Col<'_, R>>,
    ) -> Self {
        let columns: Vec<_> = columns.into_iter().filter(|one| !one.is_left_out).collect();
        let mut table = Self::new(columns.iter().map(|one| one.column.clone()));
        for row in rows {
            let cells = columns.iter().map(|column| (column.cell)(&row)).collect();
            table.row(key(&row), cells);
        }
        table
    }

    /// Adds a row identified by `key` in every report.
    pub fn row(&mut self, key: impl Into<String>, cells: Vec<Cell>) {
        let key = key.into();
        self.rows.push(Row { key, cells });
    }

    /// Returns the mark of a footnote; equal texts share a mark.
    pub fn footnote(&mut self, text: String) -> String {
        let known = self.footnotes.iter().position(|note| *note == text);
        let index = known.unwrap_or_else(|| {
            self.footnotes.push(text);
            self.footnotes.len() - 1
        });
        format!("[{}]", index + 1)
    }

    /// Each column with the texts of its cells.
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
    /// A text column.
    pub fn words(name: impl Into<String>, drop: u8) -> Self {
        let name = name.into();
        Self { name, numbers: false, drop, is_setting: false, leads: false, is_whole: false }
    }

    /// A number column.
    pub fn numbers(name: impl Into<String>, drop: u8) -> Self {
        Self { numbers: true, ..Self::words(name, drop) }
    }

    /// A column of settings as text.
    pub fn setting(name: impl Into<String>) -> Self {
        Self { is_setting: true, ..Self::words(name, 0) }
    }
}

impl Cell {
    /// Its text on a terminal or page.
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

impl From<u32> for Cell {
    fn from(count: u32) -> Self {
        Self::Text(count.to_string())
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Self {
        Self::Text(count.to_string())
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(known: Option<T>) -> Self {
        known.map_or(Self::Text(String::new()), Into::into)
    }
}

impl From<Quantity> for Cell {
    fn from(quantity: Quantity) -> Self {
        Self::Number(quantity, String::new())
    }
}

impl Estimate {
    /// `self` divided by `other`; relative deviations add in quadrature.
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

    /// Formats it with the appropriate number of digits.
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
    /// A number of which more is better.
    pub fn higher(value: f64, unit: &'static str) -> Self {
        Self::new(value, unit, Better::Higher)
    }

    /// A number of which less is better.
    pub fn lower(value: f64, unit: &'static str) -> Self {
        Self::new(value, unit, Better::Lower)
    }

    /// A number that is neither good nor bad.
    pub fn neutral(value: f64, unit: &'static str) -> Self {
        Self::new(value, unit, Better::Neutral)
    }

    fn new(value: f64, unit: &'static str, direction: Better) -> Self {
        Self { estimate: Estimate { value, spread: None }, unit, direction }
    }

    /// Adds the deviation of its samples.
    #[must_use]
    pub fn spread(mut self, spread: Option<f64>) -> Self {
        self.estimate.spread = spread;
        self
    }

    /// Its text in a cell: percentages, which are compared within a column, always have one
    /// decimal.
    pub fn text(&self) -> String {
        let Estimate { value, spread } = self.estimate;
        match (self.unit, spread) {
            ("%", Some(spread)) => format!("{value:.1} ± {spread:.1}"),
            ("%", None) => format!("{value:.1}"),
            _ => self.estimate.text(),
        }
    }
}

/// A distribution of durations.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeSummary {
    /// The time measured.
    pub name: String,
    /// The unit of the values.
    pub unit: &'static str,
    /// Mean, percentiles and maximum by name; `None` if based on too few samples.
    pub percentiles: [(&'static str, Option<f64>); 6],
}
