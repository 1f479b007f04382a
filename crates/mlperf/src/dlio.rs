//! A run by DLIO, mlpstorage or `--mlperf-output` as a document: `summary.json` and the files of
//! the ranks next to it.
//!
//! Only means and extremes are computed. "MB" and "GB" in DLIO's keys are MiB and GiB, and are shown
//! as such.

use std::collections::BTreeMap;

use serde::Deserialize as _;
use serde_json::{Value, json};
use stormlp_core::stats::mean;
use stormlp_core::units::counted;
use stormlp_core::warning::{Warning, WarningKind};
use stormlp_training::plan::client::ClientCost;

use stormlp_show::document::{
    Cell, Col, Document, Facts, Quantity, Table, number as number_column, word,
};
use stormlp_show::records::Records;

use crate::submission::number;

/// The files of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DlioRun {
    /// `summary.json`.
    pub summary: Value,
    /// `RANK_per_epoch_stats.json` of each rank that has one.
    pub stats: Vec<Value>,
    /// `RANK_output.json` of each rank that has one.
    pub outputs: Vec<Value>,
}

/// The columns of the records: epochs, or checkpoints of a run without training.
const RECORDS: [(&str, &str); 12] = [
    ("start", "start"),
    ("num_accelerators", "num_accelerators"),
    ("epoch", "/epoch"),
    ("au_percent", "/au_percent"),
    ("au_percent_lowest_rank", "/au_percent_lowest_rank"),
    ("samples_per_second", "/samples_per_second"),
    ("fetch_wait_seconds_mean", "/fetch_wait_seconds_mean"),
    ("fetch_wait_seconds_max", "/fetch_wait_seconds_max"),
    ("duration_seconds", "/duration_seconds"),
    ("checkpoint", "/checkpoint"),
    ("gib_per_second", "/gib_per_second"),
    ("slowest_rank_seconds", "/slowest_rank_seconds"),
];

/// Whether `value` is a summary of DLIO's.
pub fn is_summary(value: &Value) -> bool {
    value["metric"].is_object() && value["num_accelerators"].is_number()
}

/// The run as a document.
pub fn document(run: &DlioRun) -> Document {
    let mut document = Document::new(headline(run));
    facts(run, &mut document.brief);
    document.warn(&warnings(&run.summary["metric"]));
    let epochs = epochs(run);
    let (rows, table) = if epochs.is_empty() {
        let rows: Vec<Value> =
            ["save", "load"].into_iter().flat_map(|phase| phase_rows(run, phase)).collect();
        let table = table_of_checkpoints(&rows);
        (rows, table)
    } else {
        let table = table(&epochs);
        (epochs, table)
    };
    if !rows.is_empty() {
        document.table(table);
    }
    document.records = Records::new(&run.summary, rows, &RECORDS);
    document
}

/// Warnings about DLIO's figures.
fn warnings(metric: &Value) -> Vec<Warning> {
    let samples = numbers(&metric["train_throughput_samples_per_second"]);
    let nonsense = samples.iter().any(|samples| *samples <= 0.0);
    let warning = || {
        Warning::new(
            WarningKind::TooShort,
            "samples/s of zero or less: DLIO leaves out two steps of each block, and these blocks have \
             two steps or one",
            "use longer blocks: more files, or fewer checkpoints",
        )
    };
    nonsense.then(warning).into_iter().collect()
}

fn headline(run: &DlioRun) -> String {
    let metric = &run.summary["metric"];
    let accelerators = run.summary["num_accelerators"].as_u64().unwrap_or(0);
    let of = counted(accelerators, "accelerator");
    let who = match run.summary.get("stormlp") {
        Some(_) => "stormlp's files",
        None => "DLIO's files",
    };
    if let Some(au) = metric["train_au_mean_percentage"].as_f64() {
        let met = match metric["train_au_meet_expectation"].as_str() {
            Some("success") => ": meets its threshold",
            Some(_) => ": misses its threshold",
            None => "",
        };
        return format!("AU {au:.2} % of {of}{met} ({who})");
    }
    let rate = |prefix: &str, done: &str| {
        let rate = metric[format!("{prefix}_checkpoint_io_mean_GB_per_second")].as_f64()?;
        Some(format!("{done} at {rate:.3} GiB/s"))
    };
    let rates: Vec<String> =
        [rate("save", "saved"), rate("load", "restored")].into_iter().flatten().collect();
    if rates.is_empty() {
        format!("no figures of {of} ({who})")
    } else {
        format!("checkpoints of {of} {} ({who})", rates.join(", "))
    }
}

fn facts(run: &DlioRun, facts: &mut Facts) {
    let summary = &run.summary;
    let text = |key: &str| summary[key].as_str().unwrap_or("unknown").to_string();
    facts.add("ran", format!("{} to {}", text("start"), text("end")));
    let memory: Vec<f64> = numbers(&summary["host_memory_GB"]);
    let gib = || format!("{:.1} GiB of memory in total", memory.iter().sum::<f64>());
    let hosts = [
        summary["num_hosts"].as_u64().map(|hosts| counted(hosts, "host")),
        summary["hostname"].as_str().map(|name| format!("first {name}")),
        (!memory.is_empty()).then(gib),
    ];
    let hosts: Vec<String> = hosts.into_iter().flatten().collect();
    if !hosts.is_empty() {
        facts.add("hosts", hosts.join(", "));
    }
    if let Some(files) = summary["num_files_train"].as_u64().filter(|files| *files > 0) {
        let samples = summary["num_samples_per_file"].as_u64();
        let each = samples.map(|samples| format!(", {} each", counted(samples, "sample")));
        facts.add("data", format!("{}{}", counted(files, "file"), each.unwrap_or_default()));
    }
    let metric = &summary["metric"];
    if let (Some(samples), Some(mib)) = (
        metric["train_throughput_mean_samples_per_second"].as_f64(),
        metric["train_io_mean_MB_per_second"].as_f64(),
    ) {
        let words = format!("{samples:.2} samples/s, {mib:.2} MiB/s by the record length");
        facts.add("throughput", words);
    }
    if let Some(mark) = summary.get("stormlp") {
        let profile = mark["profile"].as_str().unwrap_or("unknown");
        facts.add("made by", format!("stormlp, profile {profile}: not an MLPerf result"));
        if let Some(words) = client(mark) {
            facts.add("client", words);
        }
    }
    let ranks = run.outputs.len().max(run.stats.len());
    if ranks > 0 {
        facts.add("files of", counted(ranks as u64, "rank"));
    }
}

/// Whether stormlp's run includes the work of DLIO; checkpoint runs say only that they do.
fn client(mark: &Value) -> Option<String> {
    let mut client = mark.get("client")?.clone();
    if client.is_null() {
        return Some("none: AU is an upper bound, without DLIO's overhead".to_string());
    }
    // The mark has the times alone.
    client["cpus"] = 1.into();
    Some(match ClientCost::deserialize(&client) {
        Ok(cost) => format!("DLIO's overhead: {cost}"),
        Err(_) => "DLIO's overhead is added".to_string(),
    })
}

/// The epochs by the summary and the ranks' files.
fn epochs(run: &DlioRun) -> Vec<Value> {
    let metric = &run.summary["metric"];
    let au = numbers(&metric["train_au_percentage"]);
    let samples = numbers(&metric["train_throughput_samples_per_second"]);
    let of_epoch = |index: usize, au: &f64| {
        let name = (index + 1).to_string();
        let of_ranks: Vec<f64> = run.outputs.iter().filter_map(|o| rank_au(&o[&name])).collect();
        let waits: Vec<f64> = (run.outputs.iter())
            .flat_map(|output| blocks(&output[&name]["load"]))
            // The first fetch of a block starts the loader; AU does not include it.
            .flat_map(|load| numbers(load).into_iter().skip(1).collect::<Vec<f64>>())
            .collect();
        let most = |values: &[f64], pick: fn(f64, f64) -> f64| values.iter().copied().reduce(pick);
        let seconds = run.stats.first().and_then(|stats| number(&stats[&name]["duration"]));
        json!({
            "epoch": index + 1,
            "au_percent": au,
            "au_percent_lowest_rank": most(&of_ranks, f64::min),
            "samples_per_second": samples.get(index),
            "fetch_wait_seconds_mean": (!waits.is_empty()).then(|| mean(&waits)),
            "fetch_wait_seconds_max": most(&waits, f64::max),
            "duration_seconds": seconds,
        })
    };
    au.iter().enumerate().map(|(index, au)| of_epoch(index, au)).collect()
}

fn table(epochs: &[Value]) -> Table {
    let columns = vec![
        word("epoch", 0, |epoch: &&Value| epoch["epoch"].to_string()),
        column("AU %", 0, "au_percent", "%"),
        column("lowest rank AU %", 2, "au_percent_lowest_rank", "%"),
        column("samples/s", 0, "samples_per_second", "samples/s"),
        column("mean fetch wait s", 1, "fetch_wait_seconds_mean", "s"),
        column("longest wait s", 3, "fetch_wait_seconds_max", "s"),
        column("took s", 1, "duration_seconds", "s"),
    ];
    Table::of(epochs, |epoch| epoch["epoch"].to_string(), columns)
}

/// A column of the figures that rows have under `key`.
fn column<'a>(name: &str, drop: u8, key: &'static str, unit: &'static str) -> Col<'a, &'a Value> {
    number_column(name, drop, move |row: &&Value| match row[key].as_f64() {
        Some(value) => Cell::from(Quantity::neutral(value, unit)),
        None => "-".into(),
    })
}

/// Each save or restore by rank 0, with the time of the slowest rank; without ranks' files the means
/// of the summary.
fn phase_rows(run: &DlioRun, phase: &str) -> Vec<Value> {
    let prefix = format!("{phase}_ckpt");
    // By epoch and number.
    let entries = |stats: &Value| -> BTreeMap<(u64, u64), Value> {
        let epochs = stats.as_object().into_iter().flatten();
        let all = epochs.flat_map(|(epoch, entries)| {
            let entries = entries.as_object().into_iter().flatten();
            entries.map(move |(name, entry)| (epoch, name, entry))
        });
        let own = all.filter_map(|(epoch, name, entry)| {
            let nth = name.strip_prefix(&prefix)?.parse().ok()?;
            Some(((epoch.parse().ok()?, nth), entry.clone()))
        });
        own.collect()
    };
    let of_ranks: Vec<_> = run.stats.iter().map(entries).collect();
    let Some(first) = of_ranks.first().filter(|own| !own.is_empty()) else {
        let mean = |key: &str| number(&run.summary["metric"][format!("{phase}_checkpoint_{key}")]);
        let means = mean("io_mean_GB_per_second").zip(mean("duration_mean_seconds"));
        let row = means.map(|(rate, seconds)| {
            json!({"checkpoint": format!("{phase} mean"), "gib_per_second": rate,
                   "duration_seconds": seconds})
        });
        return row.into_iter().collect();
    };
    let row = |(key, entry): (&(u64, u64), &Value)| {
        let seconds = of_ranks.iter().filter_map(|own| number(&own.get(key)?["duration"]));
        json!({
            "epoch": key.0,
            "checkpoint": format!("{phase} {}", key.1),
            "gib_per_second": number(&entry["throughput"]),
            "duration_seconds": number(&entry["duration"]),
            "slowest_rank_seconds": seconds.reduce(f64::max),
        })
    };
    first.iter().map(row).collect()
}

fn table_of_checkpoints(rows: &[Value]) -> Table {
    let name = |row: &&Value| row["checkpoint"].as_str().unwrap_or_default().to_string();
    let columns = vec![
        word("checkpoint", 0, name),
        column("GiB/s", 0, "gib_per_second", "GiB/s"),
        column("rank 0 took s", 0, "duration_seconds", "s"),
        column("slowest rank took s", 1, "slowest_rank_seconds", "s"),
    ];
    Table::of(rows, name, columns)
}

/// AU of one rank in an epoch: the mean of its blocks, by their steps.
fn rank_au(epoch: &Value) -> Option<f64> {
    let entries = epoch["au"].as_object().into_iter().flatten();
    let blocks = entries.filter(|(name, _)| name.starts_with("block"));
    let (mut sum, mut steps) = (0.0, 0.0);
    for (name, au) in blocks {
        let own = epoch["proc"][name].as_array().map_or(0, Vec::len) as f64;
        sum += own * number(au)?;
        steps += own;
    }
    (steps > 0.0).then(|| sum / steps)
}

/// The blocks of an entry, without evaluations.
fn blocks(entry: &Value) -> Vec<&Value> {
    let entries = entry.as_object().into_iter().flatten();
    let blocks = entries.filter(|(name, _)| name.starts_with("block"));
    blocks.map(|(_, value)| value).collect()
}

fn numbers(list: &Value) -> Vec<f64> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stormlp_show::text;

    #[test]
    fn the_client_fact_shows_whether_dlios_own_work_is_included() {
        let shown = |mark: Value| {
            let summary = json!({"stormlp": mark, "metric": {"train_au_mean_percentage": 80.0}});
            let run = DlioRun { summary, ..DlioRun::default() };
            text::render(&document(&run), None)
        };
        let cost = json!({"step_seconds": 0.00125, "cpu_seconds_per_gib": 0.9, "estimated": true});
        let with = shown(json!({"profile": "v2", "client": cost}));
        let words = "1.25 ms a step, 0.90 CPU s/GiB (estimated)";
        assert!(with.contains(words), "{with}");
        let without = shown(json!({"profile": "v2", "client": null}));
        assert!(without.contains("upper bound"), "{without}");
        let silent = shown(json!({"profile": "v2"}));
        assert!(!silent.contains("upper bound"), "{silent}");
    }

    /// A block of one step, as DLIO computes it.
    #[test]
    fn samples_of_zero_or_less_are_warned_of() {
        let metric = json!({"train_throughput_samples_per_second": [12.0, -9351.8]});
        assert_eq!(warnings(&metric).len(), 1);
        let metric = json!({"train_throughput_samples_per_second": [12.0]});
        assert_eq!(warnings(&metric), []);
    }

    #[test]
    fn a_training_run_of_dlios_is_shown_epoch_by_epoch() {
        let output = |au: f64| {
            json!({"hostname": "n1", "1": {
                "load": {"block1": [9.0, 0.5, 0.25], "block2": [0.5]},
                "proc": {"block1": [9.5, 1.0, 0.75], "block2": [1.0]},
                "au": {"block1": au, "block2": au - 8.0, "eval": 3.0},
            }})
        };
        let run = DlioRun {
            summary: json!({
                "start": "2026-06-01T10:00:00.5", "end": "2026-06-01T10:10:00.5",
                "num_accelerators": 2, "num_hosts": 1, "hostname": "n1",
                "num_files_train": 168, "num_samples_per_file": 1, "host_memory_GB": [64.0],
                "metric": {
                    "train_au_percentage": [92.5], "train_au_mean_percentage": 92.5,
                    "train_au_meet_expectation": "success", "train_au_stdev_percentage": 0.0,
                    "train_throughput_samples_per_second": [40.0],
                    "train_throughput_mean_samples_per_second": 40.0,
                    "train_io_mean_MB_per_second": 5592.4,
                    "eval_au_mean_percentage": 88.0,
                    "eval_throughput_mean_samples_per_second": 12.5,
                    "save_checkpoint_io_mean_GB_per_second": null,
                },
            }),
            stats: vec![json!({"1": {"duration": "600.00"}})],
            // Four steps; the last one is a separate block.
            outputs: vec![output(92.0), output(97.0)],
        };
        assert!(is_summary(&run.summary));
        let shown = document(&run);
        let rows: Vec<Vec<String>> = shown.records.text().collect();
        assert_eq!(rows[0][3..], ["92.5", "90", "40", "0.375", "0.5", "600", "", "", ""]);
        insta::assert_snapshot!(text::render(&shown, None), @"
        ran         2026-06-01T10:00:00.5 to 2026-06-01T10:10:00.5
        hosts       1 host, first n1, 64.0 GiB of memory in total
        data        168 files, 1 sample each
        throughput  40.00 samples/s, 5592.40 MiB/s by the record length
        files of    2 ranks
        ───────────────────────────────────────────────────────────────────────────────────────────
         epoch   AU %   lowest rank AU %   samples/s   mean fetch wait s   longest wait s   took s
        ───────────────────────────────────────────────────────────────────────────────────────────
         1       92.5               90.0        40.0               0.375            0.500      600
        ───────────────────────────────────────────────────────────────────────────────────────────

        AU 92.50 % of 2 accelerators: meets its threshold (DLIO's files)
        ");
    }

    #[test]
    fn a_checkpoint_run_of_dlios_has_a_row_for_each_checkpoint() {
        let of_rank = |slower: f64| {
            let entry = |seconds: f64| json!({"duration": seconds, "throughput": 8.0 / seconds});
            let mut epoch = json!({"start": "2026-06-01T10:00:00", "load_ckpt1": entry(1.0)});
            for number in 1..=10 {
                let seconds = f64::from(number) * slower;
                epoch[format!("save_ckpt{number}")] = entry(seconds);
            }
            json!({ "1": epoch })
        };
        let run = DlioRun {
            summary: json!({
                "start": "2026-06-01T10:00:00", "num_accelerators": 2,
                "metric": {"save_checkpoint_io_mean_GB_per_second": 2.0,
                           "save_checkpoint_duration_mean_seconds": 4.0},
            }),
            stats: vec![of_rank(1.0), of_rank(2.0)],
            outputs: Vec::new(),
        };
        let rows: Vec<Vec<String>> = document(&run).records.text().collect();
        assert_eq!(rows.len(), 11);
        let second = &rows[1];
        assert_eq!((second[2].as_str(), second[8].as_str()), ("1", "2"));
        assert_eq!(second[9..], ["save 2", "4", "4"]);
        assert_eq!(rows[9][9..], ["save 10", "0.8", "20"]);
        assert_eq!(rows[10][9..], ["load 1", "8", "1"]);
        // The summary alone has means.
        let alone = DlioRun { stats: Vec::new(), ..run };
        let rows: Vec<Vec<String>> = document(&alone).records.text().collect();
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0][8].as_str(), rows[0][9].as_str()), ("4", "save mean"));
    }
}
