//! A document for a README or a ticket, with all columns and notes.

use stormlp_core::printable::printable;

use crate::document::{Column, Document, Facts, Table};

/// Writes a document as Markdown.
pub fn render(document: &Document) -> String {
    let mut text = format!("### {}\n", escaped(&document.answer()));
    list(&mut text, &document.caveat);
    facts(&mut text, &document.all_facts());
    for section in &document.sections {
        if !section.title.is_empty() {
            text.push_str(&format!("\n#### {}\n", escaped(&section.title)));
        }
        if let Some(table) = &section.table {
            text.push('\n');
            draw(&mut text, table);
        }
        if let Some(summary) = section.summary() {
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

/// Escapes a text to a single line that shows as it is: without tables, tags, emphasis, links or
/// code, as names come from outside.
fn escaped(text: &str) -> String {
    let text = &*printable(text);
    let mut out = String::new();
    for (at, c) in text.char_indices() {
        let rest = &text[at..];
        let is_special = match c {
            '\\' | '|' | '<' | '*' | '`' | '~' => true,
            // A link needs one of these behind its text; a footnote's number has none.
            '[' => ["](", "][", "]:"].iter().any(|end| rest.contains(end)),
            // Within a word it is itself, and reads better so.
            '_' => !is_within_word(text, at),
            // The next characters would make an address a link.
            ':' => rest.starts_with("://"),
            '.' => text[..at].to_lowercase().ends_with("www"),
            // An entity, such as `&lt;`.
            '&' => rest[1..].starts_with(|c: char| c == '#' || c.is_ascii_alphabetic()),
            // A heading, a quotation, a rule or another list.
            '#' | '+' | '-' | '>' if at == 0 && rest.len() > 1 => {
                !rest[1..].starts_with(|next: char| next.is_alphanumeric() || next == '.')
            }
            _ => false,
        };
        if is_special {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Whether there is a letter or digit on both sides of the underscores around `at`.
fn is_within_word(text: &str, at: usize) -> bool {
    let before = text[..at].trim_end_matches('_').chars().next_back();
    let after = text[at..].trim_start_matches('_').chars().next();
    [before, after].iter().all(|c| c.is_some_and(char::is_alphanumeric))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_outside_show_as_they_are() {
        for (text, shown) in [
            ("[a](http://b)", "\\[a](http\\://b)"),
            ("![a][b]", "!\\[a][b]"),
            ("see www.example.org", "see www\\.example.org"),
            ("`rm`", "\\`rm\\`"),
            ("_a_ and a_b", "\\_a\\_ and a_b"),
            ("~~gone~~ &lt; R&D & <b>", "\\~\\~gone\\~\\~ \\&lt; R\\&D & \\<b>"),
            ("# head", "\\# head"),
            ("- item", "\\- item"),
            ("-", "-"),
            ("-10.0 %", "-10.0 %"),
            ("1.5 GiB/s [1.2 to 1.8], ~3 %", "1.5 GiB/s [1.2 to 1.8], \\~3 %"),
        ] {
            assert_eq!(escaped(text), shown);
        }
    }
}
