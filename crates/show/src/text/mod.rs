//! A document for a terminal: never wider than the terminal, without injected control sequences.

mod screen;
mod table;

use stormlp_core::printable::printable;

use crate::document::{Document, Facts, Table};
use table::{Rules, draw, parts};

/// Minimum line width for words, however far they are indented.
const NARROWEST: usize = 8;
/// Maximum padding width of fact names.
const NAME_WIDTH: usize = 26;

/// Renders all of a document in at most `width` columns; without a width in as many as it needs, as
/// a file has no edge. The answer is last, next to the prompt. Words longer than the width are
/// broken, paths after a `/`.
pub fn render(document: &Document, width: Option<usize>) -> String {
    let mut page = TextPage::new(width);
    page.everything(document);
    page.text
}

/// Renders the screen that a command ends with: up to 24 lines for up to eight rows, the answer
/// last.
pub fn screen(document: &Document, width: usize) -> String {
    let mut page = TextPage::new(Some(width));
    screen::draw_screen(&mut page, document);
    page.text
}

/// Lines of messages in at most `width` columns, without breaking words that fit. The rest of a line
/// is indented by two spaces more than its beginning.
pub fn wrapped(lines: &str, width: usize) -> String {
    let wrap = |line: &str| {
        let indent = line.len() - line.trim_start().len();
        laid_out(width.max(20), "", indent + 2, line).join("\n")
    };
    lines.lines().map(wrap).collect::<Vec<_>>().join("\n")
}

struct TextPage {
    width: usize,
    text: String,
}

impl TextPage {
    fn new(width: Option<usize>) -> Self {
        Self { width: width.map_or(usize::MAX, |width| width.max(20)), text: String::new() }
    }

    fn everything(&mut self, document: &Document) {
        self.facts("", &document.all_facts());
        for section in &document.sections {
            let indent = if section.title.is_empty() {
                ""
            } else {
                if !self.text.is_empty() {
                    self.line("");
                }
                self.prose("", 0, &section.title);
                "  "
            };
            section.table.iter().chain(&section.summary()).for_each(|table| self.table(table));
            self.facts(indent, &section.facts);
            for line in &section.lines {
                self.prose(indent, indent.len(), line);
            }
        }
        for warning in &document.warnings {
            self.prose("warning: ", 2, &warning.to_string());
        }
        if !self.text.is_empty() {
            self.line("");
        }
        self.prose("", 2, &document.answer());
        document.caveat.iter().for_each(|line| self.prose("  ", 4, line));
    }

    /// The number of lines so far.
    fn lines(&self) -> usize {
        self.text.lines().count()
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(&printable(line.trim_end()));
        self.text.push('\n');
    }

    /// Writes `text` after `first`; continuation lines are indented by `indent` spaces.
    fn prose(&mut self, first: &str, indent: usize, text: &str) {
        laid_out(self.width, first, indent, text).iter().for_each(|line| self.line(line));
    }

    fn facts(&mut self, indent: &str, facts: &Facts) {
        let lengths = facts.0.iter().map(|(name, _)| name.chars().count());
        let padded = lengths.max().unwrap_or(0).min(NAME_WIDTH);
        for (name, value) in &facts.0 {
            let first = format!("{indent}{:padded$}  ", printable(name));
            self.prose(&first, indent.len() + padded + 2, value);
        }
    }

    /// A table with all its columns, in several parts where they do not fit side by side.
    fn table(&mut self, table: &Table) {
        let (constants, parts) = parts(table, self.width);
        if !constants.is_empty() {
            self.prose("", 0, &constants);
        }
        for columns in parts {
            let text = draw(&columns, Some(self.width), Rules::Framed);
            text.lines().for_each(|line| self.line(line));
        }
        for (index, note) in table.footnotes.iter().enumerate() {
            let mark = format!("[{}] ", index + 1);
            self.prose(&mark, mark.len(), note);
        }
    }
}

/// The lines of `text` after `first` in `width` columns; continuation lines are indented by `indent`
/// spaces.
fn laid_out(width: usize, first: &str, indent: usize, text: &str) -> Vec<String> {
    // Escaped before layout, so that the width is right.
    let text = &*printable(text);
    let mut lines = Vec::new();
    let mut line = first.to_string();
    let mut used = line.chars().count();
    let mut begun = false;
    let room = width.saturating_sub(used.max(indent)).max(NARROWEST);
    let pieces = |word| broken(word, room).into_iter().enumerate();
    for (nth, word) in text.split(' ').flat_map(pieces) {
        let length = word.chars().count();
        let blank = usize::from(begun && nth == 0);
        if begun && used + blank + length > width {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
            used = indent;
        } else if blank > 0 {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        (used, begun) = (used + length, true);
    }
    lines.push(line);
    lines
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
