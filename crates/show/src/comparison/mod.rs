//! Compares two sets of reports of the same work: every figure with its change, and whether that is
//! more than chance explains.

mod broken;
mod charts;
mod design;
mod document;
pub(crate) mod figure;
pub mod history;
pub mod judge;

use std::collections::BTreeSet;

use crate::comparison::judge::{Basis, Design, Judged, Sides, Verdict, judge};
use serde::Serialize;
use stormlp_core::report::ReportKind;
use stormlp_core::stats::sample_deviation;
use stormlp_core::tag;

use crate::settings;
use crate::shown::{Shown, status};

pub use figure::Figure;
pub use settings::Difference;

/// Maximum number of warnings about single reports; more are counted.
const MOST_DOUBTS: usize = 8;

/// A report and its file name.
#[derive(Clone, Copy)]
pub struct Named<'a> {
    /// Its file name.
    pub name: &'a str,
    /// The report.
    pub report: &'a dyn Shown,
}

/// How two sides are compared.
#[derive(Clone, Copy, Default)]
pub struct Terms<'a> {
    /// Whether the only combination of one matrix is compared with the only one of the other,
    /// whatever they are.
    pub force: bool,
    /// Whether the n-th reports of both sides were measured as neighbours.
    pub pairs: bool,
    /// The smallest change that matters, as a share; `None` for each figure's default.
    pub effect: Option<f64>,
    /// Earlier reports, which supply the noise of sides with too few runs. Reports of other work or
    /// another host do not count.
    pub earlier: &'a [Named<'a>],
    /// The names that the user gave the sides.
    pub names: [Option<&'a str>; 2],
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
    /// The order in which both sides were measured.
    pub design: Design,
    /// The number of pairs, if runs of both sides were measured as such.
    pub pairs: Option<usize>,
    /// The number of earlier reports that show the noise.
    pub earlier: usize,
    /// The differences between the work of both sides; empty unless that was allowed.
    pub differences: Vec<Difference>,
    /// The names of the sides: the user's, values of a tag in which they differ, or `baseline` and
    /// `candidate`.
    pub names: [String; 2],
    /// The baseline reports.
    pub baseline: Vec<Source>,
    /// The candidate's reports.
    pub candidate: Vec<Source>,
    /// Every figure present on both sides.
    pub figures: Vec<Compared>,
    /// Subjects and figures missing from some reports, with the side that lacks them, and rates
    /// that are 0 in the baseline.
    pub unmatched: Vec<String>,
    /// Work measured in the baseline that failed or did not complete now and has no figures.
    pub broken: Vec<String>,
    /// Warnings about the reliability of the verdict.
    pub warnings: Vec<String>,
    /// Prefix of the headline for scaled-down work: `SCALED to 27 %`.
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
    /// Its tags: `array=new, run=3`; empty without any.
    pub tags: String,
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
    /// The baseline value: the geometric mean over the runs, or the arithmetic one if a value is 0.
    pub baseline: f64,
    /// The candidate's value, in the same way.
    pub candidate: f64,
    /// Standard deviation of the baseline runs; `None` for a single one.
    pub baseline_deviation: Option<f64>,
    /// The same for the current runs.
    pub candidate_deviation: Option<f64>,
    /// Number of baseline runs.
    pub baseline_samples: usize,
    /// The same for the current side.
    pub candidate_samples: usize,
    /// Change from `baseline` to `candidate` in percent; `None` if that is zero.
    pub change_percent: Option<f64>,
    /// The interval of the change in percent, 95 % for all figures together; `None` if the runs do
    /// not show how they vary.
    pub interval: Option<[f64; 2]>,
    /// The smallest change that matters, in percent.
    pub effect_percent: f64,
    /// Whether higher values are better.
    pub higher_is_better: bool,
    /// The probability of such a difference by chance, adjusted for all figures and looks.
    pub p_value: Option<f64>,
    /// The same for this figure alone.
    pub p_value_alone: Option<f64>,
    /// The basis of the interval.
    pub basis: Option<Basis>,
    /// The verdict.
    pub verdict: Verdict,
    /// Whether it answers the question of its subject.
    #[serde(skip)]
    headline: bool,
}

impl Comparison {
    /// Compares the figures present on both sides even if the work differs: that is in
    /// `differences`.
    pub fn of(baseline: &[Named<'_>], now: &[Named<'_>], terms: Terms<'_>) -> Self {
        let mut warnings = Vec::new();
        let identical = !terms.pairs && is_same(baseline, now);
        let (mut baseline, mut now) = (baseline.to_vec(), now.to_vec());
        if !terms.pairs {
            baseline = design::by_start(&once(&baseline, &mut warnings));
            now = design::by_start(&once(&now, &mut warnings));
        }
        if !identical && !terms.pairs {
            warnings.extend(on_both(&baseline, &now));
        }
        let broken = if identical { Vec::new() } else { broken::broken(&baseline, &now) };
        warnings.extend(broken.iter().cloned());
        warnings.extend(doubts(&baseline, &now));
        let earlier = earlier(&baseline, &now, terms.earlier, &mut warnings);
        let design = if terms.pairs { Design::Pairs } else { design::design(&baseline, &now) };
        let renames = terms.force && of_matrices(&now);
        let names = design::names(terms.names, [&baseline, &now]);
        let (mut sides, unmatched) =
            matched(&names, [&baseline, &now, &earlier].map(|side| figures_of(side)), renames);
        if let Some(effect) = terms.effect {
            sides.iter_mut().for_each(|(_, sides)| sides.effect = effect);
        }
        let figures = compared(&sides, design, identical);
        let sources = |side: &[Named<'_>]| side.iter().map(Source::of).collect();
        let mut comparison = Self {
            verdict: overall(&figures),
            sentence: String::new(),
            identical,
            design,
            pairs: terms.pairs.then_some(baseline.len()),
            earlier: earlier.len(),
            differences: differences(&baseline, &now),
            names,
            baseline: sources(&baseline),
            candidate: sources(&now),
            figures,
            unmatched,
            broken,
            warnings,
            mark: mark(&now),
        };
        comparison.sentence = comparison.in_a_sentence();
        comparison
    }

    /// Whether more pairs would not change much: the answer of every subject is settled.
    pub fn is_settled(&self) -> bool {
        let headlines = self.figures.iter().filter(|one| one.headline);
        headlines.clone().count() > 0 && headlines.into_iter().all(Compared::is_settled)
    }

    /// The headline figure with the widest interval: the one that a comparison still waits for.
    /// Without any interval, the figure that changed by the largest share.
    pub fn widest(&self) -> Option<&Compared> {
        let width = |one: &&Compared| one.interval.map_or(f64::INFINITY, |ends| ends[1] - ends[0]);
        let headlines = self.figures.iter().filter(|one| one.headline);
        headlines
            .max_by(|a, b| width(a).total_cmp(&width(b)).then(a.change().total_cmp(&b.change())))
    }

    /// The names of the headline figures without a verdict.
    pub fn undecided(&self) -> impl Iterator<Item = &str> {
        let headlines = self.figures.iter().filter(|one| one.headline);
        headlines.filter(|one| one.verdict == Verdict::CannotTell).map(|one| &*one.name)
    }

    /// The differences between the work of both sides, one setting per line.
    pub fn difference_lines(&self) -> Vec<String> {
        settings::difference_lines(&self.differences, &self.names)
    }

    /// The headline figure to name first: one that decided, otherwise the one that changed most.
    fn leading(&self) -> Option<&Compared> {
        let headlines = self.figures.iter().filter(|one| one.headline);
        let decided = |one: &Compared| one.verdict == self.verdict;
        headlines.max_by(|a, b| decided(a).cmp(&decided(b)).then(a.change().total_cmp(&b.change())))
    }

    /// The figures that got worse by at least `percent` of the baseline, worst first: regressed by
    /// that much, or by less than the smallest change that matters and still certainly by
    /// `percent`. If the baseline is zero, any worsening exceeds every percentage.
    pub fn regressions(&self, percent: f64) -> Vec<&Compared> {
        let worse = |figure: &&Compared| {
            let regressed = figure.verdict == Verdict::Regressed && figure.change() >= percent;
            let at_least = figure.least_worsening();
            regressed || at_least > 0.0 && at_least >= percent
        };
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

    /// The smallest worsening in its interval, in percent; below 0 if it may be better, or has
    /// none.
    fn least_worsening(&self) -> f64 {
        let least = |[low, high]: [f64; 2]| if self.higher_is_better { -high } else { low };
        self.interval.map_or(-1.0, least)
    }

    /// Whether more runs would not change its answer much.
    fn is_settled(&self) -> bool {
        let shares = self.interval.map(|ends| ends.map(|end| end / 100.0));
        shares.is_some_and(|interval| Judged::is_settled(interval, self.effect_percent / 100.0))
    }

    fn new(figure: &Figure, sides: &Sides, outcome: &Judged) -> Self {
        let (subject, name) = (figure.subject.clone(), figure.name);
        let deviation = |runs: &[f64]| (runs.len() > 1).then(|| sample_deviation(runs));
        Self {
            name: full_name(&subject, name),
            subject,
            figure: name,
            unit: figure.quantity.unit,
            baseline: outcome.means[0],
            candidate: outcome.means[1],
            baseline_deviation: deviation(&sides.baseline),
            candidate_deviation: deviation(&sides.now),
            baseline_samples: sides.baseline.len(),
            candidate_samples: sides.now.len(),
            change_percent: outcome.change.map(|share| 100.0 * share),
            interval: outcome.interval.map(|ends| ends.map(|share| 100.0 * share)),
            effect_percent: 100.0 * sides.effect,
            higher_is_better: sides.higher_is_better,
            p_value: outcome.adjusted,
            p_value_alone: outcome.probability,
            basis: outcome.basis,
            verdict: outcome.verdict,
            headline: sides.headline,
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
            tags: tag::words(&head.tags),
        }
    }
}

/// The figures with their verdicts; figures of the same report on both sides are the same.
fn compared(sides: &[(Figure, Sides)], design: Design, identical: bool) -> Vec<Compared> {
    let judged: Vec<Sides> = sides.iter().map(|(_, sides)| sides.clone()).collect();
    let outcomes = judge(&judged, design);
    let figures = sides.iter().zip(&outcomes).map(|((figure, sides), outcome)| {
        let mut compared = Compared::new(figure, sides, outcome);
        if identical {
            (compared.verdict, compared.interval) = (Verdict::Same, Some([0.0, 0.0]));
        }
        compared
    });
    figures.collect()
}

/// The verdict of all figures: a regression outweighs improvements, and the same work is the same
/// if the headline figure of every subject is.
fn overall(figures: &[Compared]) -> Verdict {
    let has = |verdict| figures.iter().any(|one| one.verdict == verdict);
    let mut headlines = figures.iter().filter(|one| one.headline).peekable();
    if let Some(found) = [Verdict::Regressed, Verdict::Improved].into_iter().find(|one| has(*one)) {
        found
    } else if headlines.peek().is_some() && headlines.all(|one| one.verdict == Verdict::Same) {
        Verdict::Same
    } else {
        Verdict::CannotTell
    }
}

/// The reports of the same work on the same host among `all`, from the first to the last, other than
/// the current ones.
fn earlier<'a>(
    baseline: &[Named<'_>],
    now: &[Named<'_>],
    all: &[Named<'a>],
    warnings: &mut Vec<String>,
) -> Vec<Named<'a>> {
    let Some(first) = baseline.first() else {
        return Vec::new();
    };
    let is_now = |named: &Named<'_>| now.iter().any(|one| is_same_report(one, named));
    let fits: Vec<Named<'_>> = all.iter().filter(|one| !is_now(one)).copied().collect();
    let counts: Vec<Named<'_>> =
        fits.iter().filter(|one| history::continues(first, one)).copied().collect();
    if counts.len() < fits.len() {
        let (left, of) = (fits.len() - counts.len(), fits.len());
        warnings.push(format!(
            "{left} of {of} earlier reports do not count: other work, another host, or incomplete"
        ));
    }
    design::by_start(&once(&counts, &mut Vec::new()))
}

fn is_same(baseline: &[Named<'_>], now: &[Named<'_>]) -> bool {
    let pairs = baseline.iter().zip(now);
    !baseline.is_empty()
        && baseline.len() == now.len()
        && pairs.into_iter().all(|(a, b)| is_same_report(a, b))
}

/// Whether both are the same report, whatever their file names.
fn is_same_report(a: &Named<'_>, b: &Named<'_>) -> bool {
    a.report.head().started_at == b.report.head().started_at
        && a.report.to_json() == b.report.to_json()
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
    doubts.extend(other_endpoint(baseline, now));
    let mut of_reports = Vec::new();
    for named in baseline.iter().chain(now) {
        let status = status(named.report.ending());
        if status != "complete" {
            let name = &named.name;
            of_reports.push(format!("{name} is {status}: it contains only the results until then"));
        }
        let doubt = named.report.head().integrity.doubt();
        of_reports.extend(doubt.map(|doubt| format!("{} {doubt}", named.name)));
        let retried = named.report.retried().into_iter();
        of_reports.extend(retried.map(|words| format!("{}: {words}", named.name)));
    }
    let left = of_reports.len().saturating_sub(MOST_DOUBTS);
    doubts.extend(of_reports.into_iter().take(MOST_DOUBTS));
    if left > 0 {
        doubts.push(format!("{left} more warnings of this kind about the reports"));
    }
    doubts
}

/// Where the objects of both sides were, if not in the same place by the same means.
fn other_endpoint(baseline: &[Named<'_>], now: &[Named<'_>]) -> Option<String> {
    let place = |side: &[Named<'_>]| {
        let store = side.first()?.report.object_store()?;
        let mut endpoints: Vec<&str> = store.endpoint.split(", ").collect();
        endpoints.sort_unstable();
        let by = store.tls.map_or("without TLS".to_string(), |tls| format!("over {tls}"));
        Some(format!("{} {by}", endpoints.join(", ")))
    };
    let (then, now) = (place(baseline)?, place(now)?);
    (then != now)
        .then(|| format!("the objects of the baseline were at {then}, the candidate's at {now}"))
}

/// Whether the subjects of a side are combinations.
fn of_matrices(side: &[Named<'_>]) -> bool {
    side.iter().all(|named| named.report.head().kind == ReportKind::Gds)
}

/// The mark of a scaled checkpoint.
fn mark(side: &[Named<'_>]) -> Option<String> {
    side.iter().find_map(|named| named.report.mark())
}

/// Where any report's work differs from the first's.
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

fn figures_of(side: &[Named<'_>]) -> Vec<Vec<Figure>> {
    side.iter().map(|named| named.report.figures()).collect()
}

/// The figures that every report of both sides has, with the figures of earlier reports; and the
/// figures that some reports lack.
///
/// With `only_ones`, the only subject of one side matches the other's, whatever their names: in a
/// comparison of two paths, different names are expected.
fn matched(
    names: &[String; 2],
    [baseline, now, earlier]: [Vec<Vec<Figure>>; 3],
    only_ones: bool,
) -> (Vec<(Figure, Sides)>, Vec<String>) {
    let (before, after) = (subjects(&baseline), subjects(&now));
    let renamed = match (before.as_slice(), after.as_slice()) {
        ([before], [after]) if only_ones && before != after => {
            Some((before.clone(), after.clone()))
        }
        _ => None,
    };
    let value = |figures: &Vec<Figure>, subject: &str, name: &str| {
        let found = figures.iter().find(|one| one.is(subject, name));
        found.map(|one| one.quantity.estimate.value)
    };
    let all_of = |side: &SideFigures, subject: &str, name: &str| -> Option<Vec<f64>> {
        side.iter().map(|figures| value(figures, subject, name)).collect()
    };
    let mut found = Vec::new();
    let mut nothing = Vec::new();
    for figure in baseline.first().into_iter().flatten() {
        let (then, name) = (&figure.subject, figure.name);
        let subject = renamed.as_ref().map_or(then, |(_, after)| after);
        let both = all_of(&baseline, then, name).zip(all_of(&now, subject, name));
        let Some((before, after)) = both else {
            continue;
        };
        let sides = Sides {
            higher_is_better: figure.higher_is_better(),
            headline: figure.headline,
            effect: figure.effect,
            baseline: before,
            now: after,
            earlier: earlier.iter().filter_map(|one| value(one, then, name)).collect(),
        };
        // Any rate is more than a baseline of zero, but not an improvement.
        if sides.higher_is_better && sides.baseline.contains(&0.0) {
            nothing.push(format!("{} (0 in the baseline)", full_name(then, name)));
            continue;
        }
        // A figure that was and is zero has no information.
        if sides.baseline.iter().chain(&sides.now).any(|value| *value != 0.0) {
            let mut figure = figure.clone();
            if let Some((before, after)) = &renamed {
                figure.subject = format!("{after} against {before}");
            }
            found.push((figure, sides));
        }
    }
    let mut unmatched = unmatched([(&names[0], &baseline), (&names[1], &now)], renamed.as_ref());
    unmatched.extend(nothing);
    (found, unmatched)
}

/// Subjects missing from one side, and figures of common subjects missing from some reports.
fn unmatched(
    [(before_name, baseline), (after_name, now)]: [(&str, &SideFigures); 2],
    renamed: Option<&(String, String)>,
) -> Vec<String> {
    let (before, after) = (subjects(baseline), subjects(now));
    let mut unmatched = Vec::new();
    for (ours, theirs, side) in [(&before, &after, before_name), (&after, &before, after_name)] {
        let alone = ours.iter().filter(|subject| !theirs.contains(subject));
        if renamed.is_none() {
            unmatched.extend(alone.map(|subject| format!("{subject} ({side} only)")));
        }
    }
    for subject in &before {
        let other = renamed.map_or(subject, |(_, after)| after);
        let reports = || {
            let of = |side: &'_ SideFigures, subject: &str| -> Vec<Vec<&'static str>> {
                let own = |figures: &Vec<Figure>| {
                    let own = figures.iter().filter(|one| one.subject == subject);
                    own.map(|one| one.name).collect()
                };
                side.iter().map(own).collect()
            };
            [of(baseline, subject), of(now, other)].concat()
        };
        if !after.contains(other) {
            continue;
        }
        let reports = reports();
        let names: BTreeSet<&str> = reports.iter().flatten().copied().collect();
        let lacking = names.iter().filter(|name| !reports.iter().all(|own| own.contains(name)));
        let words = |name: &&str| format!("{} (not in all reports)", full_name(subject, name));
        unmatched.extend(lacking.map(words));
    }
    unmatched
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
