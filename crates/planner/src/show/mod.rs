//! Renders a plan's answer for people and as rows for programs, labelled as predicted.

mod charts;
mod presets;

use crate::plan::checkpoint::AFFORDABLE_PERCENT;
use crate::plan::{AtCount, CheckpointTimes, LimitedBy, SizingAnswer, StoragePart};
use serde_json::Value;
use stormlp_core::units::{ByteSize, counted, format_duration};
use stormlp_training::plan::datasize::{Binding, MEMORY_MULTIPLE, MIN_STEPS};

use stormlp_show::document::{DetailLevel, Document, Facts, Quantity, Table, number, word};
use stormlp_show::html::Sheet;
use stormlp_show::records::Records;

pub use presets::presets;

/// If training gets a smaller share of the time, no checkpoint interval is recommended.
const LEAST_USEFUL_PERCENT: f64 = 25.0;

/// Columns of the records and their source: a JSON pointer into a row, or a key of the answer.
const RECORDS: [(&str, &str); 13] = [
    ("workload", "workload"),
    ("accelerator", "accelerator"),
    ("storage", "storage"),
    ("accelerators", "/accelerators"),
    ("au_percent", "/au_percent"),
    ("samples_per_second", "/samples_per_second"),
    ("mib_per_second", "/mib_per_second"),
    ("limited_by", "/limited_by"),
    ("meets", "/meets"),
    ("drives", "/devices"),
    ("row", "/row"),
    ("needed_drives", "needed_devices"),
    ("needed_hosts", "needed_hosts"),
];

/// Names of the record columns.
pub fn record_columns() -> Vec<&'static str> {
    RECORDS.iter().map(|(name, _)| *name).collect()
}

/// The answer as a document.
pub fn document(answer: &SizingAnswer) -> Document {
    let mut document = Document::new(headline(answer));
    document.brief = brief(answer);
    document.facts = facts(answer);
    if !answer.range.causes.is_empty() {
        document.details("Range, one assumption changed at a time", Some(range(answer)));
    }
    // The requested table is on the screen, the other among the details.
    let by_drives = answer.asked && !answer.over_devices.is_empty();
    let place = |is_asked| if is_asked { DetailLevel::Screen } else { DetailLevel::Details };
    if !answer.over_accelerators.is_empty() {
        let threshold = percent(answer.threshold_percent);
        let title = format!("By number of accelerators, threshold {threshold}");
        let section = document.section(&title, Some(over_accelerators(answer)));
        section.lines.push("predicted by simulation, not measured".to_string());
        section.place = place(!by_drives);
    }
    if !answer.over_devices.is_empty() {
        let title = format!("By number of {}s", unit(answer));
        let section = document.section(&title, Some(over_devices(answer)));
        section.place = place(by_drives);
    }
    if let Some(checkpoint) = &answer.checkpoint {
        document.details("Checkpoints", None).facts = of_checkpoint(checkpoint);
    }
    let section = document.details("Assumptions", None);
    section.lines = answer.assumptions.iter().map(|one| format!("- {one}")).collect();
    document.warn(&answer.warnings);
    let rows = rows_of_records(answer);
    document.records = Records::new(answer, rows, &RECORDS);
    document
}

/// A row for each number of accelerators and for each number of drives, or a single row without
/// tables. For a number of drives, `accelerators` is the largest number they feed.
fn rows_of_records(answer: &SizingAnswer) -> Vec<Value> {
    let of = |kind: &'static str| {
        move |at: &AtCount| {
            let mut value = serde_json::to_value(at).unwrap_or_default();
            value["row"] = kind.into();
            value
        }
    };
    let mut rows: Vec<Value> = answer.over_accelerators.iter().map(of("accelerators")).collect();
    rows.extend(answer.over_devices.iter().map(of("drives")));
    if rows.is_empty() {
        let numbers = (answer.accelerators, answer.storage_model.devices);
        let at = AtCount {
            limited_by: answer.limited_by,
            storage_part: answer.storage_part,
            ..AtCount::of(numbers, &answer.prediction, answer.threshold_percent)
        };
        rows.push(of("accelerators")(&at));
    }
    rows
}

/// The answer as an HTML sheet.
pub fn sheet(answer: &SizingAnswer) -> Sheet {
    Sheet::of_answer("plan", document(answer), charts::charts(answer))
}

/// The parts that can be added: object stores, each with a bandwidth, or drives.
fn unit(answer: &SizingAnswer) -> &'static str {
    if answer.storage_model.has_objects() { "store" } else { "drive" }
}

fn headline(answer: &SizingAnswer) -> String {
    let SizingAnswer { accelerators, accelerator, workload, largest_accelerators: largest, .. } =
        answer;
    let up_to = if answer.is_upper_bound() { "up to " } else { "" };
    let au = format!("{up_to}{}", percent(answer.au_percent));
    let threshold = percent(answer.threshold_percent);
    let [low, high] = answer.range.accelerators;
    let most = match largest {
        0 => format!("not even 1 reaches it (range {low} to {high})"),
        largest => format!("the maximum is {largest} (range {low} to {high})"),
    };
    let by_read_ahead = answer.meets_threshold && answer.accelerators > *largest;
    let verdict = match (answer.asked, answer.meets_threshold) {
        _ if by_read_ahead => format!(
            "AU {au}, which reaches {threshold} only by prefetched samples; storage feeds at most \
             {largest}"
        ),
        (true, true) => format!("AU {au}, which reaches {threshold}; {most}"),
        (true, false) => format!("AU {au}, which misses {threshold}; {most}"),
        (false, true) => {
            format!("AU {au}, the most accelerators that reach {threshold}; range {low} to {high}")
        }
        (false, false) => {
            format!("AU {au}, so not even 1 reaches {threshold}; range {low} to {high}")
        }
    };
    let memory = ByteSize(answer.host_memory_bytes);
    format!(
        "{workload} on {accelerators} {accelerator}: {verdict} (predicted, not measured; {memory} of \
         memory per host)"
    )
}

/// The main assumptions of the answer.
fn brief(answer: &SizingAnswer) -> Facts {
    let mut facts = Facts::default();
    let rate = Quantity::higher(answer.mib_per_second, "MiB/s").text();
    let samples = Quantity::higher(answer.samples_per_second, "samples/s").text();
    let read = if reads_less(answer.mib_per_second, answer.read_mib_per_second) {
        format!(
            " by the record length, {} MiB/s read",
            Quantity::higher(answer.read_mib_per_second, "MiB/s").text()
        )
    } else {
        String::new()
    };
    facts.add("throughput", format!("{rate} MiB/s{read}, {samples} samples/s"));
    facts.add("limited by", limits(answer));
    facts.add("hosts", hosts(answer));
    // Unknown unless more drives were simulated.
    if answer.asked && !answer.over_devices.is_empty() {
        facts.add("needs", needs(answer));
    }
    facts.add("storage", answer.storage.clone());
    if let Some(client) = &answer.client {
        facts.add("client", client.clone());
    }
    if let Some(causes) = ends(answer) {
        facts.add("range", causes);
    }
    if let Some(checkpoint) = answer.checkpoint.as_ref().filter(|one| one.asked) {
        facts.add("checkpoint", times(checkpoint));
    }
    facts.add("error", answer.model_error.clone());
    facts
}

/// The causes of both ends of the range, if they differ from the likely number.
fn ends(answer: &SizingAnswer) -> Option<String> {
    let likely = answer.largest_accelerators;
    let of = |end: u32| {
        let mut causes = answer.range.causes.iter();
        let cause = causes.find(|other| other.largest_accelerators == end && end != likely)?;
        Some(format!("{end} {}", cause.assumption))
    };
    let ends: Vec<String> = answer.range.accelerators.into_iter().filter_map(of).collect();
    (!ends.is_empty()).then(|| ends.join("; "))
}

/// The times of a checkpoint in a line.
fn times(checkpoint: &CheckpointTimes) -> String {
    let size = ByteSize(checkpoint.bytes);
    let restored = format_duration(checkpoint.restore_seconds);
    let saved = match checkpoint.save_seconds {
        Some(seconds) => format!("saved in {}", format_duration(seconds)),
        None => "time to save unknown (set write=)".to_string(),
    };
    let every = match &checkpoint.optimum {
        Some(optimum) if optimum.useful_percent >= LEAST_USEFUL_PERCENT => {
            format!("; best every {}", format_duration(optimum.daly_interval_seconds))
        }
        Some(_) => "; no useful interval".to_string(),
        None => String::new(),
    };
    format!("{}, {size}: {saved}, restored in {restored}{every}", checkpoint.what)
}

/// The simulated machine and run.
fn facts(answer: &SizingAnswer) -> Facts {
    let mut facts = Facts::default();
    let run = &answer.prediction;
    let mut busy = format!("storage {}", percent(run.storage_busy_percent));
    for (what, share) in [
        ("network links", run.link_busy_percent),
        ("connections", run.connections_busy_percent),
        ("bytes from the page cache", run.cached_percent),
    ] {
        if share > 0.0 {
            busy += &format!(", {what} {}", percent(share));
        }
    }
    facts.add("utilisation", busy);
    facts.add("dataset", dataset(answer));
    facts.add("run", format!("{} (simulated)", format_duration(answer.run_seconds)));
    facts
}

/// How many accelerators reach the threshold, and their AU, with one assumption changed at a time.
fn range(answer: &SizingAnswer) -> Table {
    let likely = "likely: all assumptions listed below";
    let others = answer.range.causes.iter();
    let others = others.map(|one| (one.largest_accelerators, one.au_percent, &*one.assumption));
    let rows = [(answer.largest_accelerators, answer.au_percent, likely)].into_iter().chain(others);
    type Assumed<'a> = (u32, f64, &'a str);
    Table::of(
        rows,
        |(.., what)| what.to_string(),
        vec![
            number("most accelerators", 0, |(most, ..): &Assumed<'_>| *most),
            number(&format!("AU % of {}", answer.accelerators), 0, |(_, au, _): &Assumed<'_>| {
                Quantity::higher(*au, "%")
            }),
            word("assumption", 0, |(.., what): &Assumed<'_>| *what),
        ],
    )
}

/// The limit, and whether storage could feed more.
fn limits(answer: &SizingAnswer) -> String {
    let (unit, largest) = (unit(answer), answer.largest_accelerators);
    let storage = &answer.storage_model;
    let part = match answer.storage_part {
        Some(StoragePart::Link) => "the network link of each host",
        Some(StoragePart::Connections) => "the connections of each host: set more connections=",
        Some(StoragePart::Latency) if storage.connections.is_some() => {
            "latency and bandwidth of a connection: more reader.read_threads may help"
        }
        Some(StoragePart::Latency) if storage.has_objects() => {
            "latency at this number of reads in flight: more reader.read_threads may help"
        }
        Some(StoragePart::Latency) => {
            "latency at this number of reads in flight: more reader.read_threads or readahead= may help"
        }
        Some(StoragePart::Devices) | None => "",
    };
    let mut now = limit(answer.limited_by, answer.storage_part);
    if !answer.asked && largest > 0 {
        now += ", with one accelerator more";
    }
    if !part.is_empty() {
        now += &format!("; {part}; more {unit}s do not help");
    }
    if answer.is_lower_bound {
        now += "; storage could feed more";
    }
    if !answer.is_lower_bound || largest == 0 {
        return now;
    }
    let alone = match answer.storage_alone_accelerators {
        alone if alone > largest => format!(" ({alone} alone)"),
        _ => String::new(),
    };
    format!(
        "{now}{alone}: {} ended the search, so {largest} is a lower bound for what storage feeds",
        answer.search_limited_by.name()
    )
}

/// The limit, with the limiting part of storage unless that is the drives.
fn limit(limit: LimitedBy, part: Option<StoragePart>) -> String {
    match part.filter(|part| *part != StoragePart::Devices) {
        Some(part) => format!("{} ({})", limit.name(), <&str>::from(part)),
        None => limit.name().to_string(),
    }
}

/// Whether clearly fewer bytes are read than the record length implies; start-up causes small differences.
fn reads_less(mib_per_second: f64, read_mib_per_second: f64) -> bool {
    read_mib_per_second < 0.8 * mib_per_second
}

fn hosts(answer: &SizingAnswer) -> String {
    let each = answer.accelerators.div_ceil(answer.hosts.max(1));
    format!("{}, at most {} each", answer.hosts, counted(u64::from(each), "accelerator"))
}

fn needs(answer: &SizingAnswer) -> String {
    let [accelerators, threshold] =
        [counted(u64::from(answer.accelerators), "accelerator"), percent(answer.threshold_percent)];
    let drives = |count: u32| counted(u64::from(count), unit(answer));
    let need = &answer.need;
    match (need.needed_hosts.zip(need.needed_devices), need.tried_devices) {
        (Some((hosts, devices)), _) => format!(
            "{} like this {} {} for {accelerators} at {threshold}",
            drives(devices),
            if answer.storage_model.is_per_host { "in each of" } else { "on" },
            counted(u64::from(hosts), "host"),
        ),
        (None, Some(most)) => {
            format!("up to {} are not enough for {accelerators} at {threshold}", drives(most))
        }
        (None, None) => "unknown: more of this storage was not simulated".to_string(),
    }
}

fn dataset(answer: &SizingAnswer) -> String {
    let size = &answer.dataset;
    let because = match size.binding {
        Binding::Memory => format!(
            "{MEMORY_MULTIPLE} times {} of memory in {}",
            ByteSize(answer.host_memory_bytes),
            counted(u64::from(answer.hosts), "host")
        ),
        Binding::Steps => format!("{MIN_STEPS} steps per epoch"),
    };
    format!(
        "{}, {} by the rules ({because}), {} per epoch",
        counted(size.files, "file"),
        ByteSize(size.bytes),
        counted(size.steps_per_epoch, "step")
    )
}

fn over_accelerators(answer: &SizingAnswer) -> Table {
    let mut table = Table::of(
        &answer.over_accelerators,
        |at| at.accelerators.to_string(),
        vec![
            number("accelerators", 0, |at: &&AtCount| at.accelerators),
            number("AU %", 0, |at: &&AtCount| Quantity::higher(at.au_percent, "%")),
            word("reached", 0, |at: &&AtCount| match (at.meets, at.prefetch_bound) {
                (true, true) => "prefetched",
                (true, false) => "yes",
                (false, _) => "no",
            }),
            number("samples/s", 1, |at: &&AtCount| {
                Quantity::higher(at.samples_per_second, "samples/s")
            }),
            number("MiB/s", 0, |at: &&AtCount| Quantity::higher(at.mib_per_second, "MiB/s")),
            word("limited by", 0, |at: &&AtCount| limit(at.limited_by, at.storage_part)),
        ],
    );
    let mut rows = answer.over_accelerators.iter();
    if rows.any(|at| reads_less(at.mib_per_second, at.read_mib_per_second)) {
        table
            .footnote("MiB/s are based on the record length; actual reads are smaller".to_string());
    }
    table
}

fn over_devices(answer: &SizingAnswer) -> Table {
    Table::of(
        &answer.over_devices,
        |at| at.devices.to_string(),
        vec![
            number(&format!("{}s", unit(answer)), 0, |at: &&AtCount| at.devices),
            number("most accelerators", 0, |at: &&AtCount| at.accelerators),
            number("MiB/s", 0, |at: &&AtCount| Quantity::higher(at.mib_per_second, "MiB/s")),
            word("limit of one more", 0, |at: &&AtCount| limit(at.limited_by, at.storage_part)),
        ],
    )
}

fn of_checkpoint(checkpoint: &CheckpointTimes) -> Facts {
    let mut facts = Facts::default();
    facts.add("checkpoint", times(checkpoint));
    let (Some(save), Some(interval)) =
        (checkpoint.save_seconds, checkpoint.affordable_interval_seconds)
    else {
        return facts;
    };
    let [save_time, interval] = [save, interval].map(format_duration);
    let cost = percent(AFFORDABLE_PERCENT);
    facts.add("affordable", format!("one every {interval} of training costs {cost} of the time"));
    let Some(optimum) = &checkpoint.optimum else {
        facts.add("optimum", "set --mtbf, the mean time between failures of the job");
        return facts;
    };
    let failure = format!("with a failure every {}", format_duration(optimum.mtbf_seconds));
    let useful = percent(optimum.useful_percent);
    facts.add(
        "optimum",
        if save >= optimum.mtbf_seconds {
            format!("none: {failure} the job fails before a checkpoint is saved")
        } else if optimum.useful_percent < LEAST_USEFUL_PERCENT {
            format!(
                "no useful interval: {failure} and {save_time} to save, training gets at most {useful} \
                 of the time"
            )
        } else {
            let [daly, young] = [optimum.daly_interval_seconds, optimum.young_interval_seconds]
                .map(format_duration);
            format!("one every {daly} (Daly; Young: {young}) {failure}: training gets {useful}")
        },
    );
    facts
}

fn percent(value: f64) -> String {
    let text = format!("{value:.1}");
    format!("{} %", text.trim_end_matches(".0"))
}

#[cfg(test)]
mod tests;
