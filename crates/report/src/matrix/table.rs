//! A sheet drawn for a terminal, or as Markdown.

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};

use super::sheet::Sheet;

/// For a terminal: as wide as it needs, so that it can be searched and piped.
pub(super) fn text(sheet: &Sheet) -> String {
    let mut drawn = Table::new();
    drawn
        .load_style(style())
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(&sheet.header);
    for row in &sheet.rows {
        drawn.add_row(padded(row, sheet.header.len()));
    }
    for (index, column) in drawn.column_iter_mut().enumerate() {
        if index >= sheet.word_columns {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut lines = sheet.title.clone();
    lines.extend(
        drawn
            .to_string()
            .lines()
            .map(|line| line.trim_end().to_string()),
    );
    lines.extend(footnotes(sheet));
    lines.extend(sheet.notes.iter().cloned());
    lines.join("\n") + "\n"
}

/// A line above, one below the header, one below: what a terminal needs to be read.
fn style() -> TableStyle {
    let line = LineStyle::none().fill('─').junction('─');
    TableStyle::new()
        .top_border(line)
        .header_separator(line)
        .bottom_border(line)
}

/// For a README or a ticket.
pub(super) fn markdown(sheet: &Sheet) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |", cells.join(" | "))
    };
    let rules: Vec<String> = (0..sheet.header.len())
        .map(|index| {
            if index < sheet.word_columns {
                "---"
            } else {
                "---:"
            }
            .to_string()
        })
        .collect();
    let mut lines: Vec<String> = Vec::new();
    for (index, title) in sheet.title.iter().enumerate() {
        lines.push(match index {
            0 => format!("### {title}"),
            _ => title.clone(),
        });
        lines.push(String::new());
    }
    lines.push(line(&sheet.header));
    lines.push(line(&rules));
    for row in &sheet.rows {
        lines.push(line(&padded(row, sheet.header.len())));
    }
    lines.push(String::new());
    for note in footnotes(sheet).iter().chain(&sheet.notes) {
        lines.push(format!("- {note}"));
    }
    lines.join("\n") + "\n"
}

fn padded(row: &[String], columns: usize) -> Vec<String> {
    let mut row = row.to_vec();
    row.resize(columns.max(row.len()), String::new());
    row
}

fn footnotes(sheet: &Sheet) -> Vec<String> {
    let numbered = sheet.footnotes.iter().enumerate();
    numbered
        .map(|(index, note)| format!("[{}] {note}", index + 1))
        .collect()
}
