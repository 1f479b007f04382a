//! A comparison as a separate document, or at the end of a report with a baseline.

use std::collections::BTreeSet;

use crate::comparison::judge::{Basis, Design, ERROR, Verdict};
use serde_json::Value;
use stormlp_core::sequential::MOST_PAIRS;
use stormlp_core::units::counted;
use stormlp_core::warning::{Warning, WarningKind};

use super::{Compared, Comparison, Source};
use crate::document::{Col, DetailLevel, Document, Facts, Quantity, Section, Table, number, word};
use crate::records::Records;

/// Maximum number of files listed by name.
const MOST_NAMES: usize = 4;
/// Above this many percent, the end of an interval is meaningless.
const MOST_PERCENT: f64 = 1000.0;
/// No change is below this many percent: an end of an interval at it is meaningless, too.
const LEAST_PERCENT: f64 = -99.9;
/// An interval without a meaningful end.
const UNKNOWN: &str = "unknown";
/// Maximum number of differing figures listed together; more are counted and shown with their
/// subjects.
const MOST_DIFFERENT: usize = 20;
/// Maximum number of one-sided subjects listed; more are counted.
const MOST_UNMATCHED: usize = 3;

/// Source of each record column in a figure.
const RECORDS: [(&str, &str); 19] = [
    ("name", "/name"),
    ("subject", "/subject"),
    ("figure", "/figure"),
    ("unit", "/unit"),
    ("baseline", "/baseline"),
    ("baseline_deviation", "/baseline_deviation"),
    ("baseline_samples", "/baseline_samples"),
    ("candidate", "/candidate"),
    ("candidate_deviation", "/candidate_deviation"),
    ("candidate_samples", "/candidate_samples"),
    ("change_percent", "/change_percent"),
    ("higher_is_better", "/higher_is_better"),
    ("p_value", "/p_value"),
    ("p_value_alone", "/p_value_alone"),
    ("basis", "/basis"),
    ("verdict", "/verdict"),
    ("interval_low", "/interval/0"),
    ("interval_high", "/interval/1"),
    ("effect_percent", "/effect_percent"),
];

impl Comparison {
    /// The columns of its records.
    pub fn record_columns() -> Vec<&'static str> {
        RECORDS.iter().map(|(name, _)| *name).collect()
    }

    /// The comparison for a reader: verdict, basis, each figure.
    pub fn document(&self) -> Document {
        let mut document = Document::new(&self.sentence);
        document.mark.clone_from(&self.mark);
        document.caveat = self.caveat("not the same work; compared anyway:");
        let are_pairs = self.pairs.is_some();
        document.brief.add(&*self.names[0], side(&self.baseline, are_pairs));
        document.brief.add(&*self.names[1], side(&self.candidate, are_pairs));
        self.add_test(&mut document.brief);
        document.sections = self.sections("");
        document.warn(&self.doubts());
        // A figure is plain data and always serialises to JSON.
        let figures =
            self.figures.iter().map(|figure| serde_json::to_value(figure).unwrap_or(Value::Null));
        document.records = Records::new(&(), figures, &RECORDS);
        document
    }

    /// Appends its comparison with a baseline to the document of a report.
    pub fn close(&self, document: &mut Document) {
        document.caveat = match self.figures.is_empty() {
            true => vec![self.sentence.clone()],
            false => self.caveat("not the same work as the baseline:"),
        };
        document.brief.add("baseline", side(&self.baseline, false));
        if self.figures.is_empty() {
            return;
        }
        document.brief.add("against it", &self.sentence);
        let mut sections = self.sections("Against the baseline");
        if let Some(last) = sections.last_mut() {
            self.add_test(&mut last.facts);
        }
        let sections = sections.into_iter();
        document
            .sections
            .extend(sections.map(|one| Section { place: DetailLevel::Details, ..one }));
        // Warnings of the report itself are already listed.
        let told: Vec<String> = document.warnings.iter().map(Warning::subjects_and_fact).collect();
        let is_new = |one: &&Warning| !told.iter().any(|known| one.fact.ends_with(known));
        document.warn(self.doubts().iter().filter(is_new));
    }

    /// The differences between the work of both sides below `title`.
    fn caveat(&self, title: &str) -> Vec<String> {
        let lines = self.difference_lines().into_iter().map(|line| format!("- {line}"));
        let mut lines: Vec<String> = lines.collect();
        if !lines.is_empty() {
            lines.insert(0, title.to_string());
        }
        lines
    }

    /// The warnings of a document.
    fn doubts(&self) -> Vec<Warning> {
        let doubt = |words: &String| Warning::new(WarningKind::NotComparable, words, "");
        self.warnings.iter().map(doubt).collect()
    }

    /// The verdict in a sentence, with its number and everything that no figure covers.
    pub(super) fn in_a_sentence(&self) -> String {
        let told = self.of_figures();
        match self.broken.len() {
            0 => told,
            broken => {
                let parts = counted(broken as u64, "part");
                format!("{told}; {parts} of the baseline broke or did not complete")
            }
        }
    }

    fn of_figures(&self) -> String {
        if self.figures.is_empty() {
            let alone = self.unmatched.iter().take(MOST_UNMATCHED).map(String::as_str);
            let words: Vec<&str> = ["none is on both sides"].into_iter().chain(alone).collect();
            return format!("no figures to compare: {}", words.join("; "));
        }
        if self.identical {
            return "identical: both sides are the same report".to_string();
        }
        match (self.verdict, self.leading()) {
            (Verdict::Same, _) => self.same(self.with(Verdict::CannotTell).count()),
            (Verdict::CannotTell, _) => self.cannot_tell(),
            (verdict, first) => {
                let rest = [(Verdict::Regressed, "worse"), (Verdict::Improved, "better")];
                let rest = rest.into_iter().filter_map(|(of, word)| self.rest(of, word, first));
                let word = match first.map(|one| one.verdict) {
                    Some(Verdict::Improved) => "faster",
                    Some(Verdict::Regressed) => "slower",
                    _ => "",
                };
                let told = first.map(|one| known(&self.briefly(one)));
                let mut parts: Vec<String> = told.into_iter().chain(rest).collect();
                if !word.is_empty() {
                    let [baseline, candidate] = &self.names;
                    return format!("{candidate} is {word} than {baseline}: {}", parts.join("; "));
                }
                // The verdict comes from figures other than the first.
                if let Some(part) = parts.get_mut(1) {
                    *part = format!("{}: {part}", verdict.words());
                }
                parts.join("; ")
            }
        }
    }

    /// The figures with this verdict.
    fn with(&self, verdict: Verdict) -> impl Iterator<Item = &Compared> {
        self.figures.iter().filter(move |one| one.verdict == verdict)
    }

    /// How many figures have a verdict, and the one that changed most, unless that is only `first`.
    fn rest(&self, verdict: Verdict, word: &str, first: Option<&Compared>) -> Option<String> {
        let other =
            self.with(verdict).filter(|one| first.is_none_or(|first| one.name != first.name));
        let most = other.max_by(|a, b| a.change().total_cmp(&b.change()))?;
        let (count, all) =
            (self.with(verdict).count(), counted(self.figures.len() as u64, "figure"));
        let by = most.change_percent.map(|percent| format!(" by {:.1} %", percent.abs()));
        Some(format!("{count} of {all} got {word}, {}{}", most.figure, by.unwrap_or_default()))
    }

    /// Every headline figure is the same; of `open` further figures, the verdict is open.
    fn same(&self, open: usize) -> String {
        let told = self.widest().map_or(String::new(), |one| {
            let effect = one.effect_percent;
            format!("{}, less than {effect} % either way", moved(&self.briefly(one)))
        });
        match open {
            0 => format!("same: {told}"),
            open => format!("same: {told}; cannot tell for {open} of {}", self.figures.len()),
        }
    }

    fn cannot_tell(&self) -> String {
        let [baseline, candidate] = &self.names;
        let open = format!("cannot tell {candidate} from {baseline}");
        let Some(one) = self.widest().or(self.figures.first()) else {
            return open;
        };
        let told = moved(&self.briefly(one));
        match (&one.interval, self.why_not()) {
            (None, Some(why)) => format!("{open}: {told}, but {why}"),
            _ => format!("{open}: {told}"),
        }
    }

    /// The result so far, in a few words.
    pub fn progress(&self) -> String {
        let told = self.widest().map(|widest| moved(&self.briefly(widest)));
        told.unwrap_or_else(|| self.sentence.clone())
    }

    /// A figure without its subject, if all have the same.
    fn briefly(&self, one: &Compared) -> Compared {
        let is_only = self.figures.iter().all(|other| other.subject == one.subject);
        let subject = if is_only { String::new() } else { one.subject.clone() };
        Compared { subject, ..one.clone() }
    }

    /// Why figures have no interval.
    fn why_not(&self) -> Option<&'static str> {
        let open = self.figures.iter().any(|one| one.interval.is_none());
        let why = match self.design {
            Design::OneRun => {
                "with one run per side this may be noise; run each side at least 3 times, in turns"
            }
            Design::Blocks => {
                "the runs of both sides are not mixed enough to exclude a drift of the machine"
            }
            Design::Pairs | Design::Turns => "these runs do not show how they vary",
        };
        open.then_some(why)
    }

    /// Adds the basis of the verdicts.
    fn add_test(&self, facts: &mut Facts) {
        let has = |basis| self.figures.iter().any(|one| one.basis == Some(basis));
        let runs = format!("{} and {}", self.baseline.len(), self.candidate.len());
        if let Some(pairs) = self.pairs {
            facts.add(
                "test",
                format!("{pairs} of at most {MOST_PAIRS} pairs of runs, in random turns"),
            );
        }
        let earlier = counted(self.earlier as u64, "earlier report");
        let blocks = "one side after the other, without a drift that shows";
        let tests = [
            (Basis::Runs, format!("Welch's, over {runs} independent runs in turns")),
            (Basis::Blocks, format!("Welch's, over moving blocks of {runs} runs; {blocks}")),
            (Basis::Earlier, format!("against the spread of {earlier} of this work on this host")),
        ];
        for (_, words) in tests.into_iter().filter(|(basis, _)| has(*basis)) {
            facts.add("test", words);
        }
        if self.figures.iter().any(|one| one.basis.is_some()) {
            let percent = 100.0 * (1.0 - ERROR);
            let looks = if self.pairs.is_some() { " and looks" } else { "" };
            facts.add("intervals", format!("{percent:.0} %, for all figures{looks} together"));
        }
        let helps = matches!(self.design, Design::OneRun | Design::Blocks);
        if helps && !self.identical && self.why_not().is_some() {
            facts.add(
                "help",
                "stormlp compare --baseline 'A' --candidate 'B' runs both in turns; --history DIR estimates \
                 the noise from earlier reports",
            );
        }
    }

    /// A section for each subject. Of several, one screen shows what differs, or else the headline
    /// figure of each; the rest is details.
    fn sections(&self, title: &str) -> Vec<Section> {
        let mut sections: Vec<Section> = Vec::new();
        sections.extend(self.across(title));
        let place = if sections.is_empty() { DetailLevel::Screen } else { DetailLevel::Details };
        for subject in self.figures.chunk_by(|a, b| a.subject == b.subject) {
            sections.push(Section {
                title: title_of([title, &subject[0].subject]),
                table: Some(table(subject, &self.names)),
                place,
                ..Section::default()
            });
        }
        if let Some(first) = sections.first_mut() {
            let shown = self.unmatched.iter().take(MOST_UNMATCHED);
            first.lines.extend(shown.map(|subject| format!("not compared: {subject}")));
            let left = self.unmatched.len().saturating_sub(MOST_UNMATCHED);
            if left > 0 {
                first.lines.push(format!("not compared: {left} more"));
            }
        }
        sections
    }

    /// The differing figures of several subjects, or their headline figures if none is known to
    /// differ, largest change first; `None` if a single table holds all figures.
    fn across(&self, title: &str) -> Option<Section> {
        let first = &self.figures.first()?.subject;
        if self.figures.iter().all(|one| one.subject == *first) {
            return None;
        }
        let called =
            |one: &&Compared| matches!(one.verdict, Verdict::Improved | Verdict::Regressed);
        let different: Vec<&Compared> = self.figures.iter().filter(called).collect();
        let (name, mut shown) = match different.is_empty() {
            true => ("headline figures", self.figures.iter().filter(|one| one.headline).collect()),
            false => ("differences", different),
        };
        shown.sort_by(|a, b| b.change().total_cmp(&a.change()));
        let mut columns = vec![word("of", 0, |one: &&Compared| one.subject.clone())];
        columns.extend(Compared::columns(&self.names));
        columns.push(Compared::verdict_column());
        let rows = shown.iter().copied().take(MOST_DIFFERENT);
        let table = Table::of(rows, |one| one.name.clone(), columns);
        let left = shown.len().saturating_sub(MOST_DIFFERENT);
        Some(Section {
            title: title_of([title, name]),
            table: Some(table),
            lines: (left > 0).then(|| format!("and {left} more")).into_iter().collect(),
            ..Section::default()
        })
    }
}

impl Compared {
    /// Its name with the unit, both values, and the change.
    fn columns<'a>(names: &[String; 2]) -> Vec<Col<'a, &'a Self>> {
        let value = |one: &&Self, value| Quantity::neutral(value, one.unit);
        vec![
            word("figure", 0, |one: &&Self| format!("{}, {}", one.figure, one.unit)).setting(),
            number(&names[0], 0, move |one: &&Self| value(one, one.baseline)),
            number(&names[1], 0, move |one: &&Self| value(one, one.candidate)),
            number("change", 0, |one: &&Self| one.change_percent.map_or("-".to_string(), signed))
                .leading(),
        ]
    }

    fn verdict_column<'a>() -> Col<'a, &'a Self> {
        word("verdict", 0, |one: &&Self| one.verdict.words()).leading()
    }
}

/// Joins the non-empty parts of a title.
fn title_of(parts: [&str; 2]) -> String {
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(": ")
}

fn table(figures: &[Compared], names: &[String; 2]) -> Table {
    let mut columns = Compared::columns(names);
    columns.extend([
        word("interval, %", 0, |one: &&Compared| {
            one.interval.map_or("-".to_string(), |ends| ends_of(ends, "to", ""))
        }),
        word("runs", 2, |one: &&Compared| {
            format!("{}, {}", one.baseline_samples, one.candidate_samples)
        }),
        Compared::verdict_column(),
    ]);
    Table::of(figures, |one| one.name.clone(), columns)
}

pub(super) fn signed(percent: f64) -> String {
    format!("{:+.1} %", tenths(percent))
}

/// Rounded to a tenth, without a negative zero.
fn tenths(percent: f64) -> f64 {
    (percent * 10.0).round() / 10.0 + 0.0
}

/// Both ends of an interval in percent, or the only one that says anything.
pub(super) fn ends(ends: [f64; 2]) -> String {
    ends_of(ends, "and", " %")
}

/// The same in a sentence: `between -3.0 and +1.0 %`, or `-3.0 % or more`.
pub(super) fn between(ends: [f64; 2]) -> String {
    let text = ends_of(ends, "and", " %");
    match ends[1] < MOST_PERCENT {
        true => format!("between {text}"),
        false if text == UNKNOWN => format!("interval {text}"),
        false => text,
    }
}

/// Both ends of an interval, with a word between them and the unit after them; above
/// [`MOST_PERCENT`] the lower one alone.
fn ends_of([low, high]: [f64; 2], word: &str, unit: &str) -> String {
    let low = tenths(low);
    if high < MOST_PERCENT {
        format!("{low:+.1} {word} {:+.1}{unit}", tenths(high))
    } else if low > LEAST_PERCENT {
        format!("{low:+.1}{unit} or more")
    } else {
        UNKNOWN.to_string()
    }
}

/// How far a figure moved, or that it did not.
fn known(figure: &Compared) -> String {
    match figure.verdict {
        Verdict::Same => format!("{} is the same{}", figure.figure, place(figure)),
        Verdict::CannotTell => format!("{}, which may be noise", moved(figure)),
        Verdict::Improved | Verdict::Regressed => moved(figure),
    }
}

/// How far a figure moved, whether that means anything or not.
fn moved(figure: &Compared) -> String {
    let change = match figure.change_percent {
        None => "has no change in percent".to_string(),
        Some(percent) if percent < 0.0 => format!("is {:.1} % lower", -percent),
        Some(percent) => format!("is {percent:.1} % higher"),
    };
    format!("{} {change}{}", figure.figure, place(figure))
}

/// The interval of a figure and its subject, in parentheses.
fn place(figure: &Compared) -> String {
    let interval = figure.interval.map(between);
    let subject = Some(figure.subject.clone()).filter(|subject| !subject.is_empty());
    let parts: Vec<String> = interval.into_iter().chain(subject).collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join("; ")) }
}

/// The reports of a side as text: of pairs, which are runs of one command, the command.
fn side(sources: &[Source], are_pairs: bool) -> String {
    let machine = |one: &Source| format!("{} (Linux {})", one.hostname, one.kernel);
    let machines: BTreeSet<String> = sources.iter().map(machine).collect();
    let machines = Vec::from_iter(machines).join(", ");
    match sources {
        [only] => format!("{}, {} on {machines}", only.file, only.started_at),
        [first, ..] if are_pairs => format!("{}, on {machines}", first.command),
        _ => {
            let names: Vec<&str> = sources.iter().take(MOST_NAMES).map(|one| &*one.file).collect();
            let more = match sources.len().saturating_sub(MOST_NAMES) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("{} reports on {machines}: {}{more}", sources.len(), names.join(", "))
        }
    }
}
