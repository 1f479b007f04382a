//! A plan before it runs: the output of `--dry-run`.

use std::collections::{BTreeSet, HashSet};

use crate::plan::{CellPlan, CellSpan, LayoutSummary, MatrixPlan};
use stormlp_core::facts::Availability;
use stormlp_core::units::{ByteSize, format_duration};

use super::mix;
use super::reach;
use super::run::{files_words, planned_memory};
use stormlp_show::document::{Column, Document, Table};
use stormlp_show::hosts::on_each;

/// Maximum number of cells that a screen lists one by one.
const AT_A_GLANCE: usize = 8;

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
    let most = if plan.request.find_knee { "at most " } else { "" };
    facts.add("files", format!("{most}{}{each}", files_words(plan, &plan.files)));
    facts.add("", layout_words(plan, layouts));
    if let Some(percent) = plan.request.read_percent {
        facts.add("mix", mix::words(percent));
    }
    facts.add("memory", planned_memory(plan));
    let of_files = match plan.request.uses_objects() {
        true => String::new(),
        false => format!(
            "engine {}, page cache {}, ",
            plan.engines_in_words(),
            plan.request.cache.name()
        ),
    };
    facts.add(
        "how",
        format!(
            "{of_files}{span} per cell after {} of warm-up, buffers {} on {} pages",
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
    if plan.cells.len() > AT_A_GLANCE {
        document.table(combinations(plan));
        document.details("All cells", Some(cells(plan)));
    } else {
        document.table(cells(plan));
    }
    document.warn(&plan.warnings);
    document
}

/// What happens to the files of all hosts before the first cell.
fn layout_words(plan: &MatrixPlan, layouts: &[LayoutSummary]) -> String {
    let of_all: LayoutSummary = layouts.iter().copied().sum();
    let hosts = match layouts.len() {
        0 | 1 => String::new(),
        hosts => format!(" by the {hosts} hosts"),
    };
    let when = if plan.request.find_knee { "as the search needs them" } else { "first" };
    format!(
        "{} used as they are, {} created, {} of them filled{hosts} ({} to write {when})",
        of_all.used,
        of_all.made + of_all.filled,
        of_all.filled,
        ByteSize(of_all.bytes)
    )
}

/// One row for all threads, depths and repetitions of a path, operation and size.
fn combinations(plan: &MatrixPlan) -> Table {
    let words = ["path", "op", "I/O", "threads", "depth", "repeats"].map(Column::setting);
    let mut columns: Vec<Column> = words.into_iter().chain([Column::numbers("cells", 0)]).collect();
    // A search leaves most of its cells out.
    let is_search = plan.request.find_knee;
    if !is_search {
        columns.push(Column::numbers("estimate", 0));
    }
    let mut table = Table::new(columns);
    let kind = |cell: &CellPlan| (cell.transport.path, cell.op, cell.io_size);
    let mut kinds: Vec<_> = plan.cells.iter().map(kind).collect();
    let mut seen = HashSet::new();
    kinds.retain(|kind| seen.insert(*kind));
    for (path, op, io_size) in kinds {
        let cells = plan.cells.iter().filter(|cell| kind(cell) == (path, op, io_size));
        let cells: Vec<&CellPlan> = cells.collect();
        let values = |of: fn(&CellPlan) -> usize| range(cells.iter().map(|cell| of(cell)));
        let can_run = cells.iter().filter(|cell| cell.availability.is_available()).count();
        let number = cells.iter().find_map(|cell| match &cell.availability {
            Availability::Unavailable { fact, remedy } if can_run == 0 => {
                Some(format!("n/a {}", table.footnote(format!("{path}: {fact}; {remedy}"))))
            }
            _ => None,
        });
        let mut row = vec![
            path.name().into(),
            op.of_mix(plan.request.read_percent).into(),
            io_size.to_string().into(),
            values(|cell| cell.transport.threads).into(),
            values(|cell| cell.transport.queue_depth).into(),
            cells.iter().map(|cell| cell.repeat).max().unwrap_or(1).to_string().into(),
            number.unwrap_or_else(|| can_run.to_string()).into(),
        ];
        if !is_search {
            let seconds = cells.iter().map(|cell| cell.estimated_seconds).sum();
            row.push(if can_run > 0 { format_duration(seconds).into() } else { "".into() });
        }
        table.row("", row);
    }
    table
}

/// The distinct values: all of a few, as they are typed, else the least and the most.
fn range(values: impl Iterator<Item = usize>) -> String {
    let values: BTreeSet<usize> = values.collect();
    match (values.first(), values.last()) {
        (Some(least), Some(most)) if values.len() > 4 => format!("{least} to {most}"),
        _ => values.iter().map(usize::to_string).collect::<Vec<_>>().join(","),
    }
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
