//! A plan before it runs: the output of `--dry-run`.

use crate::plan::{CellSpan, LayoutSummary, MatrixPlan};
use stormlp_core::facts::Availability;
use stormlp_core::units::{ByteSize, format_duration};

use super::mix;
use super::reach;
use super::run::{files_words, planned_memory};
use stormlp_show::document::{Column, Document, Table};
use stormlp_show::hosts::on_each;

/// The plan: files, memory, engine, and one row for each cell.
///
/// All hosts have the same number of files, but each has its own entry in `layouts`, depending on
/// its existing files.
pub fn plan(plan: &MatrixPlan, layouts: &[LayoutSummary]) -> Document {
    let what = if plan.request.find_knee {
        "a search for knees, which runs only as many of these cells as it needs"
    } else {
        plan.request.name.as_str()
    };
    let mut document = Document::new(format!(
        "plan of {what}: {} of {} cells can run; about {} in total, if storage moves 1 GiB/s",
        plan.runnable_cells(),
        plan.cells.len(),
        format_duration(plan.estimated_seconds)
    ));
    let span = match plan.request.span() {
        CellSpan::Seconds(seconds) => format_duration(seconds),
        CellSpan::Passes(passes) => format!("{passes} passes"),
    };
    let facts = &mut document.brief;
    let each = on_each(layouts.len());
    facts.add("files", format!("{}{each}", files_words(plan)));
    facts.add("", layout_words(layouts));
    if let Some(percent) = plan.request.read_percent {
        facts.add("mix", mix::words(percent));
    }
    facts.add("memory", planned_memory(plan));
    facts.add(
        "how",
        format!(
            "engine {}, page cache {}, {span} per cell after {} of warm-up, buffers {} on {} pages",
            plan.engines_in_words(),
            plan.request.cache.name(),
            format_duration(plan.request.warmup_seconds),
            ByteSize(plan.region_bytes),
            plan.pages().name()
        ),
    );
    if let Some(words) = plan.threads_in_words() {
        document.brief.add("threads", words);
    }
    if let Some(words) = reach::fsync_words(plan) {
        document.brief.add("fsync", words);
    }
    document.table(cells(plan));
    document.warn(&plan.warnings);
    document
}

/// What happens to the files of all hosts before the first cell.
fn layout_words(layouts: &[LayoutSummary]) -> String {
    let of_all: LayoutSummary = layouts.iter().copied().sum();
    let hosts = match layouts.len() {
        0 | 1 => String::new(),
        hosts => format!(" by the {hosts} hosts"),
    };
    format!(
        "{} used as they are, {} created, {} filled{hosts} ({} to write first)",
        of_all.used,
        of_all.made,
        of_all.filled,
        ByteSize(of_all.bytes)
    )
}

fn cells(plan: &MatrixPlan) -> Table {
    let words = ["path", "op", "I/O"].map(Column::setting);
    let settings = ["threads", "depth", "repeat"].map(Column::number_setting);
    let moves = match plan.request.span() {
        CellSpan::Seconds(_) => "files",
        CellSpan::Passes(_) => "moves",
    };
    let numbers = [moves, "estimate"].map(|name| Column::numbers(name, 0));
    let mut table = Table::new(words.into_iter().chain(settings).chain(numbers));
    for cell in &plan.cells {
        let estimate = match &cell.availability {
            Availability::Available => format_duration(cell.estimated_seconds),
            Availability::Unavailable { fact, remedy } => {
                let mark = table.footnote(format!("{}: {fact}; {remedy}", cell.transport.path));
                format!("n/a {mark}")
            }
        };
        table.row(
            "",
            vec![
                cell.transport.path.name().into(),
                cell.op.of_mix(plan.request.read_percent).into(),
                cell.io_size.to_string().into(),
                cell.transport.threads.to_string().into(),
                cell.transport.queue_depth.to_string().into(),
                cell.repeat.to_string().into(),
                ByteSize(cell.requested_bytes).to_string().into(),
                estimate.into(),
            ],
        );
    }
    table
}
