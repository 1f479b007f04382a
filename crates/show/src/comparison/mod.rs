//! Compares two sets of reports of the same work: every figure with its change, and whether that is
//! more than chance explains.

mod broken;
mod document;
pub(crate) mod figure;
pub mod judge;

use crate::comparison::judge::{Basis, FigureRun, Judged, Level, Pair, Verdict, judge};
use serde::Serialize;
use stormlp_core::report::ReportKind;

use crate::settings;
use crate::shown::{Shown, contradictions, status};

pub use figure::Figure;
pub use settings::Difference;

/// A report and its file name.
#[derive(Clone, Copy)]
pub struct Named<'a> {
    /// Its file name.
    pub name: &'a str,
    /// The report.
    pub report: &'a dyn Shown,
}

/// The comparison of two sets of reports. `--format json` prints it serialised.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The overall verdict.
    pub verdict: Verdict,
    /// The verdict in a sentence.
    pub sentence: String,
    /// Whether both sides are the same report.
    pub identical: bool,
    /// The differences between the work of both sides; empty unless that was allowed.
    pub differences: Vec<Difference>,
    /// The baseline reports.
    pub baseline: Vec<Source>,
    /// The current reports.
    pub value: Vec<Source>,
    /// Every figure present on both sides.
    pub figures: Vec<Compared>,
    /// Subjects and figures missing from some reports, with the side that lacks them, and rates
    /// that are 0 in the baseline.
    pub unmatched: Vec<String>,
    /// Work measured in the baseline that failed or did not complete now and has no figures.
    pub broken: Vec<String>,
    /// Warnings about the reliability of the verdict.
    pub warnings: Vec<String>,
    /// Prefix of every line for scaled-down work: `SCALED 0.27`.
    #[serde(skip)]
    mark: Option<String>,
}

/// A compared report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Source {
    /// Its file name.
    pub file: String,
    /// When the run started.
    pub started_at: String,
    /// The host name.
    pub hostname: String,
    /// The kernel version.
    pub kernel: String,
    /// The command.
    pub command: String,
}

/// A figure on both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// Subject and figure: `cpu, read of 1 MiB, 8 threads, depth 1: throughput`.
    pub name: String,
    /// Its subject; empty if a report has a single subject.
    pub subject: String,
    /// The figure: `throughput`.
    pub figure: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The baseline value, the mean over the runs.
    pub baseline: f64,
    /// The current value, likewise.
    pub value: f64,
    /// Standard deviation of the baseline runs, or within the only one.
    pub baseline_deviation: Option<f64>,
    /// Likewise for the current runs.
    pub value_deviation: Option<f64>,
    /// Number of independent samples of the baseline.
    pub baseline_samples: f64,
    /// Likewise for the current side.
    pub value_samples: f64,
    /// Change in percent of the baseline; `None` if that is zero.
    pub change_percent: Option<f64>,
    /// Whether higher values are better.
    pub higher_is_better: bool,
    /// The probability of such a difference by chance, adjusted for all figures.
    pub p_value: Option<f64>,
    /// Likewise for this figure alone.
    pub p_value_alone: Option<f64>,
    /// The basis of the test.
    pub basis: Option<Basis>,
    /// The verdict.
    pub verdict: Verdict,
}

impl Comparison {
    /// Compares the figures present on both sides even if the work differs: that is in
    /// `differences`. With `force`, a matrix's only combination is also compared with the other's
    /// only one.
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

    /// Describes the differences between the work of both sides.
    pub fn difference_words(&self) -> Option<String> {
        settings::difference_words(&self.differences)
    }

    /// The figures that got worse by at least `percent` of the baseline, worst first. If the
    /// baseline is zero, any worsening exceeds every percentage.
    pub fn regressions(&self, percent: f64) -> Vec<&Compared> {
        let worse =
            |figure: &&Compared| figure.verdict == Verdict::Regressed && figure.change() >= percent;
        let mut worse: Vec<&Compared> = self.figures.iter().filter(worse).collect();
        worse.sort_by(|a, b| b.change().total_cmp(&a.change()));
        worse
    }
}

impl Compared {
    /// The absolute change in percent; infinite if the baseline is zero.
    fn change(&self) -> f64 {
        self.change_percent.map_or(f64::INFINITY, f64::abs)
    }

    fn new(then: &Figure, pair: &Pair, outcome: &Judged) -> Self {
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

fn is_same(baseline: &[Named<'_>], now: &[Named<'_>]) -> bool {
    let pairs = baseline.iter().zip(now);
    !baseline.is_empty()
        && baseline.len() == now.len()
        && pairs.into_iter().all(|(a, b)| is_same_report(a, b))
}

/// Whether both are the same report, whatever their file names.
fn is_same_report(a: &Named<'_>, b: &Named<'_>) -> bool {
    a.report.head() == b.report.head() && a.report.to_json() == b.report.to_json()
}

/// Each report of a side once: a duplicate would make the side appear steadier.
fn once<'a>(side: &[Named<'a>], warnings: &mut Vec<String>) -> Vec<Named<'a>> {
    let mut kept: Vec<Named<'_>> = Vec::new();
    for named in side {
        match kept.iter().find(|other| is_same_report(other, named)) {
            Some(other) => warnings.push(format!(
                "{} and {} are the same report; it counts once",
                other.name, named.name
            )),
            None => kept.push(*named),
        }
    }
    kept
}

/// Reports on both sides of a comparison of different sets.
fn on_both(baseline: &[Named<'_>], now: &[Named<'_>]) -> Vec<String> {
    let both = now.iter().filter(|named| {
        let mut others = baseline.iter();
        others.any(|other| is_same_report(other, named))
    });
    let told = both.map(|named| format!("{} is on both sides", named.name));
    told.collect()
}

/// Factors other than the work that may have caused a difference.
fn doubts(baseline: &[Named<'_>], now: &[Named<'_>]) -> Vec<String> {
    let mut doubts = Vec::new();
    for named in baseline.iter().chain(now) {
        let status = status(named.report.ending());
        if status != "complete" {
            let name = &named.name;
            doubts
                .push(format!("{name} is {status}: it contains only what was measured until then"));
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

/// Prefix of every line about a scaled checkpoint.
fn mark(side: &[Named<'_>]) -> Option<String> {
    side.iter().find_map(|named| named.report.mark())
}

/// Where any report's work differs from that of the first.
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

type SideFigures = [Vec<Figure>];

/// The figures that every report of both sides has, judged; and those missing from some.
///
/// With `only_ones`, the only subject of one side matches that of the other whatever their names:
/// in a comparison of two paths, different names are expected.
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
        let is_nothing = |run: &FigureRun| run.value == 0.0;
        // Any rate is more than a baseline of zero, but not an improvement.
        if pair.higher_is_better && pair.baseline.iter().any(is_nothing) {
            let name = full_name(&figure.subject, figure.name);
            nothing.push(format!("{name} (0 in the baseline)"));
            continue;
        }
        // A figure that was and is zero has no information.
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

/// Subjects missing from one side, and figures of common subjects missing from some reports.
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
            unmatched.extend(alone.map(|subject| format!("{subject} ({side} only)")));
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

/// Describes a figure missing from some reports: `lacking` has the counts for each side.
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

/// Full name of a figure with its subject: `cpu, read of 1 MiB: throughput`.
fn full_name(subject: &str, figure: &str) -> String {
    if subject.is_empty() { figure.to_string() } else { format!("{subject}: {figure}") }
}

fn subjects(side: &SideFigures) -> Vec<String> {
    let mut subjects: Vec<String> = Vec::new();
    for figure in side.iter().flatten() {
        if !subjects.contains(&figure.subject) {
            subjects.push(figure.subject.clone());
        }
    }
    subjects
}
