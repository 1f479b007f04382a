//! A comparison as a chart: each figure in percent of the baseline, with its interval.

use super::{Compared, Comparison};
use crate::chart::{Bar, Chart, Group};

/// In percent of the baseline: longer bars would leave no room for the rest.
const LONGEST: f64 = 1000.0;

impl Comparison {
    /// The interval of each figure; of several subjects only of their headline figures.
    pub fn charts(&self) -> Vec<Group> {
        let [baseline, candidate] = &self.names;
        let mut group = Group::new(format!("{candidate} against {baseline}"));
        let first = self.figures.first().map(|one| &one.subject);
        let several = self.figures.iter().any(|one| Some(&one.subject) != first);
        let shown = self.figures.iter().filter(|one| !several || one.headline);
        let bar = |one: &Compared| {
            let interval = one.interval?.map(|percent| 100.0 + percent);
            let name = if several { &*one.name } else { one.figure };
            let estimate = 100.0 + one.change_percent?;
            (interval[0] >= 0.0 && interval[1] <= LONGEST)
                .then(|| Bar { interval: Some(interval), ..Bar::one(name, estimate) })
        };
        let what = format!("{candidate} as a share of {baseline}");
        let rows = shown.filter_map(bar).collect();
        let chart = Chart::stacked(&*what, &format!("% of {baseline}"), &[""], rows);
        let note = format!(
            "A bar ends at the estimate; its line is the interval. {candidate} differs from \
             {baseline} where the line does not cross 100 %."
        );
        let chart = chart.map(|chart| chart.limit(100.0, &**baseline).note(note));
        group.add(&what, chart, "no figure has an interval that can be drawn");
        vec![group]
    }
}
