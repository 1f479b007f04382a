//! The elements of a page. All text is escaped here.

use crate::document::{Column, Facts, Table};
use crate::xml::escaped;

#[derive(Debug, Default)]
pub(super) struct Text(pub(super) String);

impl Text {
    /// Adds raw HTML.
    pub(super) fn push(&mut self, html: &str) {
        self.0.push_str(html);
    }

    /// Adds an element with `text` content.
    pub(super) fn element(&mut self, name: &str, attributes: &str, text: &str) {
        let blank = if attributes.is_empty() { "" } else { " " };
        let text = escaped(text);
        self.push(&format!("<{name}{blank}{attributes}>{text}</{name}>\n"));
    }

    /// Adds a list of sentences.
    pub(super) fn list(&mut self, attributes: &str, lines: &[String]) {
        if lines.is_empty() {
            return;
        }
        let blank = if attributes.is_empty() { "" } else { " " };
        self.push(&format!("<ul{blank}{attributes}>\n"));
        for line in lines {
            // Some lines include a bullet for plain-text output.
            self.element("li", "", line.strip_prefix("- ").unwrap_or(line));
        }
        self.push("</ul>\n");
    }

    /// Adds names and values; a value without a name belongs to the previous one.
    pub(super) fn facts(&mut self, facts: &Facts) {
        if facts.0.is_empty() {
            return;
        }
        self.push("<dl>\n");
        for (nth, (name, value)) in facts.0.iter().enumerate() {
            match (name.is_empty(), nth) {
                (false, _) => self.element("dt", "", name),
                (true, 0) => self.element("dt", "", "-"),
                (true, _) => {}
            }
            self.element("dd", "", value);
        }
        self.push("</dl>\n");
    }

    /// Adds a table that scrolls separately if it is wider than the page.
    pub(super) fn table(&mut self, name: &str, table: &Table) {
        let columns = table.texts();
        let class = |column: &Column| match (column.numbers, column.leads) {
            (true, true) => " class=\"n lead\"",
            (true, false) => " class=\"n\"",
            (false, true) => " class=\"lead\"",
            (false, false) => "",
        };
        let (name, count) = (escaped(name), columns.len());
        self.push(&format!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"{name}\">\n\
             <table style=\"--columns:{count}\">\n<thead><tr>"
        ));
        for (column, _) in &columns {
            let name = match column.name.as_str() {
                "" => "<span class=\"unseen\">of</span>".to_string(),
                name => escaped(name),
            };
            let class = class(column);
            self.push(&format!("<th scope=\"col\"{class}>{name}</th>"));
        }
        self.push("</tr></thead>\n<tbody>\n");
        for row in 0..table.rows.len() {
            self.push("<tr>");
            for (nth, (column, cells)) in columns.iter().enumerate() {
                let (class, text) = (class(column), escaped(&cells[row]));
                self.push(&match nth {
                    0 => format!("<th scope=\"row\"{class}>{text}</th>"),
                    _ => format!("<td{class}>{text}</td>"),
                });
            }
            self.push("</tr>\n");
        }
        self.push("</tbody>\n</table>\n</div>\n");
        let notes: Vec<String> = table
            .footnotes
            .iter()
            .enumerate()
            .map(|(nth, note)| format!("[{}] {note}", nth + 1))
            .collect();
        self.list("class=\"notes\"", &notes);
    }
}
