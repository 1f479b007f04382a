//! A document for a terminal: never wider than the terminal, without injected control sequences.

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, TableStyle};
use stormlp_core::printable::printable;

use crate::document::{Column, Document, Facts, Table};

/// Minimum line width for words, however far they are indented.
const NARROWEST: usize = 8;
/// Maximum padding width of fact names.
const NAME_WIDTH: usize = 26;

/// Renders a document in at most `width` columns; without a width in as many as it needs, so that
/// piped output can be searched. Words longer than the width are broken, paths after a `/`.
pub fn render(document: &Document, width: Option<usize>) -> String {
    let mark = document.mark.as_deref().unwrap_or_default();
    let taken = mark.chars().count() + if mark.is_empty() { 0 } else { 2 };
    let mut page = TextPage {
        mark,
        width: width.map_or(usize::MAX, |width| width.saturating_sub(taken).max(20)),
        text: String::new(),
    };
    page.prose("", 0, &document.headline);
    if let Some(caveat) = &document.caveat {
        page.prose("", 2, caveat);
    }
    page.facts("", &document.facts);
    for section in &document.sections {
        let indent = if section.title.is_empty() {
            ""
        } else {
            page.line("");
            page.prose("", 0, &section.title);
            "  "
        };
        if let Some(table) = &section.table {
            page.table(table, !document.records.columns.is_empty());
        }
        for summary in section.summaries() {
            page.table(&summary, false);
        }
        page.facts(indent, &section.facts);
        for line in &section.lines {
            page.prose(indent, indent.len(), line);
        }
    }
    for warning in &document.warnings {
        page.prose("warning: ", 2, warning);
    }
    if let Some(closing) = document.closing.as_ref().filter(|_| width.is_some()) {
        page.line("");
        page.prose("", 2, closing);
    }
    page.text
}

struct TextPage<'a> {
    mark: &'a str,
    width: usize,
    text: String,
}

impl TextPage<'_> {
    fn line(&mut self, line: &str) {
        self.text.push_str(self.mark);
        if !self.mark.is_empty() && !line.is_empty() {
            self.text.push_str("  ");
        }
        self.text.push_str(&printable(line.trim_end()));
        self.text.push('\n');
    }

    /// Writes `text` after `first`; continuation lines are indented by `indent` spaces.
    fn prose(&mut self, first: &str, indent: usize, text: &str) {
        // Escaped before layout, so that the width is right.
        let text = &*printable(text);
        let mut line = first.to_string();
        let mut used = line.chars().count();
        let mut begun = false;
        let room = self.width.saturating_sub(used.max(indent)).max(NARROWEST);
        let pieces = |word| broken(word, room).into_iter().enumerate();
        for (nth, word) in text.split(' ').flat_map(pieces) {
            let length = word.chars().count();
            let blank = usize::from(begun && nth == 0);
            if begun && used + blank + length > self.width {
                self.line(&line);
                (line, used) = (" ".repeat(indent), indent);
            } else if blank > 0 {
                line.push(' ');
                used += 1;
            }
            line.push_str(word);
            (used, begun) = (used + length, true);
        }
        self.line(&line);
    }

    fn facts(&mut self, indent: &str, facts: &Facts) {
        let lengths = facts.0.iter().map(|(name, _)| name.chars().count());
        let padded = lengths.max().unwrap_or(0).min(NAME_WIDTH);
        for (name, value) in &facts.0 {
            let first = format!("{indent}{:padded$}  ", printable(name));
            self.prose(&first, indent.len() + padded + 2, value);
        }
    }

    /// A table with the columns that fit, and a line that names the hidden ones.
    fn table(&mut self, table: &Table, has_csv: bool) {
        let mut shown: Vec<_> = table.texts().into_iter().enumerate().collect();
        let mut hidden: Vec<(usize, String)> = Vec::new();
        while width_of(&draw(&shown, None)) > self.width {
            let drop = |place: &usize| shown[*place].1.0.drop;
            let Some(next) = (0..shown.len()).filter(|place| drop(place) > 0).max_by_key(drop)
            else {
                break;
            };
            let (place, (column, _)) = shown.remove(next);
            hidden.push((place, column.name));
        }
        // Columns that still do not fit wrap within their cells.
        let text = draw(&shown, Some(self.width));
        text.lines().for_each(|line| self.line(line));
        for (index, note) in table.footnotes.iter().enumerate() {
            let mark = format!("[{}] ", index + 1);
            self.prose(&mark, mark.len(), note);
        }
        if !hidden.is_empty() {
            hidden.sort();
            let names: Vec<String> = hidden.into_iter().map(|(_, name)| name).collect();
            let csv = if has_csv { "--format csv, " } else { "" };
            let names = names.join(", ");
            self.prose(
                "",
                2,
                &format!("hidden: {names}; shown by {csv}a wider terminal or COLUMNS=200"),
            );
        }
    }
}

/// Splits `word` into pieces of at most `room` characters, after a `/` if possible.
fn broken(word: &str, room: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = word;
    while let Some((end, _)) = rest.char_indices().nth(room) {
        let slash = rest[..end].rfind('/').filter(|slash| *slash > 0);
        let (piece, more) = rest.split_at(slash.map_or(end, |slash| slash + 1));
        pieces.push(piece);
        rest = more;
    }
    pieces.push(rest);
    pieces
}

/// Draws columns at their natural width, or wrapped to `width`.
fn draw(columns: &[(usize, (Column, Vec<String>))], width: Option<usize>) -> String {
    let line = LineStyle::none().fill('─').junction('─');
    let style = TableStyle::new().top_border(line).header_separator(line).bottom_border(line);
    let mut table = comfy_table::Table::new();
    table
        .load_style(style)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(columns.iter().map(|(_, (column, _))| printable(&column.name)));
    if let Some(width) = width.and_then(|width| u16::try_from(width).ok()) {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    for row in 0..columns.first().map_or(0, |(_, (_, cells))| cells.len()) {
        table.add_row(columns.iter().map(|(_, (_, cells))| printable(&cells[row])));
    }
    for (drawn, (_, (column, _))) in table.column_iter_mut().zip(columns) {
        if column.numbers {
            drawn.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.to_string()
}

/// The width of a table, which is that of its first line.
fn width_of(drawn: &str) -> usize {
    drawn.lines().next().map_or(0, |line| line.chars().count())
}
