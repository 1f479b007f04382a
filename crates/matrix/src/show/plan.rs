//! A plan before it runs: the output of `--dry-run`.

use std::collections::BTreeSet;

use crate::plan::{CellPlan, IoSize, LayoutSummary, MatrixPlan};
use stormlp_core::facts::Availability;
use stormlp_core::operation::Operation;
use stormlp_core::path::PathKind;
use stormlp_core::units::{ByteSize, format_duration};

use super::mix;
use super::reach;
use super::run::{files_words, planned_memory, span_words};
use stormlp_show::document::{Document, Table, number, word};
use stormlp_show::hosts::for_each;

/// The plan: files, memory, engine, and one row for each path, operation and size.
///
/// All hosts have the same number of files, but each has an entry in `layouts`, depending on its
/// existing files.
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
    let span = span_words(plan);
    let facts = &mut document.brief;
    let each = for_each(None, layouts.len());
    facts.add("files", format!("{}{each}", files_words(plan)));
    facts.add("", layout_words(layouts));
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
            "{of_files}{span} after {} of warm-up, buffers {} on {} pages",
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

/// The treatment of the files of all hosts before the first cell.
fn layout_words(layouts: &[LayoutSummary]) -> String {
    let of_all: LayoutSummary = layouts.iter().copied().sum();
    let hosts = match layouts.len() {
        0 | 1 => String::new(),
        processes => format!(" by {processes} processes"),
    };
    format!(
        "{} used as they are, {} created, {} of them filled{hosts} ({} to write first)",
        of_all.used,
        of_all.made + of_all.filled,
        of_all.filled,
        ByteSize(of_all.bytes)
    )
}

/// The path, operation and size of cells, the cells, and the text for those that cannot run.
type OfKind<'a> = ((PathKind, Operation, IoSize), Vec<&'a CellPlan>, Option<String>);

/// One row for all threads, depths and repetitions of a path, operation and size.
fn cells(plan: &MatrixPlan) -> Table {
    let mut rows: Vec<OfKind<'_>> = Vec::new();
    for cell in &plan.cells {
        let kind = (cell.transport.path, cell.op, cell.io_size);
        match rows.iter_mut().find(|row| row.0 == kind) {
            Some(row) => row.1.push(cell),
            None => rows.push((kind, vec![cell], None)),
        }
    }
    let can_run =
        |cells: &[&CellPlan]| cells.iter().filter(|cell| cell.availability.is_available()).count();
    let mut notes = Table::default();
    for (_, cells, reason) in rows.iter_mut().filter(|(_, cells, _)| can_run(cells) == 0) {
        *reason = cells.iter().find_map(|cell| cannot_run(cell, &mut notes));
    }
    let columns = vec![
        word("path", 0, |(kind, ..): &OfKind<'_>| kind.0.name()).setting(),
        word("op", 0, |(kind, ..): &OfKind<'_>| kind.1.of_mix(plan.request.read_percent)).setting(),
        word("I/O", 0, |(kind, ..): &OfKind<'_>| kind.2.to_string()).setting(),
        word("threads", 0, |(_, cells, _): &OfKind<'_>| {
            range(cells.iter().map(|cell| cell.transport.threads))
        })
        .setting(),
        word("depth", 0, |(_, cells, _): &OfKind<'_>| {
            range(cells.iter().map(|cell| cell.transport.queue_depth))
        })
        .setting(),
        word("repeats", 0, |(_, cells, _): &OfKind<'_>| {
            cells.iter().map(|cell| cell.repeat).max().unwrap_or(1)
        })
        .setting(),
        number("cells", 0, |(_, cells, reason): &OfKind<'_>| {
            reason.clone().unwrap_or_else(|| can_run(cells).to_string())
        }),
        number("estimate", 0, |(_, cells, _): &OfKind<'_>| match can_run(cells) {
            0 => String::new(),
            _ => format_duration(cells.iter().map(|cell| cell.estimated_seconds).sum()),
        })
        // A search leaves most of its cells out.
        .when(!plan.request.find_knee),
    ];
    Table { footnotes: notes.footnotes, ..Table::of(rows, |_| String::new(), columns) }
}

/// The mark of the reason why a cell cannot run, if so.
fn cannot_run(cell: &CellPlan, notes: &mut Table) -> Option<String> {
    match &cell.availability {
        Availability::Available => None,
        Availability::Unavailable { fact, remedy } => {
            let mark = notes.footnote(format!("{}: {fact}; {remedy}", cell.transport.path));
            Some(format!("n/a {mark}"))
        }
    }
}

/// The distinct values: all of a few, as they are typed, otherwise the smallest and the largest.
fn range(values: impl Iterator<Item = usize>) -> String {
    let values: BTreeSet<usize> = values.collect();
    match (values.first(), values.last()) {
        (Some(least), Some(most)) if values.len() > 4 => format!("{least} to {most}"),
        _ => values.iter().map(usize::to_string).collect::<Vec<_>>().join(","),
    }
}
