//! A comparison as a separate document, or at the end of a report with a baseline.

use crate::comparison::judge::{Basis, SIGNIFICANCE, Verdict};
use serde_json::Value;
use stormlp_core::units::counted;

use super::figure::{RUN_TO_RUN, RUN_TO_RUN_OF_COSTS};
use super::{Compared, Comparison, Source};
use crate::document::{Cell, Column, Document, Facts, Quantity, Section, Table};
use crate::records::Records;

/// Maximum number of files listed by name.
const MOST_NAMES: usize = 4;
/// Maximum number of differing figures listed together; more are counted and shown with their
/// subjects.
const MOST_DIFFERENT: usize = 20;
/// Maximum number of one-sided subjects listed; more are counted.
const MOST_UNMATCHED: usize = 8;

/// Source of each record column in a figure.
const RECORDS: [(&str, &str); 16] = [
    ("name", "/name"),
    ("subject", "/subject"),
    ("figure", "/figure"),
    ("unit", "/unit"),
    ("baseline", "/baseline"),
    ("baseline_deviation", "/baseline_deviation"),
    ("baseline_samples", "/baseline_samples"),
    ("value", "/value"),
    ("value_deviation", "/value_deviation"),
    ("value_samples", "/value_samples"),
    ("change_percent", "/change_percent"),
    ("higher_is_better", "/higher_is_better"),
    ("p_value", "/p_value"),
    ("p_value_alone", "/p_value_alone"),
    ("basis", "/basis"),
    ("verdict", "/verdict"),
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
        document.caveat = self.difference_words().map(|words| format!("{words}; compared anyway"));
        document.facts.add("baseline", side(&self.baseline));
        document.facts.add("now", side(&self.value));
        self.add_test(&mut document.facts);
        document.sections = self.sections("");
        document.warnings.clone_from(&self.warnings);
        // A figure is plain data and always serialises to JSON.
        let figures =
            self.figures.iter().map(|figure| serde_json::to_value(figure).unwrap_or(Value::Null));
        document.records = Records::new(&(), figures, &RECORDS);
        document
    }

    /// Appends its comparison with a baseline to the document of a report.
    pub fn close(&self, document: &mut Document) {
        document.caveat = if self.figures.is_empty() {
            Some(self.sentence.clone())
        } else {
            self.difference_words()
        };
        document.facts.add("baseline", side(&self.baseline));
        if self.figures.is_empty() {
            return;
        }
        let mut sections = self.sections("Against the baseline");
        if let Some(last) = sections.last_mut() {
            self.add_test(&mut last.facts);
            last.lines.insert(0, self.sentence.clone());
        }
        document.sections.extend(sections);
        // Warnings of the report itself are already listed.
        let told = |warning: &&String| document.warnings.iter().any(|one| warning.ends_with(one));
        let new: Vec<String> = (self.warnings.iter().filter(|one| !told(one)).cloned()).collect();
        document.warnings.extend(new);
    }

    /// The verdict in a sentence, with its number and everything that no figure covers.
    pub(super) fn told(&self) -> String {
        let told = self.told_of_figures();
        match self.broken.len() {
            0 => told,
            broken => {
                let parts = counted(broken as u64, "part");
                format!("{told}; {parts} of the baseline broke or did not complete")
            }
        }
    }

    fn told_of_figures(&self) -> String {
        let command =
            |side: &[Source]| side.first().map_or(String::new(), |one| one.command.clone());
        if self.figures.is_empty() {
            return format!(
                "nothing to compare: the baseline ({}) and the other ({}) have no figure in common",
                command(&self.baseline),
                command(&self.value)
            );
        }
        if self.identical {
            return "identical: both sides are the same report".to_string();
        }
        let with = |verdict| {
            let figures = self.figures.iter().filter(move |one| one.verdict == verdict);
            let largest = figures.clone().max_by(|a, b| a.change().total_cmp(&b.change()));
            (figures.count(), largest)
        };
        let tested = self.figures.iter().filter(|one| one.p_value.is_some());
        let tested = counted(tested.count() as u64, "figure");
        match (with(Verdict::Regressed), with(Verdict::Improved)) {
            ((worse, Some(worst)), (better, _)) => {
                let besides = match better {
                    0 => String::new(),
                    better => format!("; {better} got better"),
                };
                let by = by(worst);
                format!("regressed: {worse} of {tested} got worse, {by}{besides}")
            }
            (_, (better, Some(best))) => {
                format!("improved: {better} of {tested} got better, {}", by(best))
            }
            _ if self.verdict == Verdict::TooFewSamples => {
                "too few samples to tell: compare several runs per side, or longer ones".to_string()
            }
            _ => format!("within noise: no difference in {tested} beyond chance"),
        }
    }

    /// Adds the basis of the verdicts.
    fn add_test(&self, facts: &mut Facts) {
        let has = |basis| self.figures.iter().any(|one| one.basis == Some(basis));
        let runs = format!("{} and {}", self.baseline.len(), self.value.len());
        if has(Basis::Runs) {
            facts.add("test", format!("Welch's, over {runs} independent runs"));
        }
        if has(Basis::RunAgainstRuns) {
            let words = format!("one run against the spread of the others, of {runs} runs");
            facts.add("test", words);
        }
        if has(Basis::WithinRuns) {
            facts.add(
                "test",
                format!(
                    "Welch's, within one run per side: effective samples by autocorrelation, \
                     and {:.0} % assumed from run to run ({:.0} % of CPU time and \
                     percentiles); several runs per side are more certain",
                    100.0 * RUN_TO_RUN,
                    100.0 * RUN_TO_RUN_OF_COSTS
                ),
            );
        }
        let tested = self.figures.iter().filter(|one| one.p_value.is_some());
        if tested.count() > 1 {
            let percent = 100.0 * SIGNIFICANCE;
            let words = format!("Holm's, {percent:.0} % for all figures together");
            facts.add("p-values", words);
        }
    }

    /// The differing figures if they are scattered over many subjects; then a section for each
    /// subject.
    fn sections(&self, title: &str) -> Vec<Section> {
        let mut sections: Vec<Section> = Vec::new();
        sections.extend(self.different(title));
        for subject in self.figures.chunk_by(|a, b| a.subject == b.subject) {
            sections.push(Section {
                title: title_of([title, &subject[0].subject]),
                table: Some(table(subject)),
                ..Section::default()
            });
        }
        if let Some(last) = sections.last_mut() {
            let shown = self.unmatched.iter().take(MOST_UNMATCHED);
            last.lines = shown.map(|subject| format!("not compared: {subject}")).collect();
            let left = self.unmatched.len().saturating_sub(MOST_UNMATCHED);
            if left > 0 {
                last.lines.push(format!("not compared: {left} more"));
            }
        }
        sections
    }

    /// The differing figures, largest change first; `None` if a single table holds all figures.
    fn different(&self, title: &str) -> Option<Section> {
        let called =
            |one: &&Compared| matches!(one.verdict, Verdict::Improved | Verdict::Regressed);
        let mut different: Vec<&Compared> = self.figures.iter().filter(called).collect();
        let first = &self.figures.first()?.subject;
        let scattered = self.figures.iter().any(|one| one.subject != *first);
        if different.is_empty() || !scattered {
            return None;
        }
        different.sort_by(|a, b| b.change().total_cmp(&a.change()));
        let mut table = Table::new([
            Column::words("figure", 0),
            Column::words("of", 0),
            Column::numbers("change", 0),
            Column::words("verdict", 0),
        ]);
        for figure in different.iter().take(MOST_DIFFERENT) {
            let row = vec![
                figure.figure.into(),
                figure.subject.as_str().into(),
                figure.change_percent.map_or("-".to_string(), signed).into(),
                figure.verdict.words().into(),
            ];
            table.row(figure.name.clone(), row);
        }
        let left = different.len().saturating_sub(MOST_DIFFERENT);
        Some(Section {
            title: title_of([title, "what differs"]),
            table: Some(table),
            lines: (left > 0).then(|| format!("and {left} more")).into_iter().collect(),
            ..Section::default()
        })
    }
}

/// Joins the non-empty parts of a title.
fn title_of(parts: [&str; 2]) -> String {
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(": ")
}

fn table(figures: &[Compared]) -> Table {
    let mut table = Table::new([
        Column::words("figure", 0),
        Column::words("unit", 0),
        Column::numbers("baseline", 0),
        Column::numbers("now", 0),
        Column::numbers("change", 0),
        Column::numbers("p", 2),
        Column::words("samples", 3),
        Column::words("verdict", 0),
    ]);
    for figure in figures {
        let number =
            |value, deviation| Cell::from(Quantity::neutral(value, figure.unit).spread(deviation));
        let row = vec![
            figure.figure.into(),
            figure.unit.into(),
            number(figure.baseline, figure.baseline_deviation),
            number(figure.value, figure.value_deviation),
            figure.change_percent.map_or("-".to_string(), signed).into(),
            figure.p_value.map_or(String::new(), probability).into(),
            samples(figure).into(),
            figure.verdict.words().into(),
        ];
        table.row(figure.name.clone(), row);
    }
    table
}

/// The number and kind of independent samples of both sides.
fn samples(figure: &Compared) -> String {
    let (before, now) = (figure.baseline_samples, figure.value_samples);
    match figure.basis {
        Some(Basis::Runs | Basis::RunAgainstRuns) => format!("{before:.0}, {now:.0} runs"),
        Some(Basis::WithinRuns) => format!("{before:.0}, {now:.0} in a run"),
        None => String::new(),
    }
}

fn signed(percent: f64) -> String {
    format!("{percent:+.1} %")
}

fn probability(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_string() } else { format!("{p:.3}") }
}

/// A figure with its change and its subject.
fn by(figure: &Compared) -> String {
    let change = match figure.change_percent {
        Some(percent) => format!("{} by {:.1} %", figure.figure, percent.abs()),
        None => format!("{} from zero", figure.figure),
    };
    if figure.subject.is_empty() { change } else { format!("{change} ({})", figure.subject) }
}

/// The reports of a side as text.
fn side(sources: &[Source]) -> String {
    let mut machines: Vec<String> = Vec::new();
    for source in sources {
        let machine = format!("{} (Linux {})", source.hostname, source.kernel);
        if !machines.contains(&machine) {
            machines.push(machine);
        }
    }
    let machines = machines.join(", ");
    let names: Vec<&str> = sources.iter().map(|source| &*source.file).collect();
    match (names.as_slice(), sources.first()) {
        ([name], Some(only)) => format!("{name}, {} on {machines}", only.started_at),
        (names, _) if names.len() <= MOST_NAMES => {
            format!("{} reports on {machines}: {}", names.len(), names.join(", "))
        }
        (names, _) => {
            let (shown, left) = names.split_at(MOST_NAMES);
            let (shown, left) = (shown.join(", "), left.len());
            format!("{} reports on {machines}: {shown} and {left} more", names.len())
        }
    }
}
