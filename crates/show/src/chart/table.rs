//! The numbers of a chart as a table.

use super::plot::{Bars, Chart, Lines, Plot};
use super::ruler::words;
use crate::document::{Cell, Column, Table};
use crate::numbers::short;

impl Chart {
    /// Every number in the chart.
    pub(crate) fn table(&self) -> Table {
        match &self.plot {
            Plot::Lines(lines) if lines.has_settings() => of_settings(lines),
            Plot::Lines(lines) => of_lines(lines),
            Plot::Bars(bars) => of_bars(bars),
        }
    }
}

/// One row for each position on the horizontal axis, one column for each line.
fn of_lines(lines: &Lines) -> Table {
    let names = lines.lines.iter().map(|line| {
        if line.name.is_empty() {
            lines.y.name.clone()
        } else {
            format!("{}, {}", line.name, lines.y.name)
        }
    });
    let columns = [lines.x.name.clone()].into_iter().chain(names);
    let mut table = Table::new(columns.map(|name| Column::numbers(name, 0)));
    let mut points: Vec<(f64, usize, f64)> = Vec::new();
    for (index, line) in lines.lines.iter().enumerate() {
        points.extend(line.points().map(|(x, y)| (x, index, y)));
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    for row in points.chunk_by(|a, b| a.0 == b.0) {
        let place = words(lines.x.scale, row[0].0);
        let of_line = |index: usize| row.iter().find(|point| point.1 == index);
        let values = (0..lines.lines.len()).map(|index| match of_line(index) {
            Some((_, _, y)) => Cell::from(short(*y)),
            None => Cell::from("-"),
        });
        let cells = [Cell::from(place.clone())].into_iter().chain(values);
        table.row(place, cells.collect());
    }
    for (x, name) in &lines.marks {
        table.footnotes.push(format!("{name} at {}", words(lines.x.scale, *x)));
    }
    table
}

/// One row for each setting of each line, the knees marked.
fn of_settings(lines: &Lines) -> Table {
    let words = ["", "setting"].map(|name| Column::words(name, 0));
    let numbers = [&lines.x.name, &lines.y.name].map(|name| Column::numbers(name.as_str(), 0));
    let mut table = Table::new(words.into_iter().chain(numbers));
    for line in &lines.lines {
        for (nth, (x, y)) in line.points().enumerate() {
            let knee = if line.knee == Some(nth) { ", the knee" } else { "" };
            let setting = line.settings.get(nth).map_or("", String::as_str);
            let cells = [line.name.clone(), format!("{setting}{knee}"), short(x), short(y)];
            table.row(format!("{} {setting}", line.name), cells.map(Cell::from).to_vec());
        }
    }
    table
}

/// One row for each bar, one column for each of its segments.
fn of_bars(bars: &Bars) -> Table {
    let names = bars.parts.iter().map(|part| {
        if part.is_empty() { bars.unit.clone() } else { format!("{part}, {}", bars.unit) }
    });
    let ends = bars.rows.iter().any(|row| row.interval.is_some()).then_some(["from", "to"]);
    let names = names.chain(ends.into_iter().flatten().map(str::to_string));
    let numbers = names.map(|name| Column::numbers(name, 0));
    let mut table = Table::new([Column::words("", 0)].into_iter().chain(numbers));
    for row in &bars.rows {
        let values = row.values.iter().chain(row.interval.iter().flatten());
        let values = values.map(|value| Cell::from(short(*value)));
        let cells = [Cell::from(row.name.as_str())].into_iter().chain(values);
        table.row(row.name.clone(), cells.collect());
    }
    if let Some((value, name)) = &bars.limit {
        table.footnotes.push(format!("{name}: {}", short(*value)));
    }
    table
}
