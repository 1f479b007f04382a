//! A training run for a terminal: epoch by epoch, then what it comes down to and why.

use std::fmt::Write as _;

use stormlp_model::histogram::LatencyUs;
use stormlp_model::report::Ending;
use stormlp_model::training::report::{EpochReport, Measures, RunReport, TrainReport};
use stormlp_model::units::{ByteSize, counted, format_duration};

use super::table;

const HEADER: [&str; 10] = [
    "epoch",
    "AU %",
    "samples/s",
    "MiB/s",
    "read MiB/s",
    "cached %",
    "storage s",
    "cpu s",
    "barrier s",
    "start-up s",
];

/// The whole result.
#[must_use]
pub fn text(report: &TrainReport) -> String {
    let mut out = heading(report);
    out.push_str(&epochs(report));
    if !report.results.runs.is_empty() {
        out.push_str(&runs(&report.results.runs));
    }
    out.push_str(&utilisation(report));
    out.push_str(&between_epochs(report));
    out.push_str(&details(report));
    for warning in &report.warnings {
        let _ = writeln!(out, "warning: {warning}");
    }
    out.push_str(&verdict(report));
    out
}

fn heading(report: &TrainReport) -> String {
    let plan = &report.plan;
    let mut out = format!(
        "{} on {} emulated {}, profile {} ({}), path {}\n",
        report.results.workload,
        report.results.accelerators,
        report.results.accelerator,
        report.results.profile,
        report.results.profile.describe(),
        plan.path
    );
    let from = match &plan.data.folder {
        Some(folder) => format!("{} in {folder}", ByteSize(plan.data.bytes)),
        None => "null storage, nothing is read".to_string(),
    };
    let _ = writeln!(
        out,
        "{}, {from}; {} of {} x {} samples, compute {}",
        counted(plan.data.files, &format!("{} file", plan.data.format)),
        counted(plan.steps_per_epoch, "step"),
        report.results.accelerators,
        plan.batch_size,
        plan.compute
    );
    out
}

fn epochs(report: &TrainReport) -> String {
    let epochs = report.results.epochs.iter();
    let mut rows: Vec<Vec<String>> = epochs.map(|one| epoch(report, one)).collect();
    if report.results.scored_epochs().len() > 1 {
        let of = if report.results.runs.is_empty() {
            "mean"
        } else {
            "mean of runs"
        };
        rows.push(row(of.to_string(), &report.results.mean, None));
    }
    table::draw(&HEADER, rows, 1)
}

fn epoch(report: &TrainReport, epoch: &EpochReport) -> Vec<String> {
    let cut = if epoch.is_whole(&report.plan) {
        ""
    } else {
        " cut short"
    };
    let name = format!("{}{cut}", epoch.epoch);
    row(name, &epoch.measures, epoch.cached_share)
}

fn row(name: String, measures: &Measures, cached: Option<f64>) -> Vec<String> {
    let waiting = &measures.waiting_seconds;
    vec![
        name,
        format!("{:.1}", measures.au_percent.profile),
        format!("{:.1}", measures.samples_per_second),
        format!("{:.1}", measures.mib_per_second),
        format!("{:.1}", measures.read_mib_per_second),
        cached.map_or_else(|| "-".to_string(), |share| format!("{:.0}", share * 100.0)),
        format!("{:.2}", waiting.storage),
        format!("{:.2}", waiting.cpu),
        format!("{:.2}", waiting.barrier),
        format!("{:.2}", waiting.startup),
    ]
}

fn runs(runs: &[RunReport]) -> String {
    let rows = runs.iter().map(|run| {
        vec![
            run.run.to_string(),
            if run.warm_up { "warm-up" } else { "scored" }.to_string(),
            format!("{:.2}", run.mean.au_percent.profile),
            format!("{:.1}", run.mean.samples_per_second),
            format!("{:.1}", run.mean.mib_per_second),
            format_duration(run.duration_seconds),
        ]
    });
    let header = ["run", "", "AU %", "samples/s", "MiB/s", "took"];
    table::draw(&header, rows.collect(), 2)
}

fn utilisation(report: &TrainReport) -> String {
    let au = &report.results.mean.au_percent;
    let mut out = format!(
        "AU          {:.2} % by profile {} (nominal compute {:.2} %, measured {:.2} %, including \
         start-up {:.2} %)\n",
        au.profile, report.results.profile, au.nominal, au.measured, au.including_startup
    );
    let read = match report.plan.data.folder {
        Some(_) => format!(
            "{:.2} MiB/s were read",
            report.results.mean.read_mib_per_second
        ),
        None => "nothing was read".to_string(),
    };
    let _ = writeln!(
        out,
        "throughput  {:.2} samples/s, {:.2} MiB/s by the record length; {read}",
        report.results.mean.samples_per_second, report.results.mean.mib_per_second
    );
    let spread = &report.results.stdev;
    let _ = writeln!(
        out,
        "spread      AU {:.2} points, {:.2} samples/s (standard deviation over epochs)",
        spread.au_percent, spread.samples_per_second
    );
    let share = report.results.mean.preread_share;
    if let Some(share) = share.filter(|_| report.plan.data.folder.is_some()) {
        let _ = writeln!(
            out,
            "read ahead  {:.0} % of an epoch's samples, before its counted steps began",
            share * 100.0
        );
    }
    if let Some(calibration) = &report.results.calibration {
        let _ = writeln!(
            out,
            "ceiling     AU {:.2} %, {:.1} samples/s on this host with storage that takes no time",
            calibration.au_percent.profile, calibration.samples_per_second
        );
    }
    out
}

/// Evaluations and checkpoints: no part of AU, but of the run.
fn between_epochs(report: &TrainReport) -> String {
    let mut out = String::new();
    for epoch in &report.results.epochs {
        if let Some(evaluation) = &epoch.evaluation {
            let _ = writeln!(
                out,
                "evaluation  after epoch {}: {}, AU {:.2} % by measured compute, {:.2} samples/s, \
                 {}",
                epoch.epoch,
                counted(evaluation.steps, "step"),
                evaluation.au_percent,
                evaluation.samples_per_second,
                format_duration(evaluation.duration_seconds)
            );
        }
    }
    if let (Some(first), count) = (
        report.results.checkpoints.first(),
        report.results.checkpoints.len() as u64,
    ) {
        let seconds: f64 = report
            .results
            .checkpoints
            .iter()
            .map(|c| c.duration_seconds)
            .sum();
        let _ = writeln!(
            out,
            "checkpoints {count} of {}, {} each at the mean",
            ByteSize(first.bytes),
            format_duration(seconds / count as f64)
        );
    }
    out
}

fn details(report: &TrainReport) -> String {
    let mut out = String::new();
    let waits = [
        ("fetch wait", &report.results.latency.fetch_wait_us),
        ("barrier", &report.results.latency.barrier_wait_us),
        ("overshoot", &report.results.latency.compute_overshoot_us),
        ("reads", &report.results.latency.read_us),
    ];
    for (name, latency) in waits {
        if let Some(latency) = latency {
            let of = if name == "fetch wait" {
                " (first step of each epoch left out)"
            } else {
                ""
            };
            let _ = writeln!(out, "{name:<11} {}{of}", percentiles(latency));
        }
    }
    let cost = &report.results.cost;
    let cpu = cost.cpu_user_seconds + cost.cpu_system_seconds;
    let gib = cost.bytes_read as f64 / f64::from(1u32 << 30);
    let per_gib = if gib > 0.0 {
        format!(", {:.3} s for each GiB read", cpu / gib)
    } else {
        String::new()
    };
    let _ = writeln!(
        out,
        "host        CPU {:.2} s user, {:.2} s system{per_gib}; peak memory {}; {}",
        cost.cpu_user_seconds,
        cost.cpu_system_seconds,
        ByteSize(report.results.peak_rss_bytes),
        report.results.layout
    );
    let device = match cost.device_bytes_read {
        Some(bytes) => format!(
            "{} by {}",
            ByteSize(bytes),
            report.results.devices.join(", ")
        ),
        None => "not counted: no block device is known behind the data".to_string(),
    };
    if report.plan.data.folder.is_some() {
        let _ = writeln!(
            out,
            "bytes       {} read by the loaders; from the device {device}",
            ByteSize(cost.bytes_read)
        );
    }
    let last = report.results.epochs.last().and_then(|epoch| epoch.device);
    if let Some(use_) = last.filter(|use_| use_.bytes_per_second > 0.0) {
        let _ = writeln!(
            out,
            "device      busy {:.0} %, queue depth {:.1}, {} per read request (last epoch)",
            use_.busy_percent,
            use_.queue_depth,
            ByteSize(use_.request_bytes as u64)
        );
    }
    if last.is_some_and(|use_| use_.bytes_per_second == 0.0) {
        let _ = writeln!(
            out,
            "device      nothing was read from it in the last epoch"
        );
    }
    if let Some(evidence) = report.evidence_of("reads") {
        let _ = writeln!(out, "path        {}", evidence.summary);
    }
    out
}

fn percentiles(latency: &LatencyUs) -> String {
    format!(
        "p50 {}, p99 {}, max {}",
        micros(latency.p50),
        micros(latency.p99),
        micros(latency.max)
    )
}

/// Microseconds in the unit that reads best.
fn micros(us: f64) -> String {
    if us < 1e3 {
        format!("{us:.0} us")
    } else if us < 1e6 {
        format!("{:.2} ms", us / 1e3)
    } else {
        format!("{:.2} s", us / 1e6)
    }
}

fn verdict(report: &TrainReport) -> String {
    let mut out = format!("verdict     {}\n", report.results.verdict.sentence);
    let _ = match &report.ending {
        Ending::Complete => writeln!(
            out,
            "result      AU {:.2} %: {} the {:.1} % of {}",
            report.results.mean.au_percent.profile,
            if report.results.meets_threshold {
                "meets"
            } else {
                "misses"
            },
            report.results.threshold_percent,
            report.results.workload
        ),
        Ending::Unfinished => writeln!(out, "result      none: the run is not finished"),
        Ending::Stopped => writeln!(out, "result      none: the run was stopped by the user"),
        Ending::Failed { message, .. } => writeln!(out, "result      none: {message}"),
    };
    out
}
