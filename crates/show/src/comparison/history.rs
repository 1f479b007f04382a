//! A series of reports of the same work on one host, such as nightly ones: where its figures changed.

mod document;

use serde::Serialize;
use stormlp_core::change_points::{SHORTEST, change_points};
use stormlp_core::report::Ending;
use stormlp_core::stats::mean;

use super::judge::{Scale, Verdict, levels};
use super::{Figure, Named, Source, design, full_name};
use crate::settings;

/// The series of the reports in a folder. `--format json` prints it serialised.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct History {
    /// The answer in a sentence.
    pub sentence: String,
    /// The reports of the series, from the first to the last.
    pub reports: Vec<Source>,
    /// The figures that all of them have.
    pub figures: Vec<Tracked>,
    /// What to know before trusting the answer.
    pub warnings: Vec<String>,
}

/// A figure over all reports.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tracked {
    /// Subject and figure.
    pub name: String,
    /// Its subject; empty if a report has a single subject.
    pub subject: String,
    /// The figure: `throughput`.
    pub figure: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Whether higher values are better.
    pub higher_is_better: bool,
    /// The least change that matters, in percent.
    pub effect_percent: f64,
    /// Its value in each report.
    pub values: Vec<f64>,
    /// Where its level changed by more than what matters, from the first to the last.
    pub changes: Vec<Change>,
    /// Whether it answers the question of its subject.
    #[serde(skip)]
    headline: bool,
}

/// A change of level.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The first report with the new level, by its place in the series.
    pub report: usize,
    /// When that run started, RFC 3339 in UTC.
    pub started_at: String,
    /// Its file.
    pub file: String,
    /// The level before.
    pub before: f64,
    /// The level from then on.
    pub after: f64,
    /// The change in percent.
    pub change_percent: f64,
    /// The interval of the change in percent.
    pub interval: [f64; 2],
    /// Whether it got better or worse.
    pub verdict: Verdict,
}

/// Whether `other` is a complete report of the same work as `one`, on the same host.
pub(super) fn continues(one: &Named<'_>, other: &Named<'_>) -> bool {
    let (head, later) = (one.report.head(), other.report.head());
    head.kind == later.kind
        && head.host.hostname == later.host.hostname
        && *other.report.ending() == Ending::Complete
        && settings::differences(&one.report.work(), &other.report.work()).is_empty()
}

impl History {
    /// The series of `reports` that continue the last one; `effect` is the least change that
    /// matters, as a share, unless each figure has its own.
    pub fn of(reports: &[Named<'_>], effect: Option<f64>) -> Self {
        let sorted = design::by_start(reports);
        let last = sorted.iter().rev().find(|one| *one.report.ending() == Ending::Complete);
        let series: Vec<Named<'_>> = last.map_or(Vec::new(), |last| {
            sorted.iter().filter(|one| continues(last, one)).copied().collect()
        });
        let mut warnings = Vec::new();
        if series.len() < sorted.len() {
            let (left, all) = (sorted.len() - series.len(), sorted.len());
            warnings.push(format!(
                "{left} of {all} reports do not count: other work than the last, another host, or \
                 incomplete"
            ));
        }
        if series.len() < 2 * SHORTEST {
            let (found, fewest) = (series.len(), 2 * SHORTEST);
            warnings
                .push(format!("{found} reports are too few to tell: it takes {fewest} or more"));
        }
        let mut history = Self {
            sentence: String::new(),
            reports: series.iter().map(Source::of).collect(),
            figures: Vec::new(),
            warnings,
        };
        history.figures = history.tracked(&series, effect);
        history.sentence = history.in_a_sentence();
        history
    }

    /// The figures whose last change is for the worse by at least `percent`, largest first.
    pub fn regressions(&self, percent: f64) -> Vec<(&Tracked, &Change)> {
        let last = self.figures.iter().filter_map(|one| Some((one, one.changes.last()?)));
        let size = |change: &Change| change.change_percent.abs();
        let mut worse: Vec<(&Tracked, &Change)> = last
            .filter(|(_, one)| one.verdict == Verdict::Regressed && size(one) >= percent)
            .collect();
        worse.sort_by(|a, b| size(b.1).total_cmp(&size(a.1)));
        worse
    }

    fn tracked(&self, series: &[Named<'_>], effect: Option<f64>) -> Vec<Tracked> {
        let figures: Vec<Vec<Figure>> = series.iter().map(|one| one.report.figures()).collect();
        let of_all = |figure: &Figure| -> Option<Vec<f64>> {
            let same = |of: &Vec<Figure>| {
                let found = of.iter().find(|one| one.is(&figure.subject, figure.name));
                found.map(|one| one.quantity.estimate.value)
            };
            figures.iter().map(same).collect()
        };
        let all = figures.last().into_iter().flatten();
        let whole: Vec<(&Figure, Vec<f64>)> =
            all.filter_map(|figure| Some((figure, of_all(figure)?))).collect();
        let headlines: Vec<bool> = whole.iter().map(|(figure, _)| figure.headline).collect();
        let tracked = whole.into_iter().zip(levels(&headlines));
        tracked.map(|((figure, values), level)| self.track(figure, values, effect, level)).collect()
    }

    fn track(&self, figure: &Figure, values: Vec<f64>, effect: Option<f64>, level: f64) -> Tracked {
        let effect = effect.unwrap_or(figure.effect);
        let mut tracked = Tracked {
            name: full_name(&figure.subject, figure.name),
            subject: figure.subject.clone(),
            figure: figure.name,
            unit: figure.quantity.unit,
            higher_is_better: figure.higher_is_better(),
            effect_percent: 100.0 * effect,
            values,
            changes: Vec::new(),
            headline: figure.headline,
        };
        let Some(scale) = Scale::of(tracked.values.iter(), mean(&tracked.values)) else {
            return tracked;
        };
        let points = change_points(&scale.shares(&tracked.values), level);
        let ends = |nth: usize| points.get(nth).map_or(tracked.values.len(), |one| one.at);
        let starts = |nth: usize| nth.checked_sub(1).map_or(0, &ends);
        let changes = points.iter().enumerate().map(|(nth, point)| {
            let level_of = |from: usize, to: usize| mean(&tracked.values[from..to]);
            let places = tracked.values.len() as f64;
            let interval = point.shift.interval(level / places).map(|end| scale.change(end));
            Change {
                report: point.at,
                started_at: self.reports[point.at].started_at.clone(),
                file: self.reports[point.at].file.clone(),
                before: level_of(starts(nth), point.at),
                after: level_of(point.at, ends(nth + 1)),
                change_percent: 100.0 * scale.change(point.shift.value),
                interval: interval.map(|end| 100.0 * end),
                verdict: Verdict::of(interval, effect, figure.higher_is_better()),
            }
        });
        let matters = |change: &Change| {
            matches!(change.verdict, Verdict::Improved | Verdict::Regressed)
                && change.change_percent.abs() >= 100.0 * effect
        };
        tracked.changes = changes.filter(matters).collect();
        tracked
    }
}
