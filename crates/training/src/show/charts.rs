//! The charts of a training run: results by epoch and over time, waiting time by cause, and storage
//! activity.

use crate::plan::find_max::{FindMax, Tried};
use crate::report::{EpochReport, TrainReport};
use stormlp_core::largest::RunKind;
use stormlp_core::report::Series;
use stormlp_core::stats::mean;
use stormlp_core::units::MIB;

use stormlp_show::around;
use stormlp_show::chart::{Axis, Bar, Chart, Group, Line, Scale};
use stormlp_show::series::{depth_class, over_time, shares};

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

/// AU and throughput over the counts tried by a search.
fn counts_tried(report: &TrainReport, find: &FindMax) -> Group {
    let mut drawn = Group::new("Counts tried");
    let mut counts: Vec<u32> = find.tried.iter().map(|tried| tried.accelerators).collect();
    counts.sort_unstable();
    counts.dedup();
    let of_count = |count: u32, kind: RunKind, of: fn(&Tried) -> f64| {
        let mut tried = find.tried.iter().filter(move |t| t.accelerators == count);
        let runs: Vec<f64> = tried.by_ref().filter(|t| t.kind == kind).map(of).collect();
        (!runs.is_empty()).then(|| (f64::from(count), mean(&runs)))
    };
    let over = |kind: RunKind, of: fn(&Tried) -> f64| {
        counts.iter().filter_map(|count| of_count(*count, kind, of)).collect::<Vec<_>>()
    };
    let mark = match find.largest_accelerators {
        0 => Vec::new(),
        largest => vec![(f64::from(largest), format!("{largest}, the most"))],
    };
    let accelerators = || Axis::new("accelerators", Scale::Counts);
    let few = "fewer than two counts were tried";
    let threshold = report.plan.metric.threshold_percent;
    let ends = counts.iter().map(|count| (f64::from(*count), threshold));
    let au = |tried: &Tried| tried.au_percent;
    let lines = vec![
        Line::new("probes, predicted", over(RunKind::Probe, au)),
        Line::new("full runs", over(RunKind::Full, au)),
        Line::new("to reach", ends),
    ];
    let what = "AU over accelerators";
    let chart = Chart::lines(what, accelerators(), amount("%"), lines);
    drawn.add(what, chart.map(|chart| chart.marks(mark.clone())), few);
    let rate = |tried: &Tried| tried.mib_per_second;
    let lines = vec![
        Line::new("probes, predicted", over(RunKind::Probe, rate)),
        Line::new("full runs", over(RunKind::Full, rate)),
    ];
    let what = "Throughput over accelerators";
    let chart = Chart::lines(what, accelerators(), amount("MiB/s"), lines);
    drawn.add(what, chart.map(|chart| chart.marks(mark)), few);
    drawn
}

/// The number of the run whose epochs the report shows.
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
        let cut = if epoch.came_to_its_end(&report.plan) { "" } else { " cut short" };
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

    // A rate applies to its whole epoch.
    let rates = report.results.epochs.iter().map(|epoch| {
        let from = epoch.started_seconds;
        let to = from + epoch.duration_seconds;
        ((from, to), epoch.measures.samples_per_second)
    });
    let lines = vec![Line::steps("", rates)];
    let what = "Samples per second, by epoch";
    // One epoch has one rate, which the table says.
    let chart = Chart::lines(what, seconds(), amount("samples/s"), lines)
        .filter(|_| report.results.epochs.len() > 1);
    drawn.add(what, chart.map(|chart| chart.marks(marks(report))), NO_EPOCH);

    let what = "Throughput of reads over time";
    let read = series(report).map(|one| over_time(one, &one.interval_bytes, MIB));
    let lines = read.map(|points| Line::new("", points)).into_iter().collect();
    let chart = Chart::lines(what, seconds(), amount("MiB/s"), lines);
    drawn.add(what, chart.map(|chart| chart.marks(marks(report))), around::charts::NO_COURSE);
    let ranks = series(report).and_then(|one| around::charts::ranks(one, ("MiB/s", MIB)));
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
    let read = series.map(|one| Line::new("reads", over_time(one, &one.interval_bytes, MIB)));
    let device = series.and_then(|one| {
        let moved = one.interval_device_bytes.as_ref()?;
        Some(Line::new("block devices", over_time(one, moved, MIB)))
    });
    let what = "Block devices and reads over time";
    let lines = device.map(|device| vec![device].into_iter().chain(read).collect());
    let chart = Chart::lines(what, seconds(), amount("MiB/s"), lines.unwrap_or_default());
    let marked = |chart: Chart| chart.marks(marks(report));
    let of_all = "Block device figures include other programs' traffic.";
    drawn.add(
        what,
        chart.map(marked).map(|chart| chart.note(of_all)),
        "the report contains no bytes of block devices over time, or they moved none",
    );

    let what = "Transfers in flight over time";
    let chart = series.and_then(around::charts::in_flight);
    drawn.add(what, chart.map(marked), "the report has no values of them above 0");

    let load = series.and_then(|one| one.load.as_ref());
    let sampled = || {
        let counts = series.into_iter().flat_map(|one| &one.interval_in_flight);
        let depths = shares(counts.map(|depth| (u64::from(*depth), 1.0)), depth_class);
        let what = "Queue depth";
        let chart = Chart::bars(what, "% of the intervals", depths);
        let note = "By the reads in flight at the end of each interval.";
        chart.map(|chart| chart.note(note))
    };
    let counted = load.and_then(around::charts::depths).or_else(sampled);
    drawn.add("Queue depth", counted, "the transfers had one depth, or were not counted");
    let queues = around::charts::device_queues(series.into_iter());
    drawn
        .charts
        .extend(queues.into_iter().map(|(_, chart)| chart.note(around::charts::QUEUES_NOTE)));
    let sizes = load.and_then(around::charts::sizes);
    drawn.add("Sizes of the transfers", sizes, "the transfers had one size, or were not counted");

    let what = "Mean size of a read request of the block devices";
    // No reads, no request size.
    let size = |epoch: &EpochReport| Some(epoch.device?.request_bytes / 1024.0);
    let sizes = of_epochs(report, |epoch| size(epoch).filter(|size| *size > 0.0));
    let why = "the block device of the data is unknown, or read in fewer than two epochs";
    drawn.add(what, Chart::bars(what, "KiB", sizes), why);
    let what = "Data in the page cache when an epoch began";
    let shares = of_epochs(report, |epoch| Some(epoch.cached_share? * 100.0));
    drawn.add(
        what,
        Chart::bars(what, "%", shares),
        "fewer than two epochs, or the kernel did not report it",
    );
    drawn
}

fn around(report: &TrainReport) -> Group {
    let nothing = Series::default();
    let series = series(report).unwrap_or(&nothing);
    around::charts::over_time("Telemetry of the run", series, &marks(report))
}
