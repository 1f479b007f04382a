//! A document for a README or a ticket, with all columns and notes.

use stormlp_core::printable::printable;

use crate::document::{Column, Document, Facts, Table};

/// Writes a document as Markdown.
pub fn render(document: &Document) -> String {
    let mark = document.mark.as_ref().map(|mark| format!("{mark}: ")).unwrap_or_default();
    let mut text = format!("### {}\n", escaped(&format!("{mark}{}", document.headline)));
    list(&mut text, document.caveat.as_slice());
    facts(&mut text, &document.all_facts());
    for section in &document.sections {
        if !section.title.is_empty() {
            text.push_str(&format!("\n#### {}\n", escaped(&format!("{mark}{}", section.title))));
        }
        if let Some(table) = &section.table {
            text.push('\n');
            draw(&mut text, table);
        }
        for summary in section.summaries() {
            text.push('\n');
            draw(&mut text, &summary);
        }
        facts(&mut text, &section.facts);
        list(&mut text, &section.lines);
    }
    let warnings = document.warnings.iter().map(|w| format!("warning: {w}"));
    list(&mut text, &warnings.collect::<Vec<_>>());
    text
}

fn facts(text: &mut String, facts: &Facts) {
    let lines = facts.0.iter().map(|(name, value)| {
        if name.is_empty() { value.clone() } else { format!("{name}: {value}") }
    });
    list(text, &lines.collect::<Vec<_>>());
}

fn list(text: &mut String, lines: &[String]) {
    if !lines.is_empty() {
        text.push('\n');
    }
    for line in lines {
        // Some lines include a bullet for plain-text output.
        let line = line.strip_prefix("- ").unwrap_or(line);
        text.push_str(&format!("- {}\n", escaped(line)));
    }
}

fn draw(text: &mut String, table: &Table) {
    let columns = table.texts();
    let mut row = |cells: Vec<String>| text.push_str(&format!("| {} |\n", cells.join(" | ")));
    row(columns.iter().map(|(column, _)| escaped(&column.name)).collect());
    let rule = |column: &Column| if column.numbers { "---:" } else { "---" };
    row(columns.iter().map(|(column, _)| rule(column).to_string()).collect());
    for index in 0..table.rows.len() {
        row(columns.iter().map(|(_, cells)| escaped(&cells[index])).collect());
    }
    let notes =
        table.footnotes.iter().enumerate().map(|(index, note)| format!("[{}] {note}", index + 1));
    list(text, &notes.collect::<Vec<_>>());
}

/// Escapes a text to a single line without tables, tags or emphasis.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in printable(text).chars() {
        match c {
            '\\' | '|' | '<' | '*' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}
