//! The charts of a training run: results by epoch and over time, waiting time by cause, and storage
//! activity.

use crate::plan::find_max::FindMax;
use crate::report::{EpochReport, TrainReport};
use stormlp_core::report::Series;
use stormlp_core::units::MIB;

use stormlp_show::chart::{Axis, Bar, Chart, Group, Line, Scale};
use stormlp_show::search::draw;
use stormlp_show::series::over_time;
use stormlp_show::telemetry;

const NO_EPOCH: &str = "the report contains fewer than two epochs";

/// All charts of a training run.
pub(crate) fn charts(report: &TrainReport) -> Vec<Group> {
    let search = report.results.find_max.as_ref();
    let mut drawn: Vec<Group> = search.map(|find| counts_tried(report, find)).into_iter().collect();
    drawn.extend([
        how_it_went(report),
        waiting(report),
        storage(report),
        around(report),
        Group::of_histograms(
            "Distributions of times",
            "Waits and reads over all accelerators and steps",
            &report.histograms,
        ),
    ]);
    drawn
}

/// AU over the counts tried by a search.
fn counts_tried(report: &TrainReport, find: &FindMax) -> Group {
    let mut drawn = Group::new("Counts tried");
    let threshold = Some(report.plan.metric.threshold_percent);
    draw(find, &mut drawn, ("AU over accelerators", "%", threshold), |one| one.au_percent);
    drawn
}

/// The number of the run with the epochs that the report shows.
fn run_number(report: &TrainReport) -> u32 {
    report.results.runs.last().map_or(1, |run| run.run)
}

/// The time series of that run.
fn series(report: &TrainReport) -> Option<&Series> {
    let name = format!("run {}", run_number(report));
    let found = report.series.iter().find(|one| one.name == name);
    found.map(|one| &one.series)
}

fn seconds() -> Axis {
    Axis::new("seconds", Scale::Linear)
}

fn amount(name: &str) -> Axis {
    Axis::new(name, Scale::Linear)
}

fn marks(report: &TrainReport) -> Vec<(f64, String)> {
    let epochs = report.results.epochs.iter();
    epochs.map(|one| (one.started_seconds, format!("epoch {}", one.epoch))).collect()
}

/// A bar for each epoch that has the number.
fn of_epochs(report: &TrainReport, number: impl Fn(&EpochReport) -> Option<f64>) -> Vec<Bar> {
    let bar = |epoch: &EpochReport| {
        let cut = if epoch.is_complete_run(&report.plan) { "" } else { " cut short" };
        Some(Bar::one(format!("epoch {}{cut}", epoch.epoch), number(epoch)?))
    };
    report.results.epochs.iter().filter_map(bar).collect()
}

fn how_it_went(report: &TrainReport) -> Group {
    let several = report.results.runs.len() > 1;
    let mut drawn = Group::new(if several {
        format!("Epochs of run {}", run_number(report))
    } else {
        "Epochs".to_string()
    });
    let au = of_epochs(report, |epoch| Some(epoch.measures.au_percent.profile));
    let target = report.plan.metric.threshold_percent;
    let percent = format!("{target:.1}");
    let words = format!("{} % to reach", percent.trim_end_matches(".0"));
    let what = "Accelerator utilisation by epoch";
    let chart = Chart::bars(what, "%", au);
    let limit = |chart: Chart| chart.limit(target, words);
    drawn.add(what, chart.map(limit), NO_EPOCH);

    let one = series(report);
    let moved = one.into_iter().flat_map(|one| {
        let read = ("reads", over_time(one, &one.interval_bytes, MIB));
        let device = one.interval_device_bytes.as_ref();
        let device = device.map(|moved| ("block devices", over_time(one, moved, MIB)));
        [Some(read), device].into_iter().flatten()
    });
    let lines = moved.map(|(name, points)| Line::new(name, points)).collect();
    let what = "Throughput over time";
    let chart = Chart::lines(what, seconds(), amount("MiB/s"), lines);
    let note = "Figures of block devices include other programs' traffic.";
    let noted = |chart: Chart| chart.marks(marks(report)).note(note);
    drawn.add(what, chart.map(noted), telemetry::charts::NO_COURSE);
    let ranks = one.and_then(|one| telemetry::charts::ranks(one, ("MiB/s", MIB)));
    drawn.charts.extend(ranks.map(|chart| chart.marks(marks(report))));
    drawn
}

fn waiting(report: &TrainReport) -> Group {
    let mut drawn = Group::new("Causes of waiting");
    let rows = report.results.epochs.iter().map(|epoch| {
        let waiting = &epoch.measures.waiting_seconds;
        Bar {
            name: format!("epoch {}", epoch.epoch),
            values: vec![waiting.storage, waiting.cpu, waiting.barrier, waiting.startup],
            interval: None,
        }
    });
    let what = "Waiting by cause, summed over accelerators";
    let parts = ["storage", "CPU", "barrier", "start-up"];
    drawn.add(what, Chart::stacked(what, "seconds", &parts, rows.collect()), NO_EPOCH);
    drawn
}

fn storage(report: &TrainReport) -> Group {
    let mut drawn = Group::new("Storage activity");
    let series = series(report);
    let what = "Transfers in flight over time";
    let chart = series.and_then(telemetry::charts::in_flight);
    let marked = chart.map(|chart| chart.marks(marks(report)));
    drawn.add(what, marked, "the report has no values of them above 0");
    let counted = series.and_then(|one| one.load.as_ref()).and_then(telemetry::charts::depths);
    drawn.add("Queue depth", counted, "the transfers had one depth, or were not counted");
    drawn
}

fn around(report: &TrainReport) -> Group {
    let nothing = Series::default();
    let series = series(report).unwrap_or(&nothing);
    telemetry::charts::over_time("Telemetry of the run", series, &marks(report))
}
