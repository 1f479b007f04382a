//! Two sets of reports of the same work beside each other: every figure with its change, and
//! whether that is more than chance explains.

mod broken;
mod document;
mod figure;
pub mod judge;

use crate::comparison::judge::{Basis, Level, Outcome, Pair, Run, Verdict, judge};
use serde::Serialize;
use stormlp_core::report::ReportKind;

use crate::settings;
use crate::shown::{Shown, contradictions, status};

pub use document::record_columns;
pub use figure::Figure;
pub use settings::Difference;

/// A report, and what it is called: its file.
#[derive(Clone, Copy)]
pub struct Named<'a> {
    /// Its name.
    pub name: &'a str,
    /// The report.
    pub report: &'a dyn Shown,
}

/// Two sets of reports, compared. Serialised it is what `--format json` prints.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// What all figures come to.
    pub verdict: Verdict,
    /// The same in a sentence.
    pub sentence: String,
    /// Whether both sides are the same report.
    pub identical: bool,
    /// Where the sides are not the same work; empty unless that was allowed.
    pub differences: Vec<Difference>,
    /// The reports before.
    pub baseline: Vec<Source>,
    /// The reports now.
    pub value: Vec<Source>,
    /// Every figure that both sides have.
    pub figures: Vec<Compared>,
    /// Subjects and figures that not every report has, with the side that lacks them, and rates that
    /// are 0 in the baseline.
    pub unmatched: Vec<String>,
    /// What the baseline measured and what broke now, or did not end; no figure tells of it.
    pub broken: Vec<String>,
    /// What to know before trusting the verdict.
    pub warnings: Vec<String>,
    /// What every line begins with where the work is no real one: `SCALED 0.27`.
    #[serde(skip)]
    mark: Option<String>,
}

/// A report that was compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Source {
    /// Its file.
    pub file: String,
    /// When it was measured.
    pub started_at: String,
    /// On which machine.
    pub hostname: String,
    /// Under which kernel.
    pub kernel: String,
    /// By which command.
    pub command: String,
}

/// A figure of both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// Subject and figure: `cpu, read of 1 MiB, 8 threads, depth 1: throughput`.
    pub name: String,
    /// What it is of; empty where a report has one subject.
    pub subject: String,
    /// Which figure: `throughput`.
    pub figure: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Before, the mean over the runs.
    pub baseline: f64,
    /// Now, the same.
    pub value: f64,
    /// Standard deviation of the runs before, or within the only one.
    pub baseline_deviation: Option<f64>,
    /// The same now.
    pub value_deviation: Option<f64>,
    /// Independent samples behind the baseline.
    pub baseline_samples: f64,
    /// The same now.
    pub value_samples: f64,
    /// By how many percent of the baseline it changed; `None` where that is zero.
    pub change_percent: Option<f64>,
    /// Whether more is better.
    pub higher_is_better: bool,
    /// The probability of such a difference when there is none, all figures taken together.
    pub p_value: Option<f64>,
    /// The same of this figure alone.
    pub p_value_alone: Option<f64>,
    /// What the test rests on.
    pub basis: Option<Basis>,
    /// What is said of it.
    pub verdict: Verdict,
}

impl Comparison {
    /// Compares the figures that both sides have, whatever the work was: that is in `differences`.
    /// With `force` the one combination of a matrix is held against the one of the other, too.
    pub fn of(baseline: &[Named<'_>], now: &[Named<'_>], force: bool) -> Self {
        let mut warnings = Vec::new();
        let identical = is_same(baseline, now);
        let (baseline, now) = (once(baseline, &mut warnings), once(now, &mut warnings));
        if !identical {
            warnings.extend(on_both(&baseline, &now));
        }
        let broken = if identical { Vec::new() } else { broken::broken(&baseline, &now) };
        warnings.extend(broken.iter().cloned());
        warnings.extend(doubts(&baseline, &now));
        let figures = |side: &[Named<'_>]| -> Vec<Vec<Figure>> {
            side.iter().map(|named| named.report.figures()).collect()
        };
        let (figures, unmatched) =
            matched(&figures(&baseline), &figures(&now), force && of_matrices(&now));
        let verdict = if identical {
            Verdict::WithinNoise
        } else {
            Verdict::of_all(figures.iter().map(|figure| figure.verdict))
        };
        let sources = |side: &[Named<'_>]| side.iter().map(Source::of).collect();
        let mut comparison = Self {
            verdict,
            sentence: String::new(),
            identical,
            differences: differences(&baseline, &now),
            baseline: sources(&baseline),
            value: sources(&now),
            figures,
            unmatched,
            broken,
            warnings,
            mark: mark(&now),
        };
        comparison.sentence = comparison.told();
        comparison
    }

    /// What keeps the sides from being the same work, as a reader is told it.
    pub fn difference_words(&self) -> Option<String> {
        settings::difference_words(&self.differences)
    }

    /// The figures that got worse by `percent` of the baseline or more, the worst first. One whose
    /// baseline is zero got worse by more than any share of it.
    pub fn regressions(&self, percent: f64) -> Vec<&Compared> {
        let worse =
            |figure: &&Compared| figure.verdict == Verdict::Regressed && figure.change() >= percent;
        let mut worse: Vec<&Compared> = self.figures.iter().filter(worse).collect();
        worse.sort_by(|a, b| b.change().total_cmp(&a.change()));
        worse
    }
}

impl Compared {
    /// The change in percent, whichever way; more than any number where the baseline is zero.
    fn change(&self) -> f64 {
        self.change_percent.map_or(f64::INFINITY, f64::abs)
    }

    fn new(then: &Figure, pair: &Pair, outcome: &Outcome) -> Self {
        let (subject, figure) = (then.subject.clone(), then.name);
        let Level { value, deviation, samples } = outcome.now;
        Self {
            name: full_name(&subject, figure),
            subject,
            figure,
            unit: then.quantity.unit,
            baseline: outcome.baseline.value,
            value,
            baseline_deviation: outcome.baseline.deviation,
            value_deviation: deviation,
            baseline_samples: outcome.baseline.samples,
            value_samples: samples,
            change_percent: outcome.change.map(|share| 100.0 * share),
            higher_is_better: pair.higher_is_better,
            p_value: outcome.adjusted,
            p_value_alone: outcome.probability,
            basis: outcome.basis,
            verdict: outcome.verdict,
        }
    }
}

impl Source {
    fn of(named: &Named<'_>) -> Self {
        let head = named.report.head();
        Self {
            file: named.name.to_string(),
            started_at: head.started_at.clone(),
            hostname: head.host.hostname.clone(),
            kernel: head.host.kernel.clone(),
            command: head.command.clone(),
        }
    }
}

/// Whether both sides are the same reports.
fn is_same(baseline: &[Named<'_>], now: &[Named<'_>]) -> bool {
    let pairs = baseline.iter().zip(now);
    !baseline.is_empty()
        && baseline.len() == now.len()
        && pairs.into_iter().all(|(a, b)| is_same_report(a, b))
}

/// Whether both are the same report, whatever their files are called.
fn is_same_report(a: &Named<'_>, b: &Named<'_>) -> bool {
    a.report.head() == b.report.head() && a.report.to_json() == b.report.to_json()
}

/// Every report of a side once: one that is counted twice would make the side seem steadier.
fn once<'a>(side: &[Named<'a>], warnings: &mut Vec<String>) -> Vec<Named<'a>> {
    let mut kept: Vec<Named<'_>> = Vec::new();
    for named in side {
        match kept.iter().find(|other| is_same_report(other, named)) {
            Some(other) => warnings.push(format!(
                "{} and {} are the same report, which counts once",
                other.name, named.name
            )),
            None => kept.push(*named),
        }
    }
    kept
}

/// Reports that are on both sides of a comparison of different sets.
fn on_both(baseline: &[Named<'_>], now: &[Named<'_>]) -> Vec<String> {
    let both = now.iter().filter(|named| {
        let mut others = baseline.iter();
        others.any(|other| is_same_report(other, named))
    });
    let told = both.map(|named| format!("{} is on both sides", named.name));
    told.collect()
}

/// What else but the work may have made a difference.
fn doubts(baseline: &[Named<'_>], now: &[Named<'_>]) -> Vec<String> {
    let mut doubts = Vec::new();
    for named in baseline.iter().chain(now) {
        let status = status(named.report.ending());
        if status != "complete" {
            let name = &named.name;
            doubts.push(format!("{name} is {status}: it has what was measured until then"));
        }
        let contradictions = contradictions(named.report).into_iter();
        doubts.extend(contradictions.map(|told| format!("{}: {told}", named.name)));
    }
    if let (Some(then), Some(now)) = (baseline.first(), now.first()) {
        let host = |named: &Named<'_>| named.report.head().host.clone();
        let (then, now) = (host(then), host(now));
        if then.stormlp_version != now.stormlp_version {
            doubts.push(format!(
                "the baseline was measured by stormlp {}, the other by stormlp {}",
                then.stormlp_version, now.stormlp_version
            ));
        }
        if (&then.hostname, &then.kernel) != (&now.hostname, &now.kernel) {
            doubts.push(format!(
                "the baseline was measured on {} under Linux {}, the other on {} under Linux {}",
                then.hostname, then.kernel, now.hostname, now.kernel
            ));
        }
    }
    doubts
}

/// Whether the subjects of a side are combinations.
fn of_matrices(side: &[Named<'_>]) -> bool {
    side.iter().all(|named| named.report.head().kind == ReportKind::Gds)
}

/// What every line about a scaled checkpoint begins with.
fn mark(side: &[Named<'_>]) -> Option<String> {
    side.iter().find_map(|named| named.report.mark())
}

/// Where any report is not the work of the first.
fn differences(baseline: &[Named<'_>], now: &[Named<'_>]) -> Vec<Difference> {
    let mut all = baseline.iter().chain(now);
    let Some(first) = all.next().map(|named| named.report.work()) else {
        return Vec::new();
    };
    let mut found: Vec<Difference> = Vec::new();
    for named in all {
        for difference in settings::differences(&first, &named.report.work()) {
            if !found.contains(&difference) {
                found.push(difference);
            }
        }
    }
    found
}

/// The figures of every report of one side.
type SideFigures = [Vec<Figure>];

/// The figures that every report of both sides has, judged; and those that one lacks.
///
/// With `only_ones` the only subject of one side is that of the other, whatever each is called: who
/// compares two paths does not want to hear that they have different names.
fn matched(
    baseline: &SideFigures,
    now: &SideFigures,
    only_ones: bool,
) -> (Vec<Compared>, Vec<String>) {
    let (before, after) = (subjects(baseline), subjects(now));
    let renamed = match (before.as_slice(), after.as_slice()) {
        ([before], [after]) if only_ones && before != after => {
            Some((before.clone(), after.clone()))
        }
        _ => None,
    };
    let of = |side: &SideFigures, subject: &str, name: &str| -> Option<Vec<Figure>> {
        let each =
            |figures: &Vec<Figure>| figures.iter().find(|one| one.is(subject, name)).cloned();
        side.iter().map(each).collect()
    };
    let mut pairs = Vec::new();
    let mut nothing = Vec::new();
    for figure in baseline.first().into_iter().flatten() {
        let subject = renamed.as_ref().map_or(&figure.subject, |(_, after)| after);
        let then = of(baseline, &figure.subject, figure.name);
        let Some((then, now)) = then.zip(of(now, subject, figure.name)) else {
            continue;
        };
        let pair = Pair {
            higher_is_better: figure.higher_is_better(),
            smallest_change: figure.smallest_change,
            run_to_run: figure.run_to_run,
            baseline: then.iter().map(Figure::run).collect(),
            now: now.iter().map(Figure::run).collect(),
        };
        let is_nothing = |run: &Run| run.value == 0.0;
        // Whatever comes after a rate of nothing is more of it, and no improvement.
        if pair.higher_is_better && pair.baseline.iter().any(is_nothing) {
            let name = full_name(&figure.subject, figure.name);
            nothing.push(format!("{name} (in the baseline it is 0)"));
            continue;
        }
        // What was nothing and stayed nothing says nothing.
        let mut runs = pair.baseline.iter().chain(&pair.now);
        if !runs.all(is_nothing) {
            let mut figure = figure.clone();
            if let Some((before, after)) = &renamed {
                figure.subject = format!("{after} against {before}");
            }
            pairs.push((figure, pair));
        }
    }
    let judged: Vec<Pair> = pairs.iter().map(|(_, pair)| pair.clone()).collect();
    let outcomes = judge(&judged);
    let compared = pairs
        .iter()
        .zip(&outcomes)
        .map(|((figure, pair), outcome)| Compared::new(figure, pair, outcome));
    let mut unmatched = unmatched(baseline, now, renamed.as_ref());
    unmatched.extend(nothing);
    (compared.collect(), unmatched)
}

/// The subjects that one side lacks, and the figures that not all reports have of those they share.
fn unmatched(
    baseline: &SideFigures,
    now: &SideFigures,
    renamed: Option<&(String, String)>,
) -> Vec<String> {
    let (before, after) = (subjects(baseline), subjects(now));
    let mut unmatched = Vec::new();
    for (ours, theirs, side) in [(&before, &after, "baseline"), (&after, &before, "now")] {
        let alone = ours.iter().filter(|subject| !theirs.contains(subject));
        if renamed.is_none() {
            unmatched.extend(alone.map(|subject| format!("{subject} ({side} alone)")));
        }
    }
    for subject in &before {
        let other = renamed.map_or(subject, |(_, after)| after);
        if !after.contains(other) {
            continue;
        }
        let sides = [("baseline", baseline, subject), ("now", now, other)];
        let mut names: Vec<&str> = Vec::new();
        for (_, side, subject) in sides {
            let figures = side.iter().flatten().filter(|one| one.subject == *subject);
            names.extend(figures.map(|figure| figure.name));
        }
        names.sort_unstable();
        names.dedup();
        for name in names {
            let lacking = sides.map(|(called, side, subject)| {
                let lacks =
                    |figures: &&Vec<Figure>| !figures.iter().any(|one| one.is(subject, name));
                (called, side.iter().filter(lacks).count(), side.len())
            });
            unmatched.extend(lacking_words(subject, name, lacking));
        }
    }
    unmatched
}

/// A figure that not all reports have: how many of each side, called by its name, lack it.
fn lacking_words(subject: &str, name: &str, lacking: [(&str, usize, usize); 2]) -> Option<String> {
    let figure = full_name(subject, name);
    let words: Vec<String> = lacking
        .iter()
        .filter(|(_, lacks, _)| *lacks > 0)
        .map(|(side, lacks, all)| {
            if lacks == all {
                format!("{side} lacks it")
            } else {
                format!("{lacks} of {all} reports of {side} lack it")
            }
        })
        .collect();
    (!words.is_empty()).then(|| format!("{figure} ({})", words.join(", ")))
}

/// What a figure is called that has a subject: `cpu, read of 1 MiB: throughput`.
fn full_name(subject: &str, figure: &str) -> String {
    if subject.is_empty() { figure.to_string() } else { format!("{subject}: {figure}") }
}

/// The subjects of a side, in order.
fn subjects(side: &SideFigures) -> Vec<String> {
    let mut subjects: Vec<String> = Vec::new();
    for figure in side.iter().flatten() {
        if !subjects.contains(&figure.subject) {
            subjects.push(figure.subject.clone());
        }
    }
    subjects
}
