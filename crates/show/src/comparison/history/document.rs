//! A series of reports as a document and as charts.

use chrono::DateTime;
use stormlp_core::stats::mean;
use stormlp_core::units::counted;
use stormlp_core::warning::{Warning, WarningKind};

use super::super::document::{between, ends, signed};
use super::super::judge;
use super::super::judge::Verdict;
use super::{Change, History, Tracked};
use crate::chart::{Axis, Chart, Group, Line, Scale};
use crate::document::{Document, Quantity, Section, Table, number, word};
use crate::records::Records;

/// Maximum number of changes in a table; the JSON lists all.
const MOST_CHANGES: usize = 12;
/// A change of a figure.
type TrackedChange<'a> = (&'a Tracked, &'a Change);
/// A shorter series is drawn over hours.
const FEWEST_DAYS: f64 = 2.0;
const SECONDS_AN_HOUR: f64 = 3600.0;
const HOURS_A_DAY: f64 = 24.0;

/// Source of each record column in a change.
const RECORDS: [(&str, &str); 9] = [
    ("name", "/name"),
    ("unit", "/unit"),
    ("started_at", "/change/started_at"),
    ("file", "/change/file"),
    ("before", "/change/before"),
    ("after", "/change/after"),
    ("change_percent", "/change/change_percent"),
    ("interval_low", "/change/interval/0"),
    ("interval_high", "/change/interval/1"),
];

impl History {
    /// The columns of its records.
    pub fn record_columns() -> Vec<&'static str> {
        RECORDS.iter().map(|(name, _)| *name).collect()
    }

    pub(super) fn in_a_sentence(&self) -> String {
        let reports = counted(self.reports.len() as u64, "report");
        match self.last_change() {
            None if self.is_too_short() => {
                let few = if self.reports.len() == 1 { "is too few" } else { "are too few" };
                format!("cannot tell: {reports}{} {few} to show a change", self.span())
            }
            None => format!("no change found in {reports}{}", self.span()),
            Some((figure, change)) => {
                let all: usize = self.figures.iter().map(|one| one.changes.len()).sum();
                format!(
                    "{} on {}: {} by {:.1} % ({}{}); {} in {reports}",
                    over_time(change.verdict),
                    self.moment(&change.started_at),
                    figure.figure,
                    change.change_percent.abs(),
                    between(change.interval),
                    subject(figure),
                    counted(all as u64, "change"),
                )
            }
        }
    }

    /// The last change; of several at one report the largest, preferably of a headline figure.
    fn last_change(&self) -> Option<(&Tracked, &Change)> {
        let last = self.figures.iter().filter_map(|one| Some((one, one.changes.last()?)));
        last.max_by(|(one, a), (other, b)| {
            let key = |figure: &Tracked, change: &Change| (change.report, figure.headline);
            let size = |change: &Change| change.change_percent.abs();
            key(one, a).cmp(&key(other, b)).then(size(a).total_cmp(&size(b)))
        })
    }

    /// From when to when the reports are.
    fn span(&self) -> String {
        match (self.reports.first(), self.reports.last()) {
            (Some(first), Some(last)) if self.reports.len() > 1 => {
                let [first, last] = [first, last].map(|one| self.moment(&one.started_at));
                format!(" from {first} to {last}")
            }
            _ => String::new(),
        }
    }

    /// The series for a reader: every change. A page also draws the figures.
    pub fn document(&self) -> Document {
        let mut document = Document::new(&self.sentence);
        if let Some(last) = self.reports.last() {
            document.brief.add("work", &last.command);
            document.brief.add("host", format!("{} (Linux {})", last.hostname, last.kernel));
        }
        let rows: Vec<(&Tracked, &Change)> = self.newest_first();
        if !rows.is_empty() {
            document.sections.push(self.changes(&rows));
        }
        let doubt = |words: &String| Warning::new(WarningKind::NotComparable, words, "");
        document.warn(&self.warnings.iter().map(doubt).collect::<Vec<_>>());
        let units = self.newest_first().into_iter().map(|(figure, change)| {
            serde_json::json!({"name": figure.name, "unit": figure.unit, "change": change})
        });
        document.records = Records::new(&(), units, &RECORDS);
        document
    }

    fn newest_first(&self) -> Vec<(&Tracked, &Change)> {
        let of = |one| move |change| (one, change);
        let mut rows: Vec<(&Tracked, &Change)> =
            self.figures.iter().flat_map(|one| one.changes.iter().map(of(one))).collect();
        rows.sort_by_key(|(_, change)| std::cmp::Reverse(change.report));
        rows
    }

    /// The figures over time, with their levels.
    pub fn charts(&self) -> Vec<Group> {
        let times = times(&self.reports.iter().map(|one| &*one.started_at).collect::<Vec<_>>());
        let mut group = Group::new("Over all reports");
        for figure in self.figures.iter().filter(|one| one.headline || !one.changes.is_empty()) {
            group.add(&figure.name, chart(figure, &times), "use two reports or more");
        }
        vec![group]
    }

    /// The day of a report, with the time if others are of the same day.
    fn moment(&self, time: &str) -> String {
        let same_day = self.reports.iter().filter(|one| day(&one.started_at) == day(time));
        match (same_day.count() > 1, time.get(..16)) {
            (true, Some(minute)) => minute.replace('T', " "),
            _ => day(time).to_string(),
        }
    }

    fn changes(&self, rows: &[(&Tracked, &Change)]) -> Section {
        let tags = |row: &TrackedChange<'_>| self.reports[row.1.report].tags.clone();
        // The name of a single subject is redundant.
        let is_one = rows.iter().all(|(figure, _)| figure.subject == rows[0].0.subject);
        let name = |row: &TrackedChange<'_>| {
            if is_one { row.0.figure.to_string() } else { row.0.name.clone() }
        };
        let value = |row: &TrackedChange<'_>, value| Quantity::neutral(value, row.0.unit);
        let columns = vec![
            word("since", 0, |row: &TrackedChange<'_>| self.moment(&row.1.started_at)),
            word("figure", 0, name),
            word("unit", 1, |row: &TrackedChange<'_>| row.0.unit),
            number("before", 1, |row: &TrackedChange<'_>| value(row, row.1.before)),
            number("after", 1, |row: &TrackedChange<'_>| value(row, row.1.after)),
            number("change", 0, |row: &TrackedChange<'_>| signed(row.1.change_percent)).leading(),
            word("between", 0, |row: &TrackedChange<'_>| ends(row.1.interval)),
            word("verdict", 0, |row: &TrackedChange<'_>| over_time(row.1.verdict)).leading(),
            word("tags", 2, tags).when(rows.iter().any(|row| !tags(row).is_empty())),
            word("report", 3, |row: &TrackedChange<'_>| row.1.file.clone()),
        ];
        let key = |row: &TrackedChange<'_>| format!("{} {}", row.1.report, row.0.name);
        let table = Table::of(rows.iter().copied().take(MOST_CHANGES), key, columns);
        let left = rows.len().saturating_sub(MOST_CHANGES);
        Section {
            title: "Changes of level, the latest first".to_string(),
            table: Some(table),
            lines: (left > 0).then(|| format!("and {left} earlier ones")).into_iter().collect(),
            ..Section::default()
        }
    }
}

fn chart(figure: &Tracked, (unit, times): &(&str, Vec<f64>)) -> Option<Chart> {
    let points = times.iter().copied().zip(figure.values.iter().copied());
    let last = times.last().copied()?;
    let at = |report: usize| times.get(report).copied().unwrap_or(last);
    let scale = judge::Scale::of(figure.values.iter(), mean(&figure.values));
    let mut bounds: Vec<usize> = vec![0];
    bounds.extend(figure.changes.iter().map(|change| change.report));
    let ends = bounds.iter().skip(1).copied().chain([figure.values.len()]);
    let levels = bounds.iter().zip(ends).map(|(from, to)| {
        let values = &figure.values[*from..to];
        let level = scale.map_or(0.0, |scale| scale.mean(values));
        ((at(*from), at(to)), level)
    });
    let lines = vec![Line::new(figure.figure, points), Line::steps("level", levels)];
    let (x, y) = (Axis::new(*unit, Scale::Linear), Axis::new(figure.unit, Scale::Linear));
    let marks =
        figure.changes.iter().map(|change| (at(change.report), signed(change.change_percent)));
    let chart = Chart::lines(&figure.name, x, y, lines)?;
    Some(chart.marks(marks.collect()))
}

/// The time of each start since the first, in days or hours; the places in the series if a time
/// cannot be read.
fn times(starts: &[&str]) -> (&'static str, Vec<f64>) {
    let read = |start: &&str| Some(DateTime::parse_from_rfc3339(start).ok()?.timestamp() as f64);
    let seconds: Option<Vec<f64>> = starts.iter().map(read).collect();
    match seconds.as_deref() {
        Some(seconds @ [first, .., last]) => {
            let hours = |second: &f64| (second - first) / SECONDS_AN_HOUR;
            let (unit, length) = match hours(last) < FEWEST_DAYS * HOURS_A_DAY {
                true => ("hours", 1.0),
                false => ("days", HOURS_A_DAY),
            };
            (unit, seconds.iter().map(|second| hours(second) / length).collect())
        }
        _ => ("report", (0..starts.len()).map(|nth| nth as f64).collect()),
    }
}

/// A verdict on one product over time.
fn over_time(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Improved => "improved",
        Verdict::Regressed => "regressed",
        other => other.words(),
    }
}

/// The day of a time in RFC 3339.
fn day(time: &str) -> &str {
    time.split('T').next().unwrap_or(time)
}

fn subject(figure: &Tracked) -> String {
    if figure.subject.is_empty() { String::new() } else { format!("; {}", figure.subject) }
}
