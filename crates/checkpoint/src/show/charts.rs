//! The charts of a checkpoint run: saves and restores, the ranks in each, and bandwidth over time.

use crate::report::{CheckpointReport, CheckpointResult, PartSeconds, RankResult};
use stormlp_core::report::NamedSeries;
use stormlp_core::units::GIB;

use stormlp_show::around;
use stormlp_show::chart::{Axis, Bar, Chart, Group, Line, MOST_LINES, Prominence, Scale};
use stormlp_show::series::over_time;

/// Telemetry of more saves or restores than this would make the page too long.
const MOST_AROUND: usize = 8;

/// The parts of a rank's time.
fn parts(report: &CheckpointReport) -> [&'static str; 6] {
    let durable = report.plan.made_durable_by();
    ["open", "transfer", durable, "rename", "close", "wait for a thread"]
}

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
            drawn.push(processes(report, name));
            drawn.push(ranks(&parts(report), name, results));
            drawn.extend(around_each(report, name));
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
    if name == "save" {
        let what = format!("{}, share of the time of a rank", report.plan.made_durable_by());
        let share = |one: &CheckpointResult| {
            one.mean_parts.fsync_seconds / one.duration_seconds.mean.max(f64::MIN_POSITIVE) * 100.0
        };
        let chart = Chart::bars(what.clone(), "%", bar(share));
        let note = "Means over the ranks.";
        drawn.add(&what, chart.map(|chart| chart.note(note)), why);
    }
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

/// The bandwidth of each process of a multi-host run over time.
fn processes(report: &CheckpointReport, name: &str) -> Group {
    let mut drawn =
        Group::of_multiples(format!("Bandwidth of each process: {name}s"), Prominence::Detail);
    for one in report.series.iter().filter(|one| one.name.starts_with(name)) {
        let chart = around::charts::ranks(&one.series, ("GiB/s", GIB));
        drawn.charts.extend(chart.map(|chart| Chart { title: one.name.clone(), ..chart }));
    }
    drawn
}

/// Each rank of each save or restore, from start to end.
fn ranks(parts: &[&str], name: &str, results: &[CheckpointResult]) -> Group {
    let mut drawn = Group::of_multiples(format!("Ranks of each {name}"), Prominence::Detail);
    for result in results {
        let rows = result.ranks.iter().map(bar).collect();
        let what = format!("{name} {}", result.step);
        let chart = Chart::stacked(what.clone(), "seconds", parts, rows).map(|chart| {
            chart
                .note("From the start of the checkpoint; parts are sums, in the order of the work.")
        });
        drawn.add(&what, chart, "the report contains no rank of it");
    }
    drawn
}

/// Telemetry of the saves or restores; of the longest ones if there are many.
fn around_each(report: &CheckpointReport, name: &str) -> Vec<Group> {
    let seconds = |one: &NamedSeries| {
        let intervals = one.series.timed(&one.series.interval_bytes);
        intervals.last().map_or(0.0, |(interval, _)| interval.end())
    };
    let all = report.series.iter().filter(|one| one.name.starts_with(name)).enumerate();
    let mut longest: Vec<(usize, &NamedSeries)> = all.collect();
    let count = longest.len();
    longest.sort_by(|(_, a), (_, b)| seconds(b).total_cmp(&seconds(a)));
    let room = around::charts::room_for(longest.iter().map(|(_, one)| &one.series), MOST_AROUND);
    longest.truncate(room);
    longest.sort_by_key(|(nth, _)| *nth);
    let mut drawn: Vec<Group> = longest.into_iter().map(|(_, one)| around(one)).collect();
    if let Some(last) = drawn.last_mut().filter(|_| count > room) {
        let longest = match room {
            1 => format!("the longest of {count} {name}s"),
            several => format!("the {several} longest of {count} {name}s"),
        };
        let note = format!("Shown for {longest}; the report (JSON) has all.");
        last.absent.push(note);
    }
    drawn
}

/// Telemetry of one save or restore.
fn around(one: &NamedSeries) -> Group {
    let title = format!("Telemetry of {}", one.name);
    let mut drawn = around::charts::over_time(title, &one.series, &[]);
    drawn.charts.extend(around::charts::in_flight(&one.series));
    if let Some(load) = &one.series.load {
        drawn.charts.extend(around::charts::depths(load));
        drawn.charts.extend(around::charts::sizes(load));
    }
    let queues = around::charts::device_queues([&one.series].into_iter());
    drawn
        .charts
        .extend(queues.into_iter().map(|(_, chart)| chart.note(around::charts::QUEUES_NOTE)));
    drawn.place = Prominence::Folded;
    drawn
}

fn bar(rank: &RankResult) -> Bar {
    let PartSeconds {
        open_seconds,
        transfer_seconds,
        fsync_seconds,
        rename_seconds,
        close_seconds,
    } = rank.parts;
    let waited = (rank.duration_seconds - rank.parts.total_seconds()).max(0.0);
    Bar {
        name: format!("rank {}", rank.rank),
        values: vec![
            open_seconds,
            transfer_seconds,
            fsync_seconds,
            rename_seconds,
            close_seconds,
            waited,
        ],
    }
}
