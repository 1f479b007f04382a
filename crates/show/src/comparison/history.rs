//! A series of reports of the same work on one host, such as nightly ones: where its figures changed.

mod document;

use serde::Serialize;
use stormlp_core::change_points::{SHORTEST, change_points};
use stormlp_core::report::Ending;
use stormlp_core::stats::mean;
use stormlp_core::units::counted;

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
    /// The smallest change that matters, in percent.
    pub effect_percent: f64,
    /// Its value in each report.
    pub values: Vec<f64>,
    /// Where its level changed by more than the smallest change that matters, from the first to the
    /// last.
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

/// A figure that is worse than it was.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decline<'a> {
    /// The figure.
    pub figure: &'a Tracked,
    /// How much worse its last level is than its best, in percent of that.
    pub percent: f64,
    /// The change that ended the best level.
    pub since: &'a Change,
}

impl Tracked {
    /// How much worse the last level is than the best; `None` if it is the best.
    fn decline(&self) -> Option<Decline<'_>> {
        let better = |a: f64, b: f64| if self.higher_is_better { a > b } else { a < b };
        // Levels as multiples of the first, and the change that ended the best of them.
        let (mut level, mut best, mut since) = (1.0, 1.0, None);
        for change in &self.changes {
            level *= 1.0 + change.change_percent / 100.0;
            if better(level, best) {
                (best, since) = (level, None);
            } else {
                since = since.or(Some(change));
            }
        }
        let percent = 100.0 * (level / best - 1.0).abs();
        since.filter(|_| better(best, level)).map(|since| Decline { figure: self, percent, since })
    }
}

/// The longest series of reports that continue each other, the latest of several as long.
fn longest<'a>(sorted: &[Named<'a>]) -> Vec<Named<'a>> {
    let mut all: Vec<Vec<Named<'a>>> = Vec::new();
    for one in sorted.iter().filter(|one| *one.report.ending() == Ending::Complete) {
        match all.iter_mut().find(|series| continues(&series[0], one)) {
            Some(series) => series.push(*one),
            None => all.push(vec![*one]),
        }
    }
    all.into_iter().max_by_key(Vec::len).unwrap_or_default()
}

/// `1 report is`, `3 reports are`.
fn are(reports: usize) -> String {
    let verb = if reports == 1 { "is" } else { "are" };
    format!("{} {verb}", counted(reports as u64, "report"))
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
    /// The longest series of the same work on the same host among `reports`, the latest of several;
    /// `effect` is the smallest change that matters, as a share, or `None` for each figure's
    /// default.
    pub fn of(reports: &[Named<'_>], effect: Option<f64>) -> Self {
        let sorted = design::by_start(reports);
        let series = longest(&sorted);
        let mut warnings = Vec::new();
        if series.len() < sorted.len() {
            let (left, all) = (sorted.len() - series.len(), sorted.len());
            warnings.push(format!(
                "{left} of {all} reports do not count: different work, another host, or \
                 incomplete"
            ));
        }
        if series.len() < 2 * SHORTEST {
            let found = are(series.len());
            warnings.push(format!("{found} too few to tell: use at least {}", 2 * SHORTEST));
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

    /// Whether the series is too short to show a change.
    pub fn is_too_short(&self) -> bool {
        self.reports.len() < 2 * SHORTEST
    }

    /// The figures with a last level worse than their best one by at least `percent`, largest
    /// first.
    pub fn declines(&self, percent: f64) -> Vec<Decline<'_>> {
        let declines = self.figures.iter().filter_map(Tracked::decline);
        let mut worse: Vec<Decline<'_>> = declines.filter(|one| one.percent >= percent).collect();
        worse.sort_by(|a, b| b.percent.total_cmp(&a.percent));
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
            let level_of = |from: usize, to: usize| scale.mean(&tracked.values[from..to]);
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
