//! Tables as text: which columns fit, and how they are drawn.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, TableStyle};
use stormlp_core::printable::printable;

use crate::document::{Column, Table};

/// A column and the texts of its cells.
pub(super) type Texts = (Column, Vec<String>);

/// The columns that share a drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rules {
    /// A line above and below the table.
    Framed,
    /// Only the line below the header.
    Bare,
}

/// Removes the settings from `columns` that are the same in all rows that have them:
/// `op read, threads 8`. The first column names the rows and stays.
pub(super) fn take_constants(columns: &mut Vec<Texts>) -> String {
    let mut constants = Vec::new();
    let mut nth = 0;
    columns.retain(|(column, cells)| {
        nth += 1;
        let mut filled = cells.iter().filter(|cell| !cell.is_empty());
        let first = filled.next();
        let same = filled.all(|cell| Some(cell) == first);
        let takes = nth > 1 && column.is_setting && same && !cells.is_empty();
        if let (true, Some(value)) = (takes, first) {
            constants.push(format!("{} {value}", column.name));
        }
        !takes
    });
    constants.join(", ")
}

/// Removes columns from `columns` until the rest fits `width`; those that must stay may be wider.
/// Returns them in their order.
pub(super) fn take_hidden(columns: &mut Vec<Texts>, width: usize) -> Vec<Texts> {
    let mut hidden: Vec<(usize, Texts)> = Vec::new();
    let mut places: Vec<usize> = (0..columns.len()).collect();
    while width_of(columns) > width {
        let drop = |place: &usize| columns[*place].0.drop;
        let candidates = (0..columns.len()).filter(|place| drop(place) > 0);
        let Some(next) = candidates.max_by_key(drop) else {
            break;
        };
        hidden.push((places.remove(next), columns.remove(next)));
    }
    hidden.sort_by_key(|(place, _)| *place);
    hidden.into_iter().map(|(_, texts)| texts).collect()
}

/// The parts that show every column of `table` in `width`: the settings that are the same in all
/// rows, if the rest does not fit next to them, and tables. Columns that do not fit next to the
/// first ones follow in another table, again after the columns that name the rows.
pub(super) fn parts(table: &Table, width: usize) -> (String, Vec<Vec<Texts>>) {
    let mut part = table.texts();
    if width_of(&part) <= width {
        return (String::new(), vec![part]);
    }
    let constants = take_constants(&mut part);
    let names: Vec<Texts> = (part.iter().enumerate())
        .filter(|(nth, (column, _))| *nth == 0 || column.is_setting)
        .map(|(_, texts)| texts.clone())
        .collect();
    let mut rest = take_hidden(&mut part, width);
    let mut parts = vec![part];
    while !rest.is_empty() {
        let mut part = names.clone();
        let known = part.len();
        part.append(&mut rest);
        rest = take_hidden(&mut part, width);
        if part.len() == known {
            // Even one more column is too wide: it wraps within its cells.
            part.push(rest.remove(0));
        }
        parts.push(part);
    }
    (constants, parts)
}

/// Draws columns at their natural width, or wrapped to `width`.
pub(super) fn draw(columns: &[Texts], width: Option<usize>, rules: Rules) -> String {
    let line = LineStyle::none().fill('─').junction('─');
    let style = TableStyle::new().header_separator(line);
    let style = match rules {
        Rules::Framed => style.top_border(line).bottom_border(line),
        Rules::Bare => style,
    };
    let mut table = comfy_table::Table::new();
    table
        .load_style(style)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(columns.iter().map(|(column, _)| printable(&column.name)));
    if let Some(width) = width.and_then(|width| u16::try_from(width).ok()) {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    for row in 0..columns.first().map_or(0, |(_, cells)| cells.len()) {
        table.add_row(columns.iter().map(|(_, cells)| printable(&cells[row])));
    }
    for (drawn, (column, _)) in table.column_iter_mut().zip(columns) {
        if column.numbers {
            drawn.set_cell_alignment(CellAlignment::Right);
        }
        if column.is_whole {
            drawn.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table.to_string()
}

/// The width of a table at its natural width, which is its first line's.
fn width_of(columns: &[Texts]) -> usize {
    let drawn = draw(columns, None, Rules::Framed);
    drawn.lines().next().map_or(0, |line| line.chars().count())
}
