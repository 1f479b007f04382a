//! Renders a plan's answer for people and as rows for programs, labelled as predicted.

mod answer;
mod charts;
mod presets;
mod words;

use crate::plan::checkpoint::AFFORDABLE_PERCENT;
use crate::plan::{AtCount, CheckpointTimes, SizingAnswer};
use serde_json::Value;
use stormlp_core::units::{counted, format_duration};

use stormlp_show::document::{Document, Facts, Quantity, Table, number, word};
use stormlp_show::html::Sheet;
use stormlp_show::records::Records;

use words::{LEAST_USEFUL_PERCENT, limited, percent, reads_less, times, unit};

pub use presets::presets;

/// Columns of the records and their source: a JSON pointer into a row, or a key of the answer.
const RECORDS: [(&str, &str); 11] = [
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
];

/// Names of the record columns.
pub fn record_columns() -> Vec<&'static str> {
    RECORDS.iter().map(|(name, _)| *name).collect()
}

/// The answer as a document.
pub fn document(answer: &SizingAnswer) -> Document {
    let mut document = Document::new(answer::headline(answer));
    document.facts = facts(answer);
    document.sections.push(answer::section(answer));
    if !answer.range.causes.is_empty() {
        document.details("Range, one assumption changed at a time", Some(range(answer)));
    }
    if !answer.over_accelerators.is_empty() {
        let threshold = percent(answer.threshold_percent);
        let title = format!("By number of accelerators, threshold {threshold}");
        let section = document.details(&title, Some(over_accelerators(answer)));
        section.lines.push("predicted by simulation, not measured".to_string());
    }
    if !answer.over_devices.is_empty() {
        let title = format!("By number of {}s", unit(answer));
        document.details(&title, Some(over_devices(answer)));
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

/// The rows of the answer, and one for each number of accelerators and of drives in the tables. For
/// a number of drives, `accelerators` is the largest number they feed.
fn rows_of_records(answer: &SizingAnswer) -> Vec<Value> {
    let of = |kind: &'static str| {
        move |at: &AtCount| {
            let mut value = serde_json::to_value(at).unwrap_or_default();
            value["row"] = kind.into();
            value
        }
    };
    let rows = answer.rows.iter().map(|row| serde_json::to_value(row).unwrap_or_default());
    let of_accelerators = answer.over_accelerators.iter().map(of("accelerators"));
    let of_drives = answer.over_devices.iter().map(of("drives"));
    rows.chain(of_accelerators).chain(of_drives).collect()
}

/// The answer as an HTML sheet.
pub fn sheet(answer: &SizingAnswer) -> Sheet {
    Sheet::of_answer("plan", document(answer), charts::charts(answer))
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
    facts.add("storage", format!("{} ({})", answer.storage, answer.storage_source));
    facts.add("utilisation", busy);
    let each = answer.accelerators.div_ceil(answer.hosts.max(1));
    let each = counted(u64::from(each), "accelerator");
    facts.add("hosts", format!("{}, at most {each} each", answer.hosts));
    let samples = Quantity::higher(answer.samples_per_second, "samples/s").text();
    facts.add("throughput", format!("{samples} samples/s"));
    facts.add("steps", format!("{} per epoch", answer.dataset.steps_per_epoch));
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
            word("limited by", 0, |at: &&AtCount| limited(answer, at)),
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
            word("limit of one more", 0, |at: &&AtCount| limited(answer, at)),
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

#[cfg(test)]
mod tests;
