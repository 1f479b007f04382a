//! A table for a terminal: the first column words, the others numbers.

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};

/// Draws `rows` under `header`; the first `words` columns are aligned to the left.
pub(super) fn draw(header: &[&str], rows: Vec<Vec<String>>, words: usize) -> String {
    let line = LineStyle::none().fill('─').junction('─');
    let style = TableStyle::new()
        .top_border(line)
        .header_separator(line)
        .bottom_border(line);
    let mut table = Table::new();
    table
        .load_style(style)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header);
    for row in rows {
        table.add_row(row);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        if index >= words {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = String::new();
    for line in table.to_string().lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
