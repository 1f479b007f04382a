//! The charts of a checkpoint run: saves and restores, the ranks in each, and bandwidth over time.

use crate::report::{CheckpointReport, CheckpointResult};
use stormlp_core::report::NamedSeries;
use stormlp_core::units::GIB;

use stormlp_show::chart::{Axis, Bar, Chart, Group, Line, MOST_LINES, Scale};
use stormlp_show::series::over_time;
use stormlp_show::telemetry;

/// The charts of a checkpoint run.
pub(crate) fn charts(report: &CheckpointReport) -> Vec<Group> {
    let mut drawn = Vec::new();
    let phases = [
        ("Saves", "save", &report.results.saves),
        ("Restores", "restore", &report.results.restores),
    ];
    for (title, name, results) in phases {
        let mut group = Group::new(title);
        if results.is_empty() {
            group.absent.push(format!("The report contains no {name}."))
        } else {
            whole(report, &mut group, name, results)
        }
        drawn.push(group);
        if !results.is_empty() {
            drawn.extend(slowest(report, name, results).map(around));
        }
    }
    drawn.push(Group::of_histograms(
        "Transfer distributions",
        "Transfers of all checkpoints",
        &report.histograms,
    ));
    drawn
}

/// Each save or restore as a whole.
fn whole(report: &CheckpointReport, drawn: &mut Group, name: &str, results: &[CheckpointResult]) {
    let why = "the report has fewer than two of them";
    let bar = |number: fn(&CheckpointResult) -> f64| {
        let rows = results.iter().map(|one| Bar::one(format!("{name} {}", one.step), number(one)));
        rows.collect::<Vec<Bar>>()
    };
    let what = format!("Bandwidth of each {name}");
    let rates = Chart::bars(what.clone(), "GiB/s", bar(|one| one.gib_per_second.total))
        .map(|chart| chart.note("All bytes over the slowest rank's time."));
    drawn.add(&what, rates, why);
    let series: Vec<Line> = report
        .series
        .iter()
        .filter(|one| one.name.starts_with(name))
        .map(|one| Line::new(&one.name, over_time(&one.series, &one.series.interval_bytes, GIB)))
        .filter(|line| line.points().count() > 1)
        .collect();
    if series.is_empty() {
        let why = "the report contains fewer than two intervals of any";
        drawn.absent.push(format!("Bandwidth over time: {why}."));
    }
    for lines in series.chunks(MOST_LINES) {
        let names = match lines {
            [only] => only.name.clone(),
            [first, .., last] => format!("{} to {}", first.name, last.name),
            [] => continue,
        };
        let (x, y) = (Axis::new("seconds", Scale::Linear), Axis::new("GiB/s", Scale::Linear));
        let chart = Chart::lines(format!("Bandwidth over time, {names}"), x, y, lines.to_vec());
        drawn.charts.extend(chart);
    }
}

/// The series of the slowest save or restore.
fn slowest<'r>(
    report: &'r CheckpointReport,
    name: &str,
    results: &[CheckpointResult],
) -> Option<&'r NamedSeries> {
    let seconds = |one: &CheckpointResult| one.duration_seconds.max;
    let slowest = results.iter().max_by(|a, b| seconds(a).total_cmp(&seconds(b)))?;
    let name = format!("{name} {}", slowest.step);
    report.series.iter().find(|one| one.name == name)
}

/// Telemetry of one save or restore.
fn around(one: &NamedSeries) -> Group {
    let title = format!("Telemetry of the slowest: {}", one.name);
    let mut drawn = telemetry::charts::over_time(title, &one.series, &[]);
    drawn.charts.extend(telemetry::charts::in_flight(&one.series));
    drawn.is_folded = true;
    drawn
}
