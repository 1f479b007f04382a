//! The screen that a command ends with: the settings, the table, the most important warnings, and
//! the answer last, where the prompt follows. All else is shown with `--details`.

use stormlp_core::distinct::distinct;
use stormlp_core::units::counted;
use stormlp_core::warning::{Rank, Warning, WarningKind};

use super::table::{Rules, draw, take_constants, take_hidden};
use super::{TextPage, laid_out};
use crate::document::{DetailLevel, Document, Section, Table};

/// Maximum lines of a document if its tables have up to eight rows: a terminal of 24 also shows
/// where the report is, a line about a target that was missed, and the prompt.
const LINES: usize = 21;
/// Maximum number of warnings; more are counted.
const WARNINGS: usize = 3;
/// Maximum number of lines of a warning or a footnote.
const LINES_OF_NOTE: usize = 3;

/// A footnote or a warning.
struct Note<'a> {
    first: String,
    /// The part that is shortened where lines are short.
    fact: String,
    /// The part that is shown whole, or not at all.
    remedy: &'a str,
    is_vital: bool,
    /// Whether it must be shown whole.
    is_whole: bool,
}

/// The parts that a screen leaves out.
#[derive(Default)]
struct LeftOut {
    sections: usize,
    warnings: usize,
    notes: usize,
    columns: Vec<String>,
}

/// Draws `document` on an empty page.
pub(super) fn draw_screen(page: &mut TextPage, document: &Document) {
    let mut left_out = LeftOut::default();
    page.facts("", &document.brief);
    let mut footnotes = Vec::new();
    for section in document.sections.iter().filter(|section| section.place == DetailLevel::Screen) {
        draw_section(page, section, &mut left_out);
        footnotes.extend(section.table.iter().flat_map(footnotes_of));
    }
    let whole = |section: &&Section| section.place == DetailLevel::Details && !section.is_empty();
    left_out.sections = document.sections.iter().filter(whole).count();
    let answer = laid_out(page.width, "", 2, &document.answer()).len()
        + document
            .caveat
            .iter()
            .map(|text| laid_out(page.width, "  ", 4, text).len())
            .sum::<usize>();
    // One more line says what is left out.
    let room = LINES.saturating_sub(page.lines() + answer + 1);
    let mut warnings: Vec<Note<'_>> = document.warnings.iter().map(Note::of_warning).collect();
    if let Some(first) = warnings.first_mut() {
        first.is_vital = true;
    }
    let vital = warnings.iter().filter(|note| note.is_vital).count();
    let shown = WARNINGS.min(room).max(vital).min(warnings.len());
    left_out.warnings = warnings.len() - shown;
    warnings.truncate(shown);
    footnotes.extend(warnings);
    draw_notes(page, footnotes, room, &mut left_out);
    if let Some(words) = left_out.words(page.width) {
        page.prose("", 2, &words);
    }
    if page.lines() > 0 && page.lines() + answer < LINES {
        page.line("");
    }
    page.prose("", 2, &document.answer());
    document.caveat.iter().for_each(|line| page.prose("  ", 4, line));
}

fn draw_section(page: &mut TextPage, section: &Section, left_out: &mut LeftOut) {
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
        let (fact, remedy) = text.split_once("; ").unwrap_or((text, ""));
        Note {
            first: format!("[{}] ", index + 1),
            fact: fact.to_string(),
            remedy,
            is_vital: false,
            is_whole: false,
        }
    })
}

/// Draws notes in `room` lines, of which each has its share. One that does not fit is left out unless
/// it is vital.
fn draw_notes(page: &mut TextPage, notes: Vec<Note<'_>>, room: usize, left_out: &mut LeftOut) {
    let (mut left, mut waiting) = (room, notes.len());
    for note in notes {
        let lines = (left / waiting).min(LINES_OF_NOTE);
        waiting -= 1;
        let shown = note.within(page.width, if note.is_whole { usize::MAX } else { lines });
        let is_whole = shown.as_ref() == Some(&note.text());
        left_out.notes += usize::from(!is_whole);
        if let Some(text) = shown.or_else(|| note.is_vital.then(|| note.text())) {
            left = left.saturating_sub(note.lines(page.width, &text));
            page.prose(&note.first, note.indent(), &text);
        }
    }
}

impl<'a> Note<'a> {
    fn of_warning(warning: &'a Warning) -> Self {
        Self {
            first: "warning: ".to_string(),
            fact: warning.subjects_and_fact(),
            remedy: &warning.remedy,
            is_vital: warning.kind.rank() == Rank::Vital,
            is_whole: warning.kind == WarningKind::EarlierCheckpoints,
        }
    }

    fn indent(&self) -> usize {
        self.first.len().min(4)
    }

    /// The fact up to a word, and the remedy.
    fn text_of(&self, fact: &str) -> String {
        let mark = if fact.len() < self.fact.len() { " …" } else { "" };
        let between = if self.remedy.is_empty() { "" } else { "; " };
        format!("{fact}{mark}{between}{}", self.remedy)
    }

    fn text(&self) -> String {
        self.text_of(&self.fact)
    }

    fn lines(&self, width: usize, text: &str) -> usize {
        laid_out(width, &self.first, self.indent(), text).len()
    }

    /// As much of the fact as fits `lines` with the whole remedy; `None` if no part does.
    fn within(&self, width: usize, lines: usize) -> Option<String> {
        let words = self.fact.match_indices(' ').map(|(at, _)| at).chain([self.fact.len()]);
        let ends: Vec<usize> = words.collect();
        let fits = |end: &usize| self.lines(width, &self.text_of(&self.fact[..*end])) <= lines;
        let end = ends.into_iter().rev().find(fits)?;
        // A whole clause reads better than that and the beginning of the next.
        let marks = [", ", "; ", " ("].into_iter();
        let clause = marks.filter_map(|mark| self.fact[..end].rfind(mark)).max();
        let clause = clause.filter(|at| end < self.fact.len() && *at > end / 2);
        Some(self.text_of(&self.fact[..clause.unwrap_or(end)]))
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
        let columns = distinct(self.columns.iter().map(String::as_str));
        if columns.is_empty() {
            return line(None);
        }
        let named = line(Some(columns.join(", ")));
        named
            .filter(|line| line.chars().count() <= width)
            .or_else(|| line(number(columns.len(), "column")))
    }
}
