//! Renders a training run: its result and the reason, then each epoch.

use crate::plan::train_plan::TrainPlan;
use crate::report::verdict::Bound;
use crate::report::{EpochReport, Measures, TrainReport, much_read_ahead};
use serde_json::Value;
use stormlp_core::evidence::ObjectStore;
use stormlp_core::histogram::LatencyUs;
use stormlp_core::path::PathKind;
use stormlp_core::profile::Profile;
use stormlp_core::report::Ending;
use stormlp_core::report::MODELLED;
use stormlp_core::stats::mean;
use stormlp_core::units::{ByteSize, counted, format_duration};
use stormlp_core::warning::WarningKind;

use super::find_max;
use stormlp_show::document::{Cell, Column, Document, Facts, Quantity, Table, mismatch};
use stormlp_show::hosts::{self, processes};
use stormlp_show::numbers::percent;
use stormlp_show::records::Records;
use stormlp_show::series::TimeSummary;
use stormlp_show::{objects, storage, telemetry};

/// The content of the columns of waits.
const WAITING: &str = "wait in seconds, summed over all accelerators";
/// Label for a mean over epochs, if there were several runs.
const SCORED_MEAN: &str = "mean of all scored runs";
/// Label for a sum over epochs, in the same way.
const A_SCORED_RUN: &str = "a scored run at the mean";

/// Paths of the record columns: paths with `/` are in the epoch, all further ones in the report.
pub const RECORDS: [(&str, &str); 39] = [
    ("format_version", "format_version"),
    ("started_at", "started_at"),
    ("hostname", "host/hostname"),
    ("command", "command"),
    ("workload", "plan/workload"),
    ("accelerator", "plan/accelerator"),
    ("accelerators", "plan/accelerators"),
    ("profile", "plan/profile"),
    ("path", "plan/transport/path"),
    ("run", "/run"),
    ("warm_up", "/warm_up"),
    ("epoch", "/epoch"),
    ("au_percent", "/au_percent/profile"),
    ("au_percent_nominal", "/au_percent/nominal"),
    ("au_percent_measured", "/au_percent/measured"),
    ("au_percent_including_startup", "/au_percent/including_startup"),
    ("samples_per_second", "/samples_per_second"),
    ("mib_per_second", "/mib_per_second"),
    ("read_mib_per_second", "/read_mib_per_second"),
    ("waiting_storage_seconds", "/waiting_seconds/storage"),
    ("waiting_cpu_seconds", "/waiting_seconds/cpu"),
    ("waiting_barrier_seconds", "/waiting_seconds/barrier"),
    ("waiting_startup_seconds", "/waiting_seconds/startup"),
    ("page_cache_share", "/cached_share"),
    ("bytes_read", "/bytes_read"),
    ("device_bytes_read", "/device_bytes_read"),
    ("cpu_user_seconds", "/cpu_user_seconds"),
    ("cpu_system_seconds", "/cpu_system_seconds"),
    ("duration_seconds", "/duration_seconds"),
    ("whole", "/whole"),
    ("hosts", "/hosts"),
    ("first_byte_us_mean", "/first_byte_us/mean"),
    ("first_byte_us_p50", "/first_byte_us/p50"),
    ("first_byte_us_p99", "/first_byte_us/p99"),
    ("first_byte_us_max", "/first_byte_us/max"),
    ("requests", "/object_store/requests"),
    ("retries", "/object_store/retries"),
    ("retries_after_loss", "/object_store/retries_after_loss"),
    ("tags", "tags"),
];

/// The result of a run, or of a search with this answer.
pub fn document(report: &TrainReport) -> Document {
    let run = of_run(report);
    match &report.results.find_max {
        Some(find) => find_max::document(report, find, run),
        None => run,
    }
}

fn of_run(report: &TrainReport) -> Document {
    let mut document = Document::new(headline(report));
    setup(report, &mut document);
    storage::describe(&report.head.host, &mut document.facts);
    if report.results.runs.is_empty() {
        document.section(&format!("Epochs; {WAITING}"), Some(epochs(report)));
    } else {
        document.details(&format!("Epochs of the last run; {WAITING}"), Some(epochs(report)));
    }
    let results = &report.results;
    hosts::section(&results.hosts, results.group.as_ref(), "steps", &mut document);
    if !report.results.runs.is_empty() {
        document.table(runs(report));
    }
    verdict(report, &mut document.section("", None).facts);
    let latency = &report.results.latency;
    let waits = [
        // The first step of an epoch waits for a cold loader, and has a separate column.
        ("fetch wait", &latency.fetch_wait_us),
        ("barrier", &latency.barrier_wait_us),
        ("overshoot", &latency.compute_overshoot_us),
        ("reads", &latency.read_us),
        ("registrations", &latency.registration_us),
    ];
    let section = document.details("", None);
    let known = waits.into_iter().filter_map(|(name, us)| {
        let name = format!("{name}{}", scope(report, "scored runs"));
        Some(TimeSummary::of(name, us.as_ref()?))
    });
    let first_byte = first_byte(report)
        .map(|us| TimeSummary::of(format!("first byte{}", scope(report, "last run")), us));
    section.distributions = known.chain(first_byte).collect();
    let all = report.results.epochs.iter();
    let runs = report.results.runs.iter().flat_map(|run| &run.epochs);
    if all.chain(runs).any(|epoch| epoch.fewest_steps() > 0) {
        throughput(report, &mut section.facts);
    }
    between_epochs(report, &mut section.facts);
    cost(report, &mut section.facts);
    let around = if report.results.runs.is_empty() {
        telemetry::TITLE
    } else {
        "Telemetry of all runs, including the warm-up"
    };
    let series = report.series.iter().map(|one| &one.series);
    telemetry::section(&mut document, around, series);
    document.warn(&report.warnings);
    let mut alone = report.clone();
    alone.results.epochs.clear();
    alone.results.runs.clear();
    document.records = Records::new(&alone, units(report), &RECORDS);
    document
}

/// The times to first byte of the run's GETs, the last run's of several; `None` for files.
fn first_byte(report: &TrainReport) -> Option<&LatencyUs> {
    Some(&report.evidence_of("reads")?.first_byte()?.summary_us)
}

/// The object store of the run, the last one of several; `None` for files.
fn store(report: &TrainReport) -> Option<&ObjectStore> {
    report.evidence_of("reads")?.object_store.as_ref()
}

/// The extent of a figure, if there were several runs.
fn scope(report: &TrainReport, whose: &str) -> String {
    if report.results.runs.is_empty() { String::new() } else { format!(" ({whose})") }
}

/// The epochs of every run, for the records.
fn units(report: &TrainReport) -> impl Iterator<Item = Value> {
    let last = report.results.runs.last().map_or(1, |run| run.run);
    let unit = move |(run, warm_up, epoch): (u32, bool, &EpochReport)| {
        // An epoch is plain data, which can always be converted to JSON.
        let mut value = serde_json::to_value(epoch).unwrap_or_default();
        value["run"] = run.into();
        value["warm_up"] = warm_up.into();
        value["hosts"] = report.plan.hosts.len().max(1).into();
        value["whole"] = epoch.is_whole(&report.plan).into();
        // Over all epochs of the run.
        if let Some(us) = first_byte(report).filter(|_| run == last) {
            value["first_byte_us"] = serde_json::to_value(us).unwrap_or_default();
        }
        if let Some(store) = store(report).filter(|_| run == last) {
            value["object_store"] = serde_json::to_value(store).unwrap_or_default();
        }
        value
    };
    // With a single run the epochs are in the report itself.
    let only =
        report.results.runs.is_empty().then_some(&report.results.epochs).into_iter().flatten();
    let several = report.results.runs.iter().flat_map(|run| {
        let epochs = run.epochs.iter();
        epochs.map(|epoch| (run.run, run.warm_up, epoch))
    });
    only.map(|epoch| (1, false, epoch)).chain(several).map(unit)
}

fn headline(report: &TrainReport) -> String {
    let verdict = if report.results.meets_threshold { "PASS" } else { "FAIL" };
    match &report.ending {
        Ending::Complete => format!(
            "{verdict}: AU {}{:.2} % ({} requires {:.1} %{})",
            if is_upper_bound(report) { "up to " } else { "" },
            report.results.mean.au_percent.profile,
            report.plan.workload,
            report.plan.metric.threshold_percent,
            remarks(report)
        ),
        Ending::Unfinished => {
            "no result yet: unfinished; the run is still going, or was killed".to_string()
        }
        Ending::Stopped => "no result: the run was stopped by the user".to_string(),
        Ending::Failed(note) => {
            mismatch(&report.ending).unwrap_or_else(|| format!("no result: {}", note.fact))
        }
    }
}

/// The conditions of the figure: `; starter set, cold, 2 epochs`.
fn remarks(report: &TrainReport) -> String {
    let request = &report.plan.request;
    let mut remarks: Vec<String> = Vec::new();
    if let hosts @ [first, _, ..] = report.plan.hosts.as_slice() {
        let processes = processes(report.results.group.as_ref(), hosts.len());
        let alike = hosts.iter().all(|one| one == first);
        let accelerators = if alike { *first } else { report.plan.accelerators };
        let join = if alike { " ×" } else { "," };
        let accelerators = counted(u64::from(accelerators), "accelerator");
        remarks.push(format!("{processes}{join} {accelerators}"));
    }
    if request.starter {
        let cold = if request.is_cold() { "cold, " } else { "" };
        let epochs = counted(u64::from(report.plan.epochs), "epoch");
        remarks.push(format!("starter set, {cold}{epochs}"));
    }
    remarks.extend(report.other_path("reads", report.plan.transport.path));
    let plan = &report.plan;
    let meets = report.results.meets_threshold;
    let scored = || report.results.runs.iter().filter(|run| !run.warm_up);
    let missed = scored().filter(|run| !run.meets_threshold).count();
    if !meets && missed > 0 {
        remarks.push(format!("{missed} of {} runs missed it", scored().count()));
    }
    if meets && !plan.is_null() && much_read_ahead(plan, &report.results.mean).is_some() {
        remarks.push("largely by prefetched samples".to_string());
    }
    if is_from_memory(report) {
        remarks.push("mostly read from memory".to_string());
    }
    let epochs = report.results.scored_epochs();
    if plan.request.is_cold() && epochs.iter().any(|epoch| epoch.cached_share.is_none()) {
        remarks.push("not known to be cold".to_string());
    }
    if remarks.is_empty() { String::new() } else { format!("; {}", remarks.join(", ")) }
}

/// Whether the official client's cost, which the figure leaves out, could turn the verdict.
fn is_upper_bound(report: &TrainReport) -> bool {
    report.warnings.iter().any(|warning| warning.kind == WarningKind::UpperBound)
}

/// Whether most of the data read came from the page cache.
fn is_from_memory(report: &TrainReport) -> bool {
    let cost = &report.results.cost;
    let path = report.path_of("reads", report.plan.transport.path);
    if !path.uses_page_cache() || cost.bytes_read == 0 {
        return false;
    }
    let epochs = report.results.scored_epochs();
    let shares: Option<Vec<f64>> = epochs.iter().map(|epoch| epoch.cached_share).collect();
    let shares = shares.filter(|shares| !shares.is_empty());
    storage::is_from_memory(
        cost.bytes_read as f64,
        cost.device_bytes_read.map(|bytes| bytes as f64),
        shares.map(|shares| mean(&shares)),
    )
}

fn verdict(report: &TrainReport, facts: &mut Facts) {
    let found = &report.results.verdict;
    let blames_host = matches!(found.limited_by, Bound::Client | Bound::StorageAndClient);
    let shared = report.warnings.iter().any(|warning| warning.kind == WarningKind::OthersLoad);
    let beside = if blames_host && shared { "; other programs used this host, too" } else { "" };
    facts.add("verdict", format!("{}{beside}", found.sentence));
    if let Some(calibration) = &report.results.calibration {
        facts.add(
            "host",
            format!(
                "upper limit of this host: AU {:.2} %, {:.1} samples/s (no storage)",
                calibration.au_percent.profile, calibration.samples_per_second
            ),
        );
    }
}

fn setup(report: &TrainReport, document: &mut Document) {
    let (brief, facts) = (&mut document.brief, &mut document.facts);
    let plan = &report.plan;
    brief.add("run", setting(plan));
    if plan.profile != Profile::Native {
        facts.add("figure", MODELLED);
    }
    let from = match &plan.data.folder {
        Some(folder) => format!("{} in {}", ByteSize(plan.data.bytes), folder),
        None => "no storage: no reads".to_string(),
    };
    let files = counted(plan.data.files, &format!("{} file", plan.data.format));
    brief.add("data", format!("{files}, {from}"));
    facts.add(
        "steps",
        format!(
            "{} of {} x {} samples, compute {}",
            counted(plan.steps_per_epoch, "step"),
            plan.accelerators,
            plan.batch_size,
            plan.compute
        ),
    );
    super::plan::client(plan, brief, facts);
    let path = report
        .evidence_of("reads")
        .map(|evidence| format!("{}{}", evidence.summary, scope(report, "last run")));
    facts.add("path", path.unwrap_or_else(|| plan.transport.path.to_string()));
    let store = store(report);
    if let Some(store) = store {
        facts.add("requests", objects::requests(store));
    }
    if let Some(words) = objects::verified(store) {
        brief.add("verified", words);
    }
    super::plan::transport(plan, facts);
}

/// The emulated accelerators, and the edition.
pub(super) fn setting(plan: &TrainPlan) -> String {
    format!(
        "{} on {} emulated {}{}, edition {} ({}{})",
        plan.workload,
        plan.accelerators,
        plan.accelerator,
        match plan.hosts.len() {
            0 => String::new(),
            processes => format!(" of {processes} processes"),
        },
        plan.profile.edition(),
        plan.profile.describe(),
        if plan.request.closed { ", with its closed rules enforced" } else { "" }
    )
}

fn epochs(report: &TrainReport) -> Table {
    let mut table = Table::new([
        Column::words("epoch", 0),
        Column::numbers("AU %", 0),
        Column::numbers("samples/s", 0),
        Column::numbers("MiB/s", 3),
        Column::numbers("read MiB/s", 4),
        Column::numbers("cached %", 1),
        Column::numbers("wait storage", 0),
        Column::numbers("wait CPU", 0),
        Column::numbers("wait barrier", 2),
        Column::numbers("start-up s", 2),
    ]);
    for epoch in &report.results.epochs {
        let cut = match epoch.shortfall(&report.plan) {
            None => String::new(),
            Some(said) if epoch.is_complete_run(&report.plan) => {
                format!(" {}", table.footnote(said))
            }
            Some(_) => " cut short".to_string(),
        };
        let cached = epoch.cached_share.map(|share| share * 100.0);
        let name = format!("{}{cut}", epoch.epoch);
        let mut cells = row(name, &epoch.measures, cached);
        if epoch.fewest_steps() == 0 {
            // No step ended: there are no rates.
            cells[1..4].fill("-".into());
        }
        table.row(epoch.epoch.to_string(), cells);
    }
    if report.results.scored_epochs().len() > 1 {
        let of = if report.results.runs.is_empty() { "mean" } else { "mean of runs" };
        table.row("mean", row(of.to_string(), &report.results.mean, None));
    }
    table
}

fn row(name: String, measures: &Measures, cached: Option<f64>) -> Vec<Cell> {
    let waiting = &measures.waiting_seconds;
    let seconds = |value| Cell::from(Quantity::lower(value, "s"));
    vec![
        name.into(),
        Quantity::higher(measures.au_percent.profile, "%").into(),
        Quantity::higher(measures.samples_per_second, "samples/s").into(),
        Quantity::higher(measures.mib_per_second, "MiB/s").into(),
        Quantity::neutral(measures.read_mib_per_second, "MiB/s").into(),
        cached.map_or_else(|| "-".into(), |share| format!("{share:.0}").into()),
        seconds(waiting.storage),
        seconds(waiting.cpu),
        seconds(waiting.barrier),
        seconds(waiting.startup),
    ]
}

fn runs(report: &TrainReport) -> Table {
    let row = |kind: &str, run: String, mean: &Measures, seconds: f64| {
        vec![
            run.into(),
            kind.into(),
            Quantity::higher(mean.au_percent.profile, "%").into(),
            Quantity::higher(mean.samples_per_second, "samples/s").into(),
            Quantity::higher(mean.mib_per_second, "MiB/s").into(),
            format_duration(seconds).into(),
        ]
    };
    let words = ["run", ""].map(|name| Column::words(name, 0));
    let numbers = ["AU %", "samples/s", "MiB/s", "took"].map(|name| Column::numbers(name, 0));
    let mut table = Table::new(words.into_iter().chain(numbers));
    for run in &report.results.runs {
        let kind = if run.warm_up { "warm-up" } else { "scored" };
        let number = run.run.to_string();
        table.row(number.clone(), row(kind, number, &run.mean, run.duration_seconds));
    }
    let scored = report.results.runs.iter().filter(|run| !run.warm_up);
    if scored.count() > 1 {
        let results = &report.results;
        table.row(
            "mean of runs",
            row("scored", "mean".to_string(), &results.mean, results.duration_seconds),
        );
    }
    table
}

fn throughput(report: &TrainReport, facts: &mut Facts) {
    let au = &report.results.mean.au_percent;
    facts.add(
        "AU",
        format!(
            "{:.2} % by edition {} (nominal compute {:.2} %, measured {:.2} %, including start-up \
             {:.2} %){}",
            au.profile,
            report.plan.profile.edition(),
            au.nominal,
            au.measured,
            au.including_startup,
            scope(report, SCORED_MEAN)
        ),
    );
    facts.add(
        "spread",
        format!(
            "AU {:.2} points, {:.2} samples/s (standard deviation over {})",
            report.results.stdev.au_percent,
            report.results.stdev.samples_per_second,
            if report.results.runs.is_empty() { "epochs" } else { "the epochs of all scored runs" }
        ),
    );
    if report.plan.data.folder.is_some() {
        let share = percent(report.results.mean.prefetched_share);
        facts.add(
            "read ahead",
            format!(
                "{share} of an epoch's samples, before its counted steps began{}",
                scope(report, SCORED_MEAN)
            ),
        );
    }
}

/// Checkpoints: part of the run, but not of AU.
fn between_epochs(report: &TrainReport, facts: &mut Facts) {
    if let (Some(first), count) =
        (report.results.checkpoints.first(), report.results.checkpoints.len())
    {
        let seconds: f64 = report.results.checkpoints.iter().map(|c| c.duration_seconds).sum();
        let each = format_duration(seconds / count as f64);
        let bytes = ByteSize(first.bytes);
        facts.add(
            "checkpoints",
            format!("{count} of {bytes}, {each} each at the mean{}", scope(report, "last run")),
        );
    }
}

fn cost(report: &TrainReport, facts: &mut Facts) {
    let cost = &report.results.cost;
    let cpu = cost.cpu_user_seconds + cost.cpu_system_seconds;
    let gib = cost.bytes_read as f64 / f64::from(1u32 << 30);
    let per_gib =
        if gib > 0.0 { format!(", {:.3} s for each GiB read", cpu / gib) } else { String::new() };
    facts.add(
        "host",
        format!(
            "CPU {:.2} s user, {:.2} s system{per_gib}{}; peak memory {}; {}",
            cost.cpu_user_seconds,
            cost.cpu_system_seconds,
            scope(report, A_SCORED_RUN),
            ByteSize(report.results.peak_rss_bytes),
            report.plan.transport.layout_in_words()
        ),
    );
    if report.plan.data.folder.is_none() {
        return;
    }
    let device = match cost.device_bytes_read {
        Some(bytes) => {
            let devices = report.results.devices.join(", ");
            format!("; {} from the device by {devices}, for other programs too", ByteSize(bytes))
        }
        None if report.plan.transport.path == PathKind::S3 => String::new(),
        None => "; the block device of the data is unknown".to_string(),
    };
    let discarded = if report.plan.prewarm {
        ", besides the first batch before each epoch and what is read ahead of it, which v3.0's \
         loaders discard"
    } else {
        ""
    };
    let read = ByteSize(cost.bytes_read);
    let scope = scope(report, A_SCORED_RUN);
    facts.add("bytes", format!("{read} read by the loaders{discarded}{device}{scope}"));
}
