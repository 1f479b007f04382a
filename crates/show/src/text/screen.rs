//! The screen that a command ends with: what was set, the table, the most important warnings, and
//! the answer last, where the prompt follows. All else is shown with `--details`.

use stormlp_core::units::counted;

use super::table::{Rules, draw, take_constants, take_hidden};
use super::{TextPage, laid_out};
use crate::document::{Document, Place, Section, Table};

/// The lines that a document takes if its tables have up to eight rows: a terminal of 24 also shows
/// where the report is, a line about a target that was missed, and the prompt.
const LINES: usize = 21;
/// Maximum number of warnings; more are counted.
const WARNINGS: usize = 3;
/// Maximum number of lines of a warning or a footnote.
const LINES_OF_NOTE: usize = 3;

/// A footnote or a warning, which is shortened where lines are short.
struct Note<'a> {
    first: String,
    indent: usize,
    text: &'a str,
}

/// What a screen leaves out.
#[derive(Default)]
struct LeftOut {
    sections: usize,
    warnings: usize,
    notes: usize,
    columns: Vec<String>,
}

/// Draws `document` on an empty page.
pub(super) fn draw_screen(page: &mut TextPage<'_>, document: &Document) {
    let mut left_out = LeftOut::default();
    page.facts("", &document.brief);
    let mut footnotes = Vec::new();
    for section in document.sections.iter().filter(|section| section.place == Place::Screen) {
        draw_section(page, section, &mut left_out);
        footnotes.extend(section.table.iter().flat_map(footnotes_of));
    }
    let whole = |section: &&Section| section.place == Place::Details && !section.is_empty();
    left_out.sections = document.sections.iter().filter(whole).count();
    let answer = laid_out(page.width, "", 2, &document.headline).len()
        + document
            .caveat
            .iter()
            .map(|text| laid_out(page.width, "  ", 2, text).len())
            .sum::<usize>();
    // One more line says what is left out.
    let room = LINES.saturating_sub(page.lines() + answer + 1);
    let vital = document.vital_warnings.max(1);
    let warnings = document.warnings.iter().take(WARNINGS.min(room).max(vital));
    let warnings: Vec<Note<'_>> =
        warnings.map(|text| Note { first: "warning: ".to_string(), indent: 2, text }).collect();
    left_out.warnings = document.warnings.len() - warnings.len();
    draw_notes(page, &footnotes, (&warnings, vital), room, &mut left_out);
    if let Some(words) = left_out.words(page.width) {
        page.prose("", 2, &words);
    }
    if page.lines() > 0 && page.lines() + answer < LINES {
        page.line("");
    }
    page.prose("", 2, &document.headline);
    if let Some(caveat) = &document.caveat {
        page.prose("  ", 2, caveat);
    }
}

fn draw_section(page: &mut TextPage<'_>, section: &Section, left_out: &mut LeftOut) {
    if section.is_empty() {
        return;
    }
    let indent = if section.title.is_empty() { "" } else { "  " };
    if !section.title.is_empty() {
        page.prose("", 0, &section.title);
    }
    if let Some(table) = &section.table {
        let mut columns = table.texts();
        let constants = take_constants(&mut columns);
        if !constants.is_empty() {
            page.prose("", 0, &constants);
        }
        let hidden = take_hidden(&mut columns, page.width);
        left_out.columns.extend(hidden.into_iter().map(|(column, _)| column.name));
        let drawn = draw(&columns, Some(page.width), Rules::Bare);
        drawn.lines().for_each(|line| page.line(line));
    }
    page.facts(indent, &section.facts);
    for line in &section.lines {
        page.prose(indent, indent.len(), line);
    }
}

fn footnotes_of(table: &Table) -> impl Iterator<Item = Note<'_>> {
    table.footnotes.iter().enumerate().map(|(index, text)| {
        let first = format!("[{}] ", index + 1);
        Note { indent: first.len(), first, text }
    })
}

/// Every warning has at least one line; footnotes have one where there is room. What is left of
/// `room` goes to those that need more, the warnings first. One that has no whole clause in its
/// lines is left out, except for the first warnings, which are `vital`.
fn draw_notes(
    page: &mut TextPage<'_>,
    footnotes: &[Note<'_>],
    (warnings, vital): (&[Note<'_>], usize),
    room: usize,
    left_out: &mut LeftOut,
) {
    let kept = footnotes.len().min(room.saturating_sub(warnings.len()));
    left_out.notes += footnotes.len() - kept;
    let mut left = room.saturating_sub(kept + warnings.len());
    let mut lines_of = |note: &Note<'_>| {
        let whole = laid_out(page.width, &note.first, note.indent, note.text).len();
        let more = (whole.min(LINES_OF_NOTE) - 1).min(left);
        left -= more;
        1 + more
    };
    let of_warnings: Vec<usize> = warnings.iter().map(&mut lines_of).collect();
    let of_footnotes: Vec<usize> = footnotes[..kept].iter().map(&mut lines_of).collect();
    let all = footnotes.iter().zip(of_footnotes).chain(warnings.iter().zip(of_warnings));
    let vital: Vec<&str> = warnings.iter().take(vital).map(|note| note.text).collect();
    for (note, lines) in all {
        let (shown, cut) = note.within(page.width, lines);
        left_out.notes += usize::from(cut != Cut::Nowhere);
        if cut != Cut::WithinClause || vital.contains(&note.text) {
            page.prose(&note.first, note.indent, &shown);
        }
    }
}

/// Where a text is cut.
#[derive(PartialEq, Eq)]
enum Cut {
    Nowhere,
    AfterClause,
    WithinClause,
}

impl Note<'_> {
    /// The text in at most `lines` lines. One that is cut ends with a mark.
    fn within(&self, width: usize, lines: usize) -> (String, Cut) {
        let fits = |text: &str| laid_out(width, &self.first, self.indent, text).len() <= lines;
        if fits(self.text) {
            return (self.text.to_string(), Cut::Nowhere);
        }
        let ends = |mark: &'static str| self.text.match_indices(mark).map(|(at, _)| at);
        let cut = |end: usize, mark: &str| format!("{}{mark}", &self.text[..end]);
        let clauses = ends("; ").chain(ends(". "));
        let clause = clauses.filter(|end| fits(&cut(*end, "; …"))).max();
        if let Some(end) = clause {
            return (cut(end, "; …"), Cut::AfterClause);
        }
        let word = ends(" ").filter(|end| fits(&cut(*end, " …"))).max();
        (cut(word.unwrap_or_default(), " …"), Cut::WithinClause)
    }
}

impl LeftOut {
    /// `more with --details: 2 warnings, 1 note, 3 sections, p50 µs`, in one line of
    /// `width` if need be without the names of columns.
    fn words(&self, width: usize) -> Option<String> {
        let number = |count: usize, one: &str| (count > 0).then(|| counted(count as u64, one));
        let parts = [
            number(self.warnings, "warning"),
            number(self.notes, "note"),
            number(self.sections, "section"),
        ];
        let line = |columns: Option<String>| {
            let parts: Vec<String> = parts.iter().flatten().cloned().chain(columns).collect();
            (!parts.is_empty()).then(|| format!("more with --details: {}", parts.join(", ")))
        };
        if self.columns.is_empty() {
            return line(None);
        }
        let named = line(Some(self.columns.join(", ")));
        named
            .filter(|line| line.chars().count() <= width)
            .or_else(|| line(number(self.columns.len(), "column")))
    }
}
