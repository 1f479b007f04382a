//! The columns of v3.0's official report generator, with a rehearsal's mark in each row.

use std::collections::BTreeMap;

use crate::submission::{REHEARSAL_ORGANISATION, model_label};
use serde_json::Value;
use stormlp_checkpoint::plan::{CheckpointPlan, Mode};
use stormlp_core::stats::mean;
use stormlp_training::plan::train_plan::TrainPlan;

/// Columns of every result.
const GENERAL: [&str; 14] = [
    "Public ID",
    "Organization",
    "Division",
    "Benchmark Type",
    "Model",
    "Name",
    "Description",
    "Type",
    "Access Protocol",
    "Availability",
    "RU's",
    "Integrated Client Storage (TiB)",
    "Usable Capacity (TiB)",
    "Provisioned Power (W)",
];
const TRAINING: [&str; 6] = [
    "Accelerator Type",
    "# Client Nodes",
    "Code",
    "Logs",
    "# Simulated Accelerators",
    "Read B/W (GiB/s)",
];
const CHECKPOINTING: [&str; 9] = [
    "Checkpoint Mode",
    "# Client Nodes",
    "DP Instances",
    "Code",
    "Logs",
    "Write B/W (GiB/s)",
    "Write Duration (secs)",
    "Read B/W (GiB/s)",
    "Read Duration (secs)",
];
const VDB: [&str; 11] = [
    "# Client Nodes",
    "Code",
    "Logs",
    "Vector Count",
    "Vector Dimension",
    "Index Type",
    "Queries per Sec",
    "Query Latency (ms)",
    "Recall Percentage",
    "Storage IOPs",
    "Read B/W (GiB/s)",
];
const KV_CACHE: [&str; 3] = ["# Client Nodes", "Code", "Logs"];
const KV_OPTIONS: [&str; 3] =
    ["llama3.1-8b Storage Only", "llama3.1-8b Storage + Mem", "llama3.1-70b Storage Only"];
const KV_FIGURES: [&str; 4] =
    ["Throughput (tok/s)", "Read B/W (GiB/s)", "Write B/W (GiB/s)", "P95 Read Latency (ms)"];

/// Cells of a row by column; the others are empty.
pub(super) struct ResultRow(BTreeMap<String, String>);

/// The columns in order.
pub fn columns() -> Vec<String> {
    let of = |name: &'static str, columns: &'static [&'static str]| {
        columns.iter().map(move |column| format!("{name} - {column}"))
    };
    let general = GENERAL.iter().map(ToString::to_string);
    let kv = KV_OPTIONS.iter().flat_map(|option| {
        KV_FIGURES.iter().map(move |figure| format!("KVCache {option} - {figure}"))
    });
    general
        .chain(of("Training", &TRAINING))
        .chain(of("Checkpointing", &CHECKPOINTING))
        .chain(of("VDB", &VDB))
        .chain(of("KVCache", &KV_CACHE))
        .chain(kv)
        .collect()
}

/// Header and row.
pub(super) fn csv(row: &ResultRow) -> String {
    let columns = columns();
    let cells = columns.iter().map(|column| row.0.get(column).map_or("", String::as_str));
    let mut writer = csv::Writer::from_writer(Vec::new());
    // Both have a field for each column, and writing to memory does not fail.
    let header = writer.write_record(&columns);
    let written = header.and_then(|()| writer.write_record(cells));
    let bytes = written.ok().and_then(|()| writer.into_inner().ok()).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl ResultRow {
    fn general(benchmark: &str, model: &str, system: &str, version: &str) -> Self {
        let mark = format!(
            "rehearsal by stormlp {version}; not an MLPerf result, not verified by MLCommons Association"
        );
        let cells = [
            ("Public ID", "REHEARSAL"),
            ("Organization", REHEARSAL_ORGANISATION),
            ("Division", "REHEARSAL"),
            ("Benchmark Type", benchmark),
            ("Model", model),
            ("Name", system),
            ("Description", &mark),
        ]
        .map(|(column, cell)| (column.to_string(), cell.to_string()));
        Self(cells.into_iter().collect())
    }

    fn put(&mut self, column: &str, value: Option<String>) {
        if let Some(value) = value {
            self.0.insert(column.to_string(), value);
        }
    }

    /// A training result; it has a rate only if each scored run has one.
    pub(super) fn training(
        plan: &TrainPlan,
        system: &str,
        version: &str,
        mib_per_second: Option<&[f64]>,
    ) -> Self {
        let model = model_label(&plan.workload);
        let mut row = Self::general("training", model, system, version);
        let rate = mib_per_second.filter(|rates| !rates.is_empty());
        row.put("Training - Accelerator Type", Some(plan.accelerator.clone()));
        row.put("Training - # Client Nodes", Some("1".to_string()));
        row.put("Training - # Simulated Accelerators", Some(plan.accelerators.to_string()));
        let rate = rate.map(|rates| format!("{:.2}", mean(rates) / 1024.0));
        row.put("Training - Read B/W (GiB/s)", rate);
        row
    }

    /// A checkpointing result with the `metric` of its summary.
    pub(super) fn checkpointing(
        plan: &CheckpointPlan,
        system: &str,
        version: &str,
        metric: &Value,
    ) -> Self {
        let model = model_label(&plan.model);
        let mut row = Self::general("checkpointing", model, system, version);
        let mode = match plan.mode {
            Mode::Default => "Full",
            Mode::Subset => "Subset",
        };
        let figure = |key: &str| metric[key].as_f64().map(|value| format!("{value:.2}"));
        for (column, value) in [
            ("Checkpoint Mode", Some(mode.to_string())),
            ("# Client Nodes", Some("1".to_string())),
            ("DP Instances", Some(plan.layout.parallelism.data.to_string())),
            ("Write B/W (GiB/s)", figure("save_checkpoint_io_mean_GB_per_second")),
            ("Write Duration (secs)", figure("save_checkpoint_duration_mean_seconds")),
            ("Read B/W (GiB/s)", figure("load_checkpoint_io_mean_GB_per_second")),
            ("Read Duration (secs)", figure("load_checkpoint_duration_mean_seconds")),
        ] {
            row.put(&format!("Checkpointing - {column}"), value);
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_official_and_the_row_is_marked() {
        let row = ResultRow::general("training", "Unet3D", "a \"fast\", one", "1.2.3");
        insta::assert_snapshot!(csv(&row));
    }
}
