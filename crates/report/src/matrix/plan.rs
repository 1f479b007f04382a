//! A plan before it runs: what `--dry-run` prints.

use stormlp_model::facts::Availability;
use stormlp_model::matrix::{FileAction, MatrixPlan, Span};
use stormlp_model::units::format_duration;

use super::numbers::size;
use super::sheet::{Sheet, device_words, files_words, uses_accelerator};
use super::table;

/// The plan as a table: files, memory, engine, and a row for each cell.
pub fn render_plan(plan: &MatrixPlan) -> String {
    let mut sheet = Sheet {
        title: title(plan),
        word_columns: 3,
        ..Sheet::default()
    };
    let header = [
        "path",
        "op",
        "I/O",
        "threads",
        "depth",
        "repeat",
        "asked for",
        "estimate",
    ];
    sheet.header = header.map(str::to_string).to_vec();
    for cell in &plan.cells {
        let last = match &cell.availability {
            Availability::Available => format_duration(cell.estimated_seconds),
            Availability::Unavailable { reason, remedy } => {
                let mark = sheet.footnote(format!("{}: {reason}; {remedy}", cell.path));
                format!("n/a {mark}")
            }
        };
        sheet.rows.push(vec![
            cell.path.to_string(),
            cell.op.to_string(),
            cell.io_size.to_string(),
            cell.threads.to_string(),
            cell.queue_depth.to_string(),
            cell.repeat.to_string(),
            size(cell.requested_bytes),
            last,
        ]);
    }
    sheet.notes = (plan.warnings.iter())
        .map(|warning| format!("warning: {warning}"))
        .collect();
    sheet.notes.push(format!(
        "{} of {} cells can run; about {} in all, if storage moves 1 GiB/s",
        plan.runnable_cells(),
        plan.cells.len(),
        format_duration(plan.estimated_seconds)
    ));
    table::text(&sheet)
}

fn title(plan: &MatrixPlan) -> Vec<String> {
    let devices = match uses_accelerator(plan) {
        true => {
            let words: Vec<String> = plan.memory.devices.iter().map(device_words).collect();
            words.join(", ")
        }
        false => "not used by these paths".to_string(),
    };
    let span = match plan.span {
        Span::Seconds(seconds) => format_duration(seconds),
        Span::Passes(passes) => format!("{passes} passes"),
    };
    let count = |action| {
        plan.files
            .iter()
            .filter(|file| file.action == action)
            .count()
    };
    vec![
        format!("plan of {}: {}", plan.name, files_words(plan)),
        format!(
            "files: {} used as they are, {} made, {} filled ({} to write first)",
            count(FileAction::Use),
            count(FileAction::Allocate),
            count(FileAction::Fill),
            size(plan.layout_bytes)
        ),
        format!("accelerator memory: {devices}"),
        format!(
            "engine {}, page cache {}, {span} a cell after {} of warm-up, buffers {}",
            plan.engine,
            plan.cache.name(),
            format_duration(plan.warmup_seconds),
            size(plan.region_bytes)
        ),
    ]
}
