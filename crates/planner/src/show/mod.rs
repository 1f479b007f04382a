//! Renders a plan's answer for people and as rows for programs, labelled as predicted.

mod charts;
mod presets;

use crate::plan::checkpoint::AFFORDABLE_PERCENT;
use crate::plan::{AtCount, AtDevices, CheckpointTimes, LimitedBy, SizingAnswer, StoragePart};
use serde::Serialize;
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
    if !answer.range_causes.is_empty() {
        document.details("Range, one assumption changed at a time", Some(range(answer)));
    }
    // The table of what was asked for is on the screen, the other among the details.
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
    let drives = answer.storage_model.devices;
    let of_count = |at: &AtCount| marked(at, "accelerators", ("devices", drives));
    let of_drives =
        |at: &AtDevices| marked(at, "drives", ("accelerators", at.largest_accelerators));
    let mut rows: Vec<Value> = answer.over_accelerators.iter().map(of_count).collect();
    rows.extend(answer.over_devices.iter().map(of_drives));
    if rows.is_empty() {
        let at = AtCount {
            meets: answer.meets_threshold,
            limited_by: answer.limited_by,
            storage_part: answer.storage_part,
            ..AtCount::of(answer.accelerators, &answer.prediction, answer.threshold_percent)
        };
        rows.push(of_count(&at));
    }
    rows
}

/// `row` as JSON, with its kind and one more number.
fn marked(row: &impl Serialize, of: &str, (name, number): (&str, u32)) -> Value {
    let mut value = serde_json::to_value(row).unwrap_or_default();
    value["row"] = of.into();
    value[name] = number.into();
    value
}

/// The answer as an HTML sheet.
pub fn sheet(answer: &SizingAnswer) -> Sheet {
    Sheet::of_answer("plan", document(answer), charts::charts(answer))
}

/// What there can be more of: object stores, each with its own bandwidth, or drives.
fn unit(answer: &SizingAnswer) -> &'static str {
    if answer.storage_model.has_objects() { "store" } else { "drive" }
}

fn headline(answer: &SizingAnswer) -> String {
    let SizingAnswer { accelerators, accelerator, workload, largest_accelerators: largest, .. } =
        answer;
    let up_to = if answer.is_upper_bound() { "up to " } else { "" };
    let au = format!("{up_to}{}", percent(answer.au_percent));
    let threshold = percent(answer.threshold_percent);
    let [low, high] = answer.largest_accelerators_range;
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
    format!("{workload} on {accelerators} {accelerator}: {verdict} (predicted, not measured)")
}

/// What the answer depends on most.
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

/// What the least and the most of the range come from, if they differ from what is likely.
fn ends(answer: &SizingAnswer) -> Option<String> {
    let likely = answer.largest_accelerators;
    let of = |end: u32| {
        let mut causes = answer.range_causes.iter();
        let cause = causes.find(|other| other.largest_accelerators == end && end != likely)?;
        Some(format!("{end} {}", cause.assumption))
    };
    let ends: Vec<String> = answer.largest_accelerators_range.into_iter().filter_map(of).collect();
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
    let busy = percent(answer.prediction.storage_busy_percent);
    let cached = match answer.prediction.cached_percent {
        cached if cached > 0.0 => format!("; {} of the bytes from the page cache", percent(cached)),
        _ => String::new(),
    };
    let link = match answer.prediction.link_busy_percent {
        link if link > 0.0 => format!(", network links {}", percent(link)),
        _ => String::new(),
    };
    let connections = match answer.prediction.connections_busy_percent {
        busy if busy > 0.0 => format!(", connections {}", percent(busy)),
        _ => String::new(),
    };
    facts.add("utilisation", format!("storage {busy}{link}{connections}{cached}"));
    facts.add("dataset", dataset(answer));
    facts.add("run", format!("{} (simulated)", format_duration(answer.run_seconds)));
    facts
}

/// How many accelerators reach the threshold, and their AU, with one assumption changed at a time.
fn range(answer: &SizingAnswer) -> Table {
    let likely = "likely: all assumptions listed below";
    let others = answer.range_causes.iter();
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
    let limit = limit(answer.limited_by, answer.storage_part);
    let unit = unit(answer);
    let part = match answer.storage_part {
        Some(StoragePart::Link) => {
            format!(": the network link of each host; more {unit}s do not help")
        }
        Some(StoragePart::Connections) => format!(
            ": the connections of each host; more {unit}s do not help, more connections= do"
        ),
        Some(StoragePart::Latency) => {
            let storage = &answer.storage_model;
            let (of, more) = match (storage.connections.is_some(), storage.has_objects()) {
                (true, _) => ("latency and bandwidth of a connection", "reader.read_threads"),
                (false, true) => ("latency", "reader.read_threads"),
                (false, false) => ("latency", "reader.read_threads or readahead="),
            };
            format!(
                ": {of}, at this number of reads in flight; more {unit}s do not help, more {more} may"
            )
        }
        Some(StoragePart::Devices) | None => String::new(),
    };
    let now = if answer.asked || answer.largest_accelerators == 0 {
        format!("{limit}{part}")
    } else {
        format!("{limit}, with one accelerator more{part}")
    };
    if answer.is_lower_bound && answer.largest_accelerators == 0 {
        return format!("{now}; storage could feed more");
    }
    if answer.is_lower_bound {
        let alone = match answer.storage_alone_accelerators {
            alone if alone > answer.largest_accelerators => format!(" ({alone} alone)"),
            _ => String::new(),
        };
        return format!(
            "{now}; storage could feed more{alone}: {} ended the search, so {} is a lower bound for what \
             storage feeds",
            answer.search_limited_by.name(),
            answer.largest_accelerators
        );
    }
    now
}

/// The limit, with the limiting part of storage unless that is the drives.
fn limit(limit: LimitedBy, part: Option<StoragePart>) -> String {
    let part = match part {
        Some(StoragePart::Link) => " (link)",
        Some(StoragePart::Connections) => " (connections)",
        Some(StoragePart::Latency) => " (latency)",
        Some(StoragePart::Devices) | None => "",
    };
    format!("{}{part}", limit.name())
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
    match (answer.needed_hosts, answer.needed_devices) {
        (Some(hosts), Some(devices)) => format!(
            "{} like this {} {} for {} at {}",
            counted(u64::from(devices), unit(answer)),
            if answer.storage_model.is_per_host { "in each of" } else { "on" },
            counted(u64::from(hosts), "host"),
            counted(u64::from(answer.accelerators), "accelerator"),
            percent(answer.threshold_percent)
        ),
        _ => match answer.tried_devices {
            Some(most) => format!(
                "up to {} are not enough for {} at {}",
                counted(u64::from(most), unit(answer)),
                counted(u64::from(answer.accelerators), "accelerator"),
                percent(answer.threshold_percent)
            ),
            None => "unknown: more of this storage was not simulated".to_string(),
        },
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
            number(&format!("{}s", unit(answer)), 0, |at: &&AtDevices| at.devices),
            number("most accelerators", 0, |at: &&AtDevices| at.largest_accelerators),
            number("MiB/s", 0, |at: &&AtDevices| Quantity::higher(at.mib_per_second, "MiB/s")),
            word("limit of one more", 0, |at: &&AtDevices| limit(at.limited_by, at.storage_part)),
        ],
    )
}

fn of_checkpoint(checkpoint: &CheckpointTimes) -> Facts {
    let mut facts = Facts::default();
    facts.add("checkpoint", times(checkpoint));
    let Some(save) = checkpoint.save_seconds else { return facts };
    if let Some(interval) = checkpoint.affordable_interval_seconds {
        facts.add(
            "affordable",
            format!(
                "one every {} of training costs {} of the time",
                format_duration(interval),
                percent(AFFORDABLE_PERCENT)
            ),
        );
    }
    match &checkpoint.optimum {
        Some(optimum) if save >= optimum.mtbf_seconds => facts.add(
            "optimum",
            format!(
                "none: with a failure every {} the job fails before a checkpoint is saved",
                format_duration(optimum.mtbf_seconds)
            ),
        ),
        Some(optimum) if optimum.useful_percent < LEAST_USEFUL_PERCENT => facts.add(
            "optimum",
            format!(
                "no useful interval: with a failure every {} and {} to save, training gets at most {} of \
                 the time",
                format_duration(optimum.mtbf_seconds),
                format_duration(save),
                percent(optimum.useful_percent)
            ),
        ),
        None => facts.add("optimum", "set --mtbf, the mean time between failures of the job"),
        Some(optimum) => facts.add(
            "optimum",
            format!(
                "one every {} (Daly; Young: {}) with a failure every {}: training gets {} of the time",
                format_duration(optimum.daly_interval_seconds),
                format_duration(optimum.young_interval_seconds),
                format_duration(optimum.mtbf_seconds),
                percent(optimum.useful_percent)
            ),
        ),
    }
    facts
}

fn percent(value: f64) -> String {
    let text = format!("{value:.1}");
    format!("{} %", text.trim_end_matches(".0"))
}

#[cfg(test)]
mod tests;
