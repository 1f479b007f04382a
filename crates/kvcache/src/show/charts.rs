//! Charts of a run: rates of the trials, bandwidth over time, classes, distributions.

use stormlp_core::units::GIB;
use stormlp_show::chart::{Axis, Bar, Chart, Group, Line, MOST_LINES, Scale};
use stormlp_show::series::over_time;
use stormlp_show::telemetry;

use super::find_max;
use super::trials::key_of;
use crate::report::{KvcacheReport, TrialResult};

/// The charts of a run.
pub(super) fn charts(report: &KvcacheReport) -> Vec<Group> {
    let search = report.results.find_max.as_ref();
    let mut drawn: Vec<Group> = search.map(find_max::chart).into_iter().collect();
    drawn.push(trials(report));
    drawn.push(Group::of_histograms(
        "Distributions of times",
        "Times of all runs",
        &report.histograms,
    ));
    drawn.extend(around_each(report));
    drawn
}

/// The trials as a whole, and over time.
fn trials(report: &KvcacheReport) -> Group {
    let mut drawn = Group::new("Runs");
    let why = "fewer than two runs";
    let name = |trial: &TrialResult| key_of(report, trial);
    for (what, rate) in [
        ("Read rate of each run", (|one| one.read_gib_per_second) as fn(&TrialResult) -> f64),
        ("Write rate of each run", |one| one.write_gib_per_second),
    ] {
        let rows = report.results.trials.iter().map(|one| Bar::one(name(one), rate(one))).collect();
        let chart = Chart::bars(what, "GiB/s", rows);
        let note = "Bytes within the window over its length.";
        drawn.add(what, chart.map(|chart| chart.note(note)), why);
    }
    let lines: Vec<Line> = report
        .series
        .iter()
        .map(|one| Line::new(&one.name, over_time(&one.series, &one.series.interval_bytes, GIB)))
        .filter(|line| line.points().count() > 1)
        .collect();
    if lines.is_empty() {
        let why = "the report contains fewer than two intervals of any run";
        drawn.absent.push(format!("Bandwidth over time: {why}."));
    }
    for lines in lines.chunks(MOST_LINES) {
        let (x, y) = (Axis::new("seconds", Scale::Linear), Axis::new("GiB/s", Scale::Linear));
        let what = "Reads and writes over time, those after the window included";
        drawn.charts.extend(Chart::lines(what, x, y, lines.to_vec()));
    }
    drawn
}

/// Telemetry of each trial.
fn around_each(report: &KvcacheReport) -> Vec<Group> {
    let groups = report.series.iter().map(|one| {
        let title = format!("Telemetry of {}", one.name);
        let mut drawn = telemetry::charts::over_time(title, &one.series, &[]);
        drawn.charts.extend(telemetry::charts::in_flight(&one.series));
        drawn.is_folded = true;
        drawn
    });
    groups.collect()
}
