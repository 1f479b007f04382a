//! A comparison as a chart: each figure in percent of the baseline.

use super::{Compared, Comparison};
use crate::chart::{Bar, Chart, Group};

/// In percent of the baseline: longer bars would leave no room for the rest.
const LONGEST: f64 = 300.0;

impl Comparison {
    /// The interval of each figure; of several subjects only of their headline figures.
    pub fn charts(&self) -> Vec<Group> {
        let mut group = Group::new("Against the baseline");
        let first = self.figures.first().map(|one| &one.subject);
        let several = self.figures.iter().any(|one| Some(&one.subject) != first);
        let shown = self.figures.iter().filter(|one| !several || one.headline);
        let bar = |one: &Compared| {
            let [low, high] = one.interval?.map(|percent| 100.0 + percent);
            let name = if several { &*one.name } else { one.figure };
            (high <= LONGEST).then(|| Bar { name: name.to_string(), values: vec![low, high - low] })
        };
        let what = "Now as a share of the baseline";
        let parts = ["at least", "possibly more"];
        let rows = shown.filter_map(bar).collect();
        let chart = Chart::stacked(what, "% of the baseline", &parts, rows);
        let limit = |chart: Chart| chart.limit(100.0, &*self.names[0]);
        let note = "The part \"possibly more\" is the interval of a figure: it differs from the \
                    baseline if the line is outside.";
        let why = "no figure has an interval that can be drawn";
        group.add(what, chart.map(limit).map(|chart| chart.note(note)), why);
        vec![group]
    }
}
