//! The plan of a campaign.

use crate::submission::NOTICE;
use crate::submission::plan::{CampaignPlan, PlannedResult};
use stormlp_core::units::{ByteSize, format_duration};

use stormlp_show::document::{Cell, Column, Document, Table};

/// The plan as a document.
pub fn plan(plan: &CampaignPlan) -> Document {
    let time = match plan.estimated_seconds {
        Some(seconds) => format!("about {} (an estimate)", format_duration(seconds)),
        None => "time not estimated".to_string(),
    };
    let mut document = Document::new(format!(
        "MLPerf Storage v{}: at most {} on storage, {time}",
        plan.edition,
        ByteSize(plan.disk_bytes)
    ));
    document.brief.add("time", &plan.estimate);
    let mut table = Table::new([
        Column::words("workload", 0),
        Column::words("accelerator", 2),
        Column::numbers("count", 0),
        Column::numbers("files", 1),
        Column::numbers("on storage", 0),
        Column::numbers("runs", 0),
        Column::numbers("estimated run", 1),
        Column::numbers("estimated total", 0),
    ]);
    for result in &plan.results {
        table.row(result.workload.clone(), row(result));
    }
    document.table(table);
    let numbered = || (1..).zip(&plan.steps);
    let steps = numbered().map(|(number, step)| format!("{number}. {}", step.what));
    document.section("Steps in order (their commands: --details)", None).lines = steps.collect();
    let commands = numbered().filter(|(_, step)| !step.command.is_empty());
    let commands = commands.map(|(number, step)| format!("{number}. {}", step.command));
    document.details("Commands", None).lines = commands.collect();
    document.section("", None).lines.push(NOTICE.to_string());
    document
}

fn row(result: &PlannedResult) -> Vec<Cell> {
    let time = |seconds: Option<f64>| seconds.map_or("-".to_string(), format_duration);
    let files = match result.files {
        0 => "-".to_string(),
        files => files.to_string(),
    };
    vec![
        result.workload.as_str().into(),
        result.accelerator.as_str().into(),
        result.accelerators.to_string().into(),
        files.into(),
        ByteSize(result.disk_bytes).to_string().into(),
        result.runs.to_string().into(),
        time(result.estimated_run_seconds).into(),
        time(result.estimated_seconds).into(),
    ]
}
